//! All metrics of the surfaces; each name occurs only here.

use metrics::{Counter, counter, gauge};

pub(crate) fn connection_opened(surface: &'static str) {
    gauge!("patchboard_connections_open", "surface" => surface).increment(1.0);
    counter!("patchboard_connections_total", "surface" => surface).increment(1);
}

pub(crate) fn connection_closed(surface: &'static str) {
    gauge!("patchboard_connections_open", "surface" => surface).decrement(1.0);
}

/// `reason` is from a closed set: `capacity`, `address`, `user`, `host`, `origin`, `token`, `secret`, `signature`,
/// `stale`, `rate`.
pub(crate) fn refused(surface: &'static str, reason: &'static str) {
    counter!("patchboard_refusals_total", "surface" => surface, "reason" => reason).increment(1);
}

/// Counts gRPC calls; `method` and `code` are from closed sets.
pub(crate) fn rpcs(method: &'static str, code: &'static str) -> Counter {
    counter!("patchboard_bridge_rpcs_total", "method" => method, "code" => code)
}
