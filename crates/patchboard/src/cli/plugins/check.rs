//! `patchboard plugins check`: checks a file as a server would.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use bytes::Bytes;
use clap::Args;
use patchboard_config::files::plain_reason;
use patchboard_core::tool::{ToolEffect, ToolSpec};
use patchboard_wasm::{CheckedPlugin, PluginFileError, PluginLimits};
use serde_json::{Value, json};

use super::new;
use crate::cli::block_on;
use crate::cli::failure::CommandFailure;
use crate::output;
use crate::system::SystemClock;

/// One byte more than a plugin may have, so that a longer file is noticed without reading it.
const MAX_READ: u64 = 64 * 1024 * 1024 + 1;
/// Interfaces that need a grant to be of use, with that grant.
const GRANT_PATTERNS: &[(&str, &str)] =
    &[("http", "http:HOST"), ("store", "store:NAME"), ("host-functions", "host-function:NAME")];

#[derive(Debug, Args)]
pub(crate) struct PluginCheckArgs {
    /// The component.
    file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &PluginCheckArgs) -> Result<ExitCode, CommandFailure> {
    let shown = output::one_line(&args.file.display().to_string());
    let bytes = read(&args.file).map_err(|error| {
        CommandFailure::unusable(format!("cannot read `{shown}`: {}", plain_reason(&error)))
            .hint("name the file that was built, such as target/wasm32-wasip2/release/NAME.wasm")
    })?;
    let checked = block_on(async {
        let checked = patchboard_wasm::check(bytes, PluginLimits::default(), Arc::new(SystemClock)).await;
        checked.map_err(|refusal| refusal_failure(&shown, &refusal))
    })?;
    match args.json {
        true => output::print_line(&as_json(&checked).to_string()),
        false => lines(&shown, &checked).iter().for_each(|line| output::print_line(line)),
    }
    Ok(ExitCode::SUCCESS)
}

fn read(file: &Path) -> io::Result<Bytes> {
    let mut bytes = Vec::new();
    // Opening a pipe would block until it has a writer.
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    File::open(file)?.take(MAX_READ).read_to_end(&mut bytes)?;
    Ok(bytes.into())
}

/// A rejected file. Reported as unusable input, since a server would refuse to load it.
fn refusal_failure(file: &str, refusal: &PluginFileError) -> CommandFailure {
    let failure =
        CommandFailure::unusable(format!("`{file}` cannot be a plugin: {}", output::one_line(refusal.reason())));
    match refusal.advice() {
        Some(advice) => failure.hint(advice),
        None => failure.hint("`patchboard plugins new NAME` begins one that works"),
    }
}

/// `patchboard:plugin@1.0.0`, from the WIT file.
fn world() -> &'static str {
    let package = new::WORLD.lines().find_map(|line| line.strip_prefix("package "));
    package.map(|package| package.trim_end_matches(';')).unwrap_or_default()
}

fn lines(file: &str, checked: &CheckedPlugin) -> Vec<String> {
    #[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
    let size = checked.size as f64 / 1024.0;
    let mut lines = vec![
        format!("{file}: a plugin of {}", world()),
        format!("  sha256    {}", checked.sha256),
        format!("  size      {size:.1} KiB, compiled in {} ms", checked.compile_time.as_millis()),
        format!("  imports   {}", listed(checked.imports.iter().map(|name| &**name))),
    ];
    if !checked.wasi.is_empty() {
        // Compilers add imports such as `wasi:cli/exit@0.2.6` by the dozen, so only packages are shown.
        let packages =
            checked.wasi.iter().map(|name| name.split_once('/').map_or(name.as_str(), |(package, _)| package));
        let packages: BTreeSet<&str> = packages.collect();
        lines.push(format!("  wasi      {} (there, and empty)", listed(packages.into_iter())));
    }
    let wanted = usable_grants(checked);
    match wanted.is_empty() {
        true => lines.push("  grants    it can use none".to_owned()),
        false => lines.push(format!("  grants    it can use {}", wanted.join(", "))),
    }
    lines.push(format!("  channel   {}", if checked.has_channel { "yes" } else { "no" }));
    for (index, tool) in checked.tools.iter().enumerate() {
        let title = if index == 0 { "tools" } else { "" };
        let summary = tool.description.lines().next().unwrap_or_default();
        lines.push(output::one_line(&format!("  {title:8}  {}({})  {summary}", tool.name, arguments(tool))));
    }
    lines
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(output::one_line).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

fn usable_grants(checked: &CheckedPlugin) -> Vec<&'static str> {
    let imported = |name: &str| checked.imports.iter().any(|import| &**import == name);
    GRANT_PATTERNS.iter().filter(|(name, _)| imported(name)).map(|(_, grant)| *grant).collect()
}

/// `text, times?: integer`: names of properties, `?` for optional ones, and their types.
fn arguments(tool: &ToolSpec) -> String {
    let schema = &tool.input_schema;
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    let shown = properties.into_iter().flatten().map(|(name, property)| {
        let optional = if required.contains(&name.as_str()) { "" } else { "?" };
        match property.get("type").and_then(Value::as_str) {
            Some(kind) => format!("{name}{optional}: {kind}"),
            None => format!("{name}{optional}"),
        }
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn as_json(checked: &CheckedPlugin) -> Value {
    let tools = checked.tools.iter().map(|tool| {
        json!({
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool.input_schema,
            "read_only": tool.effect == ToolEffect::ReadOnly,
        })
    });
    json!({
        "world": world(),
        "sha256": checked.sha256,
        "size_bytes": checked.size,
        "compile_ms": u64::try_from(checked.compile_time.as_millis()).unwrap_or(u64::MAX),
        "imports": checked.imports,
        "wasi": checked.wasi,
        "grants": usable_grants(checked),
        "channel": checked.has_channel,
        "tools": tools.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
