//! What is shown does not depend on how the text was cut.

use proptest::prelude::*;

use super::{MarkdownLayout, MarkdownRenderer, MarkupMode, render, shown};
use crate::cli::markdown::MAX_BUFFERED_LINE;
use crate::cli::markdown::inline::display_width;

/// Cut before these bytes, which ascend.
fn in_pieces(text: &str, cuts: &[usize]) -> String {
    let mut markdown = MarkdownRenderer::new(MarkdownLayout { columns: 30, marks: MarkupMode::Styled });
    let (mut out, mut at) = (String::new(), 0);
    for cut in cuts {
        out.push_str(&markdown.push(&text[at..*cut]));
        at = *cut;
    }
    out.push_str(&markdown.push(&text[at..]));
    out.push_str(&markdown.finish());
    shown(&out)
}

/// Cut everywhere at once, and at each single place.
#[track_caller]
fn check_cuts(text: &str) {
    let whole = shown(&render(text, 30, MarkupMode::Styled));
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    assert_eq!(in_pieces(text, &places), whole, "every character of {text:?} on its own");
    for place in places {
        assert_eq!(in_pieces(text, &[place]), whole, "{text:?} cut at {place}");
    }
}

#[test]
fn a_line_that_could_end_here_is_no_rule_and_no_heading_yet() {
    for text in ["---\t**", "***\u{a0}x", "_ _ _\ta", "- - -\t", "#\tx", "##\u{a0}x", "#\t", "``\t`"] {
        check_cuts(text);
    }
}

#[test]
fn an_item_begins_with_its_words() {
    for text in
        ["1.   x", "1. [ ] open", "2) [x] done", "- \t[ ] open", "-   [x](y)", "1. [x](y)", "1.\tx", ">  x", "1. "]
    {
        check_cuts(text);
    }
}

#[test]
fn marks_inside_code_that_may_still_come_are_none() {
    for text in ["*a `b* c`", "_aa`_\t[x] `", "**a `b** c", "*a `b* c` d*", "``a` b`` *c*"] {
        check_cuts(text);
    }
}

#[test]
fn marks_further_apart_than_is_waited_for() {
    let words = "a word ".repeat(60);
    for text in
        [format!("**open* {words}"), format!("*open {words}*"), format!("`{words}` `a`"), format!("*`{words}* `")]
    {
        check_cuts(&text);
    }
}

#[test]
fn the_end_of_a_long_line_of_code_does_not_end_the_code() {
    let long = "x".repeat(MAX_BUFFERED_LINE + 1);
    let text = format!("```\n{long}```\n```\n");
    let out = in_pieces(&text, &[4 + long.len()]);
    assert!(out.ends_with("x»«code:```»\n«dim:──»\n"), "{}", &out[out.len() - 80..]);
}

fn pieces(count: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z]{1,6}",
        "[ ]{1,3}",
        Just("\n".to_owned()),
        Just("**".to_owned()),
        Just("*".to_owned()),
        Just("`".to_owned()),
        Just("```".to_owned()),
        Just("| ".to_owned()),
        Just("|---|\n".to_owned()),
        Just("- ".to_owned()),
        Just("1. ".to_owned()),
        Just("> ".to_owned()),
        Just("# ".to_owned()),
        Just("[a](b)".to_owned()),
        Just("_".to_owned()),
        Just("\\".to_owned()),
        Just("漢".to_owned()),
        Just("\r\n".to_owned()),
        Just("\t".to_owned()),
        Just("---".to_owned()),
        Just("~~".to_owned()),
        Just("[ ] ".to_owned()),
        Just("[x]".to_owned()),
        Just("+ ".to_owned()),
        Just("2)".to_owned()),
        Just("\u{a0}".to_owned()),
    ];
    proptest::collection::vec(piece, count).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn it_does_not_matter_how_the_text_was_cut(text in pieces(0..40), cuts in proptest::collection::vec(0usize..200, 0..12)) {
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| text.is_char_boundary(*cut)).collect();
        cuts.sort_unstable();
        prop_assert_eq!(in_pieces(&text, &cuts), shown(&render(&text, 30, MarkupMode::Styled)));
    }

    /// On a line so long that marks are no longer waited for.
    #[test]
    fn nor_does_it_matter_in_a_long_line(text in pieces(200..600), cuts in proptest::collection::vec(0usize..2000, 0..12)) {
        let text = text.replace(['\n', '\r'], " ");
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| text.is_char_boundary(*cut)).collect();
        cuts.sort_unstable();
        prop_assert_eq!(in_pieces(&text, &cuts), shown(&render(&text, 30, MarkupMode::Styled)));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal(text in "[a-z漢 *`\n-]{0,200}") {
        prop_assume!(!text.contains("```") && !text.contains("~~~"));
        let out = render(&text, 30, MarkupMode::Literal);
        for line in out.lines() {
            prop_assert!(display_width(line) <= 29, "{line:?}");
        }
    }
}
