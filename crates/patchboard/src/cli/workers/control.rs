//! `patchboard workers restart` and `patchboard workers logs`.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::ServerTarget;
use crate::cli::failure::CommandFailure;
use crate::output;

#[derive(Debug, Args)]
pub(super) struct RestartArgs {
    /// The pool's name in the configuration.
    pool: String,
    /// One worker, as `workers` shows it; left out, all of the pool are replaced.
    worker: Option<String>,
    #[command(flatten)]
    target: ServerTarget,
}

#[derive(Debug, Args)]
pub(super) struct WorkerLogsArgs {
    /// The worker, as `workers` shows it; also one that ended recently.
    worker: String,
    /// Only lines after the one with this number.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    after: u64,
    #[command(flatten)]
    target: ServerTarget,
    /// Print JSON, one line of the worker a line.
    #[arg(long)]
    json: bool,
}

pub(super) async fn restart(args: RestartArgs) -> Result<ExitCode, CommandFailure> {
    let mut client = args.target.connect().await?;
    let answer = client.call("worker.restart", json!({ "pool": args.pool, "worker": args.worker })).await?;
    let workers = answer.get("restarting").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for worker in workers.iter().filter_map(Value::as_str) {
        output::print_line(&format!("{} is replaced once its successor is ready", output::one_line(worker)));
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn logs(args: WorkerLogsArgs) -> Result<ExitCode, CommandFailure> {
    let mut client = args.target.connect().await?;
    let params = json!({ "worker": args.worker, "after": args.after });
    let lines = client.list("worker.lines", params, usize::MAX).await?;
    if lines.is_empty() && !args.json {
        output::eprint_line("it wrote nothing");
    }
    for line in &lines {
        if args.json {
            output::print_line(&line.to_string());
        } else {
            let number = line.get("number").and_then(Value::as_u64).unwrap_or(0);
            let text = line.get("text").and_then(Value::as_str).unwrap_or_default();
            output::print_line(&format!("{number:>6}  {}", output::one_line(text)));
        }
    }
    Ok(ExitCode::SUCCESS)
}
