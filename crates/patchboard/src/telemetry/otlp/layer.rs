//! The tracing layer: turns the program's own spans into trace spans.

use patchboard_core::tool::ToolKind;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use patchboard_core::port::Clock;
use patchboard_core::trace::{SpanBackend, TraceParent, field, name};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterFn, filter_fn};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, Registry, SpanRef};

use super::span::TraceSampler;
use super::{AttributeValue, FinishedSpan, SpanQueue, TraceSpanKind};

/// The callbacks by which the core reads and sets the position in a trace.
pub(super) const SPAN_BACKEND: SpanBackend = SpanBackend { current_position: position, set_parent };

#[derive(Debug)]
pub(crate) struct TraceLayer {
    spans: SpanQueue,
    sampler: TraceSampler,
    clock: Arc<dyn Clock>,
}

impl TraceLayer {
    pub(super) fn new(spans: SpanQueue, sampler: TraceSampler, clock: Arc<dyn Clock>) -> Self {
        Self { spans, sampler, clock }
    }

    /// Passes the spans needed for traces, independent of the log filter.
    pub(crate) fn filter() -> FilterFn<fn(&Metadata<'_>) -> bool> {
        let belongs: fn(&Metadata<'_>) -> bool = |metadata| {
            metadata.is_span() && metadata.target().starts_with("patchboard") && name::ALL.contains(&metadata.name())
        };
        filter_fn(belongs).with_max_level_hint(LevelFilter::DEBUG)
    }
}

/// The state of an open span.
#[derive(Debug)]
struct OpenSpan {
    trace: [u8; 16],
    span: [u8; 8],
    parent: Option<[u8; 8]>,
    /// If false, only ids are kept, for the children to inherit.
    is_sampled: bool,
    start: Timestamp,
    attributes: Vec<(&'static str, AttributeValue)>,
}

impl OpenSpan {
    fn position(&self) -> TraceParent {
        TraceParent { trace: self.trace, span: self.span, is_sampled: self.is_sampled }
    }
}

impl<S> Layer<S> for TraceLayer
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let parent_position = span.parent().and_then(position_of);
        let (trace, parent, is_sampled) = match parent_position {
            Some(parent_position) => (parent_position.trace, Some(parent_position.span), parent_position.is_sampled),
            None => {
                let trace = self.spans.ids().next_trace_id();
                (trace, None, self.sampler.is_sampled(trace))
            }
        };
        let mut open = OpenSpan {
            trace,
            span: self.spans.ids().next_span_id(),
            parent,
            is_sampled,
            start: self.clock.now(),
            attributes: Vec::new(),
        };
        // A root that is not sampled may still be adopted into a trace that is.
        if is_sampled || parent.is_none() {
            attributes.record(&mut AttributeCollector(&mut open.attributes));
        }
        span.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<OpenSpan>().filter(|open| open.is_sampled) {
            values.record(&mut AttributeCollector(&mut open.attributes));
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(open) = span.extensions_mut().remove::<OpenSpan>() else { return };
        if open.is_sampled {
            self.spans.push(finish(span.name(), open, self.clock.now()));
        }
    }
}

fn finish(name: &'static str, open: OpenSpan, end: Timestamp) -> FinishedSpan {
    let OpenSpan { trace, span, parent, start, mut attributes, .. } = open;
    let has = |attributes: &[(&str, AttributeValue)], key: &str, value: &str| {
        attributes
            .iter()
            .any(|(name, recorded)| *name == key && matches!(recorded, AttributeValue::Text(text) if text == value))
    };
    let kind = match name {
        name::REQUEST => TraceSpanKind::Server,
        name::MODEL_CALL => TraceSpanKind::Client,
        name::TOOL_CALL if has(&attributes, field::TOOL_KIND, ToolKind::Worker.name()) => TraceSpanKind::Client,
        _ => TraceSpanKind::Internal,
    };
    let error = attributes.iter().find_map(|(key, value)| match value {
        AttributeValue::Text(text) if *key == field::ERROR => Some(text.clone()),
        AttributeValue::Text(_) | AttributeValue::Int(_) | AttributeValue::Float(_) | AttributeValue::Bool(_) => None,
    });
    add_conventions(name, &mut attributes);
    // If the clock was set back, the span must not end before it starts.
    FinishedSpan { trace, span, parent, name: Cow::Borrowed(name), kind, start, end: end.max(start), attributes, error }
}

/// The attribute names of OpenTelemetry's conventions for generative AI.
const CONVENTIONS: &[(&str, &str)] = &[
    (field::SESSION, "gen_ai.conversation.id"),
    (field::AGENT, "gen_ai.agent.name"),
    (field::PROVIDER, "gen_ai.provider.name"),
    (field::MODEL, "gen_ai.request.model"),
    (field::ANSWERED_BY, "gen_ai.response.model"),
    (field::INPUT_TOKENS, "gen_ai.usage.input_tokens"),
    (field::OUTPUT_TOKENS, "gen_ai.usage.output_tokens"),
    (field::TOOL, "gen_ai.tool.name"),
    (field::CALL, "gen_ai.tool.call.id"),
];

fn add_conventions(name: &str, attributes: &mut Vec<(&'static str, AttributeValue)>) {
    let operation = match name {
        name::RUN => Some("invoke_agent"),
        name::MODEL_CALL => Some("chat"),
        name::TOOL_CALL => Some("execute_tool"),
        _ => None,
    };
    let known = |key: &str| CONVENTIONS.iter().find(|(own, _)| *own == key).map(|(_, convention)| *convention);
    let again: Vec<_> = attributes.iter().filter_map(|(key, value)| Some((known(key)?, value.clone()))).collect();
    attributes.extend(operation.map(|operation| ("gen_ai.operation.name", AttributeValue::text(operation))));
    attributes.extend(again);
}

/// Collects attributes: the last value of a field wins; fields without a value are absent.
struct AttributeCollector<'a>(&'a mut Vec<(&'static str, AttributeValue)>);

impl AttributeCollector<'_> {
    fn set(&mut self, field: &Field, value: AttributeValue) {
        match self.0.iter_mut().find(|(name, _)| *name == field.name()) {
            Some((_, old)) => *old = value,
            None => self.0.push((field.name(), value)),
        }
    }
}

impl Visit for AttributeCollector<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, AttributeValue::text(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, AttributeValue::Int(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, AttributeValue::count(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, AttributeValue::Float(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, AttributeValue::Bool(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, AttributeValue::text(&format!("{value:?}")));
    }
}

fn position_of<'a, R: LookupSpan<'a>>(span: SpanRef<'a, R>) -> Option<TraceParent> {
    span.scope().find_map(|span| span.extensions().get::<OpenSpan>().map(OpenSpan::position))
}

/// The current position on this thread.
fn position() -> Option<TraceParent> {
    let found = tracing::Span::current()
        .with_subscriber(|(id, dispatch)| position_of(dispatch.downcast_ref::<Registry>()?.span(id)?));
    found.flatten()
}

fn set_parent(span: &tracing::Span, parent: TraceParent) {
    span.with_subscriber(|(id, dispatch)| {
        let span = dispatch.downcast_ref::<Registry>()?.span(id)?;
        if let Some(open) = span.extensions_mut().get_mut::<OpenSpan>() {
            (open.trace, open.parent, open.is_sampled) = (parent.trace, Some(parent.span), parent.is_sampled);
        }
        Some(())
    });
}
