//! Converts a bridge `Any` to JSON and back. The only module that knows its callers' two conventions: packed protobuf
//! wrappers, and JSON text under any type URL.
//!
//! A value counts as packed only if it is byte for byte what an encoder writes; everything else is parsed as JSON.
//! Numbers without a JSON form are refused in parameters and become the strings `NaN`, `Infinity` and `-Infinity` in
//! results. Bytes become base64, as in protobuf's JSON mapping; unlike there, 64-bit integers stay numbers.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost_types::Any;
use serde_json::{Map, Value};

mod json_text;
mod packed;
mod wire;

pub use crate::parameter_type::ParameterKind;
use packed::{UnpackError, WrapperType};

/// The type URL of all values that are sent.
pub const JSON_TYPE_URL: &str = "type.snakepit.bridge/json";

/// serde's default recursion limit, so that every value accepted here can be read by other serde readers.
pub const MAX_DEPTH: usize = 127;

/// Limit for all parameters of one call together, because a few bytes of text can take a hundred in memory. Larger
/// lists of numbers must be sent as binary parameters.
pub const MAX_ELEMENTS: usize = 1_000_000;

/// Why a value cannot be decoded; the text follows `Invalid parameter NAME: `.
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

/// A parameter that cannot be decoded; the tool was not executed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid parameter {}: {why}", clipped(.name))]
pub struct InvalidParameter {
    pub name: String,
    pub why: ValueError,
}

/// Bounds a client's name for use in an error message.
fn clipped(name: &str) -> &str {
    const MAX: usize = 128;
    name.get(..name.floor_char_boundary(MAX)).unwrap_or(name)
}

/// Decodes one value to JSON.
pub fn decode(any: &Any, kind: ParameterKind) -> Result<Value, ValueError> {
    decode_within(any, kind, &mut ElementBudget::default())
}

/// Decodes all parameters of a call to one JSON object.
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

/// Converts one value to JSON text. JSON text from the sender is passed on unchanged, so that no number loses a digit.
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

/// Wraps existing JSON text.
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

/// The remaining number of elements that may be created.
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
