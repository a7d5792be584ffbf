use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn a_folder_goes_with_its_run_and_only_then() {
    let within = tempfile::tempdir().unwrap();
    let run = SocketFolder::make(within.path()).unwrap();
    let worker = run.worker(0, 7).unwrap();
    let mode = fs::metadata(&worker.path).unwrap().permissions().mode();
    assert_eq!((mode & 0o777, worker.path.starts_with(&run.path)), (0o700, true));
    fs::write(worker.ready_file(), "1").unwrap();
    let path = worker.path.clone();
    drop(worker);
    assert!(!path.exists());
    // Another run at the same time leaves it alone.
    let other = SocketFolder::make(within.path()).unwrap();
    assert!(run.path.exists() && other.path != run.path);
    drop((run, other));
    assert_eq!(fs::read_dir(within.path()).unwrap().count(), 0);
}

#[test]
fn what_a_killed_run_left_is_swept_by_the_next() {
    let within = tempfile::tempdir().unwrap();
    let left = within.path().join(format!("{FOLDER_PREFIX}1-0"));
    fs::create_dir_all(left.join("0/1")).unwrap();
    fs::write(left.join(LOCK_FILE), "").unwrap();
    let making = within.path().join(format!("{FOLDER_PREFIX}2-0"));
    fs::create_dir(&making).unwrap();
    let _run = SocketFolder::make(within.path()).unwrap();
    assert_eq!((left.exists(), making.exists()), (false, true));
}
