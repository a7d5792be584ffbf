//! Messages: listed by age and state, stored together with their events, and pruned by age.

use std::sync::Arc;

use patchboard_core::app::message::{
    AppNotice, AppResponse, AttemptFailure, FinalState, MessageEvent, MessageState, ParkedState, RoutingDecision,
    RoutingStage, ScoredApp, Utterance,
};
use patchboard_core::app::{InputMethod, NoticePriority};
use patchboard_core::event::{Envelope, Event, RunOutcome, Topic};
use patchboard_core::id::Seq;
use patchboard_core::store::{
    MessageQuery, MessageRow, PageCursor, ResultPage, RetentionCutoffs, Store, StoreError, StoreWrite,
};

use super::fixtures::{
    all_pages, at, close_run, commit, commit_refused, event, expect_ok, message, message_id, run, run_id, session,
    text, topic,
};

pub async fn messages_are_listed(store: Arc<dyn Store>) {
    assert_eq!(list_all(&*store, None).await, []);
    let newest_first = [
        message(5, MessageState::Queued, 30),
        // Submitted at the same time: the higher id is newer, whatever the write order.
        message(9, MessageState::Sent, 20),
        message(4, MessageState::Queued, 20),
        message(1, MessageState::Held, 20),
        message(7, MessageState::Delivered, 10),
        message(6, MessageState::Refused, 9),
        message(3, MessageState::Expired, 8),
        message(2, MessageState::Cancelled, -1),
    ];
    for row in [3, 0, 1, 7, 2, 6, 4, 5].map(|index: usize| newest_first[index]) {
        commit(&*store, vec![StoreWrite::Message(row)]).await;
    }
    assert_eq!(list_all(&*store, None).await, newest_first);
    for state in MessageState::ALL {
        let of_state: Vec<_> = newest_first.into_iter().filter(|row| row.state == state).collect();
        assert_eq!(list_all(&*store, Some(state)).await, of_state, "{state:?}");
    }

    // A later row changes `state` and `changed_at` only.
    let changed = MessageRow { state: MessageState::Held, changed_at: at(40), ..newest_first[0] };
    let twice = vec![
        StoreWrite::Message(MessageRow { state: MessageState::Sent, changed_at: at(39), ..changed }),
        StoreWrite::Message(MessageRow { submitted_at: at(-50), ..changed }),
    ];
    commit(&*store, twice).await;
    assert_eq!(list_all(&*store, Some(MessageState::Held)).await, [changed, newest_first[3]]);
    assert_eq!(list_all(&*store, Some(MessageState::Queued)).await, [newest_first[2]]);
    assert_eq!(list_all(&*store, Some(MessageState::Sent)).await, [newest_first[1]]);

    // Paging must neither miss nor repeat existing messages, whatever is added or changed in between.
    let mut number = 100;
    let pages = all_pages(
        async |cursor| list(&*store, None, 3, cursor).await,
        async || {
            number += 1;
            let seen_already = MessageRow { state: MessageState::Delivered, changed_at: at(50), ..changed };
            let arrived = message(number, MessageState::Queued, 60);
            commit(&*store, vec![StoreWrite::Message(seen_already), StoreWrite::Message(arrived)]).await;
        },
    )
    .await;
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 2]);
    let mut expected = newest_first.to_vec();
    expected[0] = changed;
    assert_eq!(pages.concat(), expected);
    assert_eq!(list_all(&*store, Some(MessageState::Delivered)).await.len(), 2);

    // A cursor is valid for every state.
    let first = expect_ok(list(&*store, None, 5, None).await);
    let older = expect_ok(list(&*store, Some(MessageState::Refused), 5, first.next).await);
    assert_eq!(older, ResultPage { items: vec![newest_first[5]], next: None });
}

pub async fn open_messages_are_listed(store: Arc<dyn Store>) {
    assert_eq!(expect_ok(store.open_messages().await), []);
    let rows = [
        message(3, MessageState::Held, 10),
        message(1, MessageState::Delivered, 15),
        message(2, MessageState::Queued, 20),
        message(4, MessageState::Sent, 20),
        message(5, MessageState::Cancelled, 25),
        message(6, MessageState::Refused, 30),
        message(7, MessageState::Expired, 35),
        message(8, MessageState::Queued, 40),
    ];
    for row in rows.iter().rev() {
        commit(&*store, vec![StoreWrite::Message(*row)]).await;
    }
    assert_eq!(expect_ok(store.open_messages().await), [rows[0], rows[2], rows[3], rows[7]], "oldest first");
    let delivered = MessageRow { state: MessageState::Delivered, changed_at: at(50), ..rows[3] };
    let reopened = MessageRow { state: MessageState::Queued, changed_at: at(51), ..rows[5] };
    commit(&*store, vec![StoreWrite::Message(delivered), StoreWrite::Message(reopened)]).await;
    assert_eq!(expect_ok(store.open_messages().await), [rows[0], rows[2], reopened, rows[7]]);
}

pub async fn events_of_messages_are_stored_with_them(store: Arc<dyn Store>) {
    let topic = Topic::Message(message_id(1));
    let records: Vec<_> = (1..).zip(all_message_events()).map(|(seq, event)| message_record(1, seq, event)).collect();
    let mut writes: Vec<_> = records.iter().cloned().map(StoreWrite::Event).collect();
    writes.push(StoreWrite::Message(message(1, MessageState::Queued, 1)));
    let mut refused = writes.clone();
    refused.push(StoreWrite::Event(message_record(1, 99, sent("does not follow"))));
    commit_refused(&*store, refused).await;
    assert_eq!(list_all(&*store, None).await, [], "neither the row");
    assert_eq!(expect_ok(store.last_seq(&topic).await), Seq(0), "nor its events");

    commit(&*store, writes).await;
    assert_eq!(list_all(&*store, None).await, [message(1, MessageState::Queued, 1)]);
    assert_eq!(expect_ok(store.events(&topic, Seq::FIRST, 100).await), records);
    assert_eq!(expect_ok(store.events(&topic, Seq(3), 2).await), records[2..4]);
    assert_eq!(expect_ok(store.last_seq(&topic).await), Seq(records.len() as u64));
    commit_refused(&*store, vec![StoreWrite::Event(message_record(1, 1, sent("repeats")))]).await;
    // The row may be written first, and row and events separately.
    commit(
        &*store,
        vec![
            StoreWrite::Message(message(2, MessageState::Sent, 2)),
            StoreWrite::Event(message_record(2, 1, sent("a"))),
        ],
    )
    .await;
    commit(&*store, vec![StoreWrite::Event(message_record(2, 2, sent("b")))]).await;
    assert_eq!(expect_ok(store.last_seq(&Topic::Message(message_id(2))).await), Seq(2));
    assert_eq!(expect_ok(store.last_seq(&topic).await), Seq(records.len() as u64));
}

/// Ids of messages and runs do not collide in practice, but clients may request any id.
pub async fn messages_and_runs_share_no_topic(store: Arc<dyn Store>) {
    let (key, of_message) = (session("both"), Topic::Message(message_id(1)));
    commit(
        &*store,
        vec![
            StoreWrite::Event(message_record(1, 1, sent("a"))),
            StoreWrite::Message(message(1, MessageState::Sent, 1)),
        ],
    )
    .await;
    assert_eq!(expect_ok(store.run(run_id(1)).await), None, "a message is no run");
    assert_eq!(expect_ok(store.events(&topic(1), Seq::FIRST, 10).await), [], "nor are its events a run's");
    assert_eq!(expect_ok(store.last_seq(&topic(1)).await), Seq(0));

    commit(&*store, vec![StoreWrite::OpenRun(run(1, &key)), StoreWrite::Event(event(1, 1, text(&["one", "two"])))])
        .await;
    commit(&*store, vec![StoreWrite::Event(message_record(1, 2, sent("b")))]).await;
    assert_eq!(expect_ok(store.events(&topic(1), Seq::FIRST, 10).await), [event(1, 1, text(&["one", "two"]))]);
    assert_eq!(
        expect_ok(store.events(&of_message, Seq::FIRST, 10).await),
        [message_record(1, 1, sent("a")), message_record(1, 2, sent("b"))]
    );

    // Each is deleted without the other.
    commit(&*store, vec![StoreWrite::CloseRun { run: run_id(1), outcome: RunOutcome::Completed, at: at(5) }]).await;
    assert!(!expect_ok(store.prune(before(10)).await));
    assert_eq!(expect_ok(store.run(run_id(1)).await), None);
    assert_eq!(expect_ok(store.last_seq(&of_message).await), Seq(2));
    commit(&*store, vec![StoreWrite::OpenRun(run(1, &key)), StoreWrite::Event(event(1, 1, text(&["again"])))]).await;
    commit(&*store, vec![StoreWrite::Message(message(1, MessageState::Delivered, 6))]).await;
    assert!(!expect_ok(store.prune(before(10)).await));
    assert_eq!(list_all(&*store, None).await, []);
    assert_eq!(expect_ok(store.last_seq(&of_message).await), Seq(0));
    assert_eq!(expect_ok(store.run(run_id(1)).await), Some(run(1, &key)));
    assert_eq!(expect_ok(store.last_seq(&topic(1)).await), Seq(1));
}

pub async fn final_messages_are_pruned(store: Arc<dyn Store>) {
    for (number, state) in (1..).zip(MessageState::ALL) {
        let row = MessageRow { changed_at: at(20), ..message(number, state, 1) };
        commit(&*store, vec![StoreWrite::Event(message_record(number, 1, sent("a"))), StoreWrite::Message(row)]).await;
    }
    assert!(!expect_ok(store.prune(RetentionCutoffs { runs_before: at(20), events_before: at(100) }).await));
    assert_eq!(list_all(&*store, None).await.len(), 7, "changed at that very moment, however old; events stay too");
    assert_eq!(expect_ok(store.last_seq(&Topic::Message(message_id(3))).await), Seq(1));
    assert!(!expect_ok(store.prune(before(21)).await));
    for (number, state) in (1..).zip(MessageState::ALL) {
        let events = expect_ok(store.last_seq(&Topic::Message(message_id(number))).await);
        assert_eq!(events, if state.is_final() { Seq(0) } else { Seq(1) }, "{state:?}");
    }
    let remaining = list_all(&*store, None).await;
    assert_eq!(remaining.len(), 3, "{remaining:?}");
    assert!(remaining.iter().all(|row| !row.state.is_final()), "{remaining:?}");

    // A final message that is open again is kept.
    let final_row = message(50, MessageState::Refused, 20);
    commit(&*store, vec![StoreWrite::Message(final_row)]).await;
    commit(&*store, vec![StoreWrite::Message(MessageRow { state: MessageState::Queued, ..final_row })]).await;
    assert!(!expect_ok(store.prune(before(100)).await));
    assert_eq!(list_all(&*store, None).await.len(), 4);

    // More than one `prune` call handles, and runs.
    for number in 100..1000 {
        let ended = StoreWrite::Message(message(number, MessageState::Delivered, 30));
        commit(&*store, vec![StoreWrite::Event(message_record(number, 1, sent("a"))), ended]).await;
    }
    commit(&*store, vec![StoreWrite::OpenRun(run(1, &session("beside"))), close_run(1, 30)]).await;
    let mut calls = 1;
    while expect_ok(store.prune(before(31)).await) {
        calls += 1;
        assert!(calls < 100, "pruning does not end");
    }
    assert!(calls > 1, "one call does a bounded amount of work");
    assert_eq!(list_all(&*store, None).await.len(), 4);
    assert_eq!(expect_ok(store.run(run_id(1)).await), None);
    // A pruned message can be written again without conflicts.
    let again = message(999, MessageState::Queued, 40);
    commit(&*store, vec![StoreWrite::Event(message_record(999, 1, sent("again"))), StoreWrite::Message(again)]).await;
    assert_eq!(expect_ok(store.messages(query(None, 1, None)).await).items, [again]);
}

fn before(second: i64) -> RetentionCutoffs {
    RetentionCutoffs { runs_before: at(second), events_before: at(second) }
}

fn query(state: Option<MessageState>, limit: usize, cursor: Option<PageCursor>) -> MessageQuery {
    MessageQuery { state, limit, cursor }
}

async fn list(
    store: &dyn Store,
    state: Option<MessageState>,
    limit: usize,
    cursor: Option<PageCursor>,
) -> Result<ResultPage<MessageRow>, StoreError> {
    store.messages(query(state, limit, cursor)).await
}

async fn list_all(store: &dyn Store, state: Option<MessageState>) -> Vec<MessageRow> {
    let page = expect_ok(list(store, state, 1000, None).await);
    assert_eq!(page.next, None);
    page.items
}

fn message_record(number: u64, seq: u64, event: MessageEvent) -> Arc<Envelope> {
    let topic = Topic::Message(message_id(number));
    Arc::new(Envelope { topic, seq: Seq(seq), at: at(1), node: None, event: Event::Message(event) })
}

fn sent(app: &str) -> MessageEvent {
    MessageEvent::Sent { app: app.into() }
}

fn all_message_events() -> Vec<MessageEvent> {
    let notice = AppNotice {
        title: "notes".into(),
        body: "Which list? 雨".into(),
        priority: NoticePriority::High,
        expects_reply: true,
    };
    let answered = |response| MessageEvent::Answered { app: "notes".into(), response };
    vec![
        MessageEvent::Submitted(Arc::new(Utterance {
            text: "buy milk\n\"now\"".into(),
            input: InputMethod::Voice,
            confidence: Some(0.9),
            only_app: None,
            principal: "token:main".into(),
            surface: "hub".into(),
            expires_at: at(86_400),
        })),
        MessageEvent::Decided(Arc::new(RoutingDecision {
            stage: RoutingStage::Matcher,
            apps: vec!["notes".into()],
            text: None,
            reason: "fits its description".into(),
            candidates: vec![ScoredApp {
                app: "notes".into(),
                score: 2.5,
                confidence: 0.8,
                reasons: vec!["milk".into()],
            }],
        })),
        sent("notes"),
        answered(AppResponse::Notice(notice)),
        answered(AppResponse::Ack),
        answered(AppResponse::Reject { reason: Some("no room".into()) }),
        MessageEvent::Failed { app: "notes".into(), failure: AttemptFailure::Timeout },
        MessageEvent::Parked { state: ParkedState::Held, reason: "nobody fits".into() },
        MessageEvent::Ended { final_state: FinalState::Expired, reason: "its time is over".into() },
        MessageEvent::Reopened { app: None, by: "token:main".into() },
    ]
}
