//! How messages reach their app.

use crate::app::message::{AppNotice, AppResponse, MessageState, RoutingStage};
use crate::app::{AppDelivery, InputMethod, NoticePriority};
use crate::command::{ExplainRouting, ReadMessage, SubmitMessage};
use crate::error::ErrorKind;
use crate::hub::routing::{HubRules, RoutingRule};
use crate::hub::tests::test_hub::{GIBBERISH, TestApp, TestHub, notice, profile, short, test_hub, test_hub_with, user};
use crate::id::MessageId;

#[tokio::test(start_paused = true)]
async fn direct() {
    let bench = test_hub();
    let (notebook, lamp) = (bench.register(1, "notebook").await, bench.register(2, "lamp").await);
    let sent = bench.submit("Notebook: buy milk").await;
    assert_eq!(short(&sent), "sent | notebook sent");
    let expected = AppDelivery {
        message: sent.id,
        text: "buy milk".into(),
        at: sent.submitted_at,
        input: InputMethod::Text,
        confidence: None,
        is_direct: true,
        routing_reason: None,
    };
    assert_eq!(*notebook.delivery().await, expected);
    notebook.ack(sent.id).await;
    assert_eq!(bench.short(sent.id).await, "delivered | notebook delivered");
    assert_eq!(lamp.given().await, None);
    assert_eq!(*bench.read(sent.id).await, bench.replayed(sent.id).await);
}

#[tokio::test(start_paused = true)]
async fn voice_comes_with_its_confidence() {
    let bench = test_hub();
    let notebook = bench.register(1, "notebook").await;
    let said = |confidence| {
        let text = "notebook, buy milk".into();
        SubmitMessage { text, input: InputMethod::Voice, confidence, only_app: None }
    };
    bench.ask(&user(), said(Some(0.7))).await.unwrap();
    let delivery = notebook.delivery().await;
    assert_eq!((delivery.input, delivery.confidence), (InputMethod::Voice, Some(0.7)));
    for wrong in [-0.1, 1.1, f32::NAN, f32::INFINITY] {
        assert_eq!(bench.ask(&user(), said(Some(wrong))).await.unwrap_err().kind, ErrorKind::Invalid, "{wrong}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_to_say_is_refused() {
    let bench = test_hub();
    for text in ["", " \n"] {
        assert_eq!(bench.try_submit(text, None).await.unwrap_err().kind, ErrorKind::Invalid);
    }
    let long = "x".repeat(super::super::MAX_TEXT + 1);
    assert_eq!(bench.try_submit(&long, None).await.unwrap_err().kind, ErrorKind::Invalid);
    assert!(bench.list().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn aliases_are_names_and_rules_explain_themselves() {
    let bench = test_hub_with(|setup| {
        setup.hub.rules = HubRules {
            aliases: vec![("nb".into(), "notebook".into())],
            rules: vec![RoutingRule::new(["play *"], "music")],
        };
    });
    let (notebook, music) = (bench.register(1, "notebook").await, bench.register(2, "music").await);
    bench.submit("nb: buy milk").await;
    let delivery = notebook.delivery().await;
    assert_eq!((&*delivery.text, delivery.is_direct, &delivery.routing_reason), ("buy milk", true, &None));
    bench.submit("play jazz").await;
    let delivery = music.delivery().await;
    assert_eq!((&*delivery.text, delivery.is_direct), ("play jazz", false));
    assert_eq!(delivery.routing_reason.as_deref(), Some("the rule `play *` is for music"));
}

#[tokio::test(start_paused = true)]
async fn nobody_there_then_somebody_unfit_then_a_person() {
    let bench = test_hub();
    bench.run_background();
    let sent = bench.submit(GIBBERISH).await;
    assert_eq!(short(&sent), "queued (no app is connected)");
    let notebook = bench.register(1, "notebook").await;
    let held = bench.read(sent.id).await;
    assert_eq!(held.state, MessageState::Held);
    assert_eq!(notebook.given().await, None);
    assert_eq!(bench.shown.titles(), ["Message waits", "Which app is this for?"]);
    let hint = format!("`patchboard hub route {} ", sent.id);
    assert!(bench.shown.bodies()[1].contains(&hint), "{:?}", bench.shown.bodies());

    assert_eq!(short(&*bench.resend(sent.id, Some("NOTEBOOK")).await), "sent | notebook sent");
    let delivery = notebook.delivery().await;
    assert_eq!((delivery.message, &*delivery.text, delivery.is_direct), (sent.id, GIBBERISH, false));
    assert_eq!(delivery.routing_reason.as_deref(), Some("a person chose notebook"));
    notebook.ack(sent.id).await;
    assert_eq!(bench.short(sent.id).await, "delivered | notebook delivered");
    assert_eq!(*bench.read(sent.id).await, bench.replayed(sent.id).await);
}

#[tokio::test(start_paused = true)]
async fn what_fits_nobody_goes_to_the_catch_all_when_it_is_there() {
    let bench = test_hub_with(|setup| setup.hub.catch_all = Some("inbox".into()));
    bench.register(1, "notebook").await;
    let sent = bench.submit(GIBBERISH).await;
    assert_eq!(sent.state, MessageState::Held);
    let inbox = bench.register(2, "inbox").await;
    assert_eq!(inbox.delivery().await.message, sent.id);
    assert_eq!(bench.read(sent.id).await.attempts[0].stage, RoutingStage::CatchAll);
}

#[tokio::test(start_paused = true)]
async fn waits_for_the_app_it_names() {
    let bench = test_hub();
    let notebook = bench.register(1, "notebook").await;
    let lamp = bench.register(2, "lamp").await;
    notebook.leave().await;
    let sent = bench.submit("notebook: buy milk").await;
    assert_eq!(short(&sent), "queued (waiting for notebook, which is not connected)");
    bench.register(3, "radio").await;
    assert_eq!(bench.short(sent.id).await, "queued (waiting for notebook, which is not connected)");
    assert_eq!(lamp.given().await, None);
    let notebook = bench.register(4, "notebook").await;
    let delivery = notebook.delivery().await;
    assert_eq!((delivery.message, &*delivery.text, delivery.is_direct), (sent.id, "buy milk", true));
}

#[tokio::test(start_paused = true)]
async fn for_one_app_and_no_other() {
    let bench = test_hub();
    let (notebook, lamp) = (bench.register(1, "Notebook").await, bench.register(2, "lamp").await);
    let sent = bench.try_submit("lamp: on", Some("notebook")).await.unwrap();
    let delivery = notebook.delivery().await;
    assert_eq!((&*delivery.text, delivery.routing_reason.as_deref()), ("lamp: on", Some("sent to Notebook alone")));
    notebook.reject(sent.id, "no").await;
    assert_eq!(bench.short(sent.id).await, "refused (Notebook: no) | Notebook rejected: no");
    let absent = bench.try_submit("hello", Some("radio")).await.unwrap();
    assert_eq!(short(&absent), "refused (radio is not connected)");
    assert_eq!(lamp.given().await, None);
}

async fn asks(app: &TestApp, message: MessageId, notice: AppNotice) {
    app.answer(message, AppResponse::Notice(notice)).await.unwrap();
}

async fn noted(bench: &TestHub, app: &TestApp) -> MessageId {
    let sent = bench.submit("notebook: buy milk").await;
    app.delivery().await;
    app.ack(sent.id).await;
    sent.id
}

#[tokio::test(start_paused = true)]
async fn the_next_words_answer_the_question_and_no_others() {
    let bench = test_hub();
    let (notebook, lamp) = (bench.register(1, "notebook").await, bench.register(2, "lamp").await);
    // Submitted before the question: never an answer to it, whatever happens later.
    let before = bench.submit(GIBBERISH).await;
    assert_eq!(before.state, MessageState::Held);
    let first = noted(&bench, &notebook).await;
    let question = AppNotice {
        title: "notebook".into(),
        body: "Which list?".into(),
        priority: NoticePriority::Normal,
        expects_reply: false,
    };
    asks(&notebook, first, question.clone()).await;
    let radio = bench.register(3, "radio").await;
    assert_eq!(bench.read(before.id).await.state, MessageState::Held);

    let answer = bench.submit("zxqv").await;
    let delivery = notebook.delivery().await;
    assert_eq!((delivery.message, &*delivery.text, delivery.is_direct), (answer.id, "zxqv", false));
    assert_eq!(delivery.routing_reason.as_deref(), Some("notebook asked something a moment ago"));
    notebook.ack(answer.id).await;
    assert_eq!(bench.submit("blorp").await.state, MessageState::Held, "one answer closes the question");

    asks(&notebook, first, question).await;
    tokio::time::advance(std::time::Duration::from_secs(301)).await;
    assert_eq!(bench.submit("wub").await.state, MessageState::Held, "too late");
    assert_eq!((lamp.given().await, radio.given().await), (None, None));
}

#[tokio::test(start_paused = true)]
async fn answers_are_told_to_whoever_reads_on() {
    let bench = test_hub();
    let notebook = bench.register(1, "notebook").await;
    let sent = bench.submit("notebook: buy milk").await;
    let newer_than = Some(sent.version);
    let reading = bench.ask(&user(), ReadMessage { message: sent.id, newer_than });
    let answering = async {
        notebook.ack(sent.id).await;
        notebook.notify(sent.id, "noted").await;
    };
    let (read, ()) = tokio::join!(reading, answering);
    let read = read.unwrap();
    assert_eq!(read.state, MessageState::Delivered);
    let read = bench.ask(&user(), ReadMessage { message: sent.id, newer_than: None }).await.unwrap();
    assert_eq!(read.notices, [("notebook".into(), noticed("noted"))]);
}

fn noticed(body: &str) -> AppNotice {
    let AppResponse::Notice(notice) = notice(body) else { panic!("no notice") };
    notice
}

#[tokio::test(start_paused = true)]
async fn the_list_has_the_newest_first() {
    let bench = test_hub();
    let first = bench.submit("one").await.id;
    bench.clock.advance_seconds(1);
    let second = bench.submit("two").await.id;
    assert_eq!(bench.list().await.iter().map(|report| report.id).collect::<Vec<_>>(), [second, first]);
}

#[tokio::test(start_paused = true)]
async fn explained_without_being_sent() {
    let bench = test_hub();
    let notebook = bench.register(1, "notebook").await;
    let explain = |text: &str| ExplainRouting { text: text.into() };
    let decision = bench.ask(&user(), explain("notebook: x")).await.unwrap();
    assert_eq!((decision.stage, &*decision.apps), (RoutingStage::Direct, &["notebook".into()][..]));
    let decision = bench.ask(&user(), explain(GIBBERISH)).await.unwrap();
    assert_eq!((decision.stage, decision.apps.len()), (RoutingStage::Nobody, 0));
    assert_eq!(notebook.given().await, None);
    assert!(bench.list().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn words_lead_to_the_app_that_speaks_of_them() {
    let bench = test_hub();
    let heating = profile("heating", "I control the thermostat and the heating at home");
    let heating = bench.try_register(1, heating, None).await.unwrap();
    let recipes =
        bench.try_register(2, profile("recipes", "I find recipes and plan what to cook"), None).await.unwrap();
    let sent = bench.submit("turn up the thermostat").await;
    let delivery = heating.delivery().await;
    assert_eq!((delivery.message, &*delivery.text, delivery.is_direct), (sent.id, "turn up the thermostat", false));
    assert!(delivery.routing_reason.is_some());
    assert_eq!(recipes.given().await, None);
}

#[tokio::test(start_paused = true)]
async fn messages_that_waited_come_in_the_order_they_were_said() {
    let bench = test_hub();
    let mut said = Vec::new();
    for number in 0..40 {
        said.push(bench.submit(&format!("notebook: number {number}")).await.id);
    }
    let notebook = bench.register(1, "notebook").await;
    for id in said {
        assert_eq!(notebook.delivery().await.message, id);
    }
}
