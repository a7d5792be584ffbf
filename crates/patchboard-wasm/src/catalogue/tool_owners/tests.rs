use super::*;

fn names(of: &[&str]) -> Vec<Arc<str>> {
    of.iter().map(|name| Arc::from(*name)).collect()
}

#[test]
fn a_name_stays_with_whoever_had_it_first() {
    let mut known = ToolNameOwners::default();
    let (notes, other): (Arc<str>, Arc<str>) = ("notes".into(), "AAA".into());
    known.assign(&notes, names(&["note_add", "note_get"]).iter());
    known.assign(&other, names(&["note_add", "ro"]).iter());
    assert_eq!(known.owner("note_add"), Some(&notes));
    assert_eq!(known.owner("ro"), Some(&other));
}

#[test]
fn a_version_without_the_tool_lets_go_of_its_name() {
    let mut known = ToolNameOwners::default();
    let (notes, other): (Arc<str>, Arc<str>) = ("notes".into(), "AAA".into());
    known.assign(&notes, names(&["note_add", "note_get"]).iter());
    known.assign(&notes, names(&["note_get"]).iter());
    assert_eq!(known.owner("note_add"), None);
    known.assign(&other, names(&["note_add"]).iter());
    known.assign(&notes, names(&["note_add", "note_get"]).iter());
    assert_eq!(known.owner("note_add"), Some(&other));
    known.retain_plugins(|plugin| plugin == "notes");
    assert_eq!(known.owner("note_add"), None);
}
