use super::*;

#[test]
fn titles_are_the_first_words_on_one_line() {
    let words = "word ".repeat(16);
    for (text, expected) in [
        ("", "".to_owned()),
        (" \n\t ", "".to_owned()),
        ("hello", "hello".to_owned()),
        ("  what is\n\nthe\tweather\u{0} like? ", "what is the weather like?".to_owned()),
        (words.trim_end(), words.trim_end().to_owned()),
        (&*format!("{words}more"), format!("{}…", words.trim_end())),
        (&*"é".repeat(80), "é".repeat(80)),
        (&*"é".repeat(81), format!("{}…", "é".repeat(80))),
        (&*format!("a {}", "b".repeat(200)), "a…".to_owned()),
    ] {
        assert_eq!(title(text), expected, "{text:?}");
    }
}
