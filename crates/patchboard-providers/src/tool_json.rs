//! A cache of serialised tool lists. Agents offer the same tools in every call, and serialising them would dominate the
//! cost of a short request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use patchboard_core::tool::ToolSpec;
use serde::Serialize;
use serde_json::value::RawValue;

/// Cached tool lists; one per agent, so this many agents.
const MAX_CACHED: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct ToolJsonCache(Mutex<VecDeque<CachedTools>>);

#[derive(Debug)]
struct CachedTools {
    tools: Arc<[ToolSpec]>,
    text: Arc<RawValue>,
}

impl ToolJsonCache {
    /// The serialised tools. `write` must depend on the tools only; mapped names do.
    pub(crate) fn get_or_write<T: Serialize>(
        &self,
        tools: &Arc<[ToolSpec]>,
        write: impl FnOnce() -> T,
    ) -> serde_json::Result<Arc<RawValue>> {
        if let Some(text) = self.cached(tools) {
            return Ok(text);
        }
        let text: Arc<RawValue> = serde_json::value::to_raw_value(&write())?.into();
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.truncate(MAX_CACHED - 1);
        entries.push_front(CachedTools { tools: tools.clone(), text: text.clone() });
        Ok(text)
    }

    /// Compares by address: the entry keeps its list alive, so no other list can have that address.
    fn cached(&self, tools: &Arc<[ToolSpec]>) -> Option<Arc<RawValue>> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().find(|entry| Arc::ptr_eq(&entry.tools, tools)).map(|entry| entry.text.clone())
    }
}

#[cfg(test)]
mod tests;
