//! Traces for a collector, as OTLP over HTTP in JSON. Without a configured collector none of it is active.
//!
//! - `layer`: turns the program's spans into trace spans; `span`: their form, ids and sampling.
//! - `queue`: bounded, dropped spans are counted; `wire`: their JSON; `export`: sends batches.

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
    /// Sampled share of traces that start here. For others the caller's decision is used.
    pub(crate) sample_ratio: f64,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: &'a dyn IdGenerator,
}

/// The running parts of tracing besides the layer.
#[derive(Debug)]
pub(crate) struct TracePipeline {
    pub(crate) exporter: SpanExporter,
    /// Takes spans of other programs.
    pub(crate) spans: SpanQueue,
}

/// For servers without log output.
pub(crate) const TRACES_DISABLED: Option<TracePipeline> = None;

/// Builds the layer that makes spans and the exporter that sends them. Returns an error if the endpoint is invalid.
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
