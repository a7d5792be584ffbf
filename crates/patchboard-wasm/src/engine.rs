//! The engine for guests: compiler, memory, threads of its own, and an epoch ticker that makes guests yield. Created
//! with the first plugin; knows nothing of plugins beyond running a call.

pub(crate) mod admission;
pub(crate) mod config;
mod pace;
pub(crate) mod ticker;

pub(crate) use admission::{CallSlot, PluginQuota, SlotError};
pub(crate) use pace::CallPace;
