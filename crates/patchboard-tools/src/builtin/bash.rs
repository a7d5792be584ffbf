//! `bash`: a shell command in the working folder, in a jail.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use patchboard_core::tool::{Effect, ToolOutput, ToolScope, ToolSpec, UnknownOutcome};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

mod live;
mod output;
mod transcript;

use super::bench::{Refusal, integer, text};
use super::{Builtin, BuiltinTool, KIND};
use crate::folder::Found;
use crate::sandbox::{Ending, Error, Input, Jail, Jailed, Limits, Network, Program, Spawner, environment};
use crate::words::quoted;
use crate::worker;
use crate::workspaces::Workspaces;
use output::{Outcome, answer};
use transcript::Transcript;

/// So many commands run at once; more wait their turn.
const COMMANDS_AT_ONCE: usize = 64;
const DEFAULT_TIMEOUT_MS: u64 = 120_000;
/// The kernel takes no longer argument.
const MAX_COMMAND_BYTES: usize = 120 * 1024;
/// For starting, ending and reading the rest, beside the time that the command may take.
const BEYOND_OWN_LIMIT: Duration = Duration::from_secs(30);
/// What is still in the pipes once everything has ended is read within this.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The first of these that exists runs the commands.
const SHELLS: [&str; 4] = ["/bin/bash", "/usr/bin/bash", "/run/current-system/sw/bin/bash", "/bin/sh"];

#[derive(Debug, Clone)]
pub struct BashOptions {
    pub workspaces: Workspaces,
    /// Blocking work is spawned here, so that a shutdown can wait for it.
    pub tasks: TaskTracker,
    pub spawner: Spawner,
    /// No command takes longer, whatever the call asks for.
    pub timeout: Duration,
    /// Beneath these paths commands may also read and run everything, such as a language's toolchain.
    pub readable: Vec<PathBuf>,
    /// All variables that commands get, besides those that `sandbox::Jail` adds.
    pub environment: BTreeMap<String, String>,
    pub network: Network,
    /// Sockets with a path that no command reaches, even where it may use such sockets; nor those of workers.
    pub closed_sockets: Vec<PathBuf>,
    pub limits: Limits,
}

impl BashOptions {
    pub fn new(workspaces: Workspaces, tasks: TaskTracker, spawner: Spawner) -> Self {
        Self {
            workspaces,
            tasks,
            spawner,
            timeout: Duration::from_millis(DEFAULT_TIMEOUT_MS),
            readable: Vec::new(),
            environment: environment(),
            network: Network::default(),
            closed_sockets: Vec::new(),
            limits: Limits::default(),
        }
    }
}

/// The tool `bash`.
pub fn bash(options: BashOptions) -> Builtin {
    let shell = SHELLS.into_iter().find(|shell| Path::new(shell).exists()).unwrap_or("/bin/sh").into();
    Builtin::new(Bash { options, shell, slots: Arc::new(Semaphore::new(COMMANDS_AT_ONCE)) })
}

#[derive(Debug)]
struct Bash {
    options: BashOptions,
    shell: PathBuf,
    slots: Arc<Semaphore>,
}

/// One call, its arguments read.
struct Call {
    command: String,
    workdir: Option<String>,
    timeout: Duration,
}

impl BuiltinTool for Bash {
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
            effect: Effect::Writes,
            unknown_outcome: UnknownOutcome::Ask,
            // Its own limit acts first, and tells what was printed until then.
            timeout: Some(self.options.timeout + BEYOND_OWN_LIMIT),
            kind: KIND,
            traits: None,
        }
    }

    fn run<'a>(
        &'a self,
        scope: &'a ToolScope,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        let call = Call {
            command: text(arguments, "command").unwrap_or_default().to_owned(),
            workdir: text(arguments, "workdir").map(str::to_owned),
            timeout: self.time_limit(integer(arguments, "timeout").unwrap_or(DEFAULT_TIMEOUT_MS)),
        };
        Box::pin(async move {
            match self.call(scope, call, &stop).await {
                Ok(output) => output,
                Err(Refusal(reason)) => ToolOutput::error(reason),
            }
        })
    }
}

impl Bash {
    fn time_limit(&self, milliseconds: u64) -> Duration {
        let asked = if milliseconds == 0 { self.options.timeout } else { Duration::from_millis(milliseconds) };
        asked.min(self.options.timeout)
    }

    async fn call(&self, scope: &ToolScope, call: Call, stop: &CancellationToken) -> Result<ToolOutput, Refusal> {
        let starting = async {
            let slot = self.slots.acquire().await.map_err(|_| Refusal::cancelled())?;
            // Time spent waiting for a slot is not the command's.
            let deadline = Instant::now() + call.timeout;
            Ok::<_, Refusal>((slot, deadline, self.start(scope, call.command, call.workdir).await?))
        };
        let (_slot, deadline, mut jailed) = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(Refusal::cancelled()),
            started = starting => started?,
        };
        let mut transcript = Transcript::of(&mut jailed);
        let mut outcome = tokio::select! {
            biased;
            () = stop.cancelled() => Outcome::Cancelled,
            ending = follow(&mut transcript, &mut jailed, scope) => Outcome::from(ending),
            () = tokio::time::sleep_until(deadline) => Outcome::TimedOut(call.timeout),
        };
        if matches!(outcome, Outcome::Cancelled | Outcome::TimedOut(_)) {
            match jailed.kill().await {
                // It had ended by itself, and only who listens to it was slow.
                Ok(ending @ Ending::Exited(_)) if matches!(outcome, Outcome::TimedOut(_)) => {
                    outcome = Outcome::Ended(ending);
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "a command could not be ended in order"),
            }
            // What it printed until then still counts.
            drop(tokio::time::timeout(LAST_WORDS, transcript.read_quietly()).await);
        }
        Ok(answer(&outcome, &transcript, jailed.confinement(), &self.options.network))
    }

    async fn start(&self, scope: &ToolScope, command: String, workdir: Option<String>) -> Result<Jailed, Refusal> {
        if command.len() > MAX_COMMAND_BYTES {
            return Err(Refusal(format!("`command` is longer than {MAX_COMMAND_BYTES} bytes: put it into a file")));
        }
        if command.contains('\0') {
            return Err(Refusal("`command` holds a NUL character, which no command can".to_owned()));
        }
        let (workspaces, scope) = (self.options.workspaces.clone(), scope.clone());
        let opening = self.options.tasks.spawn_blocking(move || open(&workspaces, &scope, workdir.as_deref()));
        let Ok(opened) = opening.await else { return Err(Refusal("the tool failed inside".to_owned())) };
        let (root, folder) = opened?;
        let mut jail = Jail::around(folder).map_err(|error| no_jail(&Error::Supervisor(error)))?;
        jail.writable = vec![root];
        jail.readable.clone_from(&self.options.readable);
        jail.protected = self.options.workspaces.protected().to_vec();
        if self.options.network.unix_sockets {
            jail.protected.extend(self.options.closed_sockets.iter().cloned());
            jail.protected.extend(worker::folder::of_this_server(&std::env::temp_dir()));
        }
        jail.environment.clone_from(&self.options.environment);
        jail.network = self.options.network.clone();
        jail.limits = self.options.limits;
        let program =
            Program { program: self.shell.clone(), arguments: vec!["-c".to_owned(), command], input: Input::Nothing };
        self.options.spawner.spawn(jail, program).await.map_err(|error| no_jail(&error))
    }
}

/// The working folder and the folder to start in.
fn open(workspaces: &Workspaces, scope: &ToolScope, workdir: Option<&str>) -> Result<(OwnedFd, OwnedFd), Refusal> {
    let work_folder = workspaces.of(scope)?;
    let directory = |path: &str| match work_folder.find(path)? {
        Found::Folder(folder) => folder.as_fd().try_clone_to_owned().map_err(|error| cannot_enter(path, &error)),
        Found::File(_) => Err(Refusal(format!("{} is a file: `workdir` must be a folder", quoted(path)))),
    };
    Ok((directory(".")?, directory(workdir.unwrap_or("."))?))
}

/// Reads to the end of both streams, telling who listens, and waits for the end of the command.
async fn follow(transcript: &mut Transcript, jailed: &mut Jailed, scope: &ToolScope) -> Result<Ending, Error> {
    transcript.read(&scope.voice).await;
    jailed.wait().await
}

fn cannot_enter(path: &str, error: &io::Error) -> Refusal {
    Refusal(format!("{} cannot be entered: {error}", quoted(path)))
}

/// The cause is for the log; a model can do nothing about it.
fn no_jail(error: &Error) -> Refusal {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    tracing::warn!(%error, cause, "a command could not be started");
    Refusal(error.to_string())
}

#[cfg(test)]
mod tests;
