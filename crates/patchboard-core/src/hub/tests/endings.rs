//! Failing stores, full inboxes and the shutdown.

use std::time::Duration;

use futures_util::FutureExt;
use tokio_util::task::TaskTracker;

use crate::app::message::{AppResponse, MessageState};
use crate::board::DrainReport;
use crate::error::ErrorKind;
use crate::hub::roster::INBOX_CAPACITY;
use crate::hub::tests::test_hub::{GIBBERISH, let_others_run, test_hub, user, within_time};
use crate::store::Store;

const UNDISTURBED: DrainReport = DrainReport { cancelled: 0, suspended: 0 };

#[tokio::test(start_paused = true)]
async fn what_cannot_be_stored_is_not_taken() {
    let bench = test_hub();
    let notebook = bench.register(1, "notebook").await;
    bench.store.fail(|_| true);
    assert_eq!(bench.try_submit("notebook: x", None).await.unwrap_err().kind, ErrorKind::Internal);
    bench.store.stop_failing();
    assert!(bench.list().await.is_empty());
    assert_eq!(notebook.given().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_for_a_while_holds_messages_up_and_loses_none() {
    let bench = test_hub();
    let notebook = bench.register(1, "notebook").await;
    bench.store.fail(|_| true);
    assert!(bench.try_submit("notebook: zxqv", None).await.is_err(), "it is not taken");
    assert_eq!(notebook.given().await, None);
    bench.store.stop_failing();
    let taken = bench.submit("notebook: zxqv").await;
    assert_eq!(notebook.delivery().await.message, taken.id);

    bench.store.fail(|_| true);
    let acking = notebook.answer(taken.id, AppResponse::Ack);
    tokio::pin!(acking);
    let_others_run().await;
    assert!((&mut acking).now_or_never().is_none(), "nothing is told before it is on record");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(bench.read(taken.id).await.state, MessageState::Sent);
    bench.store.stop_failing();
    acking.await.unwrap();
    assert_eq!(bench.short(taken.id).await, "delivered | notebook delivered");
    assert_eq!(*bench.read(taken.id).await, bench.replayed(taken.id).await);
}

#[tokio::test(start_paused = true)]
async fn an_app_that_takes_nothing_gets_what_is_over_when_it_makes_room() {
    let bench = test_hub();
    let notebook = bench.register(1, "notebook").await;
    let lamp = bench.register(2, "lamp").await;
    for _ in 0..INBOX_CAPACITY {
        bench.submit("notebook: x").await;
    }
    let over = bench.submit("notebook: one more").await.id;
    assert_eq!(bench.short(over).await, "sent | notebook sent");
    for _ in 0..INBOX_CAPACITY {
        notebook.delivery().await;
    }
    assert_eq!(&*notebook.delivery().await.text, "one more");
    notebook.ack(over).await;
    assert_eq!(bench.short(over).await, "delivered | notebook delivered");
    assert_eq!(lamp.given().await, None);
}

#[tokio::test(start_paused = true)]
async fn an_app_that_never_makes_room_has_said_nothing() {
    let bench = test_hub();
    let notebook = bench.register(1, "notebook").await;
    for _ in 0..INBOX_CAPACITY {
        bench.submit("notebook: x").await;
    }
    let over = bench.submit("notebook: one more").await.id;
    tokio::time::sleep(Duration::from_secs(31)).await;
    // The app never received it, so it is retried, up to the same limit as for disconnects.
    assert_eq!(bench.short(over).await, "sent | notebook timeout: Response timeout | notebook sent");
    tokio::time::sleep(Duration::from_secs(61)).await;
    let report = bench.read(over).await;
    assert_eq!((report.state, report.attempts.len()), (MessageState::Held, 3));
    assert_eq!(notebook.given().await.map(|delivery| delivery.text.to_string()).as_deref(), Some("x"));
}

#[tokio::test(start_paused = true)]
async fn the_end_is_quick_with_apps_connected_and_messages_waiting() {
    let bench = test_hub();
    let stop = bench.run_background();
    let notebook = bench.register(1, "notebook").await;
    bench.submit("notebook: zxqv").await;
    bench.submit(GIBBERISH).await;
    notebook.delivery().await;
    let_others_run().await;
    let before = tokio::time::Instant::now();
    let (taken, drained) = tokio::join!(notebook.take(), bench.board.drain(Duration::from_secs(30)));
    assert_eq!(taken.unwrap_err().kind, ErrorKind::Unavailable, "apps hear of it");
    assert_eq!(drained.unwrap(), UNDISTURBED);
    assert!(before.elapsed() <= Duration::from_secs(1), "{:?}", before.elapsed());
    assert!(!stop.is_cancelled(), "the house is kept until its own stop");
    let late = bench.try_submit("notebook: late", None).await.unwrap_err();
    assert_eq!(late.kind, ErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn what_was_under_way_at_the_end_goes_on_at_the_next_start() {
    let bench = test_hub();
    let notebook = bench.register(1, "notebook").await;
    let (sent, held) = (bench.submit("notebook: zxqv").await, bench.submit(GIBBERISH).await);
    notebook.delivery().await;
    let journal = bench.store.journal();
    assert_eq!(bench.board.drain(Duration::from_secs(30)).await.unwrap(), UNDISTURBED);
    let next = crate::hub::tests::test_hub::on_store(crate::faulty::FaultyStore::new());
    for batch in journal {
        next.store.commit(batch).await.unwrap();
    }
    assert_eq!(next.board.adopt().await.unwrap().messages, 2);
    let notebook = next.register(1, "notebook").await;
    assert_eq!(notebook.delivery().await.message, sent.id);
    notebook.ack(sent.id).await;
    assert_eq!(next.read(sent.id).await.state, MessageState::Delivered);
    assert_eq!(next.read(held.id).await.state, MessageState::Held);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_does_not_hang_the_end() {
    let bench = test_hub();
    bench.run_background();
    let notebook = bench.register(1, "notebook").await;
    let sent = bench.submit("notebook: zxqv").await;
    let _never_opened = bench.store.block_commits();
    let hanging = TaskTracker::new().spawn(async move { notebook.answer(sent.id, AppResponse::Ack).await });
    let_others_run().await;
    within_time(bench.board.drain(Duration::from_secs(1))).await.unwrap();
    hanging.abort();
}

#[tokio::test(start_paused = true)]
async fn reading_on_ends_with_the_server() {
    let bench = test_hub();
    bench.register(1, "notebook").await;
    let sent = bench.submit("notebook: zxqv").await;
    let command = crate::command::ReadMessage { message: sent.id, newer_than: Some(sent.version) };
    let reading = bench.ask(&user(), command);
    let (read, drained) = tokio::join!(reading, async {
        let_others_run().await;
        bench.board.drain(Duration::from_secs(1)).await
    });
    drained.unwrap();
    assert_eq!(*read.unwrap(), *sent);
}
