//! `patchboard __exec`: the supervisor of one command, started by the server. See `patchboard_tools::sandbox`.

use std::process::ExitCode;

use super::failure::CommandFailure;

pub(super) fn run() -> Result<ExitCode, CommandFailure> {
    patchboard_tools::sandbox::exec_main().map_err(|error| {
        CommandFailure::unusable(format!("{:#}", anyhow::Error::from(error)))
            .hint("`patchboard serve` starts it where needed")
    })
}
