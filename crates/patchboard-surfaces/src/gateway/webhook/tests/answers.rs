//! What adapters get to see, and what becomes of it.

use patchboard_core::model::ModelError;
use patchboard_core::scripted::ScriptStep;

use tokio::sync::Semaphore;

use super::*;

#[tokio::test]
async fn adapters_see_what_was_posted() {
    let bench = Bench::new();
    let headers = [
        ("X-Token", SECRET),
        ("X-Event", "said"),
        ("Content-Type", "text/odd"),
        ("Authorization", "Bearer x"),
        ("Cookie", "a=b"),
    ];
    let answer = bench.send(request("POST", "hook?a=1&b=%20", &headers, "ignore \u{e9}")).await;
    assert_eq!(answer.said(), (200, r#"{"ignored":true}"#));
    let expected = Webhook {
        method: "POST".to_owned(),
        query: "a=1&b=%20".to_owned(),
        headers: [("host", "localhost:7200"), ("x-event", "said"), ("content-type", "text/odd")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        body: "ignore \u{e9}".as_bytes().to_vec().into(),
        digest: "0c93f5b09febaa21801259366b701f5e939144952696cf9a1966195c7e63be00".into(),
    };
    assert_eq!(bench.adapter.seen(), [expected]);
}

#[tokio::test]
async fn messages_are_taken_once() {
    let bench = Bench::new();
    let answer = bench.post("hook", "id 7 hello").await;
    assert_eq!(answer.status, 202);
    let receipt = answer.json();
    let delivery = receipt["delivery"].as_str().unwrap();
    assert_eq!(receipt, json!({ "delivery": delivery }));
    assert!(delivery.parse::<uuid::Uuid>().is_ok(), "{delivery}");
    let reply = bench.next_reply().await;
    assert_eq!((reply.content.as_str(), reply.is_error, reply.is_synchronous), ("ok", false, false));
    assert_eq!(bench.post("hook", "id 7 other words").await.json(), json!({ "duplicate": true }));
    assert_eq!(bench.post("hook", "no id").await.status, 202);
    assert_eq!(bench.post("hook", "no id").await.json(), json!({ "duplicate": true }));
    bench.next_reply().await;
}

#[tokio::test]
async fn adapters_may_answer_themselves() {
    let bench = Bench::new();
    for (body, status, kind, text) in [
        ("respond 200 text/plain challenge", 200, "text/plain", "challenge"),
        ("respond 418 application/json {}", 418, "application/json", "{}"),
        ("respond 204 text/plain", 204, "text/plain", ""),
        ("respond 100 text/plain x", 200, "text/plain", "x"),
        ("respond 0 text/plain x", 200, "text/plain", "x"),
        ("respond 999 text/plain x", 599, "text/plain", "x"),
        ("respond 200 text/plain\r\nx-evil:1 x", 200, "application/octet-stream", "x"),
        ("respond 200 \u{1} x", 200, "application/octet-stream", "x"),
        ("respond 200  x", 200, "application/octet-stream", "x"),
    ] {
        let answer = bench.post("hook", body).await;
        assert_eq!((answer.status, answer.header("content-type"), &*answer.text), (status, kind, text), "{body:?}");
        assert_eq!(answer.header("x-evil"), "", "{body:?}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{body:?}");
    }
}

#[tokio::test]
async fn what_adapters_cannot_read_is_told() {
    let bench = Bench::new();
    for (body, expected, retry) in [
        ("reject not an update", (400, "parse_incoming failed: not an update"), ""),
        ("   ", (400, "empty message content"), ""),
        ("trap at secret.rs:7", (502, "parse_incoming failed: the adapter broke; see the server's log"), ""),
        ("gone plugin hook is not loaded", (503, "plugin hook is not loaded"), "5"),
    ] {
        let answer = bench.post("hook", body).await;
        assert_eq!((answer.said(), answer.header("retry-after")), (expected, retry), "{body:?}");
    }
}

#[tokio::test]
async fn the_answer_may_be_waited_for() {
    let bench = Bench::with(Setup { scripts: vec![say(&["It is ", "four."], 5, 3)], ..Setup::default() });
    let answer = bench.post("wait", "2 + 2?").await;
    assert_eq!(answer.said(), (200, "It is four."));
    assert!(answer.header("content-type").starts_with("text/plain"), "{answer:?}");
    assert!(bench.next_reply().await.is_synchronous);
}

#[tokio::test]
async fn trouble_is_told_without_the_words_of_others() {
    let canary = || ModelError::Rejected("canary".to_owned());
    let scripts = vec![vec![ScriptStep::Fail(canary())]];
    let bench = Bench::with(Setup { scripts, ..Setup::default() });
    let answer = bench.post("wait", "hello").await;
    assert_eq!(answer.said(), (502, "provider error: the model could not be asked; see the server's log"));

    let budgets = BudgetLimits { daily: Some(10), ..BudgetLimits::default() };
    let bench = Bench::with(Setup { budgets, ..Setup::default() });
    let answer = bench.post("wait", &"many words ".repeat(100)).await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, ""), "{answer:?}");
    assert!(answer.text.starts_with("token budget exceeded ("), "{answer:?}");
}

/// A model that says nothing before it is let.
pub(super) fn held() -> (Script, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let mut script = say(&["at last"], 1, 1);
    script.insert(1, ScriptStep::Wait(gate.clone()));
    (script, gate)
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_ever() {
    let (script, gate) = held();
    let bench = Bench::with(Setup { scripts: vec![script], ..Setup::default() });
    let before = Instant::now();
    let answer = bench.post("wait", "hello").await;
    assert_eq!((answer.status, before.elapsed()), (202, Duration::from_secs(25)), "{answer:?}");
    assert!(answer.json()["delivery"].is_string());
    gate.close();
    let reply = bench.next_reply().await;
    assert_eq!((reply.content.as_str(), reply.is_synchronous), ("at last", false));
}

#[tokio::test(start_paused = true)]
async fn only_so_many_wait_for_their_answers() {
    let scripts: Vec<_> = (0..2).map(|_| held()).collect();
    let gates: Vec<_> = scripts.iter().map(|(_, gate)| gate.clone()).collect();
    let scripts = scripts.into_iter().map(|(script, _)| script).collect();
    let bench = Bench::with(Setup { scripts, ..Setup::default() });
    for body in ["one", "two"] {
        assert_eq!(bench.post("hook", body).await.status, 202, "{body}");
    }
    let refused = bench.post("hook", "three").await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, "5"), "{refused:?}");
    gates.iter().for_each(|gate| gate.close());
    bench.next_reply().await;
    bench.next_reply().await;
}
