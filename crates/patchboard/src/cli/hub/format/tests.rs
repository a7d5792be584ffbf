use jiff::tz::TimeZone;
use serde_json::json;

use super::{
    PrintedProgress, candidates, decision, headline, next_step, next_step_of_held, notification, timeline,
    waits_for_app,
};
use crate::cli::hub::report::{AppNotification, MessageReport, parse};

fn report(value: &serde_json::Value) -> MessageReport {
    parse(value).unwrap()
}

#[test]
fn headlines() {
    let of = |value| headline(&report(&value));
    assert_eq!(of(json!({ "id": "msg-1", "state": "sent" })), "msg-1 sent");
    assert_eq!(of(json!({ "id": "msg-1", "state": "held", "reason": "a\u{7}b" })), "msg-1 held: a\\u{7}b");
}

#[test]
fn decisions_and_their_candidates() {
    let message = report(&json!({ "decisions": [
        { "stage": "matcher", "clients": ["a", "b"], "reason": "both fit", "candidates": [
            { "client": "a", "score": 3.5, "confidence": 0.456, "why": ["x", "y"] },
            { "client": "c", "confidence": 7.0 },
        ] },
        { "stage": "nobody", "clients": [], "reason": "nobody fits" },
    ] }));
    let [one, two] = message.decisions.as_slice() else { panic!("{message:?}") };
    assert_eq!(decision(one), "to a and b (by matcher): both fit");
    assert_eq!(candidates(one), ["a 46 %: x; y", "c 100 %"]);
    assert_eq!(decision(two), "to nobody: nobody fits");
}

#[test]
fn notifications() {
    let of = |title: &str, body: &str, priority: &str| {
        let [title, body, priority] = [title, body, priority].map(str::to_owned);
        notification(&AppNotification { client: "notes".to_owned(), title, body, priority })
    };
    assert_eq!(of("notes", "Saved.", "normal"), "notes: Saved.");
    assert_eq!(of("Done", "Saved.", "low"), "notes: Done: Saved.");
    assert_eq!(of("Done", "", "high"), "notes (important): Done");
    assert_eq!(of("notes", "two\nlines\u{1b}", "normal"), "notes: two\n  lines\\u{1b}");
}

#[test]
fn only_news_is_told() {
    let mut progress = PrintedProgress::default();
    let one = json!({ "stage": "direct", "clients": ["notes"], "reason": "named" });
    let two = json!({ "stage": "next-best", "clients": ["tasks"], "reason": "refused before" });
    let first = report(&json!({ "decisions": [one], "attempts": [{ "client": "notes", "state": "sent" }] }));
    assert_eq!(progress.take_new_lines(&first), ["to notes (by direct): named"]);
    assert!(progress.take_new_lines(&first).is_empty());
    let second = report(&json!({
        "decisions": [one, two],
        "attempts": [
            { "client": "notes", "state": "rejected", "reason": "not mine" },
            { "client": "tasks", "state": "sent" },
        ],
    }));
    assert_eq!(
        progress.take_new_lines(&second),
        ["to tasks (by next-best): refused before", "notes refused it: not mine"]
    );
    let third = report(&json!({
        "decisions": [one, two],
        "attempts": [
            { "client": "notes", "state": "rejected", "reason": "not mine" },
            { "client": "tasks", "state": "delivered" },
        ],
        "notifications": [{ "client": "tasks", "title": "tasks", "body": "Added." }],
    }));
    assert_eq!(progress.take_new_lines(&third), ["tasks acknowledged it", "tasks: Added."]);
    let nobody = json!({ "stage": "nobody", "clients": [], "reason": "nobody fits" });
    assert!(
        PrintedProgress::default().take_new_lines(&report(&json!({ "decisions": [nobody] }))).is_empty(),
        "the headline says so"
    );
    assert!(progress.take_new_lines(&third).is_empty());
}

#[test]
fn a_whole_message() {
    let message = report(&json!({
        "id": "msg-1", "text": "buy\nmilk", "state": "delivered", "submitted_at": "T1", "expires_at": "T2",
        "inputMethod": "voice", "confidence": 0.5, "version": 9,
        "decisions": [{ "stage": "matcher", "clients": ["notes"], "reason": "fits", "candidates": [
            { "client": "notes", "confidence": 0.9, "why": ["w"] },
        ] }],
        "attempts": [
            { "client": "notes", "state": "timeout", "stage": "matcher", "sent_at": "T3", "reason": "Response timeout" },
            { "client": "tasks", "state": "delivered", "stage": "next-best", "sent_at": "T4" },
        ],
        "notifications": [{ "client": "tasks", "title": "tasks", "body": "Added.", "priority": "normal" }],
    }));
    let wanted = [
        "msg-1 delivered",
        "text        buy\n            milk",
        "said        T1 (voice, heard with confidence 0.5)",
        "kept until  T2",
        "routed      to notes (by matcher): fits",
        "  candidate notes 90 %: w",
        "sent        T3 (by matcher): notes did not answer in time",
        "sent        T4 (by next-best): tasks acknowledged it",
        "told        tasks: Added.",
    ];
    assert_eq!(timeline(&message, &TimeZone::UTC), wanted);
}

#[test]
fn what_does_not_go_on_by_itself_says_what_to_type() {
    let reason = "notes refused it: no. Really. Choose with `patchboard hub route msg-1 APP`";
    let held_report = report(&json!({ "id": "msg-1", "state": "held", "reason": reason }));
    assert_eq!(headline(&held_report), "msg-1 held: notes refused it: no. Really");
    assert_eq!(next_step(&held_report).as_deref(), Some("next: patchboard hub route msg-1 APP"));
    assert_eq!(timeline(&held_report, &TimeZone::UTC)[1], "next: patchboard hub route msg-1 APP");
    // As an older hub says it.
    let older = report(&json!({ "id": "msg-2", "state": "held", "reason": "nobody fits" }));
    assert_eq!(headline(&older), "msg-2 held: nobody fits");
    assert_eq!(next_step(&older).as_deref(), Some("next: patchboard hub route msg-2 APP"));
    let of = |state: &str| next_step(&report(&json!({ "id": "msg-3", "state": state })));
    assert_eq!(of("refused").as_deref(), Some("next: patchboard hub resend msg-3"));
    assert_eq!((of("sent"), of("delivered"), of("queued"), of("cancelled")), (None, None, None, None));
    let listed = |reports: &[&MessageReport]| next_step_of_held(&reports.iter().copied().cloned().collect::<Vec<_>>());
    assert_eq!(listed(&[]), None);
    assert_eq!(listed(&[&held_report]), next_step(&held_report));
    assert_eq!(
        listed(&[&held_report, &older]).as_deref(),
        Some("next, for each of the 2 held: patchboard hub route ID APP")
    );
}

#[test]
fn without_an_app_it_is_said_what_the_message_waits_for() {
    let of = |state: &str, reason: &str| waits_for_app(&report(&json!({ "state": state, "reason": reason })));
    assert!(of("queued", "no app is connected").is_some_and(|hint| hint.contains("`patchboard hub clients --all`")));
    assert_eq!(of("queued", "notes is not connected"), None);
    assert_eq!(of("expired", "no app is connected"), None);
}
