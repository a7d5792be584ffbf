//! `patchboard hub clients`, `approve`, `pair` and `forget`.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::report::{self, App};
use super::{HubTarget, Wanted};
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::client::hub::Forget;

#[derive(Debug, Args)]
pub(super) struct ClientsArgs {
    #[command(flatten)]
    target: HubTarget,
    /// Also those that were here before, or wait for approval.
    #[arg(long)]
    all: bool,
    /// Print JSON, one app a line.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct AppArgs {
    /// The app's name.
    name: String,
    #[command(flatten)]
    target: HubTarget,
}

#[derive(Debug, Args)]
pub(super) struct ForgetArgs {
    /// The app's name.
    name: String,
    #[command(flatten)]
    target: HubTarget,
    /// Forget its approval and its token, too.
    #[arg(long)]
    unpair: bool,
}

pub(super) async fn list(args: ClientsArgs) -> Result<ExitCode, Failure> {
    let items = args.target.client()?.clients().await.map_err(|error| Wanted::Nothing.failure(error))?;
    let mut shown: Vec<(Value, App)> = Vec::new();
    let mut others = 0_usize;
    for item in items {
        let app: App = report::read(&item)?;
        if args.all || app.connected {
            shown.push((item, app));
        } else {
            others += 1;
        }
    }
    if args.json {
        shown.iter().for_each(|(item, _)| output::line(&item.to_string()));
        return Ok(ExitCode::SUCCESS);
    }
    match shown.is_empty() {
        true => output::error("no app is connected"),
        false => {
            let rows: Vec<Vec<String>> = shown.into_iter().map(|(_, app)| row(app)).collect();
            output::table(&["NAME", "STATE", "SINCE", "PENDING", "LEARNED", "DESCRIPTION"], &rows);
        }
    }
    if others > 0 {
        output::error(&format!("{others} more known from before; --all shows them"));
    }
    Ok(ExitCode::SUCCESS)
}

fn row(app: App) -> Vec<String> {
    let state = match (app.connected, app.approved) {
        (true, _) => "connected",
        (false, true) => "away",
        (false, false) => "away, not approved",
    };
    let name = match &app.version {
        Some(version) => format!("{} {version}", app.name),
        None => app.name,
    };
    let description = match app.capabilities.is_empty() {
        true => app.description,
        false => format!("{} [{}]", app.description, app.capabilities.join(", ")),
    };
    vec![name, state.to_owned(), app.since, app.pending.to_string(), app.lessons.to_string(), description]
}

pub(super) async fn approve(args: AppArgs) -> Result<ExitCode, Failure> {
    args.target.client()?.approve(&args.name).await.map_err(|error| Wanted::Nothing.failure(error))?;
    output::line(&output::one_line(&format!("{} may register", args.name)));
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn pair(args: AppArgs) -> Result<ExitCode, Failure> {
    let answer = args.target.client()?.pair(&args.name).await.map_err(|error| Wanted::Nothing.failure(error))?;
    let Some(token) = answer.get("token").and_then(Value::as_str) else {
        return Err(Failure::failed("the hub made no token"));
    };
    output::line(&output::one_line(token));
    output::error("this is shown once: give it to the app, which registers with it as `payload.token`");
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn forget(args: ForgetArgs) -> Result<ExitCode, Failure> {
    let what = if args.unpair { Forget::Everything } else { Forget::Lessons };
    args.target.client()?.forget(&args.name, what).await.map_err(|error| Wanted::Nothing.failure(error))?;
    output::line(&output::one_line(&match what {
        Forget::Everything => format!("{} is unknown now", args.name),
        Forget::Lessons => format!("what was learned about {} is forgotten", args.name),
    }));
    Ok(ExitCode::SUCCESS)
}
