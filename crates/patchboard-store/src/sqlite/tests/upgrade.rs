//! Databases of older programs open, with everything in them.

use std::sync::Arc;

use jiff::Timestamp;
use patchboard_core::app::message::{MessageEvent, MessageState};
use patchboard_core::event::{Envelope, Event, NodeOutcome, TextChunks, Topic};
use patchboard_core::id::{MemoryOwner, MessageId, NodeId, RunId, Seq, SessionKey};
use patchboard_core::model::ModelMessage;
use patchboard_core::store::{
    DeliveryRow, FactQuery, KvNamespace, KvUsage, MessageQuery, MessageRow, ModelCallRow, RunRow, RunState, Store,
    StoreWrite, TurnQuery, UnfinishedRun,
};
use patchboard_core::webhook::{DeliveryId, DeliveryState};
use uuid::Uuid;

use super::{batch, in_folder, inspect, open, raw};

/// What a program of schema 1 wrote, in the words of its own schema.
const DATA_OF_1: &str = r#"
    INSERT INTO names (number, name) VALUES
        (1, 'main:web:alice:1'), (2, 'token:main'), (3, 'gateway'), (4, 'main'), (5, 'anthropic'), (6, 'claude'),
        (7, 'web:alice');
    INSERT INTO topics (number, id) VALUES (1, x'00000000000000000000000000000001');
    INSERT INTO runs (number, session, principal, surface, started_at, client_id, input)
        VALUES (1, 1, 2, 3, 1000000, 'request-1', 'hello');
    INSERT INTO sessions (number, created_at, used_at, channel, account) VALUES (1, 1000000, 1000000, 'web', 'alice');
    INSERT INTO events (position, width, at, version, payload) VALUES
        ((1 << 26) | 1, 1, 1000000, 1,
            CAST('{"kind":"run_started","session":"main:web:alice:1","agent":"main"}' AS BLOB)),
        ((1 << 26) | 3, 2, 1000000, 1, CAST('{"kind":"text","text":"Hello","ends":[3,5]}' AS BLOB));
    INSERT INTO open_calls (run, call, session, agent, provider, model, estimated_input, reserved, first_seq, at)
        VALUES (1, 1, 1, 4, 5, 6, 12, 512, 2, 2000000);
    INSERT INTO turns (position, run, at, version, payload) VALUES
        ((1 << 30) | 1, x'00000000000000000000000000000001', 3000000, 1,
            CAST('[{"role":"user","parts":[{"kind":"text","text":"hello"}]}]' AS BLOB));
    INSERT INTO facts (number, owner, session, learned_at, confidence, subject, predicate, object)
        VALUES (1, 7, 1, 1000000, 0.5, 'user', 'likes', 'tea');
    PRAGMA application_id = 0x50427264;
    PRAGMA user_version = 1;
"#;

#[tokio::test]
async fn a_database_of_schema_1_is_brought_up_to_date_with_its_data() {
    let (_folder, path) = in_folder("old.db");
    let db = raw(&path);
    db.execute_batch(include_str!("../migrations/0001_initial.sql")).unwrap();
    db.execute_batch(DATA_OF_1).unwrap();
    db.close().unwrap();
    assert_eq!(inspect(&path).unwrap().schema_version, 1);

    let store = open(&path).unwrap();
    assert_eq!(inspect(&path).unwrap().schema_version, 5);
    let session = SessionKey::conversation("main", "web", "alice", "1");
    let run = RunId(Uuid::from_u128(1));
    let at = |second| Timestamp::from_second(second).unwrap();
    let old_call = ModelCallRow {
        run,
        number: 1,
        session: session.clone(),
        agent: "main".into(),
        provider: "anthropic".into(),
        model: "claude".into(),
        estimated_input: 12,
        reserved: 512,
        first_seq: Seq(2),
        node: None,
        at: at(2),
    };
    let row = RunRow {
        run,
        session: session.clone(),
        principal: "token:main".into(),
        client_id: "request-1".into(),
        surface: "gateway".into(),
        started_at: at(1),
        input: "hello".into(),
        state: RunState::Running,
    };
    let unfinished = UnfinishedRun { run: row.clone(), open_calls: vec![old_call.clone()] };
    assert_eq!(store.unfinished_runs().await.unwrap(), [unfinished]);

    let topic = Topic::Run(run);
    let record = |seq, node, event| Envelope { topic: topic.clone(), seq: Seq(seq), at: at(1), node, event }.into();
    let mut records = vec![
        record(1, None, Event::RunStarted { session: session.clone(), agent: "main".into() }),
        record(2, None, Event::AnswerText(["Hel", "lo"].into_iter().collect())),
    ];
    assert_eq!(store.events(&topic, Seq::FIRST, 10).await.unwrap(), records);
    let turns = TurnQuery { session: session.clone(), limit: 10, before: None };
    let turns = store.turns(turns).await.unwrap().items;
    assert_eq!(turns.into_iter().flat_map(|turn| turn.messages).collect::<Vec<_>>(), [ModelMessage::user("hello")]);
    let facts = FactQuery {
        owner: MemoryOwner::account("web", "alice"),
        text: String::new(),
        embedding: None,
        limit: 10,
        fill_with_recent: true,
        cursor: None,
    };
    let facts = store.facts(facts).await.unwrap().items;
    assert_eq!(facts.iter().map(|fact| fact.object.as_str()).collect::<Vec<_>>(), ["tea"]);

    // And what is new can be written beside it.
    let space = KvNamespace::Session(session);
    assert_eq!(store.kv_get(&space, "todos").await.unwrap(), None);
    let new_call = ModelCallRow { number: 2, node: Some(NodeId(3)), ..old_call.clone() };
    records.push(record(4, Some(NodeId(3)), Event::DraftText(TextChunks::of_single("a plan"))));
    let writes = vec![
        StoreWrite::Event(records[2].clone()),
        StoreWrite::OpenModelCall(new_call.clone()),
        StoreWrite::PutValue { namespace: space.clone(), key: "todos".into(), value: Some(b"[]".to_vec()), at: at(4) },
    ];
    store.commit(batch(writes)).await.unwrap();
    store.close().await.unwrap();
    let store = open(&path).unwrap();
    assert_eq!(store.events(&topic, Seq::FIRST, 10).await.unwrap(), records);
    let unfinished = UnfinishedRun { run: row, open_calls: vec![old_call, new_call] };
    assert_eq!(store.unfinished_runs().await.unwrap(), [unfinished]);
    assert_eq!(store.kv_get(&space, "todos").await.unwrap(), Some(b"[]".to_vec()));
}

/// What a program of schema 2 wrote beside that.
const DATA_OF_2: &str = r#"
    UPDATE open_calls SET node = 3;
    INSERT INTO events (position, width, at, version, payload) VALUES
        ((1 << 26) | 4, 1, 1000000, 2, CAST('{"node":3,"event":{"v2":{"node_left":"done"}}}' AS BLOB));
    INSERT INTO kept (space, key, at, value) VALUES ('session/main:web:alice:1', 'todos', 1000000, x'5b5d');
    PRAGMA user_version = 2;
"#;

#[tokio::test]
async fn a_database_of_schema_2_is_brought_up_to_date_with_its_data() {
    let (_folder, path) = in_folder("old.db");
    let db = raw(&path);
    db.execute_batch(include_str!("../migrations/0001_initial.sql")).unwrap();
    db.execute_batch(DATA_OF_1).unwrap();
    db.execute_batch(include_str!("../migrations/0002_nodes_and_kept.sql")).unwrap();
    db.execute_batch(DATA_OF_2).unwrap();
    db.close().unwrap();
    assert_eq!(inspect(&path).unwrap().schema_version, 2);

    let store = open(&path).unwrap();
    assert_eq!(inspect(&path).unwrap().schema_version, 5);
    let key = SessionKey::conversation("main", "web", "alice", "1");
    assert_eq!(store.session(&key).await.unwrap().unwrap().owner.as_deref(), Some("token:main"));
    let run = RunId(Uuid::from_u128(1));
    let unfinished = store.unfinished_runs().await.unwrap();
    let calls = unfinished.iter().flat_map(|run| &run.open_calls).map(|call| (call.run, call.number, call.node));
    assert_eq!(calls.collect::<Vec<_>>(), [(run, 1, Some(NodeId(3)))]);
    let records = store.events(&Topic::Run(run), Seq(4), 10).await.unwrap();
    let last = records.iter().map(|record| (record.seq, record.node, &record.event)).collect::<Vec<_>>();
    assert_eq!(last, [(Seq(4), Some(NodeId(3)), &Event::NodeLeft(NodeOutcome::Done))]);
    let space = KvNamespace::Session(SessionKey::conversation("main", "web", "alice", "1"));
    assert_eq!(store.kv_get(&space, "todos").await.unwrap(), Some(b"[]".to_vec()));

    // And what is new can be written beside it, even under the id of the run.
    assert_eq!(store.open_messages().await.unwrap(), []);
    let at = Timestamp::from_second(5).unwrap();
    let message = MessageId(run.0);
    let topic = Topic::Message(message);
    let event = Event::Message(MessageEvent::Sent { app: "notes".into() });
    let record = Envelope { topic: topic.clone(), seq: Seq::FIRST, at, node: None, event }.into();
    let row = MessageRow { message, state: MessageState::Sent, submitted_at: at, changed_at: at };
    store.commit(batch(vec![StoreWrite::Event(Arc::clone(&record)), StoreWrite::Message(row)])).await.unwrap();
    store.close().await.unwrap();
    let store = open(&path).unwrap();
    let all = MessageQuery { state: None, limit: 10, cursor: None };
    assert_eq!(store.messages(all).await.unwrap().items, [row]);
    assert_eq!(store.events(&topic, Seq::FIRST, 10).await.unwrap(), [record]);
    assert_eq!(store.last_seq(&Topic::Run(run)).await.unwrap(), Seq(4));
}

/// What a program of schema 3 wrote beside that.
const DATA_OF_3: &str = r#"
    INSERT INTO topics (number, id) VALUES (2, x'000000000000000000000000000000026d');
    INSERT INTO messages (number, id, state, submitted_at, changed_at)
        VALUES (2, x'00000000000000000000000000000002', 2, 4000000, 5000000);
    INSERT INTO kept (space, key, at, value) VALUES ('server', 'mcp/pins/files', 1000000, x'7b7d');
    PRAGMA user_version = 3;
"#;

#[tokio::test]
async fn a_database_of_schema_3_is_brought_up_to_date_with_its_data() {
    let (_folder, path) = in_folder("old.db");
    let db = raw(&path);
    db.execute_batch(include_str!("../migrations/0001_initial.sql")).unwrap();
    db.execute_batch(DATA_OF_1).unwrap();
    db.execute_batch(include_str!("../migrations/0002_nodes_and_kept.sql")).unwrap();
    db.execute_batch(DATA_OF_2).unwrap();
    db.execute_batch(include_str!("../migrations/0003_messages.sql")).unwrap();
    db.execute_batch(DATA_OF_3).unwrap();
    db.close().unwrap();
    assert_eq!(inspect(&path).unwrap().schema_version, 3);

    let store = open(&path).unwrap();
    assert_eq!(inspect(&path).unwrap().schema_version, 5);
    let at = |second| Timestamp::from_second(second).unwrap();
    let message = MessageId(Uuid::from_u128(2));
    let held = MessageRow { message, state: MessageState::Held, submitted_at: at(4), changed_at: at(5) };
    assert_eq!(store.open_messages().await.unwrap(), [held]);
    assert_eq!(store.last_seq(&Topic::Run(RunId(Uuid::from_u128(1)))).await.unwrap(), Seq(4));
    assert_eq!(store.kv_get(&KvNamespace::Server, "mcp/pins/files").await.unwrap(), Some(b"{}".to_vec()));
    let keys = store.kv_keys(&KvNamespace::Server, "mcp/", None, 10).await.unwrap();
    assert_eq!(keys, ["mcp/pins/files".into()]);

    // And what is new can be written beside it.
    assert_eq!(store.open_deliveries().await.unwrap(), []);
    let delivery = DeliveryRow {
        id: DeliveryId(Uuid::from_u128(1)),
        channel: "telegram".into(),
        key: "7".into(),
        state: DeliveryState::Received,
        received_at: at(6),
        changed_at: at(6),
        body: b"hello".to_vec(),
    };
    let space = KvNamespace::Plugins("notes".into());
    let writes = vec![
        StoreWrite::Delivery(delivery.clone()),
        StoreWrite::PutValue { namespace: space.clone(), key: "milk".into(), value: Some(b"buy".to_vec()), at: at(6) },
    ];
    store.commit(batch(writes)).await.unwrap();
    store.close().await.unwrap();
    let store = open(&path).unwrap();
    assert_eq!(store.open_deliveries().await.unwrap(), std::slice::from_ref(&delivery));
    assert_eq!(store.delivery("telegram", "7").await.unwrap(), Some(delivery));
    assert_eq!(store.kv_usage(&space).await.unwrap(), KvUsage { keys: 1, bytes: 7 });
}
