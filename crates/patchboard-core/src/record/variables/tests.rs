use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{decode_value, decode_variable_set, encode_value, encode_variable_set};
use crate::variable_set::{DeletedVariable, Variable, VariableSet};

const V1: &str = r#"{"v1":{"cursor":9,"floor":3,"variables":{"long":{"version":1,"updated_at":"1970-01-01T00:00:00Z","set":5,"changed":5},"short":{"value":"{\"n\":1,\"x\":null}","version":4,"updated_at":"2025-06-01T10:00:00.5Z","depends_on":["long","missing"],"stale":true,"set":7,"changed":9}},"gone":{"old":{"version":2,"changed":8}}}}"#;

fn set() -> VariableSet {
    let variable = |value: Value, bytes, version, at: &str, set, changed| Variable {
        value: Arc::new(value),
        bytes,
        version,
        updated_at: at.parse::<Timestamp>().unwrap(),
        depends_on: Arc::default(),
        is_stale: false,
        set_cursor: set,
        changed_cursor: changed,
    };
    let short = Variable {
        depends_on: Arc::from(["long".into(), "missing".into()]),
        is_stale: true,
        ..variable(json!({"n": 1, "x": null}), 16, 4, "2025-06-01T10:00:00.5Z", 7, 9)
    };
    let long = variable(Value::Null, 0, 1, "1970-01-01T00:00:00Z", 5, 5);
    VariableSet {
        cursor: 9,
        oldest_complete_cursor: 3,
        variables: BTreeMap::from([("long".into(), long), ("short".into(), short)]),
        deleted: BTreeMap::from([("old".into(), DeletedVariable { version: 2, deleted_cursor: 8 })]),
    }
}

#[test]
fn the_first_version_stays_readable() {
    assert_eq!(decode_variable_set(V1.as_bytes()).unwrap(), (set(), vec!["long".into()]));
    assert_eq!(String::from_utf8(encode_variable_set(&set(), |variable| variable.value.is_null())).unwrap(), V1);
}

#[test]
fn values_kept_apart_stay_what_they_are() {
    for value in [json!(null), json!(7), json!(7.0), json!(0.1), json!("a\u{0}b"), json!([1, {"a": [null]}])] {
        assert_eq!(decode_value(&encode_value(&value)).unwrap(), value);
    }
}

#[test]
fn what_is_not_a_record_is_refused() {
    let bad_value = V1.replace(r#""{\"n\":1,\"x\":null}""#, r#""{""#);
    let bad_time = V1.replace("2025-06-01T10", "yesterday");
    for bytes in ["", "{}", "[]", r#"{"v1":{"cursor":-1}}"#, r#"{"v9":{}}"#, &bad_value, &bad_time] {
        assert!(decode_variable_set(bytes.as_bytes()).is_err(), "{bytes}");
    }
    assert!(decode_value(b"{").is_err());
}
