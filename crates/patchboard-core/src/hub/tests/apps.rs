//! Registration, liveness, pairing and forgetting of apps.

use std::time::Duration;

use crate::command::{ApproveApp, ForgetApp, ListApps, PairApp};
use crate::error::ErrorKind;
use crate::hub::PairingMode;
use crate::hub::tests::test_hub::{
    TestHub, let_others_run, operator, profile, restarted, test_hub, test_hub_with, user,
};
use crate::reply::{AppSummary, InboxEvent, RegistrationRefusal};

async fn apps(bench: &TestHub) -> Vec<AppSummary> {
    bench.ask(&user(), ListApps).await.unwrap()
}

async fn names(bench: &TestHub) -> Vec<String> {
    let shown = |app: &AppSummary| {
        let here = if app.is_connected { "here" } else { "gone" };
        let approved = if app.is_approved { "" } else { " not approved" };
        format!("{} {here}{approved}", app.profile.name)
    };
    apps(bench).await.iter().map(shown).collect()
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_one_app() {
    let bench = test_hub();
    bench.register(1, "notebook").await;
    assert_eq!(
        bench.try_register(1, profile("lamp", "x"), None).await.unwrap_err(),
        RegistrationRefusal::AlreadyRegistered
    );
    assert_eq!(names(&bench).await, ["notebook here"]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_asks_twice_at_once_is_still_one_app() {
    let bench = test_hub();
    let notebook = bench.register(1, "notebook").await;
    let (first, second) = tokio::join!(
        bench.try_register(2, profile("notebook", "x"), None),
        bench.try_register(2, profile("lamp", "x"), None),
    );
    // The first was still waiting for a liveness proof when the second was accepted.
    assert_eq!(first.err(), Some(RegistrationRefusal::AlreadyRegistered));
    assert!(second.is_ok());
    assert_eq!(names(&bench).await, ["lamp here", "notebook gone"]);
    assert_eq!(notebook.take().await.map(|_| ()).unwrap_err().kind, ErrorKind::Conflict);
}

#[tokio::test(start_paused = true)]
async fn the_name_of_the_living_is_taken() {
    let bench = test_hub();
    let notebook = bench.register(1, "notebook").await;
    let proving = async {
        assert_eq!(notebook.take().await.unwrap(), InboxEvent::ProveAlive);
        tokio::time::sleep(Duration::from_millis(1900)).await;
        notebook.prove().await;
    };
    let (refused, ()) = tokio::join!(bench.try_register(2, profile("NOTEBOOK", "x"), None), proving);
    assert_eq!(refused.unwrap_err(), RegistrationRefusal::NameTaken);
    bench.submit("notebook: x").await;
    assert_eq!(&*notebook.delivery().await.text, "x");
}

#[tokio::test(start_paused = true)]
async fn the_name_of_the_dead_is_taken_over_after_two_seconds_with_what_it_had() {
    let bench = test_hub();
    let dead = bench.register(1, "notebook").await;
    let lamp = bench.register(2, "lamp").await;
    let sent = bench.submit("notebook: zxqv").await;
    dead.delivery().await;
    let before = tokio::time::Instant::now();
    let alive = bench.register(3, "notebook").await;
    assert_eq!(before.elapsed(), Duration::from_secs(2));
    let_others_run().await;
    // The app it was addressed to gets it before any other connected app.
    let again = alive.delivery().await;
    assert_eq!((again.message, &*again.text, again.is_direct), (sent.id, "zxqv", true));
    assert_eq!(lamp.given().await, None);
    assert_eq!(dead.take().await.unwrap_err().kind, ErrorKind::Conflict);
    alive.ack(sent.id).await;
    let expected = "delivered | notebook disconnected: Client disconnected | notebook delivered";
    assert_eq!(bench.short(sent.id).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_leaves_while_it_is_asked_gives_way_at_once() {
    let bench = test_hub();
    let notebook = bench.register(1, "notebook").await;
    let before = tokio::time::Instant::now();
    let leaving = async {
        assert_eq!(notebook.take().await.unwrap(), InboxEvent::ProveAlive);
        notebook.leave().await;
    };
    let (registered, ()) = tokio::join!(bench.try_register(2, profile("notebook", "x"), None), leaving);
    assert!(registered.is_ok());
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn two_heirs_of_a_dead_name() {
    let bench = test_hub();
    bench.register(1, "notebook").await;
    let heir = |connection| {
        let bench = &bench;
        async move {
            let app = bench.try_register(connection, profile("notebook", "x"), None).await?;
            // The holder of the name proves that it is alive.
            assert_eq!(app.take().await.unwrap(), InboxEvent::ProveAlive);
            app.prove().await;
            Ok::<u64, RegistrationRefusal>(connection)
        }
    };
    let (first, second) = tokio::join!(heir(2), heir(3));
    let refused = [first, second].into_iter().filter_map(Result::err).collect::<Vec<_>>();
    assert_eq!(refused, [RegistrationRefusal::NameTaken], "one of them, and only one");
}

#[tokio::test(start_paused = true)]
async fn unknown_apps_wait_for_the_operator() {
    let bench = test_hub_with(|setup| setup.hub.pairing = PairingMode::Approve);
    let refused = bench.try_register(1, profile("notebook", "takes notes"), None).await.unwrap_err();
    assert_eq!(refused, RegistrationRefusal::NotApproved);
    assert_eq!(names(&bench).await, ["notebook gone not approved"]);
    let approve = ApproveApp { app: "Notebook".into() };
    assert_eq!(bench.ask(&user(), approve.clone()).await.unwrap_err().kind, ErrorKind::Forbidden);
    bench.ask(&operator(), approve).await.unwrap();
    let notebook = bench.register(1, "notebook").await;
    assert_eq!(names(&bench).await, ["notebook here"]);

    bench.ask(&operator(), ForgetApp { app: "notebook".into(), unpair: true }).await.unwrap();
    assert_eq!(notebook.take().await.unwrap_err().kind, ErrorKind::Conflict, "it loses its leave at once");
    let refused = bench.try_register(2, profile("notebook", "takes notes"), None).await.unwrap_err();
    assert_eq!(refused, RegistrationRefusal::NotApproved);
}

#[tokio::test(start_paused = true)]
async fn paired_apps_show_their_token() {
    let bench = test_hub_with(|setup| setup.hub.pairing = PairingMode::Token);
    let with = |connection, token| bench.try_register(connection, profile("notebook", "x"), token);
    assert_eq!(with(1, Some([1; 32])).await.unwrap_err(), RegistrationRefusal::WrongToken);
    bench.ask(&operator(), PairApp { app: "notebook".into(), token: [1; 32] }).await.unwrap();
    assert_eq!(with(1, None).await.unwrap_err(), RegistrationRefusal::WrongToken);
    assert_eq!(with(1, Some([2; 32])).await.unwrap_err(), RegistrationRefusal::WrongToken);
    let notebook = with(1, Some([1; 32])).await.unwrap();
    notebook.leave().await;

    let next = test_hub_with(|setup| {
        setup.store = bench.store.clone();
        setup.hub.pairing = PairingMode::Token;
    });
    next.board.adopt().await.unwrap();
    let with = |connection, token| next.try_register(connection, profile("notebook", "x"), token);
    let old = with(1, Some([1; 32])).await.expect("known across a restart");
    next.ask(&operator(), PairApp { app: "NOTEBOOK".into(), token: [3; 32] }).await.unwrap();
    assert!(old.take().await.is_err(), "whoever came by the old token is sent away");
    assert_eq!(with(2, Some([1; 32])).await.unwrap_err(), RegistrationRefusal::WrongToken, "replaced");
    let sent = next.submit("notebook: a secret").await.id;
    let new = with(3, Some([3; 32])).await.unwrap();
    assert_eq!(new.delivery().await.message, sent);
}

#[tokio::test(start_paused = true)]
async fn who_was_here_is_known_after_a_restart() {
    let bench = test_hub();
    let notebook = bench.register(1, "notebook").await;
    bench.clock.advance_seconds(10);
    notebook.leave().await;
    let next = restarted(&bench);
    next.board.adopt().await.unwrap();
    assert_eq!(apps(&next).await, apps(&bench).await);
    let sent = next.submit("notebook: x").await;
    assert_eq!(sent.reason.as_deref(), Some("waiting for notebook, which is not connected"));
    next.ask(&operator(), ForgetApp { app: "notebook".into(), unpair: true }).await.unwrap();
    assert_eq!(names(&next).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_list_counts_what_is_pending() {
    let bench = test_hub();
    let notebook = bench.register(1, "notebook").await;
    for _ in 0..3 {
        bench.submit("notebook: x").await;
    }
    let first = notebook.delivery().await.message;
    notebook.ack(first).await;
    assert_eq!(apps(&bench).await[0].pending, 2);
}

#[tokio::test(start_paused = true)]
async fn a_registration_that_cannot_be_stored_is_one_all_the_same() {
    let bench = test_hub();
    bench.store.fail(|_| true);
    let notebook = bench.register(1, "notebook").await;
    bench.store.stop_failing();
    bench.submit("notebook: x").await;
    assert_eq!(&*notebook.delivery().await.text, "x");
}

#[tokio::test(start_paused = true)]
async fn only_so_many_capabilities_are_looked_at() {
    let bench = test_hub();
    let mut greedy = profile("greedy", "x");
    greedy.capabilities = (0..128).map(|number| format!("{number:0>256}").into()).collect();
    bench.try_register(1, greedy, None).await.unwrap();
    let kept = apps(&bench).await.first().unwrap().profile.capabilities.len();
    assert_eq!(kept, 15, "4 KiB of them");
}
