use std::fs;

use super::*;

struct Yard {
    dir: tempfile::TempDir,
    seals: Arc<Seals>,
}

impl Yard {
    fn new(content: Option<&str>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("patchboard.toml");
        if let Some(content) = content {
            fs::write(&path, content).unwrap();
        }
        Self { seals: Seals::new(vec![path]), dir }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("patchboard.toml")
    }

    fn aside(&self) -> PathBuf {
        self.dir.path().join("patchboard.toml.by-a-command.1")
    }
}

#[test]
fn what_is_left_alone_is_left_alone() {
    for content in [None, Some("a = 1")] {
        let yard = Yard::new(content);
        assert_eq!(yard.seals.hold().put_back(), Vec::<String>::new());
        assert_eq!(fs::read_to_string(yard.path()).ok().as_deref(), content);
        assert!(!yard.aside().exists());
    }
}

#[test]
fn a_changed_file_is_put_back_and_the_change_is_kept_beside_it() {
    let yard = Yard::new(Some("mine"));
    let held = yard.seals.hold();
    fs::write(yard.path(), "theirs").unwrap();
    let said = held.put_back();
    assert!(said[0].contains("patchboard.toml.by-a-command.1"), "{said:?}");
    assert_eq!(fs::read_to_string(yard.path()).unwrap(), "mine");
    assert_eq!(fs::read_to_string(yard.aside()).unwrap(), "theirs");
}

#[test]
fn a_planted_file_is_moved_away_even_when_nobody_asks() {
    let yard = Yard::new(None);
    let held = yard.seals.hold();
    fs::write(yard.path(), "planted").unwrap();
    drop(held);
    assert!(!yard.path().exists());
    assert_eq!(fs::read_to_string(yard.aside()).unwrap(), "planted");
}

#[test]
fn a_deleted_file_and_one_swapped_for_a_link_come_back() {
    let yard = Yard::new(Some("mine"));
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("target");
    fs::write(&target, "elsewhere").unwrap();
    let held = yard.seals.hold();
    fs::remove_file(yard.path()).unwrap();
    held.put_back();
    assert_eq!(fs::read_to_string(yard.path()).unwrap(), "mine");
    fs::remove_file(yard.path()).unwrap();
    std::os::unix::fs::symlink(&target, yard.path()).unwrap();
    held.put_back();
    assert!(yard.path().symlink_metadata().unwrap().is_file());
    assert_eq!(fs::read_to_string(yard.path()).unwrap(), "mine");
    assert_eq!(fs::read_to_string(&target).unwrap(), "elsewhere");
}

#[test]
fn a_second_command_does_not_take_the_work_of_the_first_for_the_truth() {
    let yard = Yard::new(Some("mine"));
    let first = yard.seals.hold();
    fs::write(yard.path(), "theirs").unwrap();
    let second = yard.seals.hold();
    drop(first);
    assert_eq!(fs::read_to_string(yard.path()).unwrap(), "mine");
    fs::write(yard.path(), "theirs again").unwrap();
    drop(second);
    assert_eq!(fs::read_to_string(yard.path()).unwrap(), "mine");
    fs::write(yard.path(), "the operator's").unwrap();
    drop(yard.seals.hold());
    assert_eq!(fs::read_to_string(yard.path()).unwrap(), "the operator's", "between commands it may change");
}
