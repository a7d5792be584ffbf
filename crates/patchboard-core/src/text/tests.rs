use super::*;

#[test]
fn what_a_reader_would_not_see_is_escaped() {
    for (text, shown) in [
        ("plain text, umlauts äöü,\n\tسلام and 👩‍👩‍👧", "plain text, umlauts äöü,\n\tسلام and 👩‍👩‍👧"),
        ("a\u{202e}b\u{202c}", "a\\u{202e}b\\u{202c}"),
        ("\u{2066}x\u{2069}\u{200f}\u{61c}", "\\u{2066}x\\u{2069}\\u{200f}\\u{61c}"),
        ("\u{1b}[2Jgone\r\u{7}\u{0}\u{9b}", "\\u{1b}[2Jgone\\u{d}\\u{7}\\u{0}\\u{9b}"),
        ("\u{e0041}\u{e007f}\u{feff}\u{2028}", "\\u{e0041}\\u{e007f}\\u{feff}\\u{2028}"),
        ("<\u{200b}/data>", "<\u{200b}/data>"),
        ("", ""),
    ] {
        assert_eq!(escape_hidden(text), shown);
    }
    assert!(matches!(escape_hidden("nothing hidden"), Cow::Borrowed(_)));
}

#[test]
fn texts_are_cut_at_characters() {
    for (text, limit, bytes, marked, characters) in [
        ("abc", 3, "abc", "abc", "abc"),
        ("abcd", 3, "abc", "abc…", "abc…"),
        ("aüb", 2, "a", "a…", "aü…"),
        ("üüü", 3, "ü", "ü…", "üüü"),
        ("ü", 0, "", "…", "…"),
        ("", 0, "", "", ""),
    ] {
        let found = (cut(text, limit), cut_with_mark(text, limit), cut_chars(text, limit));
        assert_eq!(found, (bytes, marked.into(), characters.into()), "{text} at {limit}");
    }
    assert_eq!(cut_with_size("aüb", 2), "a\n[cut: 1 of 4 bytes shown]");
    assert_eq!(cut_with_size("aüb", 4), "aüb");
}

#[test]
fn terminals_and_logs_show_what_is_hidden() {
    for (text, lines, line, spaced) in [
        ("a\tb\nc", "a\tb\nc", "a\\tb\\nc", "a b c"),
        ("\r\u{1b}[m\u{9b}", "\\r\\u{1b}[m\\u{9b}", "\\r\\u{1b}[m\\u{9b}", "  [m "),
        (
            "\u{202e}x\u{200b}\u{61c}",
            "\\u{202e}x\\u{200b}\\u{61c}",
            "\\u{202e}x\\u{200b}\\u{61c}",
            "\u{202e}x\u{200b}\u{61c}",
        ),
        ("größe 👩‍👩‍👧", "größe 👩‍👩‍👧", "größe 👩‍👩‍👧", "größe 👩‍👩‍👧"),
    ] {
        assert_eq!((escape_lines(text), escape_line(text)), (lines.into(), line.into()));
        assert_eq!(controls_as_spaces(text), spaced);
    }
}
