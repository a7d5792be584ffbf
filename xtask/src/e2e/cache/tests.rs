use super::*;

#[test]
fn other_contents_have_another_key() {
    assert_eq!(key(&[b"a", b"b"]), key(&[b"a", b"b"]));
    assert_ne!(key(&[b"a", b"b"]), key(&[b"ab"]));
    assert_ne!(key(&[b"a"]), key(&[b"b"]));
}

#[test]
fn a_name_leads_to_the_newest_folder_whatever_was_there_before() {
    let scratch = tempfile::tempdir().expect("a folder");
    let name = scratch.path().join("name");
    std::fs::create_dir_all(name.join("old")).expect("a folder can be made");
    for folder in ["one", "one", "two"] {
        let folder = scratch.path().join(folder);
        link(&name, &folder).expect("it can be linked");
        assert_eq!(std::fs::read_link(&name).expect("a link"), folder);
    }
}
