//! Command line and environment of a worker, as required by the protocol.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use patchboard_core::bridge::WorkerSecret;
use patchboard_core::worker::WorkerId;
use secrecy::{ExposeSecret, SecretString};

use super::PoolOptions;

/// Variables of the server that workers inherit besides those every program inherits: `PYTHONPATH` locates modules that
/// are not installed.
pub(super) const INHERITED_VARIABLES: &[&str] = &["PYTHONPATH"];

/// Defaults for every worker: one thread per numerical library, since there are many workers, and no unrequested
/// output.
const DEFAULT_VARIABLES: &[(&str, &str)] = &[
    ("GRPC_POLL_STRATEGY", "poll"),
    ("GRPC_VERBOSITY", "ERROR"),
    ("MKL_NUM_THREADS", "1"),
    ("NUMEXPR_NUM_THREADS", "1"),
    ("OMP_NUM_THREADS", "1"),
    ("OPENBLAS_NUM_THREADS", "1"),
    ("PYTHONUNBUFFERED", "1"),
    ("SNAKEPIT_LOG_LEVEL", "error"),
    ("SNAKEPIT_OTEL_CONSOLE", "false"),
    ("SNAKEPIT_PROCESS_GROUP", "1"),
    ("VECLIB_MAXIMUM_THREADS", "1"),
];

/// Lets a worker detect by itself that the server is gone.
const HEARTBEAT_CONFIG: &str = r#"{"enabled":true,"interval_ms":2000,"timeout_ms":10000,"max_missed_heartbeats":3,"initial_delay_ms":0,"dependent":true}"#;

/// The values in which one worker differs from the others of its pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct WorkerIdentity<'a> {
    pub(super) id: &'a WorkerId,
    /// Identifies this run of the server.
    pub(super) run_id: &'a str,
    /// The address that the worker calls back on.
    pub(super) callback_address: SocketAddr,
    /// Sent with every call in both directions.
    pub(super) secret: &'a WorkerSecret,
    /// From the block of ports; 0 if the worker needs none.
    pub(super) port: u16,
    pub(super) ready_file: &'a Path,
    pub(super) socket: &'a Path,
}

/// The arguments after the program: the pool's own, plus the flags that the pool does not set itself.
pub(super) fn arguments(pool: &PoolOptions, identity: WorkerIdentity<'_>) -> Vec<String> {
    let mut arguments: Vec<String> = pool.command.iter().skip(1).cloned().collect();
    for (flag, value) in flags(identity) {
        let is_set = arguments
            .iter()
            .any(|argument| argument.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('=')));
        if !is_set {
            arguments.extend([flag.to_owned(), value]);
        }
    }
    arguments
}

/// Arguments of a worker forked from a program that already has the pool's own.
pub(super) fn worker_arguments(identity: WorkerIdentity<'_>) -> Vec<String> {
    flags(identity).into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
}

fn flags(identity: WorkerIdentity<'_>) -> [(&'static str, String); 3] {
    [
        ("--port", identity.port.to_string()),
        ("--elixir-address", identity.callback_address.to_string()),
        ("--snakepit-run-id", identity.run_id.to_owned()),
    ]
}

/// All variables of a worker: `inherited` are the server's, `variables` those of this worker only. The pool's `env`
/// overrides all others.
pub(super) fn environment(
    pool: &PoolOptions,
    variables: BTreeMap<String, String>,
    inherited: impl IntoIterator<Item = (String, String)>,
) -> BTreeMap<String, SecretString> {
    let mut all: BTreeMap<String, SecretString> = BTreeMap::new();
    let mut set = |name: String, value: String| drop(all.insert(name, value.into()));
    for (name, value) in inherited {
        set(name, value);
    }
    for (name, value) in DEFAULT_VARIABLES {
        set((*name).to_owned(), (*value).to_owned());
    }
    set("SNAKEPIT_HEARTBEAT_CONFIG".to_owned(), HEARTBEAT_CONFIG.to_owned());
    if let Some(program) = pool.command.first() {
        set("SNAKEPIT_PYTHON".to_owned(), program.clone());
    }
    set("PATCHBOARD_POOL".to_owned(), pool.name.to_string());
    for (name, value) in variables {
        set(name, value);
    }
    all.extend(pool.env.iter().map(|(name, value)| (name.clone(), value.expose_secret().into())));
    all
}

/// Variables with values of this one worker.
pub(super) fn worker_variables(identity: WorkerIdentity<'_>) -> BTreeMap<String, String> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    [
        ("SNAKEPIT_READY_FILE", text(identity.ready_file)),
        ("PATCHBOARD_WORKER_SOCKET", text(identity.socket)),
        ("PATCHBOARD_WORKER_ID", identity.id.to_string()),
        ("PATCHBOARD_WORKER_SECRET", identity.secret.expose().to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

#[cfg(test)]
mod tests;
