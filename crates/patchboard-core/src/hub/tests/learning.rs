//! What is learned from the outcome of messages, and that it is stored.

use std::time::Duration;

use crate::command::{ExplainRouting, ForgetApp, ListApps};
use crate::hub::tests::test_hub::{GIBBERISH, TestHub, operator, profile, restarted, test_hub, user};
use crate::reply::AppSummary;
use crate::store::{KvNamespace, Store, StoreWrite};

async fn lessons(bench: &TestHub) -> Vec<(String, u64)> {
    let apps = bench.ask(&user(), ListApps).await.unwrap();
    let mut lessons: Vec<_> =
        apps.iter().map(|app: &AppSummary| (app.profile.name.to_string(), app.training_examples)).collect();
    lessons.sort();
    lessons
}

fn counts(notebook: u64, lamp: u64) -> Vec<(String, u64)> {
    vec![("lamp".to_owned(), lamp), ("notebook".to_owned(), notebook)]
}

#[tokio::test(start_paused = true)]
async fn answers_and_corrections_teach() {
    let bench = test_hub();
    let (notebook, lamp) = (bench.register(1, "notebook").await, bench.register(2, "lamp").await);
    let sent = bench.submit("notebook: grumbly wombat").await.id;
    assert_eq!(lessons(&bench).await, counts(0, 0), "nothing is known before an answer");
    notebook.ack(sent).await;
    assert_eq!(lessons(&bench).await, counts(1, 0));
    notebook.ack(sent).await;
    notebook.notify(sent, "noted").await;
    assert_eq!(lessons(&bench).await, counts(1, 0), "the same again teaches nothing");
    // The user corrects the recipient: negative for the first app, and positive for the second once it takes the
    // message.
    bench.resend(sent, Some("lamp")).await;
    assert_eq!(lessons(&bench).await, counts(2, 0));
    lamp.ack(sent).await;
    assert_eq!(lessons(&bench).await, counts(2, 1));
    let refused = bench.submit("notebook: zxqv").await.id;
    notebook.reject(refused, "no").await;
    assert_eq!(lessons(&bench).await, counts(3, 1));
}

/// A cancelled message is a negative example for the app that the hub chose; an app that the user chose learns nothing.
#[tokio::test(start_paused = true)]
async fn giving_up_teaches_where_the_hub_chose() {
    let bench = test_hub();
    let described = profile("lamp", "I control the thermostat and the heating at home");
    let (notebook, lamp) = (bench.register(1, "notebook").await, bench.try_register(2, described, None).await.unwrap());
    let named = bench.submit("notebook: grumbly wombat").await.id;
    bench.cancel(named).await;
    let chosen = bench.submit(GIBBERISH).await.id;
    bench.resend(chosen, Some("notebook")).await;
    notebook.ack(chosen).await;
    let taught = lessons(&bench).await;
    bench.cancel(chosen).await;
    assert_eq!(lessons(&bench).await, taught, "a person chose");
    let found = bench.submit("turn up the thermostat").await.id;
    lamp.ack(found).await;
    let before = lessons(&bench).await;
    for _ in 0..2 {
        bench.cancel(found).await;
    }
    let more = |(name, count): &(String, u64)| (name.clone(), count + u64::from(name == "lamp"));
    assert_eq!(lessons(&bench).await, before.iter().map(more).collect::<Vec<_>>(), "once");
}

/// Tests that the hub asks and trains the matcher; the weight of an example is tested with the matcher.
#[tokio::test(start_paused = true)]
async fn what_an_app_took_speaks_for_it_the_next_time() {
    let bench = test_hub();
    let notebook = bench.register(1, "notebook").await;
    bench.register(2, "lamp").await;
    let score = |name: &'static str| {
        let explaining = bench.ask(&user(), ExplainRouting { text: "grumbly wombat".into() });
        async move {
            let decision = explaining.await.unwrap();
            decision.candidates.iter().find(|scored| &*scored.app == name).map(|scored| scored.score).unwrap()
        }
    };
    let before = score("notebook").await;
    for number in 0..8 {
        let sent = bench.submit(&format!("notebook: grumbly wombat {number}")).await.id;
        notebook.ack(sent).await;
    }
    assert!(score("notebook").await > before);
    assert!(score("notebook").await > score("lamp").await);
}

#[tokio::test(start_paused = true)]
async fn lessons_outlive_the_server_and_can_be_forgotten() {
    let bench = test_hub();
    bench.run_background();
    let notebook = bench.register(1, "notebook").await;
    bench.register(2, "lamp").await;
    let sent = bench.submit("notebook: grumbly wombat").await.id;
    notebook.ack(sent).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let next = restarted(&bench);
    next.board.adopt().await.unwrap();
    assert_eq!(lessons(&next).await, counts(1, 0));
    next.ask(&operator(), ForgetApp { app: "NoteBook".into(), unpair: false }).await.unwrap();
    assert_eq!(lessons(&next).await, counts(0, 0));
    assert_eq!(next.store.kv_get(&KvNamespace::Server, "hub/learned/notebook").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn lessons_that_could_not_be_stored_are_stored_later() {
    let bench = test_hub();
    bench.run_background();
    let notebook = bench.register(1, "notebook").await;
    bench.store.fail(|batch| {
        let is_lesson =
            |write: &StoreWrite| matches!(write, StoreWrite::PutValue { key, .. } if key.starts_with("hub/learned/"));
        batch.writes.iter().any(is_lesson)
    });
    let sent = bench.submit("notebook: grumbly wombat").await.id;
    notebook.ack(sent).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(bench.store.kv_get(&KvNamespace::Server, "hub/learned/notebook").await.unwrap(), None);
    bench.store.stop_failing();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(bench.store.kv_get(&KvNamespace::Server, "hub/learned/notebook").await.unwrap().is_some());
}
