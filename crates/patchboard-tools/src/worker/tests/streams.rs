//! Results that come piece by piece.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use patchboard_core::port::ProgressSink;
use patchboard_core::tool::{CallMetadata, ToolChunk, ToolFault, ToolOutput};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::bench::{Bench, fault, json as json_of, send};

async fn stream(bench: &Bench, tool: &str) -> (Vec<ToolChunk>, ToolOutput) {
    let (sender, mut receiver) = mpsc::channel(1);
    let call_metadata = CallMetadata { session: "s".into(), chunks: Some(sender), ..CallMetadata::default() };
    let taking = async {
        let mut taken = Vec::new();
        while let Some(chunk) = receiver.recv().await {
            taken.push(chunk);
        }
        taken
    };
    tokio::join!(taking, bench.send(tool, Value::Null, call_metadata, CancellationToken::new()))
}

fn known(number: &str, more: &[(&str, &str)]) -> BTreeMap<String, String> {
    let known = more.iter().copied().chain([("n", number)].into_iter().filter(|_| !number.is_empty()));
    known.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

const ADDED: [(&str, &str); 3] = [("execution_time_ms", "0"), ("tool_type", "remote"), ("worker_id", "py_worker_0_1")];

#[tokio::test(start_paused = true)]
async fn pieces_are_passed_on_until_the_last() {
    let bench = Bench::whole(|pool| pool.count = 1).await;
    let (chunks, output) = stream(&bench, "count").await;
    assert!(!output.is_error, "{output:?}");
    let said: Vec<_> = chunks.iter().map(|chunk| (&*chunk.id, &chunk.data[..], chunk.is_final)).collect();
    assert_eq!(said, [("c-1", &b"1"[..], false), ("c-2", b"2", false), ("c-3", b"3", true)]);
    assert_eq!(chunks[0].metadata, known("1", &[]));
    assert_eq!(chunks[2].metadata, known("3", &ADDED));
    assert!(bench.stub.seen.lock().unwrap()[0].request.stream);
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_an_end_gets_one() {
    let bench = Bench::whole(|pool| pool.count = 1).await;
    let (chunks, output) = stream(&bench, "no_final").await;
    assert!(!output.is_error);
    let last = chunks.last().unwrap();
    assert_eq!((chunks.len(), &*last.id, last.data.len(), last.is_final), (3, "sp-final-3", 0, true));
    let own = [("synthetic_final", "true"), ("chunks_sent", "2")];
    assert_eq!(last.metadata, known("", &[&own[..], &ADDED].concat()));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_says_why() {
    let bench = Bench::whole(|_| {}).await;
    let (chunks, output) = stream(&bench, "broken").await;
    assert_eq!((chunks.len(), fault(&output)), (1, Some(ToolFault::Internal)));
    assert!(output.content.starts_with(r#"{"type":"ValueError""#), "{output:?}");
    let call_metadata = CallMetadata { session: "s".into(), for_model: true, ..CallMetadata::default() };
    let output = bench.send("broken", Value::Null, call_metadata, CancellationToken::new()).await;
    assert_eq!((&*output.content, fault(&output)), ("ValueError: too small", Some(ToolFault::Internal)));
}

/// Chunks are not requested faster than they are taken, and the worker is told when the reader is gone.
#[tokio::test(start_paused = true)]
async fn a_stream_is_as_fast_as_its_reader_and_ends_with_it() {
    let bench = Bench::whole(|_| {}).await;
    let (sender, mut receiver) = mpsc::channel(1);
    let call_metadata = CallMetadata { session: "s".into(), chunks: Some(sender), ..CallMetadata::default() };
    let taking = async {
        for number in 0..3 {
            assert_eq!(&*receiver.recv().await.unwrap().id, format!("c-{number}"));
        }
        drop(receiver);
    };
    let (output, ()) =
        tokio::join!(bench.send("endless", Value::Null, call_metadata, CancellationToken::new()), taking);
    assert_eq!(fault(&output), Some(ToolFault::Cancelled));
    cancelled(&bench, 1).await;

    let (sender, _receiver) = mpsc::channel(1);
    let call_metadata = CallMetadata { session: "s".into(), chunks: Some(sender), ..CallMetadata::default() };
    let stop = CancellationToken::new();
    let stopping = async {
        bench.stub.saw(2).await;
        stop.cancel();
    };
    let (output, ()) = tokio::join!(bench.send("endless", Value::Null, call_metadata, stop.clone()), stopping);
    assert_eq!(fault(&output), Some(ToolFault::Cancelled));
    cancelled(&bench, 2).await;
    assert!(bench.report().workers.iter().all(|worker| worker.in_flight == 0));
}

async fn cancelled(bench: &Bench, count: u64) {
    loop {
        let heard = bench.stub.heard.notified();
        let workers = bench.stub.workers.lock().unwrap().clone();
        if workers.iter().map(|worker| worker.cancelled_streams.load(Ordering::SeqCst)).sum::<u64>() >= count {
            return;
        }
        heard.await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_reads_the_whole_and_people_hear_the_pieces() {
    let bench = Bench::whole(|_| {}).await;
    let (sender, mut receiver) = mpsc::channel(10);
    let call_metadata = CallMetadata { session: "s".into(), for_model: true, ..CallMetadata::default() };
    let output =
        send(&*bench.host, "words", Value::Null, call_metadata, ProgressSink::new(sender), CancellationToken::new())
            .await;
    assert_eq!(&*output.content, "Hello\n{\"a\":1}");
    let mut pieces = Vec::new();
    while let Ok(piece) = receiver.try_recv() {
        pieces.push(piece);
    }
    assert_eq!(pieces, ["Hel", "lo", r#"{"a":1}"#]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_with_pieces_that_is_asked_for_the_whole_gives_a_list() {
    let bench = Bench::whole(|_| {}).await;
    assert_eq!(json_of(&bench.call("no_final", Value::Null).await), json!([1, "two"]));
    assert_eq!(json_of(&bench.call("words", Value::Null).await), json!(["Hel", "lo", {"a": 1}]));
}
