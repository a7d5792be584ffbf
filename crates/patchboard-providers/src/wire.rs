//! JSON types shared by both dialects.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;

/// Text that is borrowed unless it contains escapes. (serde would always copy a plain optional `Cow` field.)
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);

impl BorrowedText<'_> {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The response of both APIs at `/models`.
#[derive(Debug, Deserialize)]
pub(crate) struct ModelList {
    pub(crate) data: Vec<ModelEntry>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ModelEntry {
    pub(crate) id: Arc<str>,
    /// Only Anthropic sends it.
    pub(crate) display_name: Option<Arc<str>>,
}
