use serde_json::{Value, json};

use super::*;

fn bodies(content: &str, thread: Option<&str>) -> Vec<Value> {
    let context = Context { channel: "C1".to_owned(), thread: thread.map(str::to_owned) };
    let posts = posts(content, &context, &Settings::read(|_| None));
    for post in &posts {
        assert_eq!(post.url, "https://slack.com/api/chat.postMessage");
    }
    posts.iter().map(|post| serde_json::from_str(&post.body).expect("a body is JSON")).collect()
}

#[test]
fn answers_stay_where_they_were_asked_for() {
    assert_eq!(
        bodies("1 < 2 & <!channel>", None),
        [json!({ "channel": "C1", "text": "1 &lt; 2 &amp; &lt;!channel&gt;" })]
    );
    assert_eq!(bodies("hi", Some("1.2")), [json!({ "channel": "C1", "text": "hi", "thread_ts": "1.2" })]);
    assert_eq!(bodies(" ", None), Vec::<Value>::new());
}

#[test]
fn long_answers_are_several_messages_and_no_escape_is_cut() {
    let found = bodies(&"<".repeat(2500), None);
    let lengths: Vec<usize> =
        found.iter().filter_map(|body| Some(body.get("text")?.as_str()?.chars().count())).collect();
    assert_eq!(lengths, [4000, 4000, 2000]);
}
