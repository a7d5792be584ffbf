use super::missing;

#[test]
fn only_what_is_missing_is_installed() {
    assert_eq!(missing(|_| true), Vec::<&str>::new());
    assert_eq!(missing(|program| program == "chromium"), ["dbus"]);
    assert_eq!(missing(|_| false), ["chromium", "dbus"]);
}
