use super::*;

fn read(pairs: &[(&str, &str)]) -> Settings {
    Settings::read(|key| pairs.iter().find(|(name, _)| *name == key).map(|(_, value)| (*value).to_owned()))
}

#[test]
fn defaults_and_what_is_set() {
    let defaults = Settings { api_root: "https://slack.com/api".to_owned(), reply_in_thread: false };
    assert_eq!(read(&[]), defaults);
    let expected = Settings { api_root: "http://127.0.0.1:1/api".to_owned(), reply_in_thread: true };
    assert_eq!(read(&[("api_root", "http://127.0.0.1:1/api/"), ("reply_in_thread", "true")]), expected);
}
