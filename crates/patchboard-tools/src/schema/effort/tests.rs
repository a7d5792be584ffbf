use serde_json::json;

use super::super::bounds::size_of_arguments;
use super::*;

fn check(name: &str, schema: &Value, arguments: &Value, expected: Effort) {
    let size = size_of_arguments(arguments).unwrap();
    assert_eq!(effort(schema, arguments, size), expected, "{name}");
}

/// `levels` alternatives, each of which tries the next level twice.
fn doubling(levels: usize) -> Value {
    let mut definitions = serde_json::Map::new();
    for level in 0..levels {
        let next = format!("#/$defs/{}", level + 1);
        definitions.insert(level.to_string(), json!({"anyOf": [{"$ref": next}, {"$ref": next}]}));
    }
    definitions.insert(levels.to_string(), json!(false));
    json!({"$defs": definitions, "$ref": "#/$defs/0"})
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!({}), |inner, _| json!({"next": inner}))
}

#[test]
fn weighs_before_checking() {
    let list = json!({"properties": {"next": {"$ref": "#"}}, "additionalProperties": false});
    let twice = json!({"anyOf": [{"properties": {"next": {"$ref": "#"}}}, {"properties": {"next": {"$ref": "#"}}}]});
    let named = json!({"$defs": {"name": {"maxLength": 9}}, "propertyNames": {"$ref": "#/$defs/name"}});
    let rows = json!({"$defs": {"row": {"items": {"type": "integer"}}}, "items": {"$ref": "#/$defs/row"}});
    let endless = json!({"allOf": [{"$ref": "#"}]});
    let ping_pong = json!({
        "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"not": {"$ref": "#/$defs/a"}}},
        "$ref": "#/$defs/a"
    });
    let cases = [
        ("few alternatives", doubling(10), json!({}), Effort::Fine),
        ("exponentially many alternatives", doubling(40), json!({}), Effort::TooMuch),
        ("a chain deeper than the stack", doubling(300), json!({}), Effort::TooMuch),
        ("a recursive list", list, nested(100), Effort::Fine),
        ("alternatives doubling with depth, shallow", twice.clone(), nested(8), Effort::Fine),
        ("alternatives doubling with depth, deep", twice, nested(60), Effort::TooMuch),
        ("names of members", named, json!({"a": 1, "b": 2}), Effort::Fine),
        ("large arguments", rows, Value::Array(vec![json!([1, 2, 3]); 50_000]), Effort::Fine),
        ("a loop without progress", endless, json!({}), Effort::Endless),
        ("a loop through two parts", ping_pong, json!({}), Effort::Endless),
    ];
    for (name, schema, arguments, expected) in cases {
        check(name, &schema, &arguments, expected);
    }
}
