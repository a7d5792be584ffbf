//! The cache of tool results. Pure: the caller passes the time.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::tool::ToolOutput;

/// Bytes of all results; past it the oldest are dropped.
const MAX_BYTES: usize = 64 * 1024 * 1024;
const MAX_RESULTS: usize = 4096;
/// Larger results are not cached.
const MAX_RESULT: usize = 4 * 1024 * 1024;

/// Identifies a call within a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CacheKey {
    pub(super) session: Arc<str>,
    /// The pool that has the tool: the same name may later resolve to another pool.
    pub(super) pool: Arc<str>,
    /// The tool's name within the pool.
    pub(super) tool: Arc<str>,
    /// All inputs of the result, in a fixed order.
    pub(super) arguments: Arc<str>,
}

#[derive(Debug, Default)]
pub(super) struct ResultCache {
    results: HashMap<CacheKey, CachedResult>,
    /// Oldest first. May contain entries that are removed or replaced.
    order: VecDeque<(CacheKey, u64)>,
    bytes: usize,
    counter: u64,
}

#[derive(Debug)]
struct CachedResult {
    output: ToolOutput,
    expires_at: Instant,
    bytes: usize,
    number: u64,
}

impl ResultCache {
    pub(super) fn get(&mut self, key: &CacheKey, now: Instant) -> Option<ToolOutput> {
        let cached = self.results.get(key)?;
        if now < cached.expires_at {
            return Some(cached.output.clone());
        }
        self.remove(key);
        None
    }

    pub(super) fn put(&mut self, key: CacheKey, output: ToolOutput, ttl: Duration, now: Instant) {
        let bytes = size(&key, &output);
        let Some(expires_at) = now.checked_add(ttl).filter(|_| bytes <= MAX_RESULT) else { return };
        self.remove(&key);
        self.counter += 1;
        self.bytes += bytes;
        self.order.push_back((key.clone(), self.counter));
        self.results.insert(key, CachedResult { output, expires_at, bytes, number: self.counter });
        // The queue may contain removed entries, so it is bounded too.
        while self.bytes > MAX_BYTES || self.results.len() > MAX_RESULTS || self.order.len() > 2 * MAX_RESULTS {
            let Some((oldest, number)) = self.order.pop_front() else { break };
            if self.results.get(&oldest).is_some_and(|cached| cached.number == number) {
                self.remove(&oldest);
            }
        }
    }

    /// Returns the number of removed results.
    pub(super) fn remove_session(&mut self, session: &str) -> usize {
        let keys: Vec<CacheKey> = self.results.keys().filter(|key| &*key.session == session).cloned().collect();
        for key in &keys {
            self.remove(key);
        }
        keys.len()
    }

    fn remove(&mut self, key: &CacheKey) {
        if let Some(cached) = self.results.remove(key) {
            self.bytes -= cached.bytes;
        }
    }
}

fn size(key: &CacheKey, output: &ToolOutput) -> usize {
    let data = output.data.as_ref().map_or(0, |data| {
        let metadata: usize = data.metadata.iter().map(|(key, value)| key.len() + value.len() + 64).sum();
        data.json.as_ref().map_or(0, bytes::Bytes::len) + data.binary.as_ref().map_or(0, bytes::Bytes::len) + metadata
    });
    key.arguments.len() + output.content.len() + data + 256
}

#[cfg(test)]
mod tests;
