//! A line of the log for people. What it holds may come from anybody, so nothing of it acts on the terminal.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use super::Level;
use super::output::one_line;

/// Fields with a place of their own, and those that say where in the program it was.
const NOT_SHOWN: &[&str] = &["timestamp", "level", "message", "target", "span", "spans"];

#[derive(Debug)]
pub(super) struct Style {
    pub(super) zone: TimeZone,
    pub(super) has_colour: bool,
}

/// What every line has.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) level: Option<Level>,
    fields: Map<String, Value>,
}

impl Line {
    /// `None` for what this server did not write.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let Ok(Value::Object(fields)) = serde_json::from_str(line) else { return None };
        let level = match fields.get("level").and_then(Value::as_str) {
            Some("ERROR") => Some(Level::Error),
            Some("WARN") => Some(Level::Warn),
            Some("INFO") => Some(Level::Info),
            Some("DEBUG") => Some(Level::Debug),
            Some("TRACE") => Some(Level::Trace),
            Some(_) | None => None,
        };
        Some(Self { level, fields })
    }

    fn text(&self, key: &str) -> &str {
        self.fields.get(key).and_then(Value::as_str).unwrap_or_default()
    }
}

/// `2026-11-19 07:01:02.123  WARN the message key=value`, by the local clock.
pub(super) fn line(raw: &str, style: &Style) -> String {
    let Some(line) = Line::parse(raw) else { return one_line(raw) };
    let when = match line.text("timestamp").parse::<Timestamp>() {
        Ok(at) => at.to_zoned(style.zone.clone()).strftime("%Y-%m-%d %H:%M:%S%.3f").to_string(),
        Err(_) => one_line(line.text("timestamp")),
    };
    let mut shown = format!("{when} {} {}", level(line.level, style), one_line(line.text("message")));
    for (key, value) in line.fields.iter().filter(|(key, _)| !NOT_SHOWN.contains(&key.as_str())) {
        let word = value.as_str().filter(|text| !text.is_empty() && !text.contains(char::is_whitespace));
        let value = word.map_or_else(|| one_line(&value.to_string()), one_line);
        shown.push_str(&format!(" {}={value}", one_line(key)));
    }
    shown
}

/// As it is kept. What would act on a terminal is escaped in JSON's own way, so that it reads back as the same.
pub(super) fn json(raw: &str) -> String {
    if Line::parse(raw).is_none() {
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

fn level(level: Option<Level>, style: &Style) -> String {
    let (name, colour) = match level {
        Some(Level::Error) => ("ERROR", "31"),
        Some(Level::Warn) => (" WARN", "33"),
        Some(Level::Info) => (" INFO", "32"),
        Some(Level::Debug) => ("DEBUG", "34"),
        Some(Level::Trace) => ("TRACE", "35"),
        None => ("     ", "0"),
    };
    if style.has_colour { format!("\x1b[{colour}m{name}\x1b[0m") } else { name.to_owned() }
}

#[cfg(test)]
mod tests;
