//! What an `Any` of the bridge means as JSON, and back. The one place that knows the two conventions of its callers:
//! protobuf's packed wrappers, and JSON text under any type URL.
//!
//! Packed is what an encoder would have written, byte for byte; everything else is read as JSON. Numbers that JSON has
//! no words for are refused as parameters and become the strings `NaN`, `Infinity` and `-Infinity` in results; bytes
//! become base64, as protobuf's own JSON does; unlike there, 64-bit integers stay numbers.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost_types::Any;
use serde_json::{Map, Value};

mod json_text;
mod packed;
mod wire;

pub use crate::parameter_type::ParameterKind;
use packed::{UnpackError, WrapperType};

/// Under which everything is sent out.
pub const JSON_TYPE_URL: &str = "type.snakepit.bridge/json";

/// As many as a JSON reader with serde's usual limit follows, so that what passes here passes there.
pub const MAX_DEPTH: usize = 127;

/// Of all parameters of one call together; a few bytes of text can be a hundred in memory. More is refused: long lists
/// of numbers travel as binary parameters.
pub const MAX_ELEMENTS: usize = 1_000_000;

/// Why a value cannot be understood, in words that fit after `Invalid parameter NAME: `.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    #[error("empty where JSON is expected")]
    Empty,
    #[error("not JSON: {0}")]
    NotJson(String),
    #[error("JSON has no words for NaN and the infinities; pass them as text or in a binary parameter")]
    NotFinite,
    #[error("neither a packed `{wrapper}` nor JSON: {reason}")]
    NotPackedNorJson { wrapper: &'static str, reason: String },
    #[error("nested deeper than {} levels", MAX_DEPTH)]
    TooDeep,
    #[error("more than {} elements: send them as a binary parameter", MAX_ELEMENTS)]
    TooLarge,
    #[error("an integer of more than 64 bits: send it as a string")]
    WideInteger,
}

/// A parameter that cannot be understood; nothing was executed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid parameter {}: {why}", clipped(.name))]
pub struct InvalidParameter {
    pub name: String,
    pub why: ValueError,
}

/// Names come from clients and go back to them in words.
fn clipped(name: &str) -> &str {
    const MAX: usize = 128;
    name.get(..name.floor_char_boundary(MAX)).unwrap_or(name)
}

/// One value as JSON.
pub fn decode(any: &Any, kind: ParameterKind) -> Result<Value, ValueError> {
    decode_within(any, kind, &mut ElementBudget::default())
}

/// All parameters of a call as one JSON object.
pub fn decode_parameters(
    parameters: &BTreeMap<String, Any>,
    kind_of: impl Fn(&str) -> ParameterKind,
) -> Result<Map<String, Value>, InvalidParameter> {
    let mut budget = ElementBudget::default();
    let decoded = parameters.iter().map(|(name, any)| match decode_within(any, kind_of(name), &mut budget) {
        Ok(value) => Ok((name.clone(), value)),
        Err(why) => Err(InvalidParameter { name: name.clone(), why }),
    });
    decoded.collect()
}

/// One value as JSON text, which is its sender's own where it sent text: no number loses a digit.
pub fn into_json(any: Any, kind: ParameterKind) -> Result<Bytes, ValueError> {
    let Some(wrapper) = WrapperType::of(&any.type_url) else { return json_text::check(any.value) };
    match packed::read(wrapper, &any.value, &mut ElementBudget::default()) {
        Ok(Value::String(inner)) if wrapper == WrapperType::String && kind == ParameterKind::Other => {
            match json_text::is_structured(&inner) {
                true => Ok(inner.into()),
                false => Ok(Value::String(inner).to_string().into()),
            }
        }
        Ok(value) => Ok(value.to_string().into()),
        Err(UnpackError::Invalid(why)) => Err(why),
        Err(UnpackError::NotPacked) => json_text::check(any.value).map_err(|why| not_packed_nor_json(wrapper, why)),
    }
}

pub fn encode(value: &Value) -> Any {
    encode_json(value.to_string())
}

/// Sends on what already is JSON text.
pub fn encode_json(text: impl Into<Vec<u8>>) -> Any {
    Any { type_url: JSON_TYPE_URL.to_owned(), value: text.into() }
}

fn decode_within(any: &Any, kind: ParameterKind, budget: &mut ElementBudget) -> Result<Value, ValueError> {
    let Some(wrapper) = WrapperType::of(&any.type_url) else { return json_text::read(&any.value, budget) };
    match packed::read(wrapper, &any.value, budget) {
        Ok(Value::String(inner))
            if wrapper == WrapperType::String && kind == ParameterKind::Other && json_text::is_structured(&inner) =>
        {
            json_text::read(inner.as_bytes(), budget)
        }
        Ok(Value::String(_)) if matches!(wrapper, WrapperType::Double | WrapperType::Float) => {
            Err(ValueError::NotFinite)
        }
        Ok(value) => Ok(value),
        Err(UnpackError::Invalid(why)) => Err(why),
        Err(UnpackError::NotPacked) => {
            json_text::read(&any.value, budget).map_err(|why| not_packed_nor_json(wrapper, why))
        }
    }
}

fn not_packed_nor_json(wrapper: WrapperType, why: ValueError) -> ValueError {
    match why {
        ValueError::NotJson(reason) => ValueError::NotPackedNorJson { wrapper: wrapper.name(), reason },
        other @ (ValueError::Empty
        | ValueError::NotPackedNorJson { .. }
        | ValueError::NotFinite
        | ValueError::TooDeep
        | ValueError::TooLarge
        | ValueError::WideInteger) => other,
    }
}

/// How many more elements may be made.
#[derive(Debug)]
struct ElementBudget(usize);

impl Default for ElementBudget {
    fn default() -> Self {
        Self(MAX_ELEMENTS)
    }
}

impl ElementBudget {
    fn take(&mut self, elements: usize) -> Result<(), ValueError> {
        self.0 = self.0.checked_sub(elements).ok_or(ValueError::TooLarge)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
