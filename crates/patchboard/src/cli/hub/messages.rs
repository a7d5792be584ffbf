//! `patchboard hub messages`, `show`, `resend`, `route`, `cancel` and `why`.

use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use jiff::tz::TimeZone;
use patchboard_core::app::message::MessageState;
use serde_json::Value;

use super::report::{self, Decision, Report};
use super::{HubTarget, Wanted, words};
use crate::cli::failure::Failure;
use crate::cli::output::{self, Cell, Column, Role, Table, clock};
use crate::client::hub::HubError;

#[derive(Debug, Args)]
pub(super) struct MessagesArgs {
    #[command(flatten)]
    target: HubTarget,
    /// Only those in this state.
    #[arg(long, value_parser = PossibleValuesParser::new(MessageState::ALL.map(MessageState::name)))]
    state: Option<String>,
    /// How many at most.
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Print JSON, one message a line.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// The message's id, as `hub messages` shows it.
    id: String,
    #[command(flatten)]
    target: HubTarget,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct OneArgs {
    /// The message's id, as `hub messages` shows it.
    id: String,
    #[command(flatten)]
    target: HubTarget,
}

#[derive(Debug, Args)]
pub(super) struct RouteArgs {
    /// The message's id, as `hub messages` shows it.
    id: String,
    /// The app to send it to.
    app: String,
    #[command(flatten)]
    target: HubTarget,
}

#[derive(Debug, Args)]
pub(super) struct WhyArgs {
    /// What would be said.
    text: String,
    #[command(flatten)]
    target: HubTarget,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) async fn list(args: MessagesArgs) -> Result<ExitCode, Failure> {
    let client = args.target.client()?;
    let found = client.messages(args.state.as_deref(), args.limit).await;
    let items = found.map_err(|error| Wanted::Nothing.failure(error))?;
    if args.json {
        items.iter().for_each(|item| output::line(&item.to_string()));
        return Ok(ExitCode::SUCCESS);
    }
    if items.is_empty() {
        output::error("no messages");
        return Ok(ExitCode::SUCCESS);
    }
    let reports = items.iter().map(report::read).collect::<anyhow::Result<Vec<Report>>>()?;
    let mut table = Table::new([
        Column::whole("ID"),
        Column::whole("STATE"),
        Column::whole("SAID"),
        Column::whole("TO"),
        Column::cut("TEXT"),
    ]);
    reports.iter().for_each(|report| table.row(row(report)));
    table.print();
    words::next_step_of_held(&reports).iter().for_each(|line| output::line(line));
    Ok(ExitCode::SUCCESS)
}

fn row(report: &Report) -> [Cell; 5] {
    let mut clients: Vec<&str> = Vec::new();
    for attempt in &report.attempts {
        if !clients.contains(&attempt.client.as_str()) {
            clients.push(&attempt.client);
        }
    }
    let to = if clients.is_empty() { "–".to_owned() } else { clients.join(", ") };
    [
        Cell::painted(&report.id, Role::Name),
        state(report),
        clock::local(&report.submitted_at, clock::MINUTE).into(),
        to.into(),
        report.text.as_str().into(),
    ]
}

fn state(report: &Report) -> Cell {
    match report.state.as_str() {
        "delivered" => Cell::painted("delivered", Role::Good),
        state if report.is_lost() || state == "held" => Cell::painted(state, Role::Bad),
        state => state.into(),
    }
}

pub(super) async fn show(args: ShowArgs) -> Result<ExitCode, Failure> {
    let message = args.target.client()?.message(&args.id).await.map_err(|error| Wanted::Message.failure(error))?;
    if args.json {
        output::line(&message.to_string());
    } else {
        words::timeline(&report::read(&message)?, &TimeZone::system()).iter().for_each(|line| output::line(line));
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn resend(args: OneArgs) -> Result<ExitCode, Failure> {
    changed(args.target.client()?.resend(&args.id).await)
}

pub(super) async fn route(args: RouteArgs) -> Result<ExitCode, Failure> {
    let client = args.target.client()?;
    let answer = client.route(&args.id, &args.app).await;
    // Of the two that may be unknown, say which.
    let is_unknown = matches!(answer, Err(HubError::Refused { status: 400 | 404, .. }));
    if is_unknown && client.message(&args.id).await.is_ok() {
        return Err(super::apps::unknown(&client, &args.app).await);
    }
    changed(answer)
}

pub(super) async fn cancel(args: OneArgs) -> Result<ExitCode, Failure> {
    let answer = args.target.client()?.cancel(&args.id).await.map_err(|error| Wanted::Message.failure(error))?;
    let report: Report = report::read(&answer)?;
    output::line(&words::headline(&report));
    if report.state == MessageState::Delivered.name() {
        output::error("an app has it already; the hub takes note that it was not wanted");
    }
    Ok(if report.state == MessageState::Cancelled.name() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn changed(answer: Result<Value, HubError>) -> Result<ExitCode, Failure> {
    let report: Report = report::read(&answer.map_err(|error| Wanted::Message.failure(error))?)?;
    output::line(&words::headline(&report));
    if let Some(decision) = report.decisions.last().filter(|_| !report.is_lost()) {
        output::line(&words::decision(decision));
    }
    words::next_step(&report).iter().for_each(|line| output::line(line));
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn why(args: WhyArgs) -> Result<ExitCode, Failure> {
    let decision = args.target.client()?.explain(&args.text).await.map_err(|error| Wanted::Nothing.failure(error))?;
    if args.json {
        output::line(&decision.to_string());
        return Ok(ExitCode::SUCCESS);
    }
    let decision: Decision = report::read(&decision)?;
    output::line(&words::decision(&decision));
    words::candidates(&decision).iter().for_each(|line| output::line(&format!("  {line}")));
    Ok(ExitCode::SUCCESS)
}
