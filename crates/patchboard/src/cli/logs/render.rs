//! Renders log lines for people. Their content is untrusted, so it is sanitised for the terminal.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use super::LineLevel;
use crate::output::one_line;

/// Fields with a fixed position, and those that name the source location.
const HIDDEN_FIELDS: &[&str] = &["timestamp", "level", "message", "target", "span", "spans"];

#[derive(Debug)]
pub(super) struct RenderStyle {
    pub(super) zone: TimeZone,
    pub(super) has_colour: bool,
}

/// A parsed log line.
#[derive(Debug)]
pub(super) struct LogLine {
    pub(super) level: Option<LineLevel>,
    fields: Map<String, Value>,
}

impl LogLine {
    /// Returns `None` for lines that are not JSON objects.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let Ok(Value::Object(fields)) = serde_json::from_str(line) else { return None };
        let level = match fields.get("level").and_then(Value::as_str) {
            Some("ERROR") => Some(LineLevel::Error),
            Some("WARN") => Some(LineLevel::Warn),
            Some("INFO") => Some(LineLevel::Info),
            Some("DEBUG") => Some(LineLevel::Debug),
            Some("TRACE") => Some(LineLevel::Trace),
            Some(_) | None => None,
        };
        Some(Self { level, fields })
    }

    fn text(&self, key: &str) -> &str {
        self.fields.get(key).and_then(Value::as_str).unwrap_or_default()
    }
}

/// `2026-11-19 07:01:02.123  WARN the message key=value`, in local time.
pub(super) fn line(raw: &str, style: &RenderStyle) -> String {
    let Some(line) = LogLine::parse(raw) else { return one_line(raw) };
    let when = match line.text("timestamp").parse::<Timestamp>() {
        Ok(at) => at.to_zoned(style.zone.clone()).strftime("%Y-%m-%d %H:%M:%S%.3f").to_string(),
        Err(_) => one_line(line.text("timestamp")),
    };
    let mut shown = format!("{when} {} {}", level(line.level, style), one_line(line.text("message")));
    for (key, value) in line.fields.iter().filter(|(key, _)| !HIDDEN_FIELDS.contains(&key.as_str())) {
        let word = value.as_str().filter(|text| !text.is_empty() && !text.contains(char::is_whitespace));
        let value = word.map_or_else(|| one_line(&value.to_string()), one_line);
        shown.push_str(&format!(" {}={value}", one_line(key)));
    }
    shown
}

/// The line unchanged, except that control characters are escaped as JSON, so that it parses to the same value.
pub(super) fn json(raw: &str) -> String {
    if LogLine::parse(raw).is_none() {
        return one_line(raw);
    }
    let mut shown = String::with_capacity(raw.len());
    for c in raw.chars() {
        if c.is_ascii_graphic() || c == ' ' || one_line(c.encode_utf8(&mut [0; 4])) == c.to_string() {
            shown.push(c);
        } else {
            shown.push_str(&format!("\\u{:04x}", u32::from(c)));
        }
    }
    shown
}

fn level(level: Option<LineLevel>, style: &RenderStyle) -> String {
    let (name, colour) = match level {
        Some(LineLevel::Error) => ("ERROR", "31"),
        Some(LineLevel::Warn) => (" WARN", "33"),
        Some(LineLevel::Info) => (" INFO", "32"),
        Some(LineLevel::Debug) => ("DEBUG", "34"),
        Some(LineLevel::Trace) => ("TRACE", "35"),
        None => ("     ", "0"),
    };
    if style.has_colour { format!("\x1b[{colour}m{name}\x1b[0m") } else { name.to_owned() }
}

#[cfg(test)]
mod tests;
