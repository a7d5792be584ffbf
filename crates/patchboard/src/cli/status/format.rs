//! A server's state as text.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

use crate::cli::run::live_display::format_count as shown;
use crate::data_dir::process::LastStop;
use crate::output::{one_line, wrap};

/// Columns before a row's text.
const MARGIN: usize = 13;

/// `all` is the object `--json` prints; `columns` is the terminal's width, if there is one.
pub(super) fn lines(
    all: &Value,
    is_answered: bool,
    now: Timestamp,
    zone: &TimeZone,
    columns: Option<usize>,
) -> Vec<String> {
    let mut lines = vec![head(all, now, zone)];
    let mut row = |title: &str, text: String| {
        let text = one_line(&text);
        let parts = match columns {
            Some(columns) => wrap(&text, columns.saturating_sub(MARGIN)),
            None => vec![text],
        };
        // Only the first line has the title.
        let titles = std::iter::once(title).chain(std::iter::repeat(""));
        lines.extend(titles.zip(parts).map(|(title, part)| format!("  {title:<10} {part}")));
    };
    if let Some(folder) = text(all, "data_dir") {
        row("data", folder.to_owned());
    }
    for (surface, scheme) in [("gateway", "http"), ("runs", "ws"), ("hub", "ws"), ("bridge", "grpc")] {
        if let Some(addresses) = all.get("addresses").filter(|addresses| addresses.is_object()) {
            let address = text(addresses, surface).map(|address| format!("{scheme}://{address}"));
            row(surface, address.unwrap_or_else(|| "off".to_owned()));
        }
    }
    if let Some(bytes) = number(all, "memory_bytes") {
        row("memory", format!("{} MiB", bytes / (1024 * 1024)));
    }
    if !is_answered {
        if let Some(left) = number(all, "runs_left") {
            row("runs", format!("{left} still at work"));
        }
        return lines;
    }
    for agent in all.get("agents").and_then(Value::as_array).into_iter().flatten() {
        row("model", model(agent));
    }
    let count = |key: &str| number(all, key).unwrap_or_default();
    row("chats", shown(count("sessions")));
    row("runs", format!("{} at work", count("runs")));
    for pool in all.get("workers").and_then(Value::as_array).into_iter().flatten() {
        row("workers", workers(pool));
    }
    if let Some(apps) = all.get("apps").filter(|apps| number(apps, "known").unwrap_or_default() > 0) {
        let count = |key: &str| number(apps, key).unwrap_or_default();
        row("apps", format!("{} connected of {}", count("connected"), count("known")));
    }
    match count("approvals") {
        0 => row("approvals", "none waits".to_owned()),
        1 => row("approvals", "1 waits: `patchboard approvals`".to_owned()),
        some => row("approvals", format!("{some} wait: `patchboard approvals`")),
    }
    for (key, title) in [("daily", "today"), ("monthly", "month")] {
        if let Some(line) = all.get("budget").and_then(|budget| budget.get(key)) {
            row(title, budget(line));
        }
    }
    let keys = all.get("budget").and_then(|budget| budget.get("keys")).and_then(Value::as_array);
    for key in keys.into_iter().flatten() {
        let of = |period: &str| key.get(period).map(budget).unwrap_or_default();
        let name = text(key, "key").unwrap_or_default();
        row("key", format!("{name}: today {}; month {}", of("daily"), of("monthly")));
    }
    lines
}

pub(super) fn last_stop(stop: &LastStop, zone: &TimeZone) -> String {
    let mut text = format!("the last one stopped {}", when(&stop.at, zone));
    match stop.suspended {
        0 => {}
        1 => text.push_str("; 1 run goes on at the next start"),
        some => text.push_str(&format!("; {some} runs go on at the next start")),
    }
    text
}

fn head(all: &Value, now: Timestamp, zone: &TimeZone) -> String {
    let state = match (text(all, "role"), text(all, "state")) {
        (Some("command"), _) => "serves another command",
        (_, Some("starting")) => "is starting",
        (_, Some("stopping")) => "is stopping",
        _ => "is running",
    };
    let version = text(all, "version").map(|version| format!(" {}", one_line(version))).unwrap_or_default();
    let mut about: Vec<String> = number(all, "pid").map(|pid| format!("pid {pid}")).into_iter().collect();
    if let Some(started) = text(all, "started_at") {
        about.push(format!("since {}", when(started, zone)));
        if let Ok(started) = started.parse::<Timestamp>() {
            about.push(length(now.duration_since(started).as_secs()));
        }
    }
    match about.is_empty() {
        true => format!("Patchboard{version} {state}"),
        false => format!("Patchboard{version} {state} ({})", about.join(", ")),
    }
}

fn when(at: &str, zone: &TimeZone) -> String {
    match at.parse::<Timestamp>() {
        Ok(at) => at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => one_line(at),
    }
}

fn length(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3_600 => format!("{}m", seconds / 60),
        seconds @ 3_600..86_400 => format!("{}h{}m", seconds / 3_600, seconds % 3_600 / 60),
        seconds => format!("{}d{}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

fn model(agent: &Value) -> String {
    let part = |key: &str| text(agent, key).unwrap_or_default();
    let model = match part("model") {
        "" => "its own default",
        model => model,
    };
    format!("{}: {} / {model}", part("name"), part("provider"))
}

fn workers(pool: &Value) -> String {
    let count = |key: &str| number(pool, key).unwrap_or_default();
    let trouble = text(pool, "trouble").map(|trouble| format!(": {trouble}")).unwrap_or_default();
    let name = text(pool, "name").unwrap_or_default();
    format!("{name}: {} of {} ready{trouble}", count("ready"), count("wanted"))
}

fn budget(line: &Value) -> String {
    let used = number(line, "used").unwrap_or_default();
    match number(line, "limit") {
        Some(limit) => {
            let reserved = number(line, "reserved").unwrap_or_default();
            let left = limit.saturating_sub(used).saturating_sub(reserved);
            format!("{} of {} tokens left", shown(left), shown(limit))
        }
        None => format!("{} tokens used, no limit", shown(used)),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

fn number(value: &Value, key: &str) -> Option<u64> {
    value.get(key).and_then(Value::as_u64)
}

#[cfg(test)]
mod tests;
