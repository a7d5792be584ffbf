//! `patchboard approvals`: questions that tools wait for, answered by the operator.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::failure::Failure;
use super::output::{Cell, Column, Role, Table, clock};
use super::{Target, block_on, output};
use crate::client::Client;

/// More questions than a server keeps open.
const ALL: usize = 2_000;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ApprovalsArgs {
    /// Left out, they are listed.
    #[command(subcommand)]
    verb: Option<ApprovalsVerb>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Subcommand)]
enum ApprovalsVerb {
    /// List the tool calls that wait for an answer; the same as no verb.
    List(ListArgs),
    /// Let a tool call go ahead, or refuse it.
    Answer(AnswerArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    target: Target,
    /// Print JSON, one approval a line.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct AnswerArgs {
    /// The approval's id, as `approvals list` shows it, or the id of its call.
    id: String,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    answer: Answer,
}

#[derive(Debug, Clone, Copy, Args)]
#[group(required = true, multiple = false)]
struct Answer {
    /// The tool runs.
    #[arg(long)]
    approve: bool,
    /// The tool does not run, and the agent is told so.
    #[arg(long)]
    refuse: bool,
}

pub(super) fn run(args: ApprovalsArgs) -> Result<ExitCode, Failure> {
    block_on(async move {
        match args.verb.unwrap_or(ApprovalsVerb::List(args.list)) {
            ApprovalsVerb::List(ListArgs { target, json }) => {
                let items = open(&mut target.connect().await?).await?;
                if json {
                    items.iter().for_each(|item| output::line(&item.to_string()));
                } else {
                    show(&items);
                }
            }
            ApprovalsVerb::Answer(args) => {
                let mut client = args.target.connect().await?;
                let items = open(&mut client).await?;
                let wanted = args.id.as_str();
                let Some(found) = find(&items, wanted) else {
                    let message =
                        format!("nothing waits for approval under the id `{wanted}`: it was answered or is too old");
                    let known = items.iter().flat_map(|item| [text(item, "approval_id"), text(item, "tool_use_id")]);
                    let otherwise = "`patchboard approvals list` shows what waits";
                    return Err(Failure::unknown(&message, wanted, known, otherwise));
                };
                answer(&mut client, found, args.answer.approve).await?;
                output::line(if args.answer.approve { "approved" } else { "refused" });
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// What waits for an answer now.
pub(super) async fn open(client: &mut Client) -> anyhow::Result<Vec<Value>> {
    client.list("approval.list", json!({ "limit": 500 }), ALL).await
}

pub(super) async fn answer(client: &mut Client, approval: &Value, approve: bool) -> anyhow::Result<()> {
    let id = approval.get("approval_id").cloned().unwrap_or_default();
    client.call("approval.answer", json!({ "approval_id": id, "approve": approve })).await?;
    Ok(())
}

/// By its own id, or by that of the call it is about: runs only tell the latter.
fn find<'a>(items: &'a [Value], wanted: &str) -> Option<&'a Value> {
    let is = |item: &&Value, key: &str| text(item, key) == wanted;
    items.iter().find(|item| is(item, "approval_id") || is(item, "tool_use_id"))
}

fn show(items: &[Value]) {
    if items.is_empty() {
        return output::error("nothing waits for an answer");
    }
    let columns = [Column::whole("ID"), Column::whole("EXPIRES"), Column::whole("SESSION"), Column::wrap("CALL")];
    let mut table = Table::new(columns);
    for item in items {
        let call = format!("{} {}", text(item, "name"), item.get("input").unwrap_or(&Value::Null));
        table.row([
            Cell::painted(text(item, "approval_id"), Role::Name),
            clock::local(text(item, "expires_at"), clock::MINUTE).into(),
            text(item, "session").into(),
            call.into(),
        ]);
        if !text(item, "reason").is_empty() {
            table.beneath(text(item, "reason"));
        }
    }
    table.print();
}

fn text<'a>(item: &'a Value, key: &str) -> &'a str {
    item.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
