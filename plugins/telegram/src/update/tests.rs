use serde_json::{Value, json};

use super::*;

fn read_with(chats: &str, update: &Value) -> Result<Meaning, String> {
    let settings = Settings::read(|key| (key == "allowed_chats").then(|| chats.to_owned()));
    read(update.to_string().as_bytes(), &settings)
}

fn check(update: &Value, expected: &Meaning) {
    assert_eq!(read_with("", update).as_ref(), Ok(expected), "{update}");
}

fn ignored(why: &str) -> Meaning {
    Meaning::Ignored(why.to_owned())
}

fn heard(account: Option<&str>, peer: &str, content: &str, context: Context) -> Meaning {
    Meaning::Message(Heard {
        id: "900".to_owned(),
        account: account.map(str::to_owned),
        peer: peer.to_owned(),
        content: content.to_owned(),
        context,
    })
}

fn message(more: &Value) -> Value {
    let mut message = json!({
        "message_id": 5, "date": 1_700_000_000,
        "from": { "id": 42, "is_bot": false, "first_name": "Ada", "language_code": "en" },
        "chat": { "id": 42, "type": "private", "first_name": "Ada" },
    });
    if let (Some(message), Some(more)) = (message.as_object_mut(), more.as_object()) {
        message.extend(more.clone());
    }
    json!({ "update_id": 900, "message": message })
}

#[test]
fn private_messages() {
    let context = || Context { chat: 42, message: 5, thread: None };
    check(&message(&json!({ "text": "hello" })), &heard(Some("42"), "42", "hello", context()));
    check(
        &message(&json!({ "caption": "look", "photo": [{ "file_id": "x" }] })),
        &heard(Some("42"), "42", "look", context()),
    );
}

#[test]
fn groups_topics_and_chains_of_replies() {
    let group = |more: Value| {
        let mut all = json!({ "chat": { "id": -100, "type": "supergroup", "title": "Desk" }, "text": "hi" });
        if let (Some(all), Some(more)) = (all.as_object_mut(), more.as_object()) {
            all.extend(more.clone());
        }
        message(&all)
    };
    let at = |thread| Context { chat: -100, message: 5, thread };
    check(&group(json!({})), &heard(Some("42"), "-100", "hi", at(None)));
    check(&group(json!({ "message_thread_id": 7 })), &heard(Some("42"), "-100:7", "hi", at(Some(7))));
    let reply = json!({ "message_thread_id": 7, "reply_to_message": { "message_id": 7 } });
    check(&group(reply), &heard(Some("42"), "-100", "hi", at(None)));
    let topic = json!({ "message_thread_id": 7, "is_topic_message": true, "reply_to_message": { "message_id": 7 } });
    check(&group(topic), &heard(Some("42"), "-100:7", "hi", at(Some(7))));
}

#[test]
fn words_of_chats() {
    let post = json!({ "update_id": 900, "channel_post": {
        "message_id": 5, "chat": { "id": -9, "type": "channel" }, "sender_chat": { "id": -9 }, "text": "news",
    }});
    check(&post, &heard(Some("-9"), "-9", "news", Context { chat: -9, message: 5, thread: None }));
    let anonymous = json!({
        "from": { "id": 1, "is_bot": true }, "sender_chat": { "id": -100 }, "chat": { "id": -100 }, "text": "psst",
    });
    check(&message(&anonymous), &heard(Some("-100"), "-100", "psst", Context { chat: -100, message: 5, thread: None }));
}

#[test]
fn what_is_not_for_us() {
    let neither = ignored("an update that is neither a new message nor a new post");
    check(&json!({ "update_id": 1, "edited_message": { "message_id": 5 } }), &neither);
    check(&json!({ "update_id": 1, "callback_query": {} }), &neither);
    let bot = json!({ "from": { "id": 8, "is_bot": true }, "text": "beep" });
    check(&message(&bot), &ignored("a message of a bot"));
    check(&message(&json!({ "sticker": {} })), &ignored("a message without words"));
    check(&message(&json!({ "text": "  " })), &ignored("a message without words"));
    let copy = json!({ "is_automatic_forward": true, "sender_chat": { "id": -9 }, "text": "news" });
    check(&message(&copy), &ignored("a copy of a post that Telegram put into the channel's group"));
}

#[test]
fn only_allowed_chats_are_heard() {
    let update = message(&json!({ "text": "hello" }));
    assert!(matches!(read_with("41, 42", &update), Ok(Meaning::Message(_))));
    assert_eq!(read_with("41", &update), Ok(ignored("chat 42 is not among `allowed_chats`")));
}

#[test]
fn other_bodies_are_mistakes() {
    let settings = Settings::read(|_| None);
    for body in ["", "[]", "{}", "nonsense", r#"{"update_id":1,"message":{"message_id":5}}"#] {
        let error = read(body.as_bytes(), &settings).expect_err(body);
        assert!(error.starts_with("the body is not a Telegram update: "), "{error}");
    }
}

#[test]
fn a_context_survives_the_way_through_the_host() {
    for thread in [None, Some(3)] {
        let context = Context { chat: -5, message: 6, thread };
        assert_eq!(Context::read(&context.write()), Ok(context));
    }
    assert!(Context::read("{}").is_err());
}
