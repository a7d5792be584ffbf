//! The metrics of this crate.

use patchboard_core::model::ModelError;

const FAILED_ATTEMPTS: &str = "patchboard_model_failed_attempts_total";
const FALLBACKS: &str = "patchboard_model_fallbacks_total";

/// Counts a failed attempt, whether or not another one follows.
pub(crate) fn failed_attempt(provider: &str, error: &ModelError) {
    let kind = match error {
        ModelError::NotConfigured(_) => "not_configured",
        ModelError::Rejected(_) => "rejected",
        ModelError::RateLimited(_) => "rate_limited",
        ModelError::Unavailable(_) => "unavailable",
        ModelError::Timeout(_) => "timeout",
        ModelError::Truncated(_) => "truncated",
        ModelError::Cancelled => "cancelled",
    };
    metrics::counter!(FAILED_ATTEMPTS, "provider" => provider.to_owned(), "kind" => kind).increment(1);
}

/// Counts a request that went to a fallback provider.
pub(crate) fn fallback(provider: &str) {
    metrics::counter!(FALLBACKS, "provider" => provider.to_owned()).increment(1);
}
