//! Old events: fewer records, the same numbers, and there until the run itself is pruned.

use std::sync::Arc;

use patchboard_core::event::fold::fold;
use patchboard_core::event::{Envelope, Event, RunOutcome, TextChunks};
use patchboard_core::id::{CallId, NodeId, Seq};
use patchboard_core::store::{RetentionCutoffs, Store, StoreWrite};
use patchboard_core::tool::ToolOutput;

use super::fixtures::{at, close_run, commit, ended, event, expect_ok, run, run_id, session, text, topic};

fn events_before(second: i64) -> RetentionCutoffs {
    RetentionCutoffs { runs_before: at(0), events_before: at(second) }
}

/// A run with text in two nodes, tools and an end, as it was streamed.
fn streamed(number: u64) -> Vec<Arc<Envelope>> {
    let pieces = |pieces: &[&str]| pieces.iter().copied().collect::<TextChunks>();
    let call = || CallId("call-1".into());
    let arguments = |is_first, texts: &[&str]| Event::ToolArguments {
        call: call(),
        name: "read".into(),
        is_first,
        pieces: pieces(texts),
    };
    let progress = |texts: &[&str]| Event::ToolProgress { call: call(), name: "read".into(), pieces: pieces(texts) };
    let entries = [
        (None, Event::RunStarted { session: session("fold"), agent: "main".into(), chat: None }),
        (Some(0), Event::ThoughtText(pieces(&["hm", ""]))),
        (Some(0), Event::ThoughtText(pieces(&["雨"]))),
        (Some(0), text(&["It ", "is"])),
        (Some(0), text(&[" raining"])),
        (Some(1), text(&["meanwhile"])),
        (Some(0), text(&["."])),
        (Some(0), arguments(true, &["{\"pa"])),
        (Some(0), arguments(false, &["th\"", ": 1}"])),
        (Some(0), progress(&["10 %"])),
        (Some(0), progress(&["20 %", "30 %"])),
        (Some(0), Event::ToolFinished { call: call(), output: ToolOutput::ok("rain") }),
        (Some(0), Event::DraftText(pieces(&["first "]))),
        (Some(0), Event::DraftText(pieces(&["draft"]))),
        (None, Event::RunEnded { outcome: RunOutcome::Completed }),
    ];
    let mut next = Seq::FIRST;
    let mut records = Vec::new();
    for ((node, event), second) in entries.into_iter().zip(1..) {
        let record = Envelope { topic: topic(number), seq: next, at: at(second), node: node.map(NodeId), event };
        next = record.last_seq().next();
        records.push(Arc::new(record));
    }
    records
}

async fn store_run(store: &dyn Store, number: u64, records: &[Arc<Envelope>], end: Option<i64>) {
    let mut writes = vec![StoreWrite::OpenRun(run(number, &session("fold")))];
    writes.extend(records.iter().cloned().map(StoreWrite::Event));
    writes.extend(end.map(|second| close_run(number, second)));
    commit(store, writes).await;
}

pub async fn old_events_are_folded(store: Arc<dyn Store>) {
    let runs = [1, 2, 3].map(streamed);
    for ((number, records), end) in (1..).zip(&runs).zip([Some(10), Some(20), None]) {
        store_run(&*store, number, records, end).await;
    }
    let read = async |number, from| expect_ok(store.events(&topic(number), Seq(from), 100).await);
    for _ in 0..2 {
        assert!(!expect_ok(store.prune(events_before(20)).await));
        let folded = fold(runs[0].clone());
        assert_eq!((folded.len(), runs[0].len()), (10, 15));
        assert_eq!(read(1, 1).await, folded, "ended before");
        assert_eq!(expect_ok(store.run(run_id(1)).await), Some(ended(run(1, &session("fold")))));
        assert_eq!(read(2, 1).await, runs[1], "ended at that very moment");
        assert_eq!(read(3, 1).await, runs[2], "did not end");
        // From any number the records that hold it and all that follow, as before.
        let last = expect_ok(store.last_seq(&topic(1)).await);
        assert_eq!(last, runs[0].last().map_or(Seq(0), |record| record.last_seq()));
        for from in 0..=last.0 + 1 {
            let expected = folded.iter().filter(|record| record.last_seq().0 >= from).cloned().collect::<Vec<_>>();
            assert_eq!(read(1, from).await, expected, "from {from}");
        }
    }
    assert!(!expect_ok(store.prune(events_before(21)).await));
    assert_eq!(read(2, 1).await, fold(runs[1].clone()));
    commit(&*store, vec![close_run(3, 5)]).await;
    commit(&*store, vec![StoreWrite::Event(event(4, 1, text(&["another"])))]).await;
    let prune = RetentionCutoffs { runs_before: at(100), events_before: at(100) };
    assert!(!expect_ok(store.prune(prune).await));
    for number in 1..=3 {
        assert_eq!(read(number, 1).await, [], "with the run its events are gone");
    }
    assert_eq!(read(4, 1).await.len(), 1);
}

/// More than one call may do: the work is bounded and ends with everything folded.
pub async fn long_runs_are_folded_step_by_step(store: Arc<dyn Store>) {
    const RECORDS: u64 = 9_000;
    let long: Vec<_> = (1..=RECORDS).map(|seq| event(1, seq, text(&["ab"]))).collect();
    store_run(&*store, 1, &long, Some(10)).await;
    let large = "x".repeat(200_000);
    let large: Vec<_> = (1..=10).map(|seq| event(2, seq, text(&[&large]))).collect();
    store_run(&*store, 2, &large, Some(11)).await;
    let mut writes = Vec::new();
    for number in 3..1_100 {
        writes.push(StoreWrite::OpenRun(run(number, &session("fold"))));
        writes.extend([(1, "a"), (2, "b")].map(|(seq, piece)| StoreWrite::Event(event(number, seq, text(&[piece])))));
        writes.push(close_run(number, 12));
    }
    commit(&*store, writes).await;
    let mut calls = 1;
    while expect_ok(store.prune(events_before(100)).await) {
        calls += 1;
        assert!(calls < 100, "folding does not end");
    }
    assert!(calls > 1, "one call does a bounded amount of work");
    let records = expect_ok(store.events(&topic(1), Seq::FIRST, 1000).await);
    assert!(records.len() < 10, "{} of {RECORDS}", records.len());
    let mut next = Seq::FIRST;
    let mut whole = String::new();
    for record in &records {
        assert_eq!(record.seq, next);
        next = record.last_seq().next();
        let pieces = record.event.pieces().into_iter().flat_map(TextChunks::iter);
        pieces.for_each(|piece| whole.push_str(piece));
    }
    assert_eq!((next.0, whole.len() as u64), (RECORDS + 1, 2 * RECORDS));
    assert_eq!(expect_ok(store.events(&topic(2), Seq::FIRST, 100).await).len(), 10, "as long as records may be");
    for number in [3, 500, 1_099] {
        let stored = expect_ok(store.events(&topic(number), Seq::FIRST, 100).await);
        assert_eq!(stored, [event(number, 1, text(&["a", "b"]))]);
    }
    assert!(!expect_ok(store.prune(events_before(100)).await), "nothing is left to do");
}
