//! `patchboard faults`: shows the running server's last warnings and errors.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::failure::CommandFailure;
use super::{ServerTarget, block_on};
use crate::output;
use crate::output::{Column, TableCell, TextRole, TextTable, clock};

#[derive(Debug, Args)]
pub(crate) struct FaultsArgs {
    #[command(flatten)]
    target: ServerTarget,
    /// Print JSON, one fault a line.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: FaultsArgs) -> Result<ExitCode, CommandFailure> {
    block_on(async move {
        let faults = args.target.connect().await?.list("fault.list", json!({}), usize::MAX).await?;
        if args.json {
            faults.iter().for_each(|fault| output::print_line(&fault.to_string()));
        } else {
            show(&faults);
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn show(faults: &[Value]) {
    if faults.is_empty() {
        return output::eprint_line("no warnings and no errors since the start");
    }
    let mut table = TextTable::new([Column::whole("AT"), Column::whole("LEVEL"), Column::wrap("FAULT")]);
    for fault in faults {
        let text = |key: &str| fault.get(key).and_then(Value::as_str).unwrap_or_default();
        let fields = fault.get("fields").and_then(Value::as_object).into_iter().flatten();
        let fields: Vec<String> =
            fields.map(|(name, value)| format!(" {name}={}", value.as_str().unwrap_or_default())).collect();
        let role = if text("level") == "error" { TextRole::Bad } else { TextRole::Name };
        table.push_row([
            clock::local(text("at"), clock::SECOND).into(),
            TableCell::painted(text("level"), role),
            format!("{}{}", text("message"), fields.concat()).into(),
        ]);
    }
    table.print();
}
