//! The writing side without its thread, so that what lands in one transaction is known.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use patchboard_core::event::{Envelope, Event, TextChunks, Topic};
use patchboard_core::id::{RunId, Seq};
use patchboard_core::store::{Durability, Store, StoreError, StoreWrite, WriteBatch};
use tokio::sync::{Semaphore, oneshot};
use uuid::Uuid;

use super::super::batch::EncodedBatch;
use super::super::{SqliteOptions, SqliteStore};
use super::super::{events, schema};
use super::{CHECKPOINT_BYTES, CommitRequest, WriteConnection};

fn connection(folder: &Path) -> WriteConnection {
    WriteConnection::new(schema::open_for_writing(&folder.join("writer.db")).unwrap())
}

fn batch(topic: u128, seq: u64, text: &str, durability: Durability) -> WriteBatch {
    let event = Event::AnswerText(TextChunks::of_single(text));
    let topic = Topic::Run(RunId(Uuid::from_u128(topic)));
    let record = Envelope { topic, seq: Seq(seq), at: Timestamp::UNIX_EPOCH, node: None, event };
    WriteBatch::new(durability, vec![StoreWrite::Event(Arc::new(record))])
}

fn commit_together(connection: &mut WriteConnection, batches: Vec<WriteBatch>) -> Vec<Result<(), StoreError>> {
    let permits = Arc::new(Semaphore::new(batches.len()));
    let (group, replies): (Vec<_>, Vec<_>) = batches
        .into_iter()
        .map(|batch| {
            let (reply, receiver) = oneshot::channel();
            let permits = permits.clone().try_acquire_owned().unwrap();
            (CommitRequest { batch: EncodedBatch::new(batch), reply, _permit: permits }, receiver)
        })
        .unzip();
    connection.commit_group(group);
    replies.into_iter().map(|mut reply| reply.try_recv().expect("answered by now")).collect()
}

fn last_seq(connection: &WriteConnection, topic: u128) -> u64 {
    events::last_seq(&connection.db, &Topic::Run(RunId(Uuid::from_u128(topic)))).unwrap().0
}

fn synchronous(connection: &WriteConnection) -> u8 {
    connection.db.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap()
}

#[test]
fn a_bad_batch_does_not_fail_its_neighbours() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = connection(folder.path());
    let boundary = Durability::Boundary;
    let replies = commit_together(
        &mut connection,
        vec![
            batch(1, 1, "good", boundary),
            batch(2, 7, "does not follow", boundary),
            batch(1, 2, "good", boundary),
            batch(3, 1, "good", boundary),
            batch(3, 1, "repeats", boundary),
        ],
    );
    let stored: Vec<_> = replies.iter().map(Result::is_ok).collect();
    assert_eq!(stored, [true, false, true, true, false]);
    assert_eq!([1, 2, 3].map(|topic| last_seq(&connection, topic)), [2, 0, 1]);
    let Err(StoreError::Failed { attempted, source }) = &replies[1] else { panic!("{:?}", replies[1]) };
    assert_eq!((*attempted, source.to_string().as_str()), ("commit a batch", "event number 7 does not follow 0"));
}

#[test]
fn the_strictest_batch_decides_about_the_disk() {
    const NORMAL: u8 = 1;
    const FULL: u8 = 2;
    let folder = tempfile::tempdir().unwrap();
    let mut connection = connection(folder.path());
    let mut check = |durabilities: &[Durability], expected| {
        let first = last_seq(&connection, 1) + 1;
        let batches = durabilities.iter().zip(first..).map(|(&durability, seq)| batch(1, seq, "piece", durability));
        let replies = commit_together(&mut connection, batches.collect());
        assert!(replies.iter().all(Result::is_ok), "{replies:?}");
        assert_eq!(synchronous(&connection), expected, "{durabilities:?}");
    };
    check(&[Durability::Delta], NORMAL);
    check(&[Durability::Delta, Durability::Boundary, Durability::Delta], FULL);
    check(&[Durability::Delta, Durability::Delta], NORMAL);
    check(&[Durability::Boundary], FULL);
}

#[test]
fn a_full_disk_is_reported_and_survived() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = connection(folder.path());
    let pages: u32 = connection.db.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    let limit_pages = |connection: &WriteConnection, pages: u32| {
        connection.db.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();
    };
    limit_pages(&connection, pages + 16);
    let text = "x".repeat(8000);
    let mut stored = 0;
    let error = loop {
        let reply = commit_together(
            &mut connection,
            vec![batch(1, stored + 1, &text, Durability::Boundary), batch(1, stored + 2, &text, Durability::Boundary)],
        );
        match reply.into_iter().collect::<Result<Vec<()>, _>>() {
            Ok(_) => stored += 2,
            Err(error) => break error,
        }
        assert!(stored < 100, "the disk does not fill up");
    };
    assert!(matches!(error, StoreError::Full), "{error:?}");
    // The first of the two may still have fitted.
    let stored_now = last_seq(&connection, 1);
    assert!(stored_now == stored || stored_now == stored + 1);

    limit_pages(&connection, pages + 1000);
    let replies = commit_together(&mut connection, vec![batch(1, stored_now + 1, &text, Durability::Boundary)]);
    assert!(replies[0].is_ok(), "{replies:?}");
    assert_eq!(last_seq(&connection, 1), stored_now + 1);
}

#[tokio::test]
async fn pieces_written_on_the_callers_thread_are_stored_at_once_and_the_log_stays_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("inline.db");
    let store = SqliteStore::open(SqliteOptions::new(&path)).unwrap();
    let piece = "x".repeat(4000);
    for seq in 1..=4000 {
        let committed = store.commit(batch(1, seq, &piece, Durability::Delta));
        // Nothing else writes, so there is nothing to wait for, except where the log is folded.
        committed.await.unwrap();
    }
    assert_eq!(store.last_seq(&Topic::Run(RunId(Uuid::from_u128(1)))).await.unwrap(), Seq(4000));
    let log = std::fs::metadata(folder.path().join("inline.db-wal")).unwrap().len();
    assert!(log < 3 * u64::try_from(CHECKPOINT_BYTES).unwrap(), "the log has {log} bytes");
}

#[tokio::test]
async fn a_batch_of_pieces_does_not_overtake_what_was_asked_for_before() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(SqliteOptions::new(folder.path().join("order.db"))).unwrap();
    for round in 0..200 {
        let boundary = store.commit(batch(1, 2 * round + 1, "first", Durability::Boundary));
        let pieces = store.commit(batch(1, 2 * round + 2, "second", Durability::Delta));
        let (boundary, pieces) = tokio::join!(boundary, pieces);
        boundary.unwrap();
        pieces.unwrap();
    }
}
