//! What is taken, what is not, and what was here before.

use super::*;
use crate::command::{MAX_CONTENT, ReceiveWebhook};
use crate::tool::Glob;

#[tokio::test(start_paused = true)]
async fn a_message_is_answered_through_its_adapter() {
    let office = office([two_lines()]);
    let delivery = office.accept("1", "hi").await;
    let journal = office.bench.store.journal();
    let [StoreWrite::Delivery(row)] = &journal[0].writes[..] else { panic!("{:?}", journal[0]) };
    assert_eq!((row.id, row.state, &*row.key), (delivery, DeliveryState::Received, "id:1"));
    assert_eq!(journal[0].durability, Durability::Boundary, "on record before anything else");
    office.done().await;
    assert_eq!(office.host.sent(), ["one", "two"]);
    assert_eq!(office.asked(), ["hi"]);
    assert_eq!(office.state("1").await, (DeliveryState::Sent, None));
    let [reply] = &office.host.replies()[..] else { panic!() };
    assert_eq!((reply.content.as_str(), reply.is_error, reply.is_synchronous), ("one\ntwo", false, false));
    assert_eq!(office.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn its_run_is_the_channels_and_has_no_tools_that_are_not_named() {
    let office = office_with([], |setup| {
        setup.agent.tools = Some(vec![Glob::new("echo"), Glob::new("w*")]);
    });
    let delivery = office.accept("1", "hi").await;
    office.done().await;
    let name = format!("delivery-{}-0", delivery.0);
    let run = office.bench.store.latest_run_by_client_id("channel:tg", &name).await.unwrap().expect("its run");
    assert_eq!((run.session.as_str(), &*run.surface), ("default:tg:ann:room", "webhook"));
    let tools: Vec<_> = office.bench.model.requests()[0].tools.iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(tools, ["echo"]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_taken_is_refused_and_leaves_nothing() {
    let after_5_s = RetryHint::After(Duration::from_secs(5));
    let office = office([]);
    for (body, kind, message, retry) in [
        (json!({"means": "reject"}), ErrorKind::Invalid, "parse_incoming failed: no text", RetryHint::Never),
        (
            json!({"means": "break"}),
            ErrorKind::Upstream,
            "parse_incoming failed: the adapter broke; see the server's log",
            RetryHint::Never,
        ),
        (json!({"means": "away"}), ErrorKind::Unavailable, "plugin adapter is not loaded", after_5_s),
        (json!({"content": " \n"}), ErrorKind::Invalid, "empty message content", RetryHint::Never),
        (
            json!({"content": "x".repeat(MAX_CONTENT + 1)}),
            ErrorKind::Invalid,
            "content is too long: at most 4194304 bytes are accepted",
            RetryHint::Never,
        ),
        (
            json!({"content": "x", "context": "c".repeat(16 * 1024 + 1)}),
            ErrorKind::Invalid,
            "context is too long: at most 16384 bytes are accepted",
            RetryHint::Never,
        ),
        (
            json!({"content": "x", "id": "i".repeat(1025)}),
            ErrorKind::Invalid,
            "the message's id is too long: at most 1024 bytes are accepted",
            RetryHint::Never,
        ),
        (
            json!({"content": "x", "account": "a".repeat(2048)}),
            ErrorKind::Invalid,
            "account, peer, guild or team is too long",
            RetryHint::Never,
        ),
    ] {
        let refused = office.post(&body).await.unwrap_err();
        assert_eq!((refused.kind, refused.message.as_str(), refused.retry), (kind, message, retry));
    }
    assert_eq!((office.bench.store.journal().len(), office.open()), (0, 0));
    let ReceiveWebhook { webhook, .. } = webhook(&json!({}));
    let unknown = ReceiveWebhook { channel: "x".into(), webhook };
    let refused = office.bench.ask(&from_channel(), unknown).await.unwrap_err();
    assert_eq!((refused.kind, refused.message.as_str()), (ErrorKind::NotFound, "no channel adapter for 'x'"));
}

#[tokio::test(start_paused = true)]
async fn without_a_plugin_host_no_channel_is_there() {
    let office = office_with([], |setup| setup.plugins = None);
    let refused = office.post(&from_ann("1", "hi")).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_message_is_answered_at_once() {
    let office = office([]);
    assert_eq!(office.post(&json!({"means": "ignore"})).await.unwrap(), WebhookOutcome::Ignored);
    let WebhookOutcome::Respond(answer) = office.post(&json!({"means": "respond"})).await.unwrap() else { panic!() };
    assert_eq!((answer.status, answer.body.as_slice()), (200, &b"challenge"[..]));
    assert_eq!(office.bench.store.journal().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_comes_twice_is_answered_once() {
    let office = office([]);
    office.accept("1", "hi").await;
    assert_eq!(office.post(&from_ann("1", "hi")).await.unwrap(), WebhookOutcome::Duplicate, "while it is open");
    office.done().await;
    office.bench.clock.advance_seconds(30 * 24 * 3600);
    assert_eq!(office.post(&from_ann("1", "edited")).await.unwrap(), WebhookOutcome::Duplicate, "and for ever");
    office.accept("2", "hi").await;
    office.done().await;
    assert_eq!(office.asked(), ["hi", "hi"]);
}

#[tokio::test(start_paused = true)]
async fn without_an_id_the_content_counts_for_a_while() {
    let office = office([]);
    let (hi, ho) = (json!({"content": "hi"}), json!({"content": "ho"}));
    accepted(office.post(&hi).await);
    accepted(office.post(&ho).await);
    for seconds in [0, 150, 149] {
        office.bench.clock.advance_seconds(seconds);
        assert_eq!(office.post(&hi).await.unwrap(), WebhookOutcome::Duplicate);
    }
    office.bench.clock.advance_seconds(1);
    accepted(office.post(&hi).await);
    assert_eq!(office.post(&hi).await.unwrap(), WebhookOutcome::Duplicate);
    office.done().await;
    assert_eq!(office.asked(), ["hi", "ho", "hi"]);
}

#[tokio::test(start_paused = true)]
async fn of_equal_ones_at_once_exactly_one_is_taken() {
    for body in [from_ann("1", "hi"), json!({"content": "hi"})] {
        let office = office_with([], |setup| setup.store = FaultyStore::slow(7));
        let posts = futures_util::future::join_all((0..10).map(|_| office.post(&body))).await;
        let taken = posts.iter().filter(|post| matches!(post, Ok(WebhookOutcome::Accepted(_)))).count();
        let before = posts.iter().filter(|post| matches!(post, Ok(WebhookOutcome::Duplicate))).count();
        assert_eq!((taken, before), (1, 9));
        office.done().await;
        assert_eq!(office.asked(), ["hi"]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_recorded_was_not_here() {
    let office = office([]);
    office.bench.store.fail(|batch| batch.writes.iter().any(|write| matches!(write, StoreWrite::Delivery(_))));
    assert_eq!(office.post(&from_ann("1", "hi")).await.unwrap_err().kind, ErrorKind::Internal);
    assert_eq!(office.open(), 0);
    office.bench.store.stop_failing();
    office.accept("1", "hi").await;
    office.done().await;
    assert_eq!(office.host.sent(), ["ok"]);
}

#[tokio::test(start_paused = true)]
async fn whoever_goes_away_while_it_is_recorded_misses_nothing() {
    let office = office([]);
    let gate = office.bench.store.block_commits();
    let mut post = office.bench.ask(&from_channel(), webhook(&from_ann("1", "hi")));
    assert!(futures_util::poll!(&mut post).is_pending());
    let_others_run().await;
    drop(post);
    gate.close();
    office.done().await;
    assert_eq!(office.host.sent(), ["ok"]);
    assert_eq!(office.state("1").await.0, DeliveryState::Sent);
}

#[tokio::test(start_paused = true)]
async fn only_so_many_wait() {
    let (gate, wait) = closed_gate();
    let office = office_with([say_and_wait(&["x"], wait)], |setup| {
        setup.channels = vec![ChannelOptions { max_open_deliveries: 2, ..channel() }];
    });
    office.accept("1", "a").await;
    office.accept("2", "b").await;
    let refused = office.post(&from_ann("3", "c")).await.unwrap_err();
    let expected =
        (ErrorKind::Exhausted, "too many messages of tg are waiting: 2", RetryHint::After(Duration::from_secs(5)));
    assert_eq!((refused.kind, refused.message.as_str(), refused.retry), expected);
    assert_eq!(office.post(&from_ann("1", "a")).await.unwrap(), WebhookOutcome::Duplicate, "it takes no place");
    gate.add_permits(1);
    office.done().await;
    office.accept("3", "c").await;
    office.done().await;
    assert_eq!(office.asked(), ["a", "b", "c"]);
    assert_eq!(office.open(), 0);
}
