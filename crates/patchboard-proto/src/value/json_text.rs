//! Values encoded as JSON text.

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{ElementBudget, MAX_DEPTH, ValueError};

/// Number literals that some JSON writers emit although JSON has none.
const NON_FINITE_LITERALS: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

pub(super) fn read(bytes: &[u8], budget: &mut ElementBudget) -> Result<Value, ValueError> {
    let text = utf8(bytes)?;
    let survey = JsonScan::of(text);
    if survey.depth > MAX_DEPTH {
        return Err(ValueError::TooDeep);
    }
    budget.take(survey.elements)?;
    let value = serde_json::from_str(text).map_err(|error| ValueError::NotJson(error.to_string()))?;
    // It would become a float and lose digits.
    if survey.has_wide_integer { Err(ValueError::WideInteger) } else { Ok(value) }
}

/// Returns the text if it is JSON; numbers are not converted, so they need no check.
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

/// Whether the text is a JSON object or array, within the depth limit.
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

/// Bounds the cost of parsing a text without parsing it. Correct for JSON; for other text the values are arbitrary.
#[derive(Debug, PartialEq, Eq)]
struct JsonScan {
    depth: usize,
    /// An upper bound.
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
            // Skips the escaped byte, which may be a quote.
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
    // Shorter numbers always fit.
    number.len() > 18
        && !number.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'))
        && std::str::from_utf8(number)
            .is_ok_and(|digits| digits.parse::<i64>().is_err() && digits.parse::<u64>().is_err())
}

#[cfg(test)]
mod tests;
