use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

/// Makes `files` in a folder, closes `closed` of them, and says what is granted when the folder `root` is.
fn check(files: &[&str], closed: &[&str], root: &str, granted: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    for file in files {
        let path = base.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    let (found, summary) = grant(&base, closed, root);
    assert_eq!(found, granted, "{closed:?} closed beneath {root:?}");
    assert_eq!(summary.has_closed_parts, granted != [root], "{closed:?} beneath {root:?}");
    assert_eq!(summary.skipped_entries, 0);
}

fn grant(base: &Path, closed: &[&str], root: &str) -> (Vec<String>, GrantSummary) {
    let closed: Vec<PathBuf> = closed.iter().map(|path| base.join(path)).collect();
    let closed = ClosedPaths::from_paths(closed.iter().map(PathBuf::as_path)).unwrap();
    let opened = rustix::fs::open(base.join(root), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let mut found = Vec::new();
    let summary = closed.grant_tree(opened, &mut |target| {
        let path = fs::read_link(format!("/proc/self/fd/{}", target.descriptor.as_raw_fd())).unwrap();
        assert_eq!(path.is_dir(), target.is_directory);
        found.push(path.strip_prefix(base).unwrap().to_str().unwrap().to_owned());
        Ok(())
    });
    found.sort();
    (found, summary.unwrap())
}

const FILES: &[&str] = &["work/src/a", "work/data/keys/token", "work/data/log", "work/note", "elsewhere/x"];

#[test]
fn a_tree_without_protected_paths_is_granted_as_one() {
    check(FILES, &[], "work", &["work"]);
    check(FILES, &["elsewhere"], "work", &["work"]);
    // A path that merely begins alike lies elsewhere.
    check(FILES, &["work/srcs", "worker"], "work/src", &["work/src"]);
}

#[test]
fn beside_a_protected_path_everything_is_granted_by_itself() {
    check(FILES, &["work/data"], "work", &["work/note", "work/src"]);
    check(FILES, &["work/data/keys"], "work", &["work/data/log", "work/note", "work/src"]);
    check(FILES, &["work/data/keys/token", "work/note"], "work", &["work/data/log", "work/src"]);
}

#[test]
fn what_does_not_exist_yet_is_closed_where_it_would_come_to_be() {
    check(FILES, &["work/new/deep/key"], "work", &["work/data", "work/note", "work/src"]);
    check(FILES, &["work/src/key"], "work", &["work/data", "work/note", "work/src/a"]);
}

#[test]
fn nothing_at_or_beneath_a_protected_path_is_granted() {
    check(FILES, &["work"], "work", &[]);
    check(FILES, &["work"], "work/src", &[]);
    check(FILES, &["work/note"], "work/note", &[]);
}

#[test]
fn other_names_of_a_protected_file_are_closed_where_they_are_met() {
    let dir = TempDir::new().unwrap();
    let base = dir.path().canonicalize().unwrap();
    fs::create_dir_all(base.join("work/secret")).unwrap();
    fs::write(base.join("work/secret/key"), "").unwrap();
    fs::write(base.join("work/plain"), "").unwrap();
    fs::hard_link(base.join("work/secret/key"), base.join("work/linked")).unwrap();
    symlink("secret/key", base.join("work/pointer")).unwrap();
    symlink("work/secret", base.join("outside")).unwrap();
    // Configured by way of a symlink, as it might be.
    assert_eq!(grant(&base, &["outside/key"], "work").0, ["work/plain"]);
    assert_eq!(grant(&base, &["work/pointer"], "work").0, ["work/plain"]);
}

#[test]
fn what_cannot_be_inspected_is_an_error() {
    let too_long = PathBuf::from(format!("/{}", "x".repeat(300)));
    assert!(ClosedPaths::from_paths([too_long.as_path()]).is_err());
}

#[test]
fn too_many_entries_beside_a_protected_path_stay_closed() {
    let dir = TempDir::new().unwrap();
    let base = dir.path().canonicalize().unwrap();
    fs::create_dir_all(base.join("work")).unwrap();
    for number in 0..MAX_ENTRIES + 5 {
        fs::File::create(base.join("work").join(number.to_string())).unwrap();
    }
    let (granted, summary) = grant(&base, &["work/key"], "work");
    assert_eq!((granted.len(), summary.skipped_entries, summary.has_closed_parts), (MAX_ENTRIES, 5, true));
}
