//! `patchboard memory`: what is remembered of accounts.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::failure::CommandFailure;
use super::{ServerTarget, block_on};
use crate::client::GatewayClient;
use crate::output;
use crate::output::{Column, TableCell, TextRole, TextTable, clock};

/// Most items of one section of an export; an account with more is refused.
const MAX_EXPORTED: usize = 1_000_000;
const EXPORT_SECTIONS: [&str; 4] = ["facts", "sessions", "turns", "runs"];

#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    #[command(subcommand)]
    verb: MemoryCommand,
}

#[derive(Debug, Subcommand)]
enum MemoryCommand {
    /// List the accounts that something is stored of.
    Accounts {
        #[command(flatten)]
        target: ServerTarget,
        /// How many at most.
        #[arg(long, default_value_t = 50)]
        limit: usize,
        /// Print JSON, one account a line.
        #[arg(long)]
        json: bool,
    },
    /// List the facts remembered of an account, the newest first.
    List {
        /// The account, as `memory accounts` shows it.
        #[arg(value_name = "CHANNEL/ACCOUNT")]
        account: AccountName,
        #[command(flatten)]
        target: ServerTarget,
        /// Also facts that later ones replaced.
        #[arg(long)]
        superseded: bool,
        /// How many at most.
        #[arg(long, default_value_t = 100)]
        limit: usize,
        /// Print JSON, one fact a line.
        #[arg(long)]
        json: bool,
    },
    /// Replace what a fact says.
    Correct {
        #[arg(value_name = "CHANNEL/ACCOUNT")]
        account: AccountName,
        /// The fact's number, as `memory list` shows it.
        fact: u64,
        /// What it should say instead: the part after its predicate.
        object: String,
        #[command(flatten)]
        target: ServerTarget,
    },
    /// Delete a fact, with the earlier ones it replaced.
    Forget {
        #[arg(value_name = "CHANNEL/ACCOUNT")]
        account: AccountName,
        /// The fact's number, as `memory list` shows it.
        fact: u64,
        #[command(flatten)]
        target: ServerTarget,
    },
    /// Write everything stored of an account as one JSON file: facts, conversations with their turns, runs.
    Export {
        #[arg(value_name = "CHANNEL/ACCOUNT")]
        account: AccountName,
        #[command(flatten)]
        target: ServerTarget,
        /// Where to; it must not exist. Without it the JSON is printed.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

/// `CHANNEL/ACCOUNT`; the account may contain further slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AccountName {
    pub(super) channel: String,
    pub(super) account: String,
}

impl FromStr for AccountName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((channel, account)) if !channel.is_empty() && !account.is_empty() => {
                Ok(Self { channel: channel.to_owned(), account: account.to_owned() })
            }
            Some(_) | None => Err("write CHANNEL/ACCOUNT, such as web/alice".to_owned()),
        }
    }
}

impl AccountName {
    pub(super) fn params(&self) -> Value {
        json!({ "channel": self.channel, "account": self.account })
    }

    pub(super) fn shown(&self) -> String {
        output::one_line(&format!("{}/{}", self.channel, self.account))
    }

    fn params_with(&self, more: &[(&str, Value)]) -> Value {
        let mut params = self.params();
        if let Some(fields) = params.as_object_mut() {
            fields.extend(more.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
        }
        params
    }
}

pub(super) fn run(args: MemoryArgs) -> Result<ExitCode, CommandFailure> {
    block_on(async move {
        match args.verb {
            MemoryCommand::Accounts { target, limit, json } => {
                let params = json!({ "limit": limit.min(500) });
                let items = target.connect().await?.list("memory.accounts", params, limit).await?;
                if json { lines(&items) } else { show_accounts(&items) }
            }
            MemoryCommand::List { account, target, superseded, limit, json } => {
                let params =
                    account.params_with(&[("superseded", superseded.into()), ("limit", limit.min(500).into())]);
                let items = target.connect().await?.list("memory.list", params, limit).await?;
                if json { lines(&items) } else { show_facts(&items) }
            }
            MemoryCommand::Correct { account, fact, object, target } => {
                let params = account.params_with(&[("fact", fact.into()), ("object", object.into())]);
                let corrected = target.connect().await?.call("memory.correct", params).await?;
                output::print_line(&output::one_line(&format!("{}: {}", number(&corrected, "fact"), says(&corrected))));
            }
            MemoryCommand::Forget { account, fact, target } => {
                let params = account.params_with(&[("fact", fact.into())]);
                target.connect().await?.call("memory.forget", params).await?;
                output::print_line("forgotten");
            }
            MemoryCommand::Export { account, target, out } => export(&account, target, out).await?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn export(account: &AccountName, target: ServerTarget, out: Option<PathBuf>) -> Result<(), CommandFailure> {
    let mut client = target.connect().await?;
    let mut document = account.params();
    for section in EXPORT_SECTIONS {
        let items = export_section(&mut client, account, section).await?;
        if let Some(fields) = document.as_object_mut() {
            fields.insert(section.to_owned(), items.into());
        }
    }
    let text = format!("{document:#}\n");
    let Some(path) = out else {
        output::print(&text);
        return Ok(());
    };
    let failed = |error: std::io::Error| {
        CommandFailure::failed(format!("cannot write `{}`: {error}", output::one_line(&path.display().to_string())))
    };
    // For its owner only: it holds what a person said.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    output::print_line(&output::one_line(&format!("wrote {}", path.display())));
    Ok(())
}

async fn export_section(
    client: &mut GatewayClient,
    account: &AccountName,
    section: &str,
) -> Result<Vec<Value>, CommandFailure> {
    let params = account.params_with(&[("section", section.into()), ("limit", 100.into())]);
    let items = client.list("memory.export", params, MAX_EXPORTED + 1).await?;
    if items.len() > MAX_EXPORTED {
        return Err(CommandFailure::failed(format!("the account has more than {MAX_EXPORTED} {section}")));
    }
    Ok(items)
}

fn lines(items: &[Value]) {
    for item in items {
        output::print_line(&item.to_string());
    }
}

fn show_accounts(items: &[Value]) {
    if items.is_empty() {
        return output::eprint_line("nothing is stored of any account");
    }
    let mut table = TextTable::new([
        Column::whole("ACCOUNT"),
        Column::number("SESSIONS"),
        Column::number("TURNS"),
        Column::number("FACTS"),
        Column::whole("LAST USED"),
    ]);
    for item in items {
        let used = text(item, "used_at");
        table.push_row([
            TableCell::painted(&format!("{}/{}", text(item, "channel"), text(item, "account")), TextRole::Name),
            number(item, "sessions").into(),
            number(item, "turns").into(),
            number(item, "facts").into(),
            if used.is_empty() { String::new() } else { clock::local(used, clock::MINUTE) }.into(),
        ]);
    }
    table.print();
}

fn show_facts(items: &[Value]) {
    if items.is_empty() {
        return output::eprint_line("no facts are remembered of this account");
    }
    let mut table = TextTable::new([
        Column::number("FACT"),
        Column::whole("LEARNED"),
        Column::wrap("SAYS"),
        Column::whole("SESSION"),
        Column::cut("RUN"),
    ]);
    for item in items {
        table.push_row([
            number(item, "fact").into(),
            clock::local(text(item, "learned_at"), clock::MINUTE).into(),
            says(item).into(),
            TableCell::painted(text(item, "session"), TextRole::Name),
            text(item, "run").into(),
        ]);
        if let Some(replaced) = item.get("supersedes").and_then(Value::as_u64) {
            table.add_remark(&format!("replaced fact {replaced}"));
        }
        if let Some(by) = item.get("superseded_by").and_then(Value::as_u64) {
            table.add_remark(&format!("replaced by fact {by}"));
        }
    }
    table.print();
}

fn says(item: &Value) -> String {
    format!("{} {} {}", text(item, "subject"), text(item, "predicate"), text(item, "object"))
}

fn text<'a>(item: &'a Value, key: &str) -> &'a str {
    item.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn number(item: &Value, key: &str) -> String {
    item.get(key).map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests;
