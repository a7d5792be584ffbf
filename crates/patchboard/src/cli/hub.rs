//! `patchboard hub`: what the user says, on its way to apps.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::failure::Failure;
use super::{SERVER_HEADING, Where, block_on, output};
use crate::client::hub::{HubClient, HubError};
use crate::config::Environment;
use crate::config::env::PATCHBOARD_TOKEN;

mod apps;
mod check;
mod messages;
mod report;
mod send;
mod words;

#[derive(Debug, Args)]
pub(crate) struct HubArgs {
    #[command(subcommand)]
    verb: HubVerb,
}

#[derive(Debug, Subcommand)]
enum HubVerb {
    /// Say something: it goes to the app it is meant for.
    Send(send::SendArgs),
    /// List the connected apps.
    Clients(apps::ClientsArgs),
    /// List what was said, the newest first.
    Messages(messages::MessagesArgs),
    /// Show how a message was routed and what came of it.
    Show(messages::ShowArgs),
    /// Send a message once more, to whoever fits now.
    Resend(messages::OneArgs),
    /// Send a message to the app it was meant for. The hub learns from it.
    Route(messages::RouteArgs),
    /// Give up on a message that waits.
    Cancel(messages::OneArgs),
    /// Show who would get a text and why, without sending it.
    Why(messages::WhyArgs),
    /// Let an app register where apps need approval.
    Approve(apps::AppArgs),
    /// Make a token for an app, where apps need one. An earlier one stops working.
    Pair(apps::AppArgs),
    /// Forget what was learned about an app.
    Forget(apps::ForgetArgs),
    /// Try a client: stand in for the hub, and judge everything the client sends.
    Check(check::CheckArgs),
}

/// Which hub a command talks to.
#[derive(Debug, Clone, Args)]
struct HubTarget {
    #[command(flatten)]
    place: Where,
    /// Address of the hub, instead of the one that runs on the data directory. Its token is read from PATCHBOARD_TOKEN.
    #[arg(long, value_name = "URL", help_heading = SERVER_HEADING)]
    url: Option<String>,
}

impl HubTarget {
    fn client(&self) -> Result<HubClient, Failure> {
        if let Some(url) = &self.url {
            let token = Environment::from_process().get(PATCHBOARD_TOKEN).map(Into::into);
            return HubClient::of_url(url, token).map_err(|error| Failure::unusable(error.to_string()));
        }
        let data_dir = self.place.load()?.config.data_dir;
        match HubClient::of_data_dir(&data_dir) {
            Ok(Some(client)) => Ok(client),
            Ok(None) => Err(Failure::unreachable(format!("no server runs on `{}`", data_dir.display()))
                .hint("start one with `patchboard serve`, or name one with --url")),
            Err(_off) => Err(Failure::unreachable(format!("the server on `{}` has no hub", data_dir.display()))
                .hint("start it without `--hub off` and without `listen = \"off\"` in [hub]")),
        }
    }
}

pub(super) fn run(args: HubArgs) -> Result<ExitCode, Failure> {
    match args.verb {
        HubVerb::Send(args) => block_on(send::run(args)),
        HubVerb::Clients(args) => block_on(apps::list(args)),
        HubVerb::Messages(args) => block_on(messages::list(args)),
        HubVerb::Show(args) => block_on(messages::show(args)),
        HubVerb::Resend(args) => block_on(messages::resend(args)),
        HubVerb::Route(args) => block_on(messages::route(args)),
        HubVerb::Cancel(args) => block_on(messages::cancel(args)),
        HubVerb::Why(args) => block_on(messages::why(args)),
        HubVerb::Approve(args) => block_on(apps::approve(args)),
        HubVerb::Pair(args) => block_on(apps::pair(args)),
        HubVerb::Forget(args) => block_on(apps::forget(args)),
        HubVerb::Check(args) => check::run(args),
    }
}

const ADDRESSES: &str = "--url takes the address of the hub; `patchboard doctor` shows the addresses of the server on this \
    data directory";

/// What is looked for, to say where to find it when it is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Nothing,
    Message,
}

impl Wanted {
    fn failure(self, error: HubError) -> Failure {
        let said = output::plain(&error.to_string());
        match (error, self) {
            (HubError::Unreachable { .. }, _) => Failure::unreachable(said).hint(ADDRESSES),
            (HubError::Unreadable(_) | HubError::Refused { status: 404 | 405, .. }, Self::Nothing) => {
                Failure::unreachable("something answers there, but it is not Patchboard's hub").hint(ADDRESSES)
            }
            (HubError::Refused { status: 401, .. }, _) => {
                Failure::failed(said).hint("set PATCHBOARD_TOKEN, or leave out --url to be the operator")
            }
            (HubError::Refused { status: 404, .. }, Self::Message) => {
                Failure::failed(said).hint("`patchboard hub messages` lists those that are kept")
            }
            (HubError::Refused { .. } | HubError::Unreadable(_), _) => Failure::failed(said),
        }
    }
}

#[cfg(test)]
mod tests;
