//! Logs on standard error, with secrets cut out at the sink, the recorder behind `/metrics`, and traces for a collector.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

mod metric;
pub(crate) mod otlp;
mod redact;
mod signals;

pub(crate) use otlp::TraceLayer;
pub(crate) use redact::Redactor;
pub(crate) use signals::watch_signals;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Human,
    Json,
}

/// Starts logging and, with `traces`, following what belongs to traces. Called once, by the commands that log.
pub(crate) fn start_logging(
    directives: &str,
    format: Format,
    colour: Colour,
    redactor: Arc<Redactor>,
    traces: Option<TraceLayer>,
) -> Result<(), String> {
    let filter = EnvFilter::try_new(directives).map_err(|error| format!("bad log filter `{directives}`: {error}"))?;
    let sink = Sink { redactor };
    let colour = colour == Colour::On;
    let Some(traces) = traces else { return start_logs_only(filter, format, colour, sink) };
    let logs = tracing_subscriber::fmt::layer().with_writer(sink).with_ansi(colour);
    let logs = match format {
        Format::Human => logs.with_target(false).boxed(),
        Format::Json => logs.json().flatten_event(true).boxed(),
    };
    // What is logged and what is traced are chosen apart.
    let both =
        tracing_subscriber::registry().with(logs.with_filter(filter)).with(traces.with_filter(TraceLayer::filter()));
    both.try_init().map_err(|error| error.to_string())
}

/// One filter before everything: what nobody logs costs nothing.
fn start_logs_only(filter: EnvFilter, format: Format, colour: bool, sink: Sink) -> Result<(), String> {
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(sink).with_ansi(colour);
    let started = match format {
        Format::Human => logs.with_target(false).try_init(),
        Format::Json => logs.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| error.to_string())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    On,
    Off,
}

impl Colour {
    /// On a terminal, unless `NO_COLOR` says otherwise.
    pub(crate) fn choose(no_color: bool) -> Self {
        if !no_color && io::stderr().is_terminal() { Self::On } else { Self::Off }
    }
}

/// Upper bounds of duration histograms, in seconds: from a local tool to a long answer.
const SECONDS: &[f64] = &[0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// Installs the recorder; the answer renders what it holds.
pub(crate) fn start_metrics() -> Result<PrometheusHandle, String> {
    let builder = PrometheusBuilder::new().set_buckets(SECONDS).map_err(|error| error.to_string())?;
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|error| error.to_string())?;
    Ok(handle)
}

/// Writes whole lines to standard error after the redactor has seen them.
#[derive(Debug, Clone)]
struct Sink {
    redactor: Arc<Redactor>,
}

struct Line<'a> {
    redactor: &'a Redactor,
}

impl<'a> MakeWriter<'a> for Sink {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        Line { redactor: &self.redactor }
    }
}

impl Write for Line<'_> {
    /// The subscriber hands over one whole event at a time.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stderr().lock().write_all(&self.redactor.redact(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}
