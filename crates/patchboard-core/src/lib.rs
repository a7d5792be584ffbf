//! The board everything is patched into: commands in, numbered events out, and nothing about wires, sockets, SQL or
//! HTTP. Reading order:
//!
//! - [`command`] and [`reply`]: what may be asked and what is answered at once; [`event`]: what is told over time.
//! - [`board`]: the only way in; [`access`]: who may ask what.
//! - [`log`]: the only place that numbers events; [`session`]: one turn at a time.
//! - [`run`]: strategies (pure) and their driver; [`tool`] and [`approval`]: the one path of every tool call.
//! - [`app`]: hub apps, the routing of utterances and their delivery.
//! - [`bridge`]: sessions of programs, their variables, workers and what they tell about themselves.
//! - [`plugin`]: sandboxed plugins and their tools; [`channel`]: people who come by webhook, through plugins.
//! - [`memory`], [`budget`], [`agent`], [`catalogue`]: what is recalled, what may be spent, who answers and with which model.
//! - [`workspaces`]: threads that clients put together.
//! - [`loopback`]: which hosts mean this machine; [`backoff`] and [`retry_after`]: delays between
//!   attempts.
//! - [`live`]: settings that are replaced while the server works.
//! - [`trace`]: every span, and how traces come in and go on.
//! - [`port`]: what the core needs from outside; [`record`]: the stored forms; [`local`] and [`scripted`]: in-process
//!   stand-ins for tests and demos.

pub mod access;
pub mod agent;
pub mod app;
pub mod approval;
pub mod audit;
pub mod backoff;
pub mod board;
pub mod bridge;
pub mod budget;
pub mod catalogue;
pub mod channel;
pub mod command;
pub mod error;
pub mod event;
#[cfg(test)]
mod faulty;
pub mod id;
pub mod in_memory;
pub mod log;
pub mod loopback;
pub mod memory;
pub mod model;
pub mod plugin;
pub mod port;
pub mod record;
pub mod reloadable;
pub mod reply;
pub mod retry_after;
pub mod run;
pub mod scripted;
pub mod session;
mod telemetry;
pub mod text;
pub mod tokens;
pub mod tool;
pub mod trace;
pub mod workspaces;

pub use board::{Board, BoardLimits, BoardParts};
pub use error::{BoardError, ErrorKind, RetryHint};
