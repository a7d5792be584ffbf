//! Messages in words, for people. Whatever came from apps or users is made fit for a terminal here.

use super::report::{Attempt, Candidate, Decision, Notification, Report};
use crate::cli::output;

/// `ID STATE`, and why it is in that state.
pub(super) fn headline(report: &Report) -> String {
    let Report { id, state, reason, .. } = report;
    match reason {
        Some(reason) => output::one_line(&format!("{id} {state}: {reason}")),
        None => output::one_line(&format!("{id} {state}")),
    }
}

pub(super) fn decision(decision: &Decision) -> String {
    let Decision { stage, clients, reason, .. } = decision;
    output::one_line(&match clients.is_empty() {
        true => format!("to nobody: {reason}"),
        false => format!("to {} (by {stage}): {reason}", clients.join(" and ")),
    })
}

pub(super) fn candidates(decision: &Decision) -> Vec<String> {
    decision.candidates.iter().map(candidate).collect()
}

fn candidate(candidate: &Candidate) -> String {
    let percent = (candidate.confidence * 100.0).clamp(0.0, 100.0);
    let mut said = format!("{} {percent:.0} %", candidate.client);
    if !candidate.why.is_empty() {
        said.push_str(&format!(": {}", candidate.why.join("; ")));
    }
    output::one_line(&said)
}

pub(super) fn attempt(attempt: &Attempt) -> String {
    let Attempt { client, state, reason, .. } = attempt;
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

/// The first line as a whole; further lines of the body follow, indented.
pub(super) fn notification(notification: &Notification) -> String {
    let Notification { client, title, body, priority } = notification;
    let mark = if priority == "high" { " (important)" } else { "" };
    let mut said = format!("{client}{mark}");
    if title != client && !title.is_empty() {
        said.push_str(&format!(": {title}"));
    }
    if !body.is_empty() {
        said.push_str(&format!(": {body}"));
    }
    output::plain(&said).replace('\n', "\n  ")
}

/// Everything there is to know, in the order it happened as far as the hub tells.
pub(super) fn timeline(report: &Report) -> Vec<String> {
    let mut lines = vec![headline(report)];
    lines.push(format!("text        {}", output::plain(&report.text).replace('\n', "\n            ")));
    let heard = match report.confidence {
        Some(confidence) => format!("{}, heard with confidence {confidence}", report.input_method),
        None => report.input_method.clone(),
    };
    lines.push(output::one_line(&format!("said        {} ({heard})", report.submitted_at)));
    lines.push(output::one_line(&format!("kept until  {}", report.expires_at)));
    for decided in &report.decisions {
        lines.push(format!("routed      {}", decision(decided)));
        lines.extend(candidates(decided).into_iter().map(|line| format!("  candidate {line}")));
    }
    for tried in &report.attempts {
        let when = output::one_line(&format!("{} (by {})", tried.sent_at, tried.stage));
        lines.push(format!("sent        {when}: {}", attempt(tried)));
    }
    lines.extend(report.notifications.iter().map(|one| format!("told        {}", notification(one))));
    lines
}

/// What was told already of a message that is followed.
#[derive(Debug, Default)]
pub(super) struct Told {
    decisions: usize,
    attempts: Vec<String>,
    notifications: usize,
}

impl Told {
    /// What is new since the last time.
    pub(super) fn news(&mut self, report: &Report) -> Vec<String> {
        let mut lines: Vec<String> = report.decisions.iter().skip(self.decisions).map(decision).collect();
        self.decisions = self.decisions.max(report.decisions.len());
        for (index, tried) in report.attempts.iter().enumerate() {
            match self.attempts.get_mut(index) {
                Some(state) if *state == tried.state => continue,
                Some(state) => state.clone_from(&tried.state),
                None => self.attempts.push(tried.state.clone()),
            }
            // That it was sent is what the decision said.
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
