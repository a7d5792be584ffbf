//! Whose turn it is.

use super::*;
use crate::command::ReceiveWebhook;

fn said_in(peer: &str, content: &str) -> serde_json::Value {
    json!({"id": content, "peer": peer, "content": content})
}

#[tokio::test(start_paused = true)]
async fn in_a_conversation_one_is_answered_after_the_other() {
    let (gate, wait) = closed_gate();
    let office = office([say_and_wait(&["first"], wait)]);
    for (peer, content) in [("room", "a1"), ("room", "a2"), ("room", "a3"), ("hall", "b1")] {
        accepted(office.post(&said_in(peer, content)).await);
    }
    let_others_run().await;
    assert_eq!(office.asked(), ["a1", "b1"], "others do not wait for it");
    assert_eq!(office.replies(), ["ok"]);
    gate.add_permits(1);
    office.done().await;
    assert_eq!(office.asked(), ["a1", "b1", "a2", "a3"]);
    assert_eq!(office.replies(), ["ok", "first", "ok", "ok"]);
    let last = office.bench.last_prompt();
    assert_eq!(last, ["a1", "first", "a2", "ok", "a3"], "each knows what was said before");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_out_holds_up_its_own_conversation_only() {
    let office = office([]);
    office.host.results.lock().unwrap().push_back(PluginHost::answering(503, &[]));
    accepted(office.post(&said_in("room", "a1")).await);
    let_others_run().await;
    accepted(office.post(&said_in("room", "a2")).await);
    accepted(office.post(&said_in("hall", "b1")).await);
    let_others_run().await;
    assert_eq!(office.asked(), ["a1", "b1"]);
    office.done().await;
    assert_eq!(office.asked(), ["a1", "b1", "a2"]);
    assert_eq!(office.host.times(), [0, 0, 1000, 1000]);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_at_once_are_answered_sixty_four_at_a_time() {
    let (gate, wait) = closed_gate();
    let scripts = (0..100).map(|_| say_and_wait(&["x"], wait.clone()));
    let office = office(scripts);
    for number in 0..100 {
        let text = number.to_string();
        accepted(office.post(&json!({"id": text, "peer": text, "content": text})).await);
    }
    let_others_run().await;
    assert_eq!((office.open(), office.bench.live_runs()), (100, 64));
    // What is being thought about keeps no answer from going out.
    gate.add_permits(1);
    let_others_run().await;
    assert_eq!((office.host.sent().len(), office.bench.live_runs()), (1, 64));
    gate.add_permits(99);
    office.done().await;
    assert_eq!((office.host.sent().len(), office.open()), (100, 0));
    let mut asked: Vec<u32> = office.asked().iter().map(|text| text.parse().unwrap()).collect();
    asked.sort_unstable();
    assert_eq!(asked, (0..100).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_channel_whose_agent_is_slow_holds_up_no_other() {
    let (gate, wait) = closed_gate();
    let scripts = (0..32).map(|_| say_and_wait(&["x"], wait.clone()));
    let office = office_with(scripts, |setup| {
        setup.channels = vec![channel(), ChannelOptions { name: "other".into(), ..channel() }];
    });
    for number in 0..100 {
        let text = number.to_string();
        accepted(office.post(&json!({"id": text, "peer": text, "content": text})).await);
    }
    let_others_run().await;
    assert_eq!((office.open(), office.bench.live_runs()), (100, 32), "each has its share of the places");
    let ReceiveWebhook { webhook, .. } = webhook(&said_in("hall", "hi"));
    let elsewhere = ReceiveWebhook { channel: "other".into(), webhook };
    accepted(office.bench.ask(&from_channel(), elsewhere).await);
    let_others_run().await;
    assert_eq!(office.replies(), ["ok"]);
    gate.add_permits(32);
    office.done().await;
    assert_eq!((office.host.sent().len(), office.open()), (101, 0));
}

#[tokio::test(start_paused = true)]
async fn what_is_open_is_weighed_as_it_is() {
    let (gate, wait) = closed_gate();
    let office = office([say_and_wait(&["answer"], wait)]);
    let sending = Arc::new(Semaphore::new(0));
    *office.host.gate.lock().unwrap() = Some(sending.clone());
    office.accept("1", "twelve bytes").await;
    let open = || office.bench.board.0.channels.open("tg");
    assert_eq!(open(), (1, 12));
    gate.add_permits(1);
    let_others_run().await;
    let row = office.row("id:1").await;
    let letter = decode_delivery_payload(&row.body).unwrap();
    assert_eq!(
        (row.state, letter.message.content.as_str()),
        (DeliveryState::Answered, ""),
        "it is not needed any more"
    );
    assert_eq!(letter.message.peer.as_deref(), Some("room"), "its conversation is");
    assert_eq!(open(), (1, "https://api.example/bot{{secret:token}}/send".len() + "answer".len()));
    sending.add_permits(1);
    office.done().await;
    assert_eq!(open(), (0, 0));
}
