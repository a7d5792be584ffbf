//! Events of hub messages.

use std::sync::Arc;

use jiff::Timestamp;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::entries::any_text;
use super::{RECORD_VERSION, RecordError, check_fixture, decode_entry, encode_entry};
use crate::app::message::{
    AppNotice, AppResponse, AttemptFailure, FinalState, MessageEvent, ParkedState, RoutingDecision, RoutingStage,
    ScoredApp, Utterance,
};
use crate::app::{InputMethod, NoticePriority};
use crate::event::Event;
use crate::id::NodeId;

const STAGES: [RoutingStage; 11] = [
    RoutingStage::Direct,
    RoutingStage::FollowUp,
    RoutingStage::Alias,
    RoutingStage::Rule,
    RoutingStage::Matcher,
    RoutingStage::Meaning,
    RoutingStage::Model,
    RoutingStage::NextBest,
    RoutingStage::CatchAll,
    RoutingStage::Manual,
    RoutingStage::Nobody,
];
const PRIORITIES: [NoticePriority; 3] = [NoticePriority::Low, NoticePriority::Normal, NoticePriority::High];
const FAILURES: [AttemptFailure; 3] =
    [AttemptFailure::Timeout, AttemptFailure::Disconnected, AttemptFailure::Interrupted];
const RESTS: [ParkedState; 2] = [ParkedState::Queued, ParkedState::Held];
const ENDS: [FinalState; 3] = [FinalState::Refused, FinalState::Expired, FinalState::Cancelled];

fn spoken() -> Utterance {
    Utterance {
        text: "notes: \"büy\" milk\nand bread".into(),
        input: InputMethod::Voice,
        confidence: Some(0.92),
        only_app: Some("notes".into()),
        principal: "token:main".into(),
        surface: "hub".into(),
        expires_at: "2026-11-16T12:00:00.123456789Z".parse().unwrap(),
    }
}

fn decision(stage: RoutingStage) -> RoutingDecision {
    RoutingDecision {
        stage,
        apps: vec!["notes".into(), "lamps".into()],
        text: Some("buy milk".into()),
        reason: "it is about lists".into(),
        candidates: vec![
            ScoredApp {
                app: "notes".into(),
                score: 3.25,
                confidence: 0.9,
                reasons: vec!["milk".into(), "list".into()],
            },
            ScoredApp { app: "lamps".into(), score: -0.5, confidence: 0.0, reasons: Vec::new() },
        ],
    }
}

fn notice(priority: NoticePriority, expects_reply: bool) -> AppResponse {
    let (title, body) = ("notes".into(), "Which list?".into());
    AppResponse::Notice(AppNotice { title, body, priority, expects_reply })
}

/// One of every kind and form, in the order of the fixture file.
fn every_entry() -> Vec<(Option<NodeId>, Event)> {
    let app = || Arc::from("notes");
    let typed = Utterance { input: InputMethod::Text, confidence: None, only_app: None, ..spoken() };
    let nobody =
        RoutingDecision { apps: Vec::new(), text: None, candidates: Vec::new(), ..decision(RoutingStage::Nobody) };
    let mut events = vec![
        MessageEvent::Submitted(Arc::new(spoken())),
        MessageEvent::Submitted(Arc::new(typed)),
        MessageEvent::Decided(Arc::new(nobody)),
    ];
    events.extend(STAGES.map(|stage| MessageEvent::Decided(Arc::new(decision(stage)))));
    events.push(MessageEvent::Sent { app: app() });
    let responses = [
        AppResponse::Ack,
        AppResponse::Reject { reason: None },
        AppResponse::Reject { reason: Some("not mine".into()) },
        notice(NoticePriority::Low, false),
        notice(NoticePriority::Normal, false),
        notice(NoticePriority::High, true),
    ];
    events.extend(responses.map(|response| MessageEvent::Answered { app: app(), response }));
    events.extend(FAILURES.map(|failure| MessageEvent::Failed { app: app(), failure }));
    events.extend(RESTS.map(|rest| MessageEvent::Parked { state: rest, reason: "nobody is there".into() }));
    events.extend(ENDS.map(|end| MessageEvent::Ended { final_state: end, reason: "so it is".into() }));
    events.push(MessageEvent::Reopened { app: None, by: "token:main".into() });
    events.push(MessageEvent::Reopened { app: Some(app()), by: "token:main".into() });
    let mut entries: Vec<_> = events.into_iter().map(|event| (None, Event::Message(event))).collect();
    entries.push((Some(NodeId(7)), Event::Message(MessageEvent::Sent { app: app() })));
    entries
}

#[test]
fn message_entries_are_written_as_the_fixture_shows() {
    check_fixture(include_str!("../fixtures/v1.message_entries.jsonl"), &every_entry());
}

#[test]
fn figures_json_cannot_hold_are_written_as_something_it_can() {
    for strange in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let check = |event, expected| {
            let bytes = encode_entry(None, &Event::Message(event));
            assert_eq!(decode_entry(RECORD_VERSION, &bytes).unwrap(), (None, Event::Message(expected)));
        };
        let submitted =
            |confidence| MessageEvent::Submitted(Arc::new(Utterance { confidence: Some(confidence), ..spoken() }));
        check(submitted(strange), MessageEvent::Submitted(Arc::new(Utterance { confidence: None, ..spoken() })));
        let decided = |score, confidence| {
            let candidates = vec![ScoredApp { app: "notes".into(), score, confidence, reasons: Vec::new() }];
            MessageEvent::Decided(Arc::new(RoutingDecision { candidates, ..decision(RoutingStage::Matcher) }))
        };
        check(decided(strange, 0.5), decided(0.0, 0.5));
        check(decided(0.5, strange), decided(0.5, 0.0));
    }
}

#[test]
fn entries_that_are_none_are_refused() {
    let submitted = r#"{"text":"a","input":"text","principal":"p","surface":"s","expires_at":"2026-11-16T12:00:00Z"}"#;
    let entry = |utterance: &str| format!(r#"{{"event":{{"message":{{"submitted":{utterance}}}}}}}"#);
    assert!(decode_entry(RECORD_VERSION, entry(submitted).as_bytes()).is_ok());
    let never = submitted.replace("2026-11-16T12:00:00Z", "never");
    let shouted = submitted.replace(r#""input":"text""#, r#""input":"shout""#);
    for bad in [
        "",
        "{}",
        r#"{"node":1}"#,
        r#"{"node":-1,"event":{"message":{"sent":{"app":"a"}}}}"#,
        r#"{"event":{"message":{"surprise":{}}}}"#,
        r#"{"event":{"message":{"ended":{"final_state":"asleep","reason":"x"}}}}"#,
        r#"{"event":{"message":{"answered":{"app":"a","response":"maybe"}}}}"#,
        &entry(&never),
        &entry(&shouted),
    ] {
        let read = decode_entry(RECORD_VERSION, bad.as_bytes());
        assert!(matches!(read, Err(RecordError::Malformed { .. })), "{bad}: {read:?}");
    }
}

fn any_time() -> impl Strategy<Value = Timestamp> {
    let range = Timestamp::MIN.as_nanosecond()..=Timestamp::MAX.as_nanosecond();
    range.prop_map(|nanoseconds| Timestamp::from_nanosecond(nanoseconds).unwrap())
}

fn any_figure() -> impl Strategy<Value = f32> {
    any::<f32>().prop_filter("finite", |figure| figure.is_finite())
}

fn any_utterance() -> impl Strategy<Value = Utterance> {
    let input = select(vec![InputMethod::Text, InputMethod::Voice]);
    let names = (option::of(any_text()), any_text(), any_text());
    (any_text(), input, option::of(any_figure()), names, any_time()).prop_map(
        |(text, input, confidence, (only, principal, surface), expires_at)| Utterance {
            text,
            input,
            confidence,
            only_app: only,
            principal,
            surface,
            expires_at,
        },
    )
}

fn any_decision() -> impl Strategy<Value = RoutingDecision> {
    let scored = (any_text(), any_figure(), any_figure(), vec(any_text(), 0..3))
        .prop_map(|(app, score, confidence, why)| ScoredApp { app, score, confidence, reasons: why });
    (select(STAGES.to_vec()), vec(any_text(), 0..4), option::of(any_text()), any_text(), vec(scored, 0..4))
        .prop_map(|(stage, apps, text, reason, candidates)| RoutingDecision { stage, apps, text, reason, candidates })
}

fn any_response() -> impl Strategy<Value = AppResponse> {
    let notice = (any_text(), any_text(), select(PRIORITIES.to_vec()), any::<bool>());
    prop_oneof![
        Just(AppResponse::Ack),
        option::of(any_text()).prop_map(|reason| AppResponse::Reject { reason }),
        notice.prop_map(|(title, body, priority, expects_reply)| AppResponse::Notice(AppNotice {
            title,
            body,
            priority,
            expects_reply
        })),
    ]
}

fn any_event() -> impl Strategy<Value = MessageEvent> {
    prop_oneof![
        any_utterance().prop_map(|utterance| MessageEvent::Submitted(Arc::new(utterance))),
        any_decision().prop_map(|decision| MessageEvent::Decided(Arc::new(decision))),
        any_text().prop_map(|app| MessageEvent::Sent { app }),
        (any_text(), any_response()).prop_map(|(app, response)| MessageEvent::Answered { app, response }),
        (any_text(), select(FAILURES.to_vec())).prop_map(|(app, failure)| MessageEvent::Failed { app, failure }),
        (select(RESTS.to_vec()), any_text()).prop_map(|(state, reason)| MessageEvent::Parked { state, reason }),
        (select(ENDS.to_vec()), any_text())
            .prop_map(|(final_state, reason)| MessageEvent::Ended { final_state, reason }),
        (option::of(any_text()), any_text()).prop_map(|(app, by)| MessageEvent::Reopened { app, by }),
    ]
}

proptest! {
    #[test]
    fn messages_survive_storage(node in option::of(any::<u32>()), event in any_event()) {
        let (node, event) = (node.map(NodeId), Event::Message(event));
        let bytes = encode_entry(node, &event);
        prop_assert_eq!(decode_entry(RECORD_VERSION, &bytes).unwrap(), (node, event));
    }
}
