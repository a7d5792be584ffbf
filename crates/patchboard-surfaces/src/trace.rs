//! The trace context that a client sends with its request.

use axum::http::HeaderMap;
use patchboard_core::trace::TraceParent;

/// Returns the `traceparent` header only if it parses.
pub(crate) fn traceparent(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get("traceparent")?.to_str().ok()?;
    TraceParent::parse(text).map(|_| text)
}
