use serde_json::json;

use super::*;
use crate::id::CallId;
use crate::model::{ModelError, StopReason, ToolInput};

fn react(max_model_calls: u32) -> React {
    React::new(Brief {
        history: vec![Message::user("earlier"), Message::assistant("yes")],
        user: Message::user("now"),
        max_model_calls,
    })
}

fn call(id: &str) -> ToolCall {
    ToolCall { id: CallId(id.into()), name: "read".into(), input: ToolInput::Json(json!({"id": id}).into()) }
}

fn answer(text: &str, calls: &[&str]) -> Input {
    let stop = if calls.is_empty() { StopReason::EndOfTurn } else { StopReason::ToolCalls };
    let completion = Completion { text: text.into(), calls: calls.iter().map(|id| call(id)).collect(), stop };
    Input::ModelAnswered { ask: AskId(1), completion }
}

fn finished(id: &str) -> Input {
    Input::ToolFinished { call: CallId(id.into()), output: ToolOutput::ok(format!("result of {id}")) }
}

/// Steps in short: `ask#1(n messages)`, `call a`, `done`, `failed: …`.
fn run(machine: &mut React, input: Input) -> Vec<String> {
    let mut steps = Vec::new();
    machine.advance(input, &mut steps);
    steps.iter().map(short).collect()
}

fn short(step: &Step) -> String {
    match step {
        Step::AskModel { ask, messages, tools: ToolUse::Offered } => {
            format!("ask#{}({} messages)", ask.0, messages.len())
        }
        Step::AskModel { tools: ToolUse::Withheld, .. } => "ask without tools".to_owned(),
        Step::CallTool(call) => format!("call {}", call.id),
        Step::Finish(Finish::Completed) => "done".to_owned(),
        Step::Finish(Finish::Failed(message)) => format!("failed: {message}"),
    }
}

#[test]
fn an_answer_without_calls_ends_the_run() {
    let mut machine = react(10);
    assert_eq!(run(&mut machine, Input::Begin), ["ask#1(3 messages)"]);
    assert_eq!(run(&mut machine, answer("hello", &[])), ["done"]);
    assert_eq!(machine.transcript(), [Message::user("now"), Message::assistant("hello")]);
}

#[test]
fn calls_run_side_by_side_and_their_results_go_back_in_the_order_of_the_calls() {
    let mut machine = react(10);
    run(&mut machine, Input::Begin);
    assert_eq!(run(&mut machine, answer("looking", &["a", "b"])), ["call a", "call b"]);
    assert_eq!(run(&mut machine, finished("b")), [""; 0]);
    assert_eq!(run(&mut machine, finished("a")), ["ask#2(5 messages)"]);
    let results: Vec<String> = machine.transcript()[2]
        .parts
        .iter()
        .map(|part| match part {
            Part::ToolResult(result) => format!("{}: {}", result.call, result.content),
            Part::Text(_) | Part::ToolCall(_) => "?".into(),
        })
        .collect();
    assert_eq!(results, ["a: result of a", "b: result of b"]);
    assert_eq!(machine.transcript()[1].text(), "looking", "words before a call are kept for the follow-up");
}

#[test]
fn a_model_that_never_stops_calling_is_stopped() {
    let mut machine = react(2);
    run(&mut machine, Input::Begin);
    run(&mut machine, answer("", &["a"]));
    assert_eq!(run(&mut machine, finished("a")), ["ask#2(5 messages)"]);
    run(&mut machine, answer("", &["b"]));
    assert_eq!(run(&mut machine, finished("b")), ["failed: tool-use loop exceeded max iterations"]);
}

#[test]
fn a_failed_model_call_fails_the_run() {
    let mut machine = react(2);
    run(&mut machine, Input::Begin);
    let failed = Input::ModelFailed { ask: AskId(1), error: ModelError::Unavailable("connection refused".into()) };
    assert_eq!(run(&mut machine, failed), ["failed: provider error: connection refused"]);
}

#[test]
fn an_empty_answer_adds_no_message() {
    let mut machine = react(2);
    run(&mut machine, Input::Begin);
    assert_eq!(run(&mut machine, answer("", &[])), ["done"]);
    assert_eq!(machine.transcript(), [Message::user("now")]);
}
