//! Durable state for the board: the core's store port, implemented on SQLite.
//!
//! * [`SqliteStore`] is the store of one node: one writer thread with group commit, two reader threads.
//! * [`inspect`] examines a database without serving from it.
//! * [`contract`] is the test suite that every implementation of the port has to pass.
//!
//! This crate must know the core's port only: no surface, no provider, no configuration file.

pub mod contract;
mod error;
mod sqlite;
mod telemetry;

pub use error::OpenError;
pub use sqlite::{DatabaseReport, SqliteOptions, SqliteStore, inspect};
