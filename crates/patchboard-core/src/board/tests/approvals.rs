//! Tools a person must approve: who is asked, who may answer, and what silence means.

use serde_json::Value;

use super::*;
use crate::approval::policy::ApprovalMode;
use crate::command::{AnswerInput, CancelRun, InputRef, ListInputs};
use crate::faulty::contains_event;
use crate::id::InputId;

fn writes(arguments: Value) -> [Script; 2] {
    [call(&[("write", arguments)], 10, 5), say(&["done"], 20, 1)]
}

/// Starts a run whose tool needs approval and waits for the question.
async fn asked(bench: &Bench) -> (RunId, Followed, InputId) {
    let (run, mut followed) = bench.begin("alice", "write it").await;
    let record = until(&mut followed, "may write run").await;
    let Event::InputRequested(request) = &record.event else { panic!("not a question: {record:?}") };
    let expiry = request.expires_at.duration_since(record.at);
    assert_eq!(expiry, jiff::SignedDuration::from_mins(15));
    (run, followed, request.input)
}

fn consent(approve: bool) -> InputAnswer {
    if approve { InputAnswer::Approved } else { InputAnswer::Refused }
}

async fn answer(bench: &Bench, caller: &Caller, approval: InputId, approve: bool) -> Result<(), BoardError> {
    bench.ask(caller, AnswerInput { input: InputRef::Id(approval), answer: consent(approve) }).await
}

async fn open_questions(bench: &Bench, caller: &Caller) -> usize {
    let list = ListInputs(PageRequest::new(None, None));
    let page = bench.ask(caller, list).await.unwrap();
    page.items.len()
}

#[tokio::test(start_paused = true)]
async fn approved_or_refused_by_whoever_may_answer() {
    for (by, approve, told) in [
        (caller(1), true, ["approved true by gateway:local", "result {\"a\":1}"]),
        (caller(1), false, ["approved false by gateway:local", "error write was refused by the user"]),
        (operator(), true, ["approved true by gateway:operator", "result {\"a\":1}"]),
    ] {
        let bench = bench(writes(json!({"a": 1})));
        let (_, followed, approval) = asked(&bench).await;
        assert_eq!(bench.workshop.executed(), [""; 0], "not before the answer");
        answer(&bench, &by, approval, approve).await.unwrap();
        let events = rest(followed).await;
        assert_eq!(events[..2], told);
        assert_eq!(events[2..], ["text done", "usage 20+1", "end Completed"]);
        assert_eq!(bench.workshop.executed().len(), usize::from(approve));
        let audit = bench.audit().await;
        let verdict = audit.iter().find(|row| &*row.action == "approval").expect("an audit row");
        assert_eq!(&*verdict.detail, if approve { "approved" } else { "refused" });
        let late = answer(&bench, &by, approval, true).await.unwrap_err();
        assert_eq!(late.kind, ErrorKind::NotFound, "an answer counts once");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_else_may_answer_or_see_it() {
    let bench = bench(writes(json!({})));
    let (_, followed, approval) = asked(&bench).await;
    let another_connection = caller(2);
    for other in [&another_connection, &stranger()] {
        let refused = answer(&bench, other, approval, true).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden);
        assert_eq!(open_questions(&bench, other).await, 0);
    }
    assert_eq!((open_questions(&bench, &caller(1)).await, open_questions(&bench, &operator()).await), (1, 1));
    answer(&bench, &caller(1), approval, true).await.unwrap();
    assert_eq!(rest(followed).await[0], "approved true by gateway:local");
    assert_eq!(open_questions(&bench, &operator()).await, 0);
}

#[tokio::test(start_paused = true)]
async fn silence_is_a_refusal_after_a_quarter_of_an_hour() {
    let bench = bench(writes(json!({})));
    let (_, followed, approval) = asked(&bench).await;
    let waiting = tokio::time::Instant::now();
    let events = rest(followed).await;
    assert_eq!(waiting.elapsed(), Duration::from_secs(900));
    assert_eq!(events[..2], ["approved false by expiry", "error nobody approved write in time"]);
    assert_eq!(events.last().unwrap(), "end Completed");
    assert_eq!(answer(&bench, &caller(1), approval, true).await.unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!((bench.workshop.executed().len(), open_questions(&bench, &operator()).await), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn cancelling_the_run_withdraws_the_question() {
    let bench = bench(writes(json!({})));
    let (run, followed, approval) = asked(&bench).await;
    bench.ask(&caller(1), CancelRun(run)).await.unwrap();
    assert_eq!(rest(followed).await, ["approved false by cancel", "error cancelled", "end Cancelled"]);
    assert_eq!(answer(&bench, &caller(1), approval, true).await.unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!((bench.workshop.executed().len(), open_questions(&bench, &operator()).await), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_question_that_cannot_be_recorded_is_not_left_open() {
    let bench = bench(writes(json!({})));
    bench.store.fail(|batch| contains_event(batch, |event| matches!(event, Event::InputRequested(_))));
    let (run, _followed) = bench.begin("alice", "write it").await;
    until_released(&bench).await;
    assert_eq!(bench.stored(run).await[1..], ["call write {}", "usage 10+5"]);
    bench.store.stop_failing();
    assert_eq!(open_questions(&bench, &operator()).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_question_of_a_run_that_is_given_up_stays_open_for_whoever_continues_it() {
    // A second tool of the same answer kills the run while the question is open.
    let both = [call(&[("write", json!({})), ("echo", json!({}))], 1, 1)];
    let bench = bench(both);
    bench.store.fail(|batch| contains_event(batch, |event| matches!(event, Event::ToolFinished { .. })));
    let (_, _followed) = bench.begin("alice", "both").await;
    until_released(&bench).await;
    assert_eq!((bench.live_runs(), open_questions(&bench, &operator()).await), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn the_policy_says_who_is_asked() {
    for (rules, surface, expected) in [
        (vec![], Surface::Runs, "result {}"),
        (vec![], Surface::Cli, "result {}"),
        (vec![], Surface::Hub, "error write is not allowed here by the approval policy"),
        (vec![("write", ApprovalMode::Allow)], Surface::Gateway, "result {}"),
        (vec![("*", ApprovalMode::Deny)], Surface::Gateway, "error write is not allowed here by the approval policy"),
    ] {
        let bench = bench_with(writes(json!({})), |setup| {
            setup.policy.rules = rules.iter().map(|&(glob, approval)| (Glob::new(glob), approval)).collect();
        });
        let run = bench.ask(&Caller { surface, ..caller(1) }, start("alice", "go")).await.unwrap();
        assert_eq!(rest(bench.follow(run).await).await[3], expected, "{rules:?} {surface:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn open_questions_are_bounded_and_the_next_one_is_a_refusal() {
    // Eight runs with as many calls as one answer may make fill the desk.
    let many: Vec<_> = (0..128).map(|_| ("write", json!({}))).collect();
    let scripts = (0..8).map(|_| call(&many, 1, 1)).chain(writes(json!({})));
    let bench = bench(scripts);
    let mut filling = Vec::new();
    for account in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        filling.push(bench.begin(account, "go").await);
    }
    let_others_run().await;
    let refused = "error write cannot be approved now: too many approvals are waiting for an answer";
    assert_eq!(bench.chat("i", "go").await[3..], [refused, "text done", "usage 20+1", "end Completed"]);
    for (run, followed) in filling {
        bench.ask(&operator(), CancelRun(run)).await.unwrap();
        assert_eq!(rest(followed).await.last().unwrap(), "end Cancelled");
    }
    assert_eq!(open_questions(&bench, &operator()).await, 0);
}

/// A question that may stay open for an hour, in the conversation of `alice`.
async fn asked_for_an_hour() -> (Bench, RunId, Followed, InputId) {
    let scripts = writes(json!({})).into_iter().chain([say(&["second"], 1, 1), say(&["third"], 1, 1)]);
    let bench = bench_with(scripts, |setup| setup.limits.inputs.approval = Duration::from_secs(3600));
    let (run, mut followed) = bench.begin("alice", "write it").await;
    let record = until(&mut followed, "may write run").await;
    let Event::InputRequested(request) = &record.event else { panic!("not a question: {record:?}") };
    (bench, run, followed, request.input)
}

/// Stands in line until it is dropped.
fn stand_in_line(bench: &Bench, account: &str) -> tokio::task::JoinHandle<()> {
    let (board, account) = (bench.board.clone(), account.to_owned());
    TaskTracker::new().spawn(async move {
        drop(board.ask(&caller(1), start(&account, "next"), CancellationToken::new()).await);
    })
}

async fn expires_in(bench: &Bench) -> jiff::SignedDuration {
    let list = ListInputs(PageRequest::new(None, None));
    let page = bench.ask(&operator(), list).await.unwrap();
    page.items[0].request.expires_at.duration_since(bench.clock.now())
}

#[tokio::test(start_paused = true)]
async fn a_question_that_others_wait_for_expires_two_minutes_after_the_first_of_them_came() {
    let (bench, _, followed, _) = asked_for_an_hour().await;
    let asked_at = tokio::time::Instant::now();
    assert_eq!(expires_in(&bench).await, jiff::SignedDuration::from_hours(1));
    tokio::time::sleep(Duration::from_secs(600)).await;
    // Another conversation's line is not this one's.
    drop(stand_in_line(&bench, "bob"));
    let_others_run().await;
    assert_eq!(expires_in(&bench).await, jiff::SignedDuration::from_hours(1));
    let _second = stand_in_line(&bench, "alice");
    let_others_run().await;
    assert_eq!(expires_in(&bench).await, jiff::SignedDuration::from_secs(120));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let _third = stand_in_line(&bench, "alice");
    let events = rest(followed).await;
    assert_eq!(asked_at.elapsed(), Duration::from_secs(720));
    assert_eq!(events[..2], ["approved false by expiry", "error nobody approved write in time"]);
}

#[tokio::test(start_paused = true)]
async fn a_question_asked_while_others_wait_is_open_for_two_minutes() {
    let scripts = [call(&[("echo", json!({}))], 1, 1)].into_iter().chain(writes(json!({})));
    let bench = bench_with(scripts, |setup| {
        setup.limits.inputs.approval = Duration::from_secs(3600);
        setup.policy.rules = vec![(Glob::new("*"), ApprovalMode::Ask)];
    });
    let (_, mut followed) = bench.begin("alice", "both").await;
    let record = until(&mut followed, "may echo run").await;
    let Event::InputRequested(first) = &record.event else { panic!("not a question: {record:?}") };
    let _second = stand_in_line(&bench, "alice");
    let_others_run().await;
    answer(&bench, &operator(), first.input, true).await.unwrap();
    let record = until(&mut followed, "may write run").await;
    let Event::InputRequested(request) = &record.event else { panic!("not a question: {record:?}") };
    assert_eq!(request.expires_at.duration_since(record.at), jiff::SignedDuration::from_secs(120));
    let asked_at = tokio::time::Instant::now();
    assert_eq!(rest(followed).await[0], "approved false by expiry");
    assert_eq!(asked_at.elapsed(), Duration::from_secs(120));
}
