//! Where a client's own trace is, as its request says.

use axum::http::HeaderMap;
use patchboard_core::trace::TraceParent;

/// Only what reads as a position is kept.
pub(crate) fn traceparent(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get("traceparent")?.to_str().ok()?;
    TraceParent::parse(text).map(|_| text)
}
