use std::fs;
use std::io::Write;

use super::*;

struct Logs(tempfile::TempDir);

impl Logs {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, text: &str) {
        let mut options = OpenOptions::new();
        let mut file = options.create(true).append(true).open(self.0.path().join(log_name(0))).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn rotate(&self) {
        for age in (0..LOG_FILES - 1).rev() {
            drop(fs::rename(self.0.path().join(log_name(age)), self.0.path().join(log_name(age + 1))));
        }
    }

    fn open(&self, limit: usize) -> (Vec<String>, LogFollower) {
        open_log(self.0.path(), limit, &|line| !line.starts_with('#')).unwrap()
    }
}

#[test]
fn the_last_lines_are_gathered_over_files() {
    let logs = Logs::new();
    assert_eq!(logs.open(5).0, [""; 0]);
    logs.write("a\nb\n");
    logs.rotate();
    logs.write("c\n# not wanted\nd\n");
    assert_eq!(logs.open(1).0, ["d"]);
    assert_eq!(logs.open(3).0, ["b", "c", "d"]);
    assert_eq!(logs.open(100).0, ["a", "b", "c", "d"]);
    assert_eq!(logs.open(0).0, [""; 0]);
}

#[test]
fn following_survives_rotation() {
    let logs = Logs::new();
    logs.write("a\nhal");
    let (first, mut follower) = logs.open(10);
    assert_eq!(first, ["a"]);
    let lines = |follower: &mut LogFollower| {
        let news = follower.read_new().unwrap();
        assert!(!news.has_gap);
        news.lines
    };
    assert_eq!(lines(&mut follower), [""; 0]);
    logs.write("f\nb\n");
    assert_eq!(lines(&mut follower), ["half", "b"]);
    logs.write("c\n");
    logs.rotate();
    assert_eq!(lines(&mut follower), ["c"], "the new file is not there yet");
    logs.write("d\n");
    assert_eq!(lines(&mut follower), ["d"]);
    // Several times between two looks.
    for text in ["e\n", "f\n", "g"] {
        logs.write(text);
        logs.rotate();
    }
    logs.write("h\n");
    assert_eq!(lines(&mut follower), ["e", "f", "g", "h"], "an unfinished line ends with its file");
    assert_eq!(lines(&mut follower), [""; 0]);
}

#[test]
fn what_was_rotated_away_is_told() {
    let logs = Logs::new();
    logs.write("a\n");
    let (_, mut follower) = logs.open(10);
    for number in 0..=LOG_FILES {
        logs.rotate();
        logs.write(&format!("{number}\n"));
    }
    let news = follower.read_new().unwrap();
    assert!(news.has_gap);
    assert_eq!(news.lines, ["1", "2", "3", "4", "5"]);
}

#[test]
fn a_log_that_begins_later_is_followed_from_its_beginning() {
    let logs = Logs::new();
    let (_, mut follower) = logs.open(10);
    assert!(!follower.has_file());
    assert_eq!(follower.read_new().unwrap(), NewLines::default());
    logs.write("a\n");
    assert_eq!(follower.read_new().unwrap(), NewLines { lines: vec!["a".to_owned()], has_gap: false });
}
