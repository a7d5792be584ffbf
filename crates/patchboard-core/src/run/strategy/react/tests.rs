use super::super::tests::{StrategyHarness, calls, lines, spec};
use crate::model::ModelMessage;
use crate::run_spec::StrategyKind;
use crate::run_spec::reasoning::ReasoningOptions;

fn react(reasoning: ReasoningOptions) -> StrategyHarness {
    StrategyHarness::of(StrategyKind::React, spec(reasoning))
}

#[test]
fn an_answer_without_calls_ends_the_run() {
    let mut harness = react(calls(10));
    assert_eq!(harness.begin(), ["enter think 0", "ask 0: 3 messages, tools, reply"]);
    assert_eq!(harness.says(0, "hello"), ["leave 0", "done"]);
    assert_eq!(harness.transcript(), [ModelMessage::user("now"), ModelMessage::assistant("hello")]);
}

#[test]
fn calls_run_side_by_side_and_their_results_go_back_in_the_order_of_the_calls() {
    let mut harness = react(calls(10));
    harness.begin();
    assert_eq!(harness.calls(0, "looking", &["a", "b"]), ["leave 0", "enter act 1", "call a in 1", "call b in 1"]);
    assert_eq!(harness.tool("b", "result of b"), [""; 0]);
    assert_eq!(
        harness.tool("a", "result of a"),
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
    assert_eq!(harness.says(4, "found"), ["leave 4", "done"]);
    assert_eq!(
        lines(&harness.transcript()),
        ["user: now", "assistant: looking call a call b", "user: a=result of a b=result of b", "assistant: found"]
    );
}

#[test]
fn a_model_that_never_stops_calling_is_stopped() {
    let mut harness = react(calls(2));
    harness.begin();
    harness.calls(0, "", &["a"]);
    harness.tool("a", "…");
    harness.calls(4, "", &["b"]);
    let end = harness.tool("b", "…");
    assert_eq!(end.last().unwrap(), "failed: tool-use loop exceeded max iterations");
    assert_eq!(harness.model_calls, 2);
}

#[test]
fn rounds_of_tools_have_a_limit_of_their_own() {
    let mut harness = react(ReasoningOptions { max_turns: Some(1), ..ReasoningOptions::default() });
    harness.begin();
    harness.calls(0, "", &["a"]);
    harness.tool("a", "…");
    let end = harness.calls(4, "", &["b"]);
    assert_eq!(end, ["leave 4", "failed: tool-use loop exceeded max iterations"], "the second round is not begun");
}

#[test]
fn after_the_last_round_the_model_may_still_answer() {
    let mut harness = react(ReasoningOptions { max_turns: Some(1), ..ReasoningOptions::default() });
    harness.begin();
    harness.calls(0, "", &["a"]);
    harness.tool("a", "…");
    assert_eq!(harness.says(4, "that is it"), ["leave 4", "done"]);
}

#[test]
fn a_failed_model_call_fails_the_run() {
    let mut harness = react(calls(2));
    harness.begin();
    let end = harness.fails(0, "provider error: connection refused");
    assert_eq!(end, ["leave 0: provider error: connection refused", "failed: provider error: connection refused"]);
}

#[test]
fn an_empty_answer_adds_no_message() {
    let mut harness = react(calls(2));
    harness.begin();
    assert_eq!(harness.says(0, ""), ["leave 0", "done"]);
    assert_eq!(harness.transcript(), [ModelMessage::user("now")]);
}

#[test]
fn a_limit_of_no_calls_is_a_limit_of_one() {
    let mut harness = react(calls(0));
    assert_eq!(harness.begin(), ["enter think 0", "ask 0: 3 messages, tools, reply"]);
}

#[test]
fn an_unknown_result_is_ignored() {
    let mut harness = react(calls(5));
    harness.begin();
    harness.calls(0, "", &["a"]);
    assert_eq!(harness.tool("z", "…"), [""; 0]);
    assert_eq!(harness.tool("a", "first").len(), 7);
    assert_eq!(harness.tool("a", "second"), [""; 0]);
}
