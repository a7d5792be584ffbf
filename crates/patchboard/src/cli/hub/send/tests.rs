use std::time::Duration;

use super::{ExpectedUpdates, WaitMode, confidence, expected_updates, text_and_wait};
use crate::cli::hub::report::{AppNotification, DeliveryAttempt, MessageReport};

#[test]
fn text_and_seconds_are_told_apart() {
    let read = |text: Option<&str>, wait: Option<Option<&str>>| {
        text_and_wait(text.map(str::to_owned), wait.map(|wait| wait.map(str::to_owned))).ok()
    };
    let of = |text: &str, wait| Some((text.to_owned(), wait));
    assert_eq!(read(Some("hi"), None), of("hi", WaitMode::No));
    assert_eq!(read(Some("hi"), Some(None)), of("hi", WaitMode::UntilSettled));
    assert_eq!(read(Some("hi"), Some(Some("5"))), of("hi", WaitMode::UpTo(Duration::from_secs(5))));
    assert_eq!(read(None, Some(Some("hi there"))), of("hi there", WaitMode::UntilSettled));
    assert_eq!(read(None, Some(Some("42"))), of("42", WaitMode::UntilSettled));
    for nonsense in ["x", "-1", "1.5", "86401", ""] {
        assert_eq!(read(Some("hi"), Some(Some(nonsense))), None, "{nonsense}");
    }
    assert_eq!(read(None, None), None);
    assert_eq!(read(None, Some(None)), None);
}

#[test]
fn what_is_still_to_come() {
    let of = |state: &str| MessageReport { state: state.to_owned(), ..MessageReport::default() };
    let because = |state: &str| MessageReport { reason: Some("no app is connected".to_owned()), ..of(state) };
    let pending = DeliveryAttempt { state: "sent".to_owned(), ..DeliveryAttempt::default() };
    let rests = WaitMode::UntilSettled;
    let minute = WaitMode::UpTo(Duration::from_secs(60));
    let cases = [
        (of("sent"), WaitMode::No, ExpectedUpdates::NoMore),
        (of("sent"), rests, ExpectedUpdates::Answers),
        (of("queued"), rests, ExpectedUpdates::Answers),
        (because("queued"), rests, ExpectedUpdates::NoMore),
        (because("queued"), minute, ExpectedUpdates::Answers),
        (because("held"), minute, ExpectedUpdates::NoMore),
        (of("delivered"), rests, ExpectedUpdates::FollowUp),
        (of("delivered"), minute, ExpectedUpdates::FollowUp),
        (MessageReport { attempts: vec![pending], ..of("delivered") }, rests, ExpectedUpdates::Answers),
        (
            MessageReport { notifications: vec![AppNotification::default()], ..of("delivered") },
            minute,
            ExpectedUpdates::NoMore,
        ),
        (because("refused"), minute, ExpectedUpdates::NoMore),
        (of("expired"), minute, ExpectedUpdates::NoMore),
        (of("something new"), minute, ExpectedUpdates::NoMore),
    ];
    for (report, wait, expected) in cases {
        assert_eq!(expected_updates(&report, wait), expected, "{report:?} {wait:?}");
    }
}

#[test]
fn confidences() {
    for (text, expected) in [("0", Some(0.0)), ("0.87", Some(0.87)), ("1", Some(1.0)), ("1.1", None), ("nan", None)] {
        assert_eq!(confidence(text).ok(), expected, "{text}");
    }
}
