//! References inside a schema: which are supported, and their targets.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;

use super::keyword::subschemas;
use crate::text::clipped;

const MAX_SHOWN_BYTES: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReferenceUse {
    /// A validation takes at most as many steps as the schema has nodes times the arguments'.
    None,
    /// Parts are shared, so a validation may take far more steps than the schema has nodes.
    Within,
}

/// Visits everything reachable from the root schema. Fails with the first unsupported reference.
pub(super) fn references(root: &Value) -> Result<ReferenceUse, String> {
    let mut found = ReferenceUse::None;
    let mut has_own_base = false;
    let mut seen = HashSet::new();
    let mut pending = vec![root];
    while let Some(schema) = pending.pop() {
        if !seen.insert(std::ptr::from_ref(schema)) {
            continue;
        }
        has_own_base |= !std::ptr::eq(schema, root) && schema.get("$id").is_some_and(Value::is_string);
        for keyword in ["$dynamicRef", "$recursiveRef"] {
            if schema.get(keyword).is_some_and(Value::is_string) {
                return Err(format!("uses `{keyword}`, which is not supported"));
            }
        }
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            found = ReferenceUse::Within;
            pending.push(
                target(root, reference).map_err(|reason| {
                    format!("refers to `{}`, which {reason}", clipped(&reference, MAX_SHOWN_BYTES))
                })?,
            );
        }
        pending.extend(subschemas(schema).map(|(_, subschema)| subschema));
    }
    if has_own_base && found == ReferenceUse::Within {
        return Err("has parts with an `$id` of their own, which is not supported beside `$ref`".to_owned());
    }
    Ok(found)
}

/// The target of `#` or `#/…`.
pub(super) fn target<'a>(root: &'a Value, reference: &str) -> Result<&'a Value, &'static str> {
    let Some(fragment) = reference.strip_prefix('#') else { return Err("is not fetched") };
    if !fragment.is_empty() && !fragment.starts_with('/') {
        return Err("is not a path: only `#` and `#/…` are supported");
    }
    root.pointer(&percent_decoded(fragment)).ok_or("does not exist")
}

fn percent_decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let escaped = others.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = others.get(2..).unwrap_or_default();
            }
            Some(_) | None => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}
