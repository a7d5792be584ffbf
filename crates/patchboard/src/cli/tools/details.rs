//! `patchboard tools pending` and `patchboard tools servers`.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::text;
use crate::cli::ServerTarget;
use crate::cli::failure::CommandFailure;
use crate::output;
use crate::output::{Column, TableCell, TextRole, TextTable, clock};

#[derive(Debug, Args)]
pub(super) struct PendingArgs {
    #[command(flatten)]
    target: ServerTarget,
    /// Print JSON, one tool a line.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ServersArgs {
    #[command(flatten)]
    target: ServerTarget,
    /// Print JSON, one server a line.
    #[arg(long)]
    json: bool,
}

pub(super) async fn pending(args: PendingArgs) -> Result<ExitCode, CommandFailure> {
    let changes = args.target.connect().await?.list("tool.pending", json!({}), usize::MAX).await?;
    if args.json {
        changes.iter().for_each(|change| output::print_line(&change.to_string()));
    } else if changes.is_empty() {
        output::eprint_line("no tool waits for approval");
    } else {
        changes.iter().flat_map(change_lines).for_each(|line| output::print_line(&line));
    }
    Ok(ExitCode::SUCCESS)
}

/// A heading, the old text with `-` and the new one with `+`.
fn change_lines(change: &Value) -> Vec<String> {
    let (server, tool) = (output::one_line(text(change, "server")), output::one_line(text(change, "tool")));
    let changed: Vec<&str> =
        change.get("changed").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let what = if changed.is_empty() { "is new".to_owned() } else { format!("has another {}", changed.join(", ")) };
    let mut lines = vec![format!("{tool} {what}; `patchboard tools approve {server}` approves it")];
    for (sign, key) in [('-', "before"), ('+', "now")] {
        let Some(definition) = change.get(key).filter(|definition| definition.is_object()) else { continue };
        for part in ["description", "input_schema"] {
            let is_shown = changed.is_empty() || part == "description" || changed.contains(&"inputSchema");
            let shown = output::plain(text(definition, part));
            lines.extend(shown.lines().filter(|_| is_shown).map(|line| format!("  {sign} {line}")));
        }
    }
    lines
}

pub(super) async fn servers(args: ServersArgs) -> Result<ExitCode, CommandFailure> {
    let servers = args.target.connect().await?.list("mcp.list", json!({}), usize::MAX).await?;
    if args.json {
        servers.iter().for_each(|server| output::print_line(&server.to_string()));
        return Ok(ExitCode::SUCCESS);
    }
    if servers.is_empty() {
        output::eprint_line("no MCP server is configured: [mcp.NAME] adds one");
        return Ok(ExitCode::SUCCESS);
    }
    let columns = [Column::whole("NAME"), Column::whole("STATE"), Column::whole("SINCE"), Column::number("TOOLS")];
    let mut table = TextTable::new(columns);
    for server in &servers {
        let tools = server.get("tools").and_then(Value::as_array).map_or(0, Vec::len);
        table.push_row([
            TableCell::painted(text(server, "name"), TextRole::Name),
            text(server, "state").into(),
            clock::local(text(server, "since"), clock::SECOND).into(),
            tools.to_string().into(),
        ]);
        if !text(server, "trouble").is_empty() {
            table.add_remark(&format!("last trouble: {}", text(server, "trouble")));
        }
    }
    table.print();
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
