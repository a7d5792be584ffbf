use super::*;

#[test]
fn folders_of_this_machine_are_named_otherwise() {
    let flags = flags(&[PathBuf::from("/c/src/one"), PathBuf::from("/c/src/two")], Path::new("/r"));
    let flags: Vec<&str> = flags.split('\u{1f}').collect();
    assert_eq!(
        flags,
        [
            "--remap-path-prefix=/c/src/one=packages",
            "--remap-path-prefix=/c/src/two=packages",
            "--remap-path-prefix=/r=patchboard",
        ]
    );
}
