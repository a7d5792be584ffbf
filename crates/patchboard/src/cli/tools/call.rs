//! `patchboard tools call`: calls one tool.

use std::io::{IsTerminal, Read, stderr, stdin};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use patchboard_core::backoff::{Backoff, BackoffSchedule};
use patchboard_core::text::did_you_mean;
use serde_json::{Value, json};

use crate::cli::approval_mode::{self, ApprovalArgs, ApprovalResponder, UnattendedMode};
use crate::cli::caller_folder::CallerFolder;
use crate::cli::failure::CommandFailure;
use crate::cli::{ServerTarget, approvals, block_on};
use crate::client::GatewayClient;
use crate::output;

/// Maximum length of arguments from standard input.
const MAX_ARGUMENTS: u64 = 16 * 1024 * 1024;
/// When a call is looked after for the first time, as it may wait for an answer, and how often once it takes its time.
const POLL_BACKOFF: BackoffSchedule = BackoffSchedule::doubling(Duration::from_millis(5), Duration::from_millis(500));

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    name: String,
    /// The arguments, an object; `-` reads it from standard input.
    #[arg(value_name = "JSON", default_value = "{}")]
    arguments: String,
    #[command(flatten)]
    target: ServerTarget,
    /// Folder where the tool works; left out, the current one, or the server's with --url.
    #[arg(short, long, value_name = "DIR")]
    working_folder: Option<PathBuf>,
    /// Where the call has to be approved, approve it.
    #[arg(short, long, conflicts_with = "approvals")]
    yes: bool,
    #[command(flatten)]
    unattended: ApprovalArgs,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: CallArgs) -> Result<ExitCode, CommandFailure> {
    let mut folder =
        CallerFolder::new(args.working_folder.as_deref(), &std::env::current_dir()?, args.target.lookup())?;
    let arguments = arguments(&args)?;
    block_on(async move {
        let refused = match call(&args, params(&args.name, &arguments, &folder)).await {
            Ok(called_tool) => return Ok(show(&called_tool, args.json)),
            Err(failure) => failure,
        };
        // The server checks the folder before the tool runs, so the call can be repeated.
        let Some(notice) = folder.fall_back(refused.message()) else { return Err(refused) };
        output::eprint_line(&output::one_line(&notice));
        let called_tool = call(&args, params(&args.name, &arguments, &folder)).await?;
        Ok(show(&called_tool, args.json))
    })
}

struct CallOutcome {
    answer: Value,
    /// What is wrong with the arguments of a failed call, according to the tool's schema.
    hint: Option<String>,
    is_refused_unasked: bool,
}

async fn call(args: &CallArgs, params: Value) -> Result<CallOutcome, CommandFailure> {
    // The call blocks its connection, so approvals need a second one.
    let mut client = args.target.connect().await?;
    let mut beside = args.target.connect().await?;
    let before = approvals::list_open(&mut beside).await?;
    let calling = client.call("tool.call", params.clone());
    tokio::pin!(calling);
    let mut approval = ApprovalWatch {
        open_before: before,
        call: params,
        consent: args.consent(),
        is_settled: false,
        is_refused_unasked: false,
    };
    let mut backoff = Backoff::new(POLL_BACKOFF);
    let answered = loop {
        tokio::select! {
            answered = &mut calling => break answered,
            () = tokio::time::sleep(backoff.next_delay()), if !approval.is_settled => approval.poll(&mut beside).await?,
        }
    };
    let answer = match answered {
        Ok(answer) => answer,
        Err(error) => return Err(super::call_failure(&mut beside, &args.name, error).await),
    };
    let mut hint = None;
    if is_failed(&answer) {
        let tools = super::fetch_tools(&mut beside).await.unwrap_or_default();
        hint = argument_hint(&tools, &args.name, &approval.call);
    }
    Ok(CallOutcome { answer, hint, is_refused_unasked: approval.is_refused_unasked })
}

/// How an approval is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConsentMode {
    Given,
    /// By a person at the terminal.
    Asked,
    /// Refused, as no person can be asked.
    Refused,
    /// By another client.
    Awaited,
}

impl CallArgs {
    fn consent(&self) -> ConsentMode {
        if self.yes {
            return ConsentMode::Given;
        }
        match self.unattended.responder(stdin().is_terminal() && stderr().is_terminal()) {
            ApprovalResponder::Person => ConsentMode::Asked,
            ApprovalResponder::Unattended(UnattendedMode::Refuse) => ConsentMode::Refused,
            ApprovalResponder::Unattended(UnattendedMode::Wait) => ConsentMode::Awaited,
        }
    }
}

struct ApprovalWatch {
    /// Approvals that were open before the call.
    open_before: Vec<Value>,
    call: Value,
    consent: ConsentMode,
    is_settled: bool,
    /// The call was refused because no person could be asked, and this was printed.
    is_refused_unasked: bool,
}

impl ApprovalWatch {
    async fn poll(&mut self, beside: &mut GatewayClient) -> Result<(), CommandFailure> {
        let open = approvals::list_open(beside).await?;
        let Some(ours) = open.iter().find(|item| is_for_call(item, &self.call) && !self.open_before.contains(item))
        else {
            return Ok(());
        };
        self.is_settled = true;
        let field = |key: &str| ours.get(key).map(|value| value.as_str().map_or_else(|| value.to_string(), Into::into));
        let call = format!("{} {}", field("name").unwrap_or_default(), field("input").unwrap_or_default());
        let approve = match self.consent {
            ConsentMode::Given => true,
            ConsentMode::Asked => {
                output::eprint(&output::one_line(&format!("Allow {call}? [y/N] ")));
                let answer = tokio::task::spawn_blocking(|| {
                    let mut answer = String::new();
                    stdin().read_line(&mut answer).map(|_| answer)
                });
                let answer = answer.await.map_err(|error| CommandFailure::failed(error.to_string()))??;
                matches!(answer.trim(), "y" | "Y" | "yes")
            }
            ConsentMode::Refused => {
                let ways = "`--yes` approves this call, and `--approvals wait` lets it wait for `patchboard approvals`";
                output::eprint_line(&approval_mode::refusal_text(&field("name").unwrap_or_default(), &call, ways));
                self.is_refused_unasked = true;
                false
            }
            ConsentMode::Awaited => {
                let id = field("approval_id").unwrap_or_default();
                output::eprint_line(&approval_mode::invitation_text(&id, &call, ", or call with --yes"));
                return Ok(());
            }
        };
        Ok(approvals::answer(beside, ours, approve).await?)
    }
}

/// Whether the approval belongs to this call. For a worker's tool it may lack the pool's name.
fn is_for_call(approval: &Value, call: &Value) -> bool {
    let name = |item: &Value| item.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let (requested_tool, called_tool) = (name(approval), name(call));
    let is_named = requested_tool == called_tool
        || called_tool.split_once('.').is_some_and(|(_, own_name)| own_name == requested_tool);
    is_named && approval.get("input") == call.get("arguments")
}

fn arguments(args: &CallArgs) -> Result<Value, CommandFailure> {
    let text = match args.arguments.as_str() {
        "-" => {
            let mut text = String::new();
            stdin().lock().take(MAX_ARGUMENTS + 1).read_to_string(&mut text)?;
            if text.len() as u64 > MAX_ARGUMENTS {
                return Err(CommandFailure::unusable(format!("the arguments are longer than {MAX_ARGUMENTS} bytes")));
            }
            text
        }
        given => given.to_owned(),
    };
    let arguments: Value = serde_json::from_str(&text).map_err(|error| {
        CommandFailure::unusable(format!("the arguments are not JSON: {error}")).hint(ARGUMENTS_HINT)
    })?;
    if !arguments.is_object() {
        return Err(CommandFailure::unusable("the arguments are not an object").hint(ARGUMENTS_HINT));
    }
    Ok(arguments)
}

fn params(name: &str, arguments: &Value, folder: &CallerFolder) -> Value {
    let mut params = json!({ "name": name, "arguments": arguments });
    if let Some(fields) = params.as_object_mut() {
        folder.add_to(fields);
    }
    params
}

/// A hint if the arguments do not match the tool's schema.
fn argument_hint(tools: &[Value], name: &str, call: &Value) -> Option<String> {
    let is_called = |tool: &&Value| tool.get("name").and_then(Value::as_str) == Some(name);
    let schema = tools.iter().find(is_called)?.get("input_schema")?;
    let known = schema.get("properties")?.as_object()?;
    let given = call.get("arguments")?.as_object()?;
    let is_open = schema.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false));
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let is_missing = required.into_iter().any(|required| !given.contains_key(required));
    let unknown = given.keys().find(|given| !known.contains_key(*given)).filter(|_| !is_open);
    let all = format!("`patchboard tools show {name}` shows its arguments");
    let hint = match unknown {
        Some(unknown) => did_you_mean(unknown, known.keys().map(String::as_str), &all),
        None if is_missing => all,
        None => return None,
    };
    Some(output::one_line(&format!("hint: {hint}")))
}

const ARGUMENTS_HINT: &str = "write an object, such as '{\"path\": \"README.md\"}'";

fn is_failed(answer: &Value) -> bool {
    answer.get("is_error").and_then(Value::as_bool).unwrap_or(false)
}

/// The error of a failed tool goes to standard error.
fn show(CallOutcome { answer, hint, is_refused_unasked }: &CallOutcome, json: bool) -> ExitCode {
    let failed = is_failed(answer);
    let content = answer.get("content").and_then(Value::as_str).unwrap_or_default();
    let content = output::plain(content.trim_end_matches('\n'));
    match (json, failed) {
        (true, _) => output::print_line(&answer.to_string()),
        (false, false) => output::print_line(&content),
        // The content would say that the user refused, which is wrong here.
        (false, true) if *is_refused_unasked => {}
        (false, true) => {
            output::eprint_line(&format!("error: {content}"));
            hint.iter().for_each(|hint| output::eprint_line(hint));
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests;
