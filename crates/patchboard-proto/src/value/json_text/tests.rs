use proptest::prelude::*;

use super::*;

#[test]
fn a_survey_counts_without_reading() {
    for (text, depth, elements, has_wide_integer) in [
        ("", 0, 1, false),
        ("5", 0, 1, false),
        ("[]", 1, 2, false),
        ("[1,[2,{\"a\":3}]]", 3, 6, false),
        (r#"{"a":"[[[,,,\"[","b":"\\"}"#, 1, 3, false),
        ("[[],[],[]]", 2, 7, false),
        ("]]][", 1, 2, false),
        ("\"open", 0, 1, false),
        ("\"open\\", 0, 1, false),
        ("[18446744073709551615,-9223372036854775808]", 1, 3, false),
        ("[18446744073709551616]", 1, 2, true),
        ("[1844674407370955161.6,184467440737095516160e1]", 1, 3, false),
        ("\"18446744073709551616\"", 0, 1, false),
        ("{\"a\":-18446744073709551616}", 1, 2, true),
    ] {
        assert_eq!(JsonScan::of(text), JsonScan { depth, elements, has_wide_integer }, "{text}");
    }
}

fn count(value: &Value) -> (usize, usize) {
    let inner: Vec<(usize, usize)> = match value {
        Value::Array(values) => values.iter().map(count).collect(),
        Value::Object(fields) => fields.values().map(count).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return (0, 1),
    };
    let deepest = inner.iter().map(|(depth, _)| *depth).max().unwrap_or_default();
    (deepest + 1, 1 + inner.iter().map(|(_, elements)| elements).sum::<usize>())
}

proptest! {
    /// It may count too many, never too few, and always the right depth.
    #[test]
    fn a_survey_never_counts_too_few(text in "(\\[|\\]|\\{\"k\":|\\}|,|1|\"\\[\\\\\\\\\"|\"\\{\\\\\"\"| ){0,24}") {
        if let Ok(value) = serde_json::from_str::<Value>(&text) {
            let (depth, elements) = count(&value);
            let survey = JsonScan::of(&text);
            prop_assert_eq!(survey.depth, depth);
            prop_assert!(survey.elements >= elements, "{:?}", survey);
        }
    }
}
