use super::{MAX_TITLE_CHARS, chosen_title, title_of};

#[test]
fn titles_are_the_first_words() {
    let long = "x".repeat(200);
    let cut = format!("{}…", "x".repeat(60));
    for (message, expected) in [
        ("hello", Some("hello")),
        ("  plan\n\ta  trip\u{7} to Lyon ", Some("plan a trip to Lyon")),
        ("", None),
        (" \n\t", None),
        (long.as_str(), Some(cut.as_str())),
        (
            "how do I keep tomatoes from splitting after a long night of rain in the autumn",
            Some("how do I keep tomatoes from splitting after a long night of…"),
        ),
    ] {
        assert_eq!(title_of(message).as_deref(), expected, "{message:?}");
    }
}

#[test]
fn chosen_titles_are_folded_and_bounded() {
    let longest = "y".repeat(MAX_TITLE_CHARS);
    for (text, expected) in [
        (" the\ngarden ", Some("the garden")),
        ("\n", None),
        (longest.as_str(), Some(longest.as_str())),
        (&format!("{longest}y"), None),
    ] {
        assert_eq!(chosen_title(text).as_deref(), expected, "{text:?}");
    }
}
