use std::fs;

use super::*;
use crate::trust::exposure::is_exposed;

struct Place {
    root: tempfile::TempDir,
    holds: Arc<FileHolds>,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("work")).unwrap();
        let holds = FileHolds::new(TrustStore::at(&root.path().join("data")), root.path());
        let place = Self { root, holds };
        fs::write(place.file(), "one").unwrap();
        place
    }

    fn file(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap().join("work/patchboard.toml")
    }

    fn rename_over(&self) {
        let other = self.file().with_extension("new");
        fs::write(&other, "the owner's").unwrap();
        fs::rename(other, self.file()).unwrap();
    }

    /// By its folder, whatever marks there are.
    fn has_exposed_folder(&self) -> bool {
        self.holds.store.is_exposed(self.file().parent().unwrap())
    }

    fn marks(&self) -> usize {
        self.holds.store.held_files_of(&self.holds.server).len()
    }
}

#[test]
fn a_file_that_stays_leaves_nothing_behind() {
    let place = Place::new();
    let (first, second) =
        (place.holds.acquire(&[place.file()]).unwrap(), place.holds.acquire(&[place.file()]).unwrap());
    drop(first);
    assert_eq!(place.marks(), 1, "another process runs");
    fs::write(place.file(), "the owner's edit in place").unwrap();
    assert!(!is_exposed(&place.holds.store, &place.file()));
    drop(second);
    assert_eq!((place.marks(), place.has_exposed_folder()), (0, false));
    place.rename_over();
    assert!(!is_exposed(&place.holds.store, &place.file()), "nothing runs");
}

#[test]
fn a_file_that_was_replaced_while_a_process_ran_is_exposed_at_once_and_for_good() {
    let place = Place::new();
    let hold = place.holds.acquire(&[place.file()]).unwrap();
    place.rename_over();
    assert!(is_exposed(&place.holds.store, &place.file()));
    assert!(!place.has_exposed_folder());
    // A process that starts now changes nothing about it.
    let next = place.holds.acquire(&[place.file()]).unwrap();
    assert!(is_exposed(&place.holds.store, &place.file()));
    drop((hold, next));
    assert_eq!((place.marks(), place.has_exposed_folder()), (0, true));
}

#[test]
fn marks_of_a_server_that_was_killed_are_settled_by_the_next() {
    for is_replaced in [false, true] {
        let place = Place::new();
        std::mem::forget(place.holds.acquire(&[place.file()]).unwrap());
        if is_replaced {
            place.rename_over();
        }
        assert_eq!(is_exposed(&place.holds.store, &place.file()), is_replaced, "for every command until then");
        // A server on another data directory has nothing to do with it.
        FileHolds::new(place.holds.store.clone(), Path::new("/elsewhere"));
        assert_eq!(place.marks(), 1);
        let next = FileHolds::new(place.holds.store.clone(), place.root.path());
        assert_eq!((next.store.held_files_of(&next.server), place.has_exposed_folder()), (vec![], is_replaced));
    }
}
