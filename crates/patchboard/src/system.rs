//! The real clock and real ids: the ports that need nothing but the operating system.

use jiff::Timestamp;
use patchboard_core::port::{Clock, IdGenerator};
use uuid::Uuid;

/// Denies other processes of the same user access to this one's memory and environment, which contain keys: programs
/// started by tools are such processes. Also disables core dumps.
#[cfg(target_os = "linux")]
pub(crate) fn disable_process_dumps() -> std::io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Other systems require a privilege for debugging.
#[cfg(not(target_os = "linux"))]
pub(crate) fn disable_process_dumps() -> std::io::Result<()> {
    Ok(())
}

#[derive(Debug)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock everything else is given")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Time-ordered, so that newer rows sort later.
#[derive(Debug)]
pub(crate) struct SystemIds;

impl IdGenerator for SystemIds {
    fn next(&self) -> Uuid {
        Uuid::now_v7()
    }
}

#[cfg(test)]
mod tests;
