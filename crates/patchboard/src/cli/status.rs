//! `patchboard status`: whether a server runs on the data directory, and its state.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use jiff::tz::TimeZone;
use patchboard_core::port::Clock;
use serde_json::{Map, Value, json};

use super::failure::CommandFailure;
use super::{ServerTarget, block_on};
use crate::client::{GatewayClient, ServerAddress};
use crate::data_dir::process::{self, ProcessRecord, ProcessRole};
use crate::data_dir::{self, ServerRecord};
use crate::output;
use crate::system::SystemClock;

mod format;

/// Exit codes: 0 a server runs; 1 it runs and does not answer; 3 none runs.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    target: ServerTarget,
    /// Print JSON: one object.
    #[arg(long)]
    json: bool,
}

const NOT_RUNNING: u8 = 3;

pub(super) fn run(args: StatusArgs) -> Result<ExitCode, CommandFailure> {
    if args.target.is_by_address() {
        return block_on(async move {
            let mut client = args.target.connect().await?;
            let status = client.call("server.status", json!({})).await?;
            show(&json!({ "running": true }), Some(status), args.json);
            Ok(ExitCode::SUCCESS)
        });
    }
    let data_dir = args.target.place.find_data_dir()?;
    if data_dir::lock_held_elsewhere(&data_dir).is_none() {
        return Ok(not_running(&data_dir, args.json));
    }
    let process = data_dir::find_process(&data_dir);
    let server = data_dir::find_server(&data_dir);
    let known = known(&data_dir, process.as_ref(), server.as_ref());
    match ServerAddress::of_data_dir(&data_dir) {
        // The server is starting or stopping, or has no gateway.
        None => {
            show(&known, None, args.json);
            Ok(ExitCode::SUCCESS)
        }
        Some(address) => match block_on(async move { Ok(ask(&address).await) })? {
            Ok(status) => {
                show(&known, Some(status), args.json);
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => {
                show(&known, None, args.json);
                Err(CommandFailure::failed(format!("the server does not answer: {error:#}"))
                    .hint("`patchboard logs` shows its last lines; `patchboard stop --kill` ends it"))
            }
        },
    }
}

async fn ask(address: &ServerAddress) -> anyhow::Result<Value> {
    GatewayClient::connect(address).await?.call("server.status", json!({})).await
}

fn not_running(data_dir: &Path, as_json: bool) -> ExitCode {
    let last = process::last_stop(data_dir);
    if as_json {
        let last = last.map(
            |stop| json!({ "pid": stop.pid, "at": stop.at, "cancelled": stop.cancelled, "suspended": stop.suspended }),
        );
        output::print_line(
            &json!({ "running": false, "data_dir": data_dir.display().to_string(), "last_stop": last }).to_string(),
        );
        return ExitCode::from(NOT_RUNNING);
    }
    output::print_line(&format!("no server runs on `{}`", output::one_line(&data_dir.display().to_string())));
    if let Some(stop) = last {
        output::print_line(&format::last_stop(&stop, &TimeZone::system()));
    }
    output::eprint_line("hint: start one with `patchboard serve`, or name another folder with --data-dir");
    ExitCode::from(NOT_RUNNING)
}

/// What is known without a request to the server.
fn known(data_dir: &Path, process: Option<&ProcessRecord>, server: Option<&ServerRecord>) -> Value {
    let address = |address: Option<std::net::SocketAddr>| address.map(|address| address.to_string());
    let addresses = server.map(|server| {
        json!({
            "gateway": address(server.gateway), "runs": address(server.runs), "hub": address(server.hub),
            "bridge": address(server.bridge),
        })
    });
    let mut known = json!({ "running": true, "data_dir": data_dir.display().to_string(), "addresses": addresses });
    if let (Some(process), Some(fields)) = (process, known.as_object_mut()) {
        let role = match process.role {
            ProcessRole::Server => "server",
            ProcessRole::Command => "command",
        };
        fields.extend(object_fields(json!({
            "pid": process.pid, "version": process.version, "state": process.state.name(), "role": role,
            "started_at": process.started_at, "memory_bytes": memory_of(process.pid), "runs_left": process.runs_left,
        })));
    }
    known
}

fn object_fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

/// Prints the state; the server's own fields override the recorded ones.
fn show(known: &Value, status: Option<Value>, as_json: bool) {
    let is_answered = status.is_some();
    let mut all = object_fields(known.clone());
    all.extend(object_fields(status.unwrap_or_default()));
    let all = Value::Object(all);
    if as_json {
        return output::print_line(&all.to_string());
    }
    let columns = output::PageLayout::of_stdout().columns;
    let lines = format::lines(&all, is_answered, SystemClock.now(), &TimeZone::system(), columns);
    lines.iter().for_each(|line| output::print_line(line));
}

/// Resident memory of the process in bytes.
fn memory_of(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
