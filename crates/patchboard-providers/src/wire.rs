//! Small pieces of JSON both dialects read.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;

/// Text that stays where it is unless it has escapes in it. (An optional `Cow` field alone would always be copied.)
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);

impl BorrowedText<'_> {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// What both APIs answer at `/models`.
#[derive(Debug, Deserialize)]
pub(crate) struct ModelList {
    pub(crate) data: Vec<ModelEntry>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ModelEntry {
    pub(crate) id: Arc<str>,
    /// Anthropic has one.
    pub(crate) display_name: Option<Arc<str>>,
}
