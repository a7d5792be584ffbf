//! Sanitises validation rules from clients. An invalid rule would make the whole schema unusable, so invalid rules are
//! dropped.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "array", "object", "null"];

/// Keeps the JSON Schema keywords that are well-formed. References are dropped: they would point into a schema that
/// does not exist here.
pub(super) fn sanitize(rules: Map<String, Value>) -> Map<String, Value> {
    rules.into_iter().filter_map(|(rule, value)| sanitize_rule(&rule, value).map(|value| (rule, value))).collect()
}

fn sanitize_rule(rule: &str, value: Value) -> Option<Value> {
    match rule {
        "type" => is_type(&value).then_some(value),
        "const" | "default" => Some(value),
        "examples" => value.is_array().then_some(value),
        "enum" => value.as_array().is_some_and(|choices| !choices.is_empty()).then_some(value),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number().then_some(value),
        "multipleOf" => value.as_f64().is_some_and(|step| step > 0.0).then_some(value),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            value.is_u64().then_some(value)
        }
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => value.is_boolean().then_some(value),
        "title" | "description" | "format" | "pattern" => value.is_string().then_some(value),
        "required" => is_names(&value).then_some(value),
        "items" | "contains" | "additionalProperties" | "propertyNames" => sanitize_schema(value),
        "properties" => {
            let Value::Object(named) = value else { return None };
            let named = named.into_iter().map(|(name, schema)| sanitize_schema(schema).map(|schema| (name, schema)));
            named.collect::<Option<Map<_, _>>>().map(Value::from)
        }
        "anyOf" | "allOf" | "prefixItems" => {
            let Value::Array(schemas) = value else { return None };
            let sound: Option<Vec<_>> = schemas.into_iter().map(sanitize_schema).collect();
            sound.filter(|schemas| !schemas.is_empty()).map(Value::from)
        }
        // Dropping a part of these would make them stricter, so they are kept unchanged or dropped.
        "not" => (sanitize_schema(value.clone()).as_ref() == Some(&value)).then_some(value),
        "oneOf" => {
            let schemas = value.as_array().filter(|schemas| !schemas.is_empty())?;
            schemas.iter().all(|one| sanitize_schema(one.clone()).as_ref() == Some(one)).then_some(value)
        }
        _ => None,
    }
}

fn sanitize_schema(schema: Value) -> Option<Value> {
    if let Value::Object(rules) = schema {
        return Some(sanitize(rules).into());
    }
    schema.is_boolean().then_some(schema)
}

fn is_type(value: &Value) -> bool {
    let is_known = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    match value.as_array() {
        Some(names) => !names.is_empty() && is_names(value) && names.iter().all(is_known),
        None => is_known(value),
    }
}

/// Distinct strings.
fn is_names(value: &Value) -> bool {
    value.as_array().is_some_and(|names| {
        let mut seen = BTreeSet::new();
        names.iter().all(|name| name.as_str().is_some_and(|name| seen.insert(name)))
    })
}
