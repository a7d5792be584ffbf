//! `patchboard completions`: the completion script of a shell.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use clap_complete::aot;

use super::failure::CommandFailure;
use super::help;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell that reads it.
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[expect(clippy::unnecessary_wraps, reason = "every command ends like this")]
pub(super) fn run(args: &CompletionsArgs) -> Result<ExitCode, CommandFailure> {
    output::print(&script(args.shell));
    Ok(ExitCode::SUCCESS)
}

fn script(shell: Shell) -> String {
    let shell = match shell {
        Shell::Bash => aot::Shell::Bash,
        Shell::Zsh => aot::Shell::Zsh,
        Shell::Fish => aot::Shell::Fish,
    };
    let mut command = help::command();
    let mut script = Vec::new();
    aot::generate(shell, &mut command, "patchboard", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests;
