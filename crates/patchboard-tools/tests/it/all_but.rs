//! Jails in which everything may be used but what is protected: where that is covered, where it can only be granted
//! around, and for a user without privileges.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use patchboard_tools::sandbox::{CommandSpec, FilesystemView, Jail, Spawner, StdinMode};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;

use crate::support::{jailer, lacks_landlock};

const NOBODY: u32 = 65_534;

/// `data` is protected, and so is `elsewhere/key`.
struct Fixture {
    dir: TempDir,
    home: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        for folder in ["data/inner", "elsewhere", "project"] {
            fs::create_dir_all(home.join(folder)).unwrap();
        }
        for file in ["data/token", "data/inner/token", "elsewhere/key"] {
            fs::write(home.join(file), "SECRET\n").unwrap();
        }
        for file in ["note", "elsewhere/note", "project/note"] {
            fs::write(home.join(file), "plain\n").unwrap();
        }
        symlink("../data", home.join("project/way-in")).unwrap();
        Self { dir, home }
    }

    fn jail(&self, folder: &str) -> Jail {
        let mut jail = Jail::for_folder(File::open(self.home.join(folder)).unwrap().into()).unwrap();
        jail.view = FilesystemView::Everything;
        jail.writable = Vec::new();
        jail.protected = vec![self.home.join("data"), self.home.join("elsewhere/key"), self.home.join("data/inner")];
        jail
    }
}

struct Told {
    text: String,
    /// The namespace was not to be had.
    is_granted_around: bool,
}

async fn run(jail: Jail, script: &str) -> Told {
    let spawner = Spawner::new(jailer()).unwrap();
    let arguments = vec!["-c".to_owned(), script.to_owned()];
    let program = CommandSpec { program: "sh".into(), arguments, stdin: StdinMode::Null };
    let mut jailed = spawner.spawn(jail, program).await.unwrap();
    let mut text = String::new();
    jailed.take_stdout().unwrap().read_to_string(&mut text).await.unwrap();
    jailed.wait().await.unwrap();
    Told { text, is_granted_around: jailed.confinement().has_closed_parts }
}

/// Every way to the secrets that a command might try, without a word about the failures.
fn burglary(home: &Path, server: u32) -> String {
    let home = home.display();
    format!(
        "exec 2>/dev/null; cat {home}/data/token {home}/data/inner/token {home}/elsewhere/key
        cat {home}/project/way-in/token; cat ./token; cat ./inner/token; cat data/token; cat $PWD/token
        cat /proc/{server}/root{home}/data/token /proc/$PPID/root{home}/data/token
        cat /proc/{server}/cwd{home}/data/token; tr '\\0' '\\n' < /proc/{server}/environ | head -n 1
        umount {home}/data; umount -l {home}/elsewhere/key; cat {home}/data/token {home}/elsewhere/key
        unshare -Urm sh -c 'umount {home}/data; umount {home}/elsewhere/key; cat {home}/data/token {home}/elsewhere/key'
        nsenter -t {server} -m cat {home}/data/token; mv {home}/data {home}/moved && cat {home}/moved/token
        ln {home}/elsewhere/key {home}/project/linked && cat {home}/project/linked
        echo gone > {home}/data/token; rm -r {home}/data; rm {home}/elsewhere/key; echo tried"
    )
}

#[tokio::test]
async fn what_is_protected_cannot_be_had() {
    if lacks_landlock(1) {
        return;
    }
    // Also for a command that starts inside of it.
    for folder in [".", "data", "data/inner", "elsewhere"] {
        let fixture = Fixture::new();
        let told = run(fixture.jail(folder), &burglary(&fixture.home, std::process::id())).await;
        assert_eq!(told.text, "tried\n", "from {folder}");
        for file in ["data/token", "data/inner/token", "elsewhere/key"] {
            assert_eq!(fs::read_to_string(fixture.home.join(file)).unwrap(), "SECRET\n", "{file}");
        }
    }
}

#[tokio::test]
async fn everything_else_is_as_usual() {
    let fixture = Fixture::new();
    let script = "cat note elsewhere/note project/note; echo new > project/new; cat project/new; ls project
        mv project/new elsewhere/new && cat elsewhere/new; test -r /etc/passwd && echo passwd; sh -c 'echo $0'";
    let told = run(fixture.jail("."), script).await;
    assert_eq!(told.text, "plain\nplain\nplain\nnew\nnew\nnote\nway-in\nnew\npasswd\nsh\n");
    // Right beside what is protected too, where it is covered; else that is closed.
    let script = "echo new > made && cat made; mkdir folder && echo new > folder/made && ls";
    let told = run(fixture.jail("."), &format!("exec 2>/dev/null; {script}")).await;
    let expected = if told.is_granted_around { "" } else { "new\ndata\nelsewhere\nfolder\nmade\nnote\nproject\n" };
    assert_eq!(told.text, expected);
}

/// Whoever is in a jail cannot cover anything.
#[tokio::test]
async fn where_nothing_can_be_covered_the_rest_is_granted() {
    if lacks_landlock(1) {
        return;
    }
    let fixture = Fixture::new();
    let mut outer = fixture.jail(".");
    outer.protected = Vec::new();
    let inner = "exec 2>/dev/null; cat data/token project/way-in/token; (cd data && cat token); cat note project/note
        echo new > project/new; cat project/new; echo new > made; ls; ls project";
    outer.environment.insert("SCRIPT".to_owned(), inner.to_owned());
    let protected = fixture.home.join("data");
    let script = format!("{} all-but {} \"$SCRIPT\"", jailer().display(), protected.display());
    assert_eq!(run(outer, &script).await.text, "plain\nplain\nnew\nnew\nnote\nway-in\n");
    assert!(!fixture.home.join("made").exists());
}

/// The server's user need not be root, and where tests are, this one is not.
#[tokio::test]
async fn a_user_without_privileges_is_kept_out_as_well() {
    if lacks_landlock(1) {
        return;
    }
    let fixture = Fixture::new();
    let mut command = Command::new(jailer());
    let script = format!(
        "{}; cat note; echo $HOME; id -u; cd /; echo \"$(cat /proc/self/status)\" | grep CapEff",
        burglary(&fixture.home, std::process::id())
    );
    command
        .arg("all-but")
        .arg(fixture.home.join("data"))
        .arg(script)
        .current_dir(&fixture.home)
        .env("TMPDIR", fixture.dir.path());
    let mut user = rustix::process::geteuid().as_raw();
    if user == 0 {
        user = NOBODY;
        command.uid(NOBODY).gid(NOBODY);
        for place in [".", "data", "data/inner", "elsewhere", "project"] {
            let place = fixture.home.join(place);
            fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).unwrap();
            std::os::unix::fs::chown(place, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
    // `elsewhere/key` is not protected here.
    fs::remove_file(fixture.home.join("elsewhere/key")).unwrap();
    let told = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
    let Ok(told) = told else {
        println!("skipped: another user cannot start the jailer where it lies");
        return;
    };
    let text = String::from_utf8(told.stdout).unwrap();
    let [tried, note, home, id, capabilities] = text.lines().collect::<Vec<_>>()[..] else {
        panic!("{text} {}", String::from_utf8_lossy(&told.stderr))
    };
    assert_eq!((tried, note, id), ("tried", "plain", user.to_string().as_str()));
    assert!(home.ends_with("/home") && capabilities.ends_with("\t0000000000000000"), "{text}");
    assert_eq!(fs::read_to_string(fixture.home.join("data/token")).unwrap(), "SECRET\n");
}
