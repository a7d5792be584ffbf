use super::*;

#[test]
fn says_what_a_kernel_cannot_restrict() {
    let available = |abi| LandlockSupport::Available { abi };
    for (found, gaps) in [
        (available(1), 4),
        (available(3), 3),
        (available(5), 2),
        (available(7), 1),
        (available(9), 0),
        (available(12), 0),
        (LandlockSupport::NotEnabled, 0),
    ] {
        assert_eq!(found.gaps().len(), gaps, "{found}");
    }
    assert_eq!(available(9).to_string(), "commands are confined by Landlock ABI 9");
    assert_eq!(
        available(7).to_string(),
        "commands are confined by Landlock ABI 7, which does not restrict connections to sockets that have a path, \
         such as those of other services of the same user"
    );
    assert!(LandlockSupport::NotEnabled.to_string().starts_with("commands are not confined"));
}

#[test]
fn asking_restricts_nobody_who_lives_on() {
    let before = LandlockSupport::probe();
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(std::fs::read(file.path()).is_ok());
    assert_eq!(LandlockSupport::probe(), before);
}
