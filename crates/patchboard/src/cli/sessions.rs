//! `patchboard sessions`: lists, shows, searches, names, hides, forks and clears conversations.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::failure::CommandFailure;
use super::{ServerTarget, block_on};
use crate::client::GatewayClient;
use crate::output;
use crate::output::{Column, TableCell, TextRole, TextTable, clock};

mod keep;

use keep::{ForkArgs, HideArgs, RenameArgs, SearchArgs};

/// Maximum number of sessions searched for a key.
const MAX_SESSIONS: usize = 10_000;

#[derive(Debug, Args)]
pub(crate) struct SessionsArgs {
    #[command(subcommand)]
    verb: SessionsCommand,
}

#[derive(Debug, Subcommand)]
enum SessionsCommand {
    /// List conversations, the most recently used first.
    List {
        #[command(flatten)]
        target: ServerTarget,
        /// Only this channel's.
        #[arg(long)]
        channel: Option<String>,
        /// Only this account's.
        #[arg(long)]
        account: Option<String>,
        /// How many at most.
        #[arg(long, default_value_t = 50)]
        limit: usize,
        /// Also those that were hidden.
        #[arg(long)]
        hidden: bool,
        /// Print JSON, one session a line.
        #[arg(long)]
        json: bool,
    },
    /// Show the messages of a conversation.
    Show {
        /// The session's key, as `sessions list` shows it.
        session: String,
        #[command(flatten)]
        target: ServerTarget,
        /// How many turns at most, the newest.
        #[arg(long, default_value_t = 50)]
        limit: usize,
        /// Print JSON, one message a line.
        #[arg(long)]
        json: bool,
    },
    /// Find turns of conversations by their words.
    Search(SearchArgs),
    /// Give a conversation another title.
    Rename(RenameArgs),
    /// Leave a conversation out of the list, or put it back.
    Hide(HideArgs),
    /// Start a new conversation with a copy of another one's beginning.
    Fork(ForkArgs),
    /// Forget the turns of a conversation. Facts about the account stay.
    Clear {
        /// The session's key, as `sessions list` shows it.
        session: String,
        #[command(flatten)]
        target: ServerTarget,
        /// Delete the stored turns instead of only hiding them.
        #[arg(long)]
        purge: bool,
    },
}

pub(super) fn run(args: SessionsArgs) -> Result<ExitCode, CommandFailure> {
    block_on(async move {
        match args.verb {
            SessionsCommand::List { target, channel, account, limit, hidden, json } => {
                let params = json!({
                    "channel": channel, "account": account, "limit": limit.min(500),
                    "hidden": if hidden { "also" } else { "no" },
                });
                let items = target.connect().await?.list("session.list", params, limit).await?;
                if json { lines(&items) } else { show_list(&items) }
            }
            SessionsCommand::Show { session, target, limit, json } => {
                let params = json!({ "session": session, "limit": limit });
                let mut client = target.connect().await?;
                let mut page = match client.call("chat.history", params).await {
                    Ok(page) => page,
                    Err(error) => return Err(history_failure(&mut client, &session, error).await),
                };
                let items = page.get_mut("items").map(Value::take).unwrap_or_default();
                let items = items.as_array().map(Vec::as_slice).unwrap_or_default();
                if items.is_empty() {
                    return Err(unknown_session(&mut client, &session).await);
                }
                if json { lines(items) } else { show_history(items) }
            }
            SessionsCommand::Search(args) => keep::search(args).await?,
            SessionsCommand::Rename(args) => keep::rename(args).await?,
            SessionsCommand::Hide(args) => keep::hide(args).await?,
            SessionsCommand::Fork(args) => keep::fork(args).await?,
            SessionsCommand::Clear { session, target, purge } => {
                let mut client = target.connect().await?;
                let sessions = keys(&mut client).await;
                if sessions.as_ref().is_ok_and(|sessions| !sessions.contains(&session)) {
                    return Err(unknown_session(&mut client, &session).await);
                }
                let params = json!({ "session": session, "purge": purge });
                client.call("session.clear", params).await?;
                output::print_line(if purge { "deleted" } else { "cleared" });
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn keys(client: &mut GatewayClient) -> anyhow::Result<Vec<String>> {
    let items = client.list("session.list", json!({ "limit": 500, "hidden": "also" }), MAX_SESSIONS).await?;
    Ok(items.iter().filter_map(|item| Some(item.get("session")?.as_str()?.to_owned())).collect())
}

async fn unknown_session(client: &mut GatewayClient, session: &str) -> CommandFailure {
    let known = keys(client).await.unwrap_or_default();
    let message = format!("nothing is kept of a session `{session}`: there is none, or it was cleared");
    let otherwise = "`patchboard sessions list` shows all of them";
    CommandFailure::unknown_name(&message, session, known.iter().map(String::as_str), otherwise)
}

/// The server rejects malformed session keys; the error of an unknown session is clearer.
async fn history_failure(client: &mut GatewayClient, session: &str, error: anyhow::Error) -> CommandFailure {
    match keys(client).await {
        Ok(keys) if keys.iter().all(|key| key != session) => unknown_session(client, session).await,
        Ok(_) | Err(_) => error.into(),
    }
}

pub(super) fn lines(items: &[Value]) {
    for item in items {
        output::print_line(&item.to_string());
    }
}

fn show_list(items: &[Value]) {
    if items.is_empty() {
        return output::eprint_line("no sessions yet");
    }
    let text = |item: &Value, key: &str| match item.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let mut table = TextTable::new([
        Column::number("TURNS"),
        Column::whole("LAST USED"),
        Column::whole("SESSION"),
        Column::cut("TITLE"),
    ]);
    for item in items {
        let used = clock::local(&text(item, "used_at"), clock::MINUTE);
        table.push_row([
            text(item, "turns").into(),
            used.into(),
            TableCell::painted(&text(item, "session"), TextRole::Name),
            item.get("title").and_then(Value::as_str).unwrap_or_default().into(),
        ]);
        if item.get("hidden").is_some() {
            table.add_remark("hidden; `patchboard sessions hide --show` puts it back");
        }
    }
    table.print();
}

fn show_history(items: &[Value]) {
    for item in items {
        let field = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default();
        let who = match field("role") {
            "tool" => format!("tool {}", field("name")),
            role => role.to_owned(),
        };
        if !field("content").is_empty() {
            output::print_line(&format!("{}: {}", output::one_line(&who), output::plain(field("content"))));
        }
        for call in item.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            let name = call.get("name").and_then(Value::as_str).unwrap_or_default();
            let input = call.get("input").map(ToString::to_string).unwrap_or_default();
            output::print_line(&output::one_line(&format!("{who} calls {name} {input}")));
        }
    }
}
