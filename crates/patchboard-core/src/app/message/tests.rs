//! What records add up to: every row is a log and the report it folds to.

use super::*;
use crate::hub::tests::test_hub::short;
use uuid::Uuid;

const SUBMITTED: i64 = 1_794_744_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(SUBMITTED + seconds).unwrap()
}

fn utterance(only: Option<&str>) -> Arc<Utterance> {
    Arc::new(Utterance {
        text: "notebook: buy milk".into(),
        input: InputMethod::Text,
        confidence: None,
        only_app: only.map(Arc::from),
        principal: "local".into(),
        surface: "hub".into(),
        expires_at: at(100),
    })
}

/// A log in short: `sent a`, `ack a`, `reject a`, `notice a`, `timeout a`, `gone a`, `cut a`, `waits why`, `held why`,
/// `refused`, `expired`, `cancelled`, `reopened`, `reopened a`, `direct a`. The record's number is its time.
fn event(word: &str) -> MessageEvent {
    let (what, name) = word.split_once(' ').unwrap_or((word, ""));
    let app: Arc<str> = name.into();
    let answered = |response| MessageEvent::Answered { app: app.clone(), response };
    let failed = |failure| MessageEvent::Failed { app: app.clone(), failure };
    let rested = |rest| MessageEvent::Parked { state: rest, reason: name.into() };
    let ended = |end| MessageEvent::Ended { final_state: end, reason: "because".into() };
    match what {
        "sent" => MessageEvent::Sent { app },
        "ack" => answered(AppResponse::Ack),
        "reject" => answered(AppResponse::Reject { reason: None }),
        "notice" => answered(AppResponse::Notice(AppNotice {
            title: name.into(),
            body: "done".into(),
            priority: NoticePriority::Normal,
            expects_reply: false,
        })),
        "timeout" => failed(AttemptFailure::Timeout),
        "gone" => failed(AttemptFailure::Disconnected),
        "cut" => failed(AttemptFailure::Interrupted),
        "waits" => rested(ParkedState::Queued),
        "held" => rested(ParkedState::Held),
        "refused" => ended(FinalState::Refused),
        "expired" => ended(FinalState::Expired),
        "cancelled" => ended(FinalState::Cancelled),
        "reopened" => MessageEvent::Reopened { app: (!name.is_empty()).then_some(app), by: "me".into() },
        "direct" => MessageEvent::Decided(Arc::new(RoutingDecision {
            stage: RoutingStage::Direct,
            apps: vec![app],
            text: Some("buy milk".into()),
            reason: "".into(),
            candidates: Vec::new(),
        })),
        other => panic!("{other}"),
    }
}

fn fold(only: Option<&str>, words: &[&str]) -> MessageReport {
    let mut events = vec![MessageEvent::Submitted(utterance(only))];
    events.extend(words.iter().map(|word| event(word)));
    let records =
        events.iter().zip(1u32..).map(|(event, number)| (Seq(u64::from(number)), at(i64::from(number) - 1), event));
    MessageReport::replay(MessageId(Uuid::from_u128(7)), records).unwrap()
}

fn check(words: &[&str], expected: &str) {
    assert_eq!(short(&fold(None, words)), expected, "{words:?}");
}

#[test]
fn one_app() {
    check(&[], "queued");
    check(&["sent a"], "sent | a sent");
    check(&["sent a", "ack a"], "delivered | a delivered");
    check(&["sent a", "reject a"], "queued | a rejected: No reason provided");
    check(&["sent a", "timeout a"], "queued | a timeout: Response timeout");
    check(&["sent a", "gone a"], "queued | a disconnected: Client disconnected");
    check(&["sent a", "cut a"], "queued | a disconnected: Server restarted before an answer came");
}

#[test]
fn reporting_on_it_is_taking_it_but_a_refusal_stands() {
    check(&["sent a", "notice a"], "delivered | a delivered");
    check(&["sent a", "timeout a", "notice a"], "delivered | a delivered");
    check(&["sent a", "reject a", "notice a"], "queued | a rejected: No reason provided");
}

#[test]
fn late_answers_count() {
    check(&["sent a", "timeout a", "sent b", "ack a"], "delivered | a delivered | b sent");
    check(
        &["sent a", "timeout a", "sent b", "ack a", "reject b"],
        "delivered | a delivered | b rejected: No reason provided",
    );
    check(&["sent a", "timeout a", "refused", "ack a"], "delivered | a delivered");
    check(&["sent a", "ack a", "reject a"], "queued | a rejected: No reason provided");
    check(&["sent a", "reject a", "ack a"], "delivered | a delivered");
}

#[test]
fn several_apps() {
    check(&["sent a", "sent b", "ack a"], "delivered | a delivered | b sent");
    check(&["sent a", "sent b", "reject a"], "sent | a rejected: No reason provided | b sent");
    check(&["sent a", "sent b", "ack a", "reject a"], "sent | a rejected: No reason provided | b sent");
    let refused = "queued | a rejected: No reason provided | b timeout: Response timeout";
    check(&["sent a", "sent b", "reject a", "timeout b"], refused);
}

#[test]
fn nothing_but_an_app_that_has_it_undoes_an_end() {
    check(
        &["sent a", "sent b", "cancelled", "reject a"],
        "cancelled (because) | a rejected: No reason provided | b sent",
    );
    check(&["sent a", "cancelled", "timeout a"], "cancelled (because) | a timeout: Response timeout");
    check(&["sent a", "cancelled", "ack a"], "delivered | a delivered");
    check(&["expired"], "expired (because)");
}

#[test]
fn what_was_taken_and_then_given_up_stays_where_it_is() {
    check(&["sent a", "ack a", "cancelled"], "delivered (because) | a delivered");
    check(&["sent a", "ack a", "cancelled", "notice a"], "delivered (because) | a delivered");
    check(
        &["sent a", "sent b", "ack a", "cancelled", "reject a"],
        "cancelled (because) | a rejected: No reason provided | b sent",
    );
    check(&["sent a", "ack a", "cancelled", "reopened b", "sent b"], "sent | past a delivered | b sent");
    check(
        &["sent a", "ack a", "cancelled", "reopened b", "sent b", "reject b"],
        "queued | past a delivered | b rejected: No reason provided",
    );
}

#[test]
fn the_app_it_is_addressed_to() {
    let addressed = |words: &[&str]| fold(None, words).addressed_app.as_deref().map(str::to_owned);
    assert_eq!(addressed(&["sent a"]), None);
    assert_eq!(addressed(&["direct a"]).as_deref(), Some("a"));
    assert_eq!(addressed(&["direct a", "sent a", "timeout a"]).as_deref(), Some("a"));
    assert_eq!(addressed(&["direct a", "sent a", "reject a", "reopened"]), None);
}

#[test]
fn how_often_an_app_said_nothing() {
    let unanswered = |words: &[&str]| fold(None, words).is_unanswered_by("A");
    assert!(!unanswered(&["sent a", "timeout a", "sent a", "gone a", "sent b", "gone b"]));
    assert!(unanswered(&["sent a", "timeout a", "sent a", "gone a", "sent a", "cut a"]));
    assert!(!unanswered(&["sent a", "timeout a", "reopened", "sent a", "gone a", "sent a", "cut a"]));
}

#[test]
fn a_late_refusal_does_not_change_what_it_waits_for() {
    check(&["sent a", "timeout a", "held who", "reject a"], "held (who) | a rejected: No reason provided");
    check(&["sent a", "timeout a", "waits for b", "reject a"], "queued (for b) | a rejected: No reason provided");
    check(&["held who", "sent a"], "sent | a sent");
}

#[test]
fn sent_again_by_a_person() {
    check(&["sent a", "ack a", "reopened"], "queued | past a delivered");
    check(&["sent a", "ack a", "reopened b", "sent b"], "sent | past a delivered | b sent");
    // What it meant before still reports: that is no reason not to bring it where the person said.
    check(&["sent a", "ack a", "reopened b", "waits for b", "notice a"], "queued (for b) | past a delivered");
    check(&["sent a", "reopened b", "waits for b", "ack a"], "queued (for b) | past a delivered");
    // Sent again because nothing was heard, and then something is: no need to send it a second time.
    check(&["sent a", "timeout a", "reopened", "waits why", "ack a"], "delivered | a delivered");
    check(&["sent a", "reopened", "held why", "reject a"], "held (why) | past a rejected: No reason provided");
}

#[test]
fn what_a_person_says_replaces_whom_it_is_for() {
    let pinned = |only, words: &[&str]| fold(only, words).pinned_app.map(|app| app.to_string());
    assert_eq!(pinned(None, &[]), None);
    assert_eq!(pinned(Some("a"), &[]).as_deref(), Some("a"));
    assert_eq!(pinned(None, &["reopened b"]).as_deref(), Some("b"));
    assert_eq!(pinned(None, &["reopened b", "reopened"]), None);
    assert_eq!(pinned(Some("a"), &["reopened b"]).as_deref(), Some("b"));
    assert_eq!(pinned(Some("a"), &["reopened"]).as_deref(), Some("a"), "it was for one app and no other");
}

#[test]
fn sent_again_it_has_its_time_anew() {
    assert_eq!(fold(None, &["held why"]).expires_at(), at(100));
    assert_eq!(fold(None, &["expired", "reopened"]).expires_at(), at(102));
}

#[test]
fn names_are_the_same_in_any_case() {
    check(&["sent Notebook", "ack notebook"], "delivered | Notebook delivered");
    assert!(fold(None, &["sent Notebook", "reject notebook"]).has_tried("NOTEBOOK"));
}

#[test]
fn whoever_merely_went_away_may_have_it_again() {
    let tried = |words: &[&str]| fold(None, words).has_tried("a");
    assert!(!tried(&[]));
    assert!(!tried(&["sent a", "gone a"]));
    assert!(!tried(&["sent a", "gone a", "sent a", "cut a"]));
    assert!(tried(&["sent a", "gone a", "sent a", "cut a", "sent a", "gone a"]), "three times is enough");
    for word in ["sent a", "ack a", "reject a", "timeout a"] {
        assert!(tried(&["sent a", word]), "{word}");
        assert!(!tried(&["sent a", word, "reopened"]), "{word}, sent again");
    }
}

#[test]
fn who_is_still_to_answer() {
    let pending = |words: &[&str]| {
        let report = fold(None, words);
        report.pending().map(|attempt| attempt.app.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(pending(&["sent a", "sent b", "ack a"]), ["b"]);
    assert_eq!(pending(&["sent a", "reopened b", "sent b"]), ["b"]);
    assert_eq!(pending(&["sent a", "cancelled"]), [""; 0]);
}

#[test]
fn the_words_without_the_name() {
    assert_eq!(fold(None, &["direct notebook"]).stripped_text().map(|words| &**words), Some("buy milk"));
    assert_eq!(fold(None, &[]).stripped_text(), None);
}

#[test]
fn refusals_are_those_since_it_was_last_sent() {
    let report = fold(None, &["sent a", "reject a", "reopened", "sent b", "timeout b", "sent c", "gone c", "sent d"]);
    let refusals: Vec<String> = report.refusals().iter().map(|(app, reason)| format!("{app}: {reason}")).collect();
    assert_eq!(refusals, ["b: Response timeout", "c: Client disconnected"]);
}

#[test]
fn notices_are_kept_within_bounds() {
    let mut words = vec!["sent a"];
    words.extend(["notice a"; MAX_NOTICES + 1]);
    assert_eq!(fold(None, &words).notices.len(), MAX_NOTICES);

    let mut report = fold(None, &["sent a"]);
    let long = "x".repeat(MAX_NOTICE_BYTES / 2);
    for seq in 3..6 {
        let notice = AppNotice {
            title: "".into(),
            body: long.as_str().into(),
            priority: NoticePriority::Low,
            expects_reply: false,
        };
        let answered = MessageEvent::Answered { app: "a".into(), response: AppResponse::Notice(notice) };
        report.apply(Seq(seq), at(seq.cast_signed()), &answered);
    }
    assert_eq!(report.notices.len(), 2);
}

#[test]
fn a_log_begins_with_what_was_said() {
    let sent = event("sent a");
    assert_eq!(MessageReport::replay(MessageId(Uuid::nil()), [(Seq::FIRST, at(0), &sent)]), None);
    assert_eq!(MessageReport::replay(MessageId(Uuid::nil()), []), None);
}

#[test]
fn states_have_one_name_each() {
    for state in MessageState::ALL {
        assert_eq!(MessageState::parse(state.name()), Some(state));
    }
    assert_eq!(MessageState::parse("lost"), None);
}
