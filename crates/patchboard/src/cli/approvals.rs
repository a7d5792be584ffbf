//! `patchboard approvals`: lists and answers what runs wait for: approvals, tools of clients, questions.

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
    /// List the tool calls and questions that wait for an answer; the default.
    List(ListArgs),
    /// Let a tool call go ahead, refuse it, or answer a question.
    #[command(override_usage = "patchboard approvals answer [OPTIONS] <ANSWER> <ID>")]
    Answer(AnswerArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    target: ServerTarget,
    /// Print JSON, one a line.
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

#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
struct ApprovalAnswer {
    /// The tool runs.
    #[arg(long)]
    approve: bool,
    /// The tool runs, and so do further calls like it: of the same tool in the same folder or to the same host, until the
    /// session ends or twelve hours have passed.
    #[arg(long)]
    approve_for_session: bool,
    /// The tool does not run, and the agent is informed; a question is not answered.
    #[arg(long)]
    refuse: bool,
    /// The answer to a question: JSON, or any other text as it is.
    #[arg(long, value_name = "TEXT")]
    answer: Option<String>,
    /// The result of a tool that the client has, in its place.
    #[arg(long, value_name = "TEXT")]
    result: Option<String>,
}

impl ApprovalAnswer {
    /// The params of `input.answer`, and what the user is told.
    fn params(&self) -> (Value, &'static str) {
        match (&self.answer, &self.result) {
            (Some(text), _) => {
                let value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str()));
                (json!({ "answer": value }), "answered")
            }
            (None, Some(text)) => (json!({ "result": { "content": text } }), "answered"),
            (None, None) if self.approve_for_session => {
                (json!({ "approve": true, "for_session": true }), "approved for the session")
            }
            (None, None) if self.approve => (json!({ "approve": true }), "approved"),
            (None, None) => (json!({}), "refused"),
        }
    }
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
                    let known = items.iter().flat_map(|item| [text(item, "input_id"), text(item, "tool_use_id")]);
                    let otherwise = "`patchboard approvals list` shows what waits";
                    return Err(CommandFailure::unknown_name(&message, requested, known, otherwise));
                };
                let (mut params, told) = args.answer.params();
                if told == "refused" {
                    let is_question = text(found, "kind") == "question";
                    params = if is_question { json!({ "decline": true }) } else { json!({ "approve": false }) };
                }
                send_answer(&mut client, found, params).await?;
                output::print_line(told);
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// What is open now.
pub(super) async fn list_open(client: &mut GatewayClient) -> anyhow::Result<Vec<Value>> {
    client.list("input.list", json!({ "limit": 500 }), MAX_APPROVALS).await
}

pub(super) async fn answer(client: &mut GatewayClient, approval: &Value, approve: bool) -> anyhow::Result<()> {
    send_answer(client, approval, json!({ "approve": approve })).await
}

async fn send_answer(client: &mut GatewayClient, input: &Value, mut params: Value) -> anyhow::Result<()> {
    // Prompts of a stream name an approval only.
    let id = input.get("input_id").or_else(|| input.get("approval_id")).cloned().unwrap_or_default();
    if let Value::Object(fields) = &mut params {
        fields.insert("input_id".to_owned(), id);
    }
    client.call("input.answer", params).await?;
    Ok(())
}

/// Finds an approval by its own id or by its call's id, as runs report only the latter.
fn find<'a>(items: &'a [Value], requested: &str) -> Option<&'a Value> {
    let is = |item: &&Value, key: &str| text(item, key) == requested;
    items.iter().find(|item| is(item, "input_id") || is(item, "tool_use_id"))
}

fn show(items: &[Value]) {
    if items.is_empty() {
        return output::eprint_line("nothing waits for an answer");
    }
    let columns = [
        Column::whole("ID"),
        Column::whole("KIND"),
        Column::whole("EXPIRES"),
        Column::whole("SESSION"),
        Column::wrap("ASKED"),
    ];
    let mut table = TextTable::new(columns);
    for item in items {
        let asked = match text(item, "kind") {
            "question" => text(item, "question").to_owned(),
            _ => format!("{} {}", text(item, "name"), item.get("input").unwrap_or(&Value::Null)),
        };
        table.push_row([
            TableCell::painted(text(item, "input_id"), TextRole::Name),
            text(item, "kind").into(),
            clock::local(text(item, "expires_at"), clock::MINUTE).into(),
            text(item, "session").into(),
            asked.into(),
        ]);
        if !text(item, "asked_by").is_empty() {
            table.add_remark(&format!("asked by {}", text(item, "asked_by")));
        }
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
