//! Limits memory and tables of one call.

use wasmtime::ResourceLimiter;

/// Tables hold functions; typical guests have a few thousand.
pub(crate) const MAX_TABLE_ELEMENTS: usize = 100_000;
/// Core instances of one component: a few for compiled languages, some dozens with a linked interpreter.
pub(crate) const MAX_INSTANCES: u32 = 64;

/// Refuses growth beyond the limit and records the refusal, so that the failure can be explained.
#[derive(Debug)]
pub(crate) struct MemoryLimiter {
    memory: usize,
    /// Bytes of all memories of the call.
    used: usize,
    pub(crate) was_refused: bool,
}

impl MemoryLimiter {
    pub(crate) fn new(memory: usize) -> Self {
        Self { memory, used: 0, was_refused: false }
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let used = self.used.saturating_add(desired.saturating_sub(current));
        let fits = used <= self.memory;
        match fits {
            true => self.used = used,
            false => self.was_refused = true,
        }
        Ok(fits)
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let fits = desired <= MAX_TABLE_ELEMENTS;
        self.was_refused |= !fits;
        Ok(fits)
    }

    fn instances(&self) -> usize {
        MAX_INSTANCES as usize
    }

    fn tables(&self) -> usize {
        MAX_INSTANCES as usize
    }

    fn memories(&self) -> usize {
        MAX_INSTANCES as usize
    }
}
