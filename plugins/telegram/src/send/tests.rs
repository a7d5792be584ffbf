use serde_json::{Value, json};

use super::*;

fn bodies(content: &str, context: &Context, reply_to: &str) -> Vec<Value> {
    let settings = Settings::read(|key| (key == "reply_to").then(|| reply_to.to_owned()));
    let posts = posts(content, context, &settings);
    for post in &posts {
        assert_eq!(post.url, "https://api.telegram.org/bot{{secret:bot_token}}/sendMessage");
    }
    posts.iter().map(|post| serde_json::from_str(&post.body).expect("a body is JSON")).collect()
}

const CHAT: Context = Context { chat: -5, message: 6, thread: None };

#[test]
fn an_answer_points_at_its_question() {
    assert_eq!(
        bodies("hi \"you\"", &CHAT, "true"),
        [json!({
            "chat_id": -5, "text": "hi \"you\"",
            "reply_parameters": { "message_id": 6, "allow_sending_without_reply": true },
        })]
    );
    assert_eq!(bodies("hi", &CHAT, "false"), [json!({ "chat_id": -5, "text": "hi" })]);
}

#[test]
fn an_answer_stays_in_its_topic() {
    let topic = Context { thread: Some(9), ..CHAT };
    assert_eq!(bodies("hi", &topic, "false"), [json!({ "chat_id": -5, "text": "hi", "message_thread_id": 9 })]);
}

#[test]
fn long_answers_are_several_messages_and_only_the_first_points() {
    // Every one of these characters counts two.
    let words = "😀".repeat(2047);
    let found = bodies(&format!("{words} {words}\n\n{words}"), &CHAT, "true");
    let texts: Vec<&str> = found.iter().filter_map(|body| body.get("text")?.as_str()).collect();
    assert_eq!(texts, [&words, &words, &words]);
    let points: Vec<bool> = found.iter().map(|body| body.get("reply_parameters").is_some()).collect();
    assert_eq!(points, [true, false, false]);
}

#[test]
fn silence_is_not_sent() {
    assert_eq!(bodies(" \n", &CHAT, "true"), Vec::<Value>::new());
}
