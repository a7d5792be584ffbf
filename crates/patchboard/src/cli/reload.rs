//! `patchboard reload`: makes the running server reload its configuration.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::failure::CommandFailure;
use super::{ServerTarget, block_on};
use crate::client::{GatewayClient, ServerAddress};
use crate::data_dir;
use crate::data_dir::process::ProcessState;
use crate::output;

/// Exit codes: 0 taken over, or nothing had changed; 2 the configuration has problems and the old one stays; 3 no server.
#[derive(Debug, Args)]
pub(crate) struct ReloadArgs {
    #[command(flatten)]
    target: ServerTarget,
    /// Print JSON: one object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: ReloadArgs) -> Result<ExitCode, CommandFailure> {
    block_on(async move {
        let report = connect(&args.target).await?.call("server.reload", json!({})).await?;
        let is_applied = report.get("applied").and_then(Value::as_bool).unwrap_or(false);
        if args.json {
            output::print_line(&report.to_string());
            return Ok(if is_applied { ExitCode::SUCCESS } else { ExitCode::from(2) });
        }
        for note in texts(&report, "notes") {
            output::eprint_line(&output::plain(&format!("note: {note}")));
        }
        if !is_applied {
            let problems = output::plain(&texts(&report, "problems").join("\n"));
            let message = format!("nothing was taken over; the server goes on as before\n{problems}");
            return Err(
                CommandFailure::unusable(message).hint("`patchboard config check` shows the same without a server")
            );
        }
        lines(&report).iter().for_each(|line| output::print_line(line));
        Ok(ExitCode::SUCCESS)
    })
}

/// With `--data-dir` the server is found even if the configuration is broken: the server reports the problems itself.
async fn connect(target: &ServerTarget) -> Result<GatewayClient, CommandFailure> {
    if target.is_by_address() {
        return target.connect().await;
    }
    let data_dir = target.place.find_data_dir()?;
    if let Some(address) = ServerAddress::of_data_dir(&data_dir) {
        return GatewayClient::connect(&address).await.map_err(CommandFailure::from_connect_error);
    }
    let Some(process) = data_dir::find_process(&data_dir) else {
        let message = format!("no server runs on `{}`", data_dir.display());
        return Err(
            CommandFailure::unreachable(message).hint("the next `patchboard serve` reads the configuration anyway")
        );
    };
    let pid = process.pid;
    let message = match process.state {
        ProcessState::Ready => format!("the server with pid {pid} does not listen on a gateway"),
        ProcessState::Starting | ProcessState::Stopping => {
            format!("the server with pid {pid} is {}", process.state.name())
        }
    };
    let hint = format!("`kill -HUP {pid}` does the same once it is ready; `patchboard logs` shows what came of it");
    Err(CommandFailure::unreachable(message).hint(hint))
}

fn texts<'a>(report: &'a Value, key: &str) -> Vec<&'a str> {
    report.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

fn lines(report: &Value) -> Vec<String> {
    let (changed, waiting) = (texts(report, "changed"), texts(report, "needs_restart"));
    if changed.is_empty() && waiting.is_empty() {
        return vec!["nothing has changed".to_owned()];
    }
    let mut lines = Vec::new();
    for (title, keys) in [("taken over:", changed), ("needs a restart:", waiting)] {
        if !keys.is_empty() {
            lines.push(title.to_owned());
            lines.extend(keys.iter().map(|key| format!("  {}", output::one_line(key))));
        }
    }
    lines
}

#[cfg(test)]
mod tests;
