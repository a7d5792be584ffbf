//! What no transcript can list: any input at all.

use std::time::Duration;

use proptest::prelude::*;

use super::dialect::{GatewayDialect, GatewayReply};
use super::*;
use crate::auth::ClientIdentity;
use crate::dialect::Step;

fn signed_in() -> GatewayDialect {
    let mut dialect = GatewayDialect::new("0.1.0", RateLimit { per_second: 1000.0, burst: 1000.0 });
    let identity = ClientIdentity::new("local".into(), patchboard_core::caller::GrantSet::CLIENT);
    dialect.opened(Some(identity), Duration::ZERO, &mut Vec::new());
    dialect
}

fn answers(text: &str) -> Vec<Step<GatewayReply>> {
    let mut steps = Vec::new();
    signed_in().text(text, Duration::ZERO, &mut steps);
    steps
}

/// A JSON value, nested a little, with keys of the protocol among others.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(|number| serde_json::json!(number)),
        ".{0,12}".prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let key = prop_oneof!["id|method|params|channel|account|content|session|limit|cursor|after", ".{0,6}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::vec((key, inner), 0..5)
                .prop_map(|fields| serde_json::Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn every_text_frame_is_answered_or_asked_on(text in ".*") {
        prop_assert!(!answers(&text).is_empty());
    }

    #[test]
    fn every_request_is_answered_under_its_id_or_asked_on(
        method in "ping|status|chat\\.send|chat\\.cancel|chat\\.attach|chat\\.history|session\\.list|session\\.clear|session\\.rename|session\\.hide|session\\.search|session\\.fork|account\\.describe|account\\.forget|memory\\.accounts|memory\\.list|memory\\.correct|memory\\.forget|memory\\.export|memory\\.search|budget\\.status|usage\\.report|tool\\.list|worker\\.list|approval\\.answer|plugin\\.load|plugin\\.unload|plugin\\.approve|nope",
        params in any_json(),
    ) {
        let request = serde_json::json!({ "id": "the-id", "method": method, "params": params }).to_string();
        for step in answers(&request) {
            if let Step::Write(frame) = step {
                let frame: serde_json::Value = serde_json::from_str(&frame).unwrap();
                prop_assert_eq!(&frame["id"], "the-id");
                prop_assert!(frame.get("result").is_some() != frame.get("error").is_some());
            }
        }
    }

    #[test]
    fn ids_come_back_as_they_were_sent(id in ".{0,100}") {
        let request = serde_json::json!({ "id": id, "method": "ping" }).to_string();
        let steps = answers(&request);
        let Some(Step::Write(frame)) = steps.first() else { panic!("no answer") };
        let frame: serde_json::Value = serde_json::from_str(frame).unwrap();
        prop_assert_eq!(frame["id"].as_str(), Some(id.as_str()));
    }
}

#[test]
fn deep_nesting_and_huge_ids_are_refused_in_words() {
    let deep = format!(r#"{{"id":"1","method":"chat.send","params":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let huge = format!(r#"{{"id":"{}","method":"ping"}}"#, "x".repeat(wire::MAX_ID_BYTES + 1));
    let unclosed = "{\"id\":".repeat(100_000);
    for (text, expected) in [
        (deep, r#"{"id":"1","error":"invalid chat.send params: expected an object"}"#),
        (huge, r#"{"id":"0","error":"parse error: `id` is longer than 1024 bytes"}"#),
        (unclosed, r#"{"id":"0","error":"parse error: EOF while parsing a value at line 1 column 600000"}"#),
    ] {
        let steps = answers(&text);
        let [Step::Write(frame)] = steps.as_slice() else { panic!("{steps:?}") };
        assert_eq!(frame, expected);
    }
}
