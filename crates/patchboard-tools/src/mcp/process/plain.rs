//! A server as a plain child in its own process group, used where processes cannot be jailed. Descendants that leave
//! the group outlive it.

use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use secrecy::ExposeSecret;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use super::{ServerCommand, ServerStreams};
use crate::launch::inherited_environment;

#[derive(Debug)]
pub(super) struct PlainServer {
    child: Child,
    /// `None` after the kill: the group id may be reused.
    group: Option<Pid>,
}

pub(super) fn start(command: ServerCommand<'_>) -> Result<(PlainServer, ServerStreams), String> {
    let ServerCommand { program, arguments, env, working_folder, .. } = command;
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(inherited_environment(&[]))
        .envs(env.iter().map(|(name, value)| (name, value.expose_secret())))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .current_dir(working_folder.unwrap_or(Path::new(".")))
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("cannot start `{program}`: {error}"))?;
    let input = child.stdin.take().and_then(|input| pipe::Sender::from_owned_fd(input.into_owned_fd().ok()?).ok());
    let (Some(input), Some(output)) = (input, child.stdout.take()) else {
        return Err(format!("cannot start `{program}`: its standard input and output are unavailable"));
    };
    let streams = ServerStreams { input, output, errors: child.stderr.take() };
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    Ok((PlainServer { child, group }, streams))
}

impl PlainServer {
    pub(super) async fn exited(&mut self) -> String {
        let status = self.child.wait().await;
        self.kill_group();
        match status {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        }
    }

    pub(super) async fn kill(&mut self) {
        self.kill_group();
        self.exited().await;
    }

    fn kill_group(&mut self) {
        if let Some(group) = self.group.take() {
            // The group may be gone already, which is the desired state.
            kill_process_group(group, Signal::KILL).ok();
        }
    }
}

impl Drop for PlainServer {
    fn drop(&mut self) {
        self.kill_group();
    }
}
