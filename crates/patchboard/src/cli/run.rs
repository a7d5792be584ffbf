//! `patchboard run` and `patchboard attach`: one agent run, followed to its end, through a running server or one
//! started for it.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use patchboard_config::Environment;
use patchboard_config::env::PATCHBOARD_TOKEN;

use super::approval_mode::{ApprovalArgs, ApprovalResponder, UnattendedMode};
use super::caller_folder::{self, CallerFolder, ServerLookup};
use super::embedded_server::{EmbeddedServer, EnabledSurfaces, ModelNotice};
use super::failure::CommandFailure;
use super::{ConfigLocation, SERVER_HEADING};
use crate::client::ServerAddress;
use crate::client::runs::{RunFrame, RunRequest, RunsClient};
use crate::output;
use crate::telemetry::otlp::TRACES_DISABLED;
use follow::{InterruptAction, RunFollower};
use terminal::TerminalInput;

mod event;
mod follow;
pub(super) mod live_display;
pub(super) mod questions;
mod tasks;
pub(super) mod terminal;
mod thoughts;
pub(super) mod view;

/// Maximum length of a message from standard input; servers accept no longer ones.
const MAX_MESSAGE: u64 = 4 * 1024 * 1024;

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    target: RunsTarget,
    /// The task; `-` reads it from standard input.
    #[arg(short, long, value_name = "TEXT", required_unless_present = "words", conflicts_with = "words")]
    message: Option<String>,
    /// The task, as plain words.
    #[arg(value_name = "TEXT")]
    words: Vec<String>,
    /// Strategy of the default agent (react, dup, tot or got), or the name of a configured agent.
    #[arg(long, value_name = "NAME", default_value = "react")]
    agent: String,
    /// Another model than the agent's, for this run: PROVIDER/MODEL, or a model of the agent's provider.
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Conversation to continue; left out, the run has one of its own.
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// Folder where tools work; left out, the current one, or the server's with --url.
    #[arg(short, long, value_name = "DIR")]
    working_folder: Option<PathBuf>,
    /// Let got split tasks that turn out to be large.
    #[arg(long)]
    adaptive: bool,
    #[command(flatten)]
    unattended: ApprovalArgs,
    /// Print the run's id and exit; `patchboard attach` follows it later. Tool calls that need approval wait.
    #[arg(long)]
    detach: bool,
    /// Name of the run, for `attach`; left out, one is made.
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Log this run in more detail.
    #[arg(short, long)]
    verbose: bool,
    /// Print every event as a line of JSON, and the reply as the last.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    /// The run's id, as `run --id` or `run --detach` named it.
    id: String,
    #[command(flatten)]
    target: RunsTarget,
    /// Only events after this number.
    #[arg(long, value_name = "N", default_value_t = 0)]
    after: u64,
    /// Print every event as a line of JSON, and the reply as the last.
    #[arg(long)]
    json: bool,
}

/// Which server a run is asked of.
#[derive(Debug, Args)]
pub(super) struct RunsTarget {
    #[command(flatten)]
    place: ConfigLocation,
    /// Address of the server's runs surface, instead of the one that runs on the data directory. Its token is read from
    /// PATCHBOARD_TOKEN.
    #[arg(long, value_name = "URL", help_heading = SERVER_HEADING)]
    url: Option<String>,
}

impl RunsTarget {
    /// Returns `None` if no server runs on the data directory.
    fn find(&self) -> Result<Option<ServerAddress>, CommandFailure> {
        if let Some(url) = &self.url {
            let token = Environment::from_process().get(PATCHBOARD_TOKEN).map(Into::into);
            return Ok(Some(ServerAddress::of_runs_url(url, token)?));
        }
        self.on_data_dir(&self.place.load()?.config.data_dir)
    }

    fn on_data_dir(&self, data_dir: &Path) -> Result<Option<ServerAddress>, CommandFailure> {
        ServerAddress::of_runs(data_dir).map_err(|_| {
            CommandFailure::unreachable(format!("the server on `{}` does not listen for runs", data_dir.display()))
                .hint("start it without `--runs off`")
        })
    }

    /// Returns an error if no server is found.
    pub(super) fn required_address(&self) -> Result<ServerAddress, CommandFailure> {
        match self.find()? {
            Some(address) => Ok(address),
            None => Err(self.no_server_failure()?.hint("start one with `patchboard serve`, or name one with --url")),
        }
    }

    fn lookup(&self) -> ServerLookup {
        if self.url.is_some() { ServerLookup::Url } else { ServerLookup::DataDir }
    }

    fn no_server_failure(&self) -> Result<CommandFailure, CommandFailure> {
        let data_dir = self.place.load()?.config.data_dir;
        Ok(CommandFailure::unreachable(format!("no server runs on `{}`", data_dir.display())))
    }
}

pub(super) fn run(args: RunArgs) -> Result<ExitCode, CommandFailure> {
    on_runtime(start(args))
}

pub(super) fn attach(args: AttachArgs) -> Result<ExitCode, CommandFailure> {
    on_runtime(follow_existing(args))
}

fn on_runtime(work: impl Future<Output = Result<ExitCode, CommandFailure>>) -> Result<ExitCode, CommandFailure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(work);
    // A pending read of the terminal must not delay the exit.
    runtime.shutdown_background();
    outcome
}

async fn start(args: RunArgs) -> Result<ExitCode, CommandFailure> {
    if args.detach && args.unattended.approvals == Some(UnattendedMode::Refuse) {
        let failure = CommandFailure::unusable("a detached run has nobody who could refuse: its approvals wait");
        return Err(failure.hint("leave out `--approvals refuse`, or deny the tools under `[tools.approval]`"));
    }
    let current_dir = std::env::current_dir()?;
    let request = request(&args, &current_dir)?;
    let (address, own) = match args.target.find()? {
        Some(address) => (address, None),
        None if args.detach => {
            let failure = args.target.no_server_failure()?;
            return Err(failure.hint("a detached run needs one that goes on: start it with `patchboard serve`"));
        }
        None => {
            let loaded = args.target.place.load()?;
            let folder = caller_folder::embedded_server_folder(&loaded, args.working_folder.as_deref(), &current_dir)?;
            let choice = if args.json { ModelNotice::Silent } else { ModelNotice::Shown };
            let place = &args.target.place;
            let own =
                EmbeddedServer::start(place, folder, EnabledSurfaces::GatewayAndRuns, choice, TRACES_DISABLED).await?;
            let gone = || CommandFailure::unreachable("the server started for this run is gone");
            (args.target.on_data_dir(&own.data_dir)?.ok_or_else(gone)?, Some(own))
        }
    };
    let outcome = watch(&address, &args, &request).await;
    match (own, &outcome) {
        // The user asked to leave at once.
        (Some(_), Ok(WatchOutcome { is_immediate: true, .. })) | (None, _) => {}
        (Some(own), _) => own.shut_down().await?,
    }
    outcome.map(|watched| watched.code)
}

/// The outcome of following a run.
#[derive(Debug)]
struct WatchOutcome {
    code: ExitCode,
    /// A second Ctrl-C: leave without waiting.
    is_immediate: bool,
}

impl From<ExitCode> for WatchOutcome {
    fn from(code: ExitCode) -> Self {
        Self { code, is_immediate: false }
    }
}

async fn watch(address: &ServerAddress, args: &RunArgs, request: &RunRequest) -> Result<WatchOutcome, CommandFailure> {
    let mut client = RunsClient::connect(address).await.map_err(CommandFailure::from_connect_error)?;
    client.run(request).await?;
    if args.detach {
        return detach(client, request, args.json).await.map(WatchOutcome::from);
    }
    let answerer = args.unattended.responder(!args.json && TerminalInput::is_interactive());
    RunFollower::new(client, request.id.clone(), args.json, InterruptAction::CancelRun, answerer)?.watch().await
}

/// Waits until the run is stored, so that leaving does not undo it.
async fn detach(mut client: RunsClient, request: &RunRequest, json: bool) -> Result<ExitCode, CommandFailure> {
    match client.next_frame().await? {
        RunFrame::Error(error) if json => {
            output::print_line(&serde_json::json!({ "error": error }).to_string());
            Ok(ExitCode::FAILURE)
        }
        RunFrame::Error(error) => Err(CommandFailure::failed(output::plain(&error))),
        RunFrame::Event(_) | RunFrame::End(_) | RunFrame::ApprovalRefused(_) => {
            let id = &request.id;
            output::print_line(&if json { serde_json::json!({ "id": id }).to_string() } else { id.clone() });
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn follow_existing(args: AttachArgs) -> Result<ExitCode, CommandFailure> {
    let Some(address) = args.target.find()? else {
        let failure = args.target.no_server_failure()?;
        return Err(failure.hint("start one with `patchboard serve`: runs that were cut short go on then"));
    };
    let mut client = RunsClient::connect(&address).await.map_err(CommandFailure::from_connect_error)?;
    client.attach(&args.id, args.after).await?;
    // The run may belong to another client: its questions must not be refused because this one cannot ask.
    let answerer = match !args.json && TerminalInput::is_interactive() {
        true => ApprovalResponder::Person,
        false => ApprovalResponder::Unattended(UnattendedMode::Wait),
    };
    let watched = RunFollower::new(client, args.id, args.json, InterruptAction::Detach, answerer)?.watch().await?;
    Ok(watched.code)
}

fn request(args: &RunArgs, current_dir: &Path) -> Result<RunRequest, CommandFailure> {
    let message = match args.message.as_deref() {
        Some("-") => read_message()?,
        Some(message) => message.to_owned(),
        None => args.words.join(" "),
    };
    if message.trim().is_empty() {
        return Err(CommandFailure::unusable("the message is empty: say what to do".to_owned()));
    }
    let folder = CallerFolder::new(args.working_folder.as_deref(), current_dir, args.target.lookup())?;
    Ok(RunRequest {
        id: args.id.clone().unwrap_or_else(|| format!("run-{}", uuid::Uuid::new_v4())),
        message,
        agent: args.agent.clone(),
        model: args.model.clone(),
        thread_id: args.thread.clone(),
        working_folder: folder.path,
        grant_folder: folder.is_granted,
        got_adaptive: args.adaptive,
        verbose: args.verbose,
        detach: args.detach,
    })
}

fn read_message() -> Result<String, CommandFailure> {
    let mut message = String::new();
    std::io::stdin().lock().take(MAX_MESSAGE + 1).read_to_string(&mut message)?;
    if message.len() as u64 > MAX_MESSAGE {
        return Err(CommandFailure::unusable(format!("the message is longer than {MAX_MESSAGE} bytes")));
    }
    Ok(message)
}

#[cfg(test)]
mod tests;
