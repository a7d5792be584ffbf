//! `patchboard keys`: creates, lists and revokes keys of clients.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::failure::CommandFailure;
use super::run::live_display::format_count;
use super::{ServerTarget, block_on};
use crate::output;
use crate::output::{Column, TableCell, TextRole, TextTable};

/// More than a server keeps.
const MAX_KEYS: usize = 1_000;

#[derive(Debug, Args)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    verb: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// Create a key and print its secret, which is shown this once.
    Create(CreateArgs),
    /// List the keys and what each may do.
    List {
        #[command(flatten)]
        target: ServerTarget,
        /// Print JSON, one key a line.
        #[arg(long)]
        json: bool,
    },
    /// Revoke a created key: its clients are disconnected, its runs cancelled.
    Revoke {
        /// The key's name, as `keys list` shows it.
        name: String,
        #[command(flatten)]
        target: ServerTarget,
    },
}

#[derive(Debug, Args)]
struct CreateArgs {
    /// Name of the client: letters, digits, `-` and `_`.
    name: String,
    #[command(flatten)]
    target: ServerTarget,
    /// Agents it may start, with commas between them [default: all].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    agents: Option<Vec<String>>,
    /// Where it is accepted: gateway, runs, mcp, hub, bridge [default: everywhere].
    #[arg(long, value_name = "SURFACE", value_delimiter = ',')]
    surfaces: Option<Vec<String>>,
    /// Tools that it and its runs may use, by name or with `*` [default: all].
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    tools: Option<Vec<String>>,
    /// Tokens its runs may use each day, UTC [default: unlimited].
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..))]
    daily: Option<u64>,
    /// Tokens its runs may use each month, UTC [default: unlimited].
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..))]
    monthly: Option<u64>,
    /// Let it see and steer the runs of all clients and answer their approvals.
    #[arg(long)]
    oversee: bool,
}

pub(super) fn run(args: KeysArgs) -> Result<ExitCode, CommandFailure> {
    block_on(async move {
        match args.verb {
            KeysCommand::Create(args) => create(args).await?,
            KeysCommand::List { target, json } => {
                let items = target.connect().await?.list("key.list", json!({}), MAX_KEYS).await?;
                if json {
                    items.iter().for_each(|item| output::print_line(&item.to_string()));
                } else {
                    show(&items);
                }
            }
            KeysCommand::Revoke { name, target } => revoke(&name, &target).await?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Only the secret goes to standard output, so that a script can take it.
async fn create(args: CreateArgs) -> Result<(), CommandFailure> {
    let CreateArgs { name, target, agents, surfaces, tools, daily, monthly, oversee } = args;
    let params = json!({
        "name": name, "agents": agents, "surfaces": surfaces, "tools": tools, "oversee": oversee, "daily": daily,
        "monthly": monthly,
    });
    let created = target.connect().await?.call("key.create", params).await?;
    output::print_line(text(&created, "secret"));
    output::eprint_line(&format!(
        "the key `{}` works now; its secret is not shown again: clients send it as `Authorization: Bearer SECRET`",
        output::one_line(&name)
    ));
    Ok(())
}

async fn revoke(name: &str, target: &ServerTarget) -> Result<(), CommandFailure> {
    let mut client = target.connect().await?;
    let items = client.list("key.list", json!({}), MAX_KEYS).await?;
    let names = || items.iter().map(|item| text(item, "name"));
    if names().all(|known| known != name) {
        let otherwise = "`patchboard keys list` shows all of them";
        return Err(CommandFailure::unknown_name(&format!("no key is named `{name}`"), name, names(), otherwise));
    }
    client.call("key.revoke", json!({ "name": name })).await?;
    output::print_line("revoked");
    Ok(())
}

fn show(items: &[Value]) {
    if items.is_empty() {
        return output::eprint_line("no keys yet: `patchboard keys create NAME` makes one");
    }
    let columns = [
        Column::whole("NAME"),
        Column::whole("FROM"),
        Column::whole("OVERSEE"),
        Column::number("DAILY"),
        Column::number("MONTHLY"),
        Column::wrap("AGENTS"),
        Column::wrap("SURFACES"),
        Column::wrap("TOOLS"),
    ];
    let mut table = TextTable::new(columns);
    for item in items {
        let limit = |key: &str| item.get(key).and_then(Value::as_u64).map_or_else(|| "-".to_owned(), format_count);
        let oversees = item.get("oversee").and_then(Value::as_bool).unwrap_or_default();
        table.push_row([
            TableCell::painted(text(item, "name"), TextRole::Name),
            text(item, "source").into(),
            if oversees { "yes" } else { "no" }.into(),
            limit("daily").into(),
            limit("monthly").into(),
            names(item, "agents").into(),
            names(item, "surfaces").into(),
            names(item, "tools").into(),
        ]);
    }
    table.print();
}

fn names(item: &Value, key: &str) -> String {
    match item.get(key).and_then(Value::as_array) {
        Some(names) if names.is_empty() => "none".to_owned(),
        Some(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        None => "all".to_owned(),
    }
}

fn text<'a>(item: &'a Value, key: &str) -> &'a str {
    item.get(key).and_then(Value::as_str).unwrap_or_default()
}
