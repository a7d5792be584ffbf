//! Gives memory back to the system after a burst, such as thousands of clients that came and left.
//!
//! By itself glibc's allocator returns only free memory at the end of a heap; pages between blocks in use stay resident
//! for good. `malloc_trim` returns those too, but has to walk over all of the heap, so it is called only when the process
//! holds clearly more than it uses. Other allocators (musl, macOS) do as they do.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// How often is looked. A measure reads one file and the allocator's counters.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Held beyond the least that was ever held: less is not worth a walk over the heap.
const MIN_EXCESS: u64 = 8 << 20;
/// Where a walk left much behind, because memory was just being used or because it is not the heap's, the next one waits
/// for twice as many looks, up to this: a walk a minute at most, and one within a minute after a burst.
const MAX_INTERVAL: u32 = 6;

/// Looks from time to time and trims where that is worth it, until told to stop.
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
        // Off the runtime's threads: it takes some milliseconds for each hundred megabytes.
        if tokio::task::spawn_blocking(heap::trim).await.is_err() {
            return;
        }
        let Some(after) = heap::measure() else { return };
        trimmer.trimmed(after);
        let returned_bytes = usage.resident.saturating_sub(after.resident);
        tracing::debug!(size_bytes = returned_bytes, "unused memory was returned to the system");
    }
}

/// What the process occupies, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MemoryUsage {
    /// Memory of the machine.
    resident: u64,
    /// Blocks of the heap that are in use.
    in_use: u64,
}

impl MemoryUsage {
    /// Everything else: code, stacks, caches of the database, and free memory of the heap, of which only the last changes
    /// much.
    fn overhead(self) -> u64 {
        self.resident.saturating_sub(self.in_use)
    }
}

/// Decides when a walk over the heap would return something.
#[derive(Debug)]
struct TrimSchedule {
    /// The least that was ever held.
    min_overhead: u64,
    /// Looks between two walks, and those since the last one.
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

    /// `None` where `/proc` is not there.
    pub(super) fn measure() -> Option<MemoryUsage> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kibibytes: u64 = resident.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
        Some(MemoryUsage { resident: kibibytes * 1024, in_use: in_use() })
    }

    #[expect(unsafe_code, reason = "no safe crate offers the figures of glibc's allocator")]
    fn in_use() -> u64 {
        // Not `mallinfo2`, which glibc has only since 2.33. The counters of this one begin anew after 4 GiB, and then a
        // walk over the heap may be made for nothing.
        // SAFETY: reads counters under the allocator's own locks and has no precondition.
        let figures = unsafe { libc::mallinfo() };
        u64::from(figures.uordblks.cast_unsigned()) + u64::from(figures.hblkhd.cast_unsigned())
    }

    #[expect(unsafe_code, reason = "no safe crate offers glibc's `malloc_trim`")]
    pub(super) fn trim() {
        // SAFETY: gives free pages back under the allocator's own locks and has no precondition.
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
