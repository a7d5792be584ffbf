use std::time::Duration;

use super::{LiveDisplay, format_count, format_elapsed, last_columns};
use crate::cli::markdown::{MarkdownLayout, MarkupMode};
use crate::cli::run::view::{DisplayUpdate, ProgressDisplay, ReplyTiming};

fn page(progress: ProgressDisplay) -> LiveDisplay {
    LiveDisplay::new(ReplyTiming::Streamed, progress, MarkdownLayout { columns: 40, marks: MarkupMode::Literal })
}

fn last_block(updates: &[DisplayUpdate]) -> Vec<String> {
    let block = updates.iter().rev().find_map(|update| match update {
        DisplayUpdate::LiveBlock(lines) => Some(lines.clone()),
        DisplayUpdate::Text(_) | DisplayUpdate::DimLine(_) | DisplayUpdate::Line(_) => None,
    });
    block.unwrap_or_default()
}

#[test]
fn it_shows_that_it_works_before_anything_has_come() {
    let mut page = page(ProgressDisplay::Live);
    assert_eq!(last_block(&page.tick(Duration::ZERO)), ["⠋ working · 0 s"]);
    page.set_activity("think", &mut Vec::new());
    assert_eq!(last_block(&page.tick(Duration::from_millis(240))), ["⠹ thinking · 0 s"]);
    assert_eq!(last_block(&page.tick(Duration::from_secs(65))), ["⠙ thinking · 1 min 05 s"]);
    page.set_activity("think_expand", &mut Vec::new());
    assert_eq!(last_block(&page.tick(Duration::ZERO)), ["⠋ thinking of next steps · 0 s"]);
    page.set_activity("somebody_s_own", &mut Vec::new());
    assert_eq!(last_block(&page.tick(Duration::ZERO)), ["⠋ somebody_s_own · 0 s"]);
}

#[test]
fn tokens_are_guessed_until_they_are_told() {
    let mut page = page(ProgressDisplay::Live);
    page.count_arguments(&"x".repeat(400));
    assert_eq!(last_block(&page.tick(Duration::ZERO)), ["⠋ working · 0 s · ~100 tokens"]);
    page.add_tokens(1500);
    assert_eq!(last_block(&page.tick(Duration::ZERO)), ["⠋ working · 0 s · 1,500 tokens"]);
}

#[test]
fn a_thought_is_a_line_while_it_grows_and_one_that_stays() {
    let mut page = page(ProgressDisplay::Live);
    let mut updates = Vec::new();
    page.push_thought("think", "The user wants to know\nwhat is in the folder, so I list it.", &mut updates);
    let block = last_block(&page.tick(Duration::ZERO));
    assert_eq!(block[0], "  …hat is in the folder, so I list it.", "{block:?}");
    page.call("c", "ls {}", &mut updates);
    let dim_lines: Vec<&DisplayUpdate> =
        updates.iter().filter(|update| matches!(update, DisplayUpdate::DimLine(_))).collect();
    assert_eq!(
        dim_lines,
        [
            &DisplayUpdate::DimLine("· think: The user wants to know what i…".into()),
            &DisplayUpdate::DimLine("· ls {}".into())
        ]
    );
}

#[test]
fn nothing_is_drawn_while_a_line_of_the_reply_is_open() {
    let mut page = page(ProgressDisplay::Live);
    let mut updates = Vec::new();
    page.push_reply("some words ", &mut updates);
    assert_eq!(updates, [DisplayUpdate::LiveBlock(Vec::new()), DisplayUpdate::Text("some words".into())]);
    assert_eq!(page.tick(Duration::ZERO), []);
    let mut updates = Vec::new();
    page.push_reply("end\n", &mut updates);
    assert_eq!(last_block(&page.tick(Duration::ZERO)), ["⠋ working · 0 s · ~3 tokens"]);
    page.pause(&mut updates);
    assert_eq!(last_block(&updates), Vec::<String>::new(), "nothing is left that looks as if it went on");
}

#[test]
fn the_first_lines_of_a_result_are_shown_with_whose_they_are() {
    let mut page = page(ProgressDisplay::Lines);
    let mut updates = Vec::new();
    page.call("a", "ls {}", &mut updates);
    page.call("b", "read {}", &mut updates);
    page.result("a", "ls", "one\n\n\x1b[2Jtwo\nthree\nfour\nfive", false, &mut updates);
    page.result("b", "read", "no such file\nat all", true, &mut updates);
    let dim_lines: Vec<String> = updates
        .into_iter()
        .filter_map(|update| match update {
            DisplayUpdate::DimLine(line) => Some(line),
            DisplayUpdate::Text(_) | DisplayUpdate::Line(_) | DisplayUpdate::LiveBlock(_) => None,
        })
        .collect();
    assert_eq!(
        dim_lines,
        [
            "· ls {}",
            "· read {}",
            "· ls, its result:",
            "  one",
            "  \\u{1b}[2Jtwo",
            "  three",
            "  … 2 more lines",
            "· read failed: no such file"
        ]
    );
}

#[test]
fn without_a_terminal_nothing_is_said_beside_the_reply() {
    let mut page = page(ProgressDisplay::None);
    let mut updates = Vec::new();
    page.set_activity("think", &mut updates);
    page.push_thought("think", "hm", &mut updates);
    page.call("a", "ls {}", &mut updates);
    page.result("a", "ls", "one", false, &mut updates);
    page.pause(&mut updates);
    assert_eq!((updates, page.tick(Duration::from_secs(1))), (vec![], vec![]));
}

#[test]
fn a_very_long_thought_keeps_its_beginning_and_its_end() {
    let mut page = page(ProgressDisplay::Live);
    let mut updates = Vec::new();
    page.push_thought("think", "It begins here. ", &mut updates);
    for number in 0..2_000 {
        page.push_thought("think", &format!("thought 語 {number} "), &mut updates);
    }
    assert!(last_block(&page.tick(Duration::ZERO))[0].ends_with("語 1999 "));
    page.pause(&mut updates);
    assert!(updates.contains(&DisplayUpdate::DimLine("· think: It begins here. thought 語 0 …".into())), "{updates:?}");
}

#[test]
fn figures_are_read_at_a_glance() {
    assert_eq!([0, 999, 1000, 1_234_567].map(format_count), ["0", "999", "1,000", "1,234,567"]);
    assert_eq!(format_elapsed(Duration::from_secs(59)), "59 s");
    assert_eq!(format_elapsed(Duration::from_secs(3661)), "61 min 01 s");
    assert_eq!((last_columns("short", 10).as_str(), last_columns("漢字漢字", 5).as_str()), ("short", "…漢字"));
}
