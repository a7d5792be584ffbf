//! The event log: records are returned in order, without gaps.

use std::path::Path;
use std::sync::Arc;

use patchboard_core::conversation::ConversationOrigin;
use patchboard_core::event::{
    Envelope, Event, InputAnswer, InputKind, InputRequest, ModelCallOutcome, ModelCallUsage, NodeOutcome, RunOutcome,
    TextChunks,
};
use patchboard_core::id::{CallId, InputId, NodeId, Seq};
use patchboard_core::model::{ModelMessage, StopReason, TokenCount, ToolCall, ToolInput};
use patchboard_core::run_spec::NodeKey;
use patchboard_core::run_spec::RunSpec;
use patchboard_core::run_spec::StrategyKind;
use patchboard_core::run_spec::finding::{PlannedTask, StrategyFinding, ThoughtId};
use patchboard_core::store::{Store, StoreWrite};
use patchboard_core::tool::ToolOutput;
use uuid::Uuid;

use super::fixtures::{at, commit, commit_refused, event, expect_ok, run, session, text, topic, turn};

pub async fn events_are_replayed(store: Arc<dyn Store>) {
    let session = session("replay");
    let call =
        ToolCall { id: CallId("call-1".into()), name: "weather".into(), input: ToolInput::Malformed("{".into()) };
    let records = vec![
        event(1, 1, Event::RunStarted { session, agent: "main".into(), chat: None }),
        event(1, 2, text(&["It ", "", "is 雨", " today"])),
        event(1, 6, Event::ThoughtText(TextChunks::of_single("hm"))),
        event(1, 7, Event::ToolRequested(call.clone())),
        event(
            1,
            8,
            Event::InputRequested(InputRequest {
                input: approval(),
                kind: InputKind::Approval { call, may_have_run: true },
                expires_at: at(9),
                asked_by: Some("plugin echo".into()),
            }),
        ),
        event(1, 9, Event::InputProvided { input: approval(), answer: InputAnswer::Approved, by: "token:main".into() }),
        event(1, 10, Event::ToolFinished { call: CallId("call-1".into()), output: ToolOutput::error("no such place") }),
        event(
            1,
            11,
            Event::ModelUsage(ModelCallUsage {
                tokens: TokenCount { input: 3, output: 4 },
                provider: "anthropic".into(),
                model: "claude".into(),
                estimated: true,
            }),
        ),
        event(1, 12, Event::RunFailed { message: "provider error".into() }),
        event(1, 13, Event::RunEnded { outcome: RunOutcome::Failed }),
    ];
    commit(&*store, records.iter().cloned().map(StoreWrite::Event).collect()).await;
    commit(&*store, vec![StoreWrite::Event(event(2, 1, text(&["another topic"])))]).await;

    let read = async |from, limit| expect_ok(store.events(&topic(1), Seq(from), limit).await);
    assert_eq!(read(1, 100).await, records, "from the beginning");
    assert_eq!(read(0, 100).await, records, "from before the beginning");
    assert_eq!(read(5, 100).await, records[1..], "from the middle of a record: the whole record");
    assert_eq!(read(6, 2).await, records[2..4], "no more than asked for");
    assert_eq!(read(13, 100).await, records[9..], "the last one");
    assert_eq!(read(14, 100).await, [], "from behind the end");
    assert_eq!(read(u64::MAX, 100).await, [], "from far behind the end");
    assert_eq!(expect_ok(store.last_seq(&topic(1)).await), Seq(13));
    assert_eq!(expect_ok(store.last_seq(&topic(2)).await), Seq(1));
    assert_eq!(expect_ok(store.last_seq(&topic(3)).await), Seq(0), "a topic nobody wrote to");
    assert_eq!(expect_ok(store.events(&topic(3), Seq(1), 100).await), []);
}

/// Runs with several concurrent nodes and all events that occur in them.
pub async fn events_of_nodes_are_replayed(store: Arc<dyn Store>) {
    let call =
        |id: &str| ToolCall { id: CallId(id.into()), name: "weather".into(), input: ToolInput::Malformed("{".into()) };
    let id = || CallId("call-1".into());
    let task = |id: &str| PlannedTask { id: id.into(), description: "look outside".into() };
    let briefing = RunSpec {
        client_tools: Vec::new(),
        folder_granted: false,
        client_id: "run-1".into(),
        thread: Some("thread".into()),
        requested_agent: "got".into(),
        strategy: StrategyKind::Got,
        adaptive: true,
        detached: false,
        verbose: false,
        model: None,
        folder: Some(Arc::from(Path::new("/srv/work"))),
        origin: ConversationOrigin {
            channel: "runs".to_owned(),
            account: "alice".to_owned(),
            peer: Some("thread".to_owned()),
            guild: None,
            team: None,
        },
        message: "is it raining?".into(),
        system: "be brief".into(),
        history: vec![ModelMessage::user("hello"), ModelMessage::assistant("hi")],
    };
    let pieces = |pieces: &[&str]| pieces.iter().copied().collect::<TextChunks>();
    let entries = [
        (None, Event::RunStarted { session: session("nodes"), agent: "main".into(), chat: None }),
        (None, Event::RunBriefed(Arc::new(briefing))),
        (Some(0), Event::NodeEntered { key: NodeKey(4), name: "plan".into(), is_reentry: false }),
        (Some(0), Event::DraftText(pieces(&["first ", "雨"]))),
        (
            Some(0),
            Event::FindingRecorded(StrategyFinding::Planned { tasks: vec![task("a"), task("b")], edges: Vec::new() }),
        ),
        (Some(1), Event::NodeEntered { key: NodeKey(5), name: "task".into(), is_reentry: true }),
        (Some(1), Event::AnswerText(pieces(&["Let", " me", " see"]))),
        (
            Some(1),
            Event::ToolArguments {
                call: id(),
                name: "weather".into(),
                is_first: true,
                pieces: pieces(&["", "{", "}"]),
            },
        ),
        (
            Some(1),
            Event::ModelCallEnded(ModelCallOutcome::Completed {
                stop: StopReason::ToolCalls,
                calls: vec![call("call-1"), call("call-2")],
            }),
        ),
        (Some(0), Event::ModelCallEnded(ModelCallOutcome::Failed("connection refused".into()))),
        (Some(1), Event::ToolStarted { call: id(), name: "weather".into() }),
        (Some(1), Event::ToolProgress { call: id(), name: "weather".into(), pieces: pieces(&["10 %", "20 %"]) }),
        (Some(1), Event::ToolFinished { call: id(), output: ToolOutput::ok("rain") }),
        (
            Some(0),
            Event::FindingRecorded(StrategyFinding::Evaluated {
                of: ThoughtId::ROOT,
                first: ThoughtId(1),
                chosen: 0,
                scores: vec![0.1, 0.75],
            }),
        ),
        (Some(0), Event::NodeLeft(NodeOutcome::Failed("connection refused".into()))),
        (Some(1), Event::NodeLeft(NodeOutcome::Done)),
        (None, Event::RunEnded { outcome: RunOutcome::Completed }),
    ];
    let mut next = Seq::FIRST;
    let mut records = Vec::new();
    for (node, event) in entries {
        let record = Envelope { topic: topic(1), seq: next, at: at(1), node: node.map(NodeId), event };
        next = record.last_seq().next();
        records.push(Arc::new(record));
    }
    assert_eq!(next, Seq(25), "pieces and calls take a number each");
    commit(&*store, records.iter().cloned().map(StoreWrite::Event).collect()).await;
    assert_eq!(expect_ok(store.events(&topic(1), Seq::FIRST, 100).await), records);
    assert_eq!(expect_ok(store.last_seq(&topic(1)).await), Seq(24));
}

pub async fn events_are_numbered_without_gaps(store: Arc<dyn Store>) {
    commit(&*store, vec![StoreWrite::Event(event(1, 1, text(&["a", "b"])))]).await;
    for wrong in [1, 2, 4] {
        commit_refused(&*store, vec![StoreWrite::Event(event(1, wrong, text(&["wrong"])))]).await;
    }
    commit_refused(&*store, vec![StoreWrite::Event(event(2, 2, text(&["does not begin at 1"])))]).await;
    let gap = vec![
        StoreWrite::Event(event(1, 3, text(&["right"]))),
        StoreWrite::Event(event(1, 5, text(&["gap inside a batch"]))),
    ];
    commit_refused(&*store, gap).await;
    commit(&*store, vec![StoreWrite::Event(event(1, 3, text(&["c"]))), StoreWrite::Event(event(1, 4, text(&["d"])))])
        .await;
    let stored = expect_ok(store.events(&topic(1), Seq::FIRST, 100).await);
    assert_eq!(stored, [event(1, 1, text(&["a", "b"])), event(1, 3, text(&["c"])), event(1, 4, text(&["d"]))]);
    assert_eq!(expect_ok(store.last_seq(&topic(2)).await), Seq(0));
}

pub async fn batches_are_all_or_nothing(store: Arc<dyn Store>) {
    let session = session("atomic");
    let mut writes = vec![
        StoreWrite::Event(event(1, 1, text(&["kept or not"]))),
        StoreWrite::OpenRun(run(1, &session)),
        StoreWrite::AddTurn(turn(1, &session)),
        StoreWrite::Event(event(1, 9, text(&["does not follow"]))),
    ];
    commit_refused(&*store, writes.clone()).await;
    assert_eq!(expect_ok(store.last_seq(&topic(1)).await), Seq(0));
    assert_eq!(expect_ok(store.run(run(1, &session).run).await), None);
    assert_eq!(expect_ok(store.session(&session).await), None);
    writes.pop();
    commit(&*store, writes).await;
    assert_eq!(expect_ok(store.last_seq(&topic(1)).await), Seq(1));
    assert_eq!(expect_ok(store.session(&session).await).map(|session| session.turns), Some(1));
    assert_eq!(turn(1, &session).messages.first().map(ModelMessage::text).as_deref(), Some("question 1"));
    commit(&*store, Vec::new()).await;
}

fn approval() -> InputId {
    InputId(Uuid::from_u128(77))
}
