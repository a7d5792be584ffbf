//! `patchboard runs`: finds runs of a server, attaches to or cancels them.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use super::block_on;
use super::failure::CommandFailure;
use super::run::{AttachArgs, RunsTarget, attach};
use crate::client::runs::RunsClient;
use crate::output;

mod find;

#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    verb: RunsCommand,
}

#[derive(Debug, Subcommand)]
enum RunsCommand {
    /// List runs, the newest first.
    List(find::ListArgs),
    /// Show one run, and what it did.
    Show(find::ShowRunArgs),
    /// Follow a run again; the same as `patchboard attach`.
    Attach(AttachArgs),
    /// Stop a run. What it has done so far stays.
    Cancel(CancelArgs),
}

#[derive(Debug, Args)]
struct CancelArgs {
    /// The run's id, as `run --id` or `run --detach` named it.
    id: String,
    #[command(flatten)]
    target: RunsTarget,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: RunsArgs) -> Result<ExitCode, CommandFailure> {
    match args.verb {
        RunsCommand::List(args) => find::list(args),
        RunsCommand::Show(args) => find::show(args),
        RunsCommand::Attach(args) => attach(args),
        RunsCommand::Cancel(args) => block_on(cancel(args)),
    }
}

async fn cancel(args: CancelArgs) -> Result<ExitCode, CommandFailure> {
    let address = args.target.required_address()?;
    let mut client = RunsClient::connect(&address).await.map_err(CommandFailure::from_connect_error)?;
    let id = output::one_line(&args.id);
    if let Err(refusal) = client.cancel_run(&args.id).await? {
        let refusal = output::one_line(&refusal);
        return Err(CommandFailure::failed(format!("the run `{id}` cannot be stopped: {refusal}"))
            .hint("an id is what `patchboard run --detach` printed; only runs under way can be stopped"));
    }
    match args.json {
        true => output::print_line(&json!({ "id": args.id, "cancelled": true }).to_string()),
        false => output::print_line(&format!("stopped {id}")),
    }
    Ok(ExitCode::SUCCESS)
}
