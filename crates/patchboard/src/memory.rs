//! Gives memory back to the system after a burst, such as thousands of clients that came and left.
//!
//! By itself glibc's allocator returns only free memory at the end of a heap; pages between blocks in use stay resident
//! for good. `malloc_trim` returns those too, but has to walk over all of the heap, so it is called only when the process
//! holds clearly more than it uses. Other allocators (musl, macOS) do as they do.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// How often is looked. A look reads one file and the allocator's counters.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Held beyond the least that was ever held: less is not worth a walk over the heap.
const WORTH_TRIMMING: u64 = 8 << 20;
/// Where a walk left much behind, because memory was just being used or because it is not the heap's, the next one waits
/// for twice as many looks, up to this: a walk a minute at most, and one within a minute after a burst.
const MOST_LOOKS: u32 = 6;

/// Looks from time to time and trims where that is worth it, until told to stop.
pub(crate) async fn give_back(stop: CancellationToken) {
    let Some(mut trimmer) = heap::look().map(Trimmer::new) else { return };
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = stop.cancelled() => return,
        }
        let Some(usage) = heap::look() else { return };
        if !trimmer.is_worth_it(usage) {
            continue;
        }
        // Off the runtime's threads: it takes some milliseconds for each hundred megabytes.
        if tokio::task::spawn_blocking(heap::trim).await.is_err() {
            return;
        }
        let Some(after) = heap::look() else { return };
        trimmer.trimmed(after);
        let returned_bytes = usage.resident.saturating_sub(after.resident);
        tracing::debug!(size_bytes = returned_bytes, "unused memory was returned to the system");
    }
}

/// What the process occupies, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Usage {
    /// Memory of the machine.
    resident: u64,
    /// Blocks of the heap that are in use.
    in_use: u64,
}

impl Usage {
    /// Everything else: code, stacks, caches of the database, and free memory of the heap, of which only the last changes
    /// much.
    fn held(self) -> u64 {
        self.resident.saturating_sub(self.in_use)
    }
}

/// Decides when a walk over the heap would return something.
#[derive(Debug)]
struct Trimmer {
    /// The least that was ever held.
    least_held: u64,
    /// Looks between two walks, and those since the last one.
    looks: u32,
    since: u32,
}

impl Trimmer {
    fn new(usage: Usage) -> Self {
        Self { least_held: usage.held(), looks: 1, since: 0 }
    }

    fn is_worth_it(&mut self, usage: Usage) -> bool {
        if !self.holds_much(usage) {
            self.looks = 1;
            self.since = 0;
            return false;
        }
        self.since += 1;
        self.since >= self.looks
    }

    fn trimmed(&mut self, usage: Usage) {
        self.looks = if self.holds_much(usage) { (self.looks * 2).min(MOST_LOOKS) } else { 1 };
        self.since = 0;
    }

    fn holds_much(&mut self, usage: Usage) -> bool {
        self.least_held = self.least_held.min(usage.held());
        usage.held() > self.least_held + WORTH_TRIMMING
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod heap {
    use super::Usage;

    /// `None` where `/proc` is not there.
    pub(super) fn look() -> Option<Usage> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kibibytes: u64 = resident.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
        Some(Usage { resident: kibibytes * 1024, in_use: in_use() })
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
    use super::Usage;

    pub(super) fn look() -> Option<Usage> {
        None
    }

    pub(super) fn trim() {}
}

#[cfg(test)]
mod tests;
