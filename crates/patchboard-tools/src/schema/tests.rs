use serde_json::json;

use super::*;

fn check(schema: &Value, arguments: &Value) -> Result<(), String> {
    JsonSchemaCheck::default().check(&Arc::new(schema.clone()), arguments).map_err(|problem| problem.text)
}

#[test]
fn tells_what_is_wrong_and_where() {
    let schema = json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "minLength": 1},
            "limit": {"type": "integer", "minimum": 1},
            "edits": {"type": "array", "items": {"type": "object", "required": ["old"]}},
            "mode": {"enum": ["fast", "safe"]}
        },
        "required": ["path"],
        "additionalProperties": false
    });
    let cases = [
        (json!({"path": "a"}), Ok(())),
        (json!({"path": "a", "limit": 10.0}), Ok(())),
        (json!({}), Err(r#""path" is a required property"#)),
        (json!([]), Err(r#"[] is not of type "object""#)),
        (json!({"path": 5}), Err(r#"at `/path`: 5 is not of type "string""#)),
        (json!({"path": "a", "limit": 0}), Err("at `/limit`: 0 is less than the minimum of 1")),
        (json!({"path": "a", "limt": 1}), Err("Additional properties are not allowed ('limt' was unexpected)")),
        (json!({"path": "a", "edits": [{"old": 1}, {}]}), Err(r#"at `/edits/1`: "old" is a required property"#)),
        (json!({"path": "a", "mode": "x"}), Err(r#"at `/mode`: "x" is not one of "fast" or "safe""#)),
        (
            json!({"path": 5, "limit": 0, "mode": 1, "edits": 2}),
            Err("at `/edits`: 2 is not of type \"array\"; at `/limit`: 0 is less than the minimum of 1; \
                 at `/mode`: 1 is not one of \"fast\" or \"safe\"; and there are more problems"),
        ),
    ];
    for (arguments, expected) in cases {
        assert_eq!(check(&schema, &arguments), expected.map_err(str::to_owned), "{arguments}");
    }
}

#[test]
fn problems_are_short_whatever_the_arguments() {
    let long = "x".repeat(1_000_000);
    let told = check(&json!({"properties": {"n": {"type": "integer"}}}), &json!({"n": long})).unwrap_err();
    assert!(told.len() < 2 * MAX_PROBLEM_BYTES, "{}", told.len());
    assert!(told.starts_with("at `/n`: \"xxx") && told.ends_with('…'), "{told}");
}

#[test]
fn strange_schemas_are_refused() {
    let deep = |depth| (0..depth).fold(json!(true), |inner, _| json!({"not": inner}));
    let many_patterns: Value = (0..100).map(|number| json!({"pattern": format!("{number}")})).collect();
    let cases = [
        (json!({"$ref": "https://example.com/x.json"}), "refers to `https://example.com/x.json`, which is not fetched"),
        (json!({"$ref": "file:///etc/passwd"}), "refers to `file:///etc/passwd`, which is not fetched"),
        (json!({"properties": {"a": {"$ref": "other.json"}}}), "refers to `other.json`, which is not fetched"),
        (
            json!({"$defs": {"a": {"$ref": "http://example.com/"}}}),
            "refers to `http://example.com/`, which is not fetched",
        ),
        (json!({"$schema": "https://example.com/meta"}), "has the unknown `$schema` `https://example.com/meta`"),
        (json!({"$ref": "#/$defs/none"}), "refers to `#/$defs/none`, which does not exist"),
        (json!({"$ref": "#anchor"}), "refers to `#anchor`, which is not a path: only `#` and `#/…` are supported"),
        (json!({"items": {"$dynamicRef": "#x"}}), "uses `$dynamicRef`, which is not supported"),
        (
            json!({"items": {"$id": "https://example.com/", "$ref": "#"}}),
            "has parts with an `$id` of their own, which is not supported beside `$ref`",
        ),
        (
            json!({"type": "strng"}),
            "is not valid: \"strng\" is not valid under any of the schemas listed in the 'anyOf' keyword",
        ),
        (deep(100), "is too large or too deep to be used"),
        (json!({"description": "x".repeat(1_000_000)}), "is too large or too deep to be used"),
        (json!({"allOf": many_patterns}), "is too large or too deep to be used"),
        (json!({"allOf": [{"$ref": "#"}]}), "refers to itself without end"),
    ];
    for (schema, expected) in cases {
        assert_eq!(check(&schema, &json!({})), Err(format!("the tool's own schema {expected}")));
    }
}

#[test]
fn local_references_work() {
    let schema = json!({
        "$defs": {"a b": {"type": "integer"}, "tree": {"properties": {"left": {"$ref": "#/$defs/tree"}}, "required": ["id"]}},
        "properties": {"n": {"$ref": "#/$defs/a%20b"}, "tree": {"$ref": "#/$defs/tree"}}
    });
    assert_eq!(check(&schema, &json!({"n": 1, "tree": {"id": 1, "left": {"id": 2}}})), Ok(()));
    let told = check(&schema, &json!({"n": "1", "tree": {"id": 1, "left": {}}})).unwrap_err();
    assert_eq!(told, r#"at `/n`: "1" is not of type "integer"; at `/tree/left`: "id" is a required property"#);
}

#[test]
fn a_property_may_be_called_like_a_keyword() {
    let schema = json!({"properties": {"$ref": {"type": "string"}, "pattern": {"type": "string"}}});
    assert_eq!(check(&schema, &json!({"$ref": "https://example.com", "pattern": "("})), Ok(()));
}

#[test]
fn costly_patterns_and_deep_arguments_end_soon() {
    let schema = json!({"properties": {"a": {"pattern": "^(?=(a+)+$)(a+)+b$"}}});
    let told = check(&schema, &json!({"a": "a".repeat(5_000) + "c"})).unwrap_err();
    assert!(told.starts_with("at `/a`: "), "{told}");
    let deep = (0..MAX_ARGUMENTS_DEPTH).fold(json!(1), |inner, _| json!([inner]));
    assert_eq!(check(&json!({}), &deep), Err("the arguments are nested more than 128 levels deep".to_owned()));
    assert_eq!(check(&json!({}), &deep[0]), Ok(()));
}

#[test]
fn equal_schemas_share_one_validator_and_the_cache_is_bounded() {
    let checker = JsonSchemaCheck::default();
    let schema = |number: usize| Arc::new(json!({"maximum": number}));
    for _ in 0..2 {
        checker.check(&schema(0), &json!(0)).unwrap();
    }
    assert_eq!(checker.cache().entries.len(), 1);
    for number in 1..2 * MAX_CACHED {
        checker.check(&schema(number), &json!(number)).unwrap();
        assert!(checker.check(&schema(0), &json!(1)).is_err());
        assert!(checker.cache().entries.len() <= MAX_CACHED);
    }
    let cache = checker.cache();
    assert!(cache.entries.contains_key(&schema(0)), "used all the time, so it stays");
    assert!(!cache.entries.contains_key(&schema(1)), "not used for longest, so it went");
    assert!(cache.entries.contains_key(&schema(2 * MAX_CACHED - 1)));
}

#[test]
fn refused_schemas_are_remembered() {
    let checker = JsonSchemaCheck::default();
    let schema = Arc::new(json!({"$ref": "https://example.com/"}));
    let first = checker.check(&schema, &json!({}));
    assert_eq!(checker.check(&schema, &json!({})), first);
    assert_eq!(checker.cache().entries.len(), 1);
}

#[test]
fn names_the_parameter_that_is_wrong_first() {
    let schema = Arc::new(json!({
        "type": "object",
        "properties": {"n": {"type": "integer"}, "a/b": {"type": "string"}, "list": {"items": {"type": "string"}}},
        "required": ["n"],
        "additionalProperties": false
    }));
    let cases = [
        (json!({}), Some(("n", "it is required"))),
        (json!({"n": "x"}), Some(("n", r#""x" is not of type "integer""#))),
        (json!({"n": 1, "m": 2}), Some(("m", "the tool does not take it"))),
        (json!({"n": 1, "a/b": 2}), Some(("a/b", r#"2 is not of type "string""#))),
        (json!({"n": 1, "list": ["a", 2]}), Some(("list", r#"at `/1`: 2 is not of type "string""#))),
        (json!([]), None),
    ];
    for (arguments, expected) in cases {
        let problem = JsonSchemaCheck::default().check(&schema, &arguments).unwrap_err();
        let expected = expected.map(|(name, reason)| (Arc::from(name), reason.to_owned()));
        assert_eq!(problem.parameter, expected, "{arguments}");
    }
    let long = json!({"n": 1, "x\n".repeat(1000): 2});
    let (name, _) = JsonSchemaCheck::default().check(&schema, &long).unwrap_err().parameter.unwrap();
    assert!(name.len() < 110 && name.starts_with(r"x\nx\n"), "{name}");
}
