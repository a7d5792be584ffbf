//! Traces for a collector, as OTLP over HTTP in JSON. Where no collector is configured nothing of this is in place.
//!
//! - `layer`: from spans of the program to spans of a trace; `span`: what those are, their ids and which are kept.
//! - `queue`: bounded, and what finds no place is counted; `wire`: their JSON; `export`: batches on their way.

use std::sync::Arc;

use patchboard_core::port::{Clock, IdGenerator};
use patchboard_core::trace;
use patchboard_http::PostAddress;

use super::Redactor;

mod export;
mod layer;
mod queue;
mod span;
mod wire;

pub(crate) use export::SpanExporter;
pub(crate) use layer::TraceLayer;
pub(crate) use queue::SpanQueue;
pub(super) use span::{AttributeValue, FinishedSpan, IdSource, TraceSpanKind};

use export::ExportTiming;
use span::TraceSampler;
use wire::Resource;

#[derive(Debug)]
pub(crate) struct TraceOptions<'a> {
    /// The collector's root; `/v1/traces` is added.
    pub(crate) endpoint: &'a str,
    pub(crate) service_name: &'a str,
    pub(crate) version: &'static str,
    /// Share of the traces begun here that are kept. For those begun elsewhere whoever began them decided.
    pub(crate) sample_ratio: f64,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: &'a dyn IdGenerator,
}

/// What there is to do for traces besides listening.
#[derive(Debug)]
pub(crate) struct TracePipeline {
    /// Runs until the server stops.
    pub(crate) exporter: SpanExporter,
    /// Takes spans of other programs.
    pub(crate) spans: SpanQueue,
}

/// For servers that keep no log either.
pub(crate) const TRACES_DISABLED: Option<TracePipeline> = None;

/// The layer that makes spans, and what sends them. An error says what is wrong with the address.
pub(crate) fn build_pipeline(options: TraceOptions<'_>) -> Result<(TraceLayer, TracePipeline), String> {
    let address = PostAddress::below(options.endpoint, "/v1/traces")
        .map_err(|problem| format!("`telemetry.otlp_endpoint` cannot be used: {problem}"))?;
    let instance = options.ids.next().to_string();
    let resource = Resource { service: options.service_name.to_owned(), version: options.version, instance };
    let (spans, finished) = SpanQueue::new(IdSource::random());
    let exporter = SpanExporter::new(finished, address, resource, options.redactor, ExportTiming::default());
    let layer = TraceLayer::new(spans.clone(), TraceSampler::new(options.sample_ratio), options.clock);
    trace::install_backend(layer::SPAN_BACKEND);
    Ok((layer, TracePipeline { exporter, spans }))
}

#[cfg(test)]
mod tests;
