use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn files_with_keys_are_judged_by_what_others_may_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    fs::write(&path, "k").unwrap();
    let judged = |mode: u32| {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        key_files_finding(&[path.clone(), folder.path().join("absent")])
    };
    let shown = path.display();
    assert_eq!(
        judged(0o600),
        DoctorFinding::Good("keys: 1 files with keys and data, readable by this user only".to_owned())
    );
    let readable = DoctorFinding::Note(format!("keys: others may read {shown}; chmod 600 keeps them out"));
    assert_eq!(judged(0o644), readable);
    let writable = DoctorFinding::Bad {
        problem: format!("keys: others may change {shown} (mode 620)"),
        hint: format!("chmod 600 {shown}"),
    };
    assert_eq!(judged(0o620), writable);
}
