//! `patchboard plugins`: those of a running server, and help for whoever writes one.

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::failure::Failure;
use super::output::Page;
use super::{Target, block_on, output};
use report::Plugin;

mod check;
mod new;
pub(super) mod report;
mod words;

#[derive(Debug, Args)]
pub(crate) struct PluginsArgs {
    #[command(subcommand)]
    verb: PluginsVerb,
}

#[derive(Debug, Subcommand)]
enum PluginsVerb {
    /// Show what plugins are there, what they may reach and what is wrong with them.
    List {
        #[command(flatten)]
        target: Target,
        /// Print JSON, one plugin a line.
        #[arg(long)]
        json: bool,
    },
    /// Tell what a server would say about a file, without one.
    Check(check::CheckArgs),
    /// Begin a plugin: a project that builds.
    New(new::NewArgs),
    /// Take over the version of a plugin that waits because it wants more than the one before.
    Approve(OneArgs),
    /// Load a plugin, or load it anew from its file.
    Load {
        /// Its name, or the path of its file. Only files of the configuration and of the plugins folder are loaded.
        plugin: String,
        #[command(flatten)]
        target: Target,
    },
    /// Take a plugin away until it is loaded again, or the server starts anew.
    Unload(OneArgs),
}

#[derive(Debug, Args)]
struct OneArgs {
    /// The plugin's name, as `plugins list` shows it.
    name: String,
    #[command(flatten)]
    target: Target,
}

pub(super) fn run(args: PluginsArgs) -> Result<ExitCode, Failure> {
    match args.verb {
        PluginsVerb::List { target, json } => block_on(list(target, json)),
        PluginsVerb::Check(args) => check::run(&args),
        PluginsVerb::New(args) => new::run(&args),
        PluginsVerb::Approve(args) => block_on(approve(args)),
        PluginsVerb::Load { plugin, target } => block_on(load(plugin, target)),
        PluginsVerb::Unload(args) => block_on(unload(args)),
    }
}

async fn list(target: Target, json: bool) -> Result<ExitCode, Failure> {
    let items = report::all(&mut target.connect().await?).await?;
    if json {
        items.iter().for_each(|item| output::line(&item.to_string()));
        return Ok(ExitCode::SUCCESS);
    }
    let plugins = items.iter().map(report::read).collect::<anyhow::Result<Vec<Plugin>>>()?;
    words::plugins(&plugins, Page::of_stdout()).iter().for_each(|line| output::line(line));
    Ok(ExitCode::SUCCESS)
}

async fn approve(args: OneArgs) -> Result<ExitCode, Failure> {
    let answer = ask(&args.target, "plugin.approve", json!({ "name": args.name })).await?;
    output::line(&words::changed("approved", &report::read(&answer)?));
    Ok(ExitCode::SUCCESS)
}

async fn load(plugin: String, target: Target) -> Result<ExitCode, Failure> {
    let answer = ask(&target, "plugin.load", named(&plugin)?).await?;
    output::line(&words::changed("loaded", &report::read(&answer)?));
    Ok(ExitCode::SUCCESS)
}

async fn ask(target: &Target, method: &str, params: Value) -> Result<Value, Failure> {
    let mut client = target.connect().await?;
    let named = params.get("name").and_then(Value::as_str).map(str::to_owned);
    let error = match client.call(method, params).await {
        Ok(answer) => return Ok(answer),
        Err(error) => error,
    };
    let known = report::all(&mut client).await.unwrap_or_default();
    let known: Vec<Plugin> = known.iter().filter_map(|item| report::read(item).ok()).collect();
    Err(match named {
        Some(name) if known.iter().all(|plugin| plugin.name != name) => {
            let known = known.iter().map(|plugin| plugin.name.as_str());
            let otherwise =
                "`patchboard plugins list` shows all of them; a file of the plugins folder is named by its path";
            Failure::unknown(&format!("no plugin is named `{name}`"), &name, known, otherwise)
        }
        Some(_) | None => {
            Failure::from(error).hint("`patchboard plugins list` shows what each is and what is wrong with it")
        }
    })
}

/// Names have no dots and no slashes. The server may have been started elsewhere, so a path is made absolute.
fn named(plugin: &str) -> Result<Value, Failure> {
    if plugin.contains(['/', '.']) {
        let path = std::path::absolute(Path::new(plugin))?;
        return Ok(json!({ "path": path.display().to_string() }));
    }
    Ok(json!({ "name": plugin }))
}

async fn unload(args: OneArgs) -> Result<ExitCode, Failure> {
    let answer = ask(&args.target, "plugin.unload", json!({ "name": args.name })).await?;
    let name = answer.get("unloaded").and_then(Value::as_str).unwrap_or(&args.name);
    output::line(&output::one_line(&format!("unloaded {name}")));
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
