//! Routing by a model, with the cost of every call counted, whatever its outcome.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::InputMethod;
use crate::app::message::{MessageState, RoutingStage};
use crate::budget::BudgetLimits;
use crate::caller::{Caller, Principal, Surface};
use crate::command::{BudgetStatus, CreateKey, ExplainLocalRouting, ExplainRouting, SubmitMessage};
use crate::faulty::FaultyStore;
use crate::hub::tests::test_hub::{
    GIBBERISH, TestHub, let_others_run, on_store, operator, profile, test_hub_with, user, with_model,
};
use crate::keys::{KeyHash, KeyRights};
use crate::model::ModelError;
use crate::scripted::{Script, ScriptStep, answering, call, say};
use crate::store::{BudgetScope, RunRow, Store, StoreWrite, UsageGroup, UsageGrouping, UsageQuery};

fn chooses(apps: &[&str]) -> Script {
    let tools: Vec<String> = apps.iter().map(|app| format!("route_to_{app}")).collect();
    let calls: Vec<_> = tools.iter().map(|tool| (tool.as_str(), json!({"reason": "it says so"}))).collect();
    call(&calls, 20, 5)
}

fn nobody() -> Script {
    say(&["nobody"], 20, 5)
}

fn fails() -> Script {
    vec![ScriptStep::Fail(ModelError::Unavailable("no route to host".into()))]
}

async fn usage(test_hub: &TestHub) -> (u64, u64) {
    let query = UsageQuery {
        since: None,
        group_by: UsageGrouping::Agent,
        then_by: None,
        owners: None,
        limit: 10,
        cursor: None,
    };
    let groups = test_hub.store.usage(query).await.unwrap().items;
    groups
        .iter()
        .fold((0, 0), |(calls, tokens), group: &UsageGroup| (calls + group.calls, tokens + group.tokens.total()))
}

async fn reserved(test_hub: &TestHub) -> u64 {
    test_hub.ask(&user(), BudgetStatus { session: None }).await.unwrap().daily.reserved
}

#[tokio::test(start_paused = true)]
async fn the_model_decides_what_words_do_not() {
    let test_hub = with_model([chooses(&["lamp"])]);
    let (notebook, lamp) = (test_hub.register(1, "notebook").await, test_hub.register(2, "lamp").await);
    let sent = test_hub.submit(GIBBERISH).await;
    assert_eq!(sent.state, MessageState::Queued, "answered before the model has");
    let delivery = lamp.delivery().await;
    assert_eq!((&*delivery.text, delivery.is_direct), (GIBBERISH, false), "the user's words");
    assert_eq!(delivery.routing_reason.as_deref(), Some("it says so"));
    lamp.ack(sent.id).await;
    let report = test_hub.read(sent.id).await;
    assert_eq!(report.attempts[0].stage, RoutingStage::Model);
    assert_eq!(notebook.given().await, None);
    assert_eq!(usage(&test_hub).await, (1, 25));
    assert_eq!(reserved(&test_hub).await, 0);
    assert!(test_hub.store.unfinished_runs().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn several_recipients() {
    let test_hub = with_model([chooses(&["lamp", "notebook", "lamp"])]);
    let (notebook, lamp) = (test_hub.register(1, "notebook").await, test_hub.register(2, "lamp").await);
    let sent = test_hub.submit(GIBBERISH).await;
    assert_eq!((notebook.delivery().await.message, lamp.delivery().await.message), (sent.id, sent.id));
    assert_eq!(test_hub.short(sent.id).await, "sent | lamp sent | notebook sent");
    lamp.reject(sent.id, "no").await;
    assert_eq!(test_hub.short(sent.id).await, "sent | lamp rejected: no | notebook sent");
    notebook.ack(sent.id).await;
    assert_eq!(test_hub.short(sent.id).await, "delivered | lamp rejected: no | notebook delivered");
    assert_eq!(lamp.given().await, None, "nobody gets it twice");
    assert_eq!(test_hub.model.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_for_several_that_is_cancelled_stays_so_whatever_they_say() {
    let test_hub = with_model([chooses(&["lamp", "notebook"])]);
    let (notebook, lamp) = (test_hub.register(1, "notebook").await, test_hub.register(2, "lamp").await);
    let radio = test_hub.register(3, "radio").await;
    let sent = test_hub.submit(GIBBERISH).await.id;
    lamp.delivery().await;
    test_hub.cancel(sent).await;
    lamp.reject(sent, "no").await;
    assert_eq!(test_hub.read(sent).await.state, MessageState::Cancelled);
    assert_eq!(radio.given().await, None);
    notebook.ack(sent).await;
    assert_eq!(test_hub.read(sent).await.state, MessageState::Delivered, "it was taken all the same");
}

#[tokio::test(start_paused = true)]
async fn reasons_for_refusing_are_told_to_the_model() {
    let test_hub = with_model([chooses(&["lamp"]), chooses(&["notebook"])]);
    let (notebook, lamp) = (test_hub.register(1, "notebook").await, test_hub.register(2, "lamp").await);
    let sent = test_hub.submit(GIBBERISH).await.id;
    lamp.delivery().await;
    lamp.reject(sent, "I only do light").await;
    assert_eq!(notebook.delivery().await.message, sent);
    let requests = test_hub.model.requests();
    let tools = |index: usize| requests[index].tools.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>();
    assert_eq!(tools(0), ["route_to_notebook", "route_to_lamp"]);
    assert_eq!(tools(1), ["route_to_notebook"], "who refused is not offered");
    assert!(requests[1].messages[0].text().contains("lamp: <data>I only do light</data>"));
}

/// After three refusals the model is not asked again: the message is most likely for no app.
#[tokio::test(start_paused = true)]
async fn what_several_apps_refused_is_held_and_the_model_not_asked_again() {
    let test_hub = with_model([chooses(&["a"]), chooses(&["b"]), chooses(&["c"]), chooses(&["d"])]);
    let mut apps = Vec::new();
    for (connection, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        apps.push(test_hub.register(connection as u64, name).await);
    }
    let sent = test_hub.submit(GIBBERISH).await.id;
    for app in &apps[..3] {
        app.delivery().await;
        app.reject(sent, "no").await;
    }
    let report = test_hub.read(sent).await;
    assert_eq!(report.state, MessageState::Held);
    let reason = report.reason.clone().unwrap();
    assert!(reason.starts_with("a: no; b: no; c: no; no other app clearly fits. Choose with `"), "{reason}");
    assert_eq!(apps[3].given().await, None);
    assert_eq!(test_hub.model.requests().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_finds_nobody_is_not_asked_again_until_somebody_new_comes() {
    let test_hub = with_model([nobody(), chooses(&["radio"])]);
    let lamp = test_hub.register(1, "lamp").await;
    let sent = test_hub.submit(GIBBERISH).await.id;
    assert_eq!(test_hub.read(sent).await.state, MessageState::Held);
    lamp.leave().await;
    for connection in 10..20 {
        let lamp = test_hub.register(connection, "lamp").await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        lamp.leave().await;
    }
    assert_eq!(test_hub.model.requests().len(), 1, "it has said what it thinks of the lamp");
    let radio = test_hub.register(30, "radio").await;
    assert_eq!(radio.delivery().await.message, sent);
}

#[tokio::test(start_paused = true)]
async fn apps_that_come_together_are_asked_about_together() {
    let test_hub = with_model([chooses(&["c"])]);
    let sent = test_hub.submit(GIBBERISH).await.id;
    let mut apps = Vec::new();
    for (connection, name) in ["a", "b", "c"].into_iter().enumerate() {
        apps.push(test_hub.register(connection as u64, name).await);
        let_others_run().await;
    }
    assert_eq!(apps[2].delivery().await.message, sent);
    assert_eq!(test_hub.model.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_fails_is_asked_again_after_a_pause() {
    let test_hub = with_model([fails(), fails(), chooses(&["lamp"])]);
    test_hub.run_background();
    let lamp = test_hub.register(1, "lamp").await;
    let sent = test_hub.submit(GIBBERISH).await;
    let waiting = test_hub.read(sent.id).await;
    assert_eq!(waiting.state, MessageState::Queued);
    assert!(waiting.reason.as_ref().unwrap().starts_with("the model that routes cannot be asked: "), "{waiting:?}");
    assert_eq!(usage(&test_hub).await.0, 1, "a call that failed is settled too");
    // Apps that register meanwhile do not cause an earlier retry.
    for connection in 10..13 {
        test_hub.register(connection, "radio").await.leave().await;
    }
    let_others_run().await;
    assert_eq!(test_hub.model.requests().len(), 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let_others_run().await;
    assert_eq!(test_hub.model.requests().len(), 2);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(lamp.delivery().await.message, sent.id);
    assert_eq!(test_hub.model.requests().len(), 3);
    assert_eq!(test_hub.shown.titles(), ["Message waits"], "the user hears of it once");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_is_down_costs_nothing() {
    let test_hub = with_model([fails(), fails()]);
    test_hub.register(1, "lamp").await;
    test_hub.submit(GIBBERISH).await;
    let_others_run().await;
    assert_eq!((usage(&test_hub).await.1, reserved(&test_hub).await), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_the_model_expires_like_anything_else() {
    let test_hub = test_hub_with(|setup| {
        setup.hub.agent = Some("default".into());
        setup.hub.expiry = Duration::from_secs(100);
        (0..50).for_each(|_| setup.model.push(fails()));
    });
    test_hub.register(1, "lamp").await;
    let sent = test_hub.submit(GIBBERISH).await.id;
    tokio::time::sleep(Duration::from_secs(90)).await;
    // The message expires before the model is asked again, without polling in between.
    test_hub.clock.advance_seconds(100);
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(test_hub.read(sent).await.state, MessageState::Expired);
    assert_eq!(test_hub.model.requests().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_is_used_up_makes_it_wait() {
    let test_hub = test_hub_with(|setup| {
        setup.hub.agent = Some("default".into());
        setup.budgets = BudgetLimits { daily: Some(10), ..BudgetLimits::default() };
    });
    test_hub.register(1, "lamp").await;
    let sent = test_hub.submit(GIBBERISH).await.id;
    let report = test_hub.read(sent).await;
    assert_eq!(report.state, MessageState::Queued);
    assert!(report.reason.as_ref().unwrap().contains("token budget exceeded"), "{report:?}");
    assert!(test_hub.model.requests().is_empty());
    assert_eq!(usage(&test_hub).await, (0, 0));
    assert_eq!(reserved(&test_hub).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_hangs_is_given_up_after_a_minute() {
    let hangs = vec![answering(), ScriptStep::Wait(Arc::new(Semaphore::new(0)))];
    let test_hub = with_model([hangs, chooses(&["lamp"])]);
    let lamp = test_hub.register(1, "lamp").await;
    let sent = test_hub.submit(GIBBERISH).await.id;
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(test_hub.read(sent).await.reason.as_ref().unwrap().contains("took too long"));
    assert_eq!(lamp.delivery().await.message, sent);
    assert_eq!(usage(&test_hub).await.0, 2);
    assert_eq!(reserved(&test_hub).await, 0);
}

#[tokio::test(start_paused = true)]
async fn cancelled_while_the_model_thinks() {
    let hangs = vec![answering(), ScriptStep::Wait(Arc::new(Semaphore::new(0)))];
    let test_hub = with_model([hangs]);
    test_hub.register(1, "lamp").await;
    let sent = test_hub.submit(GIBBERISH).await.id;
    let_others_run().await;
    assert_eq!(test_hub.cancel(sent).await.state, MessageState::Cancelled);
    assert_eq!((usage(&test_hub).await.0, reserved(&test_hub).await), (1, 0), "what it cost until then is counted");
}

#[tokio::test(start_paused = true)]
async fn the_end_comes_while_the_model_thinks() {
    let hangs = vec![answering(), ScriptStep::Wait(Arc::new(Semaphore::new(0)))];
    let test_hub = with_model([hangs]);
    test_hub.register(1, "lamp").await;
    test_hub.submit(GIBBERISH).await;
    let_others_run().await;
    let before = tokio::time::Instant::now();
    test_hub.board.drain(Duration::from_secs(30)).await.unwrap();
    assert_eq!(before.elapsed(), Duration::ZERO);
    let settled = |write: &StoreWrite| matches!(write, StoreWrite::SettleModelCall(_));
    assert!(test_hub.store.journal().iter().flat_map(|batch| &batch.writes).any(settled));
}

#[tokio::test(start_paused = true)]
async fn an_explanation_nobody_waits_for_is_settled_too() {
    let hangs = vec![answering(), ScriptStep::Wait(Arc::new(Semaphore::new(0)))];
    let test_hub = with_model([hangs]);
    test_hub.register(1, "lamp").await;
    let explain = ExplainRouting { text: GIBBERISH.into() };
    let asking = TaskTracker::new().spawn(test_hub.board.ask(&user(), explain, CancellationToken::new()));
    let_others_run().await;
    assert_eq!(test_hub.store.unfinished_runs().await.unwrap().len(), 1);
    asking.abort();
    let_others_run().await;
    assert_eq!(test_hub.store.unfinished_runs().await.unwrap().len(), 0);
    assert_eq!((usage(&test_hub).await.0, reserved(&test_hub).await), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_the_server_died_in_is_closed_at_the_next_start() {
    let hangs = vec![answering(), ScriptStep::Wait(Arc::new(Semaphore::new(0)))];
    let test_hub = with_model([hangs]);
    test_hub.register(1, "lamp").await;
    let sent = test_hub.submit(GIBBERISH).await.id;
    let_others_run().await;
    let store = FaultyStore::new();
    for batch in test_hub.store.journal() {
        store.commit(batch).await.unwrap();
    }
    let next = on_store(store);
    let recovered = next.board.adopt().await.unwrap();
    assert_eq!((recovered.closed, recovered.messages), (1, 1));
    assert_eq!(usage(&next).await.0, 1);
    let runs: Vec<RunRow> = next.store.unfinished_runs().await.unwrap().into_iter().map(|run| run.run).collect();
    assert!(runs.is_empty(), "{runs:?}");
    assert_eq!(next.read(sent).await.state, MessageState::Queued);
    let today = next.store.tokens_spent(vec![BudgetScope::Month { year: 2026, month: 11 }]).await.unwrap();
    assert!(today[0] > 0);
}

#[tokio::test(start_paused = true)]
async fn only_so_many_questions_at_once() {
    let gate = Arc::new(Semaphore::new(0));
    let hangs = || vec![answering(), ScriptStep::Wait(gate.clone())];
    let test_hub = with_model((0..super::MAX_CONCURRENT_CALLS * 3).map(|_| hangs()));
    test_hub.register(1, "lamp").await;
    for _ in 0..super::MAX_CONCURRENT_CALLS * 2 {
        test_hub.submit(GIBBERISH).await;
    }
    let_others_run().await;
    assert_eq!(test_hub.model.requests().len(), super::MAX_CONCURRENT_CALLS);
    gate.add_permits(1);
    let_others_run().await;
    assert_eq!(test_hub.model.requests().len(), super::MAX_CONCURRENT_CALLS + 1);
}

#[tokio::test(start_paused = true)]
async fn explained_by_the_model() {
    let test_hub = with_model([chooses(&["lamp"]), fails()]);
    test_hub.try_register(1, profile("lamp", "light"), None).await.unwrap();
    let explain = ExplainRouting { text: GIBBERISH.into() };
    let decision = test_hub.ask(&user(), explain.clone()).await.unwrap();
    assert_eq!((decision.stage, &*decision.reason), (RoutingStage::Model, "it says so"));
    assert!(test_hub.ask(&user(), explain).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_app_that_comes_does_not_wait_for_messages_a_model_is_asked_about() {
    let hangs = || vec![answering(), ScriptStep::Wait(Arc::new(Semaphore::new(0)))];
    let test_hub = with_model([hangs(), hangs(), hangs()]);
    test_hub.register(1, "lamp").await;
    for _ in 0..3 {
        test_hub.submit(GIBBERISH).await;
    }
    let_others_run().await;
    test_hub.register(2, "zeta").await.leave().await;
    let sent = test_hub.submit("zeta: for you").await;
    assert_eq!(sent.reason.as_deref(), Some("waiting for zeta, which is not connected"));
    let before = tokio::time::Instant::now();
    let zeta = test_hub.register(3, "zeta").await;
    assert_eq!(zeta.delivery().await.message, sent.id);
    assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_key_of_whoever_asks_over_the_hub_pays() {
    let test_hub = with_model([chooses(&["lamp"]), chooses(&["lamp"]), chooses(&["lamp"]), chooses(&["lamp"])]);
    test_hub.try_register(1, profile("lamp", "light"), None).await.unwrap();
    let create = CreateKey { name: "ci".into(), hash: KeyHash([1; 32]), rights: KeyRights::default() };
    test_hub.ask(&operator(), create).await.unwrap();
    let key = Caller { principal: Principal::Key("ci".into()), ..user() };
    let spent = async || {
        let month = BudgetScope::KeyMonth { key: "ci".into(), year: 2026, month: 11 };
        test_hub.store.tokens_spent(vec![month]).await.unwrap()[0]
    };
    // An agent's tool speaks for an account, whose name a client may choose.
    let account = Caller { surface: Surface::Runs, principal: Principal::Account("key:ci".into()), ..user() };
    for (caller, costs) in [(&user(), false), (&account, false), (&key, true)] {
        let before = spent().await;
        let text = SubmitMessage { text: GIBBERISH.into(), input: InputMethod::Text, confidence: None, only_app: None };
        test_hub.ask(caller, text).await.unwrap();
        let_others_run().await;
        assert_eq!(spent().await > before, costs, "{caller:?}");
    }
    let before = spent().await;
    test_hub.ask(&key, ExplainRouting { text: GIBBERISH.into() }).await.unwrap();
    assert!(spent().await > before, "an explanation too");
}

#[tokio::test(start_paused = true)]
async fn a_local_explanation_asks_no_model() {
    let test_hub = with_model([]);
    test_hub.register(1, "lamp").await;
    let decision = test_hub.ask(&user(), ExplainLocalRouting { text: GIBBERISH.into() }).await.unwrap();
    assert_eq!(decision.apps, []);
    assert_eq!(usage(&test_hub).await.0, 0);
    let named = test_hub.ask(&user(), ExplainLocalRouting { text: "lamp: on".into() }).await.unwrap();
    assert_eq!(named.apps, ["lamp".into()]);
    assert!(test_hub.store.messages(open_messages()).await.unwrap().items.is_empty(), "nothing is sent");
}

fn open_messages() -> crate::store::MessageQuery {
    crate::store::MessageQuery { state: None, limit: 10, cursor: None }
}
