//! Converts a tool's parameters to JSON Schema and back. Bridge clients describe each parameter separately, with their
//! own type names; the rest of the product validates arguments against one schema.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::parameter_type::{ParameterKind, is_any, is_binary, json_type};
use crate::pb::ParameterSpec;
use crate::value;

mod rules;

/// Longer rules are ignored: they come from clients and stay in memory as long as the tool.
const MAX_RULES_BYTES: usize = 64 * 1024;

/// Python's `inspect` name for `**kwargs`: a parameter that stands for all others.
const CATCH_ALL: &str = "kwargs";

/// The JSON Schema of a tool's arguments; binary parameters are not part of it.
pub fn schema_of(parameters: &[ParameterSpec]) -> Value {
    let takes_anything = |one: &ParameterSpec| one.name == CATCH_ALL && one.required && is_any(&one.r#type);
    // A tool without declared parameters accepts any.
    if parameters.is_empty() {
        return json!({"type": "object", "properties": {}});
    }
    if let [only] = parameters
        && takes_anything(only)
    {
        return json!({"type": "object"});
    }
    // Beside named parameters, the catch-all is optional.
    let (catch_all, named): (Vec<_>, Vec<_>) = parameters.iter().partition(|one| takes_anything(one));
    let properties = named.iter().map(|one| (one.name.clone(), property_of(one)));
    let properties: Map<String, Value> = properties.collect();
    // Binary values are sent beside the JSON arguments, so they cannot be required here.
    let required = named.iter().filter(|one| one.required && !is_binary(&one.r#type));
    let required: BTreeSet<&str> = required.map(|one| one.name.as_str()).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": !catch_all.is_empty(),
    })
}

/// Converts a schema's properties to parameters, for bridge clients.
pub fn parameters_of(schema: &Value) -> Vec<ParameterSpec> {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties
        .map(|(name, property)| {
            let described = resolve_reference(schema, property);
            ParameterSpec {
                name: name.clone(),
                r#type: type_of(described).to_owned(),
                description: property["description"]
                    .as_str()
                    .or(described["description"].as_str())
                    .unwrap_or_default()
                    .to_owned(),
                required: required.contains(&name.as_str()),
                default_value: described.get("default").map(value::encode),
                validation_json: validation_rules(described),
            }
        })
        .collect()
}

fn property_of(parameter: &ParameterSpec) -> Value {
    let mut property = Map::new();
    if let Some(name) = json_type(&parameter.r#type) {
        property.insert("type".to_owned(), name.into());
    }
    if !parameter.description.is_empty() {
        property.insert("description".to_owned(), parameter.description.as_str().into());
    }
    let kind = ParameterKind::of(&parameter.r#type);
    if let Some(default) = parameter.default_value.as_ref().and_then(|any| value::decode(any, kind).ok()) {
        // An omitted parameter defaults to null, so an explicit null is allowed too.
        if default.is_null()
            && let Some(name) = json_type(&parameter.r#type).filter(|name| *name != "null")
        {
            property.insert("type".to_owned(), json!([name, "null"]));
        }
        property.insert("default".to_owned(), default);
    }
    if parameter.validation_json.len() <= MAX_RULES_BYTES
        && let Ok(Value::Object(wanted)) = serde_json::from_str(&parameter.validation_json)
    {
        property.extend(rules::sanitize(wanted));
    }
    property.into()
}

/// Resolves one reference within the schema; an unresolvable one stays as it is.
fn resolve_reference<'a>(schema: &'a Value, property: &'a Value) -> &'a Value {
    let pointer = property["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    pointer.and_then(|pointer| schema.pointer(pointer)).unwrap_or(property)
}

/// The type name that bridge clients use.
fn type_of(property: &Value) -> &'static str {
    match property["type"].as_str() {
        Some("string") => "string",
        Some("integer") => "integer",
        Some("number") => "float",
        Some("boolean") => "boolean",
        Some("array") => "list",
        Some("object") => "map",
        _ => "any",
    }
}

/// The JSON Schema keywords that `ParameterSpec` has no field for.
fn validation_rules(property: &Value) -> String {
    let mut rules = property.as_object().cloned().unwrap_or_default();
    rules.retain(|rule, _| !matches!(rule.as_str(), "description" | "default" | "title" | "$ref"));
    if type_of(property) != "any" {
        rules.remove("type");
    }
    if rules.is_empty() { String::new() } else { Value::Object(rules).to_string() }
}

#[cfg(test)]
mod tests;
