//! Callers that wait for the answer.

use super::*;

fn patient(scripts: impl IntoIterator<Item = Script>) -> Office {
    office_with(scripts, |setup| setup.channels = vec![waited_for(25)])
}

fn answered(outcome: Result<WebhookOutcome, BoardError>) -> (u16, String) {
    let WebhookOutcome::Respond(answer) = outcome.unwrap() else { panic!("not an answer") };
    (answer.status, String::from_utf8(answer.body).unwrap())
}

fn with_context(id: &str, context: &str) -> serde_json::Value {
    json!({"id": id, "account": "ann", "content": "hi", "context": context})
}

#[tokio::test(start_paused = true)]
async fn they_get_the_adapters_answer_and_its_requests_are_sent_too() {
    let office = patient([]);
    assert_eq!(answered(office.post(&with_context("1", "answers")).await), (201, "<ok>".to_owned()));
    office.done().await;
    assert_eq!(office.host.sent(), ["a copy"]);
    assert!(office.host.replies()[0].is_synchronous);
    assert_eq!(office.state("1").await, (DeliveryState::Sent, None));
    assert_eq!(office.post(&with_context("1", "answers")).await.unwrap(), WebhookOutcome::Duplicate);
}

#[tokio::test(start_paused = true)]
async fn without_one_they_get_the_words() {
    for context in ["plain", "unformattable"] {
        let office = patient([say(&["Hé"], 1, 1)]);
        let WebhookOutcome::Respond(answer) = office.post(&with_context("1", context)).await.unwrap() else { panic!() };
        assert_eq!((answer.status, answer.content_type.as_str()), (200, "text/plain; charset=utf-8"));
        assert_eq!(answer.body, "Hé".as_bytes());
        office.done().await;
        assert_eq!(office.host.sent().len(), 0);
        assert_eq!(office.state("1").await, (DeliveryState::Sent, None));
    }
}

#[tokio::test(start_paused = true)]
async fn who_has_waited_long_enough_gets_the_answer_another_way() {
    let (gate, wait) = closed_gate();
    let office = patient([say_and_wait(&["late"], wait)]);
    let start = tokio::time::Instant::now();
    accepted(office.post(&with_context("1", "answers")).await);
    assert_eq!(start.elapsed(), Duration::from_secs(25));
    gate.add_permits(1);
    office.done().await;
    assert_eq!(office.host.sent(), ["late"]);
    let [reply] = &office.host.replies()[..] else { panic!() };
    assert!(!reply.is_synchronous);
}

#[tokio::test(start_paused = true)]
async fn who_goes_away_gets_the_answer_another_way() {
    let (gate, wait) = closed_gate();
    let scripts = (0..2).map(|_| say_and_wait(&["late"], wait.clone()));
    let office = patient(scripts);
    let stop = CancellationToken::new();
    let post = |id, stop| office.bench.board.ask(&from_channel(), webhook(&with_context(id, "answers")), stop);
    let mut leaving = post("1", stop.clone());
    let mut dropped = post("2", CancellationToken::new());
    assert!(futures_util::poll!(&mut leaving).is_pending() && futures_util::poll!(&mut dropped).is_pending());
    let_others_run().await;
    assert!(futures_util::poll!(&mut leaving).is_pending() && futures_util::poll!(&mut dropped).is_pending());
    stop.cancel();
    accepted(leaving.await);
    drop(dropped);
    gate.add_permits(2);
    office.done().await;
    assert_eq!(office.host.sent(), ["late", "late"]);
    for id in ["1", "2"] {
        assert_eq!(office.state(id).await, (DeliveryState::Sent, None));
    }
}

#[tokio::test(start_paused = true)]
async fn they_hear_of_failures_as_they_are_and_may_try_again() {
    let fails = vec![answering(), ScriptStep::Fail(ModelError::Unavailable("connection refused".into()))];
    let office = patient([fails]);
    let error = office.post(&with_context("1", "answers")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Upstream);
    assert!(error.message.starts_with("provider error: "), "{error}");
    office.done().await;
    assert_eq!(office.state("1").await.0, DeliveryState::Failed);
    assert_eq!((office.host.sent().len(), office.host.replies().len()), (0, 0));
    assert_eq!(answered(office.post(&with_context("1", "answers")).await), (201, "<ok>".to_owned()));
    office.done().await;
    assert_eq!(office.state("1").await, (DeliveryState::Sent, None));
    assert_eq!(office.post(&with_context("1", "answers")).await.unwrap(), WebhookOutcome::Duplicate);
}

#[tokio::test(start_paused = true)]
async fn who_tries_again_at_once_is_not_taken_for_a_repetition() {
    for body in [with_context("1", "answers"), json!({"content": "hi", "context": "answers"})] {
        let fails = vec![answering(), ScriptStep::Fail(ModelError::Unavailable("connection refused".into()))];
        let office = office_with([fails], |setup| {
            setup.channels = vec![waited_for(25)];
            // The caller hears of the failure long before it is on record.
            setup.store = FaultyStore::slow(50);
        });
        office.post(&body).await.unwrap_err();
        assert_eq!(answered(office.post(&body).await), (201, "<ok>".to_owned()));
        office.done().await;
        assert_eq!(office.asked().len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn refusals_come_back_too() {
    let budget = BudgetLimits { session: Some(1), ..BudgetLimits::default() };
    let office = office_with([], |setup| {
        setup.channels = vec![waited_for(25)];
        setup.budgets = budget;
    });
    let error = office.post(&from_ann("1", "hi")).await.unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Exhausted, "token budget exceeded (session: 0/1)"));
    let office = office_with([], |setup| {
        setup.channels = vec![waited_for(25)];
        setup.agent.name = "other".into();
    });
    let error = office.post(&from_ann("1", "hi")).await.unwrap_err();
    let expected = (ErrorKind::NotFound, "no agent configured for tg:ann:room");
    assert_eq!((error.kind, error.message.as_str()), expected);
}
