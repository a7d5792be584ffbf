//! `patchboard explain`

use std::process::ExitCode;

use clap::Args;

use super::failure::Failure;
use super::output;
use crate::explain;

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The code, such as PB0103; left out, all codes are listed.
    code: Option<String>,
}

pub(super) fn run(args: ExplainArgs) -> Result<ExitCode, Failure> {
    let Some(code) = args.code else {
        let rows: Vec<Vec<String>> =
            explain::codes().map(|(code, title)| vec![code.to_owned(), title.to_owned()]).collect();
        output::table(&["CODE", "MEANING"], &rows);
        return Ok(ExitCode::SUCCESS);
    };
    match explain::explain(&code) {
        Some(page) => {
            output::line(page.trim_end());
            Ok(ExitCode::SUCCESS)
        }
        None => Err(Failure::unusable(format!("there is no error code `{code}`"))
            .hint("`patchboard explain` lists all of them")),
    }
}
