use super::super::tests::{Stage, brief, calls, lines};
use crate::model::ModelMessage;
use crate::run_spec::StrategyKind;
use crate::run_spec::reasoning::ReasoningOptions;

fn react(reasoning: ReasoningOptions) -> Stage {
    Stage::of(StrategyKind::React, brief(reasoning))
}

#[test]
fn an_answer_without_calls_ends_the_run() {
    let mut stage = react(calls(10));
    assert_eq!(stage.begin(), ["enter think 0", "ask 0: 3 messages, tools, reply"]);
    assert_eq!(stage.says(0, "hello"), ["leave 0", "done"]);
    assert_eq!(stage.transcript(), [ModelMessage::user("now"), ModelMessage::assistant("hello")]);
}

#[test]
fn calls_run_side_by_side_and_their_results_go_back_in_the_order_of_the_calls() {
    let mut stage = react(calls(10));
    stage.begin();
    assert_eq!(stage.calls(0, "looking", &["a", "b"]), ["leave 0", "enter act 1", "call a in 1", "call b in 1"]);
    assert_eq!(stage.tool("b", "result of b"), [""; 0]);
    assert_eq!(
        stage.tool("a", "result of a"),
        [
            "leave 1",
            "enter observe 2",
            "leave 2",
            "enter compress 3",
            "leave 3",
            "enter think 4",
            "ask 4: 5 messages, tools, reply",
        ]
    );
    assert_eq!(stage.says(4, "found"), ["leave 4", "done"]);
    assert_eq!(
        lines(&stage.transcript()),
        ["user: now", "assistant: looking call a call b", "user: a=result of a b=result of b", "assistant: found"]
    );
}

#[test]
fn a_model_that_never_stops_calling_is_stopped() {
    let mut stage = react(calls(2));
    stage.begin();
    stage.calls(0, "", &["a"]);
    stage.tool("a", "…");
    stage.calls(4, "", &["b"]);
    let end = stage.tool("b", "…");
    assert_eq!(end.last().unwrap(), "failed: tool-use loop exceeded max iterations");
    assert_eq!(stage.asked, 2);
}

#[test]
fn rounds_of_tools_have_a_limit_of_their_own() {
    let mut stage = react(ReasoningOptions { max_turns: Some(1), ..ReasoningOptions::default() });
    stage.begin();
    stage.calls(0, "", &["a"]);
    stage.tool("a", "…");
    let end = stage.calls(4, "", &["b"]);
    assert_eq!(end, ["leave 4", "failed: tool-use loop exceeded max iterations"], "the second round is not begun");
}

#[test]
fn after_the_last_round_the_model_may_still_answer() {
    let mut stage = react(ReasoningOptions { max_turns: Some(1), ..ReasoningOptions::default() });
    stage.begin();
    stage.calls(0, "", &["a"]);
    stage.tool("a", "…");
    assert_eq!(stage.says(4, "that is it"), ["leave 4", "done"]);
}

#[test]
fn a_failed_model_call_fails_the_run() {
    let mut stage = react(calls(2));
    stage.begin();
    let end = stage.fails(0, "provider error: connection refused");
    assert_eq!(end, ["leave 0: provider error: connection refused", "failed: provider error: connection refused"]);
}

#[test]
fn an_empty_answer_adds_no_message() {
    let mut stage = react(calls(2));
    stage.begin();
    assert_eq!(stage.says(0, ""), ["leave 0", "done"]);
    assert_eq!(stage.transcript(), [ModelMessage::user("now")]);
}

#[test]
fn a_limit_of_no_calls_is_a_limit_of_one() {
    let mut stage = react(calls(0));
    assert_eq!(stage.begin(), ["enter think 0", "ask 0: 3 messages, tools, reply"]);
}

#[test]
fn an_unknown_result_is_not_heard() {
    let mut stage = react(calls(5));
    stage.begin();
    stage.calls(0, "", &["a"]);
    assert_eq!(stage.tool("z", "…"), [""; 0]);
    assert_eq!(stage.tool("a", "first").len(), 7);
    assert_eq!(stage.tool("a", "second"), [""; 0]);
}
