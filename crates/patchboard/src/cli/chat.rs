//! `patchboard chat`: a conversation in the terminal, through a running server or one started for it.

use std::io::{IsTerminal, stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::signal::unix::{SignalKind, signal};

use super::ServerTarget;
use super::caller_folder::{self, CallerFolder};
use super::embedded_server::{EmbeddedServer, EnabledSurfaces, ModelNotice};
use super::failure::CommandFailure;
use super::run::terminal::can_draw;
use crate::client::ServerAddress;
use crate::telemetry::otlp::TRACES_DISABLED;
use context::ChatContext;
use conversation::{Conversation, TurnOutcome};

mod context;
mod conversation;
mod editor;
mod interactive;
mod lists;
mod slash;
mod turn;

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    target: ServerTarget,
    /// Send this message, print the answer and exit.
    #[arg(value_name = "TEXT", conflicts_with = "message")]
    words: Vec<String>,
    /// The same, as one argument.
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// A configured agent, instead of the one that bindings name.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Another model than the agent's: PROVIDER/MODEL, or a model of the agent's provider.
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Folder the tools work in, opened for this conversation's turns [default: where the command is typed].
    #[arg(short, long, value_name = "DIR")]
    working_folder: Option<PathBuf>,
    /// Print every event as a line of JSON.
    #[arg(long)]
    json: bool,
    /// Name of the conversation; each has its own history.
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

impl ChatArgs {
    /// The message given on the command line, which is sent at once.
    fn message_text(&self) -> Option<String> {
        self.message.clone().or_else(|| (!self.words.is_empty()).then(|| self.words.join(" ")))
    }
}

pub(super) fn run(args: ChatArgs) -> Result<ExitCode, CommandFailure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(chat(args));
    // A pending read of the terminal must not delay the exit.
    runtime.shutdown_background();
    outcome
}

async fn chat(args: ChatArgs) -> Result<ExitCode, CommandFailure> {
    if args.message_text().is_some_and(|text| text.trim().is_empty()) {
        return Err(CommandFailure::unusable("the message is empty: say what to do"));
    }
    let current_dir = std::env::current_dir()?;
    let folder = CallerFolder::new(args.working_folder.as_deref(), &current_dir, args.target.lookup())?;
    let (address, own) = match args.target.find()? {
        Some(address) => (address, None),
        None => {
            let loaded = args.target.place.load()?;
            let folder = caller_folder::embedded_server_folder(&loaded, args.working_folder.as_deref(), &current_dir)?;
            let choice = if args.json { ModelNotice::Silent } else { ModelNotice::Shown };
            let own =
                EmbeddedServer::start(&args.target.place, folder, EnabledSurfaces::Gateway, choice, TRACES_DISABLED)
                    .await?;
            let address = ServerAddress::of_data_dir(&own.data_dir)
                .ok_or_else(|| CommandFailure::unreachable("the server started for this chat is gone"))?;
            (address, Some(own))
        }
    };
    let mut conversation = Conversation::connect(address, ChatContext::new(&args, folder), args.json).await?;
    let mut terminate = signal(SignalKind::terminate())?;
    let outcome = tokio::select! {
        outcome = converse(&mut conversation, &args) => outcome,
        _ = terminate.recv() => Ok(ExitCode::from(143)),
    };
    drop(conversation);
    if let Some(own) = own {
        own.shut_down().await?;
    }
    outcome
}

async fn converse(conversation: &mut Conversation, args: &ChatArgs) -> Result<ExitCode, CommandFailure> {
    if let Some(message) = args.message_text() {
        return Ok(match conversation.turn(&message).await? {
            TurnOutcome::Completed => ExitCode::SUCCESS,
            TurnOutcome::Failed => ExitCode::FAILURE,
            TurnOutcome::Cancelled | TurnOutcome::Aborted => ExitCode::from(130),
            TurnOutcome::Disconnected(failure) => return Err(failure),
        });
    }
    if stdin().is_terminal() && !args.json {
        let has_editor = stdout().is_terminal() && can_draw();
        return interactive::run_interactive(conversation, args, has_editor).await;
    }
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line?,
            _ = tokio::signal::ctrl_c() => None,
        };
        let Some(line) = line else { return Ok(ExitCode::SUCCESS) };
        if line.trim().is_empty() {
            continue;
        }
        match conversation.turn(&line).await? {
            TurnOutcome::Completed | TurnOutcome::Failed | TurnOutcome::Cancelled => {}
            TurnOutcome::Aborted => return Ok(ExitCode::from(130)),
            TurnOutcome::Disconnected(failure) => return Err(failure),
        }
    }
}

#[cfg(test)]
mod tests;
