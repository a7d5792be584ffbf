use serde_json::json;

use super::super::bounds::size_of_arguments;
use super::*;

fn check(name: &str, schema: &Value, arguments: &Value, expected: CheckCost) {
    let size = size_of_arguments(arguments).unwrap();
    assert_eq!(check_cost(schema, arguments, size), expected, "{name}");
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
        ("few alternatives", doubling(10), json!({}), CheckCost::Acceptable),
        ("exponentially many alternatives", doubling(40), json!({}), CheckCost::TooMuch),
        ("a chain deeper than the stack", doubling(300), json!({}), CheckCost::TooMuch),
        ("a recursive list", list, nested(100), CheckCost::Acceptable),
        ("alternatives doubling with depth, shallow", twice.clone(), nested(8), CheckCost::Acceptable),
        ("alternatives doubling with depth, deep", twice, nested(60), CheckCost::TooMuch),
        ("names of members", named, json!({"a": 1, "b": 2}), CheckCost::Acceptable),
        ("large arguments", rows, Value::Array(vec![json!([1, 2, 3]); 50_000]), CheckCost::Acceptable),
        ("a loop without progress", endless, json!({}), CheckCost::Endless),
        ("a loop through two parts", ping_pong, json!({}), CheckCost::Endless),
    ];
    for (name, schema, arguments, expected) in cases {
        check(name, &schema, &arguments, expected);
    }
}
