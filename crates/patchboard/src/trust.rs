//! What the server executes or obeys is never changed by what it runs.
//!
//! Configuration files, programs of workers and MCP servers with their scripts, and plugins are *obeyed*. Where an agent's
//! command, a writing tool, a worker or an MCP server could change one of them, its folder is *exposed*; that is on record
//! before the process starts. In a folder that was never exposed a change is its owner's. In an exposed one a change counts
//! only after `patchboard trust`: until then configuration goes on with the content that was trusted, and a changed program
//! is not started.
//!
//! * `store` – trusted content, fingerprints and exposed folders, on disk.
//! * `config_file` – which text of a configuration file counts.
//! * `fingerprint` – files and script folders of programs, compared without reading them where nothing changed.
//! * `obeyed` – what a configuration makes the server obey.
//! * `trail` – how the system finds a file, link by link.
//! * `reach` – what a process with some writable folders could change.
//! * `exposure` – whether something the server ran could have changed a file.
//! * `waiting` – what of programs, plugins and files with keys waits, and how it is recorded.
//! * `guard` – the port of the tools crate, asked before every start.
//! * `asks` – what a configuration file asks for, in words.

pub(crate) mod config_file;
pub(crate) mod config_review;
pub(crate) mod exposure;
pub(crate) mod fingerprint;
pub(crate) mod guard;
pub(crate) mod guarded_files;
mod path_resolution;
pub(crate) mod pending_trust;
mod reach;
pub(crate) mod store;

pub(crate) use config_file::{ConfigVerdict, DiskText, TrustedReader, judge_config};
pub(crate) use store::TrustStore;
