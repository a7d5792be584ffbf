//! `patchboard chat`: a conversation in the terminal, through a running server or one started for it.

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Args;
use patchboard_core::access::OPERATOR_CHANNEL;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::signal::ctrl_c;

use super::failure::Failure;
use super::own_server::{Choice, OwnServer, Surfaces};
use super::{Target, output};
use crate::client::{Address, Client};
use crate::telemetry::otlp::UNTRACED;

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    target: Target,
    /// Say this one thing, print the answer and leave.
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Print every event as a line of JSON.
    #[arg(long)]
    json: bool,
    /// Which conversation: another name is another history.
    #[arg(long, value_name = "NAME", default_value = "main")]
    peer: String,
    /// Channel to speak on; bindings may send it to another agent [default: `cli`, the operator's own; with --url
    /// `terminal`, as the server there may know this client by another token].
    #[arg(long)]
    channel: Option<String>,
    /// Account to speak as; facts are remembered per account.
    #[arg(long, default_value = "local")]
    account: String,
}

pub(super) fn run(args: ChatArgs) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(chat(args));
    // A line still being read from the terminal must not hold up the exit.
    runtime.shutdown_background();
    outcome
}

async fn chat(args: ChatArgs) -> Result<ExitCode, Failure> {
    let (address, own) = match args.target.find()? {
        Some(address) => (address, None),
        None => {
            let choice = if args.json { Choice::Untold } else { Choice::Told };
            let own = OwnServer::start(&args.target.place, Surfaces::Gateway, choice, UNTRACED).await?;
            let address = Address::of_data_dir(&own.data_dir)
                .ok_or_else(|| Failure::unreachable("the server started for this chat is gone"))?;
            (address, Some(own))
        }
    };
    let client = Client::connect(&address).await.map_err(Failure::no_server)?;
    let mut conversation = Conversation { client, args };
    let outcome = conversation.hold().await;
    if let Some(own) = own {
        own.shut_down().await?;
    }
    outcome
}

struct Conversation {
    client: Client,
    args: ChatArgs,
}

/// How one turn went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answered {
    Well,
    Badly,
    /// The user pressed Ctrl-C.
    Cancelled,
}

impl Conversation {
    async fn hold(&mut self) -> Result<ExitCode, Failure> {
        if let Some(message) = self.args.message.take() {
            return Ok(match self.turn(&message).await? {
                Answered::Well => ExitCode::SUCCESS,
                Answered::Badly => ExitCode::FAILURE,
                Answered::Cancelled => ExitCode::from(130),
            });
        }
        let interactive = std::io::stdin().is_terminal() && !self.args.json;
        if interactive {
            output::error("Say something. Ctrl-C stops an answer, Ctrl-D leaves.");
        }
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        loop {
            if interactive {
                output::part("> ");
            }
            let line = tokio::select! {
                line = lines.next_line() => line?,
                _ = ctrl_c() => None,
            };
            let Some(line) = line else {
                if interactive {
                    output::line("");
                }
                return Ok(ExitCode::SUCCESS);
            };
            if !line.trim().is_empty() {
                self.turn(&line).await?;
            }
        }
    }

    async fn turn(&mut self, content: &str) -> Result<Answered, Failure> {
        let ChatArgs { channel, account, peer, target, .. } = &self.args;
        let usual = if target.is_by_address() { "terminal" } else { OPERATOR_CHANNEL };
        let channel = channel.as_deref().unwrap_or(usual);
        let params = json!({ "channel": channel, "account": account, "peer": peer, "content": content });
        let id = self.client.send("chat.send", params).await?;
        let mut outcome = Answered::Well;
        let mut on_new_line = true;
        loop {
            let frame = tokio::select! {
                frame = self.client.frame() => frame?,
                _ = ctrl_c(), if outcome != Answered::Cancelled => {
                    self.client.send("chat.cancel", json!({ "id": id })).await?;
                    outcome = Answered::Cancelled;
                    continue;
                }
            };
            if frame.get("id").and_then(Value::as_str) != Some(&id) {
                continue;
            }
            if self.args.json {
                output::line(&frame.to_string());
            }
            if let Some(problem) = frame.get("error") {
                self.say_problem(problem);
                return Ok(Answered::Badly);
            }
            let data = frame.get("data").unwrap_or(&Value::Null);
            match frame.get("event").and_then(Value::as_str) {
                Some("text") => {
                    let text = data.as_str().unwrap_or_default();
                    if !self.args.json && !text.is_empty() {
                        output::part(&output::plain(text));
                        on_new_line = text.ends_with('\n');
                    }
                }
                Some("tool_use") => self.say_aside(&mut on_new_line, &format!("[{} {}]", name(data), input(data))),
                Some("approval") => self.ask_approval(&mut on_new_line, data).await?,
                Some("error") => {
                    self.end_line(&mut on_new_line);
                    self.say_problem(data);
                    outcome = Answered::Badly;
                }
                Some("done") => {
                    self.end_line(&mut on_new_line);
                    return Ok(outcome);
                }
                _ => {}
            }
        }
    }

    /// Without a person at the terminal nobody can agree, so the tool is refused at once.
    async fn ask_approval(&mut self, on_new_line: &mut bool, data: &Value) -> Result<(), Failure> {
        let approval = data.get("approval_id").and_then(Value::as_str).unwrap_or_default().to_owned();
        let approve = if std::io::stdin().is_terminal() && !self.args.json {
            self.end_line(on_new_line);
            output::part(&output::one_line(&format!("Allow {} {}? [y/N] ", name(data), input(data))));
            let answer = tokio::task::spawn_blocking(|| {
                let mut answer = String::new();
                std::io::stdin().read_line(&mut answer).map(|_| answer)
            });
            let answer = answer.await.map_err(|error| Failure::failed(error.to_string()))??;
            matches!(answer.trim(), "y" | "Y" | "yes")
        } else {
            false
        };
        self.client.send("approval.answer", json!({ "approval_id": approval, "approve": approve })).await?;
        Ok(())
    }

    fn say_aside(&self, on_new_line: &mut bool, text: &str) {
        if !self.args.json {
            self.end_line(on_new_line);
            output::error(&output::one_line(text));
        }
    }

    fn say_problem(&self, problem: &Value) {
        if !self.args.json {
            let problem = problem.as_str().unwrap_or("the server refused");
            output::error(&output::plain(&format!("error: {problem}")));
        }
    }

    fn end_line(&self, on_new_line: &mut bool) {
        if !self.args.json && !*on_new_line {
            output::line("");
            *on_new_line = true;
        }
    }
}

fn name(data: &Value) -> &str {
    data.get("name").and_then(Value::as_str).unwrap_or_default()
}

fn input(data: &Value) -> String {
    data.get("input").map(ToString::to_string).unwrap_or_default()
}
