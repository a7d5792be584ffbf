//! Messages as text. Everything from apps and users is sanitised for the terminal here.

use jiff::tz::TimeZone;
use patchboard_core::app::message::CHOOSE_HINT;

use super::report::{AppNotification, DeliveryAttempt, MessageReport, RoutingCandidate, RoutingDecision};
use crate::output::{self, clock};

/// `ID STATE` and the reason for the state.
pub(super) fn headline(report: &MessageReport) -> String {
    let MessageReport { id, state, .. } = report;
    match reason_text(report) {
        Some(reason) => output::one_line(&format!("{id} {state}: {reason}")),
        None => output::one_line(&format!("{id} {state}")),
    }
}

/// The reason without the command it ends with, which gets its own line.
fn reason_text(report: &MessageReport) -> Option<&str> {
    let reason = report.reason.as_deref()?;
    Some(reason.rsplit_once(CHOOSE_HINT).map_or(reason, |(why, _)| why))
}

/// The command for a message that needs a decision.
pub(super) fn next_step(report: &MessageReport) -> Option<String> {
    let id = &report.id;
    let step = match report.state.as_str() {
        "held" => {
            let split_reason = report.reason.as_deref().and_then(|reason| reason.rsplit_once(CHOOSE_HINT));
            let command = split_reason.map(|(_, command)| command.trim_matches('`').to_owned());
            command.unwrap_or_else(|| format!("patchboard hub route {id} APP"))
        }
        "refused" | "expired" => format!("patchboard hub resend {id}"),
        _ => return None,
    };
    Some(output::one_line(&format!("next: {step}")))
}

/// A hint for a message that waits because no app is connected.
pub(super) fn waits_for_app(report: &MessageReport) -> Option<&'static str> {
    let is_alone = report.state == "queued" && report.reason.as_deref() == Some("no app is connected");
    is_alone.then_some(
        "hint: it is kept, and goes to an app once one connects; `patchboard hub clients --all` shows which apps there \
         are, and docs/hub.md how one connects",
    )
}

/// The command for the held messages of a list.
pub(super) fn next_step_of_held(reports: &[MessageReport]) -> Option<String> {
    let held_reports: Vec<&MessageReport> = reports.iter().filter(|report| report.state == "held").collect();
    match held_reports.as_slice() {
        [] => None,
        [one] => next_step(one),
        more => Some(format!("next, for each of the {} held: patchboard hub route ID APP", more.len())),
    }
}

pub(super) fn decision(decision: &RoutingDecision) -> String {
    let RoutingDecision { stage, clients, reason, .. } = decision;
    output::one_line(&match clients.is_empty() {
        true => format!("to nobody: {reason}"),
        false => format!("to {} (by {stage}): {reason}", clients.join(" and ")),
    })
}

pub(super) fn candidates(decision: &RoutingDecision) -> Vec<String> {
    decision.candidates.iter().map(candidate).collect()
}

fn candidate(candidate: &RoutingCandidate) -> String {
    let percent = (candidate.confidence * 100.0).clamp(0.0, 100.0);
    let mut line = format!("{} {percent:.0} %", candidate.client);
    if !candidate.why.is_empty() {
        line.push_str(&format!(": {}", candidate.why.join("; ")));
    }
    output::one_line(&line)
}

pub(super) fn attempt(attempt: &DeliveryAttempt) -> String {
    let DeliveryAttempt { client, state, reason, .. } = attempt;
    let reason = reason.as_deref().unwrap_or("no reason given");
    output::one_line(&match state.as_str() {
        "sent" => format!("{client} has it"),
        "delivered" => format!("{client} acknowledged it"),
        "rejected" => format!("{client} refused it: {reason}"),
        "timeout" => format!("{client} did not answer in time"),
        "disconnected" => format!("{client} left without an answer"),
        other => format!("{client}: {other}"),
    })
}

/// The title and the first line, with further lines of the body indented.
pub(super) fn notification(notification: &AppNotification) -> String {
    let AppNotification { client, title, body, priority } = notification;
    let mark = if priority == "high" { " (important)" } else { "" };
    let mut line = format!("{client}{mark}");
    if title != client && !title.is_empty() {
        line.push_str(&format!(": {title}"));
    }
    if !body.is_empty() {
        line.push_str(&format!(": {body}"));
    }
    output::plain(&line).replace('\n', "\n  ")
}

/// Everything known about a message, in chronological order as far as the hub reports it.
pub(super) fn timeline(report: &MessageReport, zone: &TimeZone) -> Vec<String> {
    let mut lines = vec![headline(report)];
    lines.extend(next_step(report));
    let local = |time: &str| clock::in_zone(time, zone, clock::SECOND);
    lines.push(format!("text        {}", output::plain(&report.text).replace('\n', "\n            ")));
    let input = match report.confidence {
        Some(confidence) => format!("{}, heard with confidence {confidence}", report.input_method),
        None => report.input_method.clone(),
    };
    lines.push(output::one_line(&format!("said        {} ({input})", local(&report.submitted_at))));
    lines.push(output::one_line(&format!("kept until  {}", local(&report.expires_at))));
    for decided in &report.decisions {
        lines.push(format!("routed      {}", decision(decided)));
        lines.extend(candidates(decided).into_iter().map(|line| format!("  candidate {line}")));
    }
    for tried in &report.attempts {
        let when = output::one_line(&format!("{} (by {})", local(&tried.sent_at), tried.stage));
        lines.push(format!("sent        {when}: {}", attempt(tried)));
    }
    lines.extend(report.notifications.iter().map(|one| format!("told        {}", notification(one))));
    lines
}

/// What has been printed of a followed message.
#[derive(Debug, Default)]
pub(super) struct PrintedProgress {
    decisions: usize,
    attempts: Vec<String>,
    notifications: usize,
}

impl PrintedProgress {
    /// The lines that are new since the last call.
    pub(super) fn take_new_lines(&mut self, report: &MessageReport) -> Vec<String> {
        // A decision without a recipient is shown as the reason of the resulting state.
        let sent = |decision: &&RoutingDecision| !decision.clients.is_empty();
        let mut lines: Vec<String> = report.decisions.iter().skip(self.decisions).filter(sent).map(decision).collect();
        self.decisions = self.decisions.max(report.decisions.len());
        for (index, tried) in report.attempts.iter().enumerate() {
            match self.attempts.get_mut(index) {
                Some(state) if *state == tried.state => continue,
                Some(state) => state.clone_from(&tried.state),
                None => self.attempts.push(tried.state.clone()),
            }
            // Sending is shown by the decision already.
            if tried.state != "sent" {
                lines.push(attempt(tried));
            }
        }
        lines.extend(report.notifications.iter().skip(self.notifications).map(notification));
        self.notifications = self.notifications.max(report.notifications.len());
        lines
    }
}

#[cfg(test)]
mod tests;
