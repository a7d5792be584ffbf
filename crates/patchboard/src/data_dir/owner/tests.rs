use super::*;

struct Folder(tempfile::TempDir);

impl Folder {
    fn with_mode(mode: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
        Self(folder)
    }

    fn mode(&self) -> u32 {
        fs::metadata(self.0.path()).unwrap().mode() & 0o7777
    }
}

#[test]
fn an_own_folder_is_closed_to_others() {
    for (before, sharing, after) in [
        (0o700, DirSharing::OwnerOnly, 0o700),
        (0o755, DirSharing::OwnerOnly, 0o700),
        (0o777, DirSharing::OwnerOnly, 0o700),
        (0o2770, DirSharing::OwnerOnly, 0o2700),
        (0o2775, DirSharing::Group, 0o2770),
        (0o770, DirSharing::Group, 0o770),
    ] {
        let folder = Folder::with_mode(before);
        close_to_other_users(folder.0.path(), sharing).unwrap();
        assert_eq!(folder.mode(), after, "{before:o} {sharing:?}");
    }
}

#[test]
fn a_folder_that_all_users_share_is_left_as_it_is() {
    let folder = Folder::with_mode(0o1777);
    let refused = close_to_other_users(folder.0.path(), DirSharing::OwnerOnly).unwrap_err();
    assert!(matches!(refused, UnsafeFolder::SharedFolder(_)), "{refused}");
    assert_eq!(folder.mode(), 0o1777);
}

#[test]
fn a_folder_of_another_user_is_refused_with_the_command_that_mends_it() {
    if !rustix::process::geteuid().is_root() {
        // An ordinary user cannot give a folder away; one that is root's will do.
        let refused = close_to_other_users(Path::new("/usr"), DirSharing::OwnerOnly).unwrap_err();
        assert!(refused.to_string().contains("chown -R"), "{refused}");
        return;
    }
    let folder = Folder::with_mode(0o2770);
    std::os::unix::fs::chown(folder.0.path(), Some(12345), None).unwrap();
    let refused = close_to_other_users(folder.0.path(), DirSharing::OwnerOnly).unwrap_err().to_string();
    assert!(refused.contains("belongs to user 12345") && refused.contains("`chown -R 0 /"), "{refused}");
    close_to_other_users(folder.0.path(), DirSharing::Group).unwrap();
    fs::set_permissions(folder.0.path(), Permissions::from_mode(0o2777)).unwrap();
    let refused = close_to_other_users(folder.0.path(), DirSharing::Group).unwrap_err();
    assert!(matches!(refused, UnsafeFolder::OpenToAll { owner: 12345, .. }), "{refused}");
}

#[test]
fn what_another_user_put_into_an_open_folder_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for mode in [0o777, 0o755] {
        let folder = Folder::with_mode(mode);
        fs::create_dir(folder.0.path().join("trust")).unwrap();
        let planted = folder.0.path().join("trust/record");
        fs::write(&planted, "").unwrap();
        std::os::unix::fs::chown(&planted, Some(12345), None).unwrap();
        let secured = close_to_other_users(folder.0.path(), DirSharing::OwnerOnly);
        match secured {
            Err(UnsafeFolder::ForeignEntry { path, owner, .. }) => assert_eq!((path, owner), (planted, 12345)),
            // No other user could write there.
            other => assert!(mode == 0o755 && other.is_ok(), "{mode:o} {other:?}"),
        }
        // Left as it is while it is refused, or the next start would not look.
        assert_eq!(folder.mode(), if mode == 0o777 { 0o777 } else { 0o700 });
        assert_eq!(
            close_to_other_users(folder.0.path(), DirSharing::OwnerOnly).is_err(),
            mode == 0o777,
            "however often"
        );
    }
}

#[test]
fn records_are_kept_where_nobody_else_could_have_put_them() {
    let own = Folder::with_mode(0o700);
    let trust = own.0.path().join("trust");
    assert!(may_hold_records(own.0.path(), &trust), "it can be made");
    fs::create_dir(&trust).unwrap();
    assert!(may_hold_records(own.0.path(), &trust));
    assert!(may_hold_records(Path::new("/no/such/folder"), Path::new("/no/such/folder/trust")));
    let open = Folder::with_mode(0o777);
    let trust = open.0.path().join("trust");
    assert!(!may_hold_records(open.0.path(), &trust), "others may make it first");
    std::os::unix::fs::symlink(own.0.path(), &trust).unwrap();
    assert!(!may_hold_records(open.0.path(), &trust), "a link");
    let record = own.0.path().join("record");
    fs::write(&record, "x").unwrap();
    assert!(is_own_record(&fs::metadata(&record).unwrap()));
    fs::set_permissions(&record, Permissions::from_mode(0o666)).unwrap();
    assert!(!is_own_record(&fs::metadata(&record).unwrap()));
}
