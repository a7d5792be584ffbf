use serde_json::{Value, json};

use super::*;

fn check_with(reply_in_thread: &str, body: &Value, expected: &Result<Meaning, &str>) {
    let settings = Settings::read(|key| (key == "reply_in_thread").then(|| reply_in_thread.to_owned()));
    let found = read(body.to_string().as_bytes(), &settings);
    assert_eq!(found.as_ref().map_err(String::as_str), expected.as_ref().map_err(|why| *why), "{body}");
}

fn check(body: &Value, expected: Meaning) {
    check_with("false", body, &Ok(expected));
}

fn event(event: &Value) -> Value {
    json!({
        "type": "event_callback", "team_id": "T1", "api_app_id": "A1", "event_id": "Ev1", "event_time": 1_700_000_000,
        "authorizations": [{ "team_id": "T1", "user_id": "UBOT", "is_bot": true }], "event": event,
    })
}

fn heard(peer: &str, content: &str, thread: Option<&str>) -> Meaning {
    Meaning::Message(Heard {
        id: "C1:1700000000.000100".to_owned(),
        account: "U1".to_owned(),
        peer: peer.to_owned(),
        team: Some("T1".to_owned()),
        content: content.to_owned(),
        context: Context { channel: "C1".to_owned(), thread: thread.map(str::to_owned) },
    })
}

fn words(kind: &str, text: &str) -> Value {
    json!({ "type": kind, "user": "U1", "channel": "C1", "ts": "1700000000.000100", "text": text })
}

fn with(mut event: Value, key: &str, value: &str) -> Value {
    if let Some(event) = event.as_object_mut() {
        event.insert(key.to_owned(), json!(value));
    }
    event
}

#[test]
fn the_challenge_is_answered() {
    check(
        &json!({ "type": "url_verification", "token": "x", "challenge": "abc" }),
        Meaning::Answered("text/plain", "abc".to_owned()),
    );
    check_with("false", &json!({ "type": "url_verification" }), &Err("a `url_verification` without a challenge"));
}

#[test]
fn a_mention_and_the_message_it_stands_in_are_one() {
    let expected = || heard("C1", "what is 1 < 2?", None);
    check(&event(&words("message", "<@UBOT> what is 1 &lt; 2?")), expected());
    check(&event(&words("app_mention", "<@UBOT> what is 1 &lt; 2?")), expected());
    check(&event(&words("message", "what is 1 &lt; 2?")), expected());
}

#[test]
fn the_person_who_installed_the_app_is_heard() {
    let mut body = event(&words("message", "hi"));
    if let Some(body) = body.as_object_mut() {
        body.insert("authorizations".to_owned(), json!([{ "team_id": "T1", "user_id": "U1", "is_bot": false }]));
    }
    check(&body, heard("C1", "hi", None));
}

#[test]
fn mentions_of_others_stay() {
    check(&event(&words("message", "<@U7> hello")), heard("C1", "@U7 hello", None));
}

#[test]
fn threads_are_conversations_of_their_own() {
    let thread = Some("1699999999.000001");
    let in_thread = with(words("message", "hi"), "thread_ts", "1699999999.000001");
    check(&event(&in_thread), heard("C1:1699999999.000001", "hi", thread));
    let own_thread = heard("C1:1700000000.000100", "hi", Some("1700000000.000100"));
    check_with("true", &event(&words("message", "hi")), &Ok(own_thread));
    check_with("true", &event(&in_thread), &Ok(heard("C1:1699999999.000001", "hi", thread)));
}

#[test]
fn what_is_not_for_us() {
    for (event_, why) in [
        (with(words("message", "hi"), "subtype", "message_changed"), "a message of subtype `message_changed`"),
        (with(words("message", "hi"), "bot_id", "B1"), "a message of a bot"),
        (with(words("message", "hi"), "user", "UBOT"), "a message of a bot"),
        (words("app_mention", "<@UBOT> "), "a message without words"),
        (words("reaction_added", ""), "an event of type `reaction_added`"),
        (json!({ "type": "message", "text": "hi" }), "a message without an author, a channel or a time"),
    ] {
        check(&event(&event_), Meaning::Ignored(why.to_owned()));
    }
    let limited = json!({ "type": "app_rate_limited", "team_id": "T1" });
    check(&limited, Meaning::Ignored("a delivery of type `app_rate_limited`".to_owned()));
}

#[test]
fn other_bodies_are_mistakes() {
    check_with("false", &json!({ "type": "event_callback" }), &Err("an `event_callback` without an event"));
    for body in ["", "[]", "{}", "payload=x"] {
        let error = read(body.as_bytes(), &Settings::read(|_| None)).expect_err(body);
        assert!(error.starts_with("the body is not of Slack's Events API: "), "{error}");
    }
}
