use proptest::prelude::*;

use super::*;

#[test]
fn titles_are_plain_or_in_encoded_words() {
    let long = "ä".repeat(40);
    let cases = [
        ("Saved (2 times)", "Saved (2 times)".to_owned()),
        ("Gespräch", "=?UTF-8?B?R2VzcHLDpGNo?=".to_owned()),
        ("=?UTF-8?B?eA==?=", "=?UTF-8?B?PT9VVEYtOD9CP2VBPT0/PQ==?=".to_owned()),
        ("", String::new()),
    ];
    for (title, wanted) in cases {
        assert_eq!(header_text(title), wanted, "{title}");
    }
    let words = header_text(&long);
    assert_eq!(words.split(' ').count(), 2);
    assert!(words.split(' ').all(|word| word.len() <= 75), "{words}");
}

#[test]
fn letters_of_base64() {
    let cases = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
    for (text, wanted) in cases {
        assert_eq!(base64(text.as_bytes()), wanted);
    }
    assert_eq!(base64(&[0xff, 0xef, 0xbe]), "/+++");
}

#[test]
fn tags_cannot_be_more_than_one() {
    let cases =
        [(Some("note-book_1"), "note-book_1"), (Some("a,skull\r\nX: y"), "a_skull__X__y"), (None, "patchboard")];
    for (app, wanted) in cases {
        assert_eq!(tag(app), wanted);
    }
}

#[test]
fn long_messages_stay_messages() {
    assert_eq!(clipped_bytes("short"), "short");
    let cut = clipped_bytes(&"€".repeat(2000));
    assert!(cut.len() <= MAX_MESSAGE_BYTES && cut.ends_with("€…"));
}

#[test]
fn a_topic_is_one_step_of_a_path() {
    let sink = |server: &str, topic: &str| {
        NtfySink::new(NtfyOptions { server: server.to_owned(), topic: topic.to_owned(), token: None })
    };
    assert_eq!(format!("{:?}", sink("https://ntfy.sh/", "secret-topic").unwrap()), "ntfy { host: \"ntfy.sh\", .. }");
    for (server, topic) in
        [("https://ntfy.sh", "a/b"), ("https://ntfy.sh", ""), ("https://ntfy.sh", "a?x"), ("ntfy.sh", "a")]
    {
        assert!(sink(server, topic).is_err(), "{server} {topic}");
    }
}

proptest! {
    #[test]
    fn any_title_fits_a_header(title in any::<String>()) {
        let header = header_text(&title);
        prop_assert!(header.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        prop_assert!(patchboard_http::header::HeaderValue::from_str(&header).is_ok());
    }
}
