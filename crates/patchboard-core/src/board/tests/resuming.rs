//! A run survives its process. Each test stops one board and starts another on the same store.

use super::runs::{on_runs, plan};
use super::*;
use crate::command::{AnswerInput, InputRef};

impl Bench {
    /// The next process: nothing of this one survives but its store.
    pub(super) async fn restart(self, scripts: impl IntoIterator<Item = Script>) -> Bench {
        let store = self.store.clone();
        drop(self);
        let_others_run().await;
        bench_with(scripts, |setup| {
            setup.store = store.clone();
            setup.ids = Arc::new(CountingIds::starting_at(1_000_000));
        })
    }
}

/// The run is dropped as if the process had died: nothing more is recorded.
pub(super) async fn die(bench: &Bench, run: RunId) {
    let live = bench.board.live_runs().get(&run).cloned().expect("a live run");
    live.control.suspend.cancel();
    let_others_run().await;
}

fn after<'a>(events: &'a [String], first: &str) -> &'a [String] {
    let at = events.iter().position(|event| event == first).unwrap_or_else(|| panic!("no `{first}` in {events:#?}"));
    &events[at..]
}

#[tokio::test(start_paused = true)]
async fn a_cut_answer_is_asked_for_again_in_a_new_node() {
    let (_gate, wait) = closed_gate();
    let bench = bench([say_and_wait(&["half"], wait)]);
    let (run, mut followed) = bench.begin_run("r", "go").await;
    until(&mut followed, "text half").await;
    die(&bench, run).await;
    let error = followed.next().await.unwrap().unwrap_err();
    assert!(error.message.contains("attach again"), "{error}");

    let bench = bench.restart([say(&["whole"], 7, 3)]).await;
    let recovered = bench.board.adopt().await.unwrap();
    assert_eq!((recovered.resumed, recovered.closed), (1, 0));
    let mut events = rest(bench.follow(run).await).await;
    let estimate = events.iter_mut().find(|event| event.ends_with("+1 estimated")).expect("the cut call is settled");
    "usage of what arrived".clone_into(estimate);
    assert_eq!(
        after(&events, "text half"),
        [
            "text half",
            "usage of what arrived",
            "leave-0 Interrupted",
            "enter think-1 again",
            "text whole",
            "answered with ",
            "usage 7+3",
            "leave-1 Done",
            "end Completed",
        ]
    );
    let turn = bench.store.turns(turn_query()).await.unwrap().items;
    assert_eq!(turn[0].messages.iter().map(crate::model::ModelMessage::text).collect::<Vec<_>>(), ["go", "whole"]);
}

fn turn_query() -> crate::store::TurnQuery {
    let session = SessionKey::conversation("default", "runs", "local", "t");
    crate::store::TurnQuery { session, limit: 10, before: None }
}

#[tokio::test(start_paused = true)]
async fn a_recorded_result_is_used_and_only_the_missing_call_is_made_again() {
    let bench = bench([call(&[("echo", json!({"a": 1})), ("slow_write", json!({}))], 10, 5)]);
    let (run, mut followed) = bench.begin_run("r", "go").await;
    until(&mut followed, "result {\"a\":1}").await;
    die(&bench, run).await;
    assert_eq!(bench.workshop.executed(), ["echo", "slow_write"]);

    let bench = bench.restart([say(&["done"], 1, 1)]).await;
    bench.board.adopt().await.unwrap();
    bench.workshop.gate.add_permits(1);
    let events = rest(bench.follow(run).await).await;
    assert_eq!(bench.workshop.executed(), ["slow_write"], "its outcome was unknown and it says it may be repeated");
    assert_eq!(
        after(&events, "leave-1 Interrupted"),
        [
            "leave-1 Interrupted",
            "enter act-2 again",
            "result waited",
            "leave-2 Done",
            "enter observe-3",
            "leave-3 Done",
            "enter compress-4",
            "leave-4 Done",
            "enter think-5",
            "text done",
            "answered with ",
            "usage 1+1",
            "leave-5 Done",
            "end Completed",
        ]
    );
    assert_eq!(
        bench.last_prompt(),
        ["go", "<call echo><call slow_write>", "<result {\"a\":1}><result waited>"],
        "the model sees each result once"
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_that_must_not_be_repeated_fails_with_words() {
    let bench = bench([call(&[("once", json!({}))], 1, 1)]);
    let (run, mut followed) = bench.begin_run("r", "go").await;
    until(&mut followed, "tool once").await;
    let_others_run().await;
    die(&bench, run).await;
    let bench = bench.restart([]).await;
    bench.board.adopt().await.unwrap();
    let events = rest(bench.follow(run).await).await;
    assert_eq!(bench.workshop.executed(), Vec::<String>::new());
    assert!(
        events.iter().any(|event| event.starts_with("error the server stopped while once was running")),
        "{events:#?}"
    );
    assert_eq!(events.last().unwrap(), "end Completed");
}

#[tokio::test(start_paused = true)]
async fn a_call_of_unknown_outcome_asks_where_it_says_so() {
    let bench = bench([call(&[("unsure", json!({}))], 1, 1)]);
    let (run, mut followed) = bench.begin_run("r", "go").await;
    until(&mut followed, "tool unsure").await;
    let_others_run().await;
    die(&bench, run).await;
    let bench = bench.restart([]).await;
    bench.board.adopt().await.unwrap();
    let mut followed = bench.follow(run).await;
    let wanted = until(&mut followed, "may unsure run").await;
    let Event::InputRequested(request) = &wanted.event else { panic!() };
    // The question says that this is no ordinary approval, and what an answer does.
    let reason = request.reason().unwrap();
    assert!(reason.starts_with("the server stopped while unsure was running: it may already have run."), "{reason}");
    let answer = AnswerInput {
        input: InputRef::Call { run, call: request.asking_call().clone() },
        answer: InputAnswer::Approved,
    };
    bench.ask(&on_runs(1), answer.clone()).await.unwrap_err();
    bench.workshop.gate.add_permits(1);
    bench.ask(&operator(), answer).await.unwrap();
    rest(followed).await;
    assert_eq!(bench.workshop.executed(), ["unsure"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waited_for_a_person_has_not_begun() {
    let bench = bench_with([call(&[("once", json!({}))], 1, 1)], |setup| {
        setup.policy.rules.push((Glob::new("once"), crate::approval::policy::ApprovalMode::Ask));
    });
    let (run, mut followed) = bench.begin_run("r", "go").await;
    until(&mut followed, "may once run").await;
    die(&bench, run).await;
    // In the next process nobody need be asked.
    let bench = bench.restart([]).await;
    bench.board.adopt().await.unwrap();
    bench.workshop.gate.add_permits(1);
    let events = rest(bench.follow(run).await).await;
    assert!(events.contains(&"result waited".to_owned()), "{events:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_is_cut_many_times_and_ends_once() {
    let (_gate, wait) = closed_gate();
    let mut bench = bench([call(&[("echo", json!({"n": 0}))], 1, 1), say_and_wait(&["half"], wait)]);
    let (run, mut followed) = bench.begin_planned("r", "go", plan("react")).await;
    until(&mut followed, "text half").await;
    die(&bench, run).await;
    for round in 1..6 {
        let (_gate, wait) = closed_gate();
        bench = bench.restart([say_and_wait(&["half"], wait)]).await;
        bench.board.adopt().await.unwrap();
        let mut followed = bench.follow(run).await;
        for _ in 0..=round {
            until(&mut followed, "text half").await;
        }
        die(&bench, run).await;
    }
    let bench = bench.restart([say(&["whole"], 1, 1)]).await;
    bench.board.adopt().await.unwrap();
    let events = rest(bench.follow(run).await).await;
    assert_eq!(events.iter().filter(|event| event.starts_with("result")).count(), 1);
    assert_eq!(events.iter().filter(|event| event.starts_with("end")).count(), 1);
    let enters: Vec<&String> = events.iter().filter(|event| event.starts_with("enter")).collect();
    for (number, enter) in enters.iter().enumerate() {
        assert!(enter.contains(&format!("-{number}")), "{enters:?}");
    }
    let again = bench.restart([]).await.board.adopt().await.unwrap();
    assert_eq!((again.resumed, again.closed), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_resumed_run_nobody_attaches_to_is_cancelled_unless_it_was_detached() {
    for (detach, expected) in [(false, "end Cancelled"), (true, "end Completed")] {
        let (_gate, wait) = closed_gate();
        let bench = bench([say_and_wait(&["half"], wait)]);
        let plan = crate::command::RunPlan { detach, ..plan("react") };
        let (run, mut followed) = bench.begin_planned("r", "go", plan).await;
        until(&mut followed, "text half").await;
        die(&bench, run).await;
        let (gate, wait) = closed_gate();
        let bench = bench.restart([say_and_wait(&["whole"], wait)]).await;
        bench.board.adopt().await.unwrap();
        tokio::time::sleep(Duration::from_secs(61)).await;
        gate.add_permits(1);
        let events = rest(bench.follow(run).await).await;
        assert_eq!(events.last().unwrap(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_leaves_runs_to_the_next_process() {
    let (_gate, wait) = closed_gate();
    let bench = bench([say_and_wait(&["half"], wait)]);
    let (_run, mut followed) = bench.begin_run("r", "go").await;
    until(&mut followed, "text half").await;
    let report = bench.board.drain(Duration::from_secs(1)).await.unwrap();
    assert_eq!((report.cancelled, report.suspended), (0, 1));
    let error = followed.next().await.unwrap().unwrap_err();
    assert!(error.message.contains("goes on at its next start"), "{error}");
}
