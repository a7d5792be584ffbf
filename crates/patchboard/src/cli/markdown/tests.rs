//! Text in, lines of a terminal out. `«b:…»` stands for bold, and so on.

use super::{MarkdownLayout, MarkdownRenderer, MarkupMode};

mod cuts;

fn render(text: &str, columns: usize, marks: MarkupMode) -> String {
    let mut markdown = MarkdownRenderer::new(MarkdownLayout { columns, marks });
    let mut out = markdown.push(text);
    out.push_str(&markdown.finish());
    out
}

/// Styles as readable marks.
fn shown(text: &str) -> String {
    let mut out = text.replace("\x1b[0m", "»");
    for (code, name) in [("1", "b"), ("2", "dim"), ("3", "i"), ("4", "u"), ("9", "s"), ("36", "code"), ("33", "mark")] {
        out = out.replace(&format!("\x1b[{code}m"), &format!("«{name}:"));
    }
    for (code, name) in [("1;4", "b+u"), ("1;3", "b+i"), ("1;36", "b+code"), ("3;36", "i+code"), ("1;2", "b+dim")] {
        out = out.replace(&format!("\x1b[{code}m"), &format!("«{name}:"));
    }
    out
}

#[track_caller]
fn check(columns: usize, text: &str, expected: &str) {
    assert_eq!(shown(&render(text, columns, MarkupMode::Styled)), expected.trim_start_matches('\n'), "of {text:?}");
}

#[test]
fn words_are_wrapped_and_lines_of_the_text_stay() {
    check(
        21,
        "one two three four five six\nseven\n\n\n\neight",
        "
one two three four
five six
seven

eight
",
    );
}

#[test]
fn marks_become_looks() {
    check(
        80,
        "a **bold** word, *slanted*, `code`, ~~gone~~ and [words](https://x.y/z)",
        "a «b:bold» word, «i:slanted», «code:code», «s:gone» and «u:words» «dim:(https://x.y/z)»\n",
    );
    check(
        80,
        "***both*** **with `code`** `a * b` **a*b**",
        "«b+i:both» «b:with» «b+code:code» «code:a» «code:*» «code:b» «b:a*b»\n",
    );
    check(
        80,
        "<https://x.y> [https://x.y](https://x.y) ![cat](c.png)",
        "<https://x.y> «u:https://x.y» «u:cat» «dim:(c.png)»\n",
    );
}

#[test]
fn what_is_no_mark_stays() {
    for text in [
        "2 * 3 * 4",
        "snake_case_name",
        "a [b] c",
        "*open",
        "`open",
        "**open",
        "5 < 6",
        "[x](two words)",
        "a~b",
        "C:\\dir",
    ] {
        check(80, text, &format!("{text}\n"));
    }
    check(80, r"\*not slanted\*", "*not slanted*\n");
}

#[test]
fn headings_rules_and_quotes() {
    check(
        30,
        "# Title\ntext\n## Second ##\n#hashtag\n---\n> said by somebody else in many words\n***",
        "
«b+u:Title»
text
«b:Second»
#hashtag
«dim:─────────────────────────────»
«dim:│ »«i:said» «i:by» «i:somebody» «i:else» «i:in»
«dim:│ »«i:many» «i:words»
«dim:─────────────────────────────»
",
    );
}

#[test]
fn lists_hang() {
    check(
        24,
        "- first point that is long\n- second\n  - inner one is long as well\n\n  still second\n1. one\n10) ten\n- [ ] open\n- [x] done\nafter",
        "
«mark:•» first point that is
  long
«mark:•» second
  «mark:◦» inner one is long
    as well

  still second
«mark:1.» one
«mark:10)» ten
«mark:☐» open
«mark:☑» done
after
",
    );
}

#[test]
fn code_is_not_wrapped_and_holds_no_marks() {
    check(
        20,
        "so:\n```rust\nfn main() { println!(\"**hello**, world\") }\n\n# no heading\n```\nafter",
        "
so:
«dim:──»«dim: rust»
  «code:fn main() { println!(\"**hello**, world\") }»

  «code:# no heading»
«dim:──»
after
",
    );
    check(20, "````\n```\n````\n", "«dim:──»\n  «code:```»\n«dim:──»\n");
    check(20, "~~~\nnever closed", "«dim:──»\n  «code:never closed»\n«dim:──»\n");
    check(30, "- item\n  ```\n  code\n  ```", "«mark:•» item\n«dim:  ──»\n    «code:code»\n«dim:  ──»\n");
}

const TABLE: &str =
    "| Name | Count | 漢字 |\n|:-----|------:|:--:|\n| `a|b` | 1 | 語 |\n| long name here | 200 | ok |\n";

#[test]
fn tables_are_laid_out_for_the_width() {
    check(
        60,
        TABLE,
        "
«b:Name»          «dim: │ »«b:Count»«dim: │ »«b:漢字»
«dim:───────────────┼───────┼─────»
«code:a|b»           «dim: │ »    1«dim: │ » 語
long name here«dim: │ »  200«dim: │ » ok
",
    );
}

#[test]
fn a_table_that_does_not_fit_wraps_its_cells_or_becomes_a_list() {
    check(
        24,
        "| a | b |\n|---|---|\n| one two three four | five six seven |",
        "
«b:a»         «dim: │ »«b:b»
«dim:───────────┼───────────»
one two   «dim: │ »five six
three four«dim: │ »seven
",
    );
    check(
        12,
        "| a | b | c |\n|---|---|---|\n| one one | two two | three three |\n| 1 | 2 | 3 |",
        "
«b:a»: one one
«b:b»: two two
«b:c»: three
three
«dim:────────»
«b:a»: 1
«b:b»: 2
«b:c»: 3
",
    );
}

#[test]
fn rows_without_a_rule_are_text() {
    check(40, "| just text |\nand more", "| just text |\nand more\n");
}

#[test]
fn wide_characters_take_two_columns() {
    check(11, "漢字漢字漢字漢字", "漢字漢字漢\n字漢字\n");
    check(11, "語 語 語 語 語", "語 語 語\n語 語\n");
}

#[test]
fn without_colour_marks_stay_and_lines_are_laid_out() {
    let text = "# Title\n- a **bold** point that is long\n| a | b |\n|---|---|\n| `1` | 2 |\n```\ncode\n```";
    let expected = "# Title\n• a **bold** point\n  that is long\na   │ b\n────┼──\n`1` │ 2\n──\n  code\n──\n";
    assert_eq!(render(text, 20, MarkupMode::Literal), expected);
}

#[test]
fn nothing_of_the_text_acts_on_the_terminal() {
    for marks in [MarkupMode::Styled, MarkupMode::Literal] {
        let evil = "a\x1b[2Jb `\x1b]0;t\x07` | \u{9b}1m\n| \x1b[1m |\n|---|\n| \u{202e}x |\n```\x1b[5m\n\x1b[5m\u{200b}\n```\r over";
        let out = render(evil, 80, marks);
        let rest = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[36m", "\x1b[3m"]
            .iter()
            .fold(out, |out, code| out.replace(code, ""));
        assert!(!rest.contains(|c: char| c.is_control() && c != '\n'), "{rest:?}");
        assert!(!rest.contains(['\u{202e}', '\u{200b}']), "{rest:?}");
    }
}

#[test]
fn words_appear_as_they_come_and_marks_when_they_are_closed() {
    let mut markdown = MarkdownRenderer::new(MarkdownLayout { columns: 80, marks: MarkupMode::Styled });
    let mut push = |text: &str| shown(&markdown.push(text));
    assert_eq!(push("Hel"), "");
    assert_eq!(push("lo wor"), "Hello");
    assert_eq!(push("ld **bo"), " world");
    assert_eq!(push("ld text"), "");
    assert_eq!(push("** and"), " «b:bold» «b:text»");
    assert_eq!(push("\n"), " and\n");
    assert_eq!(push("-"), "");
    assert_eq!(push(" it"), "«mark:•» ");
    assert_eq!(push("em one "), "item one");
    assert_eq!(push("| a |\n|--"), "\n| a |\n|--".replace("\n| a |\n|--", " | a |\n"));
    assert!(!markdown.is_mid_line());
}

#[test]
fn the_width_of_now_counts() {
    let mut markdown = MarkdownRenderer::new(MarkdownLayout { columns: 80, marks: MarkupMode::Styled });
    let mut out = markdown.push("one two three\n");
    markdown.resize(12);
    out.push_str(&markdown.push("one two three\n"));
    assert_eq!(out, "one two three\none two\nthree\n");
}
