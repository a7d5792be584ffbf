use std::time::Duration;

use patchboard_core::caller::GrantSet;
use patchboard_core::command::{AnswerMessage, RegisterApp};
use patchboard_core::reply::RegistrationRefusal;
use patchboard_surfaces::auth::ClientIdentity;
use patchboard_surfaces::dialect::{Dialect, Step, Steps};
use patchboard_surfaces::hub::{self, HubDialectOptions};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    ClientFrame, ClientResponse, FrameEncoding, ProtocolFinding, ResponseKind, parse_frame, parse_registration,
    parse_response,
};

fn levels(findings: &[ProtocolFinding]) -> String {
    findings.iter().map(|finding| finding.level.word()).collect::<Vec<_>>().join(" ")
}

#[test]
fn envelopes() {
    let nothing = || ClientFrame::Invalid;
    let cases = [
        (r#"{"type":"registration","payload":{"a":1}}"#, ClientFrame::Registration(json!({ "a": 1 })), ""),
        (r#"{"type":"response","payload":null,"more":1}"#, ClientFrame::Response(Value::Null), ""),
        (r#"{"type":"message","payload":{}}"#, nothing(), "wrong"),
        (r#"{"type":"hello","payload":{}}"#, nothing(), "wrong"),
        (r#"{"type":1,"payload":{}}"#, nothing(), "wrong"),
        (r#"{"type":"response"}"#, nothing(), "wrong"),
        (r#"{"payload":{}}"#, nothing(), "wrong"),
        ("[]", nothing(), "wrong"),
        ("null", nothing(), "wrong"),
        ("17", nothing(), "wrong"),
        ("", nothing(), "wrong"),
        ("{", nothing(), "wrong"),
    ];
    for (text, frame, wanted) in cases {
        let (found, findings) = parse_frame(FrameEncoding::Text, text.as_bytes());
        assert_eq!((found, levels(&findings).as_str()), (frame, wanted), "{text}");
    }
    let (frame, findings) = parse_frame(FrameEncoding::Binary, br#"{"type":"registration","payload":{}}"#);
    assert_eq!((frame, levels(&findings).as_str()), (ClientFrame::Registration(json!({})), "warn"));
    assert_eq!(levels(&parse_frame(FrameEncoding::Binary, b"\xff").1), "warn wrong");
    assert_eq!(levels(&parse_frame(FrameEncoding::Text, "[".repeat(100_000).as_bytes()).1), "wrong");
}

/// The registration with some fields changed, and what the hub makes of it.
fn registrations() -> Vec<(Value, &'static str)> {
    let with = |change: Value| {
        let mut payload = json!({ "name": "notes", "description": "I take notes." });
        let fields = payload.as_object_mut().unwrap();
        for (key, value) in change.as_object().unwrap() {
            fields.insert(key.clone(), value.clone());
        }
        payload
    };
    vec![
        (with(json!({})), "notes"),
        (with(json!({ "version": "1.0.0", "capabilities": ["a", "b"], "extra": null, "token": "t" })), "notes"),
        (with(json!({ "capabilities": [] })), "notes"),
        (with(json!({ "name": "A-b_1" })), "A-b_1"),
        (with(json!({ "name": "a".repeat(64) })), &*"a".repeat(64).leak()),
        (with(json!({ "description": "é".repeat(1024) })), "notes"),
        (with(json!({ "description": "😀".repeat(512) })), "notes"),
        (with(json!({ "version": "v".repeat(256) })), "notes"),
        (with(json!({ "capabilities": vec!["x"; 128] })), "notes"),
        (with(json!({ "name": "a".repeat(65) })), "INVALID_NAME"),
        (with(json!({ "name": "" })), "INVALID_NAME"),
        (with(json!({ "name": "1a" })), "INVALID_NAME"),
        (with(json!({ "name": "a b" })), "INVALID_NAME"),
        (with(json!({ "name": "né" })), "INVALID_NAME"),
        (with(json!({ "name": 1 })), "INVALID_NAME"),
        (with(json!({ "name": null, "description": "" })), "INVALID_NAME"),
        (json!({ "description": "I take notes." }), "INVALID_NAME"),
        (json!([]), "INVALID_NAME"),
        (with(json!({ "description": " \n\u{feff}" })), "INVALID_DESCRIPTION"),
        (with(json!({ "description": "é".repeat(1025) })), "INVALID_DESCRIPTION"),
        (with(json!({ "description": "😀".repeat(513) })), "INVALID_DESCRIPTION"),
        (with(json!({ "description": ["x"], "version": 1 })), "INVALID_DESCRIPTION"),
        (json!({ "name": "notes" }), "INVALID_DESCRIPTION"),
        (with(json!({ "version": null })), "VALIDATION_ERROR"),
        (with(json!({ "version": "v".repeat(257) })), "VALIDATION_ERROR"),
        (with(json!({ "capabilities": "a" })), "VALIDATION_ERROR"),
        (with(json!({ "capabilities": null })), "VALIDATION_ERROR"),
        (with(json!({ "capabilities": ["a", 1] })), "VALIDATION_ERROR"),
        (with(json!({ "capabilities": vec!["x"; 129] })), "VALIDATION_ERROR"),
        (with(json!({ "capabilities": ["c".repeat(257)] })), "VALIDATION_ERROR"),
        (json!("x"), "VALIDATION_ERROR"),
        (Value::Null, "VALIDATION_ERROR"),
    ]
}

#[test]
fn registrations_get_the_code_of_the_hub() {
    for (payload, wanted) in registrations() {
        let (outcome, findings) = parse_registration(&payload);
        match outcome {
            Ok(name) => assert_eq!((name.as_str(), levels(&findings).contains("wrong")), (wanted, false), "{payload}"),
            Err((code, _)) => assert_eq!((code, levels(&findings).as_str()), (wanted, "wrong"), "{payload}"),
        }
    }
}

#[test]
fn a_description_of_one_word_is_remarked_upon() {
    let (outcome, findings) = parse_registration(&json!({ "name": "notes", "description": "notes" }));
    assert_eq!((outcome, levels(&findings).as_str()), (Ok("notes".to_owned()), "ok warn"));
}

/// What the hub takes a response for, with the levels of what is said about it.
fn responses() -> Vec<(Value, Option<ResponseKind>, &'static str)> {
    let of = |kind: &str, inner: Value| json!({ "messageId": "m", "type": kind, "payload": inner });
    vec![
        (of("ack", json!({})), Some(ResponseKind::Ack), "ok"),
        (of("ack", json!({ "note": 1 })), Some(ResponseKind::Ack), "warn"),
        (of("ack", Value::Null), Some(ResponseKind::Ack), "warn ok"),
        (json!({ "messageId": "m", "type": "ack" }), Some(ResponseKind::Ack), "warn ok"),
        (of("reject", json!({ "reason": "not mine" })), Some(ResponseKind::Reject), "ok"),
        (of("reject", json!({})), Some(ResponseKind::Reject), "warn"),
        (of("reject", json!({ "reason": null })), Some(ResponseKind::Reject), "warn"),
        (of("reject", json!({ "reason": " " })), Some(ResponseKind::Reject), "warn"),
        (
            of("notification", json!({ "title": "T", "body": "B", "priority": "high" })),
            Some(ResponseKind::Notification),
            "ok",
        ),
        (of("notification", json!({ "body": "B", "priority": null })), Some(ResponseKind::Notification), "ok"),
        (of("notification", json!({ "title": "T" })), Some(ResponseKind::Notification), "ok"),
        (
            of("notification", json!({ "body": "B", "metadata": { "expectsReply": true } })),
            Some(ResponseKind::Notification),
            "ok",
        ),
        (of("notification", json!({ "body": "B", "expectsReply": true })), Some(ResponseKind::Notification), "warn ok"),
        (json!({ "messageId": "m", "type": "reject", "reason": "flat" }), Some(ResponseKind::Reject), "wrong"),
        (json!({ "messageId": "m", "type": "notification", "body": "flat" }), None, "wrong"),
        (of("ack", json!([])), None, "wrong"),
        (of("ack", json!("ok")), None, "wrong"),
        (of("reject", json!({ "reason": 5 })), None, "wrong"),
        (of("notification", json!({})), None, "wrong"),
        (of("notification", json!({ "title": "", "body": " " })), None, "wrong"),
        (of("notification", json!({ "title": 1, "body": "B" })), None, "wrong"),
        (of("notification", json!({ "body": ["B"] })), None, "wrong"),
        (of("notification", json!({ "body": "B", "priority": "urgent" })), None, "wrong"),
        (of("notification", json!({ "body": "B", "priority": 1 })), None, "wrong"),
        (of("done", json!({})), None, "wrong"),
        (json!({ "messageId": "m", "payload": {} }), None, "wrong"),
        (json!({ "messageId": 1, "type": "ack", "payload": {} }), None, "wrong"),
        (json!({ "type": "ack", "payload": {} }), None, "wrong"),
        (json!([]), None, "wrong"),
        (Value::Null, None, "wrong"),
    ]
}

#[test]
fn responses_are_read_as_the_hub_does() {
    for (payload, kind, wanted) in responses() {
        let (found, findings) = parse_response(&payload);
        let expected = kind.map(|kind| ClientResponse { id: "m".to_owned(), kind });
        assert_eq!((found, levels(&findings).as_str()), (expected, wanted), "{payload}");
    }
}

/// The hub itself, as far as a connection of it goes.
fn real_hub() -> impl Dialect {
    let mut hub = hub::dialect(HubDialectOptions::default());
    hub.opened(Some(ClientIdentity::new("local".into(), GrantSet::CLIENT)), Duration::ZERO, &mut Vec::new());
    hub
}

fn heard<D: Dialect>(hub: &mut D, frame: &Value) -> Steps<D> {
    let mut steps = Vec::new();
    hub.text(&frame.to_string(), Duration::ZERO, &mut steps);
    steps.retain(|step| matches!(step, Step::Ask(..) | Step::Write(_)));
    steps
}

/// The stand-in must not be kinder or harsher than what it stands in for.
#[test]
fn the_hub_agrees_about_registrations() {
    for (payload, wanted) in registrations() {
        let steps = heard(&mut real_hub(), &json!({ "type": "registration", "payload": payload }));
        let found = match steps.as_slice() {
            [Step::Ask(_, request)] => {
                let register = request.command().downcast_ref::<RegisterApp>().expect("it registers");
                register.profile.name.to_string()
            }
            [Step::Write(text)] => {
                let answer: Value = serde_json::from_str(text).unwrap();
                answer["payload"]["code"].as_str().unwrap().to_owned()
            }
            other => panic!("{payload}: {other:?}"),
        };
        assert_eq!(found, wanted, "{payload}");
    }
}

#[test]
fn the_hub_agrees_about_responses() {
    let mut hub = real_hub();
    let registration = json!({ "name": "notes", "description": "I take notes." });
    let mut steps = heard(&mut hub, &json!({ "type": "registration", "payload": registration }));
    let Some(Step::Ask(ticket, request)) = steps.pop() else { panic!("{steps:?}") };
    let registered = Ok::<Uuid, RegistrationRefusal>(Uuid::nil());
    let reply = request.reply_for(Ok(Box::new(registered))).expect("it is a registration");
    hub.replied(ticket, reply, Duration::ZERO, &mut Vec::new());
    for (mut payload, wanted, _) in responses() {
        if payload.get("messageId") == Some(&json!("m")) {
            payload["messageId"] = json!(format!("msg-{}", Uuid::nil()));
        }
        let steps = heard(&mut hub, &json!({ "type": "response", "payload": payload }));
        match (steps.as_slice(), wanted) {
            ([Step::Ask(_, request)], Some(_)) if request.command().is::<AnswerMessage>() => {}
            ([Step::Write(_)], None) => {}
            other => panic!("{payload}: {other:?}"),
        }
    }
}
