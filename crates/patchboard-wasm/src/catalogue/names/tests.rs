use super::*;

fn names(of: &[&str]) -> Vec<Arc<str>> {
    of.iter().map(|name| Arc::from(*name)).collect()
}

#[test]
fn a_name_stays_with_whoever_had_it_first() {
    let mut known = Names::default();
    let (notes, other): (Arc<str>, Arc<str>) = ("notes".into(), "AAA".into());
    known.settle(&notes, names(&["note_add", "note_get"]).iter());
    known.settle(&other, names(&["note_add", "ro"]).iter());
    assert_eq!(known.owner("note_add"), Some(&notes));
    assert_eq!(known.owner("ro"), Some(&other));
}

#[test]
fn a_version_without_the_tool_lets_go_of_its_name() {
    let mut known = Names::default();
    let (notes, other): (Arc<str>, Arc<str>) = ("notes".into(), "AAA".into());
    known.settle(&notes, names(&["note_add", "note_get"]).iter());
    known.settle(&notes, names(&["note_get"]).iter());
    assert_eq!(known.owner("note_add"), None);
    known.settle(&other, names(&["note_add"]).iter());
    known.settle(&notes, names(&["note_add", "note_get"]).iter());
    assert_eq!(known.owner("note_add"), Some(&other));
    known.keep_those_of(|plugin| plugin == "notes");
    assert_eq!(known.owner("note_add"), None);
}
