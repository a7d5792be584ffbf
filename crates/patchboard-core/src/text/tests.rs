use super::*;

#[test]
fn what_a_reader_would_not_see_is_escaped() {
    for (text, shown) in [
        ("plain text, umlauts äöü,\n\tسلام and 👩‍👩‍👧", "plain text, umlauts äöü,\n\tسلام and 👩‍👩‍👧"),
        ("a\u{202e}b\u{202c}", "a\\u{202e}b\\u{202c}"),
        ("\u{2066}x\u{2069}\u{200f}\u{61c}", "\\u{2066}x\\u{2069}\\u{200f}\\u{61c}"),
        ("\u{1b}[2Jgone\r\u{7}\u{0}\u{9b}", "\\u{1b}[2Jgone\\u{d}\\u{7}\\u{0}\\u{9b}"),
        ("\u{e0041}\u{e007f}\u{feff}\u{2028}", "\\u{e0041}\\u{e007f}\\u{feff}\\u{2028}"),
        ("", ""),
    ] {
        assert_eq!(escape_hidden(text), shown);
    }
    assert!(matches!(escape_hidden("nothing hidden"), Cow::Borrowed(_)));
}
