//! Limits on the size of schemas and the depth of values. The validator compiles and checks recursively, so the depth
//! limit keeps a third-party schema from overflowing the stack.

use serde_json::Value;

/// Includes a few bytes per node. Real schemas are about a hundred times smaller.
const MAX_SCHEMA_BYTES: usize = 256 * 1024;
const NODE_BYTES: usize = 16;
const MAX_SCHEMA_DEPTH: usize = 64;
/// Each pattern may take `MAX_PATTERN_BYTES` of memory and some time to compile.
const MAX_PATTERNS: usize = 64;
pub(super) const MAX_ARGUMENTS_DEPTH: usize = 128;

pub(super) fn is_usable_schema(schema: &Value) -> bool {
    let (mut bytes, mut patterns) = (0, 0);
    walk(schema, |value, depth| {
        bytes += NODE_BYTES;
        match value {
            Value::String(text) => bytes += text.len(),
            Value::Object(members) => {
                bytes += members.keys().map(String::len).sum::<usize>();
                patterns += usize::from(members.get("pattern").is_some_and(Value::is_string));
                patterns += members
                    .get("patternProperties")
                    .and_then(Value::as_object)
                    .map_or(0, |patterns_map| patterns_map.len());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {}
        }
        depth <= MAX_SCHEMA_DEPTH && bytes <= MAX_SCHEMA_BYTES && patterns <= MAX_PATTERNS
    })
}

/// Number of nodes in the arguments; `None` if they are too deep.
pub(super) fn size_of_arguments(arguments: &Value) -> Option<u64> {
    let mut nodes = 0;
    let is_shallow = walk(arguments, |_, depth| {
        nodes += 1;
        depth <= MAX_ARGUMENTS_DEPTH
    });
    is_shallow.then_some(nodes)
}

/// Visits every node with its depth until `accept` returns false; returns true if it never does.
fn walk(value: &Value, mut accept: impl FnMut(&Value, usize) -> bool) -> bool {
    let mut pending = vec![(value, 1)];
    while let Some((value, depth)) = pending.pop() {
        if !accept(value, depth) {
            return false;
        }
        match value {
            Value::Array(items) => pending.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(members) => pending.extend(members.values().map(|member| (member, depth + 1))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    true
}
