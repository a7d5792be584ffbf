//! The real clock and real ids: the ports that need nothing but the operating system.

use jiff::Timestamp;
use patchboard_core::port::{Clock, IdGenerator};
use uuid::Uuid;

/// Keeps other processes of the same user out of this one's memory and environment, where keys are: programs that tools
/// start are such processes. There are no core dumps either.
#[cfg(target_os = "linux")]
pub(crate) fn disable_process_dumps() -> std::io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Elsewhere debuggers need a privilege of their own.
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
