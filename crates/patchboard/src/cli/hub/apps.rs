//! `patchboard hub clients`, `approve`, `pair` and `forget`.

use std::process::ExitCode;

use clap::Args;
use patchboard_core::hub::NO_APP;
use patchboard_core::text::nearest;
use serde_json::Value;

use super::report::{self, KnownApp};
use super::{HubErrorContext, HubTarget};
use crate::cli::failure::CommandFailure;
use crate::client::hub::{ForgetScope, HubClient, HubError};
use crate::output::{self, Column, TableCell, TextRole, TextTable, clock};

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
    /// The app's name; `*` for which messages belong to no app.
    name: String,
    #[command(flatten)]
    target: HubTarget,
    /// Forget its approval and its token, too.
    #[arg(long)]
    unpair: bool,
}

pub(super) async fn list(args: ClientsArgs) -> Result<ExitCode, CommandFailure> {
    let items = args.target.client()?.clients().await.map_err(|error| HubErrorContext::General.to_failure(error))?;
    let mut shown: Vec<(Value, KnownApp)> = Vec::new();
    let mut others = 0_usize;
    for item in items {
        let app: KnownApp = report::parse(&item)?;
        if args.all || app.connected {
            shown.push((item, app));
        } else {
            others += 1;
        }
    }
    if args.json {
        shown.iter().for_each(|(item, _)| output::print_line(&item.to_string()));
        return Ok(ExitCode::SUCCESS);
    }
    match shown.is_empty() {
        true => output::eprint_line("no app is connected"),
        false => {
            let mut table = TextTable::new([
                Column::whole("NAME"),
                Column::whole("STATE"),
                Column::whole("SINCE"),
                Column::number("PENDING"),
                Column::number("LEARNED"),
                Column::cut("WHAT IT DOES"),
            ]);
            shown.into_iter().for_each(|(_, app)| table.push_row(row(app)));
            table.print();
        }
    }
    if others > 0 {
        output::eprint_line(&format!("{others} more known from before; --all shows them"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Version strings can be long.
const VERSION_COLUMNS: usize = 12;

fn row(app: KnownApp) -> [TableCell; 6] {
    let state = match (app.connected, app.approved) {
        (true, _) => TableCell::painted("connected", TextRole::Good),
        (false, true) => TableCell::painted("away", TextRole::Faint),
        (false, false) => TableCell::painted("away, not approved", TextRole::Note),
    };
    let name = match &app.version {
        Some(version) => format!("{} {}", app.name, output::cut(&output::one_line(version), VERSION_COLUMNS)),
        None => app.name,
    };
    let description = match app.capabilities.is_empty() {
        true => app.description,
        false => format!("{} [{}]", app.description, app.capabilities.join(", ")),
    };
    [
        TableCell::painted(&name, TextRole::Name),
        state,
        clock::local(&app.since, clock::MINUTE).into(),
        app.pending.to_string().into(),
        app.lessons.to_string().into(),
        description.into(),
    ]
}

/// An error for an unknown app, with a similar name as a hint.
pub(super) async fn unknown_app(client: &HubClient, name: &str) -> CommandFailure {
    let names = app_names(client).await;
    let failure = CommandFailure::failed(output::one_line(&format!("no app is called `{name}`")));
    failure.hint(match nearest(name, names.iter().map(String::as_str)) {
        Some(suggestion) => output::one_line(&format!("did you mean `{suggestion}`?")),
        None => "`patchboard hub clients --all` lists the apps".to_owned(),
    })
}

/// Names of all apps the hub knows; empty if the request fails.
pub(super) async fn app_names(client: &HubClient) -> Vec<String> {
    let items = client.clients().await.unwrap_or_default();
    items.iter().filter_map(|item| report::parse::<KnownApp>(item).ok()).map(|app| app.name).collect()
}

/// Warns about an unknown name. An app may be approved before its first registration, so a typo would approve another
/// app.
fn warn_unknown_app(known: &[String], name: &str) {
    if known.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return;
    }
    let suggestion = nearest(name, known.iter().map(String::as_str));
    let suggestion = suggestion.map_or_else(String::new, |suggestion| format!("; did you mean `{suggestion}`?"));
    output::eprint_line(&output::one_line(&format!("no app of that name was here yet{suggestion}")));
}

pub(super) async fn approve(args: AppArgs) -> Result<ExitCode, CommandFailure> {
    let client = args.target.client()?;
    let known = app_names(&client).await;
    client.approve(&args.name).await.map_err(|error| HubErrorContext::General.to_failure(error))?;
    output::print_line(&output::one_line(&format!("{} may register", args.name)));
    warn_unknown_app(&known, &args.name);
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn pair(args: AppArgs) -> Result<ExitCode, CommandFailure> {
    let client = args.target.client()?;
    let known = app_names(&client).await;
    let answer = client.pair(&args.name).await.map_err(|error| HubErrorContext::General.to_failure(error))?;
    let Some(token) = answer.get("token").and_then(Value::as_str) else {
        return Err(CommandFailure::failed("the hub made no token"));
    };
    output::print_line(&output::one_line(token));
    output::eprint_line("this is shown once: give it to the app, which registers with it as `payload.token`");
    warn_unknown_app(&known, &args.name);
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn forget(args: ForgetArgs) -> Result<ExitCode, CommandFailure> {
    let what = if args.unpair { ForgetScope::Everything } else { ForgetScope::Learned };
    let client = args.target.client()?;
    match client.forget(&args.name, what).await {
        Ok(_) => {}
        Err(HubError::Refused { status: 404, .. }) => return Err(unknown_app(&client, &args.name).await),
        Err(error) => return Err(HubErrorContext::General.to_failure(error)),
    }
    output::print_line(&output::one_line(&match what {
        ForgetScope::Everything => format!("{} is unknown now", args.name),
        ForgetScope::Learned if args.name == NO_APP => "which messages are for no app is forgotten".to_owned(),
        ForgetScope::Learned => format!("what was learned about {} is forgotten", args.name),
    }));
    Ok(ExitCode::SUCCESS)
}
