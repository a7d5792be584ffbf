//! The report of Node's test runner, in the Test Anything Protocol.

use crate::e2e::driver::Outcome;

/// Reads the closing figures and the names of what failed or was skipped; nothing when the report breaks off.
pub(super) fn read(file: &str, text: &str) -> Option<Outcome> {
    let figure = |name: &str| {
        let prefix = format!("# {name} ");
        text.lines().rev().find_map(|line| line.strip_prefix(&prefix)?.trim().parse::<usize>().ok())
    };
    let passed = figure("pass")?;
    let failures = figure("fail")? + figure("cancelled").unwrap_or(0);
    let skips = figure("skipped")? + figure("todo").unwrap_or(0);

    let mut outcome = Outcome { passed: u64::try_from(passed).ok()?, ..Outcome::default() };
    for point in text.lines().filter_map(point) {
        match point {
            Point::Failed(name) => outcome.failed.push(format!("{file}: {name}")),
            Point::Skipped(name, reason) => outcome.skipped.push(format!("{file}: {name}: {reason}")),
        }
    }
    // A suite is a point of its own beside its tests, but no test: the figures decide how many there are. Inner points
    // come first.
    fill(&mut outcome.failed, failures, file);
    fill(&mut outcome.skipped, skips, file);
    Some(outcome)
}

enum Point<'a> {
    Failed(&'a str),
    Skipped(&'a str, &'a str),
}

/// `not ok 2 - name` and `ok 3 - name # SKIP reason`, at any depth.
fn point(line: &str) -> Option<Point<'_>> {
    let line = line.trim_start();
    let (failed, rest) = match line.strip_prefix("not ok ") {
        Some(rest) => (true, rest),
        None => (false, line.strip_prefix("ok ")?),
    };
    let (_, description) = rest.split_once(" - ")?;
    match description.split_once(" # ") {
        Some((name, directive)) if !failed => {
            let (kind, reason) = directive.split_once(' ').unwrap_or((directive, "no reason given"));
            ["SKIP", "TODO"].contains(&kind).then_some(Point::Skipped(name, reason))
        }
        Some((name, _)) => Some(Point::Failed(name)),
        None => failed.then_some(Point::Failed(description)),
    }
}

fn fill(list: &mut Vec<String>, expected: usize, file: &str) {
    list.truncate(expected);
    while list.len() < expected {
        list.push(format!("{file}: not named"));
    }
}

#[cfg(test)]
mod tests;
