//! `patchboard mcp`: relays a server's tools to an MCP client over standard input and output.

use std::process::ExitCode;

use clap::Args;
use patchboard_config::Config;
use patchboard_tools::mcp::relay;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::embedded_server::{EmbeddedServer, EnabledSurfaces, ModelNotice};
use super::failure::CommandFailure;
use super::{ServerTarget, caller_folder};
use crate::client::ServerAddress;

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    #[command(flatten)]
    target: ServerTarget,
}

pub(super) fn run(args: McpArgs) -> Result<ExitCode, CommandFailure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(serve(args));
    // A pending read must not delay the exit.
    runtime.shutdown_background();
    outcome
}

/// Runs until the client closes standard input. Only protocol messages go to standard output.
async fn serve(args: McpArgs) -> Result<ExitCode, CommandFailure> {
    let stop = CancellationToken::new();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (address, own) = match args.target.find()? {
        Some(address) => (address, None),
        None => {
            let (loaded, secrets) = Config::load_for_start(args.target.place.request()?)?;
            let (_logs, traces) = super::serve::start_logs(&loaded, &secrets)?;
            let folder =
                caller_folder::embedded_server_folder(&loaded, None, &std::env::current_dir()?).map_err(|failure| {
                    failure
                        .hint("start it in the folder it shall work in, or set runs.working_folder in patchboard.toml")
                })?;
            let place = &args.target.place;
            let own =
                EmbeddedServer::start(place, folder, EnabledSurfaces::Gateway, ModelNotice::Silent, traces).await?;
            let gone = || CommandFailure::unreachable("the server started for this client is gone");
            (ServerAddress::of_data_dir(&own.data_dir).ok_or_else(gone)?, Some(own))
        }
    };
    let relaying = relay(address.mcp_relay_target(), tokio::io::stdin(), tokio::io::stdout(), stop.clone());
    tokio::pin!(relaying);
    let relayed = loop {
        tokio::select! {
            relayed = &mut relaying => break relayed,
            _ = terminate.recv() => stop.cancel(),
            _ = interrupt.recv() => stop.cancel(),
        }
    };
    if let Some(own) = own {
        own.shut_down().await?;
    }
    relayed?;
    Ok(ExitCode::SUCCESS)
}
