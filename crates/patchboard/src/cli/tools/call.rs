//! `patchboard tools call`

use std::io::{IsTerminal, Read, stderr, stdin};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::caller_folder::CallerFolder;
use crate::cli::failure::Failure;
use crate::cli::{Target, approvals, block_on, output};
use crate::client::Client;
use crate::config::nearest::did_you_mean;

/// Arguments read from standard input are at most this long.
const MAX_ARGUMENTS: u64 = 16 * 1024 * 1024;
/// When a call is looked after for the first time, as it may wait for an answer, and how often once it takes its time.
const FIRST_LOOK: Duration = Duration::from_millis(5);
const LAST_LOOK: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    name: String,
    /// The arguments, an object; `-` reads it from standard input.
    #[arg(value_name = "JSON", default_value = "{}")]
    arguments: String,
    #[command(flatten)]
    target: Target,
    /// Folder where the tool works; left out, the current one, or the server's with --url.
    #[arg(short, long, value_name = "DIR")]
    working_folder: Option<PathBuf>,
    /// Where the call has to be approved, approve it.
    #[arg(short, long)]
    yes: bool,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: CallArgs) -> Result<ExitCode, Failure> {
    let current_dir = std::env::current_dir()?;
    let (flag, reach) = (args.working_folder.as_deref(), args.target.reach());
    let (folder, told) = CallerFolder::or_of_server(flag, &current_dir, reach, &args.target.place)?;
    if let Some(told) = told {
        output::error(&output::one_line(&told));
    }
    let params = params(&args, folder)?;
    block_on(async move {
        // Two connections, so that the call can be asked about while it is under way.
        let mut client = args.target.connect().await?;
        let mut beside = args.target.connect().await?;
        let before = approvals::open(&mut beside).await?;
        let calling = client.call("tool.call", params.clone());
        tokio::pin!(calling);
        let mut approval = Approval { before, call: params, consent: args.consent(), is_settled: false };
        let mut pause = FIRST_LOOK;
        let answered = loop {
            tokio::select! {
                answered = &mut calling => break answered,
                () = tokio::time::sleep(pause), if !approval.is_settled => approval.look(&mut beside).await?,
            }
            pause = (pause * 2).min(LAST_LOOK);
        };
        let answer = match answered {
            Ok(answer) => answer,
            Err(error) => return Err(super::refused(&mut beside, &args.name, error).await),
        };
        let code = show(&answer, args.json);
        if code != ExitCode::SUCCESS && !args.json {
            let tools = super::all(&mut beside).await.unwrap_or_default();
            misfit(&tools, &args.name, &approval.call).iter().for_each(|hint| output::error(hint));
        }
        Ok(code)
    })
}

/// Who agrees, if somebody has to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Consent {
    Given,
    /// A person at the terminal.
    Asked,
    /// Somebody elsewhere.
    Awaited,
}

impl CallArgs {
    fn consent(&self) -> Consent {
        match (self.yes, stdin().is_terminal() && stderr().is_terminal()) {
            (true, _) => Consent::Given,
            (false, true) => Consent::Asked,
            (false, false) => Consent::Awaited,
        }
    }
}

struct Approval {
    /// What waited before the call did.
    before: Vec<Value>,
    call: Value,
    consent: Consent,
    is_settled: bool,
}

impl Approval {
    async fn look(&mut self, beside: &mut Client) -> Result<(), Failure> {
        let open = approvals::open(beside).await?;
        let Some(ours) = open.iter().find(|item| is_of(item, &self.call) && !self.before.contains(item)) else {
            return Ok(());
        };
        self.is_settled = true;
        let field = |key: &str| ours.get(key).map(|value| value.as_str().map_or_else(|| value.to_string(), Into::into));
        let call = format!("{} {}", field("name").unwrap_or_default(), field("input").unwrap_or_default());
        let approve = match self.consent {
            Consent::Given => true,
            Consent::Asked => {
                output::aside(&output::one_line(&format!("Allow {call}? [y/N] ")));
                let answer = tokio::task::spawn_blocking(|| {
                    let mut answer = String::new();
                    stdin().read_line(&mut answer).map(|_| answer)
                });
                let answer = answer.await.map_err(|error| Failure::failed(error.to_string()))??;
                matches!(answer.trim(), "y" | "Y" | "yes")
            }
            Consent::Awaited => {
                let id = field("approval_id").unwrap_or_default();
                output::error(&output::one_line(&format!("approval wanted: {call}")));
                output::error(&output::one_line(&format!(
                    "hint: answer with `patchboard approvals answer {id} --approve` or `--refuse`, or call with --yes"
                )));
                return Ok(());
            }
        };
        Ok(approvals::answer(beside, ours, approve).await?)
    }
}

/// Is it the question about this very call?
fn is_of(approval: &Value, call: &Value) -> bool {
    approval.get("name") == call.get("name") && approval.get("input") == call.get("arguments")
}

fn params(args: &CallArgs, folder: CallerFolder) -> Result<Value, Failure> {
    let text = match args.arguments.as_str() {
        "-" => {
            let mut text = String::new();
            stdin().lock().take(MAX_ARGUMENTS + 1).read_to_string(&mut text)?;
            if text.len() as u64 > MAX_ARGUMENTS {
                return Err(Failure::unusable(format!("the arguments are longer than {MAX_ARGUMENTS} bytes")));
            }
            text
        }
        given => given.to_owned(),
    };
    let arguments: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::unusable(format!("the arguments are not JSON: {error}")).hint(HINT))?;
    if !arguments.is_object() {
        return Err(Failure::unusable("the arguments are not an object").hint(HINT));
    }
    let mut params = json!({ "name": args.name, "arguments": arguments });
    if let (Some(path), Some(fields)) = (folder.path, params.as_object_mut()) {
        fields.insert("working_folder".to_owned(), path.into());
        fields.insert("grant_folder".to_owned(), folder.is_granted.into());
    }
    Ok(params)
}

/// What is to be said of arguments that the tool does not have.
fn misfit(tools: &[Value], name: &str, call: &Value) -> Option<String> {
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

const HINT: &str = "write an object, such as '{\"path\": \"README.md\"}'";

/// A tool that failed answers on standard error.
fn show(answer: &Value, json: bool) -> ExitCode {
    let failed = answer.get("is_error").and_then(Value::as_bool).unwrap_or(false);
    let content = answer.get("content").and_then(Value::as_str).unwrap_or_default();
    let content = output::plain(content.trim_end_matches('\n'));
    match (json, failed) {
        (true, _) => output::line(&answer.to_string()),
        (false, false) => output::line(&content),
        (false, true) => output::error(&format!("error: {content}")),
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests;
