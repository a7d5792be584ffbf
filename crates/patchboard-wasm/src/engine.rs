//! What guests run on: the compiler's settings, turns, the pace of calls, and the clock that makes guests give way.
//! Knows nothing of what a guest imports.

pub(crate) mod admission;
pub(crate) mod config;
mod pace;
pub(crate) mod ticker;

pub(crate) use admission::{CallSlot, PluginQuota, SlotError};
pub(crate) use pace::CallPace;
