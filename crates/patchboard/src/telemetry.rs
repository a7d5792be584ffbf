//! Logs on standard error and in a file, with secrets redacted at the sink; the recorder behind `/metrics`; and traces
//! for a collector.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use patchboard_config::Secrets;
use tracing::Subscriber;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

mod faults;
mod figures;
pub(crate) mod log_file;
mod metric;
mod monitor;
pub(crate) mod otlp;
mod redact;
mod worker_events;

pub(crate) use faults::FaultLog;
use log_file::LogFile;
pub(crate) use monitor::ProcessMonitor;
pub(crate) use otlp::TraceLayer;
pub(crate) use redact::Redactor;
pub(crate) use worker_events::watch_worker_events;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogLineFormat {
    Human,
    Json,
}

/// The parts of logging that can change after its start.
pub(crate) struct LogControl {
    set_filter: Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>,
    pub(crate) redactor: Arc<Redactor>,
    /// Buffers lines until the file is opened.
    pub(crate) file: LogFile,
    pub(crate) faults: FaultLog,
}

/// What a server needs of its process's log.
#[derive(Debug, Clone)]
pub(crate) struct LogFeed {
    pub(crate) faults: FaultLog,
    pub(crate) redactor: Arc<Redactor>,
}

impl LogFeed {
    /// For a process that does not log.
    pub(crate) fn without_log(secrets: &Secrets) -> Self {
        let redactor = Redactor::default();
        redactor.add_secrets(secrets.all());
        Self { faults: FaultLog::default(), redactor: Arc::new(redactor) }
    }
}

impl std::fmt::Debug for LogControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogControl").field("file", &self.file).finish_non_exhaustive()
    }
}

impl LogControl {
    pub(crate) fn feed(&self) -> LogFeed {
        LogFeed { faults: self.faults.clone(), redactor: self.redactor.clone() }
    }

    pub(crate) fn set_filter(&self, filter: LogFilter) -> Result<(), String> {
        (self.set_filter)(filter.0)
    }
}

/// A filter that was parsed successfully.
#[derive(Debug)]
pub(crate) struct LogFilter(EnvFilter);

impl LogFilter {
    pub(crate) fn parse(directives: &str) -> Result<Self, String> {
        let filter = EnvFilter::try_new(directives);
        filter.map(Self).map_err(|error| format!("bad log filter `{directives}`: {error}"))
    }
}

/// Starts logging to standard error and to a file and, with `traces`, recording spans. Called once, by commands that
/// log.
pub(crate) fn start_logging(
    directives: &str,
    format: LogLineFormat,
    colour: LogColour,
    redactor: Arc<Redactor>,
    traces: Option<TraceLayer>,
) -> Result<LogControl, String> {
    let LogFilter(filter) = LogFilter::parse(directives)?;
    let (filter, handle) = reload::Layer::new(filter);
    let file = LogFile::default();
    let errors = StderrSink { redactor: redactor.clone() };
    let faults = FaultLog::default();
    let lines = FileSink { redactor: redactor.clone(), file: file.clone(), faults: faults.clone() };
    let colour = colour == LogColour::On;
    let started = match traces {
        // One filter in front of all layers, so that disabled events cost nothing.
        None => {
            let logs =
                Registry::default().with(filter).with(stderr_layer(errors, format, colour)).with(file_layer(lines));
            let set_filter = move |filter| handle.reload(filter).map_err(|error| error.to_string());
            logs.try_init().map(|()| Box::new(set_filter) as Box<_>)
        }
        // Logs and traces are filtered independently.
        Some(traces) => {
            let logs = stderr_layer(errors, format, colour).and_then(file_layer(lines)).with_filter(filter);
            let both = Registry::default().with(logs).with(traces.with_filter(TraceLayer::filter()));
            let set_filter = move |filter| handle.reload(filter).map_err(|error| error.to_string());
            both.try_init().map(|()| Box::new(set_filter) as Box<_>)
        }
    };
    let set_filter = started.map_err(|error| error.to_string())?;
    Ok(LogControl { set_filter, redactor, file, faults })
}

fn stderr_layer<S>(sink: StderrSink, format: LogLineFormat, colour: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let logs = tracing_subscriber::fmt::layer().with_writer(sink).with_ansi(colour);
    match format {
        LogLineFormat::Human => logs.with_target(false).boxed(),
        LogLineFormat::Json => logs.json().flatten_event(true).boxed(),
    }
}

/// Always JSON, for `patchboard logs` and other programs.
fn file_layer<S>(sink: FileSink) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    tracing_subscriber::fmt::layer().with_writer(sink).with_ansi(false).json().flatten_event(true).boxed()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogColour {
    On,
    Off,
}

impl LogColour {
    /// On if standard error is a terminal and `NO_COLOR` is not set.
    pub(crate) fn choose(no_color: bool) -> Self {
        if !no_color && io::stderr().is_terminal() { Self::On } else { Self::Off }
    }
}

/// Upper bounds of duration histograms in seconds: from a commit to a long answer. Each is at most two and a half times
/// the one before, so that a percentile between two of them says something.
const DURATION_BUCKETS: &[f64] = &[
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.25, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5, 3.5,
    5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 120.0, 300.0,
];

/// Installs the recorder; the returned handle renders its metrics.
pub(crate) fn start_metrics() -> Result<PrometheusHandle, String> {
    let builder = PrometheusBuilder::new().set_buckets(DURATION_BUCKETS).map_err(|error| error.to_string())?;
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|error| error.to_string())?;
    Ok(handle)
}

/// Writes whole redacted lines to standard error.
#[derive(Debug, Clone)]
struct StderrSink {
    redactor: Arc<Redactor>,
}

struct StderrLine<'a> {
    redactor: &'a Redactor,
}

impl<'a> MakeWriter<'a> for StderrSink {
    type Writer = StderrLine<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        StderrLine { redactor: &self.redactor }
    }
}

impl Write for StderrLine<'_> {
    /// The subscriber passes one whole event per call.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stderr().lock().write_all(&self.redactor.redact(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}

/// Writes whole redacted lines to the log file, and keeps warnings and errors.
#[derive(Debug, Clone)]
struct FileSink {
    redactor: Arc<Redactor>,
    file: LogFile,
    faults: FaultLog,
}

struct FileLine<'a> {
    sink: &'a FileSink,
    is_fault: bool,
}

impl<'a> MakeWriter<'a> for FileSink {
    type Writer = FileLine<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        FileLine { sink: self, is_fault: false }
    }

    fn make_writer_for(&'a self, metadata: &tracing::Metadata<'_>) -> Self::Writer {
        FileLine { sink: self, is_fault: *metadata.level() <= tracing::Level::WARN }
    }
}

impl Write for FileLine<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = self.sink.redactor.redact(bytes);
        self.sink.file.write_line(&line);
        if self.is_fault {
            self.sink.faults.record(&line);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
