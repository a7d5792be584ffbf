//! A process that is killed while it writes loses nothing it was told is written. The test is its own child: the
//! same test, started again with a folder to write to.

use std::io::{BufRead, BufReader, Read, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use jiff::Timestamp;
use patchboard_core::event::{Envelope, Event, TextChunks, Topic};
use patchboard_core::id::{RunId, Seq};
use patchboard_core::store::{Store, StoreWrite, WriteBatch};
use patchboard_store::{SqliteOptions, SqliteStore, inspect};
use uuid::Uuid;

const FOLDER: &str = "PATCHBOARD_STORE_CRASH_TEST_FOLDER";
const WRITERS: u64 = 8;

#[test]
fn acknowledged_batches_survive_a_kill() {
    #[expect(clippy::disallowed_methods, reason = "how the test tells its child what to do")]
    if let Some(folder) = std::env::var_os(FOLDER) {
        write_until_killed(Path::new(&folder));
    }
    // Different points in the life of a database: at once, before and after the log has been folded.
    for acknowledged in [1, 100, 4000] {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["crash::acknowledged_batches_survive_a_kill", "--exact", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut last = [0; WRITERS as usize];
        let mut seen = 0;
        let mut line = String::new();
        while seen < acknowledged {
            line.clear();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "the child ended by itself");
            seen += u64::from(note(&line, &mut last));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What it said before it died counts as well; a last line may be cut.
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        for line in rest.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            note(line, &mut last);
        }
        check(folder.path(), &last);
    }
}

/// Lines of the child's that are ours read `written <writer> <number>`.
fn note(line: &str, last: &mut [u64]) -> bool {
    let mut words = line.split_whitespace().skip_while(|word| *word != "written").skip(1);
    let (Some(writer), Some(number)) = (words.next(), words.next()) else { return false };
    last[writer.parse::<usize>().unwrap()] = number.parse().unwrap();
    true
}

fn check(folder: &Path, last: &[u64]) {
    let path = folder.join("crash.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(SqliteOptions::new(&path)).unwrap();
        for (writer, &acknowledged) in last.iter().enumerate() {
            let topic = topic(writer as u64);
            let stored = store.last_seq(&topic).await.unwrap();
            assert!(stored.0 >= acknowledged, "writer {writer}: {acknowledged} acknowledged, {stored} stored");
            let mut next = Seq::FIRST;
            loop {
                let records = store.events(&topic, next, 1000).await.unwrap();
                let Some(end) = records.last() else { break };
                for record in &records {
                    assert_eq!(**record, envelope(writer as u64, next.0));
                    next = next.next();
                }
                assert_eq!(end.last_seq().next(), next);
            }
            assert_eq!(next, stored.next(), "nothing is missing in between");
        }
        store.close().await.unwrap();
    });
    assert_eq!(inspect(&path).unwrap().problems, [""; 0]);
}

fn write_until_killed(folder: &Path) -> ! {
    let store = Arc::new(SqliteStore::open(SqliteOptions::new(folder.join("crash.db"))).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..WRITERS {
            let store = store.clone();
            writers.spawn(async move {
                for number in 1.. {
                    let writes = vec![StoreWrite::Event(Arc::new(envelope(writer, number)))];
                    store.commit(WriteBatch::boundary(writes)).await.unwrap();
                    // Written and flushed as one line; the parent may be gone, then so are we.
                    writeln!(std::io::stdout().lock(), "written {writer} {number}").unwrap();
                }
            });
        }
        writers.join_next().await.unwrap().unwrap();
    });
    unreachable!("writers do not end");
}

fn topic(writer: u64) -> Topic {
    Topic::Run(RunId(Uuid::from_u128(u128::from(writer))))
}

fn envelope(writer: u64, number: u64) -> Envelope {
    let text = format!("piece {number} of writer {writer}");
    Envelope {
        topic: topic(writer),
        seq: Seq(number),
        at: Timestamp::UNIX_EPOCH,
        node: None,
        event: Event::AnswerText(TextChunks::of_single(&text)),
    }
}
