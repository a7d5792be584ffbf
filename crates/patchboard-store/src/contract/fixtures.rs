//! Sample rows, and helpers to write and read them.

use std::sync::Arc;

use jiff::Timestamp;
use patchboard_core::app::message::MessageState;
use patchboard_core::event::{Envelope, Event, RunOutcome, TextChunks, Topic};
use patchboard_core::id::{MemoryOwner, MessageId, RunId, Seq, SessionKey};
use patchboard_core::model::{ModelMessage, TokenCount};
use patchboard_core::run_spec::StrategyKind;
use patchboard_core::store::{
    BudgetScope, MessageRow, ModelCallRow, NewFact, NewTurn, PageCursor, ResultPage, RunRequests, RunRow, RunState,
    Store, StoreError, StoreWrite, UsageRow, WriteBatch,
};
use uuid::Uuid;

/// A fixed time plus `second` seconds.
pub(super) fn at(second: i64) -> Timestamp {
    expect_ok(Timestamp::from_microsecond((1_750_000_000 + second) * 1_000_000 + 123_456))
}

pub(super) fn run_id(number: u64) -> RunId {
    RunId(Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 + u128::from(number)))
}

pub(super) fn session(peer: &str) -> SessionKey {
    SessionKey::conversation("main", "web", "alice", peer)
}

pub(super) fn run(number: u64, session: &SessionKey) -> RunRow {
    RunRow {
        run: run_id(number),
        session: session.clone(),
        principal: "token:main".into(),
        client_id: format!("request-{number}").into(),
        surface: "gateway".into(),
        agent: "main".into(),
        strategy: StrategyKind::React,
        started_at: at(number.cast_signed()),
        input: "what is the weather like?".into(),
        state: RunState::Running,
        requests: RunRequests::default(),
    }
}

pub(super) fn close_run(number: u64, second: i64) -> StoreWrite {
    StoreWrite::CloseRun { run: run_id(number), outcome: RunOutcome::Completed, at: at(second) }
}

pub(super) fn ended(row: RunRow) -> RunRow {
    RunRow { state: RunState::Ended(RunOutcome::Completed), ..row }
}

pub(super) fn event(number: u64, seq: u64, event: Event) -> Arc<Envelope> {
    Arc::new(Envelope { topic: topic(number), seq: Seq(seq), at: at(1), node: None, event })
}

pub(super) fn topic(number: u64) -> Topic {
    Topic::Run(run_id(number))
}

pub(super) fn text(pieces: &[&str]) -> Event {
    Event::AnswerText(pieces.iter().copied().collect::<TextChunks>())
}

pub(super) fn turn(number: u64, session: &SessionKey) -> NewTurn {
    NewTurn {
        session: session.clone(),
        run: run_id(number),
        at: at(number.cast_signed()),
        messages: vec![ModelMessage::user(format!("question {number}")), ModelMessage::assistant("sunny")],
    }
}

pub(super) fn model_call(number: u64, call: u32, session: &SessionKey) -> ModelCallRow {
    ModelCallRow {
        run: run_id(number),
        number: call,
        session: session.clone(),
        agent: "main".into(),
        provider: "anthropic".into(),
        model: "claude".into(),
        estimated_input: 12,
        reserved: 512,
        first_seq: Seq(2),
        node: None,
        key: None,
        at: at(2),
    }
}

pub(super) fn settlement(call: &ModelCallRow, tokens: TokenCount, scopes: Vec<BudgetScope>) -> UsageRow {
    UsageRow {
        run: call.run,
        number: call.number,
        at: call.at,
        session: call.session.clone(),
        agent: call.agent.clone(),
        provider: call.provider.clone(),
        model: call.model.clone(),
        tokens,
        cost_nanousd: tokens.total() * 10,
        estimated: false,
        scopes,
    }
}

/// The same bytes as the id of the run with that number.
pub(super) fn message_id(number: u64) -> MessageId {
    MessageId(run_id(number).0)
}

pub(super) fn message(number: u64, state: MessageState, second: i64) -> MessageRow {
    MessageRow { message: message_id(number), state, submitted_at: at(second), changed_at: at(second) }
}

pub(super) fn owner(account: &str) -> MemoryOwner {
    MemoryOwner::account("web", account)
}

pub(super) fn fact(owner: &MemoryOwner, predicate: &str, object: &str) -> NewFact {
    NewFact {
        owner: owner.clone(),
        subject: "user".to_owned(),
        predicate: predicate.to_owned(),
        object: object.to_owned(),
        confidence: 0.75,
        session: session("facts"),
        run: None,
        learned_at: at(7),
        embedding: None,
    }
}

pub(super) async fn commit(store: &dyn Store, writes: Vec<StoreWrite>) {
    expect_ok(store.commit(WriteBatch::boundary(writes)).await);
}

/// The batch must be refused because of its content.
pub(super) async fn commit_refused(store: &dyn Store, writes: Vec<StoreWrite>) {
    let answer = store.commit(WriteBatch::boundary(writes)).await;
    assert!(matches!(answer, Err(StoreError::Failed { .. })), "the batch should have been refused: {answer:?}");
}

/// Reads all pages of a list, calling `between` after each page.
pub(super) async fn all_pages<T>(
    mut page: impl AsyncFnMut(Option<PageCursor>) -> Result<ResultPage<T>, StoreError>,
    mut between: impl AsyncFnMut(),
) -> Vec<Vec<T>> {
    let mut pages = Vec::new();
    let mut cursor = None;
    loop {
        let found = expect_ok(page(cursor).await);
        pages.push(found.items);
        cursor = found.next;
        if cursor.is_none() {
            return pages;
        }
        assert!(pages.len() < 100, "the list does not end");
        between().await;
    }
}

#[expect(clippy::panic, reason = "the contract is a test suite: an unexpected error is a failed test")]
pub(super) fn expect_ok<T, E: std::fmt::Debug>(answer: Result<T, E>) -> T {
    match answer {
        Ok(value) => value,
        Err(error) => panic!("unexpected error: {error:?}"),
    }
}

/// The title of a session whose first run is that of `run`.
pub(super) fn title() -> Option<Arc<str>> {
    Some("what is the weather like?".into())
}
