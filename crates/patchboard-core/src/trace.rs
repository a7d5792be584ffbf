//! All spans of the core, and propagation of trace context into requests and out of calls. Knows the text form of W3C
//! Trace Context but no span backend: one is registered with [`install_backend`], and until then propagation costs
//! nothing.
//!
//! The tree is `request` → `run` → `model_call` | `tool_call`. Fields hold names, numbers and ids, never content.

use std::sync::{Arc, OnceLock};

use tracing::Span;
use tracing::field::Empty;

use crate::caller::Caller;
use crate::error::{BoardError, ErrorKind};
use crate::event::RunOutcome;
use crate::id::{CallId, RunId, SessionKey};
use crate::model::{ModelError, TokenCount};
use crate::tool::{ToolFault, ToolOutput};

mod parent;

pub use parent::TraceParent;

pub mod name {
    //! Names of spans.
    pub const REQUEST: &str = "request";
    pub const RUN: &str = "run";
    pub const MODEL_CALL: &str = "model_call";
    pub const TOOL_CALL: &str = "tool_call";
    pub const ALL: [&str; 4] = [REQUEST, RUN, MODEL_CALL, TOOL_CALL];
}

pub mod field {
    //! Names of span fields. The macros below cannot take constants, so they repeat these names.
    pub const SURFACE: &str = "surface";
    pub const REQUEST_NAME: &str = "request.name";
    pub const CONNECTION: &str = "conn.id";
    pub const RUN: &str = "run.id";
    pub const OUTCOME: &str = "run.outcome";
    pub const SESSION: &str = "session.key";
    pub const AGENT: &str = "agent.name";
    pub const PROVIDER: &str = "model.provider";
    pub const MODEL: &str = "model.name";
    pub const ANSWERED_BY: &str = "model.answered";
    pub const INPUT_TOKENS: &str = "tokens.input";
    pub const OUTPUT_TOKENS: &str = "tokens.output";
    pub const TOOL: &str = "tool.name";
    pub const TOOL_KIND: &str = "tool.kind";
    pub const CALL: &str = "tool.call_id";
    /// Set on failure, to a word of a closed set.
    pub const ERROR: &str = "error.type";
}

/// The span backend; both callbacks must be thread-safe.
#[derive(Debug, Clone, Copy)]
pub struct SpanBackend {
    /// The position of the current span.
    pub current_position: fn() -> Option<TraceParent>,
    /// Sets the parent of a span that has no children yet.
    pub set_parent: fn(&Span, TraceParent),
}

static SPAN_BACKEND: OnceLock<SpanBackend> = OnceLock::new();

/// Registers the span backend. Only the first registration counts.
pub fn install_backend(backend: SpanBackend) {
    SPAN_BACKEND.get_or_init(|| backend);
}

/// The `traceparent` to send with a call that leaves the process.
pub fn current_traceparent() -> Option<Arc<str>> {
    let position = (SPAN_BACKEND.get()?.current_position)()?;
    Some(position.to_string().into())
}

/// Sets the parent of a new span to that of its remote cause; invalid text is ignored.
pub fn set_remote_parent(span: &Span, traceparent: Option<&str>) {
    if let (Some(backend), Some(text)) = (SPAN_BACKEND.get(), traceparent)
        && let Some(position) = TraceParent::parse(text)
    {
        (backend.set_parent)(span, position);
    }
}

/// Opens the span of one request. `name` must be one of a closed set.
pub fn request(caller: &Caller, name: &'static str, traceparent: Option<&str>) -> Span {
    let span = tracing::debug_span!(
        name::REQUEST,
        surface = caller.surface.name(),
        request.name = name,
        conn.id = caller.connection.0,
        error.type = Empty,
    );
    set_remote_parent(&span, traceparent);
    span
}

/// `traceparent` is the position of the request that started the run; the run may outlive it.
pub(crate) fn run(run: RunId, session: &SessionKey, agent: &str, traceparent: Option<&str>) -> Span {
    let span = tracing::info_span!(
        name::RUN,
        run.id = %run,
        session.key = %session,
        agent.name = agent,
        run.outcome = Empty,
        error.type = Empty,
    );
    set_remote_parent(&span, traceparent);
    span
}

/// Must be called within the span of the run.
pub(crate) fn run_ended(outcome: RunOutcome) {
    let (outcome, failed) = match outcome {
        RunOutcome::Completed => ("completed", false),
        RunOutcome::Failed => ("failed", true),
        RunOutcome::Cancelled => ("cancelled", false),
        RunOutcome::Interrupted => ("interrupted", true),
    };
    let span = Span::current();
    span.record(field::OUTCOME, outcome);
    if failed {
        span.record(field::ERROR, outcome);
    }
}

pub(crate) fn model_call(provider: &str, model: &str) -> Span {
    tracing::debug_span!(
        name::MODEL_CALL,
        model.provider = provider,
        model.name = model,
        model.answered = Empty,
        tokens.input = Empty,
        tokens.output = Empty,
        error.type = Empty,
    )
}

pub(crate) fn model_answered(
    span: &Span,
    answering_model: Option<&str>,
    tokens: TokenCount,
    failed: Option<&ModelError>,
) {
    if span.is_disabled() {
        return;
    }
    if let Some(model) = answering_model {
        span.record(field::ANSWERED_BY, model);
    }
    span.record(field::INPUT_TOKENS, tokens.input);
    span.record(field::OUTPUT_TOKENS, tokens.output);
    if let Some(error) = failed {
        let label = match error {
            ModelError::NotConfigured(_) => "not_configured",
            ModelError::Rejected(_) => "rejected",
            ModelError::RateLimited(_) => "rate_limited",
            ModelError::Unavailable(_) => "unavailable",
            ModelError::Timeout(_) => "timeout",
            ModelError::Truncated(_) => "truncated",
            ModelError::Cancelled => "cancelled",
        };
        span.record(field::ERROR, label);
    }
}

pub(crate) fn tool_call(name: &str, kind: &'static str, call: &CallId) -> Span {
    tracing::debug_span!(
        name::TOOL_CALL,
        tool.name = name,
        tool.kind = kind,
        tool.call_id = %call,
        error.type = Empty,
    )
}

pub(crate) fn tool_answered(span: &Span, output: &ToolOutput) {
    if !output.is_error || span.is_disabled() {
        return;
    }
    let label = match output.data.as_ref().and_then(|data| data.fault) {
        None => "tool_error",
        Some(ToolFault::Unavailable) => "unavailable",
        Some(ToolFault::QueueTimeout) => "queue_timeout",
        Some(ToolFault::Saturated) => "saturated",
        Some(ToolFault::WorkerBusy) => "worker_busy",
        Some(ToolFault::TimedOut) => "timeout",
        Some(ToolFault::Cancelled) => "cancelled",
        Some(ToolFault::Invalid) => "invalid",
        Some(ToolFault::Argument) => "invalid_argument",
        Some(ToolFault::NotFound) => "not_found",
        Some(ToolFault::Internal) => "internal",
    };
    span.record(field::ERROR, label);
}

/// Records on the span of a request that it failed.
pub(crate) fn request_failed(span: &Span, error: &BoardError) {
    span.record(field::ERROR, error_kind_label(error.kind));
}

fn error_kind_label(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Invalid => "invalid",
        ErrorKind::Unauthenticated => "unauthenticated",
        ErrorKind::Forbidden => "forbidden",
        ErrorKind::NotFound => "not_found",
        ErrorKind::Conflict => "conflict",
        ErrorKind::Exhausted => "exhausted",
        ErrorKind::Timeout => "timeout",
        ErrorKind::Cancelled => "cancelled",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Upstream => "upstream",
        ErrorKind::Internal => "internal",
    }
}
