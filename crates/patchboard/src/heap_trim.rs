//! Returns memory to the system after a burst, such as thousands of short connections.
//!
//! glibc's allocator by itself returns only free memory at the end of a heap; pages between used blocks stay resident.
//! `malloc_trim` returns those too, but walks the whole heap, so it is called only when the process holds clearly more
//! than it uses. Other allocators (musl, macOS) are left alone.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Interval of measurements. Each reads one file and the allocator's counters.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Excess over the minimum overhead so far; less does not justify a walk over the heap.
const MIN_EXCESS: u64 = 8 << 20;
/// If a walk left much behind, because memory was in use or is not the heap's, the number of measurements until the
/// next one is doubled up to this: at most one walk per minute, and one within a minute after a burst.
const MAX_INTERVAL: u32 = 6;

/// Measures periodically and trims when it is worthwhile, until `stop`.
pub(crate) async fn trim_periodically(stop: CancellationToken) {
    let Some(mut trimmer) = heap::measure().map(TrimSchedule::new) else { return };
    loop {
        tokio::select! {
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
            () = stop.cancelled() => return,
        }
        let Some(usage) = heap::measure() else { return };
        if !trimmer.is_worth_it(usage) {
            continue;
        }
        // Off the runtime's threads: it takes milliseconds per hundred megabytes.
        if tokio::task::spawn_blocking(heap::trim).await.is_err() {
            return;
        }
        let Some(after) = heap::measure() else { return };
        trimmer.trimmed(after);
        let returned_bytes = usage.resident.saturating_sub(after.resident);
        tracing::debug!(size_bytes = returned_bytes, "unused memory was returned to the system");
    }
}

/// Memory of the process in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MemoryUsage {
    /// Resident memory.
    resident: u64,
    /// Used blocks of the heap.
    in_use: u64,
}

impl MemoryUsage {
    /// Everything else: code, stacks, database caches, and free heap memory, of which only the last changes much.
    fn overhead(self) -> u64 {
        self.resident.saturating_sub(self.in_use)
    }
}

/// Decides when a walk over the heap is worthwhile.
#[derive(Debug)]
struct TrimSchedule {
    /// The minimum overhead so far.
    min_overhead: u64,
    /// Measurements between two walks, and those since the previous one.
    interval: u32,
    checks_since_trim: u32,
}

impl TrimSchedule {
    fn new(usage: MemoryUsage) -> Self {
        Self { min_overhead: usage.overhead(), interval: 1, checks_since_trim: 0 }
    }

    fn is_worth_it(&mut self, usage: MemoryUsage) -> bool {
        if !self.has_excess(usage) {
            self.interval = 1;
            self.checks_since_trim = 0;
            return false;
        }
        self.checks_since_trim += 1;
        self.checks_since_trim >= self.interval
    }

    fn trimmed(&mut self, usage: MemoryUsage) {
        self.interval = if self.has_excess(usage) { (self.interval * 2).min(MAX_INTERVAL) } else { 1 };
        self.checks_since_trim = 0;
    }

    fn has_excess(&mut self, usage: MemoryUsage) -> bool {
        self.min_overhead = self.min_overhead.min(usage.overhead());
        usage.overhead() > self.min_overhead + MIN_EXCESS
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod heap {
    use super::MemoryUsage;

    /// `None` if `/proc` is not available.
    pub(super) fn measure() -> Option<MemoryUsage> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kibibytes: u64 = resident.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
        Some(MemoryUsage { resident: kibibytes * 1024, in_use: in_use() })
    }

    #[expect(unsafe_code, reason = "no safe crate offers the figures of glibc's allocator")]
    fn in_use() -> u64 {
        // Not `mallinfo2`, which needs glibc 2.33. These counters wrap at 4 GiB, which may cause an unnecessary walk.
        // SAFETY: reads counters under the allocator's own locks and has no precondition.
        let figures = unsafe { libc::mallinfo() };
        u64::from(figures.uordblks.cast_unsigned()) + u64::from(figures.hblkhd.cast_unsigned())
    }

    #[expect(unsafe_code, reason = "no safe crate offers glibc's `malloc_trim`")]
    pub(super) fn trim() {
        // SAFETY: releases free pages under the allocator's own locks and has no precondition.
        unsafe { libc::malloc_trim(0) };
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod heap {
    use super::MemoryUsage;

    pub(super) fn measure() -> Option<MemoryUsage> {
        None
    }

    pub(super) fn trim() {}
}

#[cfg(test)]
mod tests;
