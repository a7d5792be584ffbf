//! The tools of recent requests as JSON. Agents offer the same tools call after call, and writing them out would be most
//! of the work of a short request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use patchboard_core::tool::ToolSpec;
use serde::Serialize;
use serde_json::value::RawValue;

/// Sets of tools remembered, for as many agents.
const MAX_CACHED: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct ToolJsonCache(Mutex<VecDeque<CachedTools>>);

#[derive(Debug)]
struct CachedTools {
    tools: Arc<[ToolSpec]>,
    text: Arc<RawValue>,
}

impl ToolJsonCache {
    /// What `write` makes of the tools. Names depend on nothing but the tools offered, so neither does their text.
    pub(crate) fn get_or_write<T: Serialize>(
        &self,
        tools: &Arc<[ToolSpec]>,
        write: impl FnOnce() -> T,
    ) -> serde_json::Result<Arc<RawValue>> {
        if let Some(text) = self.cached(tools) {
            return Ok(text);
        }
        let text: Arc<RawValue> = serde_json::value::to_raw_value(&write())?.into();
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        recent.truncate(MAX_CACHED - 1);
        recent.push_front(CachedTools { tools: tools.clone(), text: text.clone() });
        Ok(text)
    }

    /// By identity: the entry keeps the tools alive, so no others can be at their address.
    fn cached(&self, tools: &Arc<[ToolSpec]>) -> Option<Arc<RawValue>> {
        let recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        recent.iter().find(|written| Arc::ptr_eq(&written.tools, tools)).map(|written| written.text.clone())
    }
}

#[cfg(test)]
mod tests;
