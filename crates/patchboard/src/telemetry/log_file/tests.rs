use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

const SMALL: RotationLimits = RotationLimits { file_bytes: 20, files: 3 };

fn opened(data_dir: &Path) -> RotatingFile {
    RotatingFile::open(data_dir, SMALL).unwrap()
}

fn files(data_dir: &Path) -> Vec<(String, String)> {
    let folder = data_dir.join(LOG_FOLDER);
    let mut names: Vec<String> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names.into_iter().map(|name| (name.clone(), fs::read_to_string(folder.join(name)).unwrap())).collect()
}

fn written(lines: &[(&str, &str)]) -> Vec<(String, String)> {
    lines.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn files_are_rotated_by_size_and_the_oldest_goes() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = opened(folder.path());
    for number in 0..7 {
        log.write_line(format!("line {number} ..\n").as_bytes());
    }
    let wanted = [
        ("patchboard.log", "line 6 ..\n"),
        ("patchboard.log.1", "line 4 ..\nline 5 ..\n"),
        ("patchboard.log.2", "line 2 ..\nline 3 ..\n"),
    ];
    assert_eq!(files(folder.path()), written(&wanted));
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let logs = folder.path().join(LOG_FOLDER);
    assert_eq!(
        (mode(logs.clone()), mode(logs.join(LOG_NAME)), mode(logs.join("patchboard.log.1"))),
        (0o700, 0o600, 0o600)
    );
}

#[test]
fn a_restart_goes_on_where_the_file_ends() {
    let folder = tempfile::tempdir().unwrap();
    opened(folder.path()).write_line(b"0123456789\n");
    let mut again = opened(folder.path());
    again.write_line(b"short\n");
    assert_eq!(files(folder.path()), written(&[("patchboard.log", "0123456789\nshort\n")]));
    again.write_line(b"0123456789\n");
    assert_eq!(files(folder.path()).len(), 2, "what was there before counts");
    // A line longer than a file is written whole, in a file of its own.
    again.write_line(b"0123456789012345678901234567890\n");
    assert_eq!(files(folder.path())[0].1, "0123456789012345678901234567890\n");
}

#[test]
fn what_others_put_there_is_neither_followed_nor_filled() {
    let outside = tempfile::tempdir().unwrap();
    let victim = outside.path().join("victim");
    fs::write(&victim, "").unwrap();
    type Plant = fn(&Path, &Path);
    let plants: [(&str, Plant); 4] = [
        ("a link for the file", |logs, victim| symlink(victim, logs.join(LOG_NAME)).unwrap()),
        ("another name of a file", |logs, victim| fs::hard_link(victim, logs.join(LOG_NAME)).unwrap()),
        ("a folder for the file", |logs, _| fs::create_dir(logs.join(LOG_NAME)).unwrap()),
        ("a link for the folder", |logs, victim| {
            fs::remove_dir(logs).unwrap();
            symlink(victim.parent().unwrap(), logs).unwrap();
        }),
    ];
    for (planted, plant) in plants {
        let folder = tempfile::tempdir_in(outside.path()).unwrap();
        let logs = folder.path().join(LOG_FOLDER);
        fs::create_dir(&logs).unwrap();
        plant(&logs, &victim);
        let refused = RotatingFile::open(folder.path(), SMALL);
        assert!(matches!(refused, Err(LogFileError::Suspicious(_))), "{planted}: {refused:?}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "", "{planted}");
        assert!(!outside.path().join(LOG_NAME).exists(), "{planted}");
        let log = LogFile::default();
        log.open(folder.path()).unwrap_err();
        log.write_line(b"goes nowhere\n");
    }
}

#[test]
fn a_link_that_comes_later_is_moved_and_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = opened(folder.path());
    log.write_line(b"0123456789\n");
    let victim = folder.path().join("victim");
    fs::write(&victim, "").unwrap();
    let logs = folder.path().join(LOG_FOLDER);
    fs::remove_file(logs.join(LOG_NAME)).unwrap();
    symlink(&victim, logs.join(LOG_NAME)).unwrap();
    log.write_line(b"0123456789\n");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "");
    assert!(fs::symlink_metadata(logs.join(LOG_NAME)).unwrap().is_file());
    assert!(fs::symlink_metadata(logs.join("patchboard.log.1")).unwrap().is_symlink());
}

#[test]
fn open_modes_are_closed() {
    let folder = tempfile::tempdir().unwrap();
    let logs = folder.path().join(LOG_FOLDER);
    fs::create_dir(&logs).unwrap();
    fs::write(logs.join(LOG_NAME), "").unwrap();
    fs::set_permissions(logs.join(LOG_NAME), fs::Permissions::from_mode(0o644)).unwrap();
    opened(folder.path());
    assert_eq!(fs::metadata(logs.join(LOG_NAME)).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn what_cannot_be_written_is_counted_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = opened(folder.path());
    log.write_line(b"0123456789\n");
    let logs = folder.path().join(LOG_FOLDER);
    // Renaming a file over a folder that is not empty fails.
    fs::create_dir_all(logs.join("patchboard.log.2/x")).unwrap();
    fs::write(logs.join("patchboard.log.1"), "older\n").unwrap();
    for _ in 0..3 {
        log.write_line(b"0123456789\n");
    }
    assert_eq!(log.dropped_lines, 3);
    fs::remove_dir_all(logs.join("patchboard.log.2")).unwrap();
    for _ in 3..RETRY_EVERY_LINES {
        log.write_line(b"not tried\n");
    }
    log.write_line(b"0123456789\n");
    let newest = fs::read_to_string(logs.join(LOG_NAME)).unwrap();
    assert_eq!(newest, "{\"level\":\"WARN\",\"message\":\"256 lines could not be written here\"}\n0123456789\n");
}

#[test]
fn lines_wait_for_the_file_within_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let log = LogFile::default();
    log.write_line(b"early\n");
    log.write_line(&[b'x'; MAX_BUFFERED_BYTES]);
    log.open(folder.path()).unwrap();
    log.write_line(b"late\n");
    assert_eq!(files(folder.path()), written(&[("patchboard.log", "early\nlate\n")]));
}
