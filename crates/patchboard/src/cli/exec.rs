//! `patchboard __exec`: the supervisor of one command, started by the server. See `patchboard_tools::sandbox`.

use std::process::ExitCode;

use super::failure::Failure;

pub(super) fn run() -> Result<ExitCode, Failure> {
    patchboard_tools::sandbox::exec_main().map_err(|error| {
        Failure::unusable(format!("{:#}", anyhow::Error::from(error))).hint("`patchboard serve` starts it where needed")
    })
}
