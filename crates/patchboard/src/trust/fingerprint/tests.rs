use std::fs::File;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use super::*;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

#[test]
fn a_file_is_known_again_by_its_content() {
    let folder = folder(&[("a", "one")]);
    let path = folder.path().join("a");
    let stamp = FileFingerprint::of(&path).unwrap();
    assert!(stamp.matches_disk(&path));
    fs::write(&path, "one").unwrap();
    assert!(stamp.matches_disk(&path), "written again with the same content");
    let copy = folder.path().join("b");
    fs::copy(&path, &copy).unwrap();
    fs::rename(&copy, &path).unwrap();
    assert!(stamp.matches_disk(&path), "another file with the same content");
    fs::remove_file(&path).unwrap();
    assert!(!stamp.matches_disk(&path));
}

#[test]
fn a_change_is_seen_although_size_and_time_of_change_are_as_before() {
    let folder = folder(&[("a", "one")]);
    let path = folder.path().join("a");
    let before = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();
    let (stamp, print) = (FileFingerprint::of(&path).unwrap(), FolderFingerprint::of(folder.path(), &[]));
    fs::write(&path, "two").unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();
    assert!(!stamp.matches_disk(&path));
    assert_eq!(print.differences_on_disk(folder.path(), &[]), ["changed a"]);
}

#[test]
fn what_differs_in_a_folder_is_named() {
    let folder = folder(&[("a.py", "one"), ("lib/b.py", "two"), (".venv/x.py", "x"), ("lib/__pycache__/b.pyc", "x")]);
    let print = FolderFingerprint::of(folder.path(), &[]);
    assert_eq!(print.differences_on_disk(folder.path(), &[]), Vec::<String>::new());
    fs::write(folder.path().join(".venv/x.py"), "other").unwrap();
    fs::write(folder.path().join("lib/__pycache__/c.pyc"), "other").unwrap();
    assert_eq!(print.differences_on_disk(folder.path(), &[]), Vec::<String>::new(), "packages and caches are left out");
    fs::write(folder.path().join("lib/b.py"), "three").unwrap();
    fs::write(folder.path().join("json.py"), "shadows a module").unwrap();
    fs::remove_file(folder.path().join("a.py")).unwrap();
    let mut different = print.differences_on_disk(folder.path(), &[]);
    different.sort();
    assert_eq!(different, ["changed lib/b.py", "gone a.py", "new json.py"]);
}

#[test]
fn what_a_link_leads_to_is_seen_and_loops_end() {
    let elsewhere = folder(&[("m.py", "one")]);
    let folder = folder(&[("a.py", "one")]);
    symlink(elsewhere.path(), folder.path().join("lib")).unwrap();
    symlink(folder.path(), folder.path().join("again")).unwrap();
    let print = FolderFingerprint::of(folder.path(), &[]);
    fs::write(elsewhere.path().join("m.py"), "two").unwrap();
    assert_eq!(print.differences_on_disk(folder.path(), &[]), ["changed lib/m.py"]);
}

#[test]
fn a_folder_with_too_many_files_counts_as_changed() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..=MAX_FILES {
        File::create(folder.path().join(number.to_string())).unwrap();
    }
    let different = FolderFingerprint::of(folder.path(), &[]).differences_on_disk(folder.path(), &[]);
    assert_eq!(different, [format!("over {MAX_FILES} files: move the program to a folder of its own")]);
}

#[test]
fn content_that_was_read_is_compared_by_its_hash() {
    let folder = folder(&[("a", "one")]);
    let stamp = FileFingerprint::of(&folder.path().join("a")).unwrap();
    let sha256 = |text: &str| -> String { Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect() };
    assert_eq!((stamp.has_content(&sha256("one")), stamp.has_content(&sha256("two"))), (Some(true), Some(false)));
}

#[test]
fn another_size_is_a_change_that_nobody_reads_for() {
    let folder = folder(&[("a", "one"), ("b", "onetwo")]);
    let stamp = FileFingerprint::of(&folder.path().join("a")).unwrap();
    let longer = FileFingerprint { size: 6, ..stamp };
    assert!(!longer.matches_disk(&folder.path().join("a")), "although the hash would fit");
    // What is hashed is the file that was found, as long as it was then.
    let found = fs::metadata(folder.path().join("a")).unwrap();
    assert!(hash_file(&folder.path().join("a"), &found).is_some());
    assert_eq!(hash_file(&folder.path().join("b"), &found), None);
    fs::write(folder.path().join("a"), "longer").unwrap();
    assert_eq!(hash_file(&folder.path().join("a"), &found), None);
}

#[test]
fn a_pipe_in_the_place_of_a_file_holds_nobody_up() {
    let folder = folder(&[("a", "one")]);
    let path = folder.path().join("a");
    let (found, stamp) = (fs::metadata(&path).unwrap(), FileFingerprint::of(&path).unwrap());
    fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert_eq!(hash_file(&path, &found), None, "it was put there after it was looked at");
    assert!(!stamp.matches_disk(&path));
    assert_eq!(FolderFingerprint::of(folder.path(), &[]).files["a"].sha256, None);
}

#[test]
fn data_of_the_server_is_left_out() {
    let folder = folder(&[("a.py", "one"), ("data/patchboard.db", "x"), ("link/x", "x")]);
    symlink(folder.path().join("data"), folder.path().join("again")).unwrap();
    let own = [folder.path().join("data")];
    let print = FolderFingerprint::of(folder.path(), &own);
    fs::write(folder.path().join("data/patchboard.db"), "more").unwrap();
    fs::write(folder.path().join("data/more.db"), "more").unwrap();
    assert_eq!(print.differences_on_disk(folder.path(), &own), Vec::<String>::new());
    assert_eq!(print.files.keys().collect::<Vec<_>>(), ["a.py", "link/x"]);
}

#[test]
fn what_is_shown_of_a_print_is_what_differs_in_it() {
    let folder = folder(&[("a.py", "one"), ("b.py", "two"), ("c.py", "three")]);
    let print = FolderFingerprint::of(folder.path(), &[]);
    fs::write(folder.path().join("a.py"), "two").unwrap();
    fs::write(folder.path().join("b.py"), "two").unwrap();
    fs::remove_file(folder.path().join("c.py")).unwrap();
    fs::write(folder.path().join("d.py"), "new").unwrap();
    let now = FolderFingerprint::of(folder.path(), &[]);
    fs::write(folder.path().join("e.py"), "too late").unwrap();
    assert_eq!(print.differences_to(&now), ["changed a.py", "new d.py", "gone c.py"]);
}
