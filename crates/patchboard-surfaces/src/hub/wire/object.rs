//! Reads JSON objects field by field, with JavaScript's semantics: the last of equal keys wins. Values of other keys
//! are skipped, however deep or large; unpaired surrogates are decoded as replacement characters.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The values of the named fields.
pub(in crate::hub) type JsonFields<'a, const N: usize> = [Option<JsonField<'a>>; N];

/// A raw value that is not parsed yet.
#[derive(Debug, Clone, Copy)]
pub(in crate::hub) struct JsonField<'a>(&'a RawValue);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::hub) enum JsonKind {
    Null,
    Boolean,
    Number,
    Text,
    Array,
    Object,
}

/// Parses a whole text as an object.
pub(in crate::hub) fn parse_object<'a, const N: usize>(
    text: &'a str,
    names: [&'static str; N],
) -> Result<JsonFields<'a, N>, ObjectError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let whole: &'a RawValue = serde::Deserialize::deserialize(&mut reader).map_err(ObjectError::NotJson)?;
    reader.end().map_err(ObjectError::NotJson)?;
    JsonField(whole).fields(names).ok_or(ObjectError::NotAnObject)
}

#[derive(Debug)]
pub(in crate::hub) enum ObjectError {
    NotJson(serde_json::Error),
    NotAnObject,
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson(error) => write!(f, "not JSON: {error}"),
            Self::NotAnObject => f.write_str("not a JSON object"),
        }
    }
}

impl<'a> JsonField<'a> {
    pub(in crate::hub) fn kind(self) -> JsonKind {
        match self.0.get().bytes().next() {
            Some(b'{') => JsonKind::Object,
            Some(b'[') => JsonKind::Array,
            Some(b'"') => JsonKind::Text,
            Some(b't' | b'f') => JsonKind::Boolean,
            Some(b'n') | None => JsonKind::Null,
            Some(_) => JsonKind::Number,
        }
    }

    /// `None` if the value is not an object.
    pub(in crate::hub) fn fields<const N: usize>(self, names: [&'static str; N]) -> Option<JsonFields<'a, N>> {
        if self.kind() != JsonKind::Object {
            return None;
        }
        FieldPicker(names).deserialize(&mut serde_json::Deserializer::from_str(self.0.get())).ok()
    }

    /// `None` if the value is not a string.
    pub(in crate::hub) fn text(self) -> Option<String> {
        if self.kind() != JsonKind::Text {
            return None;
        }
        LossyString.deserialize(&mut serde_json::Deserializer::from_str(self.0.get())).ok().map(Cow::into_owned)
    }

    /// `None` if the value is not an array or has more than `most` items.
    pub(in crate::hub) fn items(self, max: usize) -> Option<Vec<JsonField<'a>>> {
        if self.kind() != JsonKind::Array {
            return None;
        }
        let items: Vec<&'a RawValue> = serde_json::from_str(self.0.get()).ok()?;
        (items.len() <= max).then(|| items.into_iter().map(JsonField).collect())
    }

    /// `None` if the value is not a number or overflows to infinity.
    pub(in crate::hub) fn number(self) -> Option<f64> {
        serde_json::from_str(self.0.get()).ok()
    }

    pub(in crate::hub) fn boolean(self) -> Option<bool> {
        serde_json::from_str(self.0.get()).ok()
    }
}

/// Collects the named fields of an object.
struct FieldPicker<const N: usize>([&'static str; N]);

impl<'de, const N: usize> DeserializeSeed<'de> for FieldPicker<N> {
    type Value = JsonFields<'de, N>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for FieldPicker<N> {
    type Value = JsonFields<'de, N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = [None; N];
        while let Some(key) = map.next_key_seed(LossyString)? {
            let value: &'de RawValue = map.next_value()?;
            let index = self.0.iter().position(|name| *name == key);
            if let Some(slot) = index.and_then(|index| found.get_mut(index)) {
                *slot = Some(JsonField(value));
            }
        }
        Ok(found)
    }
}

/// Reads a string with any escapes, unpaired surrogates included.
struct LossyString;

impl<'de> DeserializeSeed<'de> for LossyString {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_bytes(self)
    }
}

impl<'de> Visitor<'de> for LossyString {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
        Ok(String::from_utf8_lossy(bytes))
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        Ok(Cow::Owned(String::from_utf8_lossy(bytes).into_owned()))
    }
}

#[cfg(test)]
mod tests;
