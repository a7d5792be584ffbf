//! Recorded streams of events in, what is printed out: `>` standard output, `·` and `!` standard error, `#` pictures.

use super::{DisplayUpdate, ProgressDisplay, ReplyTiming, RunView};
use crate::cli::markdown::{MarkdownLayout, MarkupMode};
use crate::cli::run::event::RunEvent;
use crate::client::runs::{RunEnd, TokenUsage};

const PERSON: (ReplyTiming, ProgressDisplay) = (ReplyTiming::Streamed, ProgressDisplay::Live);
const PIPES: (ReplyTiming, ProgressDisplay) = (ReplyTiming::AtEnd, ProgressDisplay::None);

/// One event a line: node, type and payload.
fn play((reply, progress): (ReplyTiming, ProgressDisplay), events: &str, end: Option<&str>) -> String {
    let mut view = RunView::new(reply, progress, MarkdownLayout { columns: 80, marks: MarkupMode::Literal });
    let mut updates = Vec::new();
    for (number, line) in (1..).zip(events.lines().map(str::trim).filter(|line| !line.is_empty())) {
        let (node, payload) = line.split_once(' ').unwrap();
        let text = format!(r#"{{"session_id":"r","node_id":"run-{node}","event_id":{number},{payload}}}"#);
        updates.extend(view.event(&RunEvent::parse(&text).unwrap()));
    }
    match end {
        Some(reply) => updates.extend(view.ended(&RunEnd {
            reply: reply.to_owned(),
            session_id: "r".to_owned(),
            node_id: "run-0".to_owned(),
            event_id: 99,
            usage: None,
            total_usage: Some(TokenUsage { prompt_tokens: 12, completion_tokens: 3, total_tokens: 15 }),
        })),
        None => updates.extend(view.pause()),
    }
    let mut shown = String::new();
    for one in updates {
        shown.push_str(&match one {
            DisplayUpdate::Text(words) => format!("> {words:?}\n"),
            DisplayUpdate::DimLine(line) => format!("{line}\n"),
            DisplayUpdate::Line(line) => format!("! {line}\n"),
            DisplayUpdate::LiveBlock(lines) => {
                lines.iter().map(|line| format!("# {line}\n")).collect::<String>() + "#\n"
            }
        });
    }
    shown
}

/// Without what is drawn again in its place.
fn stays(shown: &str) -> String {
    shown.split_inclusive('\n').filter(|line| !line.starts_with('#')).collect()
}

#[track_caller]
fn check(watcher: (ReplyTiming, ProgressDisplay), events: &str, end: Option<&str>, expected: &str) {
    assert_eq!(stays(&play(watcher, events, end)), expected.trim_start_matches('\n'));
}

const REACT: &str = r#"
    0 "type":"run_start","run_id":"r","message":"hi","agent":"react"
    think-0 "type":"node_enter","id":"think"
    think-0 "type":"message_chunk","content":"Let me","id":"think"
    think-0 "type":"message_chunk","content":" look.","id":"think"
    think-0 "type":"tool_call","call_id":"c","name":"read","arguments":{"path":"a"}
    think-0 "type":"node_exit","id":"think","result":"Ok"
    act-1 "type":"node_enter","id":"act"
    act-1 "type":"tool_start","call_id":"c","name":"read"
    act-1 "type":"tool_end","call_id":"c","name":"read","result":"\nno such file\nat all","is_error":true
    act-1 "type":"node_exit","id":"act","result":"Ok"
    observe-2 "type":"node_enter","id":"observe"
    observe-2 "type":"node_exit","id":"observe","result":"Ok"
    think-4 "type":"node_enter","id":"think"
    think-4 "type":"message_chunk","content":"It is","id":"think"
    think-4 "type":"message_chunk","content":" gone.\n","id":"think"
"#;

#[test]
fn a_person_sees_the_reply_as_it_comes() {
    check(
        PERSON,
        REACT,
        Some("It is gone.\n"),
        r#"
> "Let"
> " me"
> " look.\n"
· read {"path":"a"}
· read failed: no such file
> "It"
> " is gone.\n"
12 tokens in, 3 out
"#,
    );
}

#[test]
fn a_program_reads_the_reply_alone() {
    check(PIPES, REACT, Some("It is gone.\n"), "> \"It is gone.\\n\"\n12 tokens in, 3 out\n");
    check(PIPES, REACT, Some("It is gone."), "> \"It is gone.\\n\"\n12 tokens in, 3 out\n");
    check(PIPES, "", Some(""), "12 tokens in, 3 out\n");
}

#[test]
fn what_was_said_before_tools_is_no_part_of_what_a_program_reads() {
    let spaced = REACT.replace(
        r#"think-4 "type":"message_chunk","content":"It is""#,
        "think-4 \"type\":\"message_chunk\",\"content\":\"\\n\\n\",\"id\":\"think\"\n    \
         think-4 \"type\":\"message_chunk\",\"content\":\"It is\"",
    );
    let whole = "Let me look.\n\nIt is gone.\n";
    check(PIPES, &spaced, Some(whole), "> \"It is gone.\\n\"\n12 tokens in, 3 out\n");
    assert_eq!(play(PERSON, &spaced, Some(whole)), play(PERSON, REACT, Some("It is gone.\n")));
    // Joined in the middle, what was missed is a part of it.
    let joined = r#"think-4 "type":"message_chunk","content":"gone.\n","id":"think""#;
    check(PIPES, joined, Some(whole), "> \"Let me look.\\n\\nIt is gone.\\n\"\n12 tokens in, 3 out\n");
}

#[test]
fn drafts_are_not_the_reply() {
    let dup = r#"
        understand-0 "type":"node_enter","id":"understand"
        understand-0 "type":"message_chunk","content":"{\"core_goal\":…","id":"understand"
        plan-1 "type":"node_enter","id":"plan"
        plan-1 "type":"message_chunk","content":"42","id":"plan"
    "#;
    check(PERSON, dup, Some("42"), "> \"42\\n\"\n12 tokens in, 3 out\n");
}

#[test]
fn a_reply_of_a_node_that_is_not_known_is_printed_at_the_end() {
    let other = r#"new-0 "type":"message_chunk","content":"hello","id":"new""#;
    check(PERSON, other, Some("hello"), "> \"hello\\n\"\n12 tokens in, 3 out\n");
}

#[test]
fn half_an_answer_is_not_the_reply() {
    let cut_short = r#"
        think-0 "type":"message_chunk","content":"It i","id":"think"
        think-0 "type":"node_exit","id":"think","result":{"Err":"interrupted"}
        think-1 "type":"message_chunk","content":"It is so.","id":"think"
    "#;
    check(
        PERSON,
        cut_short,
        Some("It is so."),
        "> \"It\"\n> \" i\\n\"\n· think failed: interrupted\n> \"It is\"\n> \" so.\\n\"\n12 tokens in, 3 out\n",
    );
    let failed = r#"
        think-0 "type":"message_chunk","content":"It i","id":"think"
        think-0 "type":"node_exit","id":"think","result":{"Err":"cut off"}
    "#;
    check(
        PERSON,
        failed,
        Some("All else."),
        "> \"It\"\n> \" i\\n\"\n· think failed: cut off\n> \"All\"\n> \" else.\\n\"\n12 tokens in, 3 out\n",
    );
}

#[test]
fn joined_in_the_middle_only_the_rest_is_printed() {
    let rest = r#"think-0 "type":"message_chunk","content":"and so on","id":"think""#;
    check(PERSON, rest, Some("This and so on"), "> \"and so\"\n> \" on\\n\"\n12 tokens in, 3 out\n");
}

#[test]
fn what_a_model_says_cannot_play_with_the_terminal() {
    let evil = r#"
        think-0 "type":"message_chunk","content":"\u001b[2J","id":"think"
        think-0 "type":"tool_call","call_id":"c","name":"x\u001b]0;y","arguments":{"a":"\n\u0007"}
    "#;
    check(
        PERSON,
        evil,
        Some("\u{1b}[2J"),
        "> \"\\\\u{1b}[2J\\n\"\n· x\\u{1b}]0;y {\"a\":\"\\n\\u0007\"}\n12 tokens in, 3 out\n",
    );
}

const TOT: &str = r#"
    think_expand-0 "type":"node_enter","id":"think_expand"
    think_expand-0 "type":"message_chunk","content":"CANDIDATE 1: …","id":"think_expand"
    think_expand-0 "type":"tot_expand","candidates":["look","guess"]
    think_expand-0 "type":"values","state":{"core":{},"tot":{"depth":1}}
    think_evaluate-1 "type":"node_enter","id":"think_evaluate"
    think_evaluate-1 "type":"tot_evaluate","chosen":0,"scores":[0.9,0.4]
    act-2 "type":"node_enter","id":"act"
    act-2 "type":"tool_end","call_id":"c","name":"read","result":"no","is_error":true
    backtrack-3 "type":"node_enter","id":"backtrack"
    backtrack-3 "type":"tot_backtrack","reason":"its tools failed","to_depth":0
    answer-4 "type":"node_enter","id":"answer"
    answer-4 "type":"message_chunk","content":"Yes.","id":"answer"
    answer-4 "type":"values","state":{"core":{},"tot":{"depth":1}}
"#;

#[test]
fn a_search_is_a_picture_above_the_reply() {
    let shown = play(PERSON, TOT, Some("Yes."));
    let (pictures, _) = shown.split_once("> ").unwrap();
    assert_eq!(stays(&shown), "> \"Yes.\\n\"\n12 tokens in, 3 out\n");
    assert!(pictures.starts_with("# ⠋ thinking of next steps · 0 s\n#\n# tree of thoughts\n"), "{pictures}");
    let last = pictures.trim_end_matches("#\n").rsplit("#\n").next().unwrap();
    assert_eq!(
        last,
        "# tree of thoughts\n# ├─ ✗ 0.90 look\n# └─ ▶ 0.40 guess\n# ↩ gave up at depth 1: its tools failed\n"
    );
    assert!(shown.contains("# · read failed: no\n"), "activity is below the picture: {shown}");
    assert!(!shown.contains("CANDIDATE"), "{shown}");
}

#[test]
fn without_a_terminal_there_are_no_pictures() {
    check(PIPES, TOT, Some("Yes."), "> \"Yes.\\n\"\n12 tokens in, 3 out\n");
    let lines = play((ReplyTiming::AtEnd, ProgressDisplay::Lines), TOT, Some("Yes."));
    assert!(lines.starts_with("· think_expand\n· think_evaluate\n· act\n· read failed: no\n"), "{lines}");
}

#[test]
fn a_graph_is_a_picture_above_the_reply() {
    let got = r#"
        plan_graph-0 "type":"node_enter","id":"plan_graph"
        plan_graph-0 "type":"got_plan","node_count":2,"edge_count":1,"node_ids":["a","b"]
        plan_graph-0 "type":"values","state":{"task_graph":{"nodes":[{"id":"a","description":"first"},{"id":"b","description":"then"}],"edges":[["a","b"]]},"node_states":{}}
        execute_graph-1 "type":"got_node_start","id":"a"
        execute_graph-1 "type":"message_chunk","content":"result of a","id":"execute_graph"
        execute_graph-1 "type":"got_node_complete","id":"a","result_summary":"result of a"
        execute_graph-2 "type":"got_node_start","id":"b"
        execute_graph-2 "type":"got_node_failed","id":"b","error":"too hard"
        aggregate-3 "type":"node_enter","id":"aggregate"
        aggregate-3 "type":"message_chunk","content":"Half.","id":"aggregate"
    "#;
    let shown = play(PERSON, got, Some("Half."));
    let (pictures, _) = shown.split_once("> ").unwrap();
    assert_eq!(stays(&shown), "> \"Half.\\n\"\n12 tokens in, 3 out\n");
    let last = pictures.trim_end_matches("#\n").rsplit("#\n").next().unwrap();
    assert_eq!(last, "# graph of tasks: 1 of 2 done\n# ✓ a  first\n# ✗ b ← a  too hard\n");
    assert!(!shown.contains("result of a"), "{shown}");
}
