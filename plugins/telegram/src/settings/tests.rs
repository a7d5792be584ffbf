use super::*;

fn read(pairs: &[(&str, &str)]) -> Settings {
    Settings::read(|key| pairs.iter().find(|(name, _)| *name == key).map(|(_, value)| (*value).to_owned()))
}

#[test]
fn defaults_and_what_is_set() {
    let defaults = Settings { api_root: "https://api.telegram.org".to_owned(), reply_to: true, allowed_chats: vec![] };
    assert_eq!(read(&[]), defaults);
    let given =
        read(&[("api_root", "http://127.0.0.1:8081/"), ("reply_to", "false"), ("allowed_chats", " 5, @desk ,")]);
    let expected = Settings {
        api_root: "http://127.0.0.1:8081".to_owned(),
        reply_to: false,
        allowed_chats: vec!["5".to_owned(), "@desk".to_owned()],
    };
    assert_eq!(given, expected);
}

#[test]
fn chats_are_allowed_by_number_or_name() {
    assert!(read(&[]).allows(7, None));
    let some = read(&[("allowed_chats", "-100200,@Desk")]);
    assert!(some.allows(-100_200, None));
    assert!(some.allows(3, Some("desk")));
    assert!(!some.allows(100_200, Some("other")));
    assert!(!some.allows(3, None));
}
