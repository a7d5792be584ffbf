//! `patchboard hub`: sends messages to apps and manages them.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use patchboard_config::Environment;
use patchboard_config::env::PATCHBOARD_TOKEN;

use super::failure::CommandFailure;
use super::{ConfigLocation, SERVER_HEADING, block_on};
use crate::client::hub::{HubClient, HubError};
use crate::output;

mod apps;
mod check;
mod format;
mod messages;
mod report;
mod send;

#[derive(Debug, Args)]
pub(crate) struct HubArgs {
    #[command(subcommand)]
    verb: HubCommand,
}

#[derive(Debug, Subcommand)]
enum HubCommand {
    /// Send a message to the app it is meant for.
    Send(send::SendArgs),
    /// List the connected apps.
    Clients(apps::ClientsArgs),
    /// List messages, the newest first.
    Messages(messages::MessagesArgs),
    /// Show how a message was routed, and the result.
    Show(messages::ShowArgs),
    /// Send a message again, to the app that fits now.
    Resend(messages::OneMessageArgs),
    /// Send a message to the app it was meant for. The hub learns from it.
    Route(messages::RouteArgs),
    /// Cancel a waiting message.
    Cancel(messages::OneMessageArgs),
    /// Show which app a text would be routed to and why, without sending it.
    Why(messages::WhyArgs),
    /// Let an app register where apps need approval.
    Approve(apps::AppArgs),
    /// Create a token for an app, where apps need one. An earlier one stops working.
    Pair(apps::AppArgs),
    /// Delete what was learned about an app.
    Forget(apps::ForgetArgs),
    /// Test a client against a mock hub that checks everything the client sends.
    Check(check::HubCheckArgs),
}

/// Which hub a command talks to.
#[derive(Debug, Clone, Args)]
struct HubTarget {
    #[command(flatten)]
    place: ConfigLocation,
    /// Address of the hub, instead of the one that runs on the data directory. Its token is read from PATCHBOARD_TOKEN.
    #[arg(long, value_name = "URL", help_heading = SERVER_HEADING)]
    url: Option<String>,
}

impl HubTarget {
    fn client(&self) -> Result<HubClient, CommandFailure> {
        if let Some(url) = &self.url {
            let token = Environment::from_process().get(PATCHBOARD_TOKEN).map(Into::into);
            return HubClient::of_url(url, token).map_err(|error| CommandFailure::unusable(error.to_string()));
        }
        let data_dir = self.place.load()?.config.data_dir;
        match HubClient::of_data_dir(&data_dir) {
            Ok(Some(client)) => Ok(client),
            Ok(None) => Err(CommandFailure::unreachable(format!("no server runs on `{}`", data_dir.display()))
                .hint("start one with `patchboard serve`, or name one with --url")),
            Err(_off) => Err(CommandFailure::unreachable(format!("the server on `{}` has no hub", data_dir.display()))
                .hint("start it without `--hub off` and without `listen = \"off\"` in [hub]")),
        }
    }
}

pub(super) fn run(args: HubArgs) -> Result<ExitCode, CommandFailure> {
    match args.verb {
        HubCommand::Send(args) => block_on(send::run(args)),
        HubCommand::Clients(args) => block_on(apps::list(args)),
        HubCommand::Messages(args) => block_on(messages::list(args)),
        HubCommand::Show(args) => block_on(messages::show(args)),
        HubCommand::Resend(args) => block_on(messages::resend(args)),
        HubCommand::Route(args) => block_on(messages::route(args)),
        HubCommand::Cancel(args) => block_on(messages::cancel(args)),
        HubCommand::Why(args) => block_on(messages::why(args)),
        HubCommand::Approve(args) => block_on(apps::approve(args)),
        HubCommand::Pair(args) => block_on(apps::pair(args)),
        HubCommand::Forget(args) => block_on(apps::forget(args)),
        HubCommand::Check(args) => check::run(args),
    }
}

const ADDRESSES: &str = "--url takes the address of the hub; `patchboard doctor` shows the addresses of the server on this \
    data directory";

/// The subject of a request, for the hint if it is not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HubErrorContext {
    General,
    Message,
}

impl HubErrorContext {
    fn to_failure(self, error: HubError) -> CommandFailure {
        let message = output::plain(&error.to_string());
        match (error, self) {
            (HubError::Unreachable { .. }, _) => CommandFailure::unreachable(message).hint(ADDRESSES),
            (HubError::Unreadable(_) | HubError::Refused { status: 404 | 405, .. }, Self::General) => {
                CommandFailure::unreachable("something answers there, but it is not Patchboard's hub").hint(ADDRESSES)
            }
            (HubError::Refused { status: 401, .. }, _) => {
                CommandFailure::failed(message).hint("set PATCHBOARD_TOKEN, or leave out --url to be the operator")
            }
            (HubError::Refused { status: 404, .. }, Self::Message) => {
                CommandFailure::failed(message).hint("`patchboard hub messages` lists those that are kept")
            }
            (HubError::Refused { .. } | HubError::Unreadable(_), _) => CommandFailure::failed(message),
        }
    }
}

#[cfg(test)]
mod tests;
