//! Frames in, what is printed out: `>` standard output, `·` and `!` standard error.

use serde_json::{Value, json};

use super::{Step, Turn};
use crate::cli::markdown::{Look, Marks};
use crate::cli::run::view::{Asides, Reply, Say};

const LOOK: Look = Look { columns: 60, marks: Marks::Kept };

fn play(reply: Reply, asides: Asides, frames: &[(&str, Value)]) -> (String, Vec<Step>) {
    let mut turn = Turn::new(reply, asides, LOOK);
    let (mut said, mut steps) = (Vec::new(), Vec::new());
    for (event, data) in frames {
        steps.push(turn.event(event, data, &mut said));
    }
    let shown = said.into_iter().map(|one| match one {
        Say::Words(words) => format!("> {words:?}\n"),
        Say::Aside(line) => format!("{line}\n"),
        Say::Line(line) => format!("! {line}\n"),
        Say::Picture(_) => String::new(),
    });
    (shown.collect(), steps)
}

fn with_a_tool() -> Vec<(&'static str, Value)> {
    vec![
        ("text", json!("Let me ")),
        ("text", json!("")),
        ("text", json!("look.")),
        ("tool_use", json!({"id": "c", "name": "ls", "input": {"path": "."}})),
        ("usage", json!({"input_tokens": 10, "output_tokens": 5})),
        ("tool_result", json!({"tool_use_id": "c", "content": "a.txt\nb.txt", "is_error": false})),
        ("text", json!("**Two** files.")),
        ("done", Value::Null),
    ]
}

#[test]
fn a_person_sees_the_answer_laid_out_with_what_happened() {
    let (shown, steps) = play(Reply::AsItComes, Asides::Pictures, &with_a_tool());
    assert_eq!(
        shown,
        "> \"Let me\"\n> \" look.\\n\"\n· ls {\"path\":\".\"}\n  a.txt\n  b.txt\n> \"**Two**\"\n> \" files.\\n\"\n"
    );
    assert_eq!(steps.last(), Some(&Step::Done));
    assert!(steps.contains(&Step::Settled("c".to_owned())));
}

#[test]
fn a_program_reads_plain_text_as_it_comes() {
    let (shown, _) = play(Reply::AtTheEnd, Asides::None, &with_a_tool());
    assert_eq!(
        shown,
        "> \"Let me \"\n> \"look.\"\n> \"\\n\"\n! [ls {\"path\":\".\"}]\n> \"**Two** files.\"\n> \"\\n\"\n"
    );
}

#[test]
fn a_question_says_what_may_have_happened() {
    let reason = "the server stopped while bash was running: it may already have run.";
    let asked = json!({"approval_id": "a", "tool_use_id": "c", "name": "bash", "input": {"command": "make"}});
    let mut again = asked.clone();
    again["reason"] = json!(reason);
    let (_, steps) = play(Reply::AsItComes, Asides::Pictures, &[("approval", asked), ("approval", again)]);
    let words: Vec<&str> = steps
        .iter()
        .map(|step| match step {
            Step::Asks(question) => question.words.as_str(),
            other @ (Step::Goes | Step::Settled(_) | Step::Failed(_) | Step::Done) => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        words,
        [
            "Allow bash {\"command\":\"make\"}? [y/N] ",
            "the server stopped while bash was running: it may already have run.\nRun bash {\"command\":\"make\"} once \
             more? [y/N] "
        ]
    );
}

#[test]
fn a_failed_turn_says_why_on_a_line_of_its_own() {
    let frames = [("text", json!("Half")), ("error", json!("provider error: \u{1b}[2J")), ("done", Value::Null)];
    for (reply, asides) in [(Reply::AsItComes, Asides::Pictures), (Reply::AtTheEnd, Asides::None)] {
        let (shown, steps) = play(reply, asides, &frames);
        assert!(shown.ends_with("! error: provider error: \\u{1b}[2J\n"), "{shown}");
        assert!(shown.contains("Half") && shown.contains("\\n\""), "{shown}");
        assert_eq!(steps[1], Step::Failed("provider error: \u{1b}[2J".to_owned()));
    }
}

#[test]
fn an_error_is_followed_by_what_to_do_about_it() {
    let (shown, _) = play(Reply::AtTheEnd, Asides::None, &[("error", json!("provider error: 401 Unauthorized"))]);
    let (error, hint) = shown.split_once('\n').unwrap();
    assert_eq!(error, "! error: provider error: 401 Unauthorized");
    assert!(hint.starts_with("! hint: `patchboard onboard` stores another key"), "{hint}");
}

#[test]
fn a_call_nobody_can_be_asked_about_is_refused_once_and_out_loud() {
    let mut turn = Turn::new(Reply::AtTheEnd, Asides::None, LOOK);
    let mut said = Vec::new();
    for approval in ["a", "b"] {
        let asked = json!({"approval_id": approval, "tool_use_id": "c", "name": "bash", "input": {"command": "make"}});
        turn.event("approval", &asked, &mut said);
        turn.refused(&mut said);
    }
    let refusal = crate::cli::approval_mode::refusal("bash", "bash {\"command\":\"make\"}", super::WAYS);
    assert!(
        refusal.starts_with("refused, because it needs approval and nobody can be asked here: bash {"),
        "{refusal}"
    );
    assert_eq!(said, [Say::Line(refusal)]);
}
