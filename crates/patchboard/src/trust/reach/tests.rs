use std::os::unix::fs::symlink;

use super::*;

/// `work` can be written to, `other` cannot.
struct Machine {
    root: tempfile::TempDir,
    real: PathBuf,
}

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().canonicalize().unwrap();
        for folder in ["work/deep", "other"] {
            fs::create_dir_all(real.join(folder)).unwrap();
        }
        for file in ["work/deep/file", "other/file"] {
            fs::write(real.join(file), "x").unwrap();
        }
        Self { root, real }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn reach(&self, held: FileSealing) -> WriteReach {
        WriteReach { roots: vec![self.real.join("work")], sealed_by: held }
    }

    fn of(&self, name: &str, held: FileSealing) -> FileReach {
        file_reach(&self.path(name), &self.reach(held))
    }
}

#[test]
fn a_file_that_exists_can_be_held_and_one_that_does_not_cannot() {
    let machine = Machine::new();
    let held = FileReach::Holdable(machine.real.join("work/deep/file"));
    for (name, kept, expected) in [
        ("work/deep/file", FileSealing::Existing, held),
        ("work/deep/file", FileSealing::Nothing, FileReach::Open),
        ("work/deep/file", FileSealing::Sealed, FileReach::Open),
        ("work/deep/absent", FileSealing::Existing, FileReach::Open),
        ("work/no/such/folder", FileSealing::Existing, FileReach::Open),
        ("work/deep", FileSealing::Existing, FileReach::Open),
        ("other/file", FileSealing::Nothing, FileReach::Outside),
        ("other/absent", FileSealing::Nothing, FileReach::Outside),
    ] {
        assert_eq!(machine.of(name, kept), expected, "{name} {kept:?}");
    }
}

#[test]
fn a_second_name_of_a_file_could_be_written_to() {
    let machine = Machine::new();
    fs::hard_link(machine.path("work/deep/file"), machine.path("work/second")).unwrap();
    assert_eq!(machine.of("work/deep/file", FileSealing::Existing), FileReach::Open);
}

#[test]
fn a_link_is_judged_where_it_stands_and_where_it_leads() {
    let machine = Machine::new();
    symlink(machine.path("other/file"), machine.path("work/out")).unwrap();
    symlink(machine.path("work/deep"), machine.path("other/in")).unwrap();
    assert_eq!(machine.of("work/out", FileSealing::Existing), FileReach::Open, "the link itself could be replaced");
    let real = machine.real.join("work/deep/file");
    assert_eq!(machine.of("other/in/file", FileSealing::Existing), FileReach::Holdable(real));
    assert_eq!(machine.of("other/in/file", FileSealing::Nothing), FileReach::Open);
}

#[test]
fn a_folder_is_touched_from_within_from_above_and_by_links() {
    let machine = Machine::new();
    symlink(machine.path("work"), machine.path("other/in")).unwrap();
    for (name, expected) in [("work", true), ("work/deep", true), ("", true), ("other", false), ("other/in/deep", true)]
    {
        assert_eq!(can_change_folder(&machine.path(name), &machine.reach(FileSealing::Existing)), expected, "{name}");
    }
}

#[test]
fn directories_on_the_way_are_pinned_from_the_outside_in() {
    let machine = Machine::new();
    let pinned = pinned_ancestors(&machine.real.join("work/deep/file"), &machine.reach(FileSealing::Existing));
    assert_eq!(pinned, [machine.real.join("work"), machine.real.join("work/deep")]);
    let everything = WriteReach { roots: vec!["/".into()], sealed_by: FileSealing::Existing };
    assert!(!super::pinned_ancestors(Path::new("/a/b"), &everything).contains(&PathBuf::from("/")));
}

#[test]
fn a_link_between_two_others_is_seen() {
    let machine = Machine::new();
    symlink(machine.path("other/file"), machine.path("work/mid")).unwrap();
    symlink(machine.path("work/mid"), machine.path("other/first")).unwrap();
    for held in [FileSealing::Existing, FileSealing::Nothing] {
        assert_eq!(machine.of("other/first", held), FileReach::Open, "{held:?}: `mid` can be replaced");
    }
    symlink(machine.path("other"), machine.path("work/there")).unwrap();
    symlink(machine.path("work/there"), machine.path("other/scripts")).unwrap();
    assert!(can_change_folder(&machine.path("other/scripts"), &machine.reach(FileSealing::Existing)));
}

#[test]
fn a_folder_that_is_left_again_is_seen() {
    let machine = Machine::new();
    assert_eq!(machine.of("work/deep/../../other/file", FileSealing::Existing), FileReach::Open);
}

#[test]
fn a_folder_is_known_by_another_path_too() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().canonicalize().unwrap();
    std::fs::create_dir(real.join("work")).unwrap();
    std::fs::write(real.join("work/file"), "").unwrap();
    // A second mount of the folder looks like this: another path, the same inode.
    std::os::unix::fs::symlink("work", real.join("view")).unwrap();
    let reach = WriteReach { roots: vec![real.join("view")], sealed_by: FileSealing::Existing };
    assert!(lies_in_another_mount(&real.join("work/file"), &reach));
    assert!(!lies_in_another_mount(&real.join("other"), &reach));
    assert_eq!(file_reach(&real.join("work/file"), &reach), FileReach::Open, "no mount would cover both");
}
