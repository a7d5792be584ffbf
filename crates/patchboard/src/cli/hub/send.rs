//! `patchboard hub send`

use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use patchboard_core::app::hub::MAX_TEXT;
use patchboard_core::app::route::direct;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::report::{self, Report};
use super::words::{self, Told};
use super::{HubTarget, Wanted, apps};
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::client::hub::HubClient;
use crate::config::nearest::nearest;

/// How long is waited when nobody says how long.
const USUAL_WAIT: Duration = Duration::from_secs(120);
/// The longest that can be asked for.
const LONGEST_WAIT: u64 = 24 * 3600;
/// What an app has to say often follows its acknowledgement at once.
const AFTERWORD: Duration = Duration::from_secs(2);

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

/// For how long answers are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    No,
    /// Until it has been answered or rests.
    UntilItRests,
    /// Also while it waits for an app to come.
    For(Duration),
}

/// What is still to be expected of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outlook {
    Answers,
    /// Everybody has answered; one of them may have something to add.
    Afterword,
    Nothing,
}

pub(super) async fn run(args: SendArgs) -> Result<ExitCode, Failure> {
    let (text, wait) = text_and_wait(args.text, args.wait)?;
    let text = if text == "-" { from_stdin()? } else { text };
    if text.trim().is_empty() {
        return Err(Failure::unusable("there is nothing to say").hint("give it as TEXT, or `-` to read standard input"));
    }
    if text.len() > MAX_TEXT {
        return Err(Failure::unusable(format!("{} bytes are too long; the hub takes {MAX_TEXT}", text.len())));
    }
    let mut message = json!({ "text": text, "inputMethod": if args.voice { "voice" } else { "text" } });
    if let (Some(confidence), Some(fields)) = (args.confidence, message.as_object_mut()) {
        fields.insert("confidence".to_owned(), json!(confidence));
    }
    let client = args.target.client()?;
    let told = if args.json { None } else { Some(Told::default()) };
    let mut answer = client.submit(&message).await.map_err(|error| Wanted::Nothing.failure(error))?;
    let report = follow(&client, &mut answer, wait, told).await?;
    if !args.json {
        note_misspelt(&client, &text, &report).await;
    }
    if args.json {
        output::line(&answer.to_string());
    }
    Ok(if report.is_lost() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Says what happens to the message until nothing more is to be expected; leaves its newest form in `answer`.
async fn follow(client: &HubClient, answer: &mut Value, wait: Wait, mut told: Option<Told>) -> Result<Report, Failure> {
    let limit = match wait {
        Wait::No => Duration::ZERO,
        Wait::UntilItRests => USUAL_WAIT,
        Wait::For(limit) => limit,
    };
    let deadline = Instant::now() + limit;
    let mut report: Report = report::read(answer)?;
    let mut said = words::headline(&report);
    if told.is_some() {
        output::line(&said);
    }
    loop {
        if let Some(told) = &mut told {
            told.news(&report).iter().for_each(|line| output::line(line));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let outlook = outlook(&report, wait);
        let patience = match outlook {
            Outlook::Answers => left,
            Outlook::Afterword if wait == Wait::UntilItRests => left.min(AFTERWORD),
            Outlook::Afterword => left,
            Outlook::Nothing => Duration::ZERO,
        };
        if patience.is_zero() {
            break;
        }
        let is_last = outlook == Outlook::Afterword && wait != Wait::UntilItRests;
        let newer = async {
            match is_last {
                // The hub knows how long apps have.
                true => client.message_settled(&report.id, patience).await,
                false => client.message_after(&report.id, report.version, patience).await,
            }
        };
        let Ok(newer) = tokio::time::timeout(patience, newer).await else { break };
        *answer = newer.map_err(|error| Wanted::Message.failure(error))?;
        let next: Report = report::read(answer)?;
        // A hub that answers without news before the time is up must not be asked in a tight loop.
        let is_news = next.version > report.version;
        report = next;
        if is_last && !is_news {
            break;
        }
        if !is_news {
            tokio::time::sleep(AFTERWORD.min(patience)).await;
        }
    }
    let now = words::headline(&report);
    if told.is_some() && now != said {
        said = now;
        output::line(&said);
    }
    if told.is_some() {
        words::next_step(&report).iter().for_each(|line| output::line(line));
        words::waits_for_app(&report).iter().for_each(|hint| output::error(hint));
    }
    Ok(report)
}

/// Tells of an app with nearly the name that the text begins with, when no app has that name.
async fn note_misspelt(client: &HubClient, text: &str, report: &Report) {
    let is_addressed = report.decisions.iter().any(|decision| matches!(decision.stage.as_str(), "direct" | "alias"));
    let Some((name, _)) = direct::split(text).filter(|_| !is_addressed) else { return };
    let names = apps::names(client).await;
    let has_it = |app: &str| report.attempts.iter().any(|attempt| attempt.client.eq_ignore_ascii_case(app));
    if let Some(meant) = nearest(name, names.iter().map(String::as_str)).filter(|meant| !has_it(meant)) {
        let hint = format!("hint: no app is called `{name}`; did you mean `{meant}`?");
        output::error(&output::one_line(&hint));
    }
}

fn outlook(report: &Report, wait: Wait) -> Outlook {
    if wait == Wait::No {
        return Outlook::Nothing;
    }
    match report.state.as_str() {
        "sent" => Outlook::Answers,
        "delivered" if report.is_pending() => Outlook::Answers,
        "delivered" if report.notifications.is_empty() => Outlook::Afterword,
        // With a reason it has come to rest until an app registers; without one it is being routed.
        "queued" if report.reason.is_some() && wait == Wait::UntilItRests => Outlook::Nothing,
        "queued" => Outlook::Answers,
        _ => Outlook::Nothing,
    }
}

/// `--wait "some text"` swallows the text: what cannot be seconds, or leaves nothing to say, is what was meant to be
/// said.
fn text_and_wait(text: Option<String>, wait: Option<Option<String>>) -> Result<(String, Wait), Failure> {
    let missing = || Failure::unusable("there is nothing to say").hint("patchboard hub send \"notebook: buy milk\"");
    match (text, wait) {
        (Some(text), None) => Ok((text, Wait::No)),
        (Some(text), Some(None)) => Ok((text, Wait::UntilItRests)),
        (Some(text), Some(Some(seconds))) => match seconds.parse::<u64>() {
            Ok(seconds) if seconds <= LONGEST_WAIT => Ok((text, Wait::For(Duration::from_secs(seconds)))),
            Ok(_) | Err(_) => {
                let message = format!("`{}` is not a number of seconds", output::one_line(&seconds));
                Err(Failure::unusable(message).hint("put a text of several words in quotes"))
            }
        },
        (None, Some(Some(text))) => Ok((text, Wait::UntilItRests)),
        (None, Some(None) | None) => Err(missing()),
    }
}

fn from_stdin() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    // Room for a line end, and one more, so that what is too long is told from what just fits.
    let most = MAX_TEXT + 3;
    std::io::stdin().lock().take(most as u64).read_to_end(&mut bytes)?;
    if bytes.len() == most {
        return Err(Failure::unusable(format!("standard input is too long; the hub takes {MAX_TEXT} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| Failure::unusable("standard input is not UTF-8 text"))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn confidence(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=1.0).contains(&number) { Ok(number) } else { Err("it lies between 0 and 1".to_owned()) }
}

#[cfg(test)]
mod tests;
