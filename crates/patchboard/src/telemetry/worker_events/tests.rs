use metrics_exporter_prometheus::PrometheusBuilder;
use patchboard_core::bridge::TelemetryBus;
use patchboard_core::port::Clock;
use patchboard_core::scripted::ManualClock;

use super::*;
use crate::telemetry::otlp::IdSource;

const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn signal(name: &str) -> TelemetryEvent {
    TelemetryEvent::new(name, ManualClock::default().now())
}

fn sample(name: &str, pool: &str, worker: &str, key: &str, measure: MeasuredValue) -> TelemetryEvent {
    signal(name).with_metadata("pool_name", pool).with_metadata("worker_id", worker).with_measure(key, measure)
}

#[test]
fn kinds_are_of_a_closed_set() {
    for (name, expected) in [
        ("tool.execution.stop", "tool.execution"),
        ("tool.execution", "tool.execution"),
        ("tool.executioner", "other"),
        ("tool", "other"),
        ("python.memory.sampled", "python.memory"),
        ("pool.worker.spawned", "pool.worker"),
        ("my.own.event", "other"),
        ("", "other"),
    ] {
        assert_eq!(event_kind(name), expected, "{name}");
    }
}

#[tokio::test]
async fn signals_are_counted_and_samples_summed_by_pool() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _metrics = metrics::set_default_local_recorder(&recorder);
    let signals = TelemetryBus::default();
    let receiver = signals.subscribe();
    let memory =
        |pool, worker, bytes| sample("python.memory.sampled", pool, worker, "rss_bytes", MeasuredValue::Int(bytes));
    for signal in [
        memory("a", "1", 100),
        memory("a", "2", 30),
        memory("b", "1", 7),
        // The newer sample of a worker replaces the older one.
        memory("a", "1", 70),
        sample("python.cpu.sampled", "a", "1", "cpu_percent", MeasuredValue::Float(12.5)),
        sample("python.cpu.sampled", "a", "1", "cpu_percent", MeasuredValue::Float(f64::NAN)),
        sample("python.memory.sampled", "a", "1", "rss_bytes", MeasuredValue::Text("many".into())),
        signal("python.memory.sampled"),
        signal("anything.else"),
    ] {
        signals.emit(|| signal);
    }
    drop(signals);
    watch_worker_events(receiver, None, CancellationToken::new()).await;
    let text = recorder.handle().render();
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "patchboard_telemetry_events_total{kind=\"other\"} 1",
            "patchboard_telemetry_events_total{kind=\"python.cpu\"} 2",
            "patchboard_telemetry_events_total{kind=\"python.memory\"} 6",
            "patchboard_worker_sampled_cpu_percent{pool=\"a\"} 12.5",
            "patchboard_worker_sampled_memory_bytes{pool=\"a\"} 100",
            "patchboard_worker_sampled_memory_bytes{pool=\"b\"} 7",
        ]
    );
}

#[tokio::test]
async fn what_was_missed_is_counted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _metrics = metrics::set_default_local_recorder(&recorder);
    let signals = TelemetryBus::default();
    let receiver = signals.subscribe();
    for _ in 0..1030 {
        signals.emit(|| signal("pool.call.dispatched"));
    }
    drop(signals);
    watch_worker_events(receiver, None, CancellationToken::new()).await;
    let text = recorder.handle().render();
    assert!(text.contains("patchboard_telemetry_events_missed_total 6\n"), "{text}");
    assert!(text.contains("patchboard_telemetry_events_total{kind=\"pool.call\"} 1024\n"), "{text}");
}

#[test]
fn workers_that_are_gone_count_no_more() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _metrics = metrics::set_default_local_recorder(&recorder);
    let mut samples = WorkerSamples::default();
    let began = Instant::now();
    let memory = |worker: &str| sample("python.memory.sampled", "a", worker, "rss_bytes", MeasuredValue::Int(1));
    samples.record(&memory("old"), began);
    samples.record(&memory("new"), began + MAX_SAMPLE_AGE);
    assert_eq!(samples.memory.len(), 1);
    for worker in 0..MAX_WORKERS + 5 {
        samples.record(&memory(&worker.to_string()), began + MAX_SAMPLE_AGE);
    }
    assert_eq!(samples.memory.len(), MAX_WORKERS);
    assert!(recorder.handle().render().contains("patchboard_worker_sampled_memory_bytes{pool=\"a\"} 1024\n"));
}

#[test]
fn which_signals_become_spans() {
    let (spans, _finished) = SpanQueue::new(IdSource::starting_at(1));
    let took = |name: &str, trace: &str| {
        signal(name).with_metadata("traceparent", trace).with_measure("duration", MeasuredValue::Int(5))
    };
    let error = |signal: &TelemetryEvent| worker_span(signal, &spans).map(|span| (span.name.into_owned(), span.error));
    let whole = took("tool.execution.stop", SAMPLED);
    let cases = [
        (whole.clone(), Some(("worker tool".to_owned(), None))),
        (whole.with_metadata("tool_name", "add"), Some(("worker add".to_owned(), None))),
        (
            took("tool.execution.exception", SAMPLED)
                .with_metadata("tool", "add")
                .with_metadata("error_type", "ValueError"),
            Some(("worker add".to_owned(), Some("ValueError".to_owned()))),
        ),
        (took("tool.execution.exception", SAMPLED), Some(("worker tool".to_owned(), Some("tool_error".to_owned())))),
        (took("tool.execution.start", SAMPLED), None),
        (took("tool.execution.stop", &SAMPLED.replace("-01", "-00")), None),
        (took("tool.execution.stop", "nonsense"), None),
        (signal("tool.execution.stop").with_measure("duration", MeasuredValue::Int(5)), None),
        (signal("tool.execution.stop").with_metadata("traceparent", SAMPLED), None),
    ];
    for (signal, expected) in cases {
        assert_eq!(error(&signal), expected, "{signal:?}");
    }
}

#[test]
fn odd_durations() {
    let (spans, _finished) = SpanQueue::new(IdSource::starting_at(1));
    for (duration, seconds) in [
        (MeasuredValue::Int(-5), Some(0)),
        (MeasuredValue::Int(2_000_000_000), Some(2)),
        (MeasuredValue::Float(3e9), Some(3)),
        (MeasuredValue::Float(f64::NAN), Some(0)),
        (MeasuredValue::Int(i64::MAX), Some(9_223_372_036)),
        (MeasuredValue::Text("5".into()), None),
    ] {
        let signal = signal("tool.execution.stop")
            .with_metadata("traceparent", SAMPLED)
            .with_measure("duration", duration.clone());
        let took = worker_span(&signal, &spans).map(|span| span.end.duration_since(span.start).as_secs());
        assert_eq!(took, seconds, "{duration:?}");
    }
}
