//! The lifetime of message actors: idling, removal and restart. Their behaviour is tested in the hub's tests.

use std::time::Duration;

use serde_json::json;
use tokio_util::task::TaskTracker;

use crate::app::message::{AppResponse, MessageState};
use crate::command::CancelMessage;
use crate::error::ErrorKind;
use crate::faulty::FaultyStore;
use crate::hub::tests::test_hub::{GIBBERISH, let_others_run, test_hub, user, with_model};
use crate::scripted::call;
use crate::store::Store;

#[tokio::test(start_paused = true)]
async fn over_it_stays_at_hand_for_a_while_and_is_called_again_when_needed() {
    let test_hub = test_hub();
    let notebook = test_hub.register(1, "notebook").await;
    let sent = test_hub.submit("notebook: zxqv").await.id;
    notebook.ack(sent).await;
    let reads = test_hub.store.replays();
    tokio::time::sleep(super::IDLE_TIMEOUT - Duration::from_secs(1)).await;
    notebook.notify(sent, "one").await;
    assert_eq!(test_hub.store.replays(), reads, "nothing had to be read back");
    tokio::time::sleep(super::IDLE_TIMEOUT + Duration::from_secs(1)).await;
    assert_eq!(test_hub.read(sent).await.notices.len(), 1);
    assert!(test_hub.store.replays() > reads, "from the store by now");
    notebook.notify(sent, "two").await;
    assert_eq!(test_hub.read(sent).await.notices.len(), 2);
    assert_eq!(*test_hub.read(sent).await, test_hub.replayed(sent).await);
}

/// Past the bound on idle actors, further ones are removed at once, without loss.
#[tokio::test(start_paused = true)]
async fn many_that_are_over() {
    let test_hub = test_hub();
    let notebook = test_hub.register(1, "notebook").await;
    let mut messages = Vec::new();
    for _ in 0..1_100 {
        let sent = test_hub.submit("notebook: zxqv").await.id;
        notebook.delivery().await;
        notebook.ack(sent).await;
        messages.push(sent);
    }
    for message in messages.iter().rev().take(200) {
        notebook.notify(*message, "done").await;
    }
    tokio::time::sleep(2 * super::IDLE_TIMEOUT).await;
    for message in [messages[0], messages[1_099]] {
        notebook.reject(message, "after all").await;
        assert_eq!(test_hub.read(message).await.state, MessageState::Held);
    }
}

/// The store hangs while one app floods the mailbox and another disconnects: responses past the capacity are refused,
/// and the departure is noticed afterwards.
#[tokio::test(start_paused = true)]
async fn more_letters_than_fit_are_refused_and_who_left_is_found_out() {
    let test_hub = with_model([call(&[("route_to_lamp", json!({})), ("route_to_notebook", json!({}))], 20, 5)]);
    let (notebook, lamp) = (test_hub.register(1, "notebook").await, test_hub.register(2, "lamp").await);
    let sent = test_hub.submit(GIBBERISH).await.id;
    lamp.delivery().await;
    let gate = test_hub.store.block_commits();
    let tasks = TaskTracker::new();
    let acks = (0..super::MAILBOX_CAPACITY + 10).map(|_| {
        let lamp = lamp.clone();
        tasks.spawn(async move { lamp.answer(sent, AppResponse::Ack).await })
    });
    let acks: Vec<_> = acks.collect();
    for _ in 0..10 {
        let_others_run().await;
    }
    let leaving = tasks.spawn(async move { notebook.leave().await });
    let_others_run().await;
    gate.close();
    leaving.await.unwrap();
    let mut refused = 0;
    for ack in acks {
        if let Err(error) = ack.await.unwrap() {
            assert_eq!(error.kind, ErrorKind::Exhausted);
            refused += 1;
        }
    }
    assert!((1..=10).contains(&refused), "{refused}");
    let left = "delivered | lamp delivered | notebook disconnected: Client disconnected";
    assert_eq!(test_hub.short(sent).await, left);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_be_read_for_a_while_at_the_start() {
    let before = test_hub();
    let sent = before.submit(GIBBERISH).await.id;
    let store = FaultyStore::new();
    for batch in before.store.journal() {
        store.commit(batch).await.unwrap();
    }
    store.fail_reads(3);
    let next = crate::hub::tests::test_hub::on_store(store);
    assert_eq!(next.board.adopt().await.unwrap().messages, 1);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let notebook = next.register(1, "notebook").await;
    assert_eq!(next.read(sent).await.state, MessageState::Held, "it has its steward all the same");
    next.resend(sent, Some("notebook")).await;
    assert_eq!(notebook.delivery().await.message, sent);
}

#[tokio::test(start_paused = true)]
async fn words_about_a_message_nobody_knows_leave_nothing_behind() {
    let test_hub = test_hub();
    for number in 0..100 {
        let unknown = CancelMessage(crate::id::MessageId(uuid::Uuid::from_u128(1_000 + number)));
        assert!(test_hub.ask(&user(), unknown).await.is_err());
    }
    let_others_run().await;
    assert!(test_hub.list().await.is_empty());
}
