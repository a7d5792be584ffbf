use super::{cut, width, wrap};

#[test]
fn wide_characters_take_two_columns_and_marks_none() {
    assert_eq!([width("abc"), width("漢字"), width("e\u{301}"), width("🎉")], [3, 4, 1, 2]);
}

#[test]
fn what_is_cut_ends_in_an_ellipsis_and_fits() {
    assert_eq!(cut("abc", 3), "abc");
    assert_eq!(cut("abcd", 3), "ab…");
    assert_eq!(cut("漢字漢字", 5), "漢字…");
    assert_eq!(cut("漢字漢字", 4), "漢…");
    assert_eq!(cut("abcd", 1), "…");
}

#[test]
fn lines_break_between_words() {
    assert_eq!(wrap("one two three", 7), ["one two", "three"]);
    assert_eq!(wrap("  one   two ", 80), ["one two"]);
    assert_eq!(wrap("", 10), [""]);
}

#[test]
fn a_word_longer_than_the_line_is_broken() {
    assert_eq!(wrap("a abcdefgh b", 4), ["a", "abcd", "efgh", "b"]);
    assert_eq!(wrap("漢字漢字", 5), ["漢字", "漢字"]);
}
