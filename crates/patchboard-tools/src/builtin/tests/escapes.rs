//! Whatever path a tool is given, and whatever entries are swapped concurrently: nothing outside the working folder,
//! and nothing protected, is read, written, moved or deleted.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use patchboard_core::id::CallId;
use patchboard_core::model::{ToolCall, ToolInput};
use patchboard_core::port::ToolHost;
use patchboard_core::tool::ToolOutput;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::scope;
use super::yard::{SECRET, Yard};
use crate::builtin::{BuiltinOptions, BuiltinTools};
use crate::{GrantRules, WorkspaceOptions, Workspaces};

/// Every way to give a path to a tool.
const WAYS: [&str; 19] = [
    "read",
    "ls",
    "glob",
    "grep",
    "write_file",
    "write_file append",
    "edit",
    "edit new",
    "multiedit",
    "multiedit new",
    "create_dir",
    "delete_file",
    "delete_file recursive",
    "move_file source",
    "move_file target",
    "apply_patch add",
    "apply_patch delete",
    "apply_patch update",
    "apply_patch move",
];

fn call_of(way: &str, path: &str) -> (&'static str, Value) {
    let patch = |body: String| json!({"patchText": format!("*** Begin Patch\n{body}\n*** End Patch")});
    match way {
        "read" => ("read", json!({"path": path})),
        "ls" => ("ls", json!({"path": path})),
        "glob" => ("glob", json!({"pattern": "**/*", "path": path})),
        "grep" => ("grep", json!({"pattern": "secret|inside", "path": path})),
        "write_file" => ("write_file", json!({"path": path, "content": "changed"})),
        "write_file append" => ("write_file", json!({"path": path, "content": "changed", "append": true})),
        "edit" => ("edit", json!({"path": path, "oldString": "s", "newString": "S", "replaceAll": true})),
        "edit new" => ("edit", json!({"path": path, "oldString": "", "newString": "changed"})),
        "multiedit" => ("multiedit", json!({"path": path, "edits": [{"oldString": "secret", "newString": "changed"}]})),
        "multiedit new" => ("multiedit", json!({"path": path, "edits": [{"oldString": "", "newString": "changed"}]})),
        "create_dir" => ("create_dir", json!({"path": path, "exist_ok": false})),
        "delete_file" => ("delete_file", json!({"path": path})),
        "delete_file recursive" => ("delete_file", json!({"path": path, "recursive": true})),
        "move_file source" => ("move_file", json!({"source": path, "target": "moved"})),
        "move_file target" => ("move_file", json!({"source": "mine.txt", "target": path})),
        "apply_patch add" => ("apply_patch", patch(format!("*** Add File: {path}\n+changed"))),
        "apply_patch delete" => ("apply_patch", patch(format!("*** Delete File: {path}"))),
        "apply_patch update" => ("apply_patch", patch(format!("*** Update File: {path}\n-secret\n+changed"))),
        "apply_patch move" => ("apply_patch", patch(format!("*** Update File: mine.txt\n*** Move to: {path}"))),
        other => panic!("no such way: {other}"),
    }
}

fn host(yard: &Yard, tasks: &TaskTracker) -> Arc<dyn ToolHost> {
    let options = WorkspaceOptions {
        working_folder: yard.at(""),
        allowed_roots: vec![yard.at("")],
        protected: Yard::protected(yard.dir.path()),
        tasks: tasks.clone(),
        grants: GrantRules::default(),
    };
    let workspaces = Workspaces::new(options).unwrap();
    Arc::new(BuiltinTools::new(BuiltinOptions { workspaces, tasks: tasks.clone() }))
}

async fn call(host: &Arc<dyn ToolHost>, (name, arguments): (&str, Value), folder: Option<&Path>) -> ToolOutput {
    let input = ToolInput::Json(Arc::new(arguments.clone()));
    let call = ToolCall { id: CallId("call".into()), name: name.into(), input };
    host.call(&scope(folder), &call, &arguments, CancellationToken::new()).await
}

/// A yard with every kind of way out.
fn yard() -> Yard {
    let yard = Yard::new(&[("mine.txt", "inside"), ("sub/deep/file.txt", "inside")]);
    yard.link("../outside.txt", "out-file");
    yard.link("../away", "out-folder");
    yard.link("../not-there.txt", "out-dangling");
    yard.link(yard.dir.path().join("outside.txt"), "out-absolute");
    yard.link("../../away", "sub/out-folder");
    yard.link("sub/out-folder", "out-chain");
    yard.link("/proc/self", "process");
    yard.link("data", "data-link");
    fs::hard_link(yard.at("token"), yard.at("sub/token-too")).unwrap();
    yard
}

#[tokio::test]
async fn no_tool_follows_a_path_out() {
    let absolute = |yard: &Yard, path: &str| yard.dir.path().join(path).display().to_string();
    let paths = [
        "..",
        "../outside.txt",
        "../new.txt",
        "../new/deep.txt",
        "sub/../../outside.txt",
        "/etc/passwd",
        "/new-at-the-top",
        "out-folder/outside.txt",
        "out-folder/new.txt",
        "out-folder/new/deep.txt",
        "out-folder/victim",
        "sub/out-folder/victim",
        "sub/out-folder/outside.txt",
        "out-chain/outside.txt",
        "process/environ",
        "data",
        "data/store.db",
        "data/new.txt",
        "data-link/store.db",
        "data-link/new.txt",
        "token",
        "later",
        "later/key",
        "later/other/key",
        "sub/token-too",
        "new\0name",
        "",
    ]
    .map(str::to_owned);
    let tasks = TaskTracker::new();
    for way in WAYS {
        let yard = yard();
        let (before, host) = (yard.outside(), host(&yard, &tasks));
        let absolutes = ["outside.txt", "new.txt", "away/victim", "away/new/deep.txt"];
        let mut paths = paths.to_vec();
        paths.extend(absolutes.map(|path| absolute(&yard, path)));
        // Symlinks that are the path's last name: deleting or moving one is about the symlink itself.
        let is_about_itself = way.contains("delete") || way == "move_file source";
        if !is_about_itself {
            let links = ["out-file", "out-absolute", "out-folder", "out-chain", "data-link"];
            paths.extend(links.map(str::to_owned));
        }
        if way == "move_file target" || way == "apply_patch move" {
            paths.push("out-dangling".to_owned());
        }
        for path in paths {
            let output = call(&host, call_of(way, &path), None).await;
            assert!(output.is_error, "{way} {path:?}: {output:?}");
            assert!(!output.content.contains(SECRET) || path.contains(SECRET), "{way} {path:?}: {output:?}");
            assert_eq!(yard.outside(), before, "{way} {path:?}: {output:?}");
            if matches!(path.as_str(), "token" | "data" | "data/store.db" | "sub/token-too") {
                assert!(output.content.contains("is closed to tools"), "{way} {path}: {output:?}");
            }
            assert!(yard.at("mine.txt").exists(), "{way} {path:?}");
            assert_eq!(yard.text("sub/token-too"), SECRET, "{way} {path:?}");
        }
        assert!(!Path::new("/new-at-the-top").exists());
    }
}

#[tokio::test]
async fn a_symlink_is_deleted_and_moved_itself() {
    let tasks = TaskTracker::new();
    for way in ["delete_file", "delete_file recursive", "move_file source", "apply_patch delete"] {
        for path in ["out-file", "out-absolute", "out-folder", "out-dangling", "out-chain", "process"] {
            let yard = yard();
            let before = yard.outside();
            let output = call(&host(&yard, &tasks), call_of(way, path), None).await;
            assert!(!output.is_error, "{way} {path}: {output:?}");
            assert_eq!(yard.outside(), before, "{way} {path}");
            assert!(yard.at(path).symlink_metadata().is_err(), "{way} {path}");
            assert_eq!(yard.at("moved").symlink_metadata().is_ok(), way == "move_file source", "{way} {path}");
        }
    }
}

/// What a dangling symlink to the outside names cannot be made.
#[tokio::test]
async fn nothing_is_made_through_a_dangling_symlink() {
    let tasks = TaskTracker::new();
    let yard = yard();
    let before = yard.outside();
    let host = host(&yard, &tasks);
    for way in ["write_file", "write_file append", "edit new", "multiedit new", "create_dir", "apply_patch add"] {
        let output = call(&host, call_of(way, "out-dangling"), None).await;
        assert!(output.is_error, "{way}: {output:?}");
        assert_eq!(yard.outside(), before, "{way}");
    }
}

#[tokio::test]
async fn folders_that_hold_what_is_protected_stay() {
    let tasks = TaskTracker::new();
    let yard = Yard::new(&[("mine.txt", "inside"), ("box/inner/own.txt", "inside")]);
    let options = WorkspaceOptions {
        working_folder: yard.at(""),
        allowed_roots: vec![yard.at("")],
        // One that exists, one reached by a symlink, one that does not exist yet.
        protected: vec![yard.at("box/inner/keys"), yard.at("box/way/key"), yard.at("box/inner/later/key")],
        tasks: tasks.clone(),
        grants: GrantRules::default(),
    };
    yard.put("box/inner/keys/key", SECRET);
    yard.put("far/key", SECRET);
    yard.link("../far", "box/way");
    let host: Arc<dyn ToolHost> = Arc::new(BuiltinTools::new(BuiltinOptions {
        workspaces: Workspaces::new(options).unwrap(),
        tasks: tasks.clone(),
    }));
    let before = yard.inside();
    for path in ["box", "box/inner", "box/inner/keys", "box/inner/keys/key", "far", "far/key", "box/way"] {
        for way in ["delete_file", "delete_file recursive", "move_file source"] {
            let output = call(&host, call_of(way, path), None).await;
            assert!(output.is_error, "{way} {path}: {output:?}");
            assert_eq!(yard.inside(), before, "{way} {path}: {output:?}");
        }
    }
    for way in ["create_dir", "write_file", "move_file target"] {
        let output = call(&host, call_of(way, "box/inner/later"), None).await;
        assert!(output.is_error, "{way}: {output:?}");
    }
    let output = call(&host, call_of("delete_file", "box/inner/own.txt"), None).await;
    assert!(!output.is_error, "{output:?}");
}

/// Others exchange a folder with a symlink to the outside, and a file likewise, all the time while tools work in it.
#[cfg(target_os = "linux")]
#[test]
fn swapping_entries_during_calls_leads_nowhere() {
    use std::collections::BTreeMap;
    use std::os::fd::AsRawFd;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use rustix::fs::{CWD, RenameFlags, renameat_with};

    const ROUNDS: usize = 60;
    const MAX_ROUNDS: usize = 400;
    const SWAPS: usize = 4000;

    let yard = Yard::new(&[("mine.txt", "inside"), ("folder/outside.txt", "inside"), ("file", "inside")]);
    fs::write(yard.dir.path().join("away/only-outside.txt"), SECRET).unwrap();
    yard.link("../away", "spare-folder");
    yard.link("../outside.txt", "spare-file");
    // The real folder whatever its name is at the moment.
    let real = fs::File::open(yard.at("folder")).unwrap();
    let at_real = |name: &str| format!("/proc/self/fd/{}/{name}", real.as_raw_fd());
    let tasks = TaskTracker::new();
    let (before, host) = (yard.outside(), host(&yard, &tasks));
    let pairs =
        [("folder", "spare-folder"), ("file", "spare-file")].map(|(left, right)| (yard.at(left), yard.at(right)));
    let (done, swaps) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut succeeded = BTreeMap::<&str, usize>::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for (left, right) in &pairs {
                    renameat_with(CWD, left, CWD, right, RenameFlags::EXCHANGE).unwrap();
                }
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        });
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 0..MAX_ROUNDS {
                if round >= ROUNDS && swaps.load(Ordering::Relaxed) >= SWAPS {
                    break;
                }
                for way in WAYS {
                    // What earlier calls took away or left.
                    fs::write(at_real("outside.txt"), "inside").unwrap();
                    fs::create_dir_all(at_real("victim")).unwrap();
                    fs::write(at_real("victim/keep.txt"), "inside").unwrap();
                    fs::write(yard.at("mine.txt"), "inside").unwrap();
                    drop(fs::remove_file(at_real("new.txt")));
                    drop(fs::remove_dir(at_real("new.txt")));
                    drop(fs::remove_dir_all(yard.at("moved")));
                    let path = match way {
                        "glob" | "ls" => "folder",
                        "grep" if round % 2 == 0 => ".",
                        "grep" => "folder",
                        "read" | "edit" if round % 2 == 0 => "file",
                        "write_file" | "edit new" | "multiedit new" | "create_dir" => "folder/new.txt",
                        "move_file target" | "apply_patch add" | "apply_patch move" => "folder/new.txt",
                        "delete_file recursive" | "move_file source" => "folder/victim",
                        _ => "folder/outside.txt",
                    };
                    let output = runtime.block_on(call(&host, call_of(way, path), None));
                    *succeeded.entry(way).or_default() += usize::from(!output.is_error);
                    assert!(!output.content.contains("only-outside"), "{way}: {output:?}");
                    // That patch itself says the word.
                    assert!(!output.content.contains(SECRET) || way == "apply_patch update", "{way}: {output:?}");
                    if let Ok(moved) = fs::read_to_string(yard.at("moved/keep.txt")) {
                        assert_eq!(moved, "inside", "{way}");
                    }
                }
            }
        }));
        done.store(true, Ordering::Relaxed);
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
    let now = yard.outside();
    assert_eq!(now, before);
    for way in WAYS.iter().filter(|way| !["apply_patch update", "multiedit"].contains(way)) {
        assert!(succeeded[way] > 0, "{way} never succeeded: {succeeded:?}");
    }
    assert!(swaps.into_inner() >= SWAPS, "too few swaps to mean anything");
}
