use serde_json::json;

use super::*;
use crate::run::strategy::tests::{completion, tool_call};

/// `thought`, `calls name{…}`, `final`: one line for each candidate.
fn read(text: &str, calls: &[&str]) -> Vec<String> {
    candidates(completion(text, calls), "tot", NodeKey(7)).iter().map(short).collect()
}

fn short(candidate: &ThoughtCandidate) -> String {
    let mut line = candidate.thought.to_string();
    for call in &candidate.calls {
        let input = match &call.input {
            ToolInput::Json(value) => value.to_string(),
            ToolInput::Malformed(text) => format!("malformed {text}"),
        };
        line.push_str(&format!(" + {}={}{input}", call.id, call.name));
    }
    if candidate.is_final {
        line.push_str(" final");
    }
    line
}

#[test]
fn candidates_are_read_from_many_forms() {
    let rows: [(&str, &[&str]); 14] = [
        (
            "CANDIDATE 1: THOUGHT: add | TOOL_CALLS: []\nCANDIDATE 2: THOUGHT: look it up | TOOL_CALLS: []",
            &["add", "look it up"],
        ),
        (
            r#"CANDIDATE 1: THOUGHT: read it | TOOL_CALLS: [{"name": "read", "arguments": {"path": "a|b"}}]"#,
            &[r#"read it + call_tot_7_1=read{"path":"a|b"}"#],
        ),
        ("Here you are:\n**Candidate 1**: THOUGHT: one\ngoes on\n- candidate 2) two", &["one\ngoes on", "two"]),
        (
            "CANDIDATE 1: THOUGHT: two calls | TOOL_CALLS: [\n {\"tool\": \"ls\", \"parameters\": {}},\n {\"name\": \"read\", \"arguments\": \"{\\\"path\\\": \\\"x\\\"}\"}\n]",
            &[r#"two calls + call_tot_7_1=ls{} + call_tot_7_2=read{"path":"x"}"#],
        ),
        ("CANDIDATE 1: FINAL: it is 5 | TOOL_CALLS: []", &["it is 5 final"]),
        (
            "CANDIDATE 1: THOUGHT: it is 5 | FINAL: yes\nCANDIDATE 2: THOUGHT: it is 6 | FINAL: no",
            &["it is 5 final", "it is 6"],
        ),
        (
            r#"CANDIDATE 1: THOUGHT: write | TOOL_CALLS: [{"name": "write", "arguments": {"text": "\n| FINAL: yes"}}]"#,
            &[r#"write + call_tot_7_1=write{"text":"\n| FINAL: yes"}"#],
        ),
        (
            r#"{"candidates": ["plain", {"thought": "with a call", "tool_calls": [{"function": {"name": "ls"}}]}, {"thought": "end", "final": true}]}"#,
            &["plain", "with a call + call_tot_7_1=ls{}", "end final"],
        ),
        ("CANDIDATE 1: THOUGHT: bad json | TOOL_CALLS: [{\"name\": ", &["bad json"]),
        (
            r#"CANDIDATE 1: THOUGHT: bad arguments | TOOL_CALLS: [{"name": "ls", "arguments": "{path"}]"#,
            &["bad arguments + call_tot_7_1=lsmalformed {path"],
        ),
        (r#"CANDIDATE 1: TOOL_CALLS: [{"name": "ls"}]"#, &["call `ls` + call_tot_7_1=ls{}"]),
        ("just think about it", &["just think about it"]),
        ("the candidate 1: is nobody", &["the candidate 1: is nobody"]),
        (" \n ", &[]),
    ];
    for (text, expected) in rows {
        assert_eq!(read(text, &[]), expected, "{text}");
    }
}

#[test]
fn calls_made_outright_belong_to_the_first_thought_without_written_ones() {
    let written = r#"CANDIDATE 1: THOUGHT: a | TOOL_CALLS: [{"name": "ls"}]"#;
    let rows: [(&str, &[&str]); 4] = [
        ("", &[r#"call `read` + x=read{"id":"x"}"#]),
        ("look", &[r#"look + x=read{"id":"x"}"#]),
        ("CANDIDATE 1: THOUGHT: a\nCANDIDATE 2: THOUGHT: b", &[r#"a + x=read{"id":"x"}"#, "b"]),
        (written, &["a + call_tot_7_1=ls{}"]),
    ];
    for (text, expected) in rows {
        assert_eq!(read(text, &["x"]), expected, "{text}");
    }
}

#[test]
fn what_is_read_is_bounded() {
    let many = (1..5_000).map(|n| format!("CANDIDATE {n}: THOUGHT: {}\n", "x".repeat(100))).collect::<String>();
    assert_eq!(candidates(completion(&many, &[]), "tot", NodeKey(0)).len(), MAX_CANDIDATES);
    let long = candidates(completion(&"word ".repeat(1_000_000), &[]), "tot", NodeKey(0));
    assert!(long.len() == 1 && long[0].thought.len() <= THOUGHT_BYTES);
    let calls = vec![json!({"name": "ls"}); 100];
    let text = format!("CANDIDATE 1: THOUGHT: all | TOOL_CALLS: {}", json!(calls));
    assert_eq!(candidates(completion(&text, &[]), "tot", NodeKey(0))[0].calls.len(), MAX_CALLS);
    let deep = format!("{}1{}", "[".repeat(60), "]".repeat(60));
    let text = format!(r#"CANDIDATE 1: THOUGHT: deep | TOOL_CALLS: [{{"name": "ls", "arguments": {deep}}}]"#);
    let read = candidates(completion(&text, &[]), "tot", NodeKey(0));
    assert_eq!(read[0].calls[0].input, ToolInput::Malformed(deep.into()));
}

#[test]
fn the_same_answer_gives_the_same_calls() {
    let text = r#"CANDIDATE 1: THOUGHT: a | TOOL_CALLS: [{"name": "ls"}]"#;
    assert_eq!(read(text, &[]), read(text, &[]));
    assert_eq!(candidates(completion("a", &["x"]), "tot", NodeKey(0))[0].calls, [tool_call("x")]);
}

#[test]
fn scores_are_read_from_many_forms() {
    let rows: [(&str, Option<&[f32]>); 16] = [
        (r#"{"scores": [0.2, 0.9]}"#, Some(&[0.2, 0.9])),
        (r#"Well: ```json {"scores": ["0.2", 0.9]}```"#, Some(&[0.2, 0.9])),
        (r#"{"scores": {"1": 0.1, "2": 0.3}}"#, Some(&[0.1, 0.3])),
        (r#"{"scores": [{"candidate": 1, "score": 0.4}, {"candidate": 2, "score": 0.6}]}"#, Some(&[0.4, 0.6])),
        (r#"{"scores": [0.2]}"#, Some(&[0.2, 0.5])),
        (r#"{"scores": [0.2, 0.3, 0.4]}"#, Some(&[0.2, 0.3])),
        (r#"{"scores": [2, 9]}"#, Some(&[0.2, 0.9])),
        (r#"{"scores": [20, 90]}"#, Some(&[0.2, 0.9])),
        (r#"{"scores": [-1, 1e99]}"#, Some(&[0.0, 0.5])),
        ("CANDIDATE 1: 0.8 since 3 is prime\nCANDIDATE 2: 0.1", Some(&[0.8, 0.1])),
        ("1. 0.8\n2. 0.1", Some(&[0.8, 0.1])),
        ("1) 8/10\n2) 3/10", Some(&[0.8, 0.3])),
        ("0.8, 0.1", Some(&[0.8, 0.1])),
        ("both are fine", None),
        ("", None),
        (r#"{"scores": []}"#, None),
    ];
    for (text, expected) in rows {
        assert_eq!(scores(text, 2, 0.5).as_deref(), expected, "{text}");
    }
}
