//! Apps that refuse, say nothing, go away or change their mind.

use std::time::Duration;

use crate::app::bench::{Bench, GIBBERISH, bench, bench_with, let_others_run, reject};
use crate::app::message::{MessageState, Response, Stage};
use crate::error::ErrorKind;
use crate::id::MessageId;
use crate::reply::Reply;

const TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn a_refused_message_goes_on_under_the_same_id() {
    let bench = bench();
    let (notebook, lamp) = (bench.register(1, "notebook").await, bench.register(2, "lamp").await);
    let sent = bench.submit("notebook: zxqv").await;
    notebook.delivery().await;
    bench.clock.advance_seconds(5);
    notebook.reject(sent.id, "not mine").await;
    let again = lamp.delivery().await;
    assert_eq!((again.message, &*again.text, again.is_direct), (sent.id, "zxqv", false));
    assert_eq!(again.at.duration_since(sent.submitted_at).as_secs(), 5, "a time of its own");
    lamp.ack(sent.id).await;
    assert_eq!(bench.short(sent.id).await, "delivered | notebook rejected: not mine | lamp delivered");
    assert_eq!(*bench.read(sent.id).await, bench.replayed(sent.id).await);
}

#[tokio::test(start_paused = true)]
async fn refused_by_all() {
    let bench = bench();
    bench.keep_house();
    let (notebook, lamp) = (bench.register(1, "notebook").await, bench.register(2, "lamp").await);
    let sent = bench.submit("notebook: zxqv").await;
    notebook.delivery().await;
    notebook.reject(sent.id, "not mine").await;
    lamp.delivery().await;
    assert_eq!(lamp.answer(sent.id, Response::Reject { reason: None }).await.unwrap(), Reply::Done);
    let refused = "refused (notebook: not mine; lamp: No reason provided) \
                   | notebook rejected: not mine | lamp rejected: No reason provided";
    assert_eq!(bench.short(sent.id).await, refused);
    assert_eq!(bench.shown.titles(), ["No app took this message"]);
    assert_eq!(bench.shown.bodies(), ["“notebook: zxqv”: notebook: not mine; lamp: No reason provided"]);
    // Over: whoever comes later does not get it.
    let radio = bench.register(3, "radio").await;
    assert_eq!(radio.given().await, None);
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_for_thirty_seconds_has_refused() {
    let bench = bench();
    let (notebook, lamp) = (bench.register(1, "notebook").await, bench.register(2, "lamp").await);
    let sent = bench.submit("notebook: zxqv").await;
    notebook.delivery().await;
    tokio::time::advance(TIMEOUT - Duration::from_millis(1)).await;
    assert_eq!(lamp.given().await, None);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(lamp.delivery().await.message, sent.id);
    assert_eq!(bench.short(sent.id).await, "sent | notebook timeout: Response timeout | lamp sent");
}

#[tokio::test(start_paused = true)]
async fn who_leaves_with_it_has_refused_at_once() {
    let bench = bench();
    let (notebook, lamp) = (bench.register(1, "notebook").await, bench.register(2, "lamp").await);
    let sent = bench.submit("notebook: zxqv").await;
    notebook.leave().await;
    assert_eq!(lamp.given().await.map(|delivery| delivery.message), Some(sent.id));
    assert_eq!(bench.short(sent.id).await, "sent | notebook disconnected: Client disconnected | lamp sent");
}

#[tokio::test(start_paused = true)]
async fn direct_messages_stay_where_the_operator_wants_them_to() {
    let bench = bench_with(|setup| setup.hub.reroute_direct = false);
    let (notebook, lamp) = (bench.register(1, "notebook").await, bench.register(2, "lamp").await);
    let sent = bench.submit("notebook: zxqv").await;
    notebook.leave().await;
    let waiting = "queued (waiting for notebook, which is not connected) | notebook disconnected: Client disconnected";
    assert_eq!(bench.short(sent.id).await, waiting);
    let notebook = bench.register(3, "notebook").await;
    let delivery = notebook.delivery().await;
    assert_eq!((&*delivery.text, delivery.is_direct), ("zxqv", true));
    notebook.reject(sent.id, "no").await;
    assert_eq!(bench.read(sent.id).await.state, MessageState::Refused);
    assert_eq!(lamp.given().await, None);
}

#[tokio::test(start_paused = true)]
async fn whoever_went_away_gets_it_when_it_is_back_as_the_one_it_was_for() {
    let bench = bench();
    let notebook = bench.register(1, "notebook").await;
    let sent = bench.submit("notebook: zxqv").await;
    notebook.delivery().await;
    notebook.leave().await;
    let waiting = "queued (waiting for notebook to come back) | notebook disconnected: Client disconnected";
    assert_eq!(bench.short(sent.id).await, waiting);
    let notebook = bench.register(2, "Notebook").await;
    let again = notebook.delivery().await;
    assert_eq!((again.message, &*again.text, again.is_direct), (sent.id, "zxqv", true));
    notebook.ack(sent.id).await;
    assert_eq!(bench.read(sent.id).await.state, MessageState::Delivered);
}

#[tokio::test(start_paused = true)]
async fn whoever_keeps_going_away_with_it_is_not_given_it_for_ever() {
    let bench = bench();
    let sent = bench.submit(GIBBERISH).await.id;
    for connection in 0..10 {
        let app = bench.register(connection, "notebook").await;
        if connection == 0 {
            bench.resend(sent, None).await;
            bench.resend(sent, Some("notebook")).await;
        }
        let_others_run().await;
        app.leave().await;
    }
    let report = bench.read(sent).await;
    assert_eq!(report.state, MessageState::Refused);
    assert_eq!(report.attempts.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgement_after_the_timeout_ends_the_search() {
    let bench = bench();
    let (notebook, lamp) = (bench.register(1, "notebook").await, bench.register(2, "lamp").await);
    let radio = bench.register(3, "radio").await;
    let sent = bench.submit("notebook: zxqv").await;
    tokio::time::advance(TIMEOUT).await;
    let_others_run().await;
    let second = bench.read(sent.id).await.attempts[1].app.clone();
    let (second, third) = if &*second == "lamp" { (lamp, radio) } else { (radio, lamp) };
    second.delivery().await;
    notebook.ack(sent.id).await;
    assert_eq!(bench.read(sent.id).await.state, MessageState::Delivered);
    second.reject(sent.id, "not mine").await;
    assert_eq!(bench.read(sent.id).await.state, MessageState::Delivered);
    assert_eq!(third.given().await, None);
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgement_after_the_end_makes_it_delivered() {
    let bench = bench();
    let notebook = bench.register(1, "notebook").await;
    let sent = bench.submit("notebook: zxqv").await;
    tokio::time::advance(TIMEOUT).await;
    assert_eq!(bench.read(sent.id).await.state, MessageState::Refused);
    // Long after nobody has it at hand any more.
    tokio::time::advance(Duration::from_secs(3600)).await;
    notebook.ack(sent.id).await;
    assert_eq!(bench.short(sent.id).await, "delivered | notebook delivered");
    assert_eq!(*bench.read(sent.id).await, bench.replayed(sent.id).await);
}

#[tokio::test(start_paused = true)]
async fn acknowledged_and_then_refused_it_goes_on() {
    let bench = bench();
    let (notebook, lamp) = (bench.register(1, "notebook").await, bench.register(2, "lamp").await);
    let sent = bench.submit("notebook: zxqv").await;
    notebook.ack(sent.id).await;
    notebook.reject(sent.id, "after all").await;
    assert_eq!(lamp.delivery().await.message, sent.id);
    assert_eq!(bench.short(sent.id).await, "sent | notebook rejected: after all | lamp sent");
}

#[tokio::test(start_paused = true)]
async fn a_notification_alone_is_taken_for_an_acknowledgement() {
    let bench = bench();
    bench.keep_house();
    let (notebook, lamp) = (bench.register(1, "notebook").await, bench.register(2, "lamp").await);
    let sent = bench.submit("notebook: zxqv").await;
    notebook.notify(sent.id, "noted").await;
    tokio::time::advance(2 * TIMEOUT).await;
    assert_eq!(bench.short(sent.id).await, "delivered | notebook delivered");
    assert_eq!(lamp.given().await, None);
    assert_eq!(bench.shown.bodies(), ["noted"]);
}

#[tokio::test(start_paused = true)]
async fn answers_that_say_nothing_new_are_not_put_on_record() {
    let bench = bench();
    let notebook = bench.register(1, "notebook").await;
    let sent = bench.submit("notebook: zxqv").await;
    for _ in 0..3 {
        notebook.ack(sent.id).await;
    }
    assert_eq!(bench.records(sent.id).await, ["submitted", "decided", "sent", "answered"]);
    for body in ["one", "two"] {
        notebook.notify(sent.id, body).await;
    }
    for _ in 0..3 {
        notebook.reject(sent.id, "no").await;
    }
    let answered = bench.records(sent.id).await.iter().filter(|kind| **kind == "answered").count();
    assert_eq!(answered, 1 + 2 + 1);
}

#[tokio::test(start_paused = true)]
async fn nobody_answers_for_another() {
    let bench = bench();
    let (notebook, lamp) = (bench.register(1, "notebook").await, bench.register(2, "lamp").await);
    let sent = bench.submit("notebook: zxqv").await;
    for response in [Response::Ack, reject("no")] {
        assert_eq!(lamp.answer(sent.id, response).await.unwrap_err().kind, ErrorKind::NotFound);
    }
    let unknown = MessageId(uuid::Uuid::from_u128(77));
    assert_eq!(notebook.answer(unknown, Response::Ack).await.unwrap_err().kind, ErrorKind::NotFound);
    notebook.leave().await;
    assert_eq!(notebook.answer(sent.id, Response::Ack).await.unwrap_err().kind, ErrorKind::Forbidden);
    assert_eq!(bench.records(unknown).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_same_name_answers_after_a_reconnect() {
    let bench = bench();
    let notebook = bench.register(1, "notebook").await;
    let lamp = bench.register(2, "lamp").await;
    let sent = bench.submit("notebook: zxqv").await;
    notebook.delivery().await;
    notebook.leave().await;
    assert_eq!(lamp.delivery().await.message, sent.id);
    let notebook = bench.register(3, "notebook").await;
    notebook.ack(sent.id).await;
    notebook.notify(sent.id, "noted").await;
    assert_eq!(bench.short(sent.id).await, "delivered | notebook delivered | lamp sent");
}

#[tokio::test(start_paused = true)]
async fn guesses_come_to_an_end() {
    let bench = bench();
    let mut apps = Vec::new();
    for (connection, name) in ["a", "b", "c", "d", "e", "f"].into_iter().enumerate() {
        apps.push(bench.register(connection as u64, name).await);
    }
    let sent = bench.submit("a: zxqv").await;
    for _ in 0..4 {
        let pending = bench.read(sent.id).await.pending().map(|attempt| attempt.app.clone()).collect::<Vec<_>>();
        let [app] = &pending[..] else { panic!("{pending:?}") };
        let index = usize::from(app.as_bytes()[0] - b'a');
        apps[index].reject(sent.id, "no").await;
    }
    let report = bench.read(sent.id).await;
    assert_eq!(report.state, MessageState::Held);
    let stages: Vec<Stage> = report.attempts.iter().map(|attempt| attempt.stage).collect();
    assert_eq!(stages, [Stage::Direct, Stage::NextBest, Stage::NextBest, Stage::NextBest]);
}

/// An app that talks without end, in notices or by changing its mind, is stopped before it fills the disk.
#[tokio::test(start_paused = true)]
async fn talk_without_end_is_cut_off() {
    async fn said(bench: &Bench, response: fn(usize) -> Response) -> (usize, usize) {
        let app = bench.register(9, "talker").await;
        let sent = bench.submit("talker: go on").await;
        let mut said = 0;
        while app.answer(sent.id, response(said)).await.is_ok() {
            said += 1;
            assert!(said < 5000, "it goes on and on");
        }
        let read = bench.read(sent.id).await;
        assert_eq!(*read, bench.replayed(sent.id).await, "and all of it is read back");
        app.leave().await;
        (said, usize::try_from(read.version.0).unwrap())
    }
    let bench = bench();
    let (said_once, records) = said(&bench, |_| crate::app::bench::notice("more")).await;
    assert_eq!((said_once, records), (997, 1000));
    let (_, records) = said(&bench, |number| if number % 2 == 0 { Response::Ack } else { reject("no") }).await;
    assert!(records <= 2001, "{records}");
}
