//! The output of findings, as text and JSON.

use patchboard_config::problem::{ConfigProblems, Severity};
use serde::Serialize;

use crate::output::{self, PageLayout, TextRole, paint, wrap};

/// A finding; its text begins with its topic: `sandbox: …`. `Bad` prevents a server from starting, from answering, or
/// from doing all that is configured.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DoctorFinding {
    Good(String),
    /// Works, with a limitation.
    Note(String),
    Bad {
        problem: String,
        hint: String,
    },
}

/// A finding in JSON.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct FindingRow<'a> {
    level: &'static str,
    topic: &'a str,
    text: &'a str,
    hint: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct DoctorReport<'a> {
    healthy: bool,
    findings: Vec<FindingRow<'a>>,
}

/// Columns before each line, for the level.
const MARGIN: usize = 6;

impl DoctorFinding {
    fn row(&self) -> FindingRow<'_> {
        let (level, text, hint) = match self {
            Self::Good(text) => ("ok", text, None),
            Self::Note(text) => ("note", text, None),
            Self::Bad { problem, hint } => ("bad", problem, Some(hint.as_str())),
        };
        let (topic, text) = text.split_once(": ").unwrap_or(("", text));
        FindingRow { level, topic, text, hint }
    }

    /// Paths and names may have any content, so each line is sanitised for the terminal.
    fn lines(&self, page: PageLayout) -> Vec<String> {
        let (label, role, text, hint) = match self {
            Self::Good(text) => ("ok", TextRole::Good, text, None),
            Self::Note(text) => ("note", TextRole::Note, text, None),
            Self::Bad { problem, hint } => ("bad", TextRole::Bad, problem, Some(format!("hint: {hint}"))),
        };
        let mut lines = Vec::new();
        for text in std::iter::once(text).chain(hint.as_ref()).map(|text| output::one_line(text)) {
            match page.columns {
                Some(columns) => lines.extend(wrap(&text, columns.saturating_sub(MARGIN))),
                None => lines.push(text),
            }
        }
        let labels = std::iter::once(label).chain(std::iter::repeat(""));
        let line = |(label, text): (&str, String)| {
            let space = " ".repeat(MARGIN - label.len());
            format!("{}{space}{text}", paint(label, role, page.colour))
        };
        labels.zip(lines).map(line).collect()
    }
}

pub(super) fn is_healthy(findings: &[DoctorFinding]) -> bool {
    !findings.iter().any(|finding| matches!(finding, DoctorFinding::Bad { .. }))
}

pub(super) fn print_lines(findings: &[DoctorFinding]) {
    let page = PageLayout::of_stdout();
    findings.iter().flat_map(|finding| finding.lines(page)).for_each(|line| output::print_line(&line));
}

pub(super) fn print_json(findings: &[DoctorFinding]) {
    output::print_line(&to_json(findings));
}

fn to_json(findings: &[DoctorFinding]) -> String {
    let report =
        DoctorReport { healthy: is_healthy(findings), findings: findings.iter().map(DoctorFinding::row).collect() };
    serde_json::to_string(&report).unwrap_or_default()
}

/// Findings for problems of the configuration.
pub(super) fn from_config_problems(problems: &ConfigProblems) -> Vec<DoctorFinding> {
    let finding = |problem: &patchboard_config::problem::ConfigProblem| {
        let mut without_hint = problem.clone();
        let hint = without_hint.hint.take();
        let text = format!("configuration: {without_hint}");
        match problem.severity {
            Severity::Error => DoctorFinding::Bad {
                problem: text,
                hint: hint.unwrap_or_else(|| format!("patchboard explain {}", problem.code.as_str())),
            },
            Severity::Warning => DoctorFinding::Note(match hint {
                Some(hint) => format!("{text}; {hint}"),
                None => text,
            }),
        }
    };
    problems.iter().map(finding).collect()
}

#[cfg(test)]
mod tests;
