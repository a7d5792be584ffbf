//! `patchboard hub check`: stands in for a hub, puts a client through a scenario and says what it makes of it.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use patchboard_core::id::MessageId;
use patchboard_core::port::Clock;
use patchboard_hub_check::{
    CheckOptions, CheckOutput, ConformanceChecker, EndpointConfig, FindingLevel, HubScript, ProtocolStep, Tally,
    TimedFinding, run_mock_hub,
};
use serde::Serialize;
use tokio::net::TcpListener;
use uuid::Uuid;

use crate::cli::failure::CommandFailure;
use crate::cli::{ConfigLocation, block_on};
use crate::client::hub::{LocalUrl, socket_addresses};
use crate::output;
use crate::system::SystemClock;

#[derive(Debug, Args)]
pub(super) struct HubCheckArgs {
    /// Where to listen in place of a hub, such as ws://127.0.0.1:9474. Point the client there.
    url: String,
    #[command(flatten)]
    place: ConfigLocation,
    /// One connection only: do not see whether the client comes back.
    #[arg(long)]
    once: bool,
    /// How long everything may take, the start of the client included.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Print each verdict as a line of JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: HubCheckArgs) -> Result<ExitCode, CommandFailure> {
    let allowed_origins = args.place.load()?.config.hub.allowed_origins;
    let address = LocalUrl::read(&args.url, &["ws"]).map_err(|why| {
        let message = format!("`{}` {why}", output::one_line(&args.url));
        CommandFailure::unusable(message).hint("write ws://127.0.0.1:9474")
    })?;
    block_on(async move {
        let listener = TcpListener::bind(&*socket_addresses(&address.authority))
            .await
            .map_err(|error| cannot_listen(&address, &error))?;
        let url = format!("ws://{}{}", listener.local_addr()?, address.path);
        let tell = FindingPrinter { json: args.json };
        tell.listening(&url);
        let endpoint = EndpointConfig { path: address.path, allowed_origins };
        let plan = CheckOptions { endpoint, once: args.once, timeout: Duration::from_secs(args.timeout) };
        let script = HubScript {
            start: SystemClock.now(),
            client: Uuid::new_v4(),
            messages: std::array::from_fn(|_| MessageId(Uuid::new_v4())),
        };
        let tally =
            Box::pin(run_mock_hub(&listener, ConformanceChecker::new(plan, script), |output| tell.print(&output)))
                .await;
        tell.summary(tally);
        Ok(if tally.wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

fn cannot_listen(address: &LocalUrl, error: &std::io::Error) -> CommandFailure {
    let failure = CommandFailure::unusable(format!("cannot listen on {}: {error}", address.authority));
    if error.kind() == std::io::ErrorKind::AddrInUse {
        return failure.hint(
            "a hub or another program is there; give another port, such as ws://127.0.0.1:9474, and point the client \
             to it, or stop the hub while you check",
        );
    }
    failure
}

/// Says it in words or as JSON.
#[derive(Debug, Clone, Copy)]
struct FindingPrinter {
    json: bool,
}

impl FindingPrinter {
    fn listening(self, url: &str) {
        if self.json {
            output::print_line(&serde_json::json!({ "listening": url }).to_string());
        } else {
            output::eprint_line(&format!("Standing in for a hub at {url}. Point the client there and start it."));
        }
    }

    fn print(self, output: &CheckOutput) {
        match output {
            CheckOutput::Finding(verdict) if self.json => output::print_line(&to_json(verdict)),
            CheckOutput::Finding(verdict) => to_lines(verdict).iter().for_each(|line| output::print_line(line)),
            CheckOutput::Note(_) if self.json => {}
            CheckOutput::Note(note) => output::eprint_line(&format!("… {note}")),
        }
    }

    fn summary(self, tally: Tally) {
        let conforms = tally.wrong == 0;
        if self.json {
            return output::print_line(&serde_json::json!({ "summary": tally, "conforms": conforms }).to_string());
        }
        let Tally { ok, warn, wrong } = tally;
        let verdict = if conforms { "this client conforms" } else { "this client does not conform yet" };
        output::print_line(&format!("{ok} ok, {warn} to improve, {wrong} wrong: {verdict}"));
    }
}

fn to_lines(verdict: &TimedFinding) -> Vec<String> {
    let finding = &verdict.finding;
    let (word, step) = (finding.level.word(), finding.step.word());
    let seconds = verdict.at.as_secs_f64();
    let mut lines = vec![format!("{word:5} {seconds:7.1} s  {step:12}  {}", output::one_line(&finding.observed))];
    if finding.level != FindingLevel::Ok {
        lines.push(format!("      rule: {}", finding.rule));
        lines.extend(finding.fix.iter().map(|mend| format!("      mend: {}", output::one_line(mend))));
    }
    lines
}

fn to_json(verdict: &TimedFinding) -> String {
    #[derive(Serialize)]
    struct FindingLine<'a> {
        at_ms: u64,
        step: ProtocolStep,
        verdict: FindingLevel,
        saw: &'a str,
        rule: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        mend: Option<&'a str>,
    }
    let finding = &verdict.finding;
    let line = FindingLine {
        at_ms: u64::try_from(verdict.at.as_millis()).unwrap_or(u64::MAX),
        step: finding.step,
        verdict: finding.level,
        saw: &finding.observed,
        rule: finding.rule,
        mend: finding.fix.as_deref(),
    };
    // Texts and numbers only: this cannot fail.
    serde_json::to_string(&line).unwrap_or_default()
}

#[cfg(test)]
mod tests;
