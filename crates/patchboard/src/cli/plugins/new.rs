//! `patchboard plugins new`: creates a plugin project that builds as it is.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::cli::failure::CommandFailure;
use crate::output;

/// The WIT world of this server.
pub(super) const WORLD: &str = include_str!("../../../../../wit/patchboard.wit");
/// Names that Cargo rejects for a package, or the compiler for a library crate.
const RESERVED_NAMES: &str = "abstract alloc as async await become box break const continue core crate do dyn else enum extern \
    false final fn for gen if impl in let loop macro match mod move mut override priv proc_macro pub ref return self static \
    std struct super test trait true try type typeof unsafe unsized use virtual where while yield";

#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// Name of the plugin: a letter, then letters, digits, `-` and `_`.
    name: String,
    /// What it is to be.
    #[arg(long, value_enum, default_value_t = PluginKind::Tool)]
    kind: PluginKind,
    /// Folder to make for it; left out, one of its name in the current folder.
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PluginKind {
    /// A tool for agents and programs.
    Tool,
    /// An adapter between another service and an agent.
    Channel,
}

pub(super) fn run(args: &NewArgs) -> Result<ExitCode, CommandFailure> {
    let folder = create_project(args)?;
    output::print_line(&next_steps(&args.name, &folder));
    Ok(ExitCode::SUCCESS)
}

/// Returns the created folder.
fn create_project(args: &NewArgs) -> Result<PathBuf, CommandFailure> {
    if let Some(complaint) = name_problem(&args.name) {
        let message = format!("`{}` cannot be the name of a plugin: {complaint}", output::one_line(&args.name));
        return Err(CommandFailure::unusable(message).hint("such as `weather` or `my-tool`"));
    }
    let folder = args.path.clone().unwrap_or_else(|| PathBuf::from(&args.name));
    write(&folder, &files(&args.name, args.kind))?;
    Ok(folder)
}

/// Why a name cannot be that of both a plugin and a package.
fn name_problem(name: &str) -> Option<&'static str> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.is_empty() || name.len() > 64 {
        Some("it has 1 to 64 characters")
    } else if !name.starts_with(|first: char| first.is_ascii_alphabetic()) || !name.bytes().all(fits) {
        Some("it has letters, digits, `-` and `_`, and starts with a letter")
    } else if RESERVED_NAMES.split_whitespace().any(|taken| taken.eq_ignore_ascii_case(name)) {
        Some("Rust uses the word for itself")
    } else {
        None
    }
}

/// All files of the project with their contents.
fn files(name: &str, kind: PluginKind) -> Vec<(&'static str, String)> {
    let (source, readme, snippet) = match kind {
        PluginKind::Tool => (
            include_str!("template/tool.rs.txt"),
            include_str!("template/tool.md.txt"),
            include_str!("template/tool.toml.txt"),
        ),
        PluginKind::Channel => (
            include_str!("template/channel.rs.txt"),
            include_str!("template/channel.md.txt"),
            include_str!("template/channel.toml.txt"),
        ),
    };
    let filled = |text: &str| fill_template(text, name);
    vec![
        ("Cargo.toml", filled(include_str!("template/Cargo.toml.txt"))),
        (".gitignore", filled(include_str!("template/gitignore.txt"))),
        ("README.md", filled(readme)),
        ("patchboard.toml", filled(snippet)),
        ("src/lib.rs", filled(source)),
        ("wit/patchboard.wit", WORLD.to_owned()),
    ]
}

/// Cargo names the built file after the crate; tool names need a prefix, as they must differ between plugins.
fn fill_template(text: &str, name: &str) -> String {
    let crate_name = name.replace('-', "_");
    text.replace("@NAME@", name).replace("@FILE@", &crate_name).replace("@TOOL@", &tool_prefix(&crate_name))
}

/// Short enough that the name with `_greet` stays within the limit for tool names.
fn tool_prefix(crate_name: &str) -> String {
    crate_name.to_ascii_lowercase().chars().take(56).collect()
}

/// Writes into a newly created folder, so that nothing is overwritten.
fn write(folder: &Path, files: &[(&str, String)]) -> Result<(), CommandFailure> {
    let shown = output::one_line(&folder.display().to_string());
    fs::create_dir(folder).map_err(|error| {
        if error.kind() == ErrorKind::AlreadyExists {
            return CommandFailure::unusable(format!("`{shown}` is there already"))
                .hint("choose another name, or another folder with --path");
        }
        CommandFailure::unusable(format!("cannot make the folder `{shown}`: {error}"))
            .hint("the folder around it has to be there, and to be writable")
    })?;
    for (name, content) in files {
        let path = folder.join(name);
        let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, content));
        written.map_err(|error| CommandFailure::failed(format!("cannot write `{shown}/{name}`: {error}")))?;
    }
    Ok(())
}

fn next_steps(name: &str, folder: &Path) -> String {
    let (shown, file) = (output::one_line(&folder.display().to_string()), name.replace('-', "_"));
    format!(
        "{shown} is ready. Next:\n\n  cd {shown}\n  cargo build --release --target wasm32-wasip2\n  patchboard plugins \
         check target/wasm32-wasip2/release/{file}.wasm\n\nIf Rust does not have the target yet: rustup target add \
         wasm32-wasip2. README.md goes on from there."
    )
}

#[cfg(test)]
mod tests;
