//! Finished spans, the source of ids, and the sampler.

use patchboard_core::text::cut;
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use uuid::Uuid;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FinishedSpan {
    pub(crate) trace: [u8; 16],
    pub(crate) span: [u8; 8],
    pub(crate) parent: Option<[u8; 8]>,
    pub(crate) name: Cow<'static, str>,
    pub(crate) kind: TraceSpanKind,
    pub(crate) start: Timestamp,
    pub(crate) end: Timestamp,
    pub(crate) attributes: Vec<(&'static str, AttributeValue)>,
    /// The error type, one word.
    pub(crate) error: Option<String>,
}

/// Numbered as in OTLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TraceSpanKind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AttributeValue {
    Text(String),
    Int(i64),
    Float(f64),
    Bool(bool),
}

/// Longer texts are truncated.
const MAX_TEXT_BYTES: usize = 256;

impl AttributeValue {
    pub(crate) fn text(text: &str) -> Self {
        Self::Text(cut(text, MAX_TEXT_BYTES).to_owned())
    }

    pub(crate) fn count(count: u64) -> Self {
        Self::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

/// Ids that are unique but not secret. A counter passed through the bijective mixing function of SplitMix64, so no id
/// repeats within a process.
#[derive(Debug)]
pub(crate) struct IdSource(AtomicU64);

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl IdSource {
    pub(crate) fn random() -> Self {
        let (high, low) = Uuid::new_v4().as_u64_pair();
        Self::starting_at(high ^ low.rotate_left(32))
    }

    pub(crate) fn starting_at(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    pub(crate) fn next_trace_id(&self) -> [u8; 16] {
        (u128::from(self.next()) << 64 | u128::from(self.next())).to_be_bytes()
    }

    pub(crate) fn next_span_id(&self) -> [u8; 8] {
        self.next().to_be_bytes()
    }

    /// Never zero, which OTLP treats as no id.
    fn next(&self) -> u64 {
        loop {
            let mut mixed = self.0.fetch_add(STEP, Ordering::Relaxed);
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^= mixed >> 31;
            if mixed != 0 {
                return mixed;
            }
        }
    }
}

/// Decides by the trace id, so that all services with the same ratio decide alike.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TraceSampler {
    threshold: u64,
}

impl TraceSampler {
    pub(crate) fn new(ratio: f64) -> Self {
        let all = (1_u64 << 63) as f64;
        Self { threshold: (ratio.clamp(0.0, 1.0) * all) as u64 }
    }

    pub(crate) fn is_sampled(self, trace: [u8; 16]) -> bool {
        let [.., a, b, c, d, e, f, g, h] = trace;
        // 63 bits, as a threshold for a ratio of 1 must fit into 64.
        u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1 < self.threshold
    }
}

#[cfg(test)]
mod tests;
