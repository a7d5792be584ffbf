use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use prost::Message;
use prost_types::value::Kind;
use prost_types::{ListValue, Struct};
use serde_json::json;

use super::*;

const WRAPPERS: [&str; 12] = [
    "DoubleValue",
    "FloatValue",
    "Int32Value",
    "Int64Value",
    "UInt32Value",
    "UInt64Value",
    "BoolValue",
    "StringValue",
    "BytesValue",
    "Struct",
    "Value",
    "ListValue",
];

fn wrapped(name: &str, value: impl AsRef<[u8]>) -> Any {
    let type_url = match name {
        "json" => JSON_TYPE_URL.to_owned(),
        "" => String::new(),
        "float" | "map" => format!("type.googleapis.com/snakepit.{name}"),
        wrapper => format!("type.googleapis.com/google.protobuf.{wrapper}"),
    };
    Any { type_url, value: value.as_ref().to_vec() }
}

#[track_caller]
fn check(cases: &[(&str, &[u8], Result<Value, &str>)]) {
    for (name, bytes, expected) in cases {
        let shown = format!("{name} {:?}", String::from_utf8_lossy(bytes));
        let found = decode(&wrapped(name, bytes), ParameterKind::Other).map_err(|error| error.to_string());
        assert_eq!(found, expected.clone().map_err(str::to_owned), "{shown}");
        // The text says the same as the value.
        let text = into_json(wrapped(name, bytes), ParameterKind::Other).map_err(|error| error.to_string());
        let text = text.map(|text| serde_json::from_slice::<Value>(&text).expect("JSON"));
        assert_eq!(text, found, "{shown}");
    }
}

#[test]
fn packed_wrappers() {
    check(&[
        ("DoubleValue", b"\x09\x66\x66\x66\x66\x66\x66\xe6\x3f", Ok(json!(0.7))),
        ("DoubleValue", b"\x09\x00\x00\x00\x00\x00\x00\x08\x40", Ok(json!(3.0))),
        ("DoubleValue", b"\x09\x00\x00\x00\x00\x00\x00\x00\x80", Ok(json!(-0.0))),
        ("FloatValue", b"\x0d\x33\x33\x33\x3f", Ok(json!(0.7))),
        ("Int32Value", b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", Ok(json!(-1))),
        ("Int64Value", b"\x08\x81\x80\x80\x80\x80\x80\x80\x10", Ok(json!(9_007_199_254_740_993_i64))),
        ("Int64Value", b"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", Ok(json!(i64::MIN))),
        ("UInt32Value", b"\x08\xff\xff\xff\xff\x0f", Ok(json!(u32::MAX))),
        ("UInt64Value", b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", Ok(json!(u64::MAX))),
        ("BoolValue", b"\x08\x01", Ok(json!(true))),
        ("StringValue", b"\x0a\x05hello", Ok(json!("hello"))),
        ("StringValue", b"\x0a\x04\xf0\x9f\x90\x8d", Ok(json!("🐍"))),
        ("BytesValue", b"\x0a\x04\x00\xff\x10\x80", Ok(json!("AP8QgA=="))),
        // Keys in another encoder's map order; a key without a value; a number that was an integer.
        (
            "Struct",
            b"\x0a\x0e\x0a\x01z\x12\x09\x11\x00\x00\x00\x00\x00\x00\x08\x40\x0a\x09\x0a\x01a\x12\x04\x1a\x02hi\x0a\x03\x0a\x01n",
            Ok(json!({"a": "hi", "n": null, "z": 3})),
        ),
        // As Python's protobuf writes it: unsorted, an empty key spelt out, a zero that is negative.
        (
            "Struct",
            b"\x0a\x09\x0a\x01a\x12\x04\x1a\x02hi\x0a\x07\x0a\x01m\x12\x02\x2a\x00\x0a\x0f\x0a\x00\x12\x0b\x2a\x09\
              \x0a\x07\x0a\x01x\x12\x02\x20\x01\x0a\x1d\x0a\x01l\x12\x18\x32\x16\x0a\x09\x11\x00\x00\x00\x00\x00\x00\xf0\x3f\
              \x0a\x09\x11\x00\x00\x00\x00\x00\x00\x00\x80\x0a\x07\x0a\x01n\x12\x02\x08\x00",
            Ok(json!({"": {"x": true}, "a": "hi", "l": [1, -0.0], "m": {}, "n": null})),
        ),
        ("Value", b"\x08\x00", Ok(json!(null))),
        ("Value", b"\x11\x00\x00\x00\x00\x00\x00\xe0\x3f", Ok(json!(0.5))),
        ("Value", b"\x1a\x00", Ok(json!(""))),
        ("Value", b"\x20\x00", Ok(json!(false))),
        ("Value", b"\x2a\x00", Ok(json!({}))),
        ("Value", b"\x32\x04\x0a\x02\x20\x01", Ok(json!([true]))),
        ("ListValue", b"\x0a\x02\x08\x00\x0a\x00\x0a\x03\x1a\x01x", Ok(json!([null, null, "x"]))),
    ]);
}

#[test]
fn no_bytes_are_the_wrappers_default() {
    check(&[
        ("DoubleValue", b"", Ok(json!(0.0))),
        ("FloatValue", b"", Ok(json!(0.0))),
        ("Int32Value", b"", Ok(json!(0))),
        ("Int64Value", b"", Ok(json!(0))),
        ("UInt32Value", b"", Ok(json!(0))),
        ("UInt64Value", b"", Ok(json!(0))),
        ("BoolValue", b"", Ok(json!(false))),
        ("StringValue", b"", Ok(json!(""))),
        ("BytesValue", b"", Ok(json!(""))),
        ("Struct", b"", Ok(json!({}))),
        ("Value", b"", Ok(json!(null))),
        ("ListValue", b"", Ok(json!([]))),
        ("json", b"", Err("empty where JSON is expected")),
        ("", b"", Err("empty where JSON is expected")),
    ]);
}

/// Parameters must be JSON; results are converted to JSON.
#[test]
fn numbers_that_json_has_no_words_for_are_refused_in_and_words_out() {
    for (name, bytes, told) in [
        ("DoubleValue", b"\x09\x00\x00\x00\x00\x00\x00\xf8\x7f".as_slice(), "NaN"),
        ("DoubleValue", b"\x09\x00\x00\x00\x00\x00\x00\xf0\x7f", "Infinity"),
        ("FloatValue", b"\x0d\x00\x00\x80\xff", "-Infinity"),
        ("float", b"NaN", "NaN"),
        ("float", b" -Infinity ", "-Infinity"),
    ] {
        assert!(decode(&wrapped(name, bytes), ParameterKind::Other).is_err(), "{name} {told}");
        let text = into_json(wrapped(name, bytes), ParameterKind::Other).expect("words");
        assert_eq!(serde_json::from_slice::<Value>(&text).expect("JSON"), json!(told), "{name}");
    }
}

#[test]
fn json_under_any_type_url() {
    check(&[
        ("json", br#"{"key": "value"}"#, Ok(json!({"key": "value"}))),
        ("float", b"5.0", Ok(json!(5.0))),
        ("float", b"\"NaN\"", Ok(json!("NaN"))),
        ("map", b"{\"a\":9007199254740993}", Ok(json!({"a": 9_007_199_254_740_993_i64}))),
        ("", b"18446744073709551615", Ok(json!(u64::MAX))),
        // A client that labels everything as a string and packs nothing.
        ("StringValue", b"\"hello\"", Ok(json!("hello"))),
        ("StringValue", b"{\"a\": [1, null]}", Ok(json!({"a": [1, null]}))),
        ("StringValue", b"null", Ok(json!(null))),
        // A Python worker's numbers and booleans.
        ("Value", b"5", Ok(json!(5))),
        ("Value", b"2", Ok(json!(2))),
        ("Value", b"-1.5", Ok(json!(-1.5))),
        ("Value", b"true", Ok(json!(true))),
        ("DoubleValue", b"0.7", Ok(json!(0.7))),
        ("Struct", b"{}", Ok(json!({}))),
        ("BytesValue", b"\"AP8=\"", Ok(json!("AP8="))),
        // Text inside JSON stays text.
        ("json", br#""{\"a\":1}""#, Ok(json!("{\"a\":1}"))),
    ]);
}

#[test]
fn a_packed_string_that_holds_json_is_that_value_unless_text_is_wanted() {
    let cases: &[(&str, Value)] = &[
        (r#"{"choices": ["A", "B"]}"#, json!({"choices": ["A", "B"]})),
        (" [1, 2]\n", json!([1, 2])),
        ("[]", json!([])),
        // What Python's `str()` makes of a dictionary, a list and nothing.
        ("{'a': 1}", json!("{'a': 1}")),
        ("[1, 'a']", json!("[1, 'a']")),
        ("None", json!("None")),
        // JSON, but neither an object nor an array.
        ("5", json!("5")),
        ("null", json!("null")),
        ("\"x\"", json!("\"x\"")),
        ("[1] and more", json!("[1] and more")),
    ];
    for (text, expected) in cases {
        let packed = || wrapped("StringValue", (*text).to_owned().encode_to_vec());
        assert_eq!(decode(&packed(), ParameterKind::Other), Ok(expected.clone()), "{text}");
        assert_eq!(decode(&packed(), ParameterKind::Text), Ok(json!(text)), "{text}");
        let told = |kind| serde_json::from_slice::<Value>(&into_json(packed(), kind).expect("good")).expect("JSON");
        assert_eq!(told(ParameterKind::Other), *expected, "{text}");
        assert_eq!(told(ParameterKind::Text), json!(text), "{text}");
    }
}

#[test]
fn what_is_neither_is_refused_in_words() {
    let neither = |wrapper: &str, reason: &str| format!("neither a packed `{wrapper}` nor JSON: {reason}");
    let cases: &[(&str, &[u8], String)] = &[
        ("json", b"{'a': 1}", "not JSON: key must be a string at line 1 column 2".to_owned()),
        ("json", b"\xff", "not JSON: invalid utf-8 sequence of 1 bytes from index 0".to_owned()),
        ("json", b"[NaN]", "not JSON: expected value at line 1 column 2".to_owned()),
        ("json", b"1 2", "not JSON: trailing characters at line 1 column 3".to_owned()),
        // Written by no encoder: a length that is not the rest, a default, a number in too many bytes, a second field.
        ("StringValue", b"\x0a\x04hello", neither("StringValue", "expected value at line 2 column 1")),
        ("StringValue", b"\x0a\x00", neither("StringValue", "expected value at line 2 column 1")),
        ("StringValue", b"\x0a\x01\xff", neither("StringValue", "invalid utf-8 sequence of 1 bytes from index 2")),
        ("Int64Value", b"\x08\x00", neither("Int64Value", "expected value at line 1 column 1")),
        ("Int64Value", b"\x08\x81\x00", neither("Int64Value", "invalid utf-8 sequence of 1 bytes from index 1")),
        ("BoolValue", b"\x08\x02", neither("BoolValue", "expected value at line 1 column 1")),
        ("Int64Value", b"\x08\x01\x08\x02", neither("Int64Value", "expected value at line 1 column 1")),
        ("Value", b"\x08\x01", neither("Value", "expected value at line 1 column 1")),
        ("Value", b"\x20\x01\x20\x00", neither("Value", "expected value at line 1 column 2")),
        ("Struct", b"\x0a\x03\x0a\x01a\x0a\x03\x0a\x01a", neither("Struct", "expected value at line 2 column 1")),
        ("DoubleValue", b"hello", neither("DoubleValue", "expected value at line 1 column 1")),
    ];
    for (name, bytes, expected) in cases {
        let found = decode(&wrapped(name, bytes), ParameterKind::Other).map_err(|error| error.to_string());
        assert_eq!(found, Err(expected.clone()), "{name} {bytes:?}");
        assert!(into_json(wrapped(name, bytes), ParameterKind::Other).is_err(), "{name} {bytes:?}");
    }
}

#[test]
fn the_last_piece_of_the_type_url_decides() {
    for (type_url, expected) in [
        ("google.protobuf.BoolValue", Ok(json!(true))),
        ("a/b/google.protobuf.BoolValue", Ok(json!(true))),
        ("google.protobuf.BoolValue/other", Err(())),
        ("type.googleapis.com/protobuf.BoolValue", Err(())),
        ("type.googleapis.com/google.protobuf.Bool", Err(())),
    ] {
        let packed = Any { type_url: type_url.to_owned(), value: b"\x08\x01".to_vec() };
        assert_eq!(decode(&packed, ParameterKind::Other).map_err(drop), expected, "{type_url}");
    }
}

#[test]
fn integers_keep_their_digits_or_are_refused() {
    let refused = Err(ValueError::WideInteger);
    for (text, expected) in [
        ("9223372036854775808", Ok(json!(9_223_372_036_854_775_808_u64))),
        ("-9223372036854775808", Ok(json!(i64::MIN))),
        ("18446744073709551616", refused.clone()),
        ("-9223372036854775809", refused.clone()),
        ("{\"a\": [1180591620717411303425]}", refused.clone()),
        ("1180591620717411303425.0", Ok(json!(1.180_591_620_717_411_3e21))),
        ("1e300", Ok(json!(1e300))),
        ("\"1180591620717411303425\"", Ok(json!("1180591620717411303425"))),
    ] {
        assert_eq!(decode(&wrapped("json", text), ParameterKind::Other), expected, "{text}");
        // As text they pass whatever their width.
        assert_eq!(into_json(wrapped("json", text), ParameterKind::Other), Ok(Bytes::from_static(text.as_bytes())));
    }
    let packed = wrapped("StringValue", "[18446744073709551616]".to_owned().encode_to_vec());
    assert_eq!(decode(&packed, ParameterKind::Other), refused);
    assert_eq!(into_json(packed, ParameterKind::Other), Ok(Bytes::from_static(b"[18446744073709551616]")));
}

#[test]
fn depth_is_bounded_in_every_convention() {
    let text = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let packed = |depth: usize| {
        (1..depth).fold(ListValue::default(), |inner, _| ListValue {
            values: vec![prost_types::Value { kind: Some(Kind::ListValue(inner)) }],
        })
    };
    let too_deep = Err(ValueError::TooDeep);
    let fits: Value = serde_json::from_str(&text(MAX_DEPTH)).expect("serde reads as deep");
    assert_eq!(decode(&wrapped("json", text(MAX_DEPTH)), ParameterKind::Other), Ok(fits.clone()));
    assert_eq!(decode(&wrapped("json", text(MAX_DEPTH + 1)), ParameterKind::Other), too_deep);
    assert_eq!(into_json(wrapped("json", text(MAX_DEPTH + 1)), ParameterKind::Other), Err(ValueError::TooDeep));
    assert_eq!(decode(&wrapped("json", text(1_000_000)), ParameterKind::Other), too_deep);

    let list = |depth| wrapped("ListValue", packed(depth).encode_to_vec());
    assert_eq!(decode(&list(MAX_DEPTH), ParameterKind::Other), Ok(fits.clone()));
    assert_eq!(decode(&list(MAX_DEPTH + 1), ParameterKind::Other), too_deep);
    let value = |depth| prost_types::Value { kind: Some(Kind::ListValue(packed(depth))) }.encode_to_vec();
    assert_eq!(decode(&wrapped("Value", value(MAX_DEPTH)), ParameterKind::Other), Ok(fits.clone()));
    assert_eq!(decode(&wrapped("Value", value(MAX_DEPTH + 1)), ParameterKind::Other), too_deep);

    // Text that is this deep is just text.
    let string = |depth| wrapped("StringValue", text(depth).encode_to_vec());
    assert_eq!(decode(&string(MAX_DEPTH), ParameterKind::Other), Ok(fits));
    assert_eq!(decode(&string(MAX_DEPTH + 1), ParameterKind::Other), Ok(json!(text(MAX_DEPTH + 1))));
}

#[test]
fn elements_are_bounded_over_all_parameters_of_a_call() {
    let zeros = |count: usize| format!("[{}]", vec!["0"; count].join(","));
    // The list itself is one, and so is room for the first.
    assert!(decode(&wrapped("json", zeros(MAX_ELEMENTS - 1)), ParameterKind::Other).is_ok());
    assert_eq!(decode(&wrapped("json", zeros(MAX_ELEMENTS)), ParameterKind::Other), Err(ValueError::TooLarge));
    assert!(into_json(wrapped("json", zeros(MAX_ELEMENTS)), ParameterKind::Other).is_ok(), "text costs what it weighs");
    // An element of two bytes that would be one of thirty-two.
    let nulls = wrapped("ListValue", b"\x0a\x00".repeat(MAX_ELEMENTS + 1));
    assert_eq!(decode(&nulls, ParameterKind::Other), Err(ValueError::TooLarge));

    let half = wrapped("json", zeros(MAX_ELEMENTS / 2 - 1));
    let call = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), half.clone())).collect();
    assert!(decode_parameters(&call(&["a", "b"]), |_| ParameterKind::Other).is_ok());
    let found = decode_parameters(&call(&["a", "b", "c"]), |_| ParameterKind::Other).map_err(|error| error.to_string());
    assert_eq!(
        found,
        Err("Invalid parameter c: more than 1000000 elements: send them as a binary parameter".to_owned())
    );
}

#[test]
fn parameters_are_read_as_their_tool_wants_them() {
    let text = wrapped("StringValue", "[1]".to_owned().encode_to_vec());
    let call = BTreeMap::from([("note".to_owned(), text.clone()), ("list".to_owned(), text)]);
    let kind_of = |name: &str| ParameterKind::of(if name == "note" { "str" } else { "list" });
    let found = decode_parameters(&call, kind_of).map(Value::Object);
    assert_eq!(found, Ok(json!({"note": "[1]", "list": [1]})));

    let call = BTreeMap::from([("n".to_owned(), wrapped("Int64Value", b"one"))]);
    let found = decode_parameters(&call, kind_of).map_err(|error| error.to_string());
    assert_eq!(
        found,
        Err("Invalid parameter n: neither a packed `Int64Value` nor JSON: expected value at line 1 column 1".to_owned())
    );
}

#[test]
fn what_goes_out_is_json_under_one_type_url() {
    let expected = Any { type_url: "type.snakepit.bridge/json".to_owned(), value: br#"{"a":[1,null]}"#.to_vec() };
    assert_eq!(encode(&json!({"a": [1, null]})), expected);
    assert_eq!(encode_json(r#"{"a":[1,null]}"#), expected);
    assert_eq!(encode(&json!(null)).value, b"null");
    assert_eq!(encode(&json!(u64::MAX)).value, b"18446744073709551615");
}

#[test]
fn which_types_want_text() {
    for (name, expected) in [
        ("string", ParameterKind::Text),
        ("Str", ParameterKind::Text),
        (" text ", ParameterKind::Text),
        ("any", ParameterKind::Other),
        ("", ParameterKind::Other),
        ("list[str]", ParameterKind::Other),
    ] {
        assert_eq!(ParameterKind::of(name), expected, "{name}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter_map("no JSON", |number| serde_json::Number::from_f64(number).map(Value::from)),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            btree_map(".{0,6}", inner, 0..6).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// The same value packed, and what it is after that: a `Struct` has doubles only.
fn packed(value: &Value) -> (prost_types::Value, Value) {
    let (kind, after) = match value {
        Value::Null => (Kind::NullValue(0), Value::Null),
        Value::Bool(bit) => (Kind::BoolValue(*bit), value.clone()),
        Value::String(text) => (Kind::StringValue(text.clone()), value.clone()),
        Value::Number(number) => {
            let double = number.as_f64().expect("every number is near a double");
            let exact = double.fract() == 0.0 && double.abs() <= 9_007_199_254_740_992.0 && double.to_bits() != 1 << 63;
            (Kind::NumberValue(double), if exact { json!(double as i64) } else { json!(double) })
        }
        Value::Array(values) => {
            let (values, after): (Vec<_>, Vec<_>) = values.iter().map(packed).unzip();
            (Kind::ListValue(ListValue { values }), after.into())
        }
        Value::Object(fields) => {
            let both = fields.iter().map(|(name, field)| {
                let (field, after) = packed(field);
                ((name.clone(), field), (name.clone(), after))
            });
            let (fields, after): (BTreeMap<_, _>, Map<_, _>) = both.unzip();
            (Kind::StructValue(Struct { fields }), after.into())
        }
    };
    (prost_types::Value { kind: Some(kind) }, after)
}

proptest! {
    #[test]
    fn what_goes_out_comes_back(value in any_json()) {
        let sent = encode(&value);
        prop_assert_eq!(decode(&sent, ParameterKind::Other), Ok(value.clone()));
        prop_assert_eq!(decode(&sent, ParameterKind::Text), Ok(value.clone()));
        prop_assert_eq!(into_json(sent, ParameterKind::Other), Ok(Bytes::from(value.to_string())));
    }

    #[test]
    fn raw_json_is_never_taken_for_packed(value in any_json()) {
        for wrapper in WRAPPERS {
            let raw = wrapped(wrapper, value.to_string());
            prop_assert_eq!(decode(&raw, ParameterKind::Other), Ok(value.clone()), "{}", wrapper);
            prop_assert_eq!(into_json(raw, ParameterKind::Other), Ok(Bytes::from(value.to_string())), "{}", wrapper);
        }
    }

    #[test]
    fn packed_json_comes_back(value in any_json()) {
        let (sent, expected) = packed(&value);
        prop_assert_eq!(decode(&wrapped("Value", sent.encode_to_vec()), ParameterKind::Other), Ok(expected.clone()));
        match sent.kind {
            Some(Kind::StructValue(inner)) => {
                prop_assert_eq!(decode(&wrapped("Struct", inner.encode_to_vec()), ParameterKind::Other), Ok(expected));
            }
            Some(Kind::ListValue(inner)) => {
                prop_assert_eq!(decode(&wrapped("ListValue", inner.encode_to_vec()), ParameterKind::Other), Ok(expected));
            }
            _ => {}
        }
    }

    #[test]
    fn packed_scalars_come_back(
        double: f64, float: f32, int: i64, uint: u64, small: i32, usmall: u32, bit: bool, text: String, blob: Vec<u8>,
    ) {
        let read = |name: &str, bytes: Vec<u8>| decode(&wrapped(name, bytes), ParameterKind::Text);
        let finite = |number: f64| serde_json::Number::from_f64(number).map(Value::from);
        if let Some(expected) = finite(double).filter(|_| double != 0.0) {
            prop_assert_eq!(read("DoubleValue", double.encode_to_vec()), Ok(expected));
        }
        if float.is_finite() && float != 0.0 {
            let found = read("FloatValue", float.encode_to_vec()).ok().and_then(|value| value.as_f64());
            prop_assert_eq!(found.map(|number| number as f32), Some(float));
        }
        prop_assert_eq!(read("Int64Value", int.encode_to_vec()), Ok(json!(int)));
        prop_assert_eq!(read("UInt64Value", uint.encode_to_vec()), Ok(json!(uint)));
        prop_assert_eq!(read("Int32Value", small.encode_to_vec()), Ok(json!(small)));
        prop_assert_eq!(read("UInt32Value", usmall.encode_to_vec()), Ok(json!(usmall)));
        prop_assert_eq!(read("BoolValue", bit.encode_to_vec()), Ok(json!(bit)));
        prop_assert_eq!(read("StringValue", text.encode_to_vec()), Ok(json!(text)));
        let found = read("BytesValue", blob.encode_to_vec()).expect("packed");
        prop_assert_eq!(found.as_str().map(str::len), Some(blob.len().div_ceil(3) * 4));
    }

    /// Nothing panics, and value and text agree.
    #[test]
    fn any_bytes_under_any_type_url(bytes in vec(any::<u8>(), 0..64), jsonish in "[\\[\\]{}0-9a-e\",:. \\n\\t\\\\-]{0,24}") {
        for name in WRAPPERS.into_iter().chain(["json", "float", ""]) {
            for bytes in [&bytes, jsonish.as_bytes()] {
                for kind in [ParameterKind::Text, ParameterKind::Other] {
                    let found = decode(&wrapped(name, bytes), kind);
                    let text = into_json(wrapped(name, bytes), kind);
                    if let Ok(value) = found {
                        let text = text.expect("what is a value is a text");
                        prop_assert_eq!(serde_json::from_slice::<Value>(&text).ok(), Some(value));
                    }
                }
            }
        }
    }
}
