//! Results in pieces, and what is told to listeners.

use patchboard_core::bridge::{MeasuredValue, TelemetryEvent};
use pb::telemetry_control::Control;
use tokio::sync::mpsc;
use tonic::Streaming;

use super::*;

async fn read(mut stream: Streaming<pb::ToolChunk>) -> (Vec<pb::ToolChunk>, Result<(), Status>) {
    let mut chunks = Vec::new();
    loop {
        match stream.message().await {
            Ok(Some(chunk)) => chunks.push(chunk),
            Ok(None) => return (chunks, Ok(())),
            Err(status) => return (chunks, Err(status)),
        }
    }
}

fn pieces(arguments: Value) -> pb::ExecuteToolRequest {
    call("pieces", arguments)
}

#[tokio::test]
async fn pieces_come_in_order_and_end_with_the_last() {
    let bench = Bench::new().await;
    let mut client = bench.in_session().await;
    let mut request = tonic::Request::new(pieces(json!({"count": 3, "size": 5, "final": true})));
    request.metadata_mut().insert("x-snakepit-correlation-id", "sp-9".parse().unwrap());
    let response = client.execute_streaming_tool(request).await.unwrap();
    assert_eq!(response.metadata().get("x-snakepit-correlation-id").unwrap(), "sp-9");
    let (chunks, end) = read(response.into_inner()).await;
    assert!(end.is_ok());
    let received: Vec<_> =
        chunks.iter().map(|chunk| (chunk.chunk_id.as_str(), chunk.data.len(), chunk.is_final)).collect();
    assert_eq!(received, [("pieces-1", 5, false), ("pieces-2", 5, false), ("pieces-3", 5, true)]);
    assert_eq!(bench.pool.last().timeout, Some(BridgeLimits::default().stream));

    // Without a last one there is one all the same.
    let stream = client.execute_streaming_tool(pieces(json!({"count": 2, "size": 1}))).await.unwrap().into_inner();
    let (chunks, end) = read(stream).await;
    assert!(end.is_ok());
    let last = chunks.last().unwrap();
    assert_eq!((chunks.len(), last.chunk_id.as_str(), last.is_final, last.data.len()), (3, "sp-final-3", true, 0));
    assert_eq!(last.metadata, map([("synthetic_final", "true"), ("chunks_sent", "2")]));
}

#[tokio::test]
async fn streams_that_do_not_begin() {
    let bench = Bench::new().await;
    let mut client = bench.in_session().await;
    let elsewhere = pb::ExecuteToolRequest { session_id: "none".to_owned(), ..pieces(json!({})) };
    let broken = pb::ExecuteToolRequest {
        parameters: [("a".to_owned(), value::encode_json(&b"{nope"[..]))].into(),
        ..pieces(json!({}))
    };
    for (request, code, words) in [
        (elsewhere, Code::NotFound, "Session not found: none"),
        (call("nothing", json!({})), Code::NotFound, "Tool nothing not found for session s"),
        (call("echo", json!({})), Code::Unimplemented, "Streaming execution is not enabled"),
        (call("looks", json!({})), Code::Unimplemented, "Streaming execution is not enabled"),
        (broken, Code::InvalidArgument, "Invalid parameter a: "),
    ] {
        let (found, text) = refusal(client.execute_streaming_tool(request).await);
        assert!(found == code && text.starts_with(words), "{found:?} {text}");
    }
    assert_eq!(bench.pool.calls(), 0);
}

#[tokio::test]
async fn streams_that_break_off_say_why_after_what_there_was() {
    let bench = Bench::new().await;
    let mut client = bench.in_session().await;
    for (how, code, words) in
        [("tool", Code::Internal, r#"{"type":"RuntimeError"}"#), ("worker", Code::Unavailable, "the worker died")]
    {
        let request = pieces(json!({"count": 3, "size": 1, "fails": how}));
        let (chunks, end) = read(client.execute_streaming_tool(request).await.unwrap().into_inner()).await;
        assert_eq!(chunks.len(), 3);
        assert_eq!(refusal(end), (code, words.to_owned()));
    }
    let request = pb::ExecuteToolRequest {
        // The first piece is there long before that, on a busy machine too.
        metadata: map([("timeout_ms", "1000")]),
        ..pieces(json!({"count": 1, "size": 1, "waits": true}))
    };
    let (chunks, end) = read(client.execute_streaming_tool(request).await.unwrap().into_inner()).await;
    assert_eq!((chunks.len(), refusal(end).0), (1, Code::DeadlineExceeded));
}

#[tokio::test]
async fn a_client_that_takes_nothing_holds_the_tool_up_and_one_that_goes_stops_it() {
    let bench = Bench::new().await;
    let mut client = bench.in_session().await;
    let request = pieces(json!({"count": 10_000, "size": 100_000}));
    let mut stream = client.execute_streaming_tool(request).await.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    // Other calls go on while this one is not read.
    for _ in 0..50 {
        assert!(client.execute_tool(call("echo", json!({}))).await.unwrap().into_inner().success);
    }
    let ahead = bench.pool.pieces.load(Ordering::SeqCst);
    assert!(ahead < 200, "{ahead} pieces of 100 kB were made for a client that took one");
    for _ in 0..300 {
        stream.message().await.unwrap().unwrap();
    }
    assert!(bench.pool.pieces.load(Ordering::SeqCst) >= 300);
    drop(stream);
    bench.pool.stopped.notified().await;
}

#[tokio::test]
async fn a_stream_that_waits_sends_its_head_at_once() {
    let bench = Bench::new().await;
    let mut client = bench.in_session().await;
    let request = pieces(json!({"count": 0, "waits": true}));
    let stream = client.execute_streaming_tool(request).await.unwrap();
    bench.pool.started.notified().await;
    drop(stream);
    bench.pool.stopped.notified().await;
}

fn controls() -> (mpsc::Sender<pb::TelemetryControl>, impl futures_util::Stream<Item = pb::TelemetryControl> + Send) {
    let (sender, receiver) = mpsc::channel(16);
    let stream = futures_util::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|control| (control, receiver))
    });
    (sender, stream)
}

fn toggle(enabled: bool) -> pb::TelemetryControl {
    pb::TelemetryControl { control: Some(Control::Toggle(pb::TelemetryToggle { enabled })) }
}

fn filter(allow: &[&str], deny: &[&str]) -> pb::TelemetryControl {
    let owned = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect();
    let filter = pb::TelemetryEventFilter { allow: owned(allow), deny: owned(deny) };
    pb::TelemetryControl { control: Some(Control::Filter(filter)) }
}

fn sampling(sampling_rate: f64, patterns: &[&str]) -> pb::TelemetryControl {
    let event_patterns = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
    pb::TelemetryControl {
        control: Some(Control::Sampling(pb::TelemetrySamplingUpdate { sampling_rate, event_patterns })),
    }
}

/// One listener and its two ends.
struct Listener {
    controls: mpsc::Sender<pb::TelemetryControl>,
    events: Streaming<pb::TelemetryEvent>,
    /// Names that only say that something is in force now.
    markers: Vec<&'static str>,
}

impl Listener {
    async fn new(client: &mut Client) -> Self {
        let (sender, stream) = controls();
        let events = client.stream_telemetry(stream).await.unwrap().into_inner();
        Self { controls: sender, events, markers: Vec::new() }
    }

    async fn send(&self, control: pb::TelemetryControl) {
        self.controls.send(control).await.unwrap();
    }

    async fn next(&mut self) -> String {
        loop {
            let name = self.events.message().await.unwrap().unwrap().event_parts.join(".");
            if !self.markers.contains(&name.as_str()) {
                return name;
            }
        }
    }

    /// Tells `marker` again and again until what was asked for before it is in force.
    async fn until(&mut self, bench: &Bench, marker: &'static str) {
        self.markers.push(marker);
        loop {
            tell(bench, marker);
            if let Ok(event) = tokio::time::timeout(Duration::from_millis(10), self.events.message()).await
                && event.unwrap().unwrap().event_parts == [marker]
            {
                return;
            }
        }
    }
}

fn tell(bench: &Bench, name: &str) {
    bench.signals.emit(|| TelemetryEvent::new(name, jiff::Timestamp::UNIX_EPOCH));
}

#[tokio::test]
async fn listeners_hear_what_they_asked_for_and_do_not_disturb_each_other() {
    let bench = Bench::new().await;
    let mut client = bench.client().await;
    let (mut all, mut some) = (Listener::new(&mut client).await, Listener::new(&mut client).await);
    all.send(toggle(true)).await;
    all.until(&bench, "first").await;
    some.send(filter(&["tool.*", "second"], &["tool.secret*"])).await;
    some.send(toggle(true)).await;
    some.until(&bench, "second").await;

    for name in ["pool.ready", "tool.secret.x", "tool.execution.stop"] {
        tell(&bench, name);
    }
    assert_eq!(some.next().await, "tool.execution.stop");
    // It received the other subscriber's marker too.
    all.markers.push("second");
    assert_eq!(all.next().await, "pool.ready");
    assert_eq!(all.next().await, "tool.secret.x");
    assert_eq!(all.next().await, "tool.execution.stop");

    // Half of these, none of those, all of the rest.
    all.send(sampling(0.5, &["half.*"])).await;
    all.send(sampling(0.0, &["none.*"])).await;
    all.send(filter(&["half.*", "none.*", "third", "end"], &[])).await;
    all.until(&bench, "third").await;
    for _ in 0..4 {
        tell(&bench, "half.x");
        tell(&bench, "none.x");
    }
    tell(&bench, "end");
    assert_eq!([all.next().await, all.next().await, all.next().await], ["half.x", "half.x", "end"]);

    // One goes; the other stays.
    drop(all);
    tell(&bench, "tool.last");
    assert_eq!(some.next().await, "tool.last");
    some.send(toggle(false)).await;
    some.send(filter(&[], &[])).await;
    some.send(toggle(true)).await;
    some.until(&bench, "anything").await;
}

#[tokio::test]
async fn events_say_when_where_and_for_whom() {
    let bench = Bench::new().await;
    let mut client = bench.client().await;
    // A subscriber that has closed its side still receives events.
    let once = futures_util::stream::iter([toggle(true), filter(&["mine"], &[])]);
    let mut events = client.stream_telemetry(once).await.unwrap().into_inner();
    let signal = || {
        let at = jiff::Timestamp::from_second(NOW).unwrap();
        TelemetryEvent::new("mine", at)
            .with_measure("count", MeasuredValue::Int(3))
            .with_correlation(Some("sp-3".into()))
    };
    let event = loop {
        bench.signals.emit(signal);
        if let Ok(event) = tokio::time::timeout(Duration::from_millis(10), events.message()).await {
            break event.unwrap().unwrap();
        }
    };
    assert_eq!((event.event_parts, event.correlation_id), (vec!["mine".to_owned()], "sp-3".to_owned()));
    assert_eq!(event.timestamp_ns, NOW * 1_000_000_000);
    assert_eq!(event.metadata, map([("node", "bench")]));
    let three = pb::TelemetryValue { value: Some(pb::telemetry_value::Value::IntValue(3)) };
    assert_eq!(event.measurements, [("count".to_owned(), three)].into());
}

#[tokio::test]
async fn a_listener_that_does_not_keep_up_hears_what_it_missed() {
    let bench = Bench::new().await;
    let mut client = bench.client().await;
    let mut listener = Listener::new(&mut client).await;
    listener.send(toggle(true)).await;
    listener.until(&bench, "first").await;
    // More than is kept, and more than the connection takes unread.
    let text: Arc<str> = "x".repeat(2000).into();
    for _ in 0..20_000 {
        bench
            .signals
            .emit(|| TelemetryEvent::new("many", jiff::Timestamp::UNIX_EPOCH).with_metadata("text", text.clone()));
    }
    let missed = loop {
        let event = listener.events.message().await.unwrap().unwrap();
        if event.event_parts == ["telemetry", "dropped"] {
            break event;
        }
    };
    let Some(pb::telemetry_value::Value::IntValue(count)) = missed.measurements["count"].value else {
        panic!("{missed:?}");
    };
    assert!(count > 10_000, "{count}");
}

#[tokio::test]
async fn a_session_that_wants_telemetry_has_it() {
    let bench = Bench::new().await;
    let mut client = bench.client().await;
    let config = Some(pb::SessionConfig { enable_telemetry: true, ..Default::default() });
    client.initialize_session(pb::InitializeSessionRequest { config, ..opening("s") }).await.unwrap();
    let mut listener = Listener::new(&mut client).await;
    listener.send(filter(&["tool.execution.*", "go"], &[])).await;
    listener.send(toggle(true)).await;
    listener.until(&bench, "go").await;
    client.execute_tool(call("echo", json!({}))).await.unwrap();
    assert_eq!([listener.next().await, listener.next().await], ["tool.execution.start", "tool.execution.stop"]);
}

#[tokio::test]
async fn listening_ends_when_it_should() {
    let bench = Bench::new().await;
    let mut client = bench.client().await;
    // What cannot be asked for.
    let mut listener = Listener::new(&mut client).await;
    listener.send(filter(&[""], &[])).await;
    assert_eq!(refusal(listener.events.message().await).0, Code::InvalidArgument);
    // At the client's deadline, which the beginning must not miss on a busy machine.
    let (_sender, stream) = controls();
    let mut request = tonic::Request::new(stream);
    request.metadata_mut().insert("grpc-timeout", "1000m".parse().unwrap());
    let mut events = client.stream_telemetry(request).await.unwrap().into_inner();
    assert_eq!(refusal(events.message().await).0, Code::DeadlineExceeded);
    // With the server.
    let mut listener = Listener::new(&mut client).await;
    bench.draining.cancel();
    assert_eq!(refusal(listener.events.message().await).0, Code::Unavailable);
}

#[tokio::test]
async fn there_are_only_so_many_listeners() {
    let bench = Bench::new().await;
    let mut client = bench.client().await;
    let mut listeners = Vec::new();
    for _ in 0..MAX_TELEMETRY_STREAMS {
        listeners.push(Listener::new(&mut client).await);
    }
    let (_sender, stream) = controls();
    assert_eq!(refusal(client.stream_telemetry(stream).await).0, Code::ResourceExhausted);
    listeners.pop();
    loop {
        let (_sender, stream) = controls();
        if client.stream_telemetry(stream).await.is_ok() {
            break;
        }
    }
}
