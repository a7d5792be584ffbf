//! Utterances over HTTP without connected apps.

use tokio::time::Instant;

use super::*;

#[tokio::test]
async fn an_utterance_is_taken_and_shown() {
    let bench = Bench::new();
    let message =
        bench.post("/v1/messages", json!({"text": "buy milk", "inputMethod": "voice", "confidence": 0.95})).await;
    assert_eq!((message.status, message.header("cache-control")), (202, "no-store"));
    let message = message.json();
    let id = message["id"].as_str().unwrap();
    assert!(id.starts_with("msg-"), "{message}");
    assert_eq!((&message["text"], &message["state"]), (&json!("buy milk"), &json!("queued")));
    assert_eq!((&message["inputMethod"], &message["confidence"]), (&json!("voice"), &json!(0.95)));
    let shown = bench.get(&format!("/v1/messages/{id}")).await;
    assert_eq!(shown.status, 200);
    let shown = shown.json();
    let keys: Vec<&str> = shown.as_object().unwrap().keys().map(String::as_str).collect();
    for key in ["attempts", "decisions", "expires_at", "notifications", "submitted_at", "version"] {
        assert!(keys.contains(&key), "{key} of {shown}");
    }
    assert_eq!((&shown["attempts"], &shown["notifications"]), (&json!([]), &json!([])));
    assert_eq!(shown["submitted_at"], "2026-11-15T12:00:00.000Z");
    // Without its prefix it is the same message.
    let bare = bench.get(&format!("/v1/messages/{}", id.trim_start_matches("msg-"))).await;
    assert_eq!(bare.json()["id"], id);
}

#[tokio::test]
async fn what_is_no_utterance_is_refused() {
    let bench = Bench::new();
    let long = json!({"text": "x".repeat(64 * 1024 + 1)}).to_string();
    for body in [
        "",
        "{",
        "null",
        "[]",
        r#""text""#,
        "{}",
        r#"{"text":null}"#,
        r#"{"text":5}"#,
        r#"{"text":""}"#,
        r#"{"text":" \n\ufeff"}"#,
        r#"{"text":"x","inputMethod":"smell"}"#,
        r#"{"text":"x","inputMethod":null}"#,
        r#"{"text":"x","confidence":0.5}"#,
        r#"{"text":"x","inputMethod":"text","confidence":0.5}"#,
        r#"{"text":"x","inputMethod":"voice","confidence":1.1}"#,
        r#"{"text":"x","inputMethod":"voice","confidence":-0.1}"#,
        r#"{"text":"x","inputMethod":"voice","confidence":"1"}"#,
        r#"{"text":"x","inputMethod":"voice","confidence":1e999}"#,
        &long,
    ] {
        let answer = bench.ask("POST", "/v1/messages", body.to_owned()).await;
        assert_eq!(answer.fault(), (400, "invalid".to_owned()), "{}", body.get(..80).unwrap_or(body));
    }
    assert_eq!(bench.ask("POST", "/v1/messages", b"{\"text\":\"\xff\"}".as_slice()).await.fault().0, 400);
    for query in ["wait=-1", "wait=121", "wait=x", "wait=NaN", "wait=inf", "wait="] {
        let answer = bench.post(&format!("/v1/messages?{query}"), json!({"text": "x"})).await;
        assert_eq!(answer.fault(), (400, "invalid".to_owned()), "{query}");
    }
    assert_eq!(bench.get("/v1/messages").await.json(), json!({"items": [], "next_cursor": null}));
}

#[tokio::test]
async fn odd_utterances_are_fine() {
    let bench = Bench::new();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for body in [
        r#"{"text":"first","text":"last","extra":{"text":5}}"#.to_owned(),
        format!(r#"{{"deep":{deep},"text":"last"}}"#),
        r#"{"text":"last","inputMethod":"voice"}"#.to_owned(),
        r#"{"text":"last","inputMethod":"voice","confidence":0}"#.to_owned(),
    ] {
        let message = bench.ask("POST", "/v1/messages?wait=0&other=1", body).await;
        assert_eq!((message.status, message.json()["text"].clone()), (202, json!("last")));
    }
    let longest = "é".repeat(32 * 1024);
    let message = bench.post("/v1/messages", json!({"text": longest})).await;
    assert_eq!(message.json()["text"].as_str(), Some(longest.as_str()));
}

#[tokio::test]
async fn a_body_has_its_bounds() {
    let bench = Bench::new();
    let padded = |length: usize| {
        let start = r#"{"text":"x","padding":""#;
        format!("{start}{}\"}}", " ".repeat(length - start.len() - 2))
    };
    assert_eq!(bench.ask("POST", "/v1/messages", padded(1024 * 1024)).await.status, 202);
    for length in [1024 * 1024 + 1, 3 * 1024 * 1024] {
        let answer = bench.ask("POST", "/v1/messages", padded(length)).await;
        assert_eq!(answer.fault(), (413, "too_large".to_owned()), "{length}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let bench = Bench::new();
    let never = Body::from_stream(futures_util::stream::pending::<Result<bytes::Bytes, std::io::Error>>());
    assert_eq!(bench.ask("POST", "/v1/messages", never).await.fault(), (408, "timeout".to_owned()));
}

#[tokio::test]
async fn lists_are_cut_into_pages() {
    let bench = Bench::new();
    let mut ids = Vec::new();
    for number in 0..5 {
        ids.push(bench.say(&format!("number {number}")).await);
    }
    let cancelled = bench.post(&format!("/v1/messages/{}/cancel", ids[1]), json!({})).await;
    assert_eq!((cancelled.status, cancelled.json()["state"].clone()), (202, json!("cancelled")));
    let mut seen = Vec::new();
    let mut path = "/v1/messages?limit=2".to_owned();
    loop {
        let page = bench.get(&path).await.json();
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 2);
        assert!(items.iter().all(|item| item.get("notifications").is_none() && item.get("decisions").is_none()));
        seen.extend(items.iter().map(|item| item["id"].as_str().unwrap().to_owned()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/messages?limit=2&cursor={cursor}");
    }
    ids.reverse();
    assert_eq!(seen, ids, "newest first");
    let of = |page: Value| -> Vec<Value> {
        page["items"].as_array().unwrap().iter().map(|item| item["id"].clone()).collect()
    };
    assert_eq!(of(bench.get("/v1/messages?state=cancelled").await.json()), [json!(ids[3])]);
    assert_eq!(of(bench.get("/v1/messages?state=queued").await.json()).len(), 4);
    for query in ["state=nope", "limit=x", "limit=-1", "cursor=nonsense"] {
        assert_eq!(bench.get(&format!("/v1/messages?{query}")).await.fault().0, 400, "{query}");
    }
}

#[tokio::test]
async fn a_message_is_sent_again_or_to_somebody_else() {
    let bench = Bench::new();
    let id = bench.say("hello").await;
    bench.post(&format!("/v1/messages/{id}/cancel"), json!({})).await;
    let again = bench.post(&format!("/v1/messages/{id}/resend"), json!({})).await;
    assert_eq!((again.status, again.json()["state"].clone()), (202, json!("queued")));
    let route = format!("/v1/messages/{id}/route");
    assert_eq!(bench.post(&route, json!({"client": "nobody"})).await.fault(), (404, "not_found".to_owned()));
    for body in [json!({}), json!({"client": 5}), json!({"client": "no good"}), json!([])] {
        assert_eq!(bench.post(&route, body.clone()).await.fault(), (400, "invalid".to_owned()), "{body}");
    }
}

#[tokio::test]
async fn what_may_be_taken_later_is_accepted_and_the_rest_is_done() {
    let bench = Bench::new();
    let id = bench.say("hello").await;
    for (method, path, body, status) in [
        ("POST", "/v1/messages".to_owned(), r#"{"text":"x"}"#, 202),
        ("POST", format!("/v1/messages/{id}/resend"), "", 202),
        ("POST", format!("/v1/messages/{id}/cancel"), "", 202),
        ("GET", "/v1/messages".to_owned(), "", 200),
        ("GET", "/v1/clients".to_owned(), "", 200),
        ("POST", "/v1/clients/notebook/approve".to_owned(), "", 200),
        // Of an app that is known the message is sent to it, whether it is there or not.
        ("POST", format!("/v1/messages/{id}/route"), r#"{"client":"notebook"}"#, 202),
        ("POST", "/v1/clients/notebook/forget".to_owned(), "", 200),
        ("POST", "/v1/clients/*/forget".to_owned(), "", 200),
        ("POST", "/v1/clients/%2A/forget".to_owned(), "", 200),
        ("POST", "/v1/route".to_owned(), r#"{"text":"x"}"#, 200),
    ] {
        let answer = bench.as_operator(method, &path, body).await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
    }
}

#[tokio::test]
async fn routing_is_explained_without_sending() {
    let bench = Bench::new();
    let explained = bench.post("/v1/route", json!({"text": "buy milk"})).await;
    assert_eq!(explained.status, 200);
    let explained = explained.json();
    assert_eq!((&explained["stage"], &explained["clients"]), (&json!("nobody"), &json!([])));
    assert!(explained["reason"].is_string() && explained["candidates"].is_array(), "{explained}");
    assert_eq!(bench.post("/v1/route", json!({"text": " "})).await.fault(), (400, "invalid".to_owned()));
    assert_eq!(bench.get("/v1/messages").await.json()["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_when_time_is_up() {
    let bench = Bench::new();
    let started = Instant::now();
    let message = bench.post("/v1/messages?wait=7.5", json!({"text": "hello"})).await;
    assert_eq!((message.status, message.json()["state"].clone()), (202, json!("queued")));
    let waited = started.elapsed();
    assert!(waited >= Duration::from_millis(7500) && waited < Duration::from_secs(9), "{waited:?}");
    let message = message.json();
    let path = format!("/v1/messages/{}", message["id"].as_str().unwrap());
    let version = message["version"].as_u64().unwrap();
    let started = Instant::now();
    let same = bench.get(&format!("{path}?newer_than={version}&wait=3")).await.json();
    assert_eq!(same["version"], version);
    assert!(started.elapsed() >= Duration::from_secs(3));
    let started = Instant::now();
    bench.get(&format!("{path}?newer_than={}&wait=3", version - 1)).await;
    bench.get(&format!("{path}?newer_than={version}")).await;
    assert!(started.elapsed() < Duration::from_secs(1), "there is nothing to wait for");
    assert_eq!(bench.get(&format!("{path}?newer_than=x&wait=3")).await.fault().0, 400);
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_with_news_and_with_the_server() {
    let bench = Bench::new();
    let id = bench.say("hello").await;
    let path = format!("/v1/messages/{id}");
    let version = bench.get(&path).await.json()["version"].as_u64().unwrap();
    let long_poll = format!("{path}?newer_than={version}&wait=100");
    let cancel = format!("{path}/cancel");
    let (news, _) = tokio::join!(bench.get(&long_poll), bench.post(&cancel, json!({})));
    assert_eq!(news.json()["state"], "cancelled");
    assert!(news.json()["version"].as_u64().unwrap() > version);
    // What is over is not waited for.
    let started = Instant::now();
    assert_eq!(bench.get(&format!("{path}?wait=100")).await.json()["state"], "cancelled");
    let (message, ()) = tokio::join!(bench.post("/v1/messages?wait=100", json!({"text": "x"})), async {
        tokio::task::yield_now().await;
        bench.draining.cancel();
    });
    assert_eq!(message.status, 202);
    assert!(started.elapsed() < Duration::from_secs(50));
}

#[tokio::test]
async fn a_server_that_goes_down_says_so() {
    let bench = Bench::new();
    bench.board.drain(Duration::ZERO).await.unwrap();
    let refused = bench.post("/v1/messages", json!({"text": "x"})).await;
    assert_eq!(refused.fault(), (503, "unavailable".to_owned()));
    assert_eq!(refused.header("retry-after"), "5");
}
