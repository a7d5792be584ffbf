use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tempfile::TempDir;

use super::*;

const SECRET: &str = "secret";

/// ```text
/// outside.txt  away/outside.txt          what must never be read: both say `secret`
/// work/                                  the working folder
///   file.txt  sub/deep/file.txt          say what their path is
///   data/store.db  token                 protected
/// ```
struct Playground {
    dir: TempDir,
    folder: WorkFolder,
}

impl Playground {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for folder in ["away", "work/sub/deep", "work/data"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for path in ["outside.txt", "away/outside.txt", "work/data/store.db", "work/token"] {
            fs::write(at(path), SECRET).unwrap();
        }
        for path in ["file.txt", "sub/deep/file.txt"] {
            fs::write(at("work").join(path), path).unwrap();
        }
        let folder =
            WorkFolder::open(at("work"), vec![at("work/data"), at("work/token"), at("not-there/key")]).unwrap();
        Self { dir, folder }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.at("work").join(name)).unwrap();
    }

    /// What a path leads to: a file's text, `<folder>`, or the refusal.
    fn see(&self, path: &str) -> String {
        match self.folder.open_path(path) {
            Ok(OpenedPath::File(mut file)) => {
                let mut text = String::new();
                file.read_to_string(&mut text).unwrap();
                text
            }
            Ok(OpenedPath::Folder(_)) => "<folder>".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    fn check(&self, cases: &[(&str, &str)]) {
        for (path, expected) in cases {
            assert_eq!(self.see(path), *expected, "{path}");
        }
    }
}

fn outside(path: &str) -> String {
    format!("`{path}` leads outside the working folder: only what lies inside it can be opened")
}

fn closed(path: &str) -> String {
    format!("`{path}` is closed to tools: it belongs to the server's own data or keys")
}

#[test]
fn paths_inside_are_opened() {
    Playground::new().check(&[
        ("file.txt", "file.txt"),
        ("./file.txt", "file.txt"),
        ("sub/deep/file.txt", "sub/deep/file.txt"),
        ("sub//deep/./file.txt", "sub/deep/file.txt"),
        ("sub/deep/../../file.txt", "file.txt"),
        ("sub/deep/../deep/file.txt", "sub/deep/file.txt"),
        (".", "<folder>"),
        ("./", "<folder>"),
        ("sub/..", "<folder>"),
        ("sub/", "<folder>"),
    ]);
}

#[test]
fn bad_paths_are_refused_with_a_reason() {
    let play = Playground::new();
    let loops = "a/../".repeat(600);
    fs::create_dir(play.at("work/a")).unwrap();
    play.check(&[
        ("", "`path` is empty: name a file or folder, or `.` for the working folder itself"),
        ("file\0.txt", "`path` holds a NUL character, which no file name can"),
        (&"x".repeat(5000), "`path` is longer than 4096 bytes"),
        (&"x".repeat(300), &format!("`{}…` cannot be opened: a name in it is too long", "x".repeat(240))),
        ("nope.txt", "`nope.txt` does not exist"),
        ("sub/nope/x.txt", "`sub/nope` does not exist"),
        ("file.txt/x", "`file.txt` is not a folder, so nothing lies beneath it"),
        ("file.txt/..", "`file.txt` is not a folder, so nothing lies beneath it"),
        ("new\nline", "`new\\nline` does not exist"),
        (&loops, &format!("`{}…` has too many steps or symlinks, perhaps a loop", &loops[..240])),
    ]);
}

#[test]
fn no_path_leads_out() {
    let play = Playground::new();
    let absolute = play.at("outside.txt").display().to_string();
    let beside = play.at("work-beside").display().to_string();
    let back_out = play.at("work/../outside.txt").display().to_string();
    for path in [
        "..",
        "../outside.txt",
        "sub/../../outside.txt",
        "sub/../..",
        "/",
        "/etc/passwd",
        &absolute,
        &beside,
        &back_out,
    ] {
        assert_eq!(play.see(path), outside(path));
    }
}

#[test]
fn an_absolute_path_into_the_folder_is_the_relative_one() {
    let play = Playground::new();
    let root = play.folder.path().to_owned();
    for (path, expected) in
        [("", "<folder>"), ("file.txt", "file.txt"), ("sub/../file.txt", "file.txt"), ("nope", "`nope` does not exist")]
    {
        assert_eq!(play.see(&root.join(path).display().to_string()), expected);
    }
    let token = root.join("token").display().to_string();
    assert_eq!(play.see(&token), closed("token"));
}

#[test]
fn symlinks_are_followed_only_inside() {
    let play = Playground::new();
    play.link("sub/deep/file.txt", "near");
    play.link("sub", "folder");
    play.link(play.folder.path().join("file.txt"), "absolute-near");
    symlink("../../file.txt", play.at("work/sub/deep/up")).unwrap();
    play.check(&[
        ("near", "sub/deep/file.txt"),
        ("folder", "<folder>"),
        ("folder/deep/file.txt", "sub/deep/file.txt"),
        // Up from where the symlink leads, as the kernel would.
        ("folder/../file.txt", "file.txt"),
        ("absolute-near", "file.txt"),
        ("folder/deep/up", "file.txt"),
    ]);

    play.link("../outside.txt", "out");
    play.link("../away", "out-folder");
    play.link(play.at("outside.txt"), "absolute-out");
    play.link("out", "chain");
    play.link("chain", "longer-chain");
    play.link("/proc/self/environ", "environment");
    play.link("sub/../../outside.txt", "roundabout");
    play.link("../work/file.txt", "out-and-in");
    for path in [
        "out",
        "out-folder",
        "out-folder/outside.txt",
        "absolute-out",
        "chain",
        "longer-chain",
        "environment",
        "roundabout",
        "out-and-in",
        "folder/../out",
    ] {
        assert_eq!(play.see(path), outside(path));
    }

    play.link("loop-b", "loop-a");
    play.link("loop-a", "loop-b");
    play.link("nowhere", "dangling");
    play.check(&[
        ("loop-a", "`loop-a` has too many steps or symlinks, perhaps a loop"),
        ("dangling", "`nowhere` does not exist"),
    ]);
}

#[test]
fn protected_paths_are_closed_however_they_are_reached() {
    let play = Playground::new();
    play.link("data", "other-name");
    play.link("data/store.db", "straight-in");
    play.link("token", "token-link");
    fs::hard_link(play.at("work/token"), play.at("work/sub/token-hard-link")).unwrap();
    for (path, named) in [
        ("data", "data"),
        ("data/store.db", "data"),
        ("data/nope", "data"),
        ("data/..", "data"),
        ("sub/../data/store.db", "data"),
        ("other-name/store.db", "data"),
        ("straight-in", "data"),
        ("token", "token"),
        ("token-link", "token"),
        ("sub/token-hard-link", "sub/token-hard-link"),
    ] {
        assert_eq!(play.see(path), closed(named), "{path}");
    }
}

#[test]
fn a_key_stays_closed_when_it_is_replaced_or_appears_later() {
    let play = Playground::new();
    fs::write(play.at("work/token.new"), SECRET).unwrap();
    fs::rename(play.at("work/token.new"), play.at("work/token")).unwrap();
    assert_eq!(play.see("token"), closed("token"));

    // The folder of a key that was not there when the working folder was opened, linked into it.
    fs::create_dir(play.at("not-there")).unwrap();
    fs::write(play.at("not-there/key"), SECRET).unwrap();
    fs::hard_link(play.at("not-there/key"), play.at("work/key")).unwrap();
    assert_eq!(play.see("key"), closed("key"));
    fs::remove_file(play.at("not-there/key")).unwrap();
    assert_eq!(play.see("key"), SECRET, "no longer a key");
}

#[test]
fn tools_are_closed_while_it_cannot_be_known_what_to_protect() {
    let play = Playground::new();
    symlink("not-there", play.at("not-there")).unwrap();
    let told = "file tools are closed: the server cannot tell which of its own files to protect";
    assert_eq!(play.see("file.txt"), told);
    fs::remove_file(play.at("not-there")).unwrap();
    assert_eq!(play.see("file.txt"), "file.txt");
}

#[test]
fn a_key_named_by_a_symlink_is_closed_at_both_ends() {
    let play = Playground::new();
    fs::write(play.at("work/real-key"), SECRET).unwrap();
    play.link("real-key", "key");
    let folder = WorkFolder::open(play.at("work"), vec![play.at("work/key")]).unwrap();
    let play = Playground { folder, ..play };
    assert_eq!(play.see("key"), closed("real-key"));
    assert_eq!(play.see("real-key"), closed("real-key"));
}

#[test]
fn a_key_stays_closed_when_the_symlink_to_it_is_taken_away() {
    let play = Playground::new();
    fs::write(play.at("work/real-key"), SECRET).unwrap();
    play.link("real-key", "key");
    let folder = WorkFolder::open(play.at("work"), vec![play.at("work/key")]).unwrap();
    fs::remove_file(play.at("work/key")).unwrap();
    let play = Playground { folder, ..play };
    assert_eq!(play.see("real-key"), closed("real-key"));
}

#[test]
fn a_file_is_made_only_where_nothing_stands() {
    let play = Playground::new();
    play.link("../outside.txt", "out");
    play.link("../not-there", "dangling");
    for name in ["file.txt", "sub", "out", "dangling"] {
        let made = play.folder.root.create_file(OsStr::new(name));
        assert!(matches!(made, Err(StepError::Os(rustix::io::Errno::EXIST))), "{name}: {made:?}");
    }
    assert!(!play.at("not-there").exists());
}

#[test]
fn working_inside_a_protected_directory_is_refused() {
    let play = Playground::new();
    fs::create_dir_all(play.at("work/data/a/b")).unwrap();
    for path in ["work/data", "work/data/a/b"] {
        let refused = WorkFolder::open(play.at(path), vec![play.at("work/data")]);
        assert!(matches!(refused, Err(Error::Protected { .. })), "{path}: {refused:?}");
    }
    for path in ["nope", "work/file.txt"] {
        let refused = WorkFolder::open(play.at(path), vec![]);
        assert!(matches!(refused, Err(Error::Open { .. })), "{path}: {refused:?}");
    }
    // A name too long to be looked up: whether it exists cannot be known.
    let unknowable = play.at(&"x".repeat(300));
    let refused = WorkFolder::open(play.at("work"), vec![unknowable.clone()]);
    assert!(matches!(&refused, Err(Error::Inspect { path, .. }) if *path == unknowable), "{refused:?}");
}

#[test]
fn special_files_are_refused_without_waiting() {
    let play = Playground::new();
    assert!(Command::new("mkfifo").arg(play.at("work/pipe")).status().unwrap().success());
    let _listener = std::os::unix::net::UnixListener::bind(play.at("work/socket")).unwrap();
    play.link("pipe", "to-pipe");
    play.check(&[
        ("pipe", "`pipe` is a FIFO: only regular files and folders can be opened"),
        ("to-pipe", "`pipe` is a FIFO: only regular files and folders can be opened"),
        ("socket", "`socket` is a socket: only regular files and folders can be opened"),
    ]);
    // The opening itself refuses too, should the pipe come only after the look: it must not wait for a writer.
    let snapshot = ProtectedSnapshot::default();
    for name in ["pipe", "socket", "to-pipe"] {
        let opened = play.folder.root.open_file(OsStr::new(name), &snapshot);
        assert!(matches!(opened, Err(dir::StepError::Changed)), "{name}: {opened:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_whole_machine_as_folder_still_hides_this_process() {
    let play = Playground::new();
    let folder = WorkFolder::open("/", vec![play.at("work/token")]).unwrap();
    let play = Playground { folder, ..play };
    // Relative to the root of the machine.
    let named = |path| play.at(path).canonicalize().unwrap().strip_prefix("/").unwrap().display().to_string();
    let (token, readable) = (named("work/token"), named("outside.txt"));
    for (path, named) in [("proc/self/environ", "proc"), ("/proc/1/cmdline", "proc"), ("dev/fd/0", "proc")] {
        assert_eq!(play.see(path), closed(named), "{path}");
    }
    assert_eq!(play.see(&token), closed(&token));
    assert_eq!(play.see(&readable), SECRET, "inside this folder");
    let refused = WorkFolder::open("/proc/self", vec![]);
    assert!(matches!(refused, Err(Error::Protected { .. })), "{refused:?}");
}

#[test]
fn descending_never_follows_symlinks() {
    let play = Playground::new();
    play.link("sub", "folder");
    let Ok(OpenedPath::Folder(root)) = play.folder.open_path(".") else { panic!("not a folder") };
    assert!(root.descend(&["sub", "deep"]).is_ok());
    for names in [
        ["folder", "deep"],
        ["..", "away"],
        ["sub/..", "sub"],
        ["sub/", "deep"],
        ["/", "etc"],
        ["data", "x"],
        ["file.txt", "x"],
    ] {
        assert!(root.descend(&names).is_err(), "{names:?}");
    }
}

#[test]
fn a_step_opens_no_symlink_even_one_that_came_after_the_look() {
    let play = Playground::new();
    play.link("file.txt", "near");
    play.link("../outside.txt", "out");
    let snapshot = ProtectedSnapshot::default();
    for name in ["near", "out"] {
        let opened = play.folder.root.open_file(OsStr::new(name), &snapshot);
        assert!(matches!(opened, Err(dir::StepError::Changed)), "{name}: {opened:?}");
    }
}

/// Others exchange entries all the time while paths are walked. Whatever the walk meets, it ends, and never outside.
#[cfg(target_os = "linux")]
#[test]
fn swapping_entries_during_a_walk_leads_nowhere() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};

    let play = Playground::new();
    let at = |path: &str| play.at("work").join(path);
    fs::create_dir(at("folder")).unwrap();
    for path in ["folder/outside.txt", "file", "token-or-file", "pipe-or-file"] {
        fs::write(at(path), "inside").unwrap();
    }
    play.link("../outside.txt", "spare-file");
    play.link("../away", "spare-folder");
    play.link("token", "spare-token");
    assert!(Command::new("mkfifo").arg(at("spare-pipe")).status().unwrap().success());
    let pairs = [
        ("file", "spare-file"),
        ("folder", "spare-folder"),
        ("token-or-file", "spare-token"),
        ("pipe-or-file", "spare-pipe"),
    ];
    let paths = ["file", "folder/outside.txt", "token-or-file", "pipe-or-file"];
    let (done, swaps) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut seen = std::collections::BTreeMap::<String, usize>::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let pairs = pairs.map(|(left, right)| (at(left), at(right)));
            while !done.load(Ordering::Relaxed) {
                for (left, right) in &pairs {
                    renameat_with(CWD, left, CWD, right, RenameFlags::EXCHANGE).unwrap();
                }
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        });
        for round in 0..40_000 {
            let path = paths[round % paths.len()];
            *seen.entry(play.see(path)).or_default() += 1;
            // On a busy machine the other side may not have had its turns yet.
            if round > 8_000 && swaps.load(Ordering::Relaxed) > 2_000 {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(!seen.contains_key(SECRET), "{seen:?}");
    assert!(seen.contains_key("inside") && swaps.into_inner() > 0, "{seen:?}");
}
