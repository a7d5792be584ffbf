use super::*;

#[test]
fn logged_bodies_are_short_and_hold_no_key() {
    let key = SecretString::from("sk-secret\n");
    let body = format!("bad key sk-secret {}sk-secret", "é".repeat(MAX_LOGGED_BODY / 2 - 10));
    let logged = redacted_body(body.as_bytes(), Some(&key));
    assert!(logged.starts_with("bad key [key] é") && logged.len() <= MAX_LOGGED_BODY, "{logged}");
    assert!(!logged.contains("sk-"), "{logged}");
    assert_eq!(redacted_body(b"\xff", None), "\u{fffd}");
}

#[test]
fn a_key_that_is_no_header_is_refused() {
    let options = crate::ProviderOptions {
        api_key: Some("sk-\u{0}".into()),
        ..crate::ProviderOptions::new("main", crate::ProviderKind::OpenAi)
    };
    let expected = Error::ApiKey { provider: "main".to_owned() };
    assert_eq!(crate::build(options, &ClientPool::new()).err(), Some(expected));
}
