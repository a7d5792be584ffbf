//! After a crash at any point the next process completes the messages.

use std::sync::Arc;
use std::time::Duration;

use crate::app::message::{MessageReport, MessageState};
use crate::event::Topic;
use crate::faulty::FaultyStore;
use crate::hub::tests::test_hub::{
    GIBBERISH, TestApp, TestHub, let_others_run, on_store, profile, short, test_hub, test_hub_with,
};
use crate::id::{MessageId, Seq};
use crate::store::{Store, StoreWrite, WriteBatch};

/// The store of a process that crashed after this many commits.
async fn left(journal: &[WriteBatch]) -> Arc<FaultyStore> {
    let store = FaultyStore::new();
    for batch in journal {
        store.commit(batch.clone()).await.unwrap();
    }
    store
}

fn is_about(batch: &WriteBatch, message: MessageId) -> bool {
    let told =
        |write: &StoreWrite| matches!(write, StoreWrite::Event(record) if record.topic == Topic::Message(message));
    batch.writes.iter().any(told)
}

/// Acknowledges deliveries until there are no more.
async fn serve(app: &TestApp) -> Vec<(MessageId, String)> {
    let mut served = Vec::new();
    while let Some(delivery) = app.given().await {
        app.ack(delivery.message).await;
        served.push((delivery.message, delivery.text.to_string()));
    }
    served
}

/// A scenario with all cases: waiting for an app, a refusal, a timeout, a disconnect, a person's correction.
async fn eventful(bench: &TestHub) -> MessageId {
    let sent = bench.submit("notebook: zxqv").await.id;
    let notebook = bench.register(1, "notebook").await;
    bench.register(2, "lamp").await;
    bench.resend(sent, None).await;
    notebook.delivery().await;
    notebook.reject(sent, "not mine").await;
    assert_eq!(bench.read(sent).await.state, MessageState::Held);
    bench.resend(sent, Some("lamp")).await;
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(bench.read(sent).await.state, MessageState::Queued);
    bench.resend(sent, Some("notebook")).await;
    notebook.leave().await;
    let_others_run().await;
    let notebook = bench.register(3, "notebook").await;
    assert_eq!(serve(&notebook).await.len(), 1);
    notebook.notify(sent, "noted").await;
    let report = bench.read(sent).await;
    assert_eq!((report.state, report.notices.len()), (MessageState::Delivered, 1));
    sent
}

#[tokio::test(start_paused = true)]
async fn cut_anywhere_it_is_brought_to_its_end() {
    let whole = test_hub();
    let message = eventful(&whole).await;
    let journal = whole.store.journal();
    let first = journal.iter().position(|batch| is_about(batch, message)).unwrap();
    let mut open = 0;
    for kept in first + 1..=journal.len() {
        let next = on_store(left(&journal[..kept]).await);
        let before = next.replayed(message).await;
        let recovered = next.board.adopt().await.unwrap();
        assert_eq!(recovered.messages, usize::from(!before.state.is_final()), "cut after {kept}");
        assert_eq!(
            *next.read(message).await,
            next.replayed(message).await,
            "cut after {kept}: read as it is on record"
        );
        let notebook = next.register(1, "notebook").await;
        if !before.state.is_final() {
            open += 1;
            let_others_run().await;
            let mut served = serve(&notebook).await;
            let lamp = next.register(2, "lamp").await;
            served.extend(serve(&lamp).await);
            tokio::time::sleep(Duration::from_secs(31)).await;
            served.extend(serve(&notebook).await);
            served.extend(serve(&lamp).await);
            let after = next.read(message).await;
            let context = format!("cut after {kept}: {}, then {}", short(&before), short(&after));
            // The addressed app gets it, unless it refused it before.
            if before.refusal_of("notebook").is_some() {
                assert_eq!((after.state, served), (MessageState::Held, Vec::new()), "{context}");
            } else {
                let text = "zxqv".to_owned();
                assert_eq!((after.state, served), (MessageState::Delivered, vec![(message, text)]), "{context}");
            }
        }
        assert_eq!(*next.read(message).await, next.replayed(message).await, "cut after {kept}");
    }
    assert!(open > 5, "{open} places to cut were not much of a test");
}

#[tokio::test(start_paused = true)]
async fn what_an_app_had_is_brought_to_it_again_when_it_is_back() {
    let whole = test_hub();
    let notebook = whole.register(1, "notebook").await;
    whole.register(2, "lamp").await;
    let sent = whole.submit("notebook: zxqv").await;
    notebook.delivery().await;
    let next = on_store(left(&whole.store.journal()).await);
    next.board.adopt().await.unwrap();
    let lamp = next.register(1, "lamp").await;
    assert_eq!(lamp.given().await, None, "it waits for the one that had it");
    let notebook = next.register(2, "notebook").await;
    let again = notebook.delivery().await;
    assert_eq!((again.message, &*again.text, again.is_direct), (sent.id, "zxqv", true));
    notebook.ack(sent.id).await;
    assert_eq!(next.read(sent.id).await.state, MessageState::Delivered);
    assert_eq!(lamp.given().await, None);
}

#[tokio::test(start_paused = true)]
async fn what_an_app_had_goes_to_another_when_it_does_not_come_back() {
    let whole = test_hub();
    whole.register(1, "notebook").await;
    let sent = whole.submit("notebook: turn up the thermostat").await;
    for reroute_direct in [true, false] {
        let store = left(&whole.store.journal()).await;
        let next = test_hub_with(|setup| {
            setup.store = store;
            setup.first_id = 1_000_000;
            setup.hub.reroute_direct = reroute_direct;
        });
        next.board.adopt().await.unwrap();
        let heating = profile("heating", "I control the thermostat and the heating at home");
        let heating = next.try_register(1, heating, None).await.unwrap();
        assert_eq!(heating.given().await, None);
        tokio::time::sleep(Duration::from_secs(31)).await;
        let given = heating.given().await.map(|delivery| delivery.message);
        assert_eq!(given, reroute_direct.then_some(sent.id));
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_person_took_from_an_app_is_not_brought_back_to_it() {
    let whole = test_hub();
    whole.register(1, "notebook").await;
    let lamp = whole.register(2, "lamp").await;
    lamp.leave().await;
    let sent = whole.submit("notebook: zxqv").await;
    whole.resend(sent.id, Some("lamp")).await;
    let next = on_store(left(&whole.store.journal()).await);
    next.board.adopt().await.unwrap();
    let notebook = next.register(1, "notebook").await;
    assert_eq!(notebook.given().await, None);
    let lamp = next.register(2, "lamp").await;
    assert_eq!(lamp.given().await.map(|delivery| delivery.message), Some(sent.id));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_keeps_dying_does_not_bring_it_for_ever() {
    let mut bench = test_hub();
    bench.register(1, "notebook").await;
    let sent = bench.submit("notebook: zxqv").await.id;
    for _ in 0..5 {
        bench = on_store(left(&bench.store.journal()).await);
        bench.board.adopt().await.unwrap();
        bench.register(1, "notebook").await;
        let_others_run().await;
    }
    tokio::time::sleep(Duration::from_secs(31)).await;
    let report = bench.read(sent).await;
    assert_eq!((report.state, report.attempts.len()), (MessageState::Held, 3));
}

/// Stores limit the records per read; a long log is still read completely.
#[tokio::test(start_paused = true)]
async fn a_long_log_is_read_whole_and_written_on() {
    let whole = test_hub();
    let notebook = whole.register(1, "notebook").await;
    let sent = whole.submit("notebook: zxqv").await.id;
    for _ in 0..990 {
        notebook.notify(sent, "more").await;
    }
    for _ in 0..20 {
        whole.resend(sent, None).await;
        notebook.ack(sent).await;
    }
    whole.resend(sent, None).await;
    let next = on_store(left(&whole.store.journal()).await);
    assert!(next.store.last_seq(&Topic::Message(sent)).await.unwrap() > Seq(1000));
    next.board.adopt().await.unwrap();
    let notebook = next.register(1, "notebook").await;
    assert_eq!(notebook.delivery().await.message, sent);
    notebook.ack(sent).await;
    assert_eq!(next.read(sent).await.state, MessageState::Delivered);
    assert_eq!(*next.read(sent).await, next.replayed(sent).await);
}

#[tokio::test(start_paused = true)]
async fn one_message_that_cannot_be_read_does_not_hold_up_the_others() {
    let whole = test_hub();
    let (spoiled, sound) = (whole.submit(GIBBERISH).await.id, whole.submit("notebook: zxqv").await.id);
    let next = on_store(left(&whole.store.journal()).await);
    next.store.corrupt(Topic::Message(spoiled), Seq::FIRST);
    assert_eq!(next.board.adopt().await.unwrap().messages, 2);
    let notebook = next.register(1, "notebook").await;
    assert_eq!(notebook.delivery().await.message, sound);
}

/// The report survives encoding and decoding, whatever it contains.
#[tokio::test(start_paused = true)]
async fn live_and_replayed_are_the_same() {
    let bench = test_hub();
    let message = eventful(&bench).await;
    let live: Arc<MessageReport> = bench.read(message).await;
    assert_eq!(*live, bench.replayed(message).await);
}
