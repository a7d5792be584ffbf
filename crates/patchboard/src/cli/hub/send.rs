//! `patchboard hub send`: submits a message and follows it.

use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use patchboard_core::hub::MAX_TEXT;
use patchboard_core::hub::routing::direct;
use patchboard_core::text::nearest;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::format::{self, PrintedProgress};
use super::report::{self, MessageReport};
use super::{HubErrorContext, HubTarget, apps};
use crate::cli::failure::CommandFailure;
use crate::client::hub::HubClient;
use crate::output;

/// How long to wait by default.
const DEFAULT_WAIT: Duration = Duration::from_secs(120);
/// The longest accepted wait.
const MAX_WAIT_SECONDS: u64 = 24 * 3600;
/// An app's notification often follows its acknowledgement at once.
const FOLLOW_UP_WAIT: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
#[command(override_usage = "patchboard hub send [OPTIONS] <TEXT>")]
pub(super) struct SendArgs {
    /// What to say; `-` reads it from standard input. `name: text` goes to the app of that name.
    text: Option<String>,
    #[command(flatten)]
    target: HubTarget,
    /// It was spoken, not typed.
    #[arg(long)]
    voice: bool,
    /// How sure the speech recognition was, from 0 to 1.
    #[arg(long, value_name = "N", requires = "voice", value_parser = confidence)]
    confidence: Option<f64>,
    /// Wait for what apps answer, and print it as it arrives: until nothing more happens by itself, or for so many
    /// seconds, also for an app that is not connected or has acknowledged and not yet told anything.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1)]
    wait: Option<Option<String>>,
    /// Print the message as one line of JSON.
    #[arg(long)]
    json: bool,
}

/// How long to wait for responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitMode {
    No,
    /// Until the message is answered or cannot progress.
    UntilSettled,
    /// Also while it waits for an app to connect.
    UpTo(Duration),
}

/// The updates still expected for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedUpdates {
    Answers,
    /// All apps have acknowledged; a notification may follow.
    FollowUp,
    NoMore,
}

pub(super) async fn run(args: SendArgs) -> Result<ExitCode, CommandFailure> {
    let (text, wait) = text_and_wait(args.text, args.wait)?;
    let text = if text == "-" { from_stdin()? } else { text };
    if text.trim().is_empty() {
        return Err(
            CommandFailure::unusable("there is nothing to say").hint("give it as TEXT, or `-` to read standard input")
        );
    }
    if text.len() > MAX_TEXT {
        return Err(CommandFailure::unusable(format!("{} bytes are too long; the hub takes {MAX_TEXT}", text.len())));
    }
    let mut message = json!({ "text": text, "inputMethod": if args.voice { "voice" } else { "text" } });
    if let (Some(confidence), Some(fields)) = (args.confidence, message.as_object_mut()) {
        fields.insert("confidence".to_owned(), json!(confidence));
    }
    let client = args.target.client()?;
    let progress = if args.json { None } else { Some(PrintedProgress::default()) };
    let mut answer = client.submit(&message).await.map_err(|error| HubErrorContext::General.to_failure(error))?;
    let report = follow(&client, &mut answer, wait, progress).await?;
    if !args.json {
        suggest_app_name(&client, &text, &report).await;
    }
    if args.json {
        output::print_line(&answer.to_string());
    }
    Ok(if report.is_undelivered() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Prints the progress until no more updates are expected, and stores the newest report in `answer`.
async fn follow(
    client: &HubClient,
    answer: &mut Value,
    wait: WaitMode,
    mut progress: Option<PrintedProgress>,
) -> Result<MessageReport, CommandFailure> {
    let limit = match wait {
        WaitMode::No => Duration::ZERO,
        WaitMode::UntilSettled => DEFAULT_WAIT,
        WaitMode::UpTo(limit) => limit,
    };
    let deadline = Instant::now() + limit;
    let mut report: MessageReport = report::parse(answer)?;
    let mut printed = format::headline(&report);
    if progress.is_some() {
        output::print_line(&printed);
    }
    loop {
        if let Some(progress) = &mut progress {
            progress.take_new_lines(&report).iter().for_each(|line| output::print_line(line));
        }
        let remaining = deadline.saturating_duration_since(Instant::now());
        let expected = expected_updates(&report, wait);
        let timeout = match expected {
            ExpectedUpdates::Answers => remaining,
            ExpectedUpdates::FollowUp if wait == WaitMode::UntilSettled => remaining.min(FOLLOW_UP_WAIT),
            ExpectedUpdates::FollowUp => remaining,
            ExpectedUpdates::NoMore => Duration::ZERO,
        };
        if timeout.is_zero() {
            break;
        }
        let is_last = expected == ExpectedUpdates::FollowUp && wait != WaitMode::UntilSettled;
        let newer = async {
            match is_last {
                // The hub knows the apps' time limits.
                true => client.message_settled(&report.id, timeout).await,
                false => client.message_after(&report.id, report.version, timeout).await,
            }
        };
        let Ok(newer) = tokio::time::timeout(timeout, newer).await else { break };
        *answer = newer.map_err(|error| HubErrorContext::Message.to_failure(error))?;
        let next: MessageReport = report::parse(answer)?;
        // A hub that responds early without news must not be polled in a tight loop.
        let is_news = next.version > report.version;
        report = next;
        if is_last && !is_news {
            break;
        }
        if !is_news {
            tokio::time::sleep(FOLLOW_UP_WAIT.min(timeout)).await;
        }
    }
    let now = format::headline(&report);
    if progress.is_some() && now != printed {
        printed = now;
        output::print_line(&printed);
    }
    if progress.is_some() {
        format::next_step(&report).iter().for_each(|line| output::print_line(line));
        format::waits_for_app(&report).iter().for_each(|hint| output::eprint_line(hint));
    }
    Ok(report)
}

/// Suggests an app whose name is similar to the one the text addresses, if no app has that name.
async fn suggest_app_name(client: &HubClient, text: &str, report: &MessageReport) {
    let is_addressed = report.decisions.iter().any(|decision| matches!(decision.stage.as_str(), "direct" | "alias"));
    let Some((name, _)) = direct::split_address(text).filter(|_| !is_addressed) else { return };
    let names = apps::app_names(client).await;
    let has_it = |app: &str| report.attempts.iter().any(|attempt| attempt.client.eq_ignore_ascii_case(app));
    if let Some(suggestion) = nearest(name, names.iter().map(String::as_str)).filter(|suggestion| !has_it(suggestion)) {
        let hint = format!("hint: no app is called `{name}`; did you mean `{suggestion}`?");
        output::eprint_line(&output::one_line(&hint));
    }
}

fn expected_updates(report: &MessageReport, wait: WaitMode) -> ExpectedUpdates {
    if wait == WaitMode::No {
        return ExpectedUpdates::NoMore;
    }
    match report.state.as_str() {
        "sent" => ExpectedUpdates::Answers,
        "delivered" if report.is_pending() => ExpectedUpdates::Answers,
        "delivered" if report.notifications.is_empty() => ExpectedUpdates::FollowUp,
        // With a reason it waits for an app to register; without one it is being routed.
        "queued" if report.reason.is_some() && wait == WaitMode::UntilSettled => ExpectedUpdates::NoMore,
        "queued" => ExpectedUpdates::Answers,
        _ => ExpectedUpdates::NoMore,
    }
}

/// `--wait "some text"` takes the text as its value: a value that is not a number of seconds, or leaves no text, is the
/// text.
fn text_and_wait(text: Option<String>, wait: Option<Option<String>>) -> Result<(String, WaitMode), CommandFailure> {
    let missing =
        || CommandFailure::unusable("there is nothing to say").hint("patchboard hub send \"notebook: buy milk\"");
    match (text, wait) {
        (Some(text), None) => Ok((text, WaitMode::No)),
        (Some(text), Some(None)) => Ok((text, WaitMode::UntilSettled)),
        (Some(text), Some(Some(seconds))) => match seconds.parse::<u64>() {
            Ok(seconds) if seconds <= MAX_WAIT_SECONDS => Ok((text, WaitMode::UpTo(Duration::from_secs(seconds)))),
            Ok(_) | Err(_) => {
                let message = format!("`{}` is not a number of seconds", output::one_line(&seconds));
                Err(CommandFailure::unusable(message).hint("put a text of several words in quotes"))
            }
        },
        (None, Some(Some(text))) => Ok((text, WaitMode::UntilSettled)),
        (None, Some(None) | None) => Err(missing()),
    }
}

fn from_stdin() -> Result<String, CommandFailure> {
    let mut bytes = Vec::new();
    // Room for a line break and one more byte, to distinguish a text that is too long from one that just fits.
    let max_bytes = MAX_TEXT + 3;
    std::io::stdin().lock().take(max_bytes as u64).read_to_end(&mut bytes)?;
    if bytes.len() == max_bytes {
        return Err(CommandFailure::unusable(format!("standard input is too long; the hub takes {MAX_TEXT} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| CommandFailure::unusable("standard input is not UTF-8 text"))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn confidence(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=1.0).contains(&number) { Ok(number) } else { Err("it lies between 0 and 1".to_owned()) }
}

#[cfg(test)]
mod tests;
