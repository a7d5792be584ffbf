//! `patchboard explain`

use std::process::ExitCode;

use clap::Args;

use super::failure::Failure;
use super::output;
use super::output::{Cell, Column, Role, Table};
use crate::explain;

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The code, such as PB0103; left out, all codes are listed.
    code: Option<String>,
}

pub(super) fn run(args: ExplainArgs) -> Result<ExitCode, Failure> {
    let Some(code) = args.code else {
        let mut table = Table::new([Column::whole("CODE"), Column::wrap("MEANING")]);
        for (code, title) in explain::codes() {
            table.row([Cell::painted(code, Role::Name), title.into()]);
        }
        table.print();
        return Ok(ExitCode::SUCCESS);
    };
    match explain::explain(&code) {
        Some(page) => {
            output::line(page.trim_end());
            Ok(ExitCode::SUCCESS)
        }
        None => {
            let known = explain::codes().map(|(code, _)| code);
            let message = format!("there is no error code `{code}`");
            Err(Failure::unknown(&message, &code, known, "`patchboard explain` lists all of them"))
        }
    }
}
