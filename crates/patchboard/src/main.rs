//! Patchboard: one board for people, apps, agents and tool workers.
//!
//! `cli` parses commands; `patchboard_config` loads the configuration; `assemble` builds a board from it; `serve` runs
//! it.

mod assemble;
mod cli;
mod client;
mod data_dir;
mod effective_config;
mod explain;
mod heap_trim;
mod onboard;
mod output;
mod provider_choice;
mod serve;
mod system;
mod telemetry;
#[cfg(test)]
mod test_home;
mod trust;

use std::panic::{UnwindSafe, catch_unwind};
use std::process::ExitCode;

/// Of this program, as it tells others.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Exit code of an internal error, `EX_SOFTWARE` in `sysexits.h`.
const SOFTWARE_FAULT: u8 = 70;

fn main() -> ExitCode {
    guarded(cli::run)
}

fn guarded(run: impl FnOnce() -> ExitCode + UnwindSafe) -> ExitCode {
    // The panic hook has printed the location.
    catch_unwind(run).unwrap_or_else(|_| {
        output::eprint_line(
            "error: this is a fault of Patchboard, not yours; please report what you typed and the lines above",
        );
        ExitCode::from(SOFTWARE_FAULT)
    })
}

#[cfg(test)]
mod tests;
