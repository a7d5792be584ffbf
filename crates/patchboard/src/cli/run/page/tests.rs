use std::time::Duration;

use super::{Page, number, tail, time};
use crate::cli::markdown::{Look, Marks};
use crate::cli::run::view::{Asides, Reply, Say};

fn page(asides: Asides) -> Page {
    Page::new(Reply::AsItComes, asides, Look { columns: 40, marks: Marks::Kept })
}

fn last_block(said: &[Say]) -> Vec<String> {
    let block = said.iter().rev().find_map(|one| match one {
        Say::Picture(lines) => Some(lines.clone()),
        Say::Words(_) | Say::Aside(_) | Say::Line(_) => None,
    });
    block.unwrap_or_default()
}

#[test]
fn it_shows_that_it_works_before_anything_has_come() {
    let mut page = page(Asides::Pictures);
    assert_eq!(last_block(&page.tick(Duration::ZERO)), ["⠋ working · 0 s"]);
    page.doing("think", &mut Vec::new());
    assert_eq!(last_block(&page.tick(Duration::from_millis(240))), ["⠹ thinking · 0 s"]);
    assert_eq!(last_block(&page.tick(Duration::from_secs(65))), ["⠙ thinking · 1 min 05 s"]);
    page.doing("think_expand", &mut Vec::new());
    assert_eq!(last_block(&page.tick(Duration::ZERO)), ["⠋ thinking of next steps · 0 s"]);
    page.doing("somebody_s_own", &mut Vec::new());
    assert_eq!(last_block(&page.tick(Duration::ZERO)), ["⠋ somebody_s_own · 0 s"]);
}

#[test]
fn tokens_are_guessed_until_they_are_told() {
    let mut page = page(Asides::Pictures);
    page.arguments(&"x".repeat(400));
    assert_eq!(last_block(&page.tick(Duration::ZERO)), ["⠋ working · 0 s · ~100 tokens"]);
    page.used(1500);
    assert_eq!(last_block(&page.tick(Duration::ZERO)), ["⠋ working · 0 s · 1,500 tokens"]);
}

#[test]
fn a_thought_is_a_line_while_it_grows_and_one_that_stays() {
    let mut page = page(Asides::Pictures);
    let mut said = Vec::new();
    page.thought("think", "The user wants to know\nwhat is in the folder, so I list it.", &mut said);
    let block = last_block(&page.tick(Duration::ZERO));
    assert_eq!(block[0], "  …hat is in the folder, so I list it.", "{block:?}");
    page.call("c", "ls {}", &mut said);
    let asides: Vec<&Say> = said.iter().filter(|one| matches!(one, Say::Aside(_))).collect();
    assert_eq!(asides, [&Say::Aside("· think: The user wants to know what i…".into()), &Say::Aside("· ls {}".into())]);
}

#[test]
fn nothing_is_drawn_while_a_line_of_the_reply_is_open() {
    let mut page = page(Asides::Pictures);
    let mut said = Vec::new();
    page.words("some words ", &mut said);
    assert_eq!(said, [Say::Picture(Vec::new()), Say::Words("some words".into())]);
    assert_eq!(page.tick(Duration::ZERO), []);
    let mut said = Vec::new();
    page.words("end\n", &mut said);
    assert_eq!(last_block(&page.tick(Duration::ZERO)), ["⠋ working · 0 s · ~3 tokens"]);
    page.pause(&mut said);
    assert_eq!(last_block(&said), Vec::<String>::new(), "nothing is left that looks as if it went on");
}

#[test]
fn the_first_lines_of_a_result_are_shown_with_whose_they_are() {
    let mut page = page(Asides::Lines);
    let mut said = Vec::new();
    page.call("a", "ls {}", &mut said);
    page.call("b", "read {}", &mut said);
    page.result("a", "ls", "one\n\n\x1b[2Jtwo\nthree\nfour\nfive", false, &mut said);
    page.result("b", "read", "no such file\nat all", true, &mut said);
    let asides: Vec<String> = said
        .into_iter()
        .filter_map(|one| match one {
            Say::Aside(line) => Some(line),
            Say::Words(_) | Say::Line(_) | Say::Picture(_) => None,
        })
        .collect();
    assert_eq!(
        asides,
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
    let mut page = page(Asides::None);
    let mut said = Vec::new();
    page.doing("think", &mut said);
    page.thought("think", "hm", &mut said);
    page.call("a", "ls {}", &mut said);
    page.result("a", "ls", "one", false, &mut said);
    page.pause(&mut said);
    assert_eq!((said, page.tick(Duration::from_secs(1))), (vec![], vec![]));
}

#[test]
fn a_very_long_thought_keeps_its_beginning_and_its_end() {
    let mut page = page(Asides::Pictures);
    let mut said = Vec::new();
    page.thought("think", "It begins here. ", &mut said);
    for number in 0..2_000 {
        page.thought("think", &format!("thought 語 {number} "), &mut said);
    }
    assert!(last_block(&page.tick(Duration::ZERO))[0].ends_with("語 1999 "));
    page.pause(&mut said);
    assert!(said.contains(&Say::Aside("· think: It begins here. thought 語 0 …".into())), "{said:?}");
}

#[test]
fn figures_are_read_at_a_glance() {
    assert_eq!([0, 999, 1000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
    assert_eq!(time(Duration::from_secs(59)), "59 s");
    assert_eq!(time(Duration::from_secs(3661)), "61 min 01 s");
    assert_eq!((tail("short", 10).as_str(), tail("漢字漢字", 5).as_str()), ("short", "…漢字"));
}
