use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn names(offered: &[&str], called: &[&str]) -> ToolNameMap {
    let own = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect::<Vec<Arc<str>>>();
    let (offered, called) = (own(offered), own(called));
    ToolNameMap::new(offered.iter(), called.iter())
}

/// Each offered name and what the model sees; what it answers leads back.
#[track_caller]
fn check(expected: &[(&str, &str)]) {
    let offered: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
    let names = names(&offered, &[]);
    for (name, wire) in expected {
        assert_eq!(names.wire_name(name), *wire);
        assert_eq!(names.board_name(wire).as_ref(), *name);
    }
}

#[test]
fn fitting_names_stay() {
    check(&[("read_file", "read_file"), ("bash", "bash"), ("Get-Weather2", "Get-Weather2")]);
}

#[test]
fn points_become_two_underscores() {
    check(&[("app.notes", "app__notes"), ("py.math.add", "py__math__add")]);
}

#[test]
fn other_characters_become_one() {
    check(&[("files/read", "files_read"), ("grüße", "gr__e")]);
}

#[test]
fn a_name_that_fits_is_never_taken_away() {
    check(&[("app.notes", "app__notes_de5ea05b"), ("app__notes", "app__notes")]);
}

#[test]
fn all_of_several_that_clash_are_hashed() {
    check(&[("a.b", "a__b_2e7336dc"), ("a/_b", "a__b_f4438865")]);
}

#[test]
fn long_names_are_cut_and_hashed() {
    let long = format!("worker.{}", "x".repeat(80));
    check(&[(&long, &format!("worker__{}_d2127649", "x".repeat(47)))]);
    check(&[("", "_e3b0c442")]);
}

#[test]
fn the_past_does_not_change_what_is_offered() {
    let alone = names(&["app.notes"], &[]);
    let later = names(&["app.notes"], &["app__notes", "app/_notes", "gone.tool"]);
    assert_eq!(alone.wire_name("app.notes"), later.wire_name("app.notes"));
    assert_eq!(later.wire_name("gone.tool"), "gone__tool");
    assert_ne!(later.wire_name("app__notes"), "app__notes");
    assert_eq!(later.board_name("app__notes").as_ref(), "app.notes");
}

#[test]
fn unknown_names_pass() {
    let names = names(&["app.notes"], &[]);
    assert_eq!(names.board_name("app.notes").as_ref(), "app.notes");
    assert_eq!(names.board_name("made up!").as_ref(), "made up!");
}

proptest! {
    #[test]
    fn every_name_is_legal_unique_and_leads_back(
        offered in vec("[ab._/é]{0,4}|[a.]{60,70}", 0..20),
        called in vec("[ab._/é]{0,4}|[a.]{60,70}", 0..20),
    ) {
        let own = |names: &[String]| names.iter().map(|name| Arc::from(name.as_str())).collect::<Vec<Arc<str>>>();
        let names = ToolNameMap::new(own(&offered).iter(), own(&called).iter());
        let mut mapped: HashMap<String, &str> = HashMap::new();
        for name in offered.iter().chain(&called) {
            let wire = names.wire_name(name);
            prop_assert!(is_valid(wire), "{name:?} became {wire:?}");
            let back = names.board_name(wire);
            prop_assert_eq!(back.as_ref(), name.as_str());
            prop_assert_eq!(*mapped.entry(wire.to_owned()).or_insert(name), name.as_str());
        }
    }
}
