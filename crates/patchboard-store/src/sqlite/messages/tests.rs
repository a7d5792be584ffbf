use std::path::{Path, PathBuf};
use std::sync::Arc;

use patchboard_core::app::message::MessageEvent;
use patchboard_core::event::{Envelope, Event};
use patchboard_core::id::Seq;
use patchboard_core::store::{RetentionCutoffs, Store, StoreError, StoreWrite, WriteBatch};

use super::*;
use crate::sqlite::{SqliteOptions, SqliteStore, schema};

fn in_folder(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    (folder, path)
}

fn open_store(path: &Path) -> SqliteStore {
    SqliteStore::open(SqliteOptions::new(path)).unwrap()
}

fn row(number: u128, state: MessageState) -> MessageRow {
    let at = Timestamp::from_second(i64::try_from(number).unwrap()).unwrap();
    MessageRow { message: MessageId(Uuid::from_u128(number)), state, submitted_at: at, changed_at: at }
}

fn batch(writes: Vec<StoreWrite>) -> WriteBatch {
    WriteBatch::boundary(writes)
}

fn query(state: Option<MessageState>, limit: usize) -> MessageQuery {
    MessageQuery { state, limit, cursor: None }
}

#[tokio::test]
async fn messages_and_their_events_are_there_after_a_restart() {
    let (_folder, path) = in_folder("again.db");
    let store = open_store(&path);
    let row = row(7, MessageState::Held);
    let topic = Topic::Message(row.message);
    let app_event = |seq, app: &str| {
        let event = Event::Message(MessageEvent::Sent { app: app.into() });
        Arc::new(Envelope { topic: topic.clone(), seq: Seq(seq), at: row.submitted_at, node: None, event })
    };
    let writes = vec![
        StoreWrite::Event(app_event(1, "notes")),
        StoreWrite::Event(app_event(2, "lamps")),
        StoreWrite::Message(row),
    ];
    store.commit(batch(writes)).await.unwrap();
    store.close().await.unwrap();

    let store = open_store(&path);
    assert_eq!(store.open_messages().await.unwrap(), [row]);
    assert_eq!(store.messages(query(Some(MessageState::Held), 9)).await.unwrap().items, [row]);
    assert_eq!(store.events(&topic, Seq::FIRST, 9).await.unwrap(), [app_event(1, "notes"), app_event(2, "lamps")]);
    // The writer knows nothing yet of what is stored: it goes on where the topic ended.
    let delivered = MessageRow { state: MessageState::Delivered, ..row };
    store.commit(batch(vec![StoreWrite::Event(app_event(3, "notes")), StoreWrite::Message(delivered)])).await.unwrap();
    assert_eq!(store.last_seq(&topic).await.unwrap(), Seq(3));
    assert_eq!(store.messages(query(None, 9)).await.unwrap().items, [delivered]);
}

/// Every list is read off an index in the order wanted, so that its length does not matter.
#[test]
fn lists_are_read_off_an_index() {
    let (_folder, path) = in_folder("plan.db");
    let db = schema::open_for_writing(&path).unwrap();
    let check = |sql: &str, expected: &[&str]| {
        let mut explain = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let plan = explain.raw_query().mapped(|row| row.get::<_, String>(3)).collect::<Result<Vec<_>, _>>().unwrap();
        assert_eq!(plan, expected, "{sql}");
    };
    check(LIST, &["SEARCH messages USING INDEX messages_by_time ((submitted_at,id)<(?,?))"]);
    check(LIST_OF_STATE, &["SEARCH messages USING INDEX messages_by_state (state=? AND (submitted_at,id)<(?,?))"]);
    check(FINISHED, &["SEARCH messages USING INDEX messages_by_end (changed_at<?)"]);
    // The open ones are all wanted; only they are looked at and put in order.
    check(OPEN, &["SEARCH messages USING INDEX messages_by_state (state=?)", "USE TEMP B-TREE FOR ORDER BY"]);
}

/// Stored by every program so far, and queries tell by them what is final.
#[test]
fn codes_of_states_stay_as_they_are() {
    let codes = [0, 1, 3, 2, 4, 5, 6];
    assert_eq!(MessageState::ALL.map(state_code), codes);
    for (expected, code) in MessageState::ALL.into_iter().zip(codes) {
        assert_eq!(state(code).unwrap(), expected);
        assert_eq!(code >= 3, expected.is_final(), "{expected:?}");
    }
}

#[tokio::test]
async fn a_state_of_a_newer_program_is_not_guessed_at() {
    let (_folder, path) = in_folder("strange.db");
    let store = open_store(&path);
    store.commit(batch(vec![StoreWrite::Message(row(1, MessageState::Queued))])).await.unwrap();
    schema::open_for_writing(&path).unwrap().execute("UPDATE messages SET state = 77", []).unwrap();
    let error = store.messages(query(None, 1)).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { what: "message state", .. }), "{error:?}");
}

#[tokio::test]
async fn a_message_with_many_events_is_a_call_of_its_own() {
    let (_folder, path) = in_folder("long.db");
    let store = open_store(&path);
    for number in 1..=2 {
        let row = row(number, MessageState::Delivered);
        let event = Event::Message(MessageEvent::Sent { app: "notes".into() });
        let app_event = |seq| {
            let (topic, event) = (Topic::Message(row.message), event.clone());
            StoreWrite::Event(Arc::new(Envelope { topic, seq: Seq(seq), at: row.submitted_at, node: None, event }))
        };
        let mut writes: Vec<_> = (1..=PRUNE_EVENTS as u64).map(app_event).collect();
        writes.push(StoreWrite::Message(row));
        store.commit(batch(writes)).await.unwrap();
    }
    let before = Timestamp::from_second(100).unwrap();
    let retention = RetentionCutoffs { runs_before: before, events_before: before };
    assert!(store.prune(retention).await.unwrap());
    assert_eq!(store.messages(query(None, 9)).await.unwrap().items, [row(2, MessageState::Delivered)], "oldest first");
    assert!(!store.prune(retention).await.unwrap());
    assert_eq!(store.messages(query(None, 9)).await.unwrap().items, []);
}
