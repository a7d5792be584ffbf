//! Frames in, what is printed out: `>` standard output, `·` and `!` standard error.

use serde_json::{Value, json};

use super::{ChatTurn, FrameEffect};
use crate::cli::markdown::{MarkdownLayout, MarkupMode};
use crate::cli::run::view::{DisplayUpdate, ProgressDisplay, ReplyTiming};

const LOOK: MarkdownLayout = MarkdownLayout { columns: 60, marks: MarkupMode::Literal };

fn play(reply: ReplyTiming, progress: ProgressDisplay, frames: &[(&str, Value)]) -> (String, Vec<FrameEffect>) {
    let mut turn = ChatTurn::new(reply, progress, LOOK);
    let (mut updates, mut steps) = (Vec::new(), Vec::new());
    for (event, data) in frames {
        steps.push(turn.event(event, data, &mut updates));
    }
    let shown = updates.into_iter().map(|update| match update {
        DisplayUpdate::Text(words) => format!("> {words:?}\n"),
        DisplayUpdate::DimLine(line) => format!("{line}\n"),
        DisplayUpdate::Line(line) => format!("! {line}\n"),
        DisplayUpdate::LiveBlock(_) => String::new(),
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
    let (shown, steps) = play(ReplyTiming::Streamed, ProgressDisplay::Live, &with_a_tool());
    assert_eq!(
        shown,
        "> \"Let me\"\n> \" look.\\n\"\n· ls {\"path\":\".\"}\n  a.txt\n  b.txt\n> \"**Two**\"\n> \" files.\\n\"\n"
    );
    assert_eq!(steps.last(), Some(&FrameEffect::Done));
    assert!(steps.contains(&FrameEffect::CallFinished("c".to_owned())));
}

#[test]
fn a_program_reads_plain_text_as_it_comes() {
    let (shown, _) = play(ReplyTiming::AtEnd, ProgressDisplay::None, &with_a_tool());
    assert_eq!(
        shown,
        "> \"Let me \"\n> \"look.\"\n> \"\\n\"\n! [ls {\"path\":\".\"}]\n> \"**Two** files.\"\n> \"\\n\"\n"
    );
}

#[test]
fn a_question_says_what_may_have_happened() {
    let reason = "the server stopped while bash was running: it may already have run.";
    let approval_event = json!({"approval_id": "a", "tool_use_id": "c", "name": "bash", "input": {"command": "make"}});
    let mut again = approval_event.clone();
    again["reason"] = json!(reason);
    let (_, steps) =
        play(ReplyTiming::Streamed, ProgressDisplay::Live, &[("approval", approval_event), ("approval", again)]);
    let words: Vec<&str> = steps
        .iter()
        .map(|step| match step {
            FrameEffect::AskApproval(question) => question.prompt.as_str(),
            other @ (FrameEffect::Continue
            | FrameEffect::CallFinished(_)
            | FrameEffect::Failed(_)
            | FrameEffect::Done) => panic!("{other:?}"),
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
    for (reply, progress) in
        [(ReplyTiming::Streamed, ProgressDisplay::Live), (ReplyTiming::AtEnd, ProgressDisplay::None)]
    {
        let (shown, steps) = play(reply, progress, &frames);
        assert!(shown.ends_with("! error: provider error: \\u{1b}[2J\n"), "{shown}");
        assert!(shown.contains("Half") && shown.contains("\\n\""), "{shown}");
        assert_eq!(steps[1], FrameEffect::Failed("provider error: \u{1b}[2J".to_owned()));
    }
}

#[test]
fn an_error_is_followed_by_what_to_do_about_it() {
    let (shown, _) =
        play(ReplyTiming::AtEnd, ProgressDisplay::None, &[("error", json!("provider error: 401 Unauthorized"))]);
    let (error, hint) = shown.split_once('\n').unwrap();
    assert_eq!(error, "! error: provider error: 401 Unauthorized");
    assert!(hint.starts_with("! hint: `patchboard onboard` stores another key"), "{hint}");
}

#[test]
fn a_call_nobody_can_be_asked_about_is_refused_once_and_out_loud() {
    let mut turn = ChatTurn::new(ReplyTiming::AtEnd, ProgressDisplay::None, LOOK);
    let mut updates = Vec::new();
    for approval in ["a", "b"] {
        let approval_event =
            json!({"approval_id": approval, "tool_use_id": "c", "name": "bash", "input": {"command": "make"}});
        turn.event("approval", &approval_event, &mut updates);
        turn.note_refusal(&mut updates);
    }
    let refusal = crate::cli::approval_mode::refusal_text("bash", "bash {\"command\":\"make\"}", super::APPROVAL_HINT);
    assert!(
        refusal.starts_with("refused, because it needs approval and nobody can be asked here: bash {"),
        "{refusal}"
    );
    assert_eq!(updates, [DisplayUpdate::Line(refusal)]);
}
