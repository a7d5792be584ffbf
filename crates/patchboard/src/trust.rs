//! Code and configuration that the server uses must not be changed by the processes it runs.
//!
//! Guarded paths are configuration files, the programs of workers and MCP servers with their scripts, and plugins.
//! Where an agent's command, a writing tool, a worker or an MCP server could change a guarded path, its folder is
//! *exposed*, and this is recorded before the process starts. In a folder that was never exposed, a change counts as
//! the owner's. In an exposed folder a change takes effect only after `patchboard trust`: until then the trusted
//! content of a configuration file is used, and a changed program is not started.
//!
//! * `store` – trusted content, fingerprints and exposed folders, on disk.
//! * `config_file` – which text of a configuration file is used.
//! * `fingerprint` – fingerprints of files and script folders; unchanged files are compared without reading them.
//! * `guarded_files` – which paths a configuration makes the server execute or read.
//! * `path_resolution` – how the system resolves a path, symlink by symlink.
//! * `reach` – what a process with a set of writable folders could change.
//! * `exposure` – whether a process of the server could have changed a file.
//! * `pending_trust` – which programs, plugins and key files wait for trust, and how trust is recorded.
//! * `guard` – the implementation of the tools crate's `WriteGuard`, called before every start.
//! * `config_review` – a summary of what a configuration file asks for.

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
