//! Generates the JSON schema of `patchboard.toml` from the section types.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::Config;

/// The schema, without references so that consumers need not resolve any.
pub fn schema() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<Config>().to_value();
    normalize(&mut schema);
    sort_keys(schema)
}

/// The schema as committed in `patchboard.schema.json`.
pub fn schema_text() -> String {
    // Alternate formatting of a JSON value is pretty-printed and cannot fail.
    format!("{:#}\n", schema())
}

/// Simplifies the generated schema: TOML has no null, so an optional key is one that is not required.
fn normalize(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(normalize),
        Value::Object(map) => {
            unwrap_optional(map);
            if let Some(Value::Array(types)) = map.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    map.insert("type".to_owned(), only);
                }
            }
            match map.get_mut("default") {
                Some(Value::Null) => {
                    map.remove("default");
                }
                Some(default) => drop_nulls(default),
                None => {}
            }
            if let Some(Value::String(format)) = map.remove("format")
                && format == "uint32"
                && !map.contains_key("maximum")
            {
                map.insert("maximum".to_owned(), json!(u32::MAX));
            }
            if let Some(Value::String(description)) = map.get_mut("description") {
                *description = description.replace('\n', " ");
            }
            drop_defaults_of_required(map);
            for (key, value) in map.iter_mut() {
                match (key.as_str(), value) {
                    // The keys of `properties` are names of settings, not schema keywords.
                    ("properties", Value::Object(properties)) => {
                        properties.values_mut().for_each(normalize);
                    }
                    (_, value) => normalize(value),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn drop_nulls(value: &mut Value) {
    if let Value::Object(map) = value {
        map.retain(|_, value| !value.is_null());
        map.values_mut().for_each(drop_nulls);
    }
}

/// Replaces `anyOf: [X, null]` by X; keys beside it take precedence.
fn unwrap_optional(map: &mut Map<String, Value>) {
    let Some(Value::Array(options)) = map.get("anyOf") else {
        return;
    };
    let mut present = options.iter().filter(|option| option.get("type") != Some(&json!("null")));
    if let (Some(Value::Object(only)), None) = (present.next(), present.next()) {
        let only = only.clone();
        map.remove("anyOf");
        for (key, value) in only {
            map.entry(key).or_insert(value);
        }
    }
}

/// A required key has no default, although its Rust type needs one.
fn drop_defaults_of_required(map: &mut Map<String, Value>) {
    let Some(Value::Array(required)) = map.get("required").cloned() else {
        return;
    };
    let Some(Value::Object(properties)) = map.get_mut("properties") else {
        return;
    };
    for name in required.iter().filter_map(Value::as_str) {
        if let Some(Value::Object(property)) = properties.get_mut(name) {
            property.remove("default");
        }
    }
}

/// Sorts keys, independent of the order in the JSON library.
fn sort_keys(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(sort_keys).collect()),
        Value::Object(map) => {
            let mut entries: Vec<(String, Value)> = map.into_iter().collect();
            entries.sort_by(|one, two| one.0.cmp(&two.0));
            Value::Object(entries.into_iter().map(|(key, value)| (key, sort_keys(value))).collect())
        }
        scalar @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => scalar,
    }
}
