//! `patchboard tools`: lists, shows, calls and approves tools.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::failure::CommandFailure;
use super::{ServerTarget, block_on};
use crate::client::GatewayClient;
use crate::output;
use crate::output::{Column, TableCell, TextRole, TextTable};

mod call;
mod details;

#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    #[command(subcommand)]
    verb: ToolsCommand,
}

#[derive(Debug, Subcommand)]
enum ToolsCommand {
    /// List every tool of the registry.
    List {
        #[command(flatten)]
        target: ServerTarget,
        /// Print JSON, one tool a line.
        #[arg(long)]
        json: bool,
    },
    /// Show the tools that wait for approval, with what was approved and what there is now.
    Pending(details::PendingArgs),
    /// Show the MCP servers, their state and their tools.
    Servers(details::ServersArgs),
    /// Show a tool with its arguments, its host, its limits and what is decided about its calls.
    Show {
        name: String,
        #[command(flatten)]
        target: ServerTarget,
    },
    /// Call a tool and print its answer.
    Call(call::CallArgs),
    /// Offer what an MCP server or a pool of workers has now, after its tools have changed.
    Approve {
        /// The server's or the pool's name in the configuration.
        server: String,
        #[command(flatten)]
        target: ServerTarget,
    },
}

pub(super) fn run(args: ToolsArgs) -> Result<ExitCode, CommandFailure> {
    match args.verb {
        ToolsCommand::List { target, json } => block_on(list(target, json)),
        ToolsCommand::Show { name, target } => block_on(show(name, target)),
        ToolsCommand::Pending(args) => block_on(details::pending(args)),
        ToolsCommand::Servers(args) => block_on(details::servers(args)),
        ToolsCommand::Call(args) => call::run(args),
        ToolsCommand::Approve { server, target } => block_on(approve(server, target)),
    }
}

async fn list(target: ServerTarget, json: bool) -> Result<ExitCode, CommandFailure> {
    let tools = fetch_tools(&mut target.connect().await?).await?;
    if json {
        tools.iter().for_each(|tool| output::print_line(&tool.to_string()));
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = TextTable::new([Column::whole("NAME"), Column::whole("KIND"), Column::cut("DESCRIPTION")]);
    for tool in &tools {
        let summary = text(tool, "description").lines().next().unwrap_or_default();
        table.push_row([
            TableCell::painted(text(tool, "name"), TextRole::Name),
            text(tool, "kind").into(),
            summary.into(),
        ]);
    }
    table.print();
    Ok(ExitCode::SUCCESS)
}

async fn show(name: String, target: ServerTarget) -> Result<ExitCode, CommandFailure> {
    let mut client = target.connect().await?;
    let found = client.list("tool.describe", json!({ "name": name }), 1).await?;
    let Some(tool) = found.first() else {
        return Err(unknown_tool(&fetch_tools(&mut client).await?, &name));
    };
    output::print_line(&serde_json::to_string_pretty(tool).unwrap_or_default());
    Ok(ExitCode::SUCCESS)
}

async fn approve(server: String, target: ServerTarget) -> Result<ExitCode, CommandFailure> {
    let mut client = target.connect().await?;
    let answer = match client.call("tool.approve", json!({ "server": server })).await {
        Ok(answer) => answer,
        Err(error) => return Err(unknown_server(&target, &mut client, &server, error).await),
    };
    let approved = answer.get("approved").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if approved.is_empty() {
        output::eprint_line("nothing waited for approval");
    }
    approved.iter().filter_map(Value::as_str).for_each(|name| output::print_line(&output::one_line(name)));
    Ok(ExitCode::SUCCESS)
}

async fn fetch_tools(client: &mut GatewayClient) -> anyhow::Result<Vec<Value>> {
    client.list("tool.list", json!({ "limit": 500 }), usize::MAX).await
}

fn unknown_tool(tools: &[Value], name: &str) -> CommandFailure {
    let known = tools.iter().map(|tool| text(tool, "name"));
    CommandFailure::unknown_name(
        &format!("no tool is named `{name}`"),
        name,
        known,
        "`patchboard tools list` shows all of them",
    )
}

/// The error of a refused call; names similar tools if there is none of that name.
async fn call_failure(client: &mut GatewayClient, name: &str, error: anyhow::Error) -> CommandFailure {
    match fetch_tools(client).await {
        Ok(tools) if tools.iter().all(|tool| text(tool, "name") != name) => unknown_tool(&tools, name),
        Ok(_) | Err(_) => error.into(),
    }
}

/// Names of pools come from the server, those of MCP servers from the configuration.
async fn unknown_server(
    target: &ServerTarget,
    client: &mut GatewayClient,
    name: &str,
    error: anyhow::Error,
) -> CommandFailure {
    let pools = client.list("worker.list", json!({}), usize::MAX).await.unwrap_or_default();
    let mut known: Vec<String> = pools.iter().map(|pool| text(pool, "name").to_owned()).collect();
    if let Ok(loaded) = target.place.load() {
        known.extend(loaded.config.mcp.keys().cloned());
    }
    if known.iter().any(|known| known == name) {
        return error.into();
    }
    let message = format!("no MCP server and no pool of workers is named `{name}`");
    let otherwise = match known.is_empty() {
        true => "none is configured: [mcp.NAME] and [[workers]] add some".to_owned(),
        false => format!("there are {}", known.join(", ")),
    };
    CommandFailure::unknown_name(&message, name, known.iter().map(String::as_str), &otherwise)
}

fn text<'a>(tool: &'a Value, key: &str) -> &'a str {
    tool.get(key).and_then(Value::as_str).unwrap_or_default()
}
