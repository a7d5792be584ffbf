use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::*;

struct Place {
    root: tempfile::TempDir,
    store: TrustStore,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("work")).unwrap();
        let store = TrustStore::at(&root.path().join("data"));
        Self { root, store }
    }

    fn folder(&self) -> PathBuf {
        self.root.path().join("work")
    }

    fn file(&self, layer: FileLayer) -> ConfigFile {
        let path = self.folder().join("patchboard.toml");
        ConfigFile { layer, shown: path.clone(), path }
    }

    fn write(&self, text: Option<&str>) {
        match text {
            Some(text) => fs::write(self.folder().join("patchboard.toml"), text).unwrap(),
            None => fs::remove_file(self.folder().join("patchboard.toml")).unwrap_or_default(),
        }
    }

    /// What counts for a file of this layer, and whether a warning is shown.
    fn counts(&self, layer: FileLayer) -> (Option<String>, bool) {
        let reader = TrustedReader { store: self.store.clone() };
        let file = self.file(layer);
        (reader.read(&file).unwrap(), reader.warning(&file).is_some())
    }
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn where_no_agent_could_write_the_owners_edits_count_at_once() {
    for layer in [FileLayer::User, FileLayer::Named] {
        let place = Place::new();
        for edit in ["a = 1", "a = 2"] {
            place.write(Some(edit));
            assert_eq!(place.counts(layer), (text(edit), false), "{layer:?}");
        }
    }
}

#[test]
fn a_project_file_counts_for_nothing_until_it_is_trusted_once() {
    let place = Place::new();
    assert_eq!(place.counts(FileLayer::Project), (None, false), "there is none");
    place.write(Some("a = 1"));
    for _ in 0..2 {
        assert_eq!(place.counts(FileLayer::Project), (None, true), "looking at it does not trust it");
    }
    place.store.trust_config(&place.file(FileLayer::Project).path, "a = 1").unwrap();
    assert_eq!(place.counts(FileLayer::Project), (text("a = 1"), false));
    place.write(Some("a = 2"));
    assert_eq!(place.counts(FileLayer::Project), (text("a = 2"), false), "its owner's edit");
}

#[test]
fn where_agents_may_write_the_trusted_content_goes_on_counting() {
    for layer in [FileLayer::User, FileLayer::Project, FileLayer::Named] {
        let place = Place::new();
        place.write(Some("a = 1"));
        place.store.trust_config(&place.file(layer).path, "a = 1").unwrap();
        place.store.expose(&place.folder()).unwrap();
        assert_eq!(place.counts(layer), (text("a = 1"), false), "{layer:?}: unchanged");
        for planted in [Some("evil = 1"), None] {
            place.write(planted);
            assert_eq!(place.counts(layer), (text("a = 1"), true), "{layer:?}: {planted:?}");
        }
        fs::create_dir(place.file(layer).path).unwrap();
        assert_eq!(place.counts(layer), (text("a = 1"), true), "{layer:?}: a folder in its place");
    }
}

#[test]
fn a_file_that_appears_where_agents_may_write_stays_unread() {
    for layer in [FileLayer::User, FileLayer::Project] {
        let place = Place::new();
        place.store.expose(&place.folder()).unwrap();
        place.write(Some("evil = 1"));
        assert_eq!(place.counts(layer), (None, true), "{layer:?}");
    }
}

#[test]
fn a_link_is_judged_by_both_its_ends() {
    let place = Place::new();
    let target = place.root.path().join("elsewhere");
    fs::create_dir(&target).unwrap();
    fs::write(target.join("real.toml"), "a = 1").unwrap();
    symlink(target.join("real.toml"), place.file(FileLayer::User).path).unwrap();
    assert_eq!(place.counts(FileLayer::User), (text("a = 1"), false));
    place.store.expose(&target).unwrap();
    fs::write(target.join("real.toml"), "evil = 1").unwrap();
    assert_eq!(place.counts(FileLayer::User), (text("a = 1"), true));
}

#[test]
fn a_warning_shows_the_difference_on_one_line_and_what_to_type() {
    let place = Place::new();
    let file = place.file(FileLayer::User);
    place.store.trust_config(&file.path, "a = 1\n").unwrap();
    place.store.expose(&place.folder()).unwrap();
    place.write(Some("a = 1\nb = \"\u{1b}[2J\"\n"));
    let warning = TrustedReader { store: place.store }.warning(&file).unwrap();
    assert!(warning.message.contains("+b = "), "{}", warning.message);
    assert!(!warning.message.chars().any(char::is_control), "{:?}", warning.message);
    assert!(warning.hint.contains("patchboard trust"), "{}", warning.hint);
}

type Maker<'a> = Box<dyn Fn() -> io::Result<()> + 'a>;

/// What a command can put in the place of a file so that reading it fails, or never ends.
fn no_configuration(path: &Path) -> [(&'static str, Maker<'_>); 5] {
    use rustix::fs::{CWD, FileType, mknodat};
    [
        ("a pipe", Box::new(move || mknodat(CWD, path, FileType::Fifo, 0o600.into(), 0).map_err(Into::into))),
        ("a folder", Box::new(move || fs::create_dir(path))),
        ("bytes", Box::new(move || fs::write(path, [0xff; 20]))),
        ("too much", Box::new(move || fs::File::create(path)?.set_len(2 << 20))),
        ("a link to itself", Box::new(move || symlink(path, path))),
    ]
}

fn clear(path: &Path) {
    fs::remove_dir(path).or_else(|_| fs::remove_file(path)).unwrap();
}

#[test]
fn a_project_file_that_cannot_be_read_is_left_out() {
    let place = Place::new();
    let path = place.file(FileLayer::Project).path;
    for (what, make) in no_configuration(&path) {
        make().unwrap();
        assert_eq!(place.counts(FileLayer::Project), (None, true), "{what}");
        clear(&path);
    }
    place.store.trust_config(&path, "a = 1").unwrap();
    for (what, make) in no_configuration(&path) {
        make().unwrap();
        assert_eq!(place.counts(FileLayer::Project), (text("a = 1"), true), "{what}: what was trusted goes on");
        clear(&path);
    }
}

#[test]
fn a_users_file_that_cannot_be_read_is_left_out_only_where_agents_may_write() {
    let place = Place::new();
    let file = place.file(FileLayer::User);
    let reader = TrustedReader { store: place.store.clone() };
    for (what, make) in no_configuration(&file.path) {
        make().unwrap();
        assert!(reader.read(&file).is_err(), "{what}");
        clear(&file.path);
    }
    place.store.expose(&place.folder()).unwrap();
    for (what, make) in no_configuration(&file.path) {
        make().unwrap();
        assert_eq!(place.counts(FileLayer::User), (None, true), "{what}");
        clear(&file.path);
    }
}

#[test]
fn a_link_between_two_others_is_judged_too() {
    let place = Place::new();
    let own = place.root.path().join("own");
    fs::create_dir(&own).unwrap();
    let (file, middle) = (ConfigFile { path: own.join("patchboard.toml"), ..place.file(FileLayer::User) }, "mid.toml");
    fs::write(own.join("real.toml"), "a = 1").unwrap();
    symlink(own.join("real.toml"), place.folder().join(middle)).unwrap();
    symlink(place.folder().join(middle), &file.path).unwrap();
    let reader = TrustedReader { store: place.store.clone() };
    assert_eq!(reader.read(&file).unwrap(), text("a = 1"));
    place.store.expose(&place.folder()).unwrap();
    fs::write(own.join("evil.toml"), "evil = 1").unwrap();
    fs::remove_file(place.folder().join(middle)).unwrap();
    symlink(own.join("evil.toml"), place.folder().join(middle)).unwrap();
    assert_eq!(reader.read(&file).unwrap(), text("a = 1"));
}

#[test]
fn what_took_the_place_of_a_held_file_does_not_count() {
    let place = Place::new();
    let file = place.file(FileLayer::User);
    place.write(Some("a = 1"));
    assert_eq!(place.counts(FileLayer::User), (text("a = 1"), false));
    let real: PathBuf = file.path.canonicalize().unwrap();
    let identity = crate::trust::store::FileIdentity::of(&real).unwrap();
    place.store.write_hold_mark(&real, "server", &identity).unwrap();
    place.write(Some("a = 2"));
    assert_eq!(place.counts(FileLayer::User), (text("a = 2"), false), "edited in place");
    fs::write(place.folder().join("new"), "evil = 1").unwrap();
    fs::rename(place.folder().join("new"), &real).unwrap();
    assert_eq!(place.counts(FileLayer::User), (text("a = 2"), true));
}

#[test]
fn a_named_file_without_a_record_is_left_out_where_agents_may_write() {
    let place = Place::new();
    place.write(Some("a = 1"));
    assert_eq!(place.counts(FileLayer::Named), (text("a = 1"), false));
    place.store.expose(&place.folder()).unwrap();
    place.write(Some("a = 2"));
    assert_eq!(place.counts(FileLayer::Named), (text("a = 1"), true));
    // What was on record is gone, or cannot be read.
    for damage in ["", "{"] {
        let records = place.root.path().join("data/trust/config");
        for record in fs::read_dir(records).unwrap() {
            fs::write(record.unwrap().path(), damage).unwrap();
        }
        assert_eq!(place.counts(FileLayer::Named), (None, true), "{damage:?}");
    }
}

#[test]
fn a_named_file_is_the_same_with_and_without_dots() {
    // What `..` means depends on links; a path with it has a record of its own, and none where agents may write.
    let folders = patchboard_config::UserFolders { default_data_dir: None, config_dir: None, home: None };
    let find = |named: &str| {
        let found = patchboard_config::files::find(Some(Path::new(named)), Path::new("/agents/work/conf"), &folders);
        found.into_iter().map(|file| file.path).collect::<Vec<_>>()
    };
    for named in ["board.toml", "./board.toml", ".//./board.toml", "/agents/work/conf/./board.toml"] {
        assert_eq!(find(named), [PathBuf::from("/agents/work/conf/board.toml")], "{named}");
    }
}
