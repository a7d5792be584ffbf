use super::AccountName;

#[test]
fn accounts_are_named_with_their_channel() {
    let name =
        |channel: &str, account: &str| Ok(AccountName { channel: channel.to_owned(), account: account.to_owned() });
    let refused = || Err("write CHANNEL/ACCOUNT, such as web/alice".to_owned());
    for (text, expected) in [
        ("web/alice", name("web", "alice")),
        ("mail/a/b", name("mail", "a/b")),
        ("web", refused()),
        ("web/", refused()),
        ("/alice", refused()),
        ("", refused()),
    ] {
        assert_eq!(text.parse::<AccountName>(), expected, "{text:?}");
    }
}
