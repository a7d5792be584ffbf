//! How answers get out, and what people are told when there is none.

use super::*;
use crate::command::CancelRun;
use crate::port::FetchError;
use crate::tool::Glob;

fn refuse(office: &Office, results: impl IntoIterator<Item = Result<crate::port::FetchResponse, FetchError>>) {
    office.host.results.lock().unwrap().extend(results);
}

#[tokio::test(start_paused = true)]
async fn what_may_work_later_is_sent_again() {
    let office = office([two_lines()]);
    let failed = Err(FetchError::Failed("no connection".to_owned()));
    let slow = Err(FetchError::Timeout("too slow".to_owned()));
    let busy = PluginHost::answering(429, &[("Retry-After", "30")]);
    refuse(&office, [failed, PluginHost::answering(502, &[]), busy, slow, PluginHost::answering(200, &[])]);
    office.accept("1", "hi").await;
    office.done().await;
    assert_eq!(office.host.sent(), ["one", "one", "one", "one", "one", "two"]);
    assert_eq!(office.host.times(), [0, 1000, 3000, 33_000, 41_000, 41_000]);
    assert_eq!(office.state("1").await, (DeliveryState::Sent, None));
}

#[tokio::test(start_paused = true)]
async fn after_eight_attempts_it_is_given_up() {
    let office = office([two_lines()]);
    refuse(&office, (0..20).map(|_| PluginHost::answering(500, &[])));
    office.accept("1", "hi").await;
    office.done().await;
    assert_eq!(office.host.times(), [0, 1000, 3000, 7000, 15_000, 31_000, 63_000, 127_000]);
    let problem = "api.example: answered 500".to_owned();
    assert_eq!(office.state("1").await, (DeliveryState::Failed, Some(problem)));
    assert_eq!(office.post(&from_ann("1", "hi")).await.unwrap(), WebhookOutcome::Duplicate);
}

#[tokio::test(start_paused = true)]
async fn what_never_works_is_given_up_at_once() {
    let long = PluginHost::answering(429, &[("retry-after", "3600")]);
    for (result, problem) in [
        (PluginHost::answering(400, &[]), "api.example: answered 400"),
        (Err(FetchError::Refused("not granted".to_owned())), "api.example: not granted"),
        (Err(FetchError::BadRequest("no such method".to_owned())), "api.example: no such method"),
        (long, "api.example: answered 429"),
    ] {
        let office = office([two_lines()]);
        refuse(&office, [result]);
        office.accept("1", "hi").await;
        office.done().await;
        assert_eq!(office.host.sent(), ["one"]);
        assert_eq!(office.state("1").await, (DeliveryState::Failed, Some(problem.to_owned())));
    }
}

#[tokio::test(start_paused = true)]
async fn an_adapter_that_is_being_replaced_is_waited_for() {
    let office = office([]);
    office.host.missing.store(3, Ordering::SeqCst);
    office.accept("1", "hi").await;
    office.done().await;
    assert_eq!((office.host.sent(), office.host.times()), (vec!["ok".to_owned()], vec![7000]));
    office.host.missing.store(usize::MAX, Ordering::SeqCst);
    office.accept("2", "hi").await;
    office.done().await;
    let problem = "format_outgoing failed: plugin adapter is not loaded".to_owned();
    assert_eq!(office.state("2").await, (DeliveryState::Failed, Some(problem)));
}

#[tokio::test(start_paused = true)]
async fn an_adapter_that_makes_nothing_of_an_answer_ends_it() {
    for (context, problem) in [
        ("unformattable", "format_outgoing failed: no chat in it"),
        ("chatty", "format_outgoing failed: 33 requests for one answer; at most 32 are sent"),
    ] {
        let office = office([]);
        let post = json!({"id": "1", "content": "hi", "context": context});
        accepted(office.post(&post).await);
        office.done().await;
        assert_eq!(office.state("1").await, (DeliveryState::Failed, Some(problem.to_owned())));
        assert_eq!(office.host.sent().len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn people_are_told_why_there_is_no_answer() {
    let fails = |error: ModelError| vec![answering(), ScriptStep::Fail(error)];
    let budget = BudgetLimits { session: Some(1), ..BudgetLimits::default() };
    let model = "! The language model cannot be reached at the moment; please try again later.";
    let unreachable = || fails(ModelError::Unavailable("connection refused".into()));
    for (office, expected) in [
        (office([unreachable()]), model),
        (office_with([], |setup| setup.budgets = budget), "! The token budget is used up; please try again later."),
        (office_with([], |setup| setup.agent.name = "other".into()), "! Nobody is here to answer."),
        (
            office_with([vec![closed_gate().1]], |setup| setup.agent.run_timeout = Duration::from_secs(90)),
            "! It took too long to answer; please try again.",
        ),
        (office([say(&[" "], 1, 1)]), "! There was no answer; please try again."),
    ] {
        office.accept("1", "hi").await;
        office.done().await;
        assert_eq!(office.replies(), [expected]);
        assert_eq!(office.host.sent().len(), 1);
        assert_eq!(office.state("1").await, (DeliveryState::Sent, None));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_the_operator_cancels_is_said_to_be() {
    let office = office([vec![closed_gate().1]]);
    office.accept("1", "hi").await;
    let_others_run().await;
    let run = *office.bench.board.live_runs().keys().next().expect("a run");
    office.bench.ask(&operator(), CancelRun(run)).await.unwrap();
    office.done().await;
    assert_eq!(office.replies(), ["! The answer was cancelled."]);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_takes_long_answers_all_the_same() {
    let (gate, wait) = closed_gate();
    let office = office([say_and_wait(&["at last"], wait)]);
    office.accept("1", "hi").await;
    let_others_run().await;
    // Longer than a run goes on that nobody follows.
    tokio::time::advance(Duration::from_secs(3600)).await;
    gate.add_permits(1);
    office.done().await;
    assert_eq!(office.replies(), ["at last"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_said_before_a_tool_call_is_not_the_answer() {
    let mut first = call(&[("echo", json!({}))], 1, 1);
    first.insert(1, ScriptStep::Emit(ModelEvent::Text("Let me see.".into())));
    let office = office_with([first, say(&["Done."], 1, 1)], |setup| setup.agent.tools = Some(vec![Glob::new("echo")]));
    office.accept("1", "hi").await;
    office.done().await;
    assert_eq!(office.replies(), ["Done."]);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_on_record_is_not_sent() {
    let office = office([]);
    office.bench.store.fail(|batch| {
        batch
            .writes
            .iter()
            .any(|write| matches!(write, StoreWrite::Delivery(row) if row.state == DeliveryState::Answered))
    });
    office.accept("1", "hi").await;
    office.done().await;
    assert_eq!((office.host.sent().len(), office.open()), (0, 0));
    let next = next_office(after(&office.bench.store.journal()).await, 1_000_000, []);
    assert_eq!(next.bench.board.adopt().await.unwrap().deliveries, 1);
    next.done().await;
    assert_eq!((next.host.sent(), next.asked().len()), (vec!["ok".to_owned()], 0), "it was answered before");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_for_minutes_is_waited_for() {
    let office = office([]);
    office.bench.store.fail(|batch| {
        batch
            .writes
            .iter()
            .any(|write| matches!(write, StoreWrite::Delivery(row) if row.state == DeliveryState::Answered))
    });
    office.accept("1", "hi").await;
    tokio::time::sleep(Duration::from_secs(240)).await;
    assert_eq!((office.host.sent().len(), office.open()), (0, 1));
    office.bench.store.stop_failing();
    office.done().await;
    assert_eq!((office.host.sent(), office.asked().len()), (vec!["ok".to_owned()], 1));
    assert_eq!(office.state("1").await, (DeliveryState::Sent, None));
}
