use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

struct Fixture {
    _dir: TempDir,
    base: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for folder in ["data", "work/deep/er", "elsewhere"] {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        fs::write(base.join("data/token"), "SECRET").unwrap();
        fs::write(base.join("work/plain"), "").unwrap();
        Self { _dir: dir, base }
    }

    fn link(&self, name: &str) {
        fs::hard_link(self.base.join("data/token"), self.base.join(name)).unwrap();
    }

    /// With the token protected, by its own path or another, and the working folder looked through.
    fn find(&self, protected: &[&str]) -> Result<Vec<String>, String> {
        let protected: Vec<PathBuf> = protected.iter().map(|path| self.base.join(path)).collect();
        let folders = ["work", "work/deep"].map(|folder| self.base.join(folder));
        let found = find(protected.iter().map(PathBuf::as_path), folders)?;
        let mut found: Vec<String> =
            found.iter().map(|path| path.strip_prefix(&self.base).unwrap().display().to_string()).collect();
        found.sort();
        Ok(found)
    }
}

#[test]
fn files_with_one_name_and_folders_are_not_looked_for() {
    let fixture = Fixture::new();
    fs::hard_link(fixture.base.join("work/plain"), fixture.base.join("elsewhere/plain")).unwrap();
    assert_eq!(fixture.find(&["data/token", "data", "no/such", "work/plain/x"]), Ok(vec![]));
}

#[test]
fn every_other_name_is_found() {
    let fixture = Fixture::new();
    fixture.link("work/note");
    fixture.link("work/deep/er/note");
    symlink("note", fixture.base.join("work/pointer")).unwrap();
    symlink("data/token", fixture.base.join("configured")).unwrap();
    for protected in [&["data/token"][..], &["configured"], &["data", "data/token", "configured"]] {
        assert_eq!(fixture.find(protected), Ok(vec!["work/deep/er/note".to_owned(), "work/note".to_owned()]));
    }
    // One that is protected itself need not be found.
    fixture.link("elsewhere/token");
    assert!(fixture.find(&["data/token", "elsewhere/token"]).is_ok());
}

#[test]
fn where_a_command_works_is_looked_through_before_what_it_may_read() {
    let fixture = Fixture::new();
    fixture.link("work/deep/note");
    for number in 0..MAX_ENTRIES {
        fs::File::create(fixture.base.join("elsewhere").join(number.to_string())).unwrap();
    }
    let (token, work, large) = ["data/token", "work", "elsewhere"].map(|path| fixture.base.join(path)).into();
    let found = |folders: [&PathBuf; 2]| find([token.as_path()], folders.map(Clone::clone));
    assert_eq!(found([&work, &large]), Ok(vec![work.join("deep/note")]));
    assert!(found([&large, &work]).is_err(), "more entries than are looked at");
}

#[test]
fn a_name_that_is_not_found_is_an_error_that_says_what_to_do() {
    let fixture = Fixture::new();
    fixture.link("work/note");
    fixture.link("elsewhere/backup");
    let words = fixture.find(&["data/token"]).unwrap_err();
    assert!(words.contains("has 3 names (hard links) of which only 2 are known"), "{words}");
    assert!(words.contains("cp -p") && words.contains("data/token"), "{words}");
}
