//! What a worker is started with: its command line and its environment, as programs of this protocol expect them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use patchboard_core::bridge::WorkerSecret;
use patchboard_core::worker::WorkerId;
use secrecy::{ExposeSecret, SecretString};

use super::PoolOptions;

/// Of the server's own variables besides those of every program: where Python finds what is not installed.
pub(super) const INHERITED_VARIABLES: &[&str] = &["PYTHONPATH"];

/// The same for every worker: one thread for each library that would like one per core, since there are many workers,
/// and nothing on standard output that nobody asked for.
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

/// How a worker itself finds out that the server is gone.
const HEARTBEAT_CONFIG: &str = r#"{"enabled":true,"interval_ms":2000,"timeout_ms":10000,"max_missed_heartbeats":3,"initial_delay_ms":0,"dependent":true}"#;

/// What makes one worker differ from the others of its pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct WorkerIdentity<'a> {
    pub(super) id: &'a WorkerId,
    /// Of this run of the server.
    pub(super) run_id: &'a str,
    /// Where it calls back.
    pub(super) callback_address: SocketAddr,
    /// What it and the server show each other.
    pub(super) secret: &'a WorkerSecret,
    /// Of the block of ports; 0 where it has none there.
    pub(super) port: u16,
    pub(super) ready_file: &'a Path,
    pub(super) socket: &'a Path,
}

/// The arguments after the program: the pool's, and those it does not give itself.
pub(super) fn arguments(pool: &PoolOptions, who: WorkerIdentity<'_>) -> Vec<String> {
    let mut arguments: Vec<String> = pool.command.iter().skip(1).cloned().collect();
    for (flag, value) in flags(who) {
        let is_given = arguments
            .iter()
            .any(|given| given.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('=')));
        if !is_given {
            arguments.extend([flag.to_owned(), value]);
        }
    }
    arguments
}

/// For a worker that is forked from a program which already has the pool's.
pub(super) fn worker_arguments(who: WorkerIdentity<'_>) -> Vec<String> {
    flags(who).into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
}

fn flags(who: WorkerIdentity<'_>) -> [(&'static str, String); 3] {
    [
        ("--port", who.port.to_string()),
        ("--elixir-address", who.callback_address.to_string()),
        ("--snakepit-run-id", who.run_id.to_owned()),
    ]
}

/// All variables of a worker: `servers` are those passed on, `own` those that only it has. What the pool names wins over
/// everything else.
pub(super) fn environment(
    pool: &PoolOptions,
    own: BTreeMap<String, String>,
    servers: impl IntoIterator<Item = (String, String)>,
) -> BTreeMap<String, SecretString> {
    let mut all: BTreeMap<String, SecretString> = BTreeMap::new();
    let mut put = |name: String, value: String| drop(all.insert(name, value.into()));
    for (name, value) in servers {
        put(name, value);
    }
    for (name, value) in DEFAULT_VARIABLES {
        put((*name).to_owned(), (*value).to_owned());
    }
    put("SNAKEPIT_HEARTBEAT_CONFIG".to_owned(), HEARTBEAT_CONFIG.to_owned());
    if let Some(program) = pool.command.first() {
        put("SNAKEPIT_PYTHON".to_owned(), program.clone());
    }
    put("PATCHBOARD_POOL".to_owned(), pool.name.to_string());
    for (name, value) in own {
        put(name, value);
    }
    all.extend(pool.env.iter().map(|(name, value)| (name.clone(), value.expose_secret().into())));
    all
}

/// The variables that are one worker's.
pub(super) fn worker_variables(who: WorkerIdentity<'_>) -> BTreeMap<String, String> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    [
        ("SNAKEPIT_READY_FILE", text(who.ready_file)),
        ("PATCHBOARD_WORKER_SOCKET", text(who.socket)),
        ("PATCHBOARD_WORKER_ID", who.id.to_string()),
        ("PATCHBOARD_WORKER_SECRET", who.secret.expose().to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

#[cfg(test)]
mod tests;
