use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use patchboard_core::event::{Envelope, Event, TextChunks, Topic};
use patchboard_core::id::{MemoryOwner, RunId, Seq, SessionKey};
use patchboard_core::run_spec::StrategyKind;
use patchboard_core::store::{
    FactQuery, KvNamespace, NewFact, RunFilter, RunQuery, RunRequests, RunRow, RunState, Store, StoreError, StoreWrite,
    WriteBatch,
};
use rusqlite::{Connection, OpenFlags};
use uuid::Uuid;

use super::{DatabaseReport, SqliteOptions, SqliteStore, inspect, schema};
use crate::OpenError;

fn in_folder(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    (folder, path)
}

fn open(path: &Path) -> Result<SqliteStore, OpenError> {
    SqliteStore::open(SqliteOptions::new(path))
}

fn raw(path: &Path) -> Connection {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE).unwrap()
}

fn event(seq: u64, text: &str) -> StoreWrite {
    let topic = Topic::Run(RunId(Uuid::from_u128(1)));
    let event = Event::AnswerText(TextChunks::of_single(text));
    StoreWrite::Event(Arc::new(Envelope { topic, seq: Seq(seq), at: Timestamp::UNIX_EPOCH, node: None, event }))
}

fn batch(writes: Vec<StoreWrite>) -> WriteBatch {
    WriteBatch::boundary(writes)
}

#[tokio::test]
async fn a_database_can_be_opened_again() {
    let (_folder, path) = in_folder("again.db");
    let store = open(&path).unwrap();
    store.commit(batch(vec![event(1, "stays")])).await.unwrap();
    store.close().await.unwrap();
    assert!(!path.with_extension("db-wal").exists(), "the log was folded into the database");
    let store = open(&path).unwrap();
    let topic = Topic::Run(RunId(Uuid::from_u128(1)));
    assert_eq!(store.last_seq(&topic).await.unwrap(), Seq(1));
    store.commit(batch(vec![event(2, "goes on")])).await.unwrap();
    // While it is in use.
    let seen = inspect(&path).unwrap();
    assert!(seen.size_bytes > 4096);
    assert_eq!(seen, DatabaseReport { fingerprint: schema::FINGERPRINT, problems: Vec::new(), ..seen.clone() });
}

#[tokio::test]
async fn files_are_private() {
    let (folder, path) = in_folder("private.db");
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let store = open(&path).unwrap();
    store.commit(batch(vec![event(1, "private")])).await.unwrap();
    let mut seen = Vec::new();
    for entry in fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        seen.push((entry.file_name().into_string().unwrap(), entry.metadata().unwrap().permissions().mode() & 0o777));
    }
    seen.sort();
    let expected = ["private.db", "private.db-shm", "private.db-wal"].map(|name| (name.to_owned(), 0o600));
    assert_eq!(seen, expected);
}

#[test]
fn what_cannot_be_opened_is_refused_and_left_alone() {
    let check = |prepare: &dyn Fn(&Path), expected: &str| {
        let (_folder, path) = in_folder("strange.db");
        prepare(&path);
        let before = fs::read(&path).ok();
        let error = open(&path).map(|_| ()).unwrap_err().to_string();
        let error = error.replace(path.to_str().unwrap(), "PATH");
        assert_eq!(error, expected);
        assert_eq!(fs::read(&path).ok(), before, "the file is as it was");
    };
    let other_format = |path: &Path| {
        // Closed and not just dropped: its threads' connections must be gone before the journal can change.
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(open(path).unwrap().close()).unwrap();
        let db = raw(path);
        db.pragma_update(None, "user_version", 99).unwrap();
        db.pragma_update(None, "journal_mode", "DELETE").unwrap();
    };
    let expected = format!(
        "the database was written by another version of Patchboard, in another format (00000063, this program's is {:08x}): PATH",
        schema::FINGERPRINT
    );
    check(&other_format, &expected);
    check(&|path| raw(path).execute_batch("CREATE TABLE t (x)").unwrap(), "not a Patchboard database: PATH");
    check(&|path| fs::write(path, "just some text, and not a short one").unwrap(), "failed to open the database: PATH");
    check(&|path| fs::create_dir(path).unwrap(), "failed to create the database file: PATH");
    let missing = open(Path::new("/nonexistent/folder/x.db")).map(|_| ()).unwrap_err();
    assert!(matches!(missing, OpenError::Create { .. }), "{missing:?}");
}

#[tokio::test]
async fn a_full_queue_is_busy_and_then_goes_on() {
    let (_folder, path) = in_folder("busy.db");
    let options = SqliteOptions { queue_bytes: 1, queue_wait: Duration::from_millis(10), ..SqliteOptions::new(&path) };
    let store = SqliteStore::open(options).unwrap();
    // Another connection has locked the database, so the writer thread is blocked.
    let other = raw(&path);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting = store.commit(batch(vec![event(1, "first")]));
    let refused = store.commit(batch(vec![event(2, "second")])).await;
    assert!(matches!(refused, Err(StoreError::Busy)), "{refused:?}");
    other.execute_batch("ROLLBACK").unwrap();
    waiting.await.unwrap();
    store.commit(batch(vec![event(2, "second")])).await.unwrap();
}

#[tokio::test]
async fn keys_that_could_not_be_read_back_are_refused() {
    let (_folder, path) = in_folder("keys.db");
    let store = open(&path).unwrap();
    let fact = |peer: &str| NewFact {
        owner: MemoryOwner::account("web", "alice"),
        subject: "user".to_owned(),
        predicate: "likes".to_owned(),
        object: "tea".to_owned(),
        confidence: f32::NAN,
        session: SessionKey::conversation("main", "web", "alice", peer),
        run: None,
        learned_at: Timestamp::UNIX_EPOCH,
        embedding: None,
    };
    let refused = store.commit(batch(vec![StoreWrite::LearnFact(fact(&"x".repeat(SessionKey::MAX_BYTES)))])).await;
    assert!(matches!(refused, Err(StoreError::Failed { .. })), "{refused:?}");
    store.commit(batch(vec![StoreWrite::LearnFact(fact("1"))])).await.unwrap();
}

#[tokio::test]
async fn closing_finishes_what_was_asked_for() {
    let (_folder, path) = in_folder("close.db");
    let store = open(&path).unwrap();
    let commits: Vec<_> = (1..=50).map(|seq| store.commit(batch(vec![event(seq, "piece")]))).collect();
    store.close().await.unwrap();
    for answer in commits {
        answer.await.unwrap();
    }
    let store = open(&path).unwrap();
    assert_eq!(store.last_seq(&Topic::Run(RunId(Uuid::from_u128(1)))).await.unwrap(), Seq(50));
}

#[tokio::test]
async fn purged_text_is_overwritten() {
    let (_folder, path) = in_folder("purge.db");
    let store = open(&path).unwrap();
    let session = SessionKey::conversation("main", "web", "alice", "1");
    let run = RunRow {
        run: RunId(Uuid::from_u128(1)),
        session: session.clone(),
        principal: "alice".into(),
        client_id: "1".into(),
        surface: "gateway".into(),
        agent: "main".into(),
        strategy: StrategyKind::React,
        started_at: Timestamp::UNIX_EPOCH,
        input: "sesame in the question".into(),
        state: RunState::Running,
        requests: RunRequests::default(),
    };
    store.commit(batch(vec![StoreWrite::OpenRun(run.clone()), event(1, "sesame in the answer")])).await.unwrap();
    let keep = |value: &str| {
        StoreWrite::put(
            KvNamespace::Session(session.clone()),
            "todos".into(),
            Some(value.repeat(1000).into()),
            Timestamp::UNIX_EPOCH,
        )
    };
    store.commit(batch(vec![keep("open sesame, and some more to make it the longer one;")])).await.unwrap();
    store.commit(batch(vec![keep("sesame;")])).await.unwrap();
    let purge = StoreWrite::ClearSession { session: session.clone(), at: Timestamp::UNIX_EPOCH, purge: true };
    store.commit(batch(vec![purge])).await.unwrap();
    let outcome = patchboard_core::event::RunOutcome::Cancelled;
    let end = StoreWrite::CloseRun { run: run.run, outcome, at: Timestamp::UNIX_EPOCH };
    store.commit(batch(vec![event(2, "more sesame"), end])).await.unwrap();
    store.close().await.unwrap();
    let bytes = fs::read(&path).unwrap();
    assert!(!bytes.windows(6).any(|window| window == b"sesame"), "the text is still in the file");
}

#[tokio::test]
async fn facts_are_found_in_other_forms_of_their_words() {
    let (_folder, path) = in_folder("forms.db");
    let store = open(&path).unwrap();
    let owner = MemoryOwner::account("web", "alice");
    for (predicate, object) in
        [("likes", "crème brûlée"), ("plays", "the violins"), ("喜欢", "绿茶"), ("wohnt", "Straßenbahnhof")]
    {
        let fact = NewFact {
            owner: owner.clone(),
            subject: "user".to_owned(),
            predicate: predicate.to_owned(),
            object: object.to_owned(),
            confidence: 1.0,
            session: SessionKey::conversation("main", "web", "alice", "1"),
            run: None,
            learned_at: Timestamp::UNIX_EPOCH,
            embedding: None,
        };
        store.commit(batch(vec![StoreWrite::LearnFact(fact)])).await.unwrap();
    }
    let check = async |text: &str, expected: &[&str]| {
        let query = FactQuery {
            owner: owner.clone(),
            text: text.to_owned(),
            embedding: None,
            limit: 10,
            fill_with_recent: false,
            cursor: None,
        };
        let found = store.facts(query).await.unwrap().items;
        assert_eq!(found.iter().map(|fact| fact.object.as_str()).collect::<Vec<_>>(), expected, "{text:?}");
    };
    check("creme BRULEE?", &["crème brûlée"]).await;
    check("I play", &["the violins"]).await;
    check("violin", &["the violins"]).await;
    check("茶", &["绿茶"]).await;
    check("straßenbahn", &["Straßenbahnhof"]).await;
    check("car", &[]).await;
}

#[tokio::test]
async fn newest_runs_are_found_across_blocks() {
    let (_folder, path) = in_folder("blocks.db");
    let store = open(&path).unwrap();
    let session = SessionKey::conversation("main", "web", "alice", "1");
    let run = |number: u128, client_id: &str| RunRow {
        run: RunId(Uuid::from_u128(number)),
        session: session.clone(),
        principal: "alice".into(),
        client_id: client_id.into(),
        surface: "gateway".into(),
        agent: "main".into(),
        strategy: StrategyKind::React,
        started_at: Timestamp::UNIX_EPOCH,
        input: "".into(),
        state: RunState::Running,
        requests: RunRequests::default(),
    };
    let first = run(1, "first");
    // More than two blocks of runs in the index.
    let others = (2..20_000).map(|number| StoreWrite::OpenRun(run(number, "other")));
    store.commit(batch(vec![StoreWrite::OpenRun(first.clone())])).await.unwrap();
    store.commit(batch(others.collect())).await.unwrap();
    assert_eq!(store.latest_run_by_client_id("alice", "first").await.unwrap(), Some(first));
    assert_eq!(store.latest_run_by_client_id("alice", "other").await.unwrap(), Some(run(19_999, "other")));
    assert_eq!(store.latest_run_of_session(&session).await.unwrap(), Some(run(19_999, "other")));
}

#[tokio::test]
async fn a_page_of_runs_looks_at_a_bounded_number() {
    let (_folder, path) = in_folder("sparse.db");
    let store = open(&path).unwrap();
    let run = |number: u128| RunRow {
        requests: RunRequests::default(),
        run: RunId(Uuid::from_u128(number)),
        session: SessionKey::conversation("main", "web", "alice", "1"),
        principal: "alice".into(),
        client_id: number.to_string().into(),
        surface: "gateway".into(),
        agent: "main".into(),
        strategy: StrategyKind::React,
        started_at: Timestamp::UNIX_EPOCH,
        input: "".into(),
        state: RunState::Running,
    };
    store.commit(batch(vec![StoreWrite::OpenRun(run(1))])).await.unwrap();
    // As if a hundred thousand runs had come in between.
    raw(&path).execute("INSERT INTO topics (number, id) VALUES (100000, x'00')", []).unwrap();
    store.commit(batch(vec![StoreWrite::OpenRun(run(2))])).await.unwrap();
    let mut found = Vec::new();
    let mut cursor = None;
    loop {
        let query = RunQuery { filter: RunFilter::default(), limit: 10, cursor };
        let page = store.runs(query).await.unwrap();
        found.push(page.items.into_iter().map(|run| run.client_id.to_string()).collect::<Vec<_>>());
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(found, [vec!["2"], vec!["1"]], "the first page ends before the limit and says where to go on");
    let among = RunFilter { among: Some(vec![run(1).run]), ..RunFilter::default() };
    let page = store.runs(RunQuery { filter: among, limit: 1, cursor: None }).await.unwrap();
    assert_eq!((page.items.len(), page.next), (1, None), "a run that is named is found however old it is");
}
