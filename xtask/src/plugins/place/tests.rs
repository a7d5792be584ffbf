use super::*;

fn component(more: &[u8]) -> Vec<u8> {
    [&COMPONENT, more].concat()
}

fn verdict(bytes: &[u8]) -> Result<(), String> {
    let guest = offered().next().expect("a guest");
    inspect(guest, bytes).map_err(|error| error.to_string())
}

#[test]
fn only_small_components_without_traces_are_taken() {
    assert_eq!(verdict(&component(b"code")), Ok(()));
    assert_eq!(verdict(b"\0asm\x01\0\0\0"), Err("`echo` is not a component".to_owned()));
    let traces = component(b"x /.cargo/registry/src/index/y");
    assert_eq!(verdict(&traces), Err("`echo` names folders of this machine".to_owned()));
    let large = component(&vec![0; 200_000]);
    assert_eq!(verdict(&large), Err("`echo` has grown to 200008 bytes, 200000 are the most".to_owned()));
}

#[test]
fn the_committed_ones_can_stand_in_and_stale_ones_are_found() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (root, folder) = (scratch.path().join("root"), scratch.path().join("folder"));
    for guest in offered() {
        put(&committed(&root, guest), guest.name.as_bytes()).expect("a file");
    }
    put(&folder.join("hostile.wasm"), b"of another build").expect("a file");
    take_committed(&root, &folder).expect("all are there");
    assert!(!folder.join("hostile.wasm").exists());
    assert_eq!(stale(&folder, &root).expect("readable"), None);

    put(&folder.join("slack.wasm"), b"newer").expect("a file");
    assert_eq!(stale(&folder, &root).expect("readable"), Some("slack"));
    commit(&folder, &root).expect("writable");
    assert_eq!(stale(&folder, &root).expect("readable"), None);
    assert_eq!(put(&folder.join("slack.wasm"), b"newer").expect("a file"), "as before");
}
