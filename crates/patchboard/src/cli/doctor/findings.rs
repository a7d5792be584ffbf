//! What was found, for people and for programs.

use serde::Serialize;

use crate::cli::output;
use crate::config::problem::{ConfigProblems, Severity};

/// `Bad` is what keeps a server from starting, answering, or doing all that is configured. The text begins with its topic:
/// `sandbox: …`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Good(String),
    /// Works, with a limit worth knowing.
    Note(String),
    Bad {
        problem: String,
        hint: String,
    },
}

/// A finding as programs read it.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Row<'a> {
    level: &'static str,
    topic: &'a str,
    text: &'a str,
    hint: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    healthy: bool,
    findings: Vec<Row<'a>>,
}

impl Finding {
    fn row(&self) -> Row<'_> {
        let (level, text, hint) = match self {
            Self::Good(text) => ("ok", text, None),
            Self::Note(text) => ("note", text, None),
            Self::Bad { problem, hint } => ("bad", problem, Some(hint.as_str())),
        };
        let (topic, text) = text.split_once(": ").unwrap_or(("", text));
        Row { level, topic, text, hint }
    }
}

pub(super) fn is_healthy(findings: &[Finding]) -> bool {
    !findings.iter().any(|finding| matches!(finding, Finding::Bad { .. }))
}

/// Paths and names may come from anywhere, so each line is made fit for a terminal.
pub(super) fn print_lines(findings: &[Finding]) {
    for finding in findings {
        match finding {
            Finding::Good(text) => output::line(&format!("ok    {}", output::one_line(text))),
            Finding::Note(text) => output::line(&format!("note  {}", output::one_line(text))),
            Finding::Bad { problem, hint } => {
                output::line(&format!("bad   {}", output::one_line(problem)));
                output::line(&format!("      hint: {}", output::one_line(hint)));
            }
        }
    }
}

pub(super) fn print_json(findings: &[Finding]) {
    output::line(&to_json(findings));
}

fn to_json(findings: &[Finding]) -> String {
    let report = Report { healthy: is_healthy(findings), findings: findings.iter().map(Finding::row).collect() };
    serde_json::to_string(&report).unwrap_or_default()
}

/// A configuration that cannot be used.
pub(super) fn of_problems(problems: &ConfigProblems) -> Vec<Finding> {
    let finding = |problem: &crate::config::problem::Problem| {
        let mut said = problem.clone();
        let hint = said.hint.take();
        let text = format!("configuration: {said}");
        match problem.severity {
            Severity::Error => Finding::Bad {
                problem: text,
                hint: hint.unwrap_or_else(|| format!("patchboard explain {}", problem.code.as_str())),
            },
            Severity::Warning => Finding::Note(match hint {
                Some(hint) => format!("{text}; {hint}"),
                None => text,
            }),
        }
    };
    problems.iter().map(finding).collect()
}

#[cfg(test)]
mod tests;
