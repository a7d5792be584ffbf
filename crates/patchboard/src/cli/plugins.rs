//! `patchboard plugins`: the plugins of a running server, and tools for plugin authors.

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::failure::CommandFailure;
use super::{ServerTarget, block_on};
use crate::output;
use crate::output::PageLayout;
use report::PluginReport;

mod check;
mod format;
mod new;
pub(super) mod report;

#[derive(Debug, Args)]
pub(crate) struct PluginsArgs {
    #[command(subcommand)]
    verb: PluginsCommand,
}

#[derive(Debug, Subcommand)]
enum PluginsCommand {
    /// Show the plugins, their grants and their problems.
    List {
        #[command(flatten)]
        target: ServerTarget,
        /// Print JSON, one plugin a line.
        #[arg(long)]
        json: bool,
    },
    /// Check a plugin file without a server.
    Check(check::PluginCheckArgs),
    /// Create a plugin project.
    New(new::NewArgs),
    /// Approve a plugin version that waits because it requires more than the one before.
    Approve(PluginNameArgs),
    /// Load a plugin, or reload it from its file.
    Load {
        /// Its name, or the path of its file. Only files of the configuration and of the plugins folder are loaded.
        plugin: String,
        #[command(flatten)]
        target: ServerTarget,
    },
    /// Unload a plugin until it is loaded again or the server restarts.
    Unload(PluginNameArgs),
}

#[derive(Debug, Args)]
struct PluginNameArgs {
    /// The plugin's name, as `plugins list` shows it.
    name: String,
    #[command(flatten)]
    target: ServerTarget,
}

pub(super) fn run(args: PluginsArgs) -> Result<ExitCode, CommandFailure> {
    match args.verb {
        PluginsCommand::List { target, json } => block_on(list(target, json)),
        PluginsCommand::Check(args) => check::run(&args),
        PluginsCommand::New(args) => new::run(&args),
        PluginsCommand::Approve(args) => block_on(approve(args)),
        PluginsCommand::Load { plugin, target } => block_on(load(plugin, target)),
        PluginsCommand::Unload(args) => block_on(unload(args)),
    }
}

async fn list(target: ServerTarget, json: bool) -> Result<ExitCode, CommandFailure> {
    let items = report::fetch_plugins(&mut target.connect().await?).await?;
    if json {
        items.iter().for_each(|item| output::print_line(&item.to_string()));
        return Ok(ExitCode::SUCCESS);
    }
    let plugins = items.iter().map(report::parse).collect::<anyhow::Result<Vec<PluginReport>>>()?;
    format::plugins(&plugins, PageLayout::of_stdout()).iter().for_each(|line| output::print_line(line));
    Ok(ExitCode::SUCCESS)
}

async fn approve(args: PluginNameArgs) -> Result<ExitCode, CommandFailure> {
    let answer = call_server(&args.target, "plugin.approve", json!({ "name": args.name })).await?;
    output::print_line(&format::change_line("approved", &report::parse(&answer)?));
    Ok(ExitCode::SUCCESS)
}

async fn load(plugin: String, target: ServerTarget) -> Result<ExitCode, CommandFailure> {
    let answer = call_server(&target, "plugin.load", plugin_params(&plugin)?).await?;
    output::print_line(&format::change_line("loaded", &report::parse(&answer)?));
    Ok(ExitCode::SUCCESS)
}

async fn call_server(target: &ServerTarget, method: &str, params: Value) -> Result<Value, CommandFailure> {
    let mut client = target.connect().await?;
    let named = params.get("name").and_then(Value::as_str).map(str::to_owned);
    let error = match client.call(method, params).await {
        Ok(answer) => return Ok(answer),
        Err(error) => error,
    };
    let known = report::fetch_plugins(&mut client).await.unwrap_or_default();
    let known: Vec<PluginReport> = known.iter().filter_map(|item| report::parse(item).ok()).collect();
    Err(match named {
        Some(name) if known.iter().all(|plugin| plugin.name != name) => {
            let known = known.iter().map(|plugin| plugin.name.as_str());
            let otherwise =
                "`patchboard plugins list` shows all of them; a file of the plugins folder is named by its path";
            CommandFailure::unknown_name(&format!("no plugin is named `{name}`"), &name, known, otherwise)
        }
        Some(_) | None => {
            CommandFailure::from(error).hint("`patchboard plugins list` shows what each is and what is wrong with it")
        }
    })
}

/// Plugin names contain neither dots nor slashes. The server may have another working directory, so paths are made
/// absolute.
fn plugin_params(plugin: &str) -> Result<Value, CommandFailure> {
    if plugin.contains(['/', '.']) {
        let path = std::path::absolute(Path::new(plugin))?;
        return Ok(json!({ "path": path.display().to_string() }));
    }
    Ok(json!({ "name": plugin }))
}

async fn unload(args: PluginNameArgs) -> Result<ExitCode, CommandFailure> {
    let answer = call_server(&args.target, "plugin.unload", json!({ "name": args.name })).await?;
    let name = answer.get("unloaded").and_then(Value::as_str).unwrap_or(&args.name);
    output::print_line(&output::one_line(&format!("unloaded {name}")));
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
