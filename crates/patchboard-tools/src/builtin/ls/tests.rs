use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use super::*;

/// Paths that end with `/` become folders, others empty files.
fn workspace(paths: &[&str]) -> (TempDir, WorkFolder) {
    let dir = tempfile::tempdir().unwrap();
    for path in paths {
        let full = dir.path().join(path);
        if path.ends_with('/') {
            fs::create_dir_all(full).unwrap();
        } else {
            fs::create_dir_all(full.parent().unwrap()).unwrap();
            fs::write(full, "").unwrap();
        }
    }
    let folder = WorkFolder::open(dir.path(), vec![dir.path().join("data"), dir.path().join("token")]).unwrap();
    (dir, folder)
}

fn told(folder: &WorkFolder, path: &str, patterns: &[&str]) -> Result<String, String> {
    let excluded = ExcludedPatterns::new(patterns.iter().copied());
    list(folder, path, &excluded, &CancellationToken::new()).map_err(|ToolRefusal(reason)| reason)
}

fn many(dir: &Path, count: usize) {
    fs::create_dir_all(dir).unwrap();
    for number in 0..count {
        fs::write(dir.join(format!("{number:05}")), "").unwrap();
    }
}

#[test]
fn draws_a_sorted_tree() {
    let (dir, folder) = workspace(&[
        "b.txt",
        "a.txt",
        ".hidden",
        "src/main.rs",
        "src/lib/deep.rs",
        "empty/",
        "target/debug/x",
        ".git/config",
        "data/store.db",
        "token",
        "B/c",
    ]);
    symlink("a.txt", dir.path().join("link")).unwrap();
    symlink("/", dir.path().join("out")).unwrap();
    symlink(".", dir.path().join("src/loop")).unwrap();
    let expected = "\
./
  .git/ (not listed)
  B/
    c
  data/ (closed to tools)
  empty/
  src/
    lib/
      deep.rs
    loop@
    main.rs
  target/ (not listed)
  .hidden
  a.txt
  b.txt
  link@
  out@
  token (closed to tools)";
    assert_eq!(told(&folder, ".", &[]).unwrap(), expected);
}

#[test]
fn lists_a_folder_by_its_path() {
    let (_dir, folder) = workspace(&["src/lib/deep.rs", "src/main.rs", "target/debug/x", "empty/", "file", "data/x"]);
    let cases = [
        ("src", Ok("src/\n  lib/\n    deep.rs\n  main.rs")),
        ("src/lib/", Ok("src/lib/\n  deep.rs")),
        ("target", Ok("target/\n  debug/\n    x")),
        ("empty", Ok("empty/\n  (nothing)")),
        ("file", Err("`file` is a file: use `read` to read it")),
        ("nope", Err("`nope` does not exist")),
        ("..", Err("`..` leads outside the working folder: only what lies inside it can be opened")),
        ("data", Err("`data` is closed to tools: it belongs to the server's own data or keys")),
    ];
    for (path, expected) in cases {
        assert_eq!(told(&folder, path, &[]), expected.map(str::to_owned).map_err(str::to_owned), "{path}");
    }
}

#[test]
fn ignored_entries_are_left_out() {
    let (_dir, folder) = workspace(&["a.log", "a.rs", "docs/a.md", "src/b.log", "src/b.rs", "src/gen/c.rs"]);
    let cases = [
        (&["*.log"][..], "./\n  docs/\n    a.md\n  src/\n    gen/\n      c.rs\n    b.rs\n  a.rs"),
        (&["docs/", "src/gen"], "./\n  src/\n    b.log\n    b.rs\n  a.log\n  a.rs"),
        (&["*"], "./\n  (nothing)"),
    ];
    for (patterns, expected) in cases {
        assert_eq!(told(&folder, ".", patterns).unwrap(), expected, "{patterns:?}");
    }
}

#[test]
fn what_ignore_files_exclude_is_named_or_counted() {
    let (dir, folder) = workspace(&["a.log", "a.rs", "out/b.log", "out/target/c", "build/d", "src/e.log", "src/f"]);
    fs::write(dir.path().join(".gitignore"), "*.log\nout/\n").unwrap();
    let expected = "./\n  build/\n    d\n  out/ (not listed)\n  src/\n    f\n  .gitignore\n  a.rs\n[files that `.gitignore` leaves out: 2]";
    assert_eq!(told(&folder, ".", &[]).unwrap(), expected);
    assert_eq!(told(&folder, "src", &[]).unwrap(), "src/\n  f\n[files that `.gitignore` leaves out: 1]");
    assert_eq!(told(&folder, "out", &[]).unwrap(), "out/\n  target/ (not listed)\n  b.log");
    assert_eq!(told(&folder, "out/target", &[]).unwrap(), "out/target/\n  c");
}

#[test]
fn shows_upper_levels_first_and_counts_the_rest() {
    let (dir, folder) = workspace(&["a/b/c/x", "z.txt"]);
    many(&dir.path().join("a/huge"), 300);
    let text = told(&folder, ".", &[]).unwrap();
    assert!(text.starts_with("./\n  a/\n    b/\n      c/\n        … 1 file more\n    huge/\n      00000\n"), "{text}");
    assert!(text.contains("      00098\n      … 201 files more\n  z.txt\n"), "{text}");
    assert!(
        text.ends_with("\n[100 files and 4 folders shown, not all there are; list a folder by its `path`]"),
        "{text}"
    );
}

#[test]
fn folders_are_bounded_too() {
    let (dir, folder) = workspace(&["z.txt"]);
    for number in 0..150 {
        fs::create_dir(dir.path().join(format!("{number:03}"))).unwrap();
    }
    let text = told(&folder, ".", &[]).unwrap();
    assert!(text.ends_with(
        "  099/\n  z.txt\n  … 50 folders more\n[1 file and 100 folders shown, not all there are; list a folder by its `path`]"
    ));
}

#[test]
fn looking_ends_at_a_bound() {
    let (dir, folder) = workspace(&["later/x"]);
    many(&dir.path().join("big"), listing::MAX_SCANNED + 10);
    let text = told(&folder, ".", &[]).unwrap();
    let expected_rest = listing::MAX_SCANNED - listing::MAX_FILES - 2;
    assert!(text.contains(&format!("    … at least {expected_rest} more\n  later/ (not listed)\n")), "{text}");
}

#[test]
fn strange_names_stay_on_their_line() {
    use std::os::unix::ffi::OsStrExt;
    let (dir, folder) = workspace(&["two\nlines", "esc\u{1b}[31m"]);
    fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"bad\xff")), "").unwrap();
    assert_eq!(told(&folder, ".", &[]).unwrap(), "./\n  bad\u{fffd}\n  esc\\u{1b}[31m\n  two\\nlines");
}

#[test]
fn special_files_are_named_as_such() {
    let (dir, folder) = workspace(&[]);
    assert!(std::process::Command::new("mkfifo").arg(dir.path().join("pipe")).status().unwrap().success());
    assert_eq!(told(&folder, ".", &[]).unwrap(), "./\n  pipe (a FIFO)");
}

#[test]
fn a_cancelled_call_lists_nothing() {
    let (_dir, folder) = workspace(&["a/b"]);
    let stop = CancellationToken::new();
    stop.cancel();
    assert_eq!(list(&folder, ".", &ExcludedPatterns::default(), &stop), Err(ToolRefusal::cancelled()));
}
