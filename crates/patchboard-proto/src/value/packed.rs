//! Decodes packed protobuf wrappers strictly: bytes that no encoder would write are not packed. This distinguishes JSON
//! text under a wrapper's type URL.

use serde_json::{Map, Number, Value};

use super::wire::{WireReader, WireType};
use super::{ElementBudget, MAX_DEPTH, ValueError};

/// Larger values are not exact in a double, so they cannot be assumed to be integers.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WrapperType {
    Double,
    Float,
    Int32,
    Int64,
    UInt32,
    UInt64,
    Bool,
    String,
    Bytes,
    Struct,
    Value,
    List,
}

/// Why a value was not decoded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum UnpackError {
    NotPacked,
    /// Packed, but not acceptable.
    Invalid(ValueError),
}

impl From<ValueError> for UnpackError {
    fn from(why: ValueError) -> Self {
        Self::Invalid(why)
    }
}

impl WrapperType {
    const ALL: [Self; 12] = [
        Self::Double,
        Self::Float,
        Self::Int32,
        Self::Int64,
        Self::UInt32,
        Self::UInt64,
        Self::Bool,
        Self::String,
        Self::Bytes,
        Self::Struct,
        Self::Value,
        Self::List,
    ];

    /// Determined by the last segment of the type URL.
    pub(super) fn of(type_url: &str) -> Option<Self> {
        let name = type_url.rsplit('/').next()?.strip_prefix("google.protobuf.")?;
        Self::ALL.into_iter().find(|wrapper| wrapper.name() == name)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Double => "DoubleValue",
            Self::Float => "FloatValue",
            Self::Int32 => "Int32Value",
            Self::Int64 => "Int64Value",
            Self::UInt32 => "UInt32Value",
            Self::UInt64 => "UInt64Value",
            Self::Bool => "BoolValue",
            Self::String => "StringValue",
            Self::Bytes => "BytesValue",
            Self::Struct => "Struct",
            Self::Value => "Value",
            Self::List => "ListValue",
        }
    }

    /// The value that encoders represent by no bytes.
    fn default_value(self) -> Value {
        match self {
            Self::Double | Self::Float => 0.0.into(),
            Self::Int32 | Self::Int64 | Self::UInt32 | Self::UInt64 => 0.into(),
            Self::Bool => false.into(),
            Self::String | Self::Bytes => "".into(),
            Self::Struct => Map::new().into(),
            Self::Value => Value::Null,
            Self::List => Value::Array(Vec::new()),
        }
    }
}

pub(super) fn read(wrapper: WrapperType, bytes: &[u8], budget: &mut ElementBudget) -> Result<Value, UnpackError> {
    if bytes.is_empty() {
        return Ok(wrapper.default_value());
    }
    match wrapper {
        WrapperType::Struct => read_struct(bytes, 1, budget),
        WrapperType::Value => read_value(bytes, 0, budget),
        WrapperType::List => read_list(bytes, 1, budget),
        WrapperType::Double
        | WrapperType::Float
        | WrapperType::Int32
        | WrapperType::Int64
        | WrapperType::UInt32
        | WrapperType::UInt64
        | WrapperType::Bool
        | WrapperType::String
        | WrapperType::Bytes => read_scalar(wrapper, bytes).ok_or(UnpackError::NotPacked),
    }
}

/// Reads field 1 and nothing else. Encoders omit default values, so an explicit default is not packed.
fn read_scalar(wrapper: WrapperType, bytes: &[u8]) -> Option<Value> {
    let mut reader = WireReader(bytes);
    let key = reader.key()?;
    let value = match (wrapper, key) {
        (WrapperType::Double, (1, WireType::Fixed64)) => {
            let bits = reader.fixed64()?;
            (bits != 0).then(|| json_number(f64::from_bits(bits)))?
        }
        (WrapperType::Float, (1, WireType::Fixed32)) => {
            let bits = reader.fixed32()?;
            (bits != 0).then(|| json_single(f32::from_bits(bits)))?
        }
        // Negative values are encoded with 64 bits.
        (WrapperType::Int32, (1, WireType::Varint)) => {
            i32::try_from(reader.signed()?).ok().filter(|one| *one != 0)?.into()
        }
        (WrapperType::Int64, (1, WireType::Varint)) => reader.signed().filter(|one| *one != 0)?.into(),
        (WrapperType::UInt32, (1, WireType::Varint)) => {
            u32::try_from(reader.varint()?).ok().filter(|one| *one != 0)?.into()
        }
        (WrapperType::UInt64, (1, WireType::Varint)) => reader.varint().filter(|one| *one != 0)?.into(),
        (WrapperType::Bool, (1, WireType::Varint)) => reader.varint().filter(|one| *one == 1).map(|_| true)?.into(),
        (WrapperType::String, (1, WireType::Bytes)) => reader.text().filter(|text| !text.is_empty())?.into(),
        (WrapperType::Bytes, (1, WireType::Bytes)) => base64(reader.bytes().filter(|bytes| !bytes.is_empty())?).into(),
        _ => return None,
    };
    reader.is_done().then_some(value)
}

/// Reads a `Value`: exactly one kind, or none, which is null.
fn read_value(bytes: &[u8], depth: usize, budget: &mut ElementBudget) -> Result<Value, UnpackError> {
    budget.take(1)?;
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let mut reader = WireReader(bytes);
    let key = reader.key().ok_or(UnpackError::NotPacked)?;
    let value = match key {
        (1, WireType::Varint) => reader.varint().filter(|one| *one == 0).map(|_| Value::Null),
        (2, WireType::Fixed64) => reader.fixed64().map(|bits| json_struct_number(f64::from_bits(bits))),
        (3, WireType::Bytes) => reader.text().map(Value::from),
        (4, WireType::Varint) => reader.varint().filter(|one| *one <= 1).map(|one| Value::from(one == 1)),
        (5, WireType::Bytes) => match reader.bytes() {
            Some(inner) => Some(read_struct(inner, depth + 1, budget)?),
            None => None,
        },
        (6, WireType::Bytes) => match reader.bytes() {
            Some(inner) => Some(read_list(inner, depth + 1, budget)?),
            None => None,
        },
        _ => None,
    };
    value.filter(|_| reader.is_done()).ok_or(UnpackError::NotPacked)
}

/// Reads a `Struct`: map entries in any order, with distinct keys.
fn read_struct(bytes: &[u8], depth: usize, budget: &mut ElementBudget) -> Result<Value, UnpackError> {
    let mut fields = Map::new();
    for entry in elements(bytes, depth)? {
        let mut reader = WireReader(entry?);
        let mut name = "";
        let mut value: &[u8] = &[];
        let mut key = next_key(&mut reader)?;
        if key == Some((1, WireType::Bytes)) {
            name = reader.text().ok_or(UnpackError::NotPacked)?;
            key = next_key(&mut reader)?;
        }
        if key == Some((2, WireType::Bytes)) {
            value = reader.bytes().ok_or(UnpackError::NotPacked)?;
            key = next_key(&mut reader)?;
        }
        let value = read_value(value, depth, budget)?;
        if key.is_some() || fields.insert(name.to_owned(), value).is_some() {
            return Err(UnpackError::NotPacked);
        }
    }
    Ok(fields.into())
}

fn read_list(bytes: &[u8], depth: usize, budget: &mut ElementBudget) -> Result<Value, UnpackError> {
    elements(bytes, depth)?.map(|element| read_value(element?, depth, budget)).collect()
}

/// The elements of a message whose only field is a repeated field 1 of messages.
fn elements(bytes: &[u8], depth: usize) -> Result<impl Iterator<Item = Result<&[u8], UnpackError>>, ValueError> {
    if depth > MAX_DEPTH {
        return Err(ValueError::TooDeep);
    }
    let mut reader = WireReader(bytes);
    Ok(std::iter::from_fn(move || {
        if reader.is_done() {
            return None;
        }
        let key = reader.key();
        let element = (key == Some((1, WireType::Bytes))).then(|| reader.bytes()).flatten();
        Some(element.ok_or(UnpackError::NotPacked))
    }))
}

/// The next key; `None` at the end of the message.
fn next_key(reader: &mut WireReader<'_>) -> Result<Option<(u64, WireType)>, UnpackError> {
    if reader.is_done() { Ok(None) } else { reader.key().map(Some).ok_or(UnpackError::NotPacked) }
}

fn json_number(value: f64) -> Value {
    match Number::from_f64(value) {
        Some(number) => number.into(),
        None if value.is_nan() => "NaN".into(),
        None if value > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

/// `Struct` has only doubles; an integral value is assumed to have been an integer.
fn json_struct_number(value: f64) -> Value {
    let is_integer =
        value.fract() == 0.0 && value.abs() <= MAX_EXACT_INTEGER && !(value == 0.0 && value.is_sign_negative());
    if is_integer { Value::from(value as i64) } else { json_number(value) }
}

/// Converts through the shortest decimal text: `0.7` instead of `0.699999988079071`, as the sender would print it.
fn json_single(value: f32) -> Value {
    json_number(value.to_string().parse().unwrap_or(f64::from(value)))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for position in 0..4 {
            let letter = LETTERS.get((bits >> (18 - 6 * position) & 63) as usize).copied().unwrap_or_default();
            text.push(if position <= group.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests;
