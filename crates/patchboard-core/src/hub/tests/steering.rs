//! Requests of the user about messages, and the effect of time.

use std::time::Duration;

use crate::app::message::{MessageState, RoutingStage};
use crate::command::{CancelMessage, ListApps, ResendMessage};
use crate::error::ErrorKind;
use crate::hub::tests::test_hub::{GIBBERISH, TestHub, let_others_run, short, test_hub, user};
use crate::store::Store;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Advances both clocks together.
async fn pass(bench: &TestHub, time: Duration) {
    bench.clock.advance_seconds(i64::try_from(time.as_secs()).unwrap());
    tokio::time::advance(time).await;
    let_others_run().await;
}

#[tokio::test(start_paused = true)]
async fn sent_again_to_whoever_fits() {
    let bench = test_hub();
    let notebook = bench.register(1, "notebook").await;
    let sent = bench.submit("notebook: zxqv").await;
    let first = notebook.delivery().await;
    notebook.ack(sent.id).await;
    bench.clock.advance_seconds(60);
    assert_eq!(short(&*bench.resend(sent.id, None).await), "sent | past notebook delivered | notebook sent");
    let second = notebook.delivery().await;
    assert_eq!((second.message, &second.text, second.is_direct), (first.message, &first.text, true));
    assert!(second.at > first.at, "a redelivery has a time of its own");
    notebook.ack(sent.id).await;
    assert_eq!(bench.short(sent.id).await, "delivered | past notebook delivered | notebook delivered");
    assert_eq!(*bench.read(sent.id).await, bench.replayed(sent.id).await);
}

#[tokio::test(start_paused = true)]
async fn corrected_by_a_person_it_waits_for_the_app_they_named() {
    let bench = test_hub();
    let (notebook, lamp) = (bench.register(1, "notebook").await, bench.register(2, "lamp").await);
    lamp.leave().await;
    let sent = bench.submit("notebook: zxqv").await;
    notebook.ack(sent.id).await;
    let corrected = bench.resend(sent.id, Some("lamp")).await;
    assert_eq!(short(&corrected), "queued (waiting for lamp, which is not connected) | past notebook delivered");
    // A notice of the earlier app does not end the wait for the chosen one.
    notebook.notify(sent.id, "noted").await;
    assert_eq!(bench.read(sent.id).await.state, MessageState::Queued);
    let lamp = bench.register(3, "lamp").await;
    let delivery = lamp.delivery().await;
    assert_eq!((delivery.message, &*delivery.text), (sent.id, "zxqv"));
    lamp.ack(sent.id).await;
    let report = bench.read(sent.id).await;
    assert_eq!(short(&report), "delivered | past notebook delivered | lamp delivered");
    assert_eq!(report.attempts[1].stage, RoutingStage::Manual);
    assert_eq!(notebook.given().await.map(|delivery| delivery.message), Some(sent.id), "its first one only");
    assert_eq!(notebook.given().await, None);
}

#[tokio::test(start_paused = true)]
async fn sending_again_is_audited_and_needs_a_known_app() {
    let bench = test_hub();
    bench.register(1, "notebook").await;
    let sent = bench.submit(GIBBERISH).await;
    bench.resend(sent.id, Some("notebook")).await;
    bench.cancel(sent.id).await;
    let audit = bench.store.audit(10, None).await.unwrap().items;
    let actions: Vec<(&str, &str)> = audit.iter().map(|row| (&*row.action, &*row.detail)).collect();
    assert_eq!(actions, [("message.cancel", ""), ("message.resend", "to notebook")]);
    let unknown = ResendMessage { message: sent.id, app: Some("radio".into()) };
    assert_eq!(bench.ask(&user(), unknown).await.unwrap_err().kind, ErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn cancelled_for_good() {
    let bench = test_hub();
    let notebook = bench.register(1, "notebook").await;
    let lamp = bench.register(2, "lamp").await;
    let sent = bench.submit("notebook: zxqv").await;
    let cancelled = "cancelled (cancelled by local; notebook had it)";
    assert_eq!(short(&*bench.cancel(sent.id).await), format!("{cancelled} | notebook sent"));
    notebook.reject(sent.id, "no").await;
    notebook.leave().await;
    pass(&bench, Duration::from_secs(60)).await;
    assert_eq!(bench.short(sent.id).await, format!("{cancelled} | notebook rejected: no"));
    assert_eq!(lamp.given().await, None);
    let held = bench.submit(GIBBERISH).await;
    assert_eq!(bench.cancel(held.id).await.state, MessageState::Cancelled);
    let apps = bench.ask(&user(), ListApps).await.unwrap();
    assert!(apps.iter().all(|app| app.pending == 0), "{apps:?}");
}

#[tokio::test(start_paused = true)]
async fn cancelling_what_an_app_has_taken_says_that_it_was_not_wanted() {
    let bench = test_hub();
    let (notebook, lamp) = (bench.register(1, "notebook").await, bench.register(2, "lamp").await);
    let sent = bench.submit("notebook: zxqv").await;
    notebook.ack(sent.id).await;
    let disowned = "delivered (given up by local after notebook took it) | notebook delivered";
    for _ in 0..2 {
        assert_eq!(short(&*bench.cancel(sent.id).await), disowned);
    }
    assert_eq!(bench.records(sent.id).await, ["submitted", "decided", "sent", "answered", "ended"]);
    notebook.notify(sent.id, "noted").await;
    assert_eq!(bench.short(sent.id).await, disowned);
    // A rejection after the cancellation does not re-route the message.
    notebook.reject(sent.id, "not mine").await;
    let over = "cancelled (given up by local after notebook took it) | notebook rejected: not mine";
    assert_eq!(bench.short(sent.id).await, over);
    assert_eq!(*bench.read(sent.id).await, bench.replayed(sent.id).await);
    assert_eq!(lamp.given().await, None);
    assert_eq!(bench.resend(sent.id, Some("lamp")).await.state, MessageState::Sent);
    lamp.ack(sent.id).await;
    assert_eq!(bench.read(sent.id).await.state, MessageState::Delivered);
    let unknown = CancelMessage(crate::id::MessageId(uuid::Uuid::nil()));
    assert_eq!(bench.ask(&user(), unknown).await.unwrap_err().kind, ErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_takes_in_a_day_expires_and_can_be_sent_again() {
    let bench = test_hub();
    bench.run_background();
    let sent = bench.submit(GIBBERISH).await;
    pass(&bench, DAY - Duration::from_secs(1)).await;
    assert_eq!(bench.read(sent.id).await.state, MessageState::Queued);
    pass(&bench, Duration::from_secs(1)).await;
    assert_eq!(bench.short(sent.id).await, "expired (nobody took it in time)");
    assert_eq!(bench.shown.titles().last().unwrap(), "A message expired");

    let notebook = bench.register(1, "notebook").await;
    assert_eq!(notebook.given().await, None);
    assert_eq!(bench.resend(sent.id, Some("notebook")).await.state, MessageState::Sent);
    assert_eq!(notebook.delivery().await.message, sent.id);
    notebook.ack(sent.id).await;
    assert_eq!(bench.read(sent.id).await.state, MessageState::Delivered);
}

#[tokio::test(start_paused = true)]
async fn its_time_runs_out_while_an_app_has_it() {
    let bench = test_hub();
    let sent = bench.submit(GIBBERISH).await;
    pass(&bench, DAY - Duration::from_secs(10)).await;
    let notebook = bench.register(1, "notebook").await;
    // Sent again, it would have a day more: what waits for its app is sent by its registration.
    let late = bench.submit("lamp: on").await;
    assert_eq!(late.state, MessageState::Held);
    let lamp = bench.register(2, "lamp").await;
    assert_eq!(lamp.given().await.map(|delivery| delivery.message), Some(late.id));
    pass(&bench, DAY + Duration::from_secs(10)).await;
    assert_eq!(bench.read(sent.id).await.state, MessageState::Expired);
    assert_eq!(bench.short(late.id).await, "expired (nobody took it in time) | lamp timeout: Response timeout");
    assert_eq!(notebook.given().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_expires_in_the_hands_of_an_app_is_still_answered() {
    let bench = test_hub();
    let notebook = bench.register(1, "notebook").await;
    let sent = bench.submit("notebook: zxqv").await;
    // The wall clock jumps forward by a day; timeouts are monotonic and unaffected.
    bench.clock.advance_seconds(24 * 3600);
    // Time advances only while all tasks are idle: an actor that polled the wall clock would hang this test.
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(bench.short(sent.id).await, "sent | notebook sent");
    notebook.ack(sent.id).await;
    assert_eq!(bench.short(sent.id).await, "delivered | notebook delivered");
}

/// Apps that come and go while a message waits leave no records, and the user is not notified again.
#[tokio::test(start_paused = true)]
async fn apps_that_come_and_go_do_not_stir_up_what_waits() {
    let bench = test_hub();
    bench.run_background();
    let held = bench.submit(GIBBERISH).await;
    bench.register(1, "notebook").await;
    let waiting = bench.submit("notebook: x").await.id;
    bench.cancel(waiting).await;
    let before = bench.records(held.id).await.len();
    for connection in 10..40 {
        let app = bench.register(connection, &format!("app-{}", connection % 3)).await;
        let_others_run().await;
        app.leave().await;
        let_others_run().await;
    }
    assert_eq!(bench.records(held.id).await.len(), before);
    assert_eq!(bench.shown.titles(), ["Message waits", "Which app is this for?"]);
}

#[tokio::test(start_paused = true)]
async fn the_row_says_when_it_last_changed() {
    let bench = test_hub();
    let sent = bench.submit(GIBBERISH).await;
    bench.clock.advance_seconds(100);
    bench.cancel(sent.id).await;
    let query = crate::store::MessageQuery { state: None, limit: 10, cursor: None };
    let row = bench.store.messages(query).await.unwrap().items[0];
    assert_eq!((row.state, row.changed_at.duration_since(row.submitted_at).as_secs()), (MessageState::Cancelled, 100));
}
