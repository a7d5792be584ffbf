//! `bash`: runs a shell command in the working folder, in a jail.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use patchboard_core::port::ToolScope;
use patchboard_core::tool::{ToolEffect, ToolOutput, ToolSpec, UnknownOutcomePolicy};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

mod live_output;
mod output;
mod transcript;

use super::file_runtime::{ToolRefusal, integer_argument, text_argument};
use super::{BoxedBuiltin, BuiltinTool, TOOL_KIND};
use crate::folder::OpenedPath;
use crate::sandbox::{
    CommandExit, CommandSpec, Jail, JailedCommand, NetworkAccess, ResourceLimits, SandboxError, Spawner, StdinMode,
    default_environment,
};
use crate::text::quoted;
use crate::worker;
use crate::workspaces::Workspaces;
use output::{CommandOutcome, tool_output};
use transcript::Transcript;

/// Concurrent commands; further ones wait.
const COMMANDS_AT_ONCE: usize = 64;
const DEFAULT_TIMEOUT_MS: u64 = 120_000;
/// The kernel accepts no longer argument.
const MAX_COMMAND_BYTES: usize = 120 * 1024;
/// Time for starting, ending and reading the remaining output, in addition to the command's own limit.
const TIMEOUT_MARGIN: Duration = Duration::from_secs(30);
/// Once all processes have ended, the rest of the pipes is read for at most this long.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// The first shell that exists runs the commands.
const SHELLS: [&str; 4] = ["/bin/bash", "/usr/bin/bash", "/run/current-system/sw/bin/bash", "/bin/sh"];

#[derive(Debug, Clone)]
pub struct BashOptions {
    pub workspaces: Workspaces,
    /// Blocking work is spawned here, so that a shutdown can wait for it.
    pub tasks: TaskTracker,
    pub spawner: Spawner,
    /// Upper bound of every command's time limit, whatever the call requests.
    pub timeout: Duration,
    /// Paths beneath which commands may also read and execute everything, such as a language's toolchain.
    pub readable: Vec<PathBuf>,
    /// All variables of commands, besides those that `sandbox::Jail` adds.
    pub environment: BTreeMap<String, String>,
    pub network: NetworkAccess,
    /// Unix sockets that no command may connect to, even if it may use Unix sockets; sockets of workers are closed too.
    pub closed_sockets: Vec<PathBuf>,
    pub limits: ResourceLimits,
}

impl BashOptions {
    pub fn new(workspaces: Workspaces, tasks: TaskTracker, spawner: Spawner) -> Self {
        Self {
            workspaces,
            tasks,
            spawner,
            timeout: Duration::from_millis(DEFAULT_TIMEOUT_MS),
            readable: Vec::new(),
            environment: default_environment(),
            network: NetworkAccess::default(),
            closed_sockets: Vec::new(),
            limits: ResourceLimits::default(),
        }
    }
}

/// The tool `bash`.
pub fn bash(options: BashOptions) -> BoxedBuiltin {
    let shell = SHELLS.into_iter().find(|shell| Path::new(shell).exists()).unwrap_or("/bin/sh").into();
    BoxedBuiltin::new(BashTool { options, shell, slots: Arc::new(Semaphore::new(COMMANDS_AT_ONCE)) })
}

#[derive(Debug)]
struct BashTool {
    options: BashOptions,
    shell: PathBuf,
    slots: Arc<Semaphore>,
}

/// One call, with its arguments parsed.
struct BashCall {
    command: String,
    workdir: Option<String>,
    timeout: Duration,
}

impl BuiltinTool for BashTool {
    fn spec(&self) -> ToolSpec {
        let cap = self.options.timeout.as_millis();
        ToolSpec {
            name: "bash".into(),
            description: "Run a shell command in the working folder and return what it printed and its exit code. \
                          Files outside the working folder cannot be changed, and only those of the system can be \
                          read; use `$TMPDIR` for temporary files, which are gone afterwards. There is no input and \
                          no terminal. Everything the command started ends with it, background processes included. \
                          Of long output the beginning and the end are kept."
                .into(),
            input_schema: Arc::new(json!({
                "type": "object",
                "properties": {
                    "command": {
                        "type": "string",
                        "minLength": 1,
                        "description": "The command, as for `bash -c`."
                    },
                    "workdir": {
                        "type": "string",
                        "minLength": 1,
                        "description": "The folder to run it in, relative to the working folder, which is the default."
                    },
                    "timeout": {
                        "type": "integer",
                        "minimum": 0,
                        "description": format!(
                            "Milliseconds after which the command is ended; {DEFAULT_TIMEOUT_MS} by default, at most \
                             {cap}, which 0 stands for."
                        )
                    },
                    "description": {
                        "type": "string",
                        "description": "What the command is for, in a few words, for people who watch."
                    }
                },
                "required": ["command"],
                "additionalProperties": false
            })),
            effect: ToolEffect::Writes,
            unknown_outcome: UnknownOutcomePolicy::Ask,
            // The command's own limit expires first and returns the output printed until then.
            timeout: Some(self.options.timeout + TIMEOUT_MARGIN),
            kind: TOOL_KIND,
            traits: None,
        }
    }

    fn run<'a>(
        &'a self,
        scope: &'a ToolScope,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        let call = BashCall {
            command: text_argument(arguments, "command").unwrap_or_default().to_owned(),
            workdir: text_argument(arguments, "workdir").map(str::to_owned),
            timeout: self.time_limit(integer_argument(arguments, "timeout").unwrap_or(DEFAULT_TIMEOUT_MS)),
        };
        Box::pin(async move {
            match self.call(scope, call, &stop).await {
                Ok(output) => output,
                Err(ToolRefusal(reason)) => ToolOutput::error(reason),
            }
        })
    }
}

impl BashTool {
    fn time_limit(&self, milliseconds: u64) -> Duration {
        let asked = if milliseconds == 0 { self.options.timeout } else { Duration::from_millis(milliseconds) };
        asked.min(self.options.timeout)
    }

    async fn call(
        &self,
        scope: &ToolScope,
        call: BashCall,
        stop: &CancellationToken,
    ) -> Result<ToolOutput, ToolRefusal> {
        let starting = async {
            let slot = self.slots.acquire().await.map_err(|_| ToolRefusal::cancelled())?;
            // The time spent waiting for a slot does not count for the command.
            let deadline = Instant::now() + call.timeout;
            Ok::<_, ToolRefusal>((slot, deadline, self.start(scope, call.command, call.workdir).await?))
        };
        let (_slot, deadline, mut jailed) = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(ToolRefusal::cancelled()),
            started = starting => started?,
        };
        let mut transcript = Transcript::of(&mut jailed);
        let mut outcome = tokio::select! {
            biased;
            () = stop.cancelled() => CommandOutcome::Cancelled,
            ending = read_to_exit(&mut transcript, &mut jailed, scope) => CommandOutcome::from(ending),
            () = tokio::time::sleep_until(deadline) => CommandOutcome::TimedOut(call.timeout),
        };
        if matches!(outcome, CommandOutcome::Cancelled | CommandOutcome::TimedOut(_)) {
            match jailed.kill().await {
                // The command had exited by itself; only the receiver of its output was slow.
                Ok(ending @ CommandExit::Exited(_)) if matches!(outcome, CommandOutcome::TimedOut(_)) => {
                    outcome = CommandOutcome::Ended(ending);
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "cannot kill a command cleanly"),
            }
            // Output printed before the kill is still returned.
            drop(tokio::time::timeout(DRAIN_TIMEOUT, transcript.drain()).await);
        }
        Ok(tool_output(&outcome, &transcript, jailed.confinement(), &self.options.network))
    }

    async fn start(
        &self,
        scope: &ToolScope,
        command: String,
        workdir: Option<String>,
    ) -> Result<JailedCommand, ToolRefusal> {
        if command.len() > MAX_COMMAND_BYTES {
            return Err(ToolRefusal(format!("`command` is longer than {MAX_COMMAND_BYTES} bytes: put it into a file")));
        }
        if command.contains('\0') {
            return Err(ToolRefusal("`command` holds a NUL character, which no command can".to_owned()));
        }
        let (workspaces, scope) = (self.options.workspaces.clone(), scope.clone());
        let opening = self.options.tasks.spawn_blocking(move || open_folders(&workspaces, &scope, workdir.as_deref()));
        let Ok(opened) = opening.await else { return Err(ToolRefusal("internal error in the tool".to_owned())) };
        let (root, folder) = opened?;
        let mut jail = Jail::for_folder(folder).map_err(|error| jail_refusal(&SandboxError::SupervisorStart(error)))?;
        jail.writable = vec![root];
        jail.readable.clone_from(&self.options.readable);
        jail.protected = self.options.workspaces.protected().to_vec();
        if self.options.network.unix_sockets {
            jail.protected.extend(self.options.closed_sockets.iter().cloned());
            jail.protected.extend(worker::folder::server_socket_folders(&std::env::temp_dir()));
        }
        jail.environment.clone_from(&self.options.environment);
        jail.network = self.options.network.clone();
        jail.limits = self.options.limits;
        let program = CommandSpec {
            program: self.shell.clone(),
            arguments: vec!["-c".to_owned(), command],
            stdin: StdinMode::Null,
        };
        self.options.spawner.spawn(jail, program).await.map_err(|error| jail_refusal(&error))
    }
}

/// Opens the working folder and the folder to start in.
fn open_folders(
    workspaces: &Workspaces,
    scope: &ToolScope,
    workdir: Option<&str>,
) -> Result<(OwnedFd, OwnedFd), ToolRefusal> {
    let work_folder = workspaces.open_for(scope)?;
    let directory = |path: &str| match work_folder.open_path(path)? {
        OpenedPath::Folder(folder) => folder.as_fd().try_clone_to_owned().map_err(|error| cannot_enter(path, &error)),
        OpenedPath::File(_) => Err(ToolRefusal(format!("{} is a file: `workdir` must be a folder", quoted(path)))),
    };
    Ok((directory(".")?, directory(workdir.unwrap_or("."))?))
}

/// Reads both streams to their end, forwards them as progress, and waits for the end of the command.
async fn read_to_exit(
    transcript: &mut Transcript,
    jailed: &mut JailedCommand,
    scope: &ToolScope,
) -> Result<CommandExit, SandboxError> {
    transcript.read(&scope.progress).await;
    jailed.wait().await
}

fn cannot_enter(path: &str, error: &io::Error) -> ToolRefusal {
    ToolRefusal(format!("{} cannot be entered: {error}", quoted(path)))
}

/// The cause is only logged; a model cannot act on it.
fn jail_refusal(error: &SandboxError) -> ToolRefusal {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    tracing::warn!(%error, cause, "a command could not be started");
    ToolRefusal(error.to_string())
}

#[cfg(test)]
mod tests;
