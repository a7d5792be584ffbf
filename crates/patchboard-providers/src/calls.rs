//! Tool calls between board and dialect: ids, arguments, schemas. The rules are the same for every dialect.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use patchboard_core::id::CallId;
use patchboard_core::model::{ContentPart, ModelError, ModelRequest, ToolInput};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// Limits of one response: calls, and bytes of arguments; exceeding them fails the response.
pub(crate) const MAX_CALLS: usize = 128;
pub(crate) const MAX_ARGUMENT_BYTES: usize = 8 * 1024 * 1024;

/// Numbers the calls of a request in order. Ids of nine letters and digits are the only form that every API accepts,
/// and numbering keeps a repeated prefix byte-identical, which prompt caches need.
#[derive(Debug, Default)]
pub(crate) struct CallNumbers<'a>(HashMap<&'a CallId, usize>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WireCallId(usize);

impl<'a> CallNumbers<'a> {
    pub(crate) fn of(request: &'a ModelRequest) -> Self {
        let mut numbers = HashMap::new();
        for part in request.messages.iter().flat_map(|message| &message.parts) {
            let id = match part {
                ContentPart::ToolCall(call) => &call.id,
                ContentPart::ToolResult(result) => &result.call,
                ContentPart::Text(_) => continue,
            };
            let next = numbers.len() + 1;
            numbers.entry(id).or_insert(next);
        }
        Self(numbers)
    }

    pub(crate) fn wire_id(&self, id: &CallId) -> WireCallId {
        WireCallId(self.0.get(id).copied().unwrap_or_default())
    }
}

impl Serialize for WireCallId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("call{:05}", self.0))
    }
}

/// Arguments of a past call, always as an object: APIs refuse anything else, and the model should see its mistake.
#[derive(Debug)]
pub(crate) struct PastInput<'a>(pub(crate) &'a ToolInput);

impl Serialize for PastInput<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let malformed = match self.0 {
            ToolInput::Json(value) if value.is_object() => return value.serialize(serializer),
            ToolInput::Json(value) => Cow::Owned(value.to_string()),
            ToolInput::Malformed(text) => Cow::Borrowed(text.as_ref()),
        };
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("malformed_arguments", &malformed)?;
        map.end()
    }
}

/// A tool's schema with the two keys that APIs require, `type` and `properties`.
#[derive(Debug)]
pub(crate) struct ObjectSchema<'a>(pub(crate) &'a Value);

impl Serialize for ObjectSchema<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let empty = Map::new();
        let schema = self.0.as_object().unwrap_or(&empty);
        let mut map = serializer.serialize_map(None)?;
        if !schema.contains_key("type") {
            map.serialize_entry("type", "object")?;
        }
        for (key, value) in schema {
            map.serialize_entry(key, value)?;
        }
        if !schema.contains_key("properties") {
            map.serialize_entry("properties", &empty)?;
        }
        map.end()
    }
}

/// Parses the arguments of a call. Some models send nothing, or `null`, for a tool without arguments.
pub(crate) fn parse_arguments(text: &str) -> ToolInput {
    if text.trim().is_empty() {
        return ToolInput::Json(Arc::new(Value::Object(Map::new())));
    }
    match serde_json::from_str(text) {
        Ok(Value::Null) => ToolInput::Json(Arc::new(Value::Object(Map::new()))),
        Ok(Value::String(inner)) => match serde_json::from_str(&inner) {
            // Some servers encode the arguments twice.
            Ok(object @ Value::Object(_)) => ToolInput::Json(Arc::new(object)),
            Ok(_) | Err(_) => ToolInput::Json(Arc::new(Value::String(inner))),
        },
        Ok(value) => ToolInput::Json(Arc::new(value)),
        Err(_) => ToolInput::Malformed(text.into()),
    }
}

/// Enforces the limits on a response's calls.
#[derive(Debug, Default)]
pub(crate) struct CallLimit {
    calls: usize,
    argument_bytes: usize,
}

impl CallLimit {
    pub(crate) fn add_call(&mut self) -> Result<(), ModelError> {
        self.calls += 1;
        if self.calls > MAX_CALLS {
            return Err(ModelError::Rejected(format!("provider asked for more than {MAX_CALLS} tool calls at once")));
        }
        Ok(())
    }

    pub(crate) fn add_arguments(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.argument_bytes = self.argument_bytes.saturating_add(bytes);
        if self.argument_bytes > MAX_ARGUMENT_BYTES {
            return Err(ModelError::Rejected("provider sent too large tool arguments".to_owned()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
