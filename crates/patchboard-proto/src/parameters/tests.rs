use proptest::prelude::*;

use super::*;

fn parameter(name: &str, type_name: &str) -> ParameterSpec {
    ParameterSpec { name: name.to_owned(), r#type: type_name.to_owned(), ..ParameterSpec::default() }
}

fn needed(name: &str, type_name: &str) -> ParameterSpec {
    ParameterSpec { required: true, ..parameter(name, type_name) }
}

fn ruled(type_name: &str, rules: &str) -> Value {
    let one = ParameterSpec { validation_json: rules.to_owned(), ..parameter("x", type_name) };
    schema_of(&[one])["properties"]["x"].clone()
}

#[test]
fn a_whole_tool() {
    let parameters = [
        ParameterSpec { description: "where to look".to_owned(), ..needed("query", "string") },
        ParameterSpec { default_value: Some(value::encode(&json!(10))), ..parameter("limit", "integer") },
        ParameterSpec {
            validation_json: r#"{"minimum": 0, "maximum": 1}"#.to_owned(),
            ..needed("temperature", "float")
        },
        needed("picture", "bytes"),
    ];
    assert_eq!(
        schema_of(&parameters),
        json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "where to look"},
                "limit": {"type": "integer", "default": 10},
                "temperature": {"type": "number", "minimum": 0, "maximum": 1},
                "picture": {},
            },
            "required": ["query", "temperature"],
            "additionalProperties": false,
        })
    );
}

#[test]
fn types_in_many_words() {
    for (names, expected) in [
        (&["string", "str", "text", "String", " string "][..], json!({"type": "string"})),
        (&["integer", "int", "int64"], json!({"type": "integer"})),
        (&["float", "number", "double"], json!({"type": "number"})),
        (&["boolean", "bool"], json!({"type": "boolean"})),
        (&["array", "list", "List[int]", "list<string>"], json!({"type": "array"})),
        (&["object", "map", "dict", "dict[str, int]"], json!({"type": "object"})),
        (&["null"], json!({"type": "null"})),
        (&["any", "", "tensor", "binary", "bytes", "Optional[str]", "my.Class"], json!({})),
    ] {
        for name in names {
            assert_eq!(ruled(name, ""), expected, "{name}");
        }
    }
}

#[test]
fn anything_is_taken_where_nothing_is_named() {
    assert_eq!(schema_of(&[]), json!({"type": "object", "properties": {}}));
}

#[test]
fn a_catch_all_takes_anything() {
    assert_eq!(schema_of(&[needed("kwargs", "any")]), json!({"type": "object"}));
    assert_eq!(
        schema_of(&[needed("a", "any"), needed("kwargs", "any")]),
        json!({"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": true})
    );
    // Parameters that merely look like it.
    for one in [parameter("kwargs", "any"), needed("kwargs", "map"), needed("options", "any")] {
        assert_eq!(schema_of(std::slice::from_ref(&one))["additionalProperties"], json!(false), "{one:?}");
    }
}

#[test]
fn defaults_are_read_in_every_convention_and_bad_ones_passed_over() {
    let with = |type_name: &str, default: prost_types::Any| {
        let one = ParameterSpec { default_value: Some(default), ..parameter("x", type_name) };
        schema_of(&[one])["properties"]["x"].clone()
    };
    let packed = |text: &str| prost_types::Any {
        type_url: "type.googleapis.com/google.protobuf.StringValue".to_owned(),
        value: prost::Message::encode_to_vec(&text.to_owned()),
    };
    assert_eq!(with("string", packed("[1]")), json!({"type": "string", "default": "[1]"}));
    assert_eq!(with("list", packed("[1]")), json!({"type": "array", "default": [1]}));
    assert_eq!(with("string", value::encode(&Value::Null)), json!({"type": ["string", "null"], "default": null}));
    assert_eq!(with("any", value::encode(&Value::Null)), json!({"default": null}));
    assert_eq!(with("string", value::encode_json("{")), json!({"type": "string"}));
}

#[test]
fn rules_that_no_checker_could_read_are_passed_over() {
    for (rules, expected) in [
        (r#"{"minLength": 1, "pattern": "^a"}"#, json!({"type": "string", "minLength": 1, "pattern": "^a"})),
        (r#"{"enum": ["a", "b"], "format": "date"}"#, json!({"type": "string", "enum": ["a", "b"], "format": "date"})),
        (r#"{"type": ["string", "null"]}"#, json!({"type": ["string", "null"]})),
        (
            r#"{"anyOf": [{"minLength": 3}, {"const": ""}]}"#,
            json!({"type": "string", "anyOf": [{"minLength": 3}, {"const": ""}]}),
        ),
        // Not an object, or not JSON.
        ("", json!({"type": "string"})),
        ("[1]", json!({"type": "string"})),
        ("{", json!({"type": "string"})),
        // Sound and unsound ones side by side.
        (
            r##"{"minLength": -1, "maxLength": 5, "minimum": "1", "enum": [], "type": "text", "$ref": "#/x", "min": 1}"##,
            json!({"type": "string", "maxLength": 5}),
        ),
        (r#"{"type": []}"#, json!({"type": "string"})),
        (r#"{"type": ["string", "string"]}"#, json!({"type": "string"})),
        (r#"{"items": 5, "multipleOf": 0, "required": ["a", "a"]}"#, json!({"type": "string"})),
        (r##"{"items": {"$ref": "#/x", "type": "string"}}"##, json!({"type": "string", "items": {"type": "string"}})),
        (
            r##"{"properties": {"a": {"$ref": "#/x"}, "b": true}}"##,
            json!({"type": "string", "properties": {"a": {}, "b": true}}),
        ),
        (r#"{"properties": {"a": 1}, "anyOf": []}"#, json!({"type": "string"})),
        // Passing over a part of these would refuse everything.
        (r##"{"not": {"$ref": "#/x"}, "oneOf": [{"$ref": "#/x"}, {"$ref": "#/y"}]}"##, json!({"type": "string"})),
        (r#"{"not": {"const": "a"}}"#, json!({"type": "string", "not": {"const": "a"}})),
        (r#"{"oneOf": [{"const": "a"}]}"#, json!({"type": "string", "oneOf": [{"const": "a"}]})),
    ] {
        assert_eq!(ruled("string", rules), expected, "{rules}");
    }
    let long = json!({"minLength": 1, "description": "x".repeat(MAX_RULES_BYTES)}).to_string();
    assert_eq!(ruled("string", &long), json!({"type": "string"}));
}

#[test]
fn a_schema_as_parameters() {
    let schema = json!({
        "type": "object",
        "$defs": {"Mode": {"type": "string", "enum": ["r", "w"], "description": "how"}},
        "properties": {
            "count": {"type": "integer", "minimum": 1, "default": 3, "title": "Count"},
            "mode": {"$ref": "#/$defs/Mode"},
            "names": {"type": "array", "items": {"type": "string"}},
            "note": {"type": ["string", "null"], "description": "for people"},
            "options": {"type": "object"},
            "ratio": {"type": "number"},
            "whatever": true,
        },
        "required": ["mode", "ratio"],
    });
    let rules = |rules: Value, one: ParameterSpec| ParameterSpec { validation_json: rules.to_string(), ..one };
    let words = |words: &str, one: ParameterSpec| ParameterSpec { description: words.to_owned(), ..one };
    let count = ParameterSpec { default_value: Some(value::encode(&json!(3))), ..parameter("count", "integer") };
    assert_eq!(
        parameters_of(&schema),
        [
            rules(json!({"minimum": 1}), count),
            rules(json!({"enum": ["r", "w"]}), words("how", needed("mode", "string"))),
            rules(json!({"items": {"type": "string"}}), parameter("names", "list")),
            rules(json!({"type": ["string", "null"]}), words("for people", parameter("note", "any"))),
            parameter("options", "map"),
            needed("ratio", "float"),
            parameter("whatever", "any"),
        ]
    );
}

#[test]
fn what_is_no_schema_has_no_parameters() {
    for schema in [json!({"type": "object"}), json!(true), json!(null), json!({"properties": [1]}), json!([])] {
        assert_eq!(parameters_of(&schema), [], "{schema}");
    }
    let dangling = json!({"properties": {"a": {"$ref": "#/$defs/gone"}}, "required": "a"});
    assert_eq!(parameters_of(&dangling), [parameter("a", "any")]);
}

fn any_parameter() -> impl Strategy<Value = ParameterSpec> {
    let type_name = prop_oneof!["string", "integer", "float", "boolean", "list", "map", "any"];
    let default = prop_oneof![Just(None), Just(Some(json!(1))), Just(Some(json!("a"))), Just(Some(json!({"a": [1]})))];
    let rules = prop_oneof![Just(""), Just(r#"{"minimum":1}"#), Just(r#"{"enum":["a"],"maxLength":3}"#)];
    ("[a-z]{1,8}", type_name, ".{0,8}", any::<bool>(), default, rules).prop_map(
        |(name, type_name, description, required, default, rules)| ParameterSpec {
            name,
            r#type: type_name,
            description,
            required,
            default_value: default.as_ref().map(value::encode),
            validation_json: rules.to_owned(),
        },
    )
}

proptest! {
    #[test]
    fn parameters_come_back_from_their_schema(
        parameters in proptest::collection::btree_map("[a-z]{1,8}", any_parameter(), 0..5)
    ) {
        let named = parameters.into_iter().map(|(name, one)| ParameterSpec { name, ..one });
        let parameters: Vec<ParameterSpec> = named.filter(|one| one.name != CATCH_ALL).collect();
        prop_assert_eq!(parameters_of(&schema_of(&parameters)), parameters);
    }

    /// Whatever a program says of its parameters, a schema comes of it.
    #[test]
    fn anything_gives_a_schema(name: String, type_name: String, rules: String, bytes: Vec<u8>, required: bool) {
        let any = prost_types::Any { type_url: String::new(), value: bytes };
        let one = ParameterSpec {
            name, r#type: type_name, validation_json: rules, required, default_value: Some(any),
            ..ParameterSpec::default()
        };
        let schema = schema_of(&[one.clone(), one]);
        prop_assert_eq!(&schema["type"], &json!("object"));
        prop_assert!(schema["properties"].as_object().is_some_and(|properties| properties.len() <= 1));
    }
}
