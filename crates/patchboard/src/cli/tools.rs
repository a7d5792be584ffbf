//! `patchboard tools`

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::failure::Failure;
use super::output::{Cell, Column, Role, Table};
use super::{Target, block_on, output};

mod call;

#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    #[command(subcommand)]
    verb: ToolsVerb,
}

#[derive(Debug, Subcommand)]
enum ToolsVerb {
    /// List every tool of the registry.
    List {
        #[command(flatten)]
        target: Target,
        /// Print JSON, one tool a line.
        #[arg(long)]
        json: bool,
    },
    /// Show a tool with its arguments.
    Show {
        name: String,
        #[command(flatten)]
        target: Target,
    },
    /// Call a tool and print its answer.
    Call(call::CallArgs),
    /// Offer what an MCP server or a pool of workers has now, after its tools have changed.
    Approve {
        /// The server's or the pool's name in the configuration.
        server: String,
        #[command(flatten)]
        target: Target,
    },
}

pub(super) fn run(args: ToolsArgs) -> Result<ExitCode, Failure> {
    match args.verb {
        ToolsVerb::List { target, json } => block_on(list(target, json)),
        ToolsVerb::Show { name, target } => block_on(show(name, target)),
        ToolsVerb::Call(args) => call::run(args),
        ToolsVerb::Approve { server, target } => block_on(approve(server, target)),
    }
}

async fn list(target: Target, json: bool) -> Result<ExitCode, Failure> {
    let tools = all(&target).await?;
    if json {
        tools.iter().for_each(|tool| output::line(&tool.to_string()));
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new([Column::whole("NAME"), Column::whole("KIND"), Column::cut("DESCRIPTION")]);
    for tool in &tools {
        let summary = text(tool, "description").lines().next().unwrap_or_default();
        table.row([Cell::painted(text(tool, "name"), Role::Name), text(tool, "kind").into(), summary.into()]);
    }
    table.print();
    Ok(ExitCode::SUCCESS)
}

async fn show(name: String, target: Target) -> Result<ExitCode, Failure> {
    let tools = all(&target).await?;
    let Some(tool) = tools.iter().find(|tool| text(tool, "name") == name) else {
        let message = format!("no tool is named `{}`", output::one_line(&name));
        return Err(Failure::failed(message).hint("`patchboard tools list` shows all of them"));
    };
    output::line(&serde_json::to_string_pretty(tool).unwrap_or_default());
    Ok(ExitCode::SUCCESS)
}

async fn approve(server: String, target: Target) -> Result<ExitCode, Failure> {
    let answer = target.connect().await?.call("tool.approve", json!({ "server": server })).await?;
    let approved = answer.get("approved").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if approved.is_empty() {
        output::error("nothing waited for approval");
    }
    approved.iter().filter_map(Value::as_str).for_each(|name| output::line(&output::one_line(name)));
    Ok(ExitCode::SUCCESS)
}

async fn all(target: &Target) -> Result<Vec<Value>, Failure> {
    Ok(target.connect().await?.list("tool.list", json!({ "limit": 500 }), usize::MAX).await?)
}

fn text<'a>(tool: &'a Value, key: &str) -> &'a str {
    tool.get(key).and_then(Value::as_str).unwrap_or_default()
}
