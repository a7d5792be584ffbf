use std::time::Duration;

use super::{Outlook, Wait, confidence, outlook, text_and_wait};
use crate::cli::hub::report::{Attempt, Notification, Report};

#[test]
fn text_and_seconds_are_told_apart() {
    let read = |text: Option<&str>, wait: Option<Option<&str>>| {
        text_and_wait(text.map(str::to_owned), wait.map(|wait| wait.map(str::to_owned))).ok()
    };
    let of = |text: &str, wait| Some((text.to_owned(), wait));
    assert_eq!(read(Some("hi"), None), of("hi", Wait::No));
    assert_eq!(read(Some("hi"), Some(None)), of("hi", Wait::UntilItRests));
    assert_eq!(read(Some("hi"), Some(Some("5"))), of("hi", Wait::For(Duration::from_secs(5))));
    assert_eq!(read(None, Some(Some("hi there"))), of("hi there", Wait::UntilItRests));
    assert_eq!(read(None, Some(Some("42"))), of("42", Wait::UntilItRests));
    for nonsense in ["x", "-1", "1.5", "86401", ""] {
        assert_eq!(read(Some("hi"), Some(Some(nonsense))), None, "{nonsense}");
    }
    assert_eq!(read(None, None), None);
    assert_eq!(read(None, Some(None)), None);
}

#[test]
fn what_is_still_to_come() {
    let of = |state: &str| Report { state: state.to_owned(), ..Report::default() };
    let because = |state: &str| Report { reason: Some("no app is connected".to_owned()), ..of(state) };
    let pending = Attempt { state: "sent".to_owned(), ..Attempt::default() };
    let rests = Wait::UntilItRests;
    let minute = Wait::For(Duration::from_secs(60));
    let cases = [
        (of("sent"), Wait::No, Outlook::Nothing),
        (of("sent"), rests, Outlook::Answers),
        (of("queued"), rests, Outlook::Answers),
        (because("queued"), rests, Outlook::Nothing),
        (because("queued"), minute, Outlook::Answers),
        (because("held"), minute, Outlook::Nothing),
        (of("delivered"), rests, Outlook::Afterword),
        (of("delivered"), minute, Outlook::Afterword),
        (Report { attempts: vec![pending], ..of("delivered") }, rests, Outlook::Answers),
        (Report { notifications: vec![Notification::default()], ..of("delivered") }, minute, Outlook::Nothing),
        (because("refused"), minute, Outlook::Nothing),
        (of("expired"), minute, Outlook::Nothing),
        (of("something new"), minute, Outlook::Nothing),
    ];
    for (report, wait, wanted) in cases {
        assert_eq!(outlook(&report, wait), wanted, "{report:?} {wait:?}");
    }
}

#[test]
fn confidences() {
    for (text, wanted) in [("0", Some(0.0)), ("0.87", Some(0.87)), ("1", Some(1.0)), ("1.1", None), ("nan", None)] {
        assert_eq!(confidence(text).ok(), wanted, "{text}");
    }
}
