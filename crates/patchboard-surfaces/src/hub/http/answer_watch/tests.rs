//! Every row is what happened to a message, a second after the other, and for how long there is something to wait for.

use std::sync::Arc;

use patchboard_core::app::message::{
    AppNotice, AppResponse, AttemptFailure, FinalState, MessageEvent, ParkedState, RoutingDecision, RoutingStage,
    Utterance,
};
use patchboard_core::app::{InputMethod, NoticePriority};
use patchboard_core::id::{MessageId, Seq};
use uuid::Uuid;

use super::*;

const WINDOW: Duration = Duration::from_secs(30);
const SUBMITTED: i64 = 1_794_744_000;

fn at(second: u64) -> Timestamp {
    Timestamp::from_second(SUBMITTED + i64::try_from(second).unwrap()).unwrap()
}

/// `sent a`, `ack a`, `told a`, `no a`, `late a`, `waits`, `held`, `refused`, `cancelled`, `again`.
fn event(word: &str) -> MessageEvent {
    let (what, name) = word.split_once(' ').unwrap_or((word, ""));
    let app: Arc<str> = name.into();
    let answered = |response| MessageEvent::Answered { app: app.clone(), response };
    match what {
        "sent" => MessageEvent::Sent { app },
        "ack" => answered(AppResponse::Ack),
        "no" => answered(AppResponse::Reject { reason: None }),
        "told" => answered(AppResponse::Notice(AppNotice {
            title: name.into(),
            body: "done".into(),
            priority: NoticePriority::Normal,
            expects_reply: false,
        })),
        "late" => MessageEvent::Failed { app, failure: AttemptFailure::Timeout },
        "waits" => MessageEvent::Parked { state: ParkedState::Queued, reason: "because".into() },
        "held" => MessageEvent::Parked { state: ParkedState::Held, reason: "because".into() },
        "refused" => MessageEvent::Ended { final_state: FinalState::Refused, reason: "because".into() },
        "cancelled" => MessageEvent::Ended { final_state: FinalState::Cancelled, reason: "because".into() },
        "again" => MessageEvent::Reopened { app: None, by: "me".into() },
        other => panic!("{other}"),
    }
}

fn after(words: &[&str]) -> MessageReport {
    let utterance = Utterance {
        text: "buy milk".into(),
        input: InputMethod::Text,
        confidence: None,
        only_app: None,
        principal: "local".into(),
        surface: "hub".into(),
        expires_at: at(86_400),
    };
    let decision = RoutingDecision {
        stage: RoutingStage::Matcher,
        apps: Vec::new(),
        text: None,
        reason: "".into(),
        candidates: Vec::new(),
    };
    let mut events = vec![MessageEvent::Submitted(Arc::new(utterance)), MessageEvent::Decided(Arc::new(decision))];
    events.extend(words.iter().map(|word| event(word)));
    // Sent in second 0.
    let records = events.iter().zip(1u64..).map(|(event, seq)| (Seq(seq), at(seq.saturating_sub(3)), event));
    MessageReport::replay(MessageId(Uuid::from_u128(7)), records).unwrap()
}

/// Seconds left, as of second 10, to a client that has waited since the beginning.
fn left(words: &[&str]) -> Option<u64> {
    let watch = NoticeWait::new(&after(&[]), WINDOW);
    watch.time_left(&after(words), at(10)).map(|left| left.as_secs())
}

#[test]
fn a_notification_ends_the_wait_before_and_after_the_acknowledgement() {
    assert_eq!(left(&["sent a", "ack a"]), Some(20), "the app may tell something as long as it might have answered");
    assert_eq!(left(&["sent a", "ack a", "told a"]), None);
    assert_eq!(left(&["sent a", "told a"]), None);
    assert_eq!(left(&["sent a", "told a", "ack a"]), None);
    let watch = NoticeWait::new(&after(&[]), WINDOW);
    let acknowledged = after(&["sent a", "ack a"]);
    assert_eq!(watch.time_left(&acknowledged, at(30)), None, "its time is up");
    assert_eq!(watch.time_left(&acknowledged, at(29)), Some(Duration::from_secs(1)));
}

#[test]
fn of_several_apps_each_has_its_time() {
    assert_eq!(left(&["sent a", "sent b", "told a"]), Some(UNBOUNDED.as_secs()), "b owes an answer");
    assert_eq!(left(&["sent a", "sent b", "told a", "ack b"]), Some(21));
    assert_eq!(left(&["sent a", "sent b", "told a", "ack b", "told b"]), None);
    assert_eq!(left(&["sent a", "sent b", "told a", "no b"]), None);
}

#[test]
fn what_comes_to_rest_is_not_waited_for() {
    let open = Some(UNBOUNDED.as_secs());
    assert_eq!(left(&[]), open);
    assert_eq!(left(&["sent a"]), open);
    assert_eq!(left(&["waits"]), open, "an app may come while there is time");
    assert_eq!(left(&["sent a", "late a"]), open, "another one may get it");
    assert_eq!(left(&["sent a", "late a", "sent b"]), open);
    assert_eq!(left(&["sent a", "late a", "waits"]), None, "its app had its time");
    assert_eq!(left(&["sent a", "no a", "held"]), None);
    assert_eq!(left(&["sent a", "no a", "refused"]), None);
    assert_eq!(left(&["sent a", "cancelled"]), None);
}

#[test]
fn what_was_told_before_it_was_sent_again_is_no_answer_to_it() {
    let before = after(&["sent a", "told a", "again", "sent a"]);
    let watch = NoticeWait::new(&before, WINDOW);
    let acknowledged = after(&["sent a", "told a", "again", "sent a", "ack a"]);
    assert_eq!(watch.time_left(&acknowledged, at(10)), Some(Duration::from_secs(23)));
    let told = after(&["sent a", "told a", "again", "sent a", "ack a", "told a"]);
    assert_eq!(watch.time_left(&told, at(10)), None);
    // A wait that begins afterwards has nothing to wait for.
    assert_eq!(NoticeWait::new(&told, WINDOW).time_left(&told, at(10)), None);
}
