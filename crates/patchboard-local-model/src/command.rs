//! Runs a helper program to its end: clean environment, bounded time, bounded output, cancellable.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use super::Error;
use super::tail::{OutputTail, clean_lines};

/// A program's purpose decides which environment variables it receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProgramPurpose {
    /// Processes conversations; needs only the paths of its libraries.
    Serve,
    /// Downloads packages; also needs the operator's settings for the package index.
    Install,
}

/// A preparation step: its name in errors, and its time limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct PrepareStep {
    pub(super) name: &'static str,
    pub(super) limit: Duration,
}

#[derive(Debug)]
pub(super) struct CommandOutput {
    pub(super) succeeded: bool,
    pub(super) status: String,
    pub(super) stdout: String,
    /// The last lines of both streams.
    pub(super) output: String,
}

impl CommandOutput {
    pub(super) fn or_fail(self, step: PrepareStep, directory: &Path) -> Result<Self, Error> {
        if self.succeeded {
            Ok(self)
        } else if self.output.contains("No space left on device") || self.output.contains("Disk quota exceeded") {
            Err(Error::DiskFull { directory: directory.to_owned() })
        } else {
            Err(Error::Command { step: step.name, status: self.status, output: self.output })
        }
    }
}

/// Builds the command with only the environment variables that its purpose needs: the server's keys and tokens are
/// withheld.
pub(super) fn clean_command(path: &Path, purpose: ProgramPurpose) -> Command {
    #[expect(clippy::disallowed_methods, reason = "passes a named few variables on and means nothing by them")]
    let variables = std::env::vars_os();
    let mut command = Command::new(path);
    command
        .env_clear()
        .envs(variables.filter(|(name, _)| name.to_str().is_some_and(|name| is_variable_allowed(purpose, name))))
        // Its own process group: Ctrl-C in the terminal reaches only the server, which then ends its children in order.
        .process_group(0)
        .kill_on_drop(true)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub(super) async fn run(
    mut command: Command,
    step: PrepareStep,
    stop: &CancellationToken,
) -> Result<CommandOutput, Error> {
    let mut child = command.spawn().map_err(|source| Error::Spawn {
        step: step.name,
        program: command.as_std().get_program().into(),
        source,
    })?;
    let (stdout, stderr) = (OutputTail::default(), OutputTail::default());
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let finish = async {
        let drain_out = async {
            if let Some(out) = out {
                stdout.clone().drain(out).await;
            }
        };
        let drain_err = async {
            if let Some(err) = err {
                stderr.clone().drain(err).await;
            }
        };
        let ((), (), status) = tokio::join!(drain_out, drain_err, child.wait());
        status
    };
    let ended = tokio::select! {
        ended = tokio::time::timeout(step.limit, finish) => Some(ended),
        () = stop.cancelled() => None,
    };
    let status = match ended {
        Some(Ok(status)) => status.map_err(Error::file("wait for", step.name.as_ref()))?,
        Some(Err(_)) => return Err(kill_child(child, Error::TooSlow { step: step.name, limit: step.limit }).await),
        None => return Err(kill_child(child, Error::Stopped).await),
    };
    Ok(CommandOutput {
        succeeded: status.success(),
        status: status.to_string(),
        stdout: stdout.text(),
        output: clean_lines(&format!("{}\n{}", stdout.text(), stderr.text())),
    })
}

/// Waits for the killed program to exit, so that it writes nothing more when its directory is removed.
async fn kill_child(mut child: tokio::process::Child, reason: Error) -> Error {
    if let Err(error) = child.kill().await {
        tracing::debug!(%error, "a helper program could not be killed");
    }
    reason
}

const COMMON_VARIABLES: &[&str] =
    &["PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"];

/// Variables for reaching a package index; those that change what or where `pip` installs are excluded.
const INSTALL_VARIABLES: &[&str] = &[
    "XDG_CONFIG_HOME",
    "NETRC",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "PIP_CONFIG_FILE",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_NO_INDEX",
    "PIP_TRUSTED_HOST",
    "PIP_CERT",
    "PIP_CLIENT_CERT",
    "PIP_PROXY",
    "PIP_TIMEOUT",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_RETRIES",
    "PIP_KEYRING_PROVIDER",
];

pub(super) fn is_variable_allowed(purpose: ProgramPurpose, name: &str) -> bool {
    let needed_to_install =
        || INSTALL_VARIABLES.contains(&name) || matches!(name, "http_proxy" | "https_proxy" | "all_proxy" | "no_proxy");
    COMMON_VARIABLES.contains(&name) || (purpose == ProgramPurpose::Install && needed_to_install())
}
