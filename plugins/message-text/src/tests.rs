use super::*;

fn utf16(one: char) -> usize {
    one.len_utf16()
}

fn check(text: &str, size: usize, expected: &[&str]) {
    let found = messages(text, Limits { size, width: utf16, messages: 5 });
    assert_eq!(found, expected, "{text:?}");
}

#[test]
fn what_fits_is_one_message() {
    check("hello", 5, &["hello"]);
    check("\n\nhello  \n", 5, &["hello"]);
    check("  indented", 10, &["  indented"]);
    check("", 5, &[]);
    check(" \n\t ", 5, &[]);
}

#[test]
fn paragraphs_come_before_lines_and_lines_before_words() {
    check("one two\n\nthree\nfour five", 15, &["one two", "three\nfour five"]);
    check("one two\nthree four", 12, &["one two", "three four"]);
    check("one two three", 9, &["one two", "three"]);
    check("one two three", 7, &["one two", "three"]);
}

#[test]
fn a_good_place_at_the_very_start_is_not_good() {
    check("a\n\nlonger words here", 16, &["a\n\nlonger words", "here"]);
}

#[test]
fn the_next_line_keeps_its_indentation() {
    check("fn main() {\n    body\n}", 14, &["fn main() {", "    body\n}"]);
}

#[test]
fn words_that_are_too_long_are_cut_between_characters() {
    check("abcdefgh", 3, &["abc", "def", "gh"]);
    // Each of these counts two, and half of one is nothing.
    check("😀😀😀", 5, &["😀😀", "😀"]);
    check("😀😀", 1, &["😀", "😀"]);
    check("abe\u{301}fg", 3, &["ab", "e\u{301}f", "g"]);
    // A family is one character for whoever reads it.
    check("ab👨\u{200d}👩\u{200d}👧", 9, &["ab", "👨\u{200d}👩\u{200d}👧"]);
}

#[test]
fn too_many_messages_end_in_a_note() {
    check("aa bb cc dd ee ff gg", 2, &["aa", "bb", "cc", "dd", "ee", "[… and 5 more characters that do not fit here]"]);
}

#[test]
fn nothing_but_white_space_at_cuts_is_lost_and_no_message_is_too_long() {
    let text = "Lorem ipsum dolor sit amet,\nconsetetur   sadipscing elitr.\n\n\n  Sed diam 😀 nonumy\teirmod tempor. "
        .repeat(9);
    let bare = |text: &str| text.split_whitespace().collect::<String>();
    for size in 2..200 {
        let found = messages(&text, Limits { size, width: utf16, messages: usize::MAX });
        assert_eq!(bare(&found.concat()), bare(&text), "{size}");
        for message in found {
            assert!(message.encode_utf16().count() <= size && !message.trim().is_empty(), "{size}: {message:?}");
        }
    }
}
