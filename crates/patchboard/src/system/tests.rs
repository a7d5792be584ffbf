use super::*;

fn souls(path: &std::path::Path) -> SoulFiles {
    SoulFiles::new(HashMap::from([("default".to_owned(), path.to_owned())]))
}

#[test]
fn a_soul_is_read_from_its_file_and_again_when_it_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("SOUL.md");
    std::fs::write(&path, "Be kind.").unwrap();
    let souls = souls(&path);
    assert_eq!(souls.soul("default").as_deref(), Some("Be kind."));
    assert_eq!(souls.soul("other"), None, "an agent without a soul has none");

    std::fs::write(&path, "Be brief.").unwrap();
    // As if a second had passed, and the file were from another moment.
    let mut read = souls.read.lock().unwrap();
    let known = read.get_mut("default").unwrap();
    known.looked_at -= LOOK_AGAIN;
    known.modified = None;
    drop(read);
    assert_eq!(souls.soul("default").as_deref(), Some("Be brief."));
}

#[test]
fn a_soul_that_cannot_be_read_or_is_too_long_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(souls(&folder.path().join("missing")).soul("default"), None);
    let long = folder.path().join("long");
    std::fs::write(&long, vec![b'x'; MAX_SOUL as usize + 1]).unwrap();
    assert_eq!(souls(&long).soul("default"), None);
}

#[cfg(target_os = "linux")]
#[test]
fn a_closed_process_cannot_be_looked_into() {
    use rustix::process::{DumpableBehavior, dumpable_behavior};
    close_to_others().unwrap();
    assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
}
