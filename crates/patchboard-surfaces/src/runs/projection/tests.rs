use jiff::Timestamp;
use patchboard_core::conversation::ConversationOrigin;
use patchboard_core::event::fold::fold;
use patchboard_core::event::{InputAnswer, InputKind, InputRequest, ModelCallUsage};
use patchboard_core::id::{InputId, RunId, Seq, SessionKey};
use patchboard_core::model::{StopReason, TokenCount};
use patchboard_core::run_spec::StrategyKind;
use patchboard_core::run_spec::finding::{PlannedTask, ThoughtId};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn run() -> RunId {
    "018f3c2a-7b1d-7e5f-9a0b-1c2d3e4f5a6b".parse().unwrap()
}

fn records(events: Vec<(Option<u32>, Event)>) -> Vec<Envelope> {
    let mut seq = Seq::FIRST;
    let mut records = Vec::new();
    for (node, event) in events {
        let at: Timestamp = "2026-11-15T12:00:00.123456789Z".parse().unwrap();
        let record = Envelope { topic: Topic::Run(run()), seq, at, node: node.map(NodeId), event };
        seq = record.last_seq().next();
        records.push(record);
    }
    records
}

fn frames_of(records: &[Envelope], after: u64, client_level: ClientLevel) -> Vec<String> {
    let mut projection = Projection::new("r".into(), after, client_level);
    let mut frames = Vec::new();
    for record in records {
        projection.project(record, &mut |frame| frames.push(frame));
    }
    frames
}

fn event_id(frame: &str) -> u64 {
    let frame: Value = serde_json::from_str(frame).unwrap();
    frame["event"]["event_id"].as_u64().unwrap()
}

fn briefing(strategy: StrategyKind, thread: Option<&str>) -> Event {
    Event::RunBriefed(Arc::new(RunSpec {
        client_tools: Vec::new(),
        folder_granted: false,
        client_id: "r".into(),
        thread: thread.map(Into::into),
        requested_agent: strategy.name().into(),
        strategy,
        adaptive: false,
        detached: false,
        verbose: false,
        model: None,
        folder: None,
        origin: ConversationOrigin {
            channel: "runs".into(),
            account: "local".into(),
            peer: None,
            guild: None,
            team: None,
        },
        message: "hi".into(),
        system: "be brief".into(),
        history: Vec::new(),
    }))
}

fn any_pieces() -> impl Strategy<Value = TextChunks> {
    prop::collection::vec("\\PC{0,6}", 0..4).prop_map(|pieces| pieces.iter().map(String::as_str).collect())
}

fn any_call() -> impl Strategy<Value = ToolCall> {
    (0u8..4, any::<bool>()).prop_map(|(id, is_json)| {
        let input = if is_json { ToolInput::Json(json!({ "a": 1 }).into()) } else { ToolInput::Malformed("{".into()) };
        ToolCall { id: call_id(id), name: "t".into(), input }
    })
}

fn call_id(id: u8) -> CallId {
    CallId(format!("c{id}").into())
}

fn any_name() -> impl Strategy<Value = Arc<str>> {
    "a|b|c|d".prop_map(Into::into)
}

fn any_tasks() -> impl Strategy<Value = Vec<PlannedTask>> {
    let task =
        (any_name(), "\\PC{0,4}").prop_map(|(id, description)| PlannedTask { id, description: description.into() });
    prop::collection::vec(task, 0..4)
}

fn any_finding() -> impl Strategy<Value = StrategyFinding> {
    let edges = || prop::collection::vec((any_name(), any_name()), 0..4);
    prop_oneof![
        any_name().prop_map(|goal| StrategyFinding::Understood {
            goal,
            constraints: vec!["x".into()],
            context: "y".into()
        }),
        (0u32..4, prop::collection::vec(any_name(), 0..4)).prop_map(|(depth, candidates)| {
            let (of, first) = (ThoughtId::ROOT, ThoughtId(1));
            StrategyFinding::Expanded { of, first, depth, candidates }
        }),
        (
            0u32..5,
            prop::collection::vec(prop::sample::select(vec![0.0, 0.25, 0.9, 1.0, f32::NAN, f32::INFINITY]), 0..4)
        )
            .prop_map(|(chosen, scores)| {
                let (of, first) = (ThoughtId::ROOT, ThoughtId(1));
                StrategyFinding::Evaluated { of, first, chosen, scores }
            }),
        (0u32..9).prop_map(|thought| StrategyFinding::Followed { thought: ThoughtId(thought) }),
        (0u32..5).prop_map(|to_depth| {
            let (from, to) = (ThoughtId(1), ThoughtId::ROOT);
            StrategyFinding::Backtracked { from, to, reason: "no".into(), to_depth }
        }),
        (any_tasks(), edges()).prop_map(|(tasks, edges)| StrategyFinding::Planned { tasks, edges }),
        any_name().prop_map(|task| StrategyFinding::TaskStarted { task }),
        (any_name(), "\\PC{0,300}")
            .prop_map(|(task, result)| StrategyFinding::TaskCompleted { task, result: result.into() }),
        any_name().prop_map(|task| StrategyFinding::TaskFailed { task, error: "no".into() }),
        (any_name(), any_tasks(), edges(), edges())
            .prop_map(|(task, tasks, edges, dropped)| StrategyFinding::TaskExpanded { task, tasks, edges, dropped }),
    ]
}

/// Any record at all, in any order: more than a driver would ever write.
fn any_event() -> impl Strategy<Value = (Option<u32>, Event)> {
    let names = prop_oneof![Just("think"), Just("act"), Just("observe"), Just("execute_graph")];
    let event = prop_oneof![
        2 => (0u32..3, names, any::<bool>())
            .prop_map(|(key, name, is_reentry)| Event::NodeEntered { key: NodeKey(key), name: name.into(), is_reentry }),
        2 => prop_oneof![
            4 => Just(NodeOutcome::Done),
            1 => Just(NodeOutcome::Interrupted),
            1 => Just(NodeOutcome::Failed("no".into())),
        ]
        .prop_map(Event::NodeLeft),
        2 => any_pieces().prop_map(Event::AnswerText),
        1 => any_pieces().prop_map(Event::DraftText),
        1 => any_pieces().prop_map(Event::ThoughtText),
        2 => (0u8..4, any::<bool>(), any_pieces()).prop_map(|(id, is_first, pieces)| {
            Event::ToolArguments { call: call_id(id), name: "t".into(), is_first, pieces }
        }),
        2 => prop::collection::vec(any_call(), 0..3)
            .prop_map(|calls| Event::ModelCallEnded(ModelCallOutcome::Completed { stop: StopReason::EndOfTurn, calls })),
        1 => Just(Event::ModelCallEnded(ModelCallOutcome::Failed("no".into()))),
        3 => any_finding().prop_map(Event::FindingRecorded),
        1 => any_call().prop_map(Event::ToolRequested),
        1 => (0u8..4).prop_map(|id| Event::ToolStarted { call: call_id(id), name: "t".into() }),
        1 => (0u8..4, any_pieces())
            .prop_map(|(id, pieces)| Event::ToolProgress { call: call_id(id), name: "t".into(), pieces }),
        1 => (0u8..4, any::<bool>()).prop_map(|(id, is_error)| Event::ToolFinished {
            call: call_id(id),
            output: ToolOutput { content: "out".into(), is_error, data: None },
        }),
        1 => any_call().prop_map(|call| Event::InputRequested(InputRequest {
            input: InputId(run().0),
            kind: InputKind::Approval { call, may_have_run: false },
            expires_at: Timestamp::UNIX_EPOCH,
            asked_by: None,
        })),
        1 => Just(Event::InputProvided { input: InputId(run().0), answer: InputAnswer::Approved, by: "x".into() }),
        1 => (any::<u64>(), any::<u64>()).prop_map(|(input, output)| Event::ModelUsage(ModelCallUsage {
            tokens: TokenCount { input, output },
            provider: "p".into(),
            model: "m".into(),
            estimated: false,
        })),
        1 => Just(Event::RunStarted { session: SessionKey::conversation("a", "b", "c", "d"), agent: "a".into(), chat: None }),
    ];
    (prop::option::weighted(0.9, 0u32..4), event)
}

fn any_run() -> impl Strategy<Value = Vec<Envelope>> {
    let strategy = prop::sample::select(StrategyKind::ALL.to_vec());
    let thread = prop::option::of(Just("t"));
    let outcome = prop_oneof![
        3 => Just(RunOutcome::Completed),
        1 => Just(RunOutcome::Failed),
        1 => Just(RunOutcome::Cancelled),
    ];
    (strategy, thread, prop::collection::vec(any_event(), 0..60), outcome).prop_map(
        |(strategy, thread, mut events, outcome)| {
            events.insert(0, (None, briefing(strategy, thread)));
            events.push((None, Event::RunEnded { outcome }));
            records(events)
        },
    )
}

#[derive(serde::Deserialize)]
struct Carrier<'a> {
    #[serde(borrow)]
    event: State<'a>,
}

#[derive(serde::Deserialize)]
struct State<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    state: Option<&'a RawValue>,
}

/// Every key after another one sorts after it, in this object and all inside it.
fn is_sorted(text: &str) -> bool {
    let value: Value = serde_json::from_str(text).unwrap();
    // `Value` keeps its keys sorted, so writing it again changes nothing exactly when they were.
    let again = value.to_string();
    again == text
}

proptest! {
    // Each case reads its run again from every point.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whoever_left_after_any_event_gets_exactly_the_rest(records in any_run(), strict in any::<bool>()) {
        let client_level = if strict { ClientLevel::Strict } else { ClientLevel::Full };
        let whole = frames_of(&records, 0, client_level);
        let (end, events) = whole.split_last().unwrap();
        for (frame, number) in events.iter().zip(1..) {
            prop_assert_eq!(event_id(frame), number, "numbers have no gaps");
        }
        for after in 0..=events.len() + 1 {
            let rest = frames_of(&records, after as u64, client_level);
            prop_assert_eq!(&rest[..rest.len() - 1], &events[after.min(events.len())..]);
            prop_assert_eq!(rest.last(), Some(end));
        }
        let end: Value = serde_json::from_str(end).unwrap();
        match end["type"].as_str() {
            Some("run_end") => prop_assert_eq!(end["event_id"].as_u64(), Some(events.len() as u64 + 1)),
            other => prop_assert_eq!(other, Some("error")),
        }
    }

    #[test]
    fn a_folded_run_is_told_alike(records in any_run(), after in 0u64..80) {
        let folded = fold(records.iter().cloned().map(Arc::new));
        let folded: Vec<Envelope> = folded.iter().map(|record| (**record).clone()).collect();
        for client_level in [ClientLevel::Full, ClientLevel::Strict] {
            for after in [0, after] {
                prop_assert_eq!(frames_of(&folded, after, client_level), frames_of(&records, after, client_level));
            }
        }
    }

    #[test]
    fn both_dialogues_number_alike(records in any_run()) {
        let (full, strict) = (frames_of(&records, 0, ClientLevel::Full), frames_of(&records, 0, ClientLevel::Strict));
        prop_assert_eq!(full.len(), strict.len());
        for (full, strict) in full.iter().zip(&strict) {
            let (full, strict): (Value, Value) =
                (serde_json::from_str(full).unwrap(), serde_json::from_str(strict).unwrap());
            prop_assert_eq!(&full["event"]["event_id"], &strict["event"]["event_id"]);
            match full["event"]["type"].as_str() {
                Some("run_start" | "thought_chunk" | "got_expand") => {
                    prop_assert_eq!(&strict["event"]["type"], "custom");
                    prop_assert_eq!(&strict["event"]["value"]["type"], &full["event"]["type"]);
                }
                _ => prop_assert_eq!(full, strict),
            }
        }
    }

    #[test]
    fn states_are_sorted_and_updates_repeat_values(records in any_run()) {
        let mut values = None;
        let frames = frames_of(&records, 0, ClientLevel::Full);
        let (_end, events) = frames.split_last().unwrap();
        for frame in events {
            let Carrier { event: State { kind, state } } = serde_json::from_str(frame).unwrap();
            let Some(state) = state else { continue };
            match kind {
                "values" => values = Some(state.get().to_owned()),
                "updates" => prop_assert_eq!(values.as_deref(), Some(state.get())),
                other => prop_assert_eq!(other, "checkpoint"),
            }
            prop_assert!(is_sorted(state.get()), "{}", state);
        }
    }
}

#[test]
fn the_reply_is_what_was_said_for_the_user() {
    let entered = |node, name: &str| {
        (Some(node), Event::NodeEntered { key: NodeKey(node), name: name.into(), is_reentry: false })
    };
    let answered = |node| {
        (
            Some(node),
            Event::ModelCallEnded(ModelCallOutcome::Completed { stop: StopReason::EndOfTurn, calls: Vec::new() }),
        )
    };
    let left = |node, outcome| (Some(node), Event::NodeLeft(outcome));
    let text = |node, text: &str| (Some(node), Event::AnswerText(TextChunks::of_single(text)));
    let draft = |node, text: &str| (Some(node), Event::DraftText(TextChunks::of_single(text)));
    // And the pieces that were sent of it.
    let frames_of = |middle: Vec<(Option<u32>, Event)>| {
        let mut events = vec![(None, briefing(StrategyKind::React, None))];
        events.extend(middle);
        events.push((None, Event::RunEnded { outcome: RunOutcome::Completed }));
        let frames = self::frames_of(&records(events), 0, ClientLevel::Full);
        let frames: Vec<Value> = frames.iter().map(|frame| serde_json::from_str(frame).unwrap()).collect();
        let chunks = frames.iter().filter(|frame| frame["event"]["type"] == "message_chunk");
        let chunks: String = chunks.map(|frame| frame["event"]["content"].as_str().unwrap()).collect();
        (frames.last().unwrap()["reply"].as_str().unwrap().to_owned(), chunks)
    };
    let reply = |middle| {
        let (reply, chunks) = frames_of(middle);
        assert_eq!(reply, chunks);
        reply
    };
    let spoken = |node| vec![entered(node, "think"), text(node, "spo"), text(node, "ken"), answered(node)];
    let mut done = spoken(0);
    done.push(left(0, NodeOutcome::Done));
    assert_eq!(reply(done.clone()), "spoken");

    let mut then_a_draft = done.clone();
    then_a_draft.extend([entered(1, "x"), draft(1, "note"), answered(1), left(1, NodeOutcome::Done)]);
    assert_eq!(reply(then_a_draft), "spoken");

    let mut then_half = done.clone();
    then_half.extend([entered(1, "x"), text(1, "half"), left(1, NodeOutcome::Interrupted)]);
    then_half.extend([entered(2, "x"), text(2, "half of it"), answered(2), left(2, NodeOutcome::Done)]);
    let told_twice = "spoken\n\nhalf\n\nhalf of it".to_owned();
    assert_eq!(frames_of(then_half), ("spoken\n\nhalf of it".to_owned(), told_twice), "it was cut and said again");

    let mut then_more = done;
    then_more.extend([entered(1, "x"), text(1, ""), text(1, "more"), answered(1), left(1, NodeOutcome::Done)]);
    assert_eq!(reply(then_more), "spoken\n\nmore");

    // Several answers in one node, side by side with another node: each node has its own words.
    let mut two_nodes = vec![entered(0, "x"), entered(1, "y")];
    two_nodes.extend([
        text(0, "let me see"),
        draft(1, "note"),
        answered(0),
        text(0, "it "),
        answered(1),
        text(0, "is"),
    ]);
    two_nodes.extend([answered(0), left(0, NodeOutcome::Done), left(1, NodeOutcome::Done)]);
    assert_eq!(reply(two_nodes), "let me see\n\nit is");
}

#[test]
fn summaries_are_cut_between_characters() {
    let check = |result: &str, expected: &str| assert_eq!(summary(result), expected);
    check("short", "short");
    check(&"x".repeat(200), &"x".repeat(200));
    check(&"x".repeat(201), &format!("{}...", "x".repeat(200)));
    check(&format!("{}ü", "x".repeat(199)), &format!("{}...", "x".repeat(199)));
}

#[test]
fn checkpoint_ids_are_of_version_six_and_keep_the_time() {
    let at: Timestamp = "2026-11-15T12:00:00.123456700Z".parse().unwrap();
    let id = checkpoint::checkpoint_id(run(), at);
    assert_eq!(id, "1f1e0ec1-567f-6687-9a0b-1d2d3e4f5a6b");
    let digits = id.replace('-', "");
    let number = u128::from_str_radix(&digits, 16).unwrap();
    assert_eq!((number >> 76) & 0xf, 6, "version");
    assert_eq!((number >> 62) & 0b11, 0b10, "variant");
    let ticks = (number >> 80 << 12) | ((number >> 64) & 0xfff);
    let nanoseconds = (ticks as i128 - 0x01B2_1DD2_1381_4000) * 100;
    assert_eq!(nanoseconds, at.as_nanosecond());
    assert!(checkpoint::checkpoint_id(run(), "2026-11-15T12:00:01Z".parse().unwrap()) > id, "they sort by time");
}

#[test]
fn an_empty_answer_says_so_and_drafts_are_thoughts() {
    for (strategy, drafting, answer_node) in [
        (StrategyKind::React, None, "think"),
        (StrategyKind::Dup, Some("understand"), "plan"),
        (StrategyKind::Tot, Some("think_evaluate"), "answer"),
        (StrategyKind::Got, Some("execute_graph"), "aggregate"),
    ] {
        let whole =
            || Event::ModelCallEnded(ModelCallOutcome::Completed { stop: StopReason::EndOfTurn, calls: Vec::new() });
        let entered =
            |node, name: &str| Event::NodeEntered { key: NodeKey(node), name: name.into(), is_reentry: false };
        let mut events = vec![(None, briefing(strategy, None))];
        if let Some(name) = drafting {
            events.extend([
                (Some(0), entered(0, name)),
                (Some(0), Event::DraftText(TextChunks::of_single("hm"))),
                (Some(0), whole()),
            ]);
            events.push((Some(0), Event::NodeLeft(NodeOutcome::Done)));
        }
        events.extend([(Some(1), entered(1, answer_node)), (Some(1), whole())]);
        events.extend([(Some(1), Event::NodeLeft(NodeOutcome::Done))]);
        events.push((None, Event::RunEnded { outcome: RunOutcome::Completed }));
        let frames: Vec<Value> = frames_of(&records(events), 0, ClientLevel::Full)
            .iter()
            .map(|frame| serde_json::from_str(frame).unwrap())
            .collect();
        let of = |kind: &str| -> Vec<&Value> {
            frames.iter().map(|frame| &frame["event"]).filter(|event| event["type"] == kind).collect()
        };
        let reply = frames.last().unwrap()["reply"].as_str().unwrap();
        assert!(reply.contains("no text"), "{reply}");
        let [chunk] = of("message_chunk")[..] else { panic!("not one piece: {frames:#?}") };
        assert_eq!((chunk["content"].as_str().unwrap(), chunk["id"].as_str().unwrap()), (reply, answer_node));
        assert_eq!(chunk["node_id"], format!("run-{answer_node}-1"), "in the node that should have spoken");
        let thoughts: Vec<&str> = of("thought_chunk").iter().map(|event| event["id"].as_str().unwrap()).collect();
        assert_eq!(thoughts, Vec::from_iter(drafting));
    }
}
