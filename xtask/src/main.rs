//! Automation of this repository: `cargo xtask <command>`.
//!
//! Knows cargo, Python and Node as programs, and the repository as files. It depends on no crate of the workspace
//! so that it builds in seconds and can judge a tree that does not compile; only what measures (feature `bench`) knows the
//! bridge's messages.

mod args;
mod bench;
mod codegen;
mod e2e;
mod machine;
mod output;
mod plugins;
mod process;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use crate::output::say;
use crate::workspace::Workspace;

fn main() -> ExitCode {
    match run() {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::from(1),
        Err(error) => {
            output::complain(&format!("error: {error:#}"));
            ExitCode::from(2)
        }
    }
}

/// What a command concluded; an `Err` beside it means that it could not conclude anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Good,
    Bad,
}

fn run() -> anyhow::Result<Verdict> {
    let command = args::parse(std::env::args().skip(1))?;
    let workspace = Workspace::find()?;
    match command {
        args::Command::Help => {
            say!("{}", args::HELP);
            Ok(Verdict::Good)
        }
        args::Command::Test(options) => test::run(&workspace, &options),
        args::Command::Tidy(scope) => tidy::run(&workspace, scope),
        args::Command::Codegen(mode) => codegen::run(&workspace, mode),
        args::Command::Plugins(options) => plugins::run(&workspace, options),
        args::Command::Bench(options) => bench::run(&workspace, &options),
        args::Command::BenchRouting(options) => bench::routing::run(&workspace, &options),
        #[cfg(feature = "bench")]
        args::Command::BenchPart(part) => bench::run_part(&workspace, part),
    }
}
