//! `patchboard hub messages`, `show`, `resend`, `route`, `cancel` and `why`.

use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use jiff::tz::TimeZone;
use patchboard_core::app::message::MessageState;
use serde_json::Value;

use super::report::{self, MessageReport, RoutingDecision};
use super::{HubErrorContext, HubTarget, format};
use crate::cli::failure::CommandFailure;
use crate::client::hub::HubError;
use crate::output::{self, Column, TableCell, TextRole, TextTable, clock};

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
pub(super) struct OneMessageArgs {
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
    /// The text to route.
    text: String,
    /// Ask no model, so that it costs nothing; a question of an app that is open for you counts.
    #[arg(long)]
    local: bool,
    #[command(flatten)]
    target: HubTarget,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) async fn list(args: MessagesArgs) -> Result<ExitCode, CommandFailure> {
    let client = args.target.client()?;
    let found = client.messages(args.state.as_deref(), args.limit).await;
    let items = found.map_err(|error| HubErrorContext::General.to_failure(error))?;
    if args.json {
        items.iter().for_each(|item| output::print_line(&item.to_string()));
        return Ok(ExitCode::SUCCESS);
    }
    if items.is_empty() {
        output::eprint_line("no messages");
        return Ok(ExitCode::SUCCESS);
    }
    let reports = items.iter().map(report::parse).collect::<anyhow::Result<Vec<MessageReport>>>()?;
    let mut table = TextTable::new([
        Column::whole("ID"),
        Column::whole("STATE"),
        Column::whole("SAID"),
        Column::whole("TO"),
        Column::cut("TEXT"),
    ]);
    reports.iter().for_each(|report| table.push_row(row(report)));
    table.print();
    format::next_step_of_held(&reports).iter().for_each(|line| output::print_line(line));
    Ok(ExitCode::SUCCESS)
}

fn row(report: &MessageReport) -> [TableCell; 5] {
    let mut clients: Vec<&str> = Vec::new();
    for attempt in &report.attempts {
        if !clients.contains(&attempt.client.as_str()) {
            clients.push(&attempt.client);
        }
    }
    let to = if clients.is_empty() { "–".to_owned() } else { clients.join(", ") };
    [
        TableCell::painted(&report.id, TextRole::Name),
        state(report),
        clock::local(&report.submitted_at, clock::MINUTE).into(),
        to.into(),
        report.text.as_str().into(),
    ]
}

fn state(report: &MessageReport) -> TableCell {
    match report.state.as_str() {
        "delivered" => TableCell::painted("delivered", TextRole::Good),
        state if report.is_undelivered() || state == "held" => TableCell::painted(state, TextRole::Bad),
        state => state.into(),
    }
}

pub(super) async fn show(args: ShowArgs) -> Result<ExitCode, CommandFailure> {
    let message =
        args.target.client()?.message(&args.id).await.map_err(|error| HubErrorContext::Message.to_failure(error))?;
    if args.json {
        output::print_line(&message.to_string());
    } else {
        format::timeline(&report::parse(&message)?, &TimeZone::system())
            .iter()
            .for_each(|line| output::print_line(line));
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn resend(args: OneMessageArgs) -> Result<ExitCode, CommandFailure> {
    report_change(args.target.client()?.resend(&args.id).await)
}

pub(super) async fn route(args: RouteArgs) -> Result<ExitCode, CommandFailure> {
    let client = args.target.client()?;
    let answer = client.route(&args.id, &args.app).await;
    // Either the message or the app may be unknown: determine which.
    let is_unknown = matches!(answer, Err(HubError::Refused { status: 400 | 404, .. }));
    if is_unknown && client.message(&args.id).await.is_ok() {
        return Err(super::apps::unknown_app(&client, &args.app).await);
    }
    report_change(answer)
}

pub(super) async fn cancel(args: OneMessageArgs) -> Result<ExitCode, CommandFailure> {
    let answer =
        args.target.client()?.cancel(&args.id).await.map_err(|error| HubErrorContext::Message.to_failure(error))?;
    let report: MessageReport = report::parse(&answer)?;
    output::print_line(&format::headline(&report));
    if report.state == MessageState::Delivered.name() {
        output::eprint_line("an app has it already; the hub takes note that it was not wanted");
    }
    Ok(if report.state == MessageState::Cancelled.name() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn report_change(answer: Result<Value, HubError>) -> Result<ExitCode, CommandFailure> {
    let report: MessageReport = report::parse(&answer.map_err(|error| HubErrorContext::Message.to_failure(error))?)?;
    output::print_line(&format::headline(&report));
    if let Some(decision) = report.decisions.last().filter(|_| !report.is_undelivered()) {
        output::print_line(&format::decision(decision));
    }
    format::next_step(&report).iter().for_each(|line| output::print_line(line));
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn why(args: WhyArgs) -> Result<ExitCode, CommandFailure> {
    let client = args.target.client()?;
    let explained = match args.local {
        true => client.explain_locally(&args.text).await,
        false => client.explain(&args.text).await,
    };
    let decision = explained.map_err(|error| HubErrorContext::General.to_failure(error))?;
    if args.json {
        output::print_line(&decision.to_string());
        return Ok(ExitCode::SUCCESS);
    }
    let decision: RoutingDecision = report::parse(&decision)?;
    output::print_line(&format::decision(&decision));
    format::candidates(&decision).iter().for_each(|line| output::print_line(&format!("  {line}")));
    Ok(ExitCode::SUCCESS)
}
