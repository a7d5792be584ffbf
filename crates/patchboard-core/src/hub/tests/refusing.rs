//! Apps that refuse, stay silent, disconnect or change their mind.

use std::time::Duration;

use crate::app::message::{AppResponse, MessageState, RoutingStage};
use crate::command::ExplainRouting;
use crate::error::ErrorKind;
use crate::hub::routing::HubRules;
use crate::hub::tests::test_hub::{
    GIBBERISH, TestApp, TestHub, let_others_run, profile, reject, short, test_hub, test_hub_with, user,
};
use crate::id::MessageId;

const TIMEOUT: Duration = Duration::from_secs(30);
/// Addressed to `notebook`, but clearly fits `heating`.
const WARMER: &str = "notebook: turn up the thermostat";

/// A hub that re-routes messages that name an app.
fn rerouting() -> TestHub {
    test_hub_with(|setup| setup.hub.reroute_direct = true)
}

async fn heating(bench: &TestHub, connection: u64) -> TestApp {
    let described = profile("heating", "I control the thermostat and the heating at home");
    bench.try_register(connection, described, None).await.unwrap()
}

/// Why a message is held, without the command at the end of the reason.
async fn held(bench: &TestHub, message: MessageId) -> String {
    let report = bench.read(message).await;
    assert_eq!(report.state, MessageState::Held, "{}", short(&report));
    let reason = report.reason.clone().unwrap();
    let (why, command) = reason.split_once(". Choose with ").unwrap();
    assert_eq!(command, format!("`patchboard hub route {message} APP`"));
    why.to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_refused_message_goes_on_under_the_same_id_to_one_that_fits() {
    let bench = rerouting();
    let (notebook, heating) = (bench.register(1, "notebook").await, heating(&bench, 2).await);
    let sent = bench.submit(WARMER).await;
    notebook.delivery().await;
    bench.clock.advance_seconds(5);
    notebook.reject(sent.id, "not mine").await;
    let again = heating.delivery().await;
    assert_eq!((again.message, &*again.text, again.is_direct), (sent.id, "turn up the thermostat", false));
    assert_eq!(again.at.duration_since(sent.submitted_at).as_secs(), 5, "a time of its own");
    heating.ack(sent.id).await;
    assert_eq!(bench.short(sent.id).await, "delivered | notebook rejected: not mine | heating delivered");
    assert_eq!(*bench.read(sent.id).await, bench.replayed(sent.id).await);
}

#[tokio::test(start_paused = true)]
async fn a_refused_message_that_fits_no_other_app_is_held() {
    let bench = rerouting();
    bench.run_background();
    let (notebook, lamp) = (bench.register(1, "notebook").await, bench.register(2, "lamp").await);
    let sent = bench.submit("notebook: zxqv").await.id;
    notebook.reject(sent, "not mine").await;
    assert_eq!(held(&bench, sent).await, "notebook: not mine; no other app clearly fits");
    assert_eq!(lamp.given().await, None);
    assert_eq!(bench.shown.titles(), ["No app took this message"]);
    let radio = bench.register(3, "radio").await;
    assert_eq!(radio.given().await, None);
    let heating = heating(&bench, 4).await;
    assert_eq!(heating.given().await, None);
    assert_eq!(*bench.read(sent).await, bench.replayed(sent).await);
}

#[tokio::test(start_paused = true)]
async fn refused_by_all() {
    let bench = rerouting();
    bench.run_background();
    let (notebook, heating) = (bench.register(1, "notebook").await, heating(&bench, 2).await);
    let sent = bench.submit(WARMER).await;
    notebook.delivery().await;
    notebook.reject(sent.id, "not mine").await;
    heating.delivery().await;
    heating.answer(sent.id, AppResponse::Reject { reason: None }).await.unwrap();
    let refused = "refused (notebook: not mine; heating: No reason provided) \
                   | notebook rejected: not mine | heating rejected: No reason provided";
    assert_eq!(bench.short(sent.id).await, refused);
    assert_eq!(bench.shown.titles(), ["No app took this message"]);
    let told = "“notebook: turn up the thermostat”: notebook: not mine; heating: No reason provided";
    assert_eq!(bench.shown.bodies(), [told]);
    // The message has ended: an app that registers later does not get it.
    let radio = bench.register(3, "radio").await;
    assert_eq!(radio.given().await, None);
}

/// Each app's confidence for a text, by name.
async fn shares(bench: &TestHub, text: &str) -> Vec<(String, f32)> {
    let command = ExplainRouting { text: text.into() };
    let decision = bench.ask(&user(), command).await.unwrap();
    let mut shares: Vec<(String, f32)> =
        decision.candidates.iter().map(|one| (one.app.to_string(), one.confidence)).collect();
    shares.sort_by(|a, b| a.0.cmp(&b.0));
    shares
}

#[tokio::test(start_paused = true)]
async fn what_five_apps_refused_is_held_and_no_other_app_rises() {
    const TEXT: &str = "turn the oven to two hundred degrees";
    let bench = test_hub();
    let described = [
        ("heating", "I control the thermostat and the heating at home"),
        ("lamps", "I switch lamps and sockets on and off"),
        ("recipes", "I find recipes and plan what to cook"),
        ("weather", "I tell the temperature and the forecast"),
        ("timers", "I count down minutes and wake you up"),
        ("mailman", "I read and write email"),
        ("jukebox", "I play music"),
    ];
    let mut apps = Vec::new();
    for (connection, (name, description)) in (1..).zip(described) {
        apps.push(bench.try_register(connection, profile(name, description), None).await.unwrap());
    }
    let mut before = shares(&bench, TEXT).await;
    let sent = bench.submit("heating: turn the oven to two hundred degrees").await.id;
    for (app, (name, _)) in apps.iter().zip(described).take(5) {
        if name != "heating" {
            bench.resend(sent, Some(name)).await;
        }
        app.delivery().await;
        app.reject(sent, "not mine").await;
        assert_eq!(bench.read(sent).await.state, MessageState::Held, "after {name}");
        let after = shares(&bench, TEXT).await;
        let rose = before.iter().zip(&after).find(|((_, before), (_, after))| *after > before + 1e-6);
        assert_eq!(rose, None, "after {name}");
        before = after;
    }
    for (app, (name, _)) in apps.iter().zip(described).skip(5) {
        assert_eq!(app.given().await, None, "{name}");
    }
    let again = bench.submit(TEXT).await.id;
    assert_eq!(bench.read(again).await.state, MessageState::Held);
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_for_thirty_seconds_has_refused() {
    let bench = rerouting();
    let (_notebook, heating) = (bench.register(1, "notebook").await, heating(&bench, 2).await);
    let sent = bench.submit(WARMER).await;
    tokio::time::advance(TIMEOUT - Duration::from_millis(1)).await;
    assert_eq!(heating.given().await, None);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(heating.delivery().await.message, sent.id);
    assert_eq!(bench.short(sent.id).await, "sent | notebook timeout: Response timeout | heating sent");
}

#[tokio::test(start_paused = true)]
async fn who_leaves_with_it_has_refused_at_once() {
    let bench = rerouting();
    let (notebook, heating) = (bench.register(1, "notebook").await, heating(&bench, 2).await);
    let sent = bench.submit(WARMER).await;
    notebook.leave().await;
    assert_eq!(heating.given().await.map(|delivery| delivery.message), Some(sent.id));
    assert_eq!(bench.short(sent.id).await, "sent | notebook disconnected: Client disconnected | heating sent");
}

#[tokio::test(start_paused = true)]
async fn refused_by_the_app_it_names_a_message_is_held_with_the_command() {
    let bench = test_hub_with(|setup| {
        setup.hub.rules = HubRules { aliases: vec![("nb".into(), "notebook".into())], rules: Vec::new() };
        setup.hub.catch_all = Some("inbox".into());
    });
    bench.run_background();
    let (notebook, heating) = (bench.register(1, "notebook").await, heating(&bench, 2).await);
    let inbox = bench.register(3, "inbox").await;
    for text in [WARMER, "nb: turn up the thermostat"] {
        let sent = bench.submit(text).await.id;
        notebook.reject(sent, "I only take notes").await;
        assert_eq!(held(&bench, sent).await, "notebook refused it: I only take notes");
        assert_eq!(bench.records(sent).await, ["submitted", "decided", "sent", "answered", "decided", "rested"]);
        assert_eq!(*bench.read(sent).await, bench.replayed(sent).await);
        // It waits for a person, whichever apps register.
        notebook.reject(sent, "no, really").await;
        let radio = bench.register(4, "radio").await;
        radio.leave().await;
        assert_eq!(held(&bench, sent).await, "notebook refused it: I only take notes");
        assert_eq!((heating.given().await, inbox.given().await), (None, None));
        assert_eq!(bench.resend(sent, Some("heating")).await.state, MessageState::Sent);
        assert_eq!(&*heating.delivery().await.text, "turn up the thermostat");
        heating.ack(sent).await;
        assert_eq!(bench.read(sent).await.state, MessageState::Delivered);
    }
    assert_eq!(bench.shown.titles(), ["No app took this message"; 2]);
    assert!(bench.shown.bodies()[0].contains("`patchboard hub route msg-"), "{:?}", bench.shown.bodies());
}

#[tokio::test(start_paused = true)]
async fn an_app_that_is_named_and_says_nothing_is_waited_for() {
    let bench = test_hub();
    let (notebook, heating) = (bench.register(1, "notebook").await, heating(&bench, 2).await);
    let sent = bench.submit(WARMER).await.id;
    notebook.delivery().await;
    tokio::time::sleep(TIMEOUT).await;
    let waits = "queued (notebook did not answer in time; waiting for its answer, or for it to come back) \
                 | notebook timeout: Response timeout";
    assert_eq!(bench.short(sent).await, waits);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(bench.short(sent).await, waits);
    assert_eq!((notebook.given().await, heating.given().await), (None, None), "nobody is given it meanwhile");
    // The app reconnects and gets the message again, with a new time.
    notebook.leave().await;
    assert_eq!(bench.read(sent).await.state, MessageState::Queued);
    let notebook = bench.register(3, "notebook").await;
    let again = notebook.delivery().await;
    assert_eq!((again.message, &*again.text, again.is_direct), (sent, "turn up the thermostat", true));
    tokio::time::sleep(TIMEOUT).await;
    assert_eq!(bench.read(sent).await.state, MessageState::Queued);
    notebook.ack(sent).await;
    assert_eq!(bench.read(sent).await.state, MessageState::Delivered, "late is better than never");
    assert_eq!(*bench.read(sent).await, bench.replayed(sent).await);
}

#[tokio::test(start_paused = true)]
async fn a_late_refusal_ends_the_wait_for_the_app_that_is_named() {
    let bench = test_hub();
    let notebook = bench.register(1, "notebook").await;
    let sent = bench.submit("notebook: zxqv").await.id;
    tokio::time::sleep(TIMEOUT).await;
    assert_eq!(bench.read(sent).await.state, MessageState::Queued);
    notebook.reject(sent, "not mine").await;
    assert_eq!(held(&bench, sent).await, "notebook refused it: not mine");
}

#[tokio::test(start_paused = true)]
async fn an_app_that_is_named_and_away_is_waited_for_until_the_message_expires() {
    let bench = test_hub();
    let (notebook, heating) = (bench.register(1, "notebook").await, heating(&bench, 2).await);
    notebook.leave().await;
    let sent = bench.submit(WARMER).await;
    let waiting = "queued (waiting for notebook, which is not connected)";
    assert_eq!(short(&sent), waiting);
    // The same if the app disconnects with the message.
    let notebook = bench.register(3, "notebook").await;
    notebook.delivery().await;
    notebook.leave().await;
    let waiting = format!("{waiting} | notebook disconnected: Client disconnected");
    assert_eq!(bench.short(sent.id).await, waiting);
    let day = Duration::from_secs(24 * 3600);
    bench.clock.advance_seconds(24 * 3600 - 1);
    tokio::time::sleep(day - Duration::from_secs(1)).await;
    assert_eq!(bench.short(sent.id).await, waiting);
    bench.clock.advance_seconds(1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(bench.read(sent.id).await.state, MessageState::Expired);
    assert_eq!(heating.given().await, None);
}

#[tokio::test(start_paused = true)]
async fn an_app_that_was_not_here_for_weeks_is_waited_for_when_it_is_named() {
    let bench = test_hub();
    heating(&bench, 1).await.leave().await;
    bench.clock.advance_seconds(30 * 24 * 3600);
    let notebook = bench.register(2, "notebook").await;
    let named = bench.submit("heating: turn up the thermostat").await;
    assert_eq!(short(&named), "queued (waiting for heating, which is not connected)");
    assert_eq!(bench.submit("turn up the thermostat").await.state, MessageState::Held, "it merely fits");
    assert_eq!(notebook.given().await, None);
}

#[tokio::test(start_paused = true)]
async fn whoever_went_away_gets_it_when_it_is_back_as_the_one_it_was_for() {
    for (bench, why) in [(test_hub(), "notebook, which is not connected"), (rerouting(), "notebook to come back")] {
        let notebook = bench.register(1, "notebook").await;
        let sent = bench.submit("notebook: zxqv").await;
        notebook.delivery().await;
        notebook.leave().await;
        let waiting = format!("queued (waiting for {why}) | notebook disconnected: Client disconnected");
        assert_eq!(bench.short(sent.id).await, waiting);
        let notebook = bench.register(2, "Notebook").await;
        let again = notebook.delivery().await;
        assert_eq!((again.message, &*again.text, again.is_direct), (sent.id, "zxqv", true));
        notebook.ack(sent.id).await;
        assert_eq!(bench.read(sent.id).await.state, MessageState::Delivered);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_keeps_going_away_with_it_is_not_given_it_for_ever() {
    let bench = test_hub();
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
    assert_eq!(held(&bench, sent).await, "notebook was given it several times and never answered");
    assert_eq!(bench.read(sent).await.attempts.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgement_after_the_timeout_ends_the_search() {
    let bench = rerouting();
    let (notebook, heating) = (bench.register(1, "notebook").await, heating(&bench, 2).await);
    let lamp = bench.register(3, "lamp").await;
    let sent = bench.submit(WARMER).await;
    tokio::time::advance(TIMEOUT).await;
    heating.delivery().await;
    notebook.ack(sent.id).await;
    assert_eq!(bench.read(sent.id).await.state, MessageState::Delivered);
    heating.reject(sent.id, "not mine").await;
    assert_eq!(bench.read(sent.id).await.state, MessageState::Delivered);
    assert_eq!(lamp.given().await, None);
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgement_after_the_end_makes_it_delivered() {
    let bench = rerouting();
    let notebook = bench.register(1, "notebook").await;
    let sent = bench.submit("notebook: zxqv").await;
    tokio::time::advance(TIMEOUT).await;
    assert_eq!(bench.read(sent.id).await.state, MessageState::Refused);
    // Long after the actor has been removed.
    tokio::time::advance(Duration::from_secs(3600)).await;
    notebook.ack(sent.id).await;
    assert_eq!(bench.short(sent.id).await, "delivered | notebook delivered");
    assert_eq!(*bench.read(sent.id).await, bench.replayed(sent.id).await);
}

#[tokio::test(start_paused = true)]
async fn acknowledged_and_then_refused_it_goes_on() {
    let bench = rerouting();
    let (notebook, heating) = (bench.register(1, "notebook").await, heating(&bench, 2).await);
    let sent = bench.submit(WARMER).await;
    notebook.ack(sent.id).await;
    notebook.reject(sent.id, "after all").await;
    assert_eq!(heating.delivery().await.message, sent.id);
    assert_eq!(bench.short(sent.id).await, "sent | notebook rejected: after all | heating sent");
}

#[tokio::test(start_paused = true)]
async fn a_notification_alone_is_taken_for_an_acknowledgement() {
    let bench = test_hub();
    bench.run_background();
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
    let bench = test_hub();
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
    let bench = test_hub();
    let (notebook, lamp) = (bench.register(1, "notebook").await, bench.register(2, "lamp").await);
    let sent = bench.submit("notebook: zxqv").await;
    for response in [AppResponse::Ack, reject("no")] {
        assert_eq!(lamp.answer(sent.id, response).await.unwrap_err().kind, ErrorKind::NotFound);
    }
    let unknown = MessageId(uuid::Uuid::from_u128(77));
    assert_eq!(notebook.answer(unknown, AppResponse::Ack).await.unwrap_err().kind, ErrorKind::NotFound);
    notebook.leave().await;
    assert_eq!(notebook.answer(sent.id, AppResponse::Ack).await.unwrap_err().kind, ErrorKind::Forbidden);
    assert_eq!(bench.records(unknown).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_same_name_answers_after_a_reconnect() {
    let bench = rerouting();
    let (notebook, heating) = (bench.register(1, "notebook").await, heating(&bench, 2).await);
    let sent = bench.submit(WARMER).await;
    notebook.delivery().await;
    notebook.leave().await;
    assert_eq!(heating.delivery().await.message, sent.id);
    let notebook = bench.register(3, "notebook").await;
    notebook.ack(sent.id).await;
    notebook.notify(sent.id, "noted").await;
    assert_eq!(bench.short(sent.id).await, "delivered | notebook delivered | heating sent");
}

#[tokio::test(start_paused = true)]
async fn a_person_may_send_it_to_one_app_after_the_other() {
    let bench = test_hub();
    let mut apps = Vec::new();
    for (connection, name) in ["a", "b", "c", "d", "e", "f"].into_iter().enumerate() {
        apps.push((name, bench.register(connection as u64, name).await));
    }
    let sent = bench.submit(GIBBERISH).await.id;
    for (name, app) in &apps[..5] {
        bench.resend(sent, Some(name)).await;
        app.reject(sent, "no").await;
        assert_eq!(held(&bench, sent).await, format!("{name} refused it: no"));
    }
    let report = bench.read(sent).await;
    assert!(report.attempts.iter().all(|attempt| attempt.stage == RoutingStage::Manual), "{}", short(&report));
    // Resent without an app: none fits, and the earlier refusals do not make the remaining app a better match.
    bench.resend(sent, None).await;
    assert_eq!(bench.read(sent).await.state, MessageState::Held);
    assert_eq!(apps[5].1.given().await, None);
}

/// An app that floods the hub with notices or changing responses is stopped before it fills the disk.
#[tokio::test(start_paused = true)]
async fn talk_without_end_is_cut_off() {
    async fn said(bench: &TestHub, response: fn(usize) -> AppResponse) -> (usize, usize) {
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
    let bench = test_hub();
    let (said_once, records) = said(&bench, |_| crate::hub::tests::test_hub::notice("more")).await;
    assert_eq!((said_once, records), (997, 1000));
    let (_, records) = said(&bench, |number| if number % 2 == 0 { AppResponse::Ack } else { reject("no") }).await;
    assert!(records <= 2002, "{records}");
}
