//! Values that are JSON text.

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{ElementBudget, MAX_DEPTH, ValueError};

/// Numbers that some writers of JSON write although JSON does not know them.
const NON_FINITE_LITERALS: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

pub(super) fn read(bytes: &[u8], budget: &mut ElementBudget) -> Result<Value, ValueError> {
    let text = utf8(bytes)?;
    let survey = JsonScan::of(text);
    if survey.depth > MAX_DEPTH {
        return Err(ValueError::TooDeep);
    }
    budget.take(survey.elements)?;
    let value = serde_json::from_str(text).map_err(|error| ValueError::NotJson(error.to_string()))?;
    // It would have become a float, with digits missing.
    if survey.has_wide_integer { Err(ValueError::WideInteger) } else { Ok(value) }
}

/// The same text if it is JSON, whatever its numbers: nothing is made of it here.
pub(super) fn check(bytes: Vec<u8>) -> Result<Bytes, ValueError> {
    let text = utf8(&bytes)?;
    if let Some(word) = non_finite_literal(text) {
        return Ok(Value::from(word).to_string().into());
    }
    if JsonScan::of(text).depth > MAX_DEPTH {
        return Err(ValueError::TooDeep);
    }
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| ValueError::NotJson(error.to_string()))?;
    Ok(bytes.into())
}

/// Is the text a JSON object or array, and not one so deep that nobody could have meant it?
pub(super) fn is_structured(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
        && JsonScan::of(text).depth <= MAX_DEPTH
        && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

fn utf8(bytes: &[u8]) -> Result<&str, ValueError> {
    if bytes.is_empty() {
        return Err(ValueError::Empty);
    }
    std::str::from_utf8(bytes).map_err(|error| ValueError::NotJson(error.to_string()))
}

fn non_finite_literal(text: &str) -> Option<&'static str> {
    NON_FINITE_LITERALS.into_iter().find(|word| *word == text.trim())
}

/// What a text would cost to read, found without reading it. Right for JSON; for anything else some number.
#[derive(Debug, PartialEq, Eq)]
struct JsonScan {
    depth: usize,
    /// At least as many as there are.
    elements: usize,
    has_wide_integer: bool,
}

impl JsonScan {
    fn of(text: &str) -> Self {
        let mut survey = Self { depth: 0, elements: 1, has_wide_integer: false };
        let mut open = 0_usize;
        let mut rest = text.as_bytes();
        while let Some((first, tail)) = rest.split_first() {
            rest = match first {
                b'"' => skip_string(tail),
                b'-' | b'0'..=b'9' => {
                    let length = rest.iter().take_while(|byte| is_in_number(**byte)).count();
                    let (number, tail) = rest.split_at_checked(length).unwrap_or((rest, &[]));
                    survey.has_wide_integer |= is_wide_integer(number);
                    tail
                }
                b'{' | b'[' => {
                    open += 1;
                    survey.depth = survey.depth.max(open);
                    survey.elements += 1;
                    tail
                }
                b'}' | b']' => {
                    open = open.saturating_sub(1);
                    tail
                }
                b',' => {
                    survey.elements += 1;
                    tail
                }
                _ => tail,
            };
        }
        survey
    }
}

fn skip_string(mut rest: &[u8]) -> &[u8] {
    while let Some((first, tail)) = rest.split_first() {
        rest = match first {
            b'"' => return tail,
            b'\\' => tail.get(1..).unwrap_or_default(),
            _ => tail,
        };
    }
    rest
}

fn is_in_number(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')
}

fn is_wide_integer(number: &[u8]) -> bool {
    // Nothing shorter can be.
    number.len() > 18
        && !number.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'))
        && std::str::from_utf8(number)
            .is_ok_and(|digits| digits.parse::<i64>().is_err() && digits.parse::<u64>().is_err())
}

#[cfg(test)]
mod tests;
