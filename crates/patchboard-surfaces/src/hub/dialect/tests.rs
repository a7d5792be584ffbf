//! Floods, and any input at all.

use patchboard_core::caller::GrantSet;
use patchboard_core::command::AnswerMessage;
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;

struct Client {
    dialect: HubDialect,
    now: Duration,
}

impl Client {
    fn new() -> Self {
        let mut dialect = HubDialect::new(HubDialectOptions::default());
        let identity = ClientIdentity::new("local".into(), GrantSet::CLIENT);
        dialect.opened(Some(identity), Duration::ZERO, &mut Vec::new());
        Self { dialect, now: Duration::ZERO }
    }

    fn registered() -> Self {
        let mut client = Self::new();
        let steps = client.say(&registration());
        let [Step::Ask(ticket, ref request)] = steps[..] else { panic!("{steps:?}") };
        assert!(request.command().is::<RegisterApp>(), "{request:?}");
        client.answer(ticket, HubReply::Registered(Ok(Ok(Uuid::nil()))));
        client
    }

    fn say(&mut self, text: &str) -> Vec<Step> {
        let mut steps = Vec::new();
        self.dialect.text(text, self.now, &mut steps);
        steps
    }

    fn answer(&mut self, ticket: Ticket, reply: HubReply) -> Vec<Step> {
        let mut steps = Vec::new();
        self.dialect.replied(ticket, reply, self.now, &mut steps);
        steps
    }
}

fn registration() -> String {
    json!({"type": "registration", "payload": {"name": "notebook", "description": "x"}}).to_string()
}

fn response(kind: &str) -> String {
    let id = "msg-550e8400-e29b-41d4-a716-446655440000";
    json!({"type": "response", "payload": {"messageId": id, "type": kind, "payload": {"body": "x"}}}).to_string()
}

/// The code of an error frame, or what else was done.
fn outcome(steps: &[Step]) -> String {
    match steps {
        [Step::Write(frame)] => {
            let frame: Value = serde_json::from_str(frame).unwrap();
            format!("{} {}", frame["type"].as_str().unwrap(), frame["payload"]["code"].as_str().unwrap())
        }
        [Step::Ask(_, request)] if request.command().is::<AnswerMessage>() => "asked".to_owned(),
        [] => "nothing".to_owned(),
        other => panic!("unexpected: {other:?}"),
    }
}

#[test]
fn a_flood_of_notifications_is_limited_and_acknowledgements_are_heard_all_the_same() {
    let mut client = Client::registered();
    let outcomes: Vec<String> = (0..500).map(|_| outcome(&client.say(&response("notification")))).collect();
    assert_eq!(outcomes.iter().filter(|outcome| *outcome == "asked").count(), 399, "the registration was the first");
    assert!(outcomes[399..].iter().all(|outcome| outcome == "error RATE_LIMITED"));
    assert_eq!(outcome(&client.say("{")), "error RATE_LIMITED");
    assert_eq!(outcome(&client.say(&response("ack"))), "asked");
    assert_eq!(outcome(&client.say(&response("reject"))), "asked");
    client.now += Duration::from_secs(1);
    let outcomes: Vec<String> = (0..201).map(|_| outcome(&client.say(&response("notification")))).collect();
    assert_eq!(outcomes.iter().filter(|outcome| *outcome == "asked").count(), 200);
}

#[test]
fn a_flood_of_acknowledgements_is_limited_too() {
    let mut client = Client::registered();
    let outcomes: Vec<String> = (0..401).map(|_| outcome(&client.say(&response("ack")))).collect();
    assert_eq!(outcomes[399..], ["asked", "error RATE_LIMITED"]);
}

#[test]
fn answers_that_are_not_recorded_do_not_pile_up() {
    let mut client = Client::registered();
    let mut ask_count = 0;
    let last = loop {
        client.now += Duration::from_secs(10);
        match outcome(&client.say(&response("ack"))).as_str() {
            "asked" => ask_count += 1,
            other => break other.to_owned(),
        }
    };
    // The question after the inbox is one of them.
    assert_eq!((ask_count, last.as_str()), (MAX_IN_FLIGHT - 1, "error RATE_LIMITED"));
}

#[test]
fn frames_that_wait_for_a_registration_are_bounded() {
    let mut client = Client::new();
    client.say(&registration());
    let outcomes: Vec<String> = (0..=MAX_BACKLOG).map(|_| outcome(&client.say(&response("ack")))).collect();
    assert_eq!(outcomes[MAX_BACKLOG - 1..], ["nothing", "error RATE_LIMITED"]);
    let mut client = Client::new();
    client.say(&registration());
    let large = format!("{}{}", response("ack"), " ".repeat(600 * 1024));
    assert_eq!(outcome(&client.say(&large)), "nothing");
    assert_eq!(outcome(&client.say(&large)), "error RATE_LIMITED");
}

proptest! {
    #[test]
    fn every_frame_is_answered_in_json_or_asked_on(
        before in any::<bool>(),
        kind in "registration|response|message|x",
        payload in any_json(),
    ) {
        let mut client = if before { Client::new() } else { Client::registered() };
        let steps = client.say(&json!({"type": kind, "payload": payload}).to_string());
        for step in &steps {
            if let Step::Write(frame) = step {
                let frame: Value = serde_json::from_str(frame).unwrap();
                prop_assert!(frame["payload"].is_object());
            }
        }
        let is_response = kind == "response" && !before;
        prop_assert!(is_response || !steps.is_empty());
    }

    #[test]
    fn any_bytes_at_all_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut client = Client::registered();
        let mut steps = Vec::new();
        client.dialect.binary(&bytes, Duration::ZERO, &mut steps);
        prop_assert_eq!(outcome(&steps), "error VALIDATION_ERROR");
    }
}

/// A JSON value, nested a little, with keys of the protocol among others.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(|number| json!(number)),
        "ack|reject|notification|low|.{0,12}".prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let key = prop_oneof![
            "name|description|version|capabilities|token|messageId|type|payload|reason|title|body|priority|metadata",
            ".{0,6}"
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::vec((key, inner), 0..5).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}
