//! The board everything is patched into: requests in, numbered events out, and nothing about wires, sockets, SQL or
//! HTTP. Modules depend on each other in one direction, which `cargo xtask tidy` checks.
//!
//! The vocabulary, which imports no engine:
//!
//! - [`id`], [`tool`], [`model`], [`conversation`], [`worker`], [`webhook`], [`plugin`], [`run_spec`], [`app`], [`allowance`],
//!   [`caller`], [`error`].
//! - [`keys`]: keys of clients, what each may do, and which are in force.
//! - [`event`]: what is recorded and streamed; [`command`]: what can be asked, each command with the type of its reply;
//!   [`reply`]: replies without a type elsewhere.
//! - [`store`]: rows and the port of the database; [`port`]: all other ports; [`record`]: the stored forms.
//!
//! The engines, each importing the vocabulary and the engines above it in this list:
//!
//! - [`access`]: which grant a command needs; [`tenure`]: whether this process may still act on its work; [`log`]: the
//!   only place that numbers events; [`session`]: one turn at a time.
//! - [`waits`], [`budget`], [`agent`], [`memory`], [`approval`], [`input`]: whether a run waits for an answer, what may
//!   be spent, which agent answers with which model, what is recalled, what needs a person's consent, what is asked; [`audit`]: audit rows that are written after the call returned.
//! - [`executor`]: the one path of every tool call.
//! - [`run`]: strategies (pure), their driver and the recovery after a crash.
//! - [`hub`]: apps, the routing of messages and their delivery; [`bridge`]: sessions of programs, their variables and
//!   telemetry; [`channel`]: deliveries of webhooks; [`workspaces`]: threads that clients group.
//! - [`board`]: the only way in.
//!
//! [`text`], [`tokens`], [`backoff`], [`loopback`], [`reloadable`], [`retry_after`] and [`trace`] are helpers for
//! all of them. [`in_memory`] and [`scripted`] are in-process stand-ins for tests and demos.

pub mod access;
pub mod agent;
pub mod allowance;
pub mod app;
pub mod approval;
pub mod audit;
pub mod backoff;
pub mod board;
pub mod bridge;
pub mod budget;
pub mod caller;
pub mod channel;
pub mod command;
pub mod conversation;
pub mod deliveries;
pub mod error;
pub mod event;
pub mod executor;
pub mod extensions;
#[cfg(test)]
mod faulty;
pub mod figures;
pub mod hub;
pub mod id;
pub mod in_memory;
pub mod input;
pub mod keys;
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
pub mod run_spec;
pub mod scripted;
pub mod session;
pub mod store;
mod telemetry;
pub mod tenure;
pub mod text;
mod todo;
pub mod tokens;
pub mod tool;
pub mod trace;
mod variable_set;
pub mod waits;
pub mod webhook;
pub mod worker;
pub mod workspaces;

pub use board::{Board, BoardLimits, BoardParts};
pub use error::{BoardError, ErrorKind, RetryHint};
