//! Patchboard: one board for people, apps, agents and tool workers.
//!
//! `cli` is what can be said; `config` what is configured; `assemble` makes a board of it; `serve` runs it.

mod assemble;
mod cli;
mod client;
mod config;
mod credentials;
mod data_dir;
mod explain;
mod memory;
mod serve;
mod system;
mod telemetry;
mod trust;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
