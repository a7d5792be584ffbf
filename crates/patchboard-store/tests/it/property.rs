//! Whatever is written in whatever order, the log has no gaps and owners never meet.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use patchboard_core::app::message::MessageState;
use patchboard_core::event::fold::fold;
use patchboard_core::event::{Envelope, Event, ModelCallOutcome, RunOutcome, TextChunks, Topic};
use patchboard_core::id::{CallId, MemoryOwner, MessageId, NodeId, RunId, Seq, SessionKey};
use patchboard_core::in_memory::InMemoryStore;
use patchboard_core::run_spec::StrategyKind;
use patchboard_core::store::{
    Durability, FactQuery, MessageQuery, MessageRow, NewFact, RetentionCutoffs, RunRow, RunState, Store, StoreWrite,
    WriteBatch,
};
use patchboard_store::{SqliteOptions, SqliteStore};
use proptest::collection::vec;
use proptest::prelude::*;
use uuid::Uuid;

/// A batch to write: its records' topics and widths, and by how much the last one misses its number.
#[derive(Debug, Clone)]
struct Attempt {
    records: Vec<(u8, u8)>,
    off_by: i64,
    durability: Durability,
}

fn attempts() -> impl Strategy<Value = Vec<Attempt>> {
    let durability = prop_oneof![Just(Durability::Delta), Just(Durability::Boundary)];
    let off_by = prop_oneof![8 => Just(0), 1 => Just(1), 1 => Just(-1)];
    let attempt = (vec((0..3_u8, 1..5_u8), 1..4), off_by, durability)
        .prop_map(|(records, off_by, durability)| Attempt { records, off_by, durability });
    vec(attempt, 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn logs_have_no_gaps(attempts in attempts(), reads in vec((0..3_u8, 0..80_u64, 0..12_usize), 20)) {
        for store in stores() {
            block_on(check_log(&*store.1, &attempts, &reads));
        }
    }

    #[test]
    fn folded_logs_are_read_alike(
        records in vec((0..4_u8, 0..4_usize, 0..2_u32, any::<bool>()), 1..60),
        cuts in vec(0..60_usize, 0..4),
        reads in vec((0..200_u64, 1..80_usize), 20),
    ) {
        for store in stores() {
            block_on(check_folding(&*store.1, &records, &cuts, &reads));
        }
    }

    #[test]
    fn messages_are_where_they_should_be(
        steps in vec((0..12_u8, 0..7_usize, 0..3_i64, 0..6_i64), 1..40),
        limit in 1..6_usize,
        prune_before in proptest::option::of(0..7_i64),
    ) {
        for store in stores() {
            block_on(check_messages(&*store.1, &steps, limit, prune_before));
        }
    }

    #[test]
    fn owners_never_meet(
        facts in vec(("[ab:%1x]{0,3}", "\\PC{0,12}", "\\PC{0,24}"), 1..20),
        queries in vec("\\PC{0,40}", 1..8),
    ) {
        for store in stores() {
            block_on(check_owners(&*store.1, &facts, &queries));
        }
    }
}

/// Each implementation, empty, with the folder it lives in.
fn stores() -> [(Option<tempfile::TempDir>, Arc<dyn Store>); 2] {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = SqliteStore::open(SqliteOptions::new(folder.path().join("property.db"))).unwrap();
    [(Some(folder), Arc::new(sqlite)), (None, Arc::new(InMemoryStore::new()))]
}

fn block_on(check: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(check);
}

async fn check_log(store: &dyn Store, attempts: &[Attempt], reads: &[(u8, u64, usize)]) {
    let mut model: HashMap<u8, Vec<Arc<Envelope>>> = HashMap::new();
    let next = |model: &HashMap<u8, Vec<Arc<Envelope>>>, topic| {
        model.get(&topic).and_then(|records| records.last()).map_or(Seq::FIRST, |record| record.last_seq().next())
    };
    // All are asked for before any is answered, so that good and bad ones meet in one transaction.
    let mut answers = Vec::new();
    for attempt in attempts {
        let mut after = model.clone();
        let mut writes = Vec::new();
        for (index, &(topic, width)) in attempt.records.iter().enumerate() {
            let off_by = if index + 1 == attempt.records.len() { attempt.off_by } else { 0 };
            let seq = Seq(next(&after, topic).0.saturating_add_signed(off_by));
            let record = Arc::new(record(topic, seq, width));
            after.entry(topic).or_default().push(record.clone());
            writes.push(StoreWrite::Event(record));
        }
        answers.push((attempt.off_by == 0, store.commit(WriteBatch::new(attempt.durability, writes))));
        if attempt.off_by == 0 {
            model = after;
        }
    }
    for (good, answer) in answers {
        assert_eq!(answer.await.is_ok(), good);
    }
    for topic in 0..3 {
        let records = model.get(&topic).cloned().unwrap_or_default();
        let stored = store.events(&topic_id(topic), Seq::FIRST, 1000).await.unwrap();
        assert_eq!(stored, records);
        let mut expected = Seq::FIRST;
        for record in &stored {
            assert_eq!(record.seq, expected, "gapless");
            expected = record.last_seq().next();
        }
        assert_eq!(store.last_seq(&topic_id(topic)).await.unwrap().next(), expected);
    }
    for &(topic, from, limit) in reads {
        let records = model.get(&topic).cloned().unwrap_or_default();
        let wanted = records.into_iter().filter(|record| record.last_seq() >= Seq(from)).take(limit);
        let stored = store.events(&topic_id(topic), Seq(from), limit).await.unwrap();
        assert_eq!(stored, wanted.collect::<Vec<_>>(), "topic {topic} from {from}, at most {limit}");
    }
}

/// Records are (kind, pieces, node, whether a call begins). What is read of a log does not change when it is folded, also
/// if some of its runs end only later.
async fn check_folding(store: &dyn Store, records: &[(u8, usize, u32, bool)], cuts: &[usize], reads: &[(u64, usize)]) {
    let at = |second| Timestamp::from_second(second).unwrap();
    let event = |&(kind, pieces, _, is_first): &(u8, usize, u32, bool)| {
        let pieces: TextChunks = ["é", "", "ab"].into_iter().cycle().take(pieces).collect();
        match kind {
            0 => Event::AnswerText(pieces),
            1 => Event::ThoughtText(pieces),
            2 => Event::ToolArguments { call: CallId("x".into()), name: "read".into(), is_first, pieces },
            _ => Event::ModelCallEnded(ModelCallOutcome::Failed("down".into())),
        }
    };
    let mut logs: Vec<Vec<Arc<Envelope>>> = vec![Vec::new()];
    for (index, record) in records.iter().enumerate() {
        if cuts.contains(&index) {
            logs.push(Vec::new());
        }
        let topic = topic_id(u8::try_from(logs.len()).unwrap());
        let log = logs.last_mut().unwrap();
        let seq = log.last().map_or(Seq::FIRST, |record| record.last_seq().next());
        log.push(Arc::new(Envelope { topic, seq, at: at(1), node: Some(NodeId(record.2)), event: event(record) }));
    }
    for (log, number) in logs.iter().zip(1_u8..) {
        let Topic::Run(run) = topic_id(number) else { unreachable!() };
        let mut writes = vec![StoreWrite::OpenRun(RunRow {
            requests: patchboard_core::store::RunRequests::default(),
            run,
            session: SessionKey::conversation("main", "web", "alice", ""),
            principal: "local".into(),
            client_id: "1".into(),
            surface: "gateway".into(),
            agent: "main".into(),
            strategy: StrategyKind::React,
            started_at: at(1),
            input: "hi".into(),
            state: RunState::Running,
        })];
        writes.extend(log.iter().cloned().map(StoreWrite::Event));
        writes.push(StoreWrite::CloseRun { run, outcome: RunOutcome::Completed, at: at(i64::from(number)) });
        store.commit(WriteBatch::delta(writes)).await.unwrap();
    }
    for second in 1..=7 {
        assert!(!store.prune(RetentionCutoffs { runs_before: at(0), events_before: at(second) }).await.unwrap());
        for (log, number) in logs.iter().zip(1_u8..) {
            let topic = topic_id(number);
            let stored = store.events(&topic, Seq::FIRST, 1000).await.unwrap();
            let is_old = i64::from(number) < second;
            assert_eq!(stored, if is_old { fold(log.clone()) } else { log.clone() }, "run {number} at {second}");
            for &(from, limit) in reads {
                let from = Seq(from.max(1));
                let wanted: Vec<_> = told(log).into_iter().filter(|(seq, _)| *seq >= from).collect();
                let read = told(&store.events(&topic, from, limit).await.unwrap());
                let read: Vec<_> = read.into_iter().filter(|(seq, _)| *seq >= from).collect();
                assert_eq!(read, wanted[..read.len()], "from {from}");
                assert!(read.len() == wanted.len() || read.len() >= limit, "no fewer than asked for");
            }
        }
    }
}

/// What each number stands for, whatever record it is in.
fn told(records: &[Arc<Envelope>]) -> Vec<(Seq, Event)> {
    let mut told = Vec::new();
    for record in records {
        for seq in record.seq.0..=record.last_seq().0 {
            let mut event = record.part_from(Seq(seq)).event;
            if let Some(pieces) = event.pieces_mut() {
                *pieces = pieces.iter().take(1).collect();
            }
            told.push((Seq(seq), event));
        }
    }
    told
}

/// Steps are (message, state, when submitted, when changed).
async fn check_messages(store: &dyn Store, steps: &[(u8, usize, i64, i64)], limit: usize, prune_before: Option<i64>) {
    let at = |second| Timestamp::from_second(second).unwrap();
    let mut model: HashMap<u8, MessageRow> = HashMap::new();
    for &(number, state, submitted, changed) in steps {
        let message = MessageId(Uuid::from_u128(u128::from(number)));
        let state = MessageState::ALL[state];
        let row = MessageRow { message, state, submitted_at: at(submitted), changed_at: at(changed) };
        store.commit(WriteBatch::delta(vec![StoreWrite::Message(row)])).await.unwrap();
        let known = model.entry(number).or_insert(row);
        *known = MessageRow { submitted_at: known.submitted_at, ..row };
    }
    if let Some(before) = prune_before.map(at) {
        assert!(!store.prune(RetentionCutoffs { runs_before: before, events_before: before }).await.unwrap());
        model.retain(|_, row| !row.state.is_final() || row.changed_at >= before);
    }
    let mut rows: Vec<_> = model.into_values().collect();
    rows.sort_by_key(|row| (row.submitted_at, row.message));
    let open: Vec<_> = rows.iter().copied().filter(|row| !row.state.is_final()).collect();
    assert_eq!(store.open_messages().await.unwrap(), open);
    rows.reverse();
    for state in MessageState::ALL.map(Some).into_iter().chain([None]) {
        let expected = rows.iter().copied().filter(|row| state.is_none_or(|state| row.state == state));
        let mut found = Vec::new();
        let mut cursor = None;
        loop {
            let page = store.messages(MessageQuery { state, limit, cursor }).await.unwrap();
            assert!(page.items.len() == limit || page.next.is_none(), "pages are full, but for the last");
            found.extend(page.items);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(found, expected.collect::<Vec<_>>(), "{state:?}, {limit} at a time");
    }
}

async fn check_owners(store: &dyn Store, facts: &[(String, String, String)], queries: &[String]) {
    let owner = |account: &str| MemoryOwner::account("web", account);
    let vector = || Some((Arc::from("space"), vec![1.0, 2.0]));
    let mut model: HashMap<&str, HashMap<&str, &str>> = HashMap::new();
    for (account, predicate, object) in facts {
        let fact = NewFact {
            owner: owner(account),
            subject: account.clone(),
            predicate: predicate.clone(),
            object: object.clone(),
            confidence: 1.0,
            session: SessionKey::conversation("main", "web", account, ""),
            run: None,
            learned_at: Timestamp::UNIX_EPOCH,
            embedding: vector(),
        };
        store.commit(WriteBatch::delta(vec![StoreWrite::LearnFact(fact)])).await.unwrap();
        model.entry(account).or_default().insert(predicate, object);
    }
    for (&account, known) in &model {
        for (index, text) in queries.iter().chain(facts.iter().map(|(_, _, object)| object)).enumerate() {
            let query = FactQuery {
                owner: owner(account),
                text: text.clone(),
                embedding: if index % 2 == 0 { vector() } else { None },
                limit: 1000,
                fill_with_recent: index % 3 == 0,
                cursor: None,
            };
            let filled = query.fill_with_recent || query.embedding.is_some();
            let found = store.facts(query).await.unwrap().items;
            for fact in &found {
                assert_eq!(fact.subject, account, "a fact of somebody else");
                assert_eq!(known.get(fact.predicate.as_str()), Some(&fact.object.as_str()), "a fact that is not true");
            }
            if filled {
                assert_eq!(found.len(), known.len(), "everything known, once");
            }
        }
    }
}

fn topic_id(topic: u8) -> Topic {
    Topic::Run(RunId(Uuid::from_u128(u128::from(topic) + 1)))
}

fn record(topic: u8, seq: Seq, width: u8) -> Envelope {
    let pieces: TextChunks = (0..width).map(|_| "é").collect();
    Envelope { topic: topic_id(topic), seq, at: Timestamp::UNIX_EPOCH, node: None, event: Event::AnswerText(pieces) }
}
