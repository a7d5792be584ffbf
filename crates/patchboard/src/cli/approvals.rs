//! `patchboard approvals`: lists and answers tool calls that wait for approval.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::failure::CommandFailure;
use super::{ServerTarget, block_on};
use crate::client::GatewayClient;
use crate::output;
use crate::output::{Column, TableCell, TextRole, TextTable, clock};

/// More than a server keeps open.
const MAX_APPROVALS: usize = 2_000;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ApprovalsArgs {
    /// Left out, they are listed.
    #[command(subcommand)]
    verb: Option<ApprovalsCommand>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Subcommand)]
enum ApprovalsCommand {
    /// List the tool calls that wait for an answer; the default.
    List(ListArgs),
    /// Let a tool call go ahead, or refuse it.
    Answer(AnswerArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    target: ServerTarget,
    /// Print JSON, one approval a line.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct AnswerArgs {
    /// The approval's id, as `approvals list` shows it, or the id of its call.
    id: String,
    #[command(flatten)]
    target: ServerTarget,
    #[command(flatten)]
    answer: ApprovalAnswer,
}

#[derive(Debug, Clone, Copy, Args)]
#[group(required = true, multiple = false)]
struct ApprovalAnswer {
    /// The tool runs.
    #[arg(long)]
    approve: bool,
    /// The tool does not run, and the agent is informed.
    #[arg(long)]
    refuse: bool,
}

pub(super) fn run(args: ApprovalsArgs) -> Result<ExitCode, CommandFailure> {
    block_on(async move {
        match args.verb.unwrap_or(ApprovalsCommand::List(args.list)) {
            ApprovalsCommand::List(ListArgs { target, json }) => {
                let items = list_open(&mut target.connect().await?).await?;
                if json {
                    items.iter().for_each(|item| output::print_line(&item.to_string()));
                } else {
                    show(&items);
                }
            }
            ApprovalsCommand::Answer(args) => {
                let mut client = args.target.connect().await?;
                let items = list_open(&mut client).await?;
                let requested = args.id.as_str();
                let Some(found) = find(&items, requested) else {
                    let message =
                        format!("nothing waits for approval under the id `{requested}`: it was answered or is too old");
                    let known = items.iter().flat_map(|item| [text(item, "approval_id"), text(item, "tool_use_id")]);
                    let otherwise = "`patchboard approvals list` shows what waits";
                    return Err(CommandFailure::unknown_name(&message, requested, known, otherwise));
                };
                answer(&mut client, found, args.answer.approve).await?;
                output::print_line(if args.answer.approve { "approved" } else { "refused" });
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// The approvals that are open now.
pub(super) async fn list_open(client: &mut GatewayClient) -> anyhow::Result<Vec<Value>> {
    client.list("approval.list", json!({ "limit": 500 }), MAX_APPROVALS).await
}

pub(super) async fn answer(client: &mut GatewayClient, approval: &Value, approve: bool) -> anyhow::Result<()> {
    let id = approval.get("approval_id").cloned().unwrap_or_default();
    client.call("approval.answer", json!({ "approval_id": id, "approve": approve })).await?;
    Ok(())
}

/// Finds an approval by its own id or by its call's id, as runs report only the latter.
fn find<'a>(items: &'a [Value], requested: &str) -> Option<&'a Value> {
    let is = |item: &&Value, key: &str| text(item, key) == requested;
    items.iter().find(|item| is(item, "approval_id") || is(item, "tool_use_id"))
}

fn show(items: &[Value]) {
    if items.is_empty() {
        return output::eprint_line("nothing waits for an answer");
    }
    let columns = [Column::whole("ID"), Column::whole("EXPIRES"), Column::whole("SESSION"), Column::wrap("CALL")];
    let mut table = TextTable::new(columns);
    for item in items {
        let call = format!("{} {}", text(item, "name"), item.get("input").unwrap_or(&Value::Null));
        table.push_row([
            TableCell::painted(text(item, "approval_id"), TextRole::Name),
            clock::local(text(item, "expires_at"), clock::MINUTE).into(),
            text(item, "session").into(),
            call.into(),
        ]);
        if !text(item, "reason").is_empty() {
            table.add_remark(text(item, "reason"));
        }
    }
    table.print();
}

fn text<'a>(item: &'a Value, key: &str) -> &'a str {
    item.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
