//! Protected paths stay where they are, and folders of a program's own are open in the middle of them.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use patchboard_tools::sandbox::{CommandExit, CommandSpec, FilesystemView, Jail, Spawner, StdinMode};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;

use crate::support::{jailer, lacks_landlock};

/// A home with a data directory some levels deep in it.
struct Home {
    _dir: TempDir,
    home: PathBuf,
    data: PathBuf,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap().join("home");
        let data = home.join(".local/share/board");
        fs::create_dir_all(data.join("mcp/mine")).unwrap();
        fs::create_dir_all(data.join("mcp/others")).unwrap();
        fs::write(data.join("token"), "SECRET").unwrap();
        Self { _dir: dir, home, data }
    }

    fn jail(&self, view: FilesystemView) -> Jail {
        let folder = || File::open(&self.home).unwrap().into();
        let writable = if view == FilesystemView::Everything { vec![] } else { vec![folder()] };
        Jail { view, writable, protected: vec![self.data.clone()], ..Jail::for_folder(folder()).unwrap() }
    }
}

fn spawners() -> [Spawner; 2] {
    [Spawner::new(jailer()).unwrap(), Spawner::without_namespaces(jailer()).unwrap()]
}

async fn run(spawner: &Spawner, jail: Jail, script: &str) -> (String, CommandExit) {
    let arguments = vec!["-c".to_owned(), script.to_owned()];
    let program = CommandSpec { program: "bash".into(), arguments, stdin: StdinMode::Null };
    let mut jailed = spawner.spawn(jail, program).await.unwrap();
    let mut text = String::new();
    jailed.take_stdout().unwrap().read_to_string(&mut text).await.unwrap();
    (text, jailed.wait().await.unwrap())
}

#[tokio::test]
async fn no_folder_that_leads_to_a_protected_one_can_be_replaced() {
    if lacks_landlock(1) {
        return;
    }
    let script = "for folder in .local/share/board .local/share .local; do mv $folder aside; done; \
                  mkdir -p .local/share/board; echo planted > .local/share/board/token; exit 0";
    for spawner in spawners() {
        for view in [FilesystemView::Named, FilesystemView::ReadEverything, FilesystemView::Everything] {
            let home = Home::new();
            let inode = || fs::metadata(home.home.join(".local")).unwrap().ino();
            let before = inode();
            run(&spawner, home.jail(view), script).await;
            assert_eq!(fs::read_to_string(home.data.join("token")).unwrap(), "SECRET", "{view:?}");
            assert_eq!(inode(), before, "{view:?}");
        }
    }
}

#[tokio::test]
async fn what_lies_beside_them_is_changed_as_usual() {
    if lacks_landlock(1) {
        return;
    }
    for spawner in spawners() {
        let home = Home::new();
        fs::create_dir(home.home.join("work")).unwrap();
        run(&spawner, home.jail(FilesystemView::ReadEverything), "echo mine > work/file; mv work/file work/other")
            .await;
        assert_eq!(fs::read_to_string(home.home.join("work/other")).unwrap(), "mine\n");
    }
}

#[tokio::test]
async fn a_folder_of_its_own_is_open_beneath_protected_ones() {
    if lacks_landlock(1) {
        return;
    }
    let script = "cd $HOME_OF_DATA/mcp/mine && echo made > file && cat file; pwd; cat ../../token; ls ../others; \
                  echo x > ../others/file; exit 0";
    for spawner in spawners() {
        for view in [FilesystemView::Named, FilesystemView::ReadEverything, FilesystemView::Everything] {
            let home = Home::new();
            let mut jail = home.jail(view);
            let own = home.data.join("mcp/mine");
            jail.folder = File::open(&own).unwrap().into();
            jail.private = vec![own.clone()];
            jail.environment.insert("HOME_OF_DATA".to_owned(), home.data.display().to_string());
            let (text, _) = run(&spawner, jail, script).await;
            assert_eq!(text, format!("made\n{}\n", own.display()), "{view:?}");
            assert_eq!(fs::read_to_string(own.join("file")).unwrap(), "made\n", "{view:?}");
            assert!(!home.data.join("mcp/others/file").exists(), "{view:?}");
        }
    }
}

#[tokio::test]
async fn a_link_that_leads_to_protected_files_is_not_given_to_a_worker() {
    for spawner in spawners() {
        let home = Home::new();
        std::os::unix::fs::symlink(&home.data, home.home.join("link")).unwrap();
        let jail = Jail { protected: vec![home.home.join("link/token")], ..home.jail(FilesystemView::ReadEverything) };
        let program = CommandSpec { program: "true".into(), arguments: vec![], stdin: StdinMode::Null };
        let refused = spawner.spawn(jail, program).await.unwrap_err().to_string();
        assert!(refused.contains("link` leads to protected files"), "{refused}");
    }
}
