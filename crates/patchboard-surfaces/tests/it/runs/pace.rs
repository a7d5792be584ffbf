//! Clients that read slowly, or not at all.

use super::*;

/// Long enough that thousands of them fill every buffer on the way.
fn long_pieces(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{number:06} {}", "x".repeat(1000))).collect()
}

fn script(pieces: &[String]) -> Script {
    let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
    say(&pieces, 1, 1)
}

#[tokio::test]
async fn five_thousand_events_reach_a_slow_reader_without_a_gap() {
    let pieces = long_pieces(5000);
    let server = serve([script(&pieces)], Setup::default()).await;
    let mut client = server.connect_narrow().await;
    send(&mut client, run("r1")).await;
    let mut events = Vec::new();
    let end = loop {
        // Everybody else gets a turn first, so that what is not read piles up on the other side.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        let frame = next(&mut client).await;
        match frame["type"].as_str() {
            Some("run_stream_event") => events.push(frame["event"].clone()),
            _ => break frame,
        }
    };
    for (event, number) in events.iter().zip(1u64..) {
        assert_eq!(event["event_id"], number);
    }
    let chunks: Vec<&str> = events
        .iter()
        .filter(|event| event["type"] == "message_chunk")
        .map(|event| event["content"].as_str().unwrap())
        .collect();
    assert_eq!(chunks, pieces);
    assert_eq!(end["reply"].as_str().unwrap(), pieces.concat());
    assert_eq!(end["event_id"], events.len() as u64 + 1);
}

#[tokio::test]
async fn who_does_not_read_loses_the_connection_and_keeps_the_run() {
    let pieces = long_pieces(8000);
    let gate = Arc::new(Semaphore::new(0));
    let mut held_at_the_end = script(&pieces);
    let end = held_at_the_end.len() - 1;
    held_at_the_end.insert(end, ScriptStep::Wait(gate.clone()));
    let server = serve([held_at_the_end], Setup { stall: Duration::from_secs(1), ..Setup::default() }).await;
    let mut deaf = server.connect_narrow().await;
    send(&mut deaf, run("r1")).await;
    let first = next(&mut deaf).await;
    assert_eq!(first["event"]["event_id"], 1);
    server.connections_fall_to(0).await;
    gate.add_permits(1);
    let mut client = server.connect().await;
    send(&mut client, json!({ "type": "attach", "id": "r1", "after": 1 })).await;
    let (events, end) = read_run(&mut client, 2).await;
    assert_eq!(events.iter().filter(|event| event["type"] == "message_chunk").count(), pieces.len());
    assert_eq!(end["type"], "run_end");
    drop(deaf);
}
