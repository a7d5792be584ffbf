//! `patchboard tools`

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::failure::Failure;
use super::output::{Cell, Column, Role, Table};
use super::{Target, block_on, output};
use crate::client::Client;

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
    let tools = all(&mut target.connect().await?).await?;
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
    let tools = all(&mut target.connect().await?).await?;
    let Some(tool) = tools.iter().find(|tool| text(tool, "name") == name) else {
        return Err(unknown(&tools, &name));
    };
    output::line(&serde_json::to_string_pretty(tool).unwrap_or_default());
    Ok(ExitCode::SUCCESS)
}

async fn approve(server: String, target: Target) -> Result<ExitCode, Failure> {
    let mut client = target.connect().await?;
    let answer = match client.call("tool.approve", json!({ "server": server })).await {
        Ok(answer) => answer,
        Err(error) => return Err(unknown_server(&target, &mut client, &server, error).await),
    };
    let approved = answer.get("approved").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if approved.is_empty() {
        output::error("nothing waited for approval");
    }
    approved.iter().filter_map(Value::as_str).for_each(|name| output::line(&output::one_line(name)));
    Ok(ExitCode::SUCCESS)
}

async fn all(client: &mut Client) -> anyhow::Result<Vec<Value>> {
    client.list("tool.list", json!({ "limit": 500 }), usize::MAX).await
}

fn unknown(tools: &[Value], name: &str) -> Failure {
    let known = tools.iter().map(|tool| text(tool, "name"));
    Failure::unknown(&format!("no tool is named `{name}`"), name, known, "`patchboard tools list` shows all of them")
}

/// A call that was refused: most likely because there is no such tool.
async fn refused(client: &mut Client, name: &str, error: anyhow::Error) -> Failure {
    match all(client).await {
        Ok(tools) if tools.iter().all(|tool| text(tool, "name") != name) => unknown(&tools, name),
        Ok(_) | Err(_) => error.into(),
    }
}

/// Names of pools come from the server, those of MCP servers from the configuration.
async fn unknown_server(target: &Target, client: &mut Client, name: &str, error: anyhow::Error) -> Failure {
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
    Failure::unknown(&message, name, known.iter().map(String::as_str), &otherwise)
}

fn text<'a>(tool: &'a Value, key: &str) -> &'a str {
    tool.get(key).and_then(Value::as_str).unwrap_or_default()
}
