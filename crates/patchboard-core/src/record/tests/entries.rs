//! Events of runs, with and without the node in which they occurred.

use std::path::Path;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::json;

use super::{RECORD_VERSION, call, check_fixture, client_tool, decode_entry, encode_entry, every_event, every_message};
use crate::conversation::ConversationOrigin;
use crate::event::{Event, ModelCallOutcome, NodeOutcome, TextChunks};
use crate::id::{CallId, NodeId};
use crate::model::{ModelMessage, StopReason, ToolCall, ToolInput};
use crate::run_spec::NodeKey;
use crate::run_spec::RunSpec;
use crate::run_spec::StrategyKind;
use crate::run_spec::finding::{PlannedTask, StrategyFinding, ThoughtId};

fn briefing() -> RunSpec {
    RunSpec {
        folder_granted: false,
        client_id: "run-7".into(),
        thread: Some("thread-1".into()),
        requested_agent: "got".into(),
        strategy: StrategyKind::Got,
        adaptive: true,
        detached: true,
        verbose: false,
        model: None,
        folder: Some(Arc::from(Path::new("/srv/wörk"))),
        origin: ConversationOrigin {
            channel: "runs".to_owned(),
            account: "alice".to_owned(),
            peer: Some("thread-1".to_owned()),
            guild: Some("g".to_owned()),
            team: Some("t".to_owned()),
        },
        message: "plan a trip".into(),
        system: "You are kind.".into(),
        history: every_message(),
        client_tools: vec![client_tool()],
    }
}

fn short_briefing() -> RunSpec {
    RunSpec {
        thread: None,
        adaptive: false,
        detached: false,
        verbose: true,
        folder: None,
        origin: ConversationOrigin {
            channel: "runs".to_owned(),
            account: "alice".to_owned(),
            peer: None,
            guild: None,
            team: None,
        },
        history: Vec::new(),
        client_tools: Vec::new(),
        ..briefing()
    }
}

fn task(id: &str) -> PlannedTask {
    PlannedTask { id: id.into(), description: format!("do {id}").into() }
}

fn edge(from: &str, to: &str) -> (Arc<str>, Arc<str>) {
    (from.into(), to.into())
}

/// One of every kind and form, in the order of the fixture file.
fn every_entry() -> Vec<(Option<NodeId>, Event)> {
    let id = || CallId("call-1".into());
    let briefed = |strategy| Event::RunBriefed(Arc::new(RunSpec { strategy, ..short_briefing() }));
    let answered = |stop, calls| Event::ModelCallEnded(ModelCallOutcome::Completed { stop, calls });
    let new = vec![
        Event::RunBriefed(Arc::new(briefing())),
        briefed(StrategyKind::React),
        briefed(StrategyKind::Dup),
        briefed(StrategyKind::Tot),
        Event::RunBriefed(Arc::new(RunSpec { model: Some("main/m-2".into()), ..short_briefing() })),
        Event::RunBriefed(Arc::new(RunSpec { folder_granted: true, ..short_briefing() })),
        Event::NodeEntered { key: NodeKey(3), name: "think".into(), is_reentry: false },
        Event::NodeEntered { key: NodeKey(u32::MAX), name: "act".into(), is_reentry: true },
        Event::NodeLeft(NodeOutcome::Done),
        Event::NodeLeft(NodeOutcome::Failed("no model".into())),
        Event::NodeLeft(NodeOutcome::Interrupted),
        Event::DraftText(["Hé", "", "llo"].into_iter().collect()),
        Event::ToolArguments { call: id(), name: "read".into(), is_first: true, pieces: TextChunks::of_single("") },
        Event::ToolArguments {
            call: id(),
            name: "read".into(),
            is_first: false,
            pieces: ["{\"pa", "th\""].into_iter().collect(),
        },
        answered(StopReason::EndOfTurn, Vec::new()),
        answered(StopReason::ToolCalls, vec![call(), ToolCall { input: ToolInput::Malformed("{".into()), ..call() }]),
        answered(StopReason::MaxTokens, Vec::new()),
        answered(StopReason::Refused, Vec::new()),
        Event::ModelCallEnded(ModelCallOutcome::Failed("connection refused".into())),
        Event::FindingRecorded(StrategyFinding::Understood {
            goal: "a trip".into(),
            constraints: vec!["cheap".into(), "short".into()],
            context: "summer".into(),
        }),
        Event::FindingRecorded(StrategyFinding::Expanded {
            of: ThoughtId::ROOT,
            first: ThoughtId(1),
            depth: 1,
            candidates: vec!["by train".into(), "by boat".into()],
        }),
        Event::FindingRecorded(StrategyFinding::Evaluated {
            of: ThoughtId::ROOT,
            first: ThoughtId(1),
            chosen: 1,
            scores: vec![0.1, 0.9],
        }),
        Event::FindingRecorded(StrategyFinding::Followed { thought: ThoughtId(2) }),
        Event::FindingRecorded(StrategyFinding::Backtracked {
            from: ThoughtId(2),
            to: ThoughtId::ROOT,
            reason: "too dear".into(),
            to_depth: 0,
        }),
        Event::FindingRecorded(StrategyFinding::Planned {
            tasks: vec![task("a"), task("b")],
            edges: vec![edge("a", "b")],
        }),
        Event::FindingRecorded(StrategyFinding::TaskStarted { task: "a".into() }),
        Event::FindingRecorded(StrategyFinding::TaskCompleted { task: "a".into(), result: "done".into() }),
        Event::FindingRecorded(StrategyFinding::TaskFailed { task: "b".into(), error: "no road".into() }),
        Event::FindingRecorded(StrategyFinding::TaskExpanded {
            task: "a".into(),
            tasks: vec![task("a.1")],
            edges: vec![edge("a", "a.1"), edge("a.1", "b")],
            dropped: vec![edge("a", "b")],
        }),
        Event::ToolStarted { call: id(), name: "read".into() },
        Event::ToolProgress { call: id(), name: "read".into(), pieces: ["half", " way"].into_iter().collect() },
    ];
    let events = || every_event().into_iter().chain(new.iter().cloned());
    let without = events().map(|event| (None, event));
    let with = events().zip(0..).map(|(event, node)| (Some(NodeId(node)), event));
    without.chain(with).collect()
}

#[test]
fn entries_are_written_as_the_fixture_shows() {
    check_fixture(include_str!("../fixtures/v1.entries.jsonl"), &every_entry());
}

#[test]
fn what_json_cannot_hold_is_written_as_something_it_can() {
    let scores = vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE];
    let evaluated = |scores| {
        let (of, first) = (ThoughtId::ROOT, ThoughtId(1));
        Event::FindingRecorded(StrategyFinding::Evaluated { of, first, chosen: 0, scores })
    };
    let bytes = encode_entry(None, &evaluated(scores));
    let read = decode_entry(RECORD_VERSION, &bytes).unwrap();
    let scores = vec![0.0, 0.0, 0.0, f32::MIN_POSITIVE];
    assert_eq!(read, (None, evaluated(scores)));
}

#[cfg(unix)]
#[test]
fn a_folder_that_is_no_text_loses_what_is_not() {
    use std::os::unix::ffi::OsStrExt;
    let folder: Arc<Path> = Arc::from(Path::new(std::ffi::OsStr::from_bytes(b"/srv/\xff/a")));
    let briefed = Event::RunBriefed(Arc::new(RunSpec { folder: Some(folder), ..briefing() }));
    let bytes = encode_entry(None, &briefed);
    let expected = RunSpec { folder: Some(Arc::from(Path::new("/srv/\u{fffd}/a"))), ..briefing() };
    assert_eq!(decode_entry(RECORD_VERSION, &bytes).unwrap(), (None, Event::RunBriefed(Arc::new(expected))));
}

#[test]
fn entries_that_are_none_are_refused() {
    for bad in [
        "",
        "{}",
        r#"{"node":1}"#,
        r#"{"node":-1,"event":{"run_failed":{"message":"x"}}}"#,
        r#"{"event":{"surprise":{}}}"#,
        r#"{"event":{"node_left":"asleep"}}"#,
        r#"{"run_failed":{"message":"not in an entry"}}"#,
    ] {
        assert!(decode_entry(RECORD_VERSION, bad.as_bytes()).is_err(), "{bad}");
    }
}

pub(super) fn any_text() -> impl Strategy<Value = Arc<str>> {
    "\\PC{0,12}|[\\x00-\\x1f\"\\\\]{0,4}".prop_map(Arc::from)
}

fn any_pieces() -> impl Strategy<Value = TextChunks> {
    vec(".{0,8}", 1..6).prop_map(|pieces| pieces.iter().map(String::as_str).collect())
}

fn any_call() -> impl Strategy<Value = ToolCall> {
    let number = prop_oneof![any::<i64>().prop_map(|n| json!(n)), any::<u64>().prop_map(|n| json!(n))];
    let input = prop_oneof![
        any_text().prop_map(ToolInput::Malformed),
        (any_text(), number).prop_map(|(key, number)| ToolInput::Json(Arc::new(json!({ &*key: [number] })))),
        any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(|n| ToolInput::Json(Arc::new(json!([n])))),
    ];
    (any_text(), any_text(), input).prop_map(|(id, name, input)| ToolCall { id: CallId(id), name, input })
}

fn any_tasks() -> impl Strategy<Value = Vec<PlannedTask>> {
    vec((any_text(), any_text()).prop_map(|(id, description)| PlannedTask { id, description }), 0..4)
}

fn any_edges() -> impl Strategy<Value = Vec<(Arc<str>, Arc<str>)>> {
    vec((any_text(), any_text()), 0..4)
}

fn any_thought() -> impl Strategy<Value = ThoughtId> {
    any::<u32>().prop_map(ThoughtId)
}

fn any_finding() -> impl Strategy<Value = StrategyFinding> {
    let score = any::<f32>().prop_filter("finite", |score| score.is_finite());
    prop_oneof![
        (any_text(), vec(any_text(), 0..4), any_text())
            .prop_map(|(goal, constraints, context)| StrategyFinding::Understood { goal, constraints, context }),
        (any_thought(), any_thought(), any::<u32>(), vec(any_text(), 0..4))
            .prop_map(|(of, first, depth, candidates)| StrategyFinding::Expanded { of, first, depth, candidates }),
        (any_thought(), any_thought(), any::<u32>(), vec(score, 0..6))
            .prop_map(|(of, first, chosen, scores)| StrategyFinding::Evaluated { of, first, chosen, scores }),
        any_thought().prop_map(|thought| StrategyFinding::Followed { thought }),
        (any_thought(), any_thought(), any_text(), any::<u32>())
            .prop_map(|(from, to, reason, to_depth)| StrategyFinding::Backtracked { from, to, reason, to_depth }),
        (any_tasks(), any_edges()).prop_map(|(tasks, edges)| StrategyFinding::Planned { tasks, edges }),
        (any_text(), any_tasks(), any_edges(), any_edges())
            .prop_map(|(task, tasks, edges, dropped)| StrategyFinding::TaskExpanded { task, tasks, edges, dropped }),
    ]
}

fn any_briefing() -> impl Strategy<Value = RunSpec> {
    let names = (any_text(), option::of(any_text()), any_text(), any_text(), any_text());
    let rest = (option::of("[^\\x00]{1,12}"), option::of(".{0,6}"), vec(any_text(), 0..3), any::<[bool; 4]>());
    (names, rest).prop_map(|((client_id, thread, agent_asked, message, system), (folder, peer, said, flags))| RunSpec {
        folder_granted: flags[3],
        client_id,
        thread,
        requested_agent: agent_asked,
        message,
        system,
        adaptive: flags[0],
        detached: flags[1],
        verbose: flags[2],
        folder: folder.map(|folder| Arc::from(Path::new(&folder))),
        origin: ConversationOrigin { peer, ..briefing().origin },
        history: said.into_iter().map(ModelMessage::user).collect(),
        ..briefing()
    })
}

fn any_event() -> impl Strategy<Value = Event> {
    let id = || any_text().prop_map(CallId);
    prop_oneof![
        any_briefing().prop_map(|briefing| Event::RunBriefed(Arc::new(briefing))),
        (any::<u32>(), any_text(), any::<bool>()).prop_map(|(key, name, is_reentry)| Event::NodeEntered {
            key: NodeKey(key),
            name,
            is_reentry
        }),
        any_text().prop_map(|message| Event::NodeLeft(NodeOutcome::Failed(message))),
        any_pieces().prop_map(Event::AnswerText),
        any_pieces().prop_map(Event::DraftText),
        (id(), any_text(), any::<bool>(), any_pieces())
            .prop_map(|(call, name, is_first, pieces)| Event::ToolArguments { call, name, is_first, pieces }),
        vec(any_call(), 0..4).prop_map(|calls| Event::ModelCallEnded(ModelCallOutcome::Completed {
            stop: StopReason::ToolCalls,
            calls
        })),
        any_call().prop_map(Event::ToolRequested),
        any_finding().prop_map(Event::FindingRecorded),
        (id(), any_text(), any_pieces()).prop_map(|(call, name, pieces)| Event::ToolProgress { call, name, pieces }),
    ]
}

proptest! {
    #[test]
    fn entries_survive_storage(node in option::of(any::<u32>()), event in any_event()) {
        let node = node.map(NodeId);
        let bytes = encode_entry(node, &event);
        prop_assert_eq!(decode_entry(RECORD_VERSION, &bytes).unwrap(), (node, event));
    }
}
