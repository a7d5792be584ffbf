//! `patchboard explain`: shows the page of an error code.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::failure::CommandFailure;
use crate::explain;
use crate::output;
use crate::output::{Column, TableCell, TextRole, TextTable};

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The code, such as PB0103; left out, all codes are listed.
    code: Option<String>,
    /// Print JSON, one code a line; with a code, one object with its page.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: ExplainArgs) -> Result<ExitCode, CommandFailure> {
    let Some(code) = args.code else {
        if args.json {
            explain::codes()
                .for_each(|(code, title)| output::print_line(&json!({ "code": code, "meaning": title }).to_string()));
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = TextTable::new([Column::whole("CODE"), Column::wrap("MEANING")]);
        for (code, title) in explain::codes() {
            table.push_row([TableCell::painted(code, TextRole::Name), title.into()]);
        }
        table.print();
        return Ok(ExitCode::SUCCESS);
    };
    match explain::explain(&code) {
        Some(page) => {
            let found = explain::codes().find(|(known, _)| known.eq_ignore_ascii_case(code.trim()));
            let json = found
                .filter(|_| args.json)
                .map(|(code, title)| json!({ "code": code, "meaning": title, "page": page }));
            output::print_line(&json.map_or_else(|| page.trim_end().to_owned(), |json| json.to_string()));
            Ok(ExitCode::SUCCESS)
        }
        None => {
            let known = explain::codes().map(|(code, _)| code);
            let message = format!("there is no error code `{code}`");
            Err(CommandFailure::unknown_name(&message, &code, known, "`patchboard explain` lists all of them"))
        }
    }
}
