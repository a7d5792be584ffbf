//! Values that are packed protobuf wrappers, read strictly: what no encoder would have written is not packed.
//! That is also how JSON text under a wrapper's type URL is told apart.

use serde_json::{Map, Number, Value};

use super::wire::{Reader, Wire};
use super::{Budget, MAX_DEPTH, ValueError};

/// Larger ones are not exact in a double, so nothing says they were meant as integers.
const EXACT_INTEGERS: f64 = 9_007_199_254_740_992.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrapper {
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

/// Why there is no value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Miss {
    NotPacked,
    /// It is packed and cannot be taken.
    Refused(ValueError),
}

impl From<ValueError> for Miss {
    fn from(why: ValueError) -> Self {
        Self::Refused(why)
    }
}

impl Wrapper {
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

    /// The last piece of the type URL decides.
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

    /// What an encoder writes no bytes for.
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

pub(super) fn read(wrapper: Wrapper, bytes: &[u8], budget: &mut Budget) -> Result<Value, Miss> {
    if bytes.is_empty() {
        return Ok(wrapper.default_value());
    }
    match wrapper {
        Wrapper::Struct => read_struct(bytes, 1, budget),
        Wrapper::Value => read_value(bytes, 0, budget),
        Wrapper::List => read_list(bytes, 1, budget),
        Wrapper::Double
        | Wrapper::Float
        | Wrapper::Int32
        | Wrapper::Int64
        | Wrapper::UInt32
        | Wrapper::UInt64
        | Wrapper::Bool
        | Wrapper::String
        | Wrapper::Bytes => read_scalar(wrapper, bytes).ok_or(Miss::NotPacked),
    }
}

/// Field 1 and nothing else. Defaults are not written, so a written default is no encoder's work.
fn read_scalar(wrapper: Wrapper, bytes: &[u8]) -> Option<Value> {
    let mut reader = Reader(bytes);
    let key = reader.key()?;
    let value = match (wrapper, key) {
        (Wrapper::Double, (1, Wire::Fixed64)) => {
            let bits = reader.fixed64()?;
            (bits != 0).then(|| number(f64::from_bits(bits)))?
        }
        (Wrapper::Float, (1, Wire::Fixed32)) => {
            let bits = reader.fixed32()?;
            (bits != 0).then(|| single(f32::from_bits(bits)))?
        }
        // Negative ones are written with 64 bits.
        (Wrapper::Int32, (1, Wire::Varint)) => i32::try_from(reader.signed()?).ok().filter(|one| *one != 0)?.into(),
        (Wrapper::Int64, (1, Wire::Varint)) => reader.signed().filter(|one| *one != 0)?.into(),
        (Wrapper::UInt32, (1, Wire::Varint)) => u32::try_from(reader.varint()?).ok().filter(|one| *one != 0)?.into(),
        (Wrapper::UInt64, (1, Wire::Varint)) => reader.varint().filter(|one| *one != 0)?.into(),
        (Wrapper::Bool, (1, Wire::Varint)) => reader.varint().filter(|one| *one == 1).map(|_| true)?.into(),
        (Wrapper::String, (1, Wire::Bytes)) => reader.text().filter(|text| !text.is_empty())?.into(),
        (Wrapper::Bytes, (1, Wire::Bytes)) => base64(reader.bytes().filter(|bytes| !bytes.is_empty())?).into(),
        _ => return None,
    };
    reader.is_done().then_some(value)
}

/// `Value`: exactly one of its kinds, or none, which is null.
fn read_value(bytes: &[u8], depth: usize, budget: &mut Budget) -> Result<Value, Miss> {
    budget.take(1)?;
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let mut reader = Reader(bytes);
    let key = reader.key().ok_or(Miss::NotPacked)?;
    let value = match key {
        (1, Wire::Varint) => reader.varint().filter(|one| *one == 0).map(|_| Value::Null),
        (2, Wire::Fixed64) => reader.fixed64().map(|bits| number_of_struct(f64::from_bits(bits))),
        (3, Wire::Bytes) => reader.text().map(Value::from),
        (4, Wire::Varint) => reader.varint().filter(|one| *one <= 1).map(|one| Value::from(one == 1)),
        (5, Wire::Bytes) => match reader.bytes() {
            Some(inner) => Some(read_struct(inner, depth + 1, budget)?),
            None => None,
        },
        (6, Wire::Bytes) => match reader.bytes() {
            Some(inner) => Some(read_list(inner, depth + 1, budget)?),
            None => None,
        },
        _ => None,
    };
    value.filter(|_| reader.is_done()).ok_or(Miss::NotPacked)
}

/// `Struct`: entries of a map in any order, each key once.
fn read_struct(bytes: &[u8], depth: usize, budget: &mut Budget) -> Result<Value, Miss> {
    let mut fields = Map::new();
    for entry in elements(bytes, depth)? {
        let mut reader = Reader(entry?);
        let mut name = "";
        let mut value: &[u8] = &[];
        let mut key = next_key(&mut reader)?;
        if key == Some((1, Wire::Bytes)) {
            name = reader.text().ok_or(Miss::NotPacked)?;
            key = next_key(&mut reader)?;
        }
        if key == Some((2, Wire::Bytes)) {
            value = reader.bytes().ok_or(Miss::NotPacked)?;
            key = next_key(&mut reader)?;
        }
        let value = read_value(value, depth, budget)?;
        if key.is_some() || fields.insert(name.to_owned(), value).is_some() {
            return Err(Miss::NotPacked);
        }
    }
    Ok(fields.into())
}

fn read_list(bytes: &[u8], depth: usize, budget: &mut Budget) -> Result<Value, Miss> {
    elements(bytes, depth)?.map(|element| read_value(element?, depth, budget)).collect()
}

/// The contents of a message that has a repeated field 1 of messages and no other.
fn elements(bytes: &[u8], depth: usize) -> Result<impl Iterator<Item = Result<&[u8], Miss>>, ValueError> {
    if depth > MAX_DEPTH {
        return Err(ValueError::TooDeep);
    }
    let mut reader = Reader(bytes);
    Ok(std::iter::from_fn(move || {
        if reader.is_done() {
            return None;
        }
        let key = reader.key();
        let element = (key == Some((1, Wire::Bytes))).then(|| reader.bytes()).flatten();
        Some(element.ok_or(Miss::NotPacked))
    }))
}

/// `None` at the end.
fn next_key(reader: &mut Reader<'_>) -> Result<Option<(u64, Wire)>, Miss> {
    if reader.is_done() { Ok(None) } else { reader.key().map(Some).ok_or(Miss::NotPacked) }
}

fn number(value: f64) -> Value {
    match Number::from_f64(value) {
        Some(number) => number.into(),
        None if value.is_nan() => "NaN".into(),
        None if value > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

/// A `Struct` has no integers; what can be one was one before it was packed.
fn number_of_struct(value: f64) -> Value {
    let is_integer =
        value.fract() == 0.0 && value.abs() <= EXACT_INTEGERS && !(value == 0.0 && value.is_sign_negative());
    if is_integer { Value::from(value as i64) } else { number(value) }
}

/// `0.7` rather than the `0.699999988079071` that is nearest to it: the digits its sender would see.
fn single(value: f32) -> Value {
    number(value.to_string().parse().unwrap_or(f64::from(value)))
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
