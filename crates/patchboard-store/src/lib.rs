//! Durable state for the board: the store port of the core, implemented on SQLite.
//!
//! * [`SqliteStore`] is the store of one node: one writer thread with group commit, two reader threads.
//! * [`inspect`] looks at a database without serving from it.
//! * [`contract`] is the test suite every implementation of the port has to pass.
//!
//! This crate knows the core's port and nothing else: no surface, no provider, no configuration file.

pub mod contract;
mod error;
mod sqlite;
mod telemetry;

pub use error::OpenError;
pub use sqlite::{DatabaseReport, SqliteOptions, SqliteStore, inspect};
