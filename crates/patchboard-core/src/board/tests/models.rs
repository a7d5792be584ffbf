//! Another model than the agent's, for one run.

use super::resuming::die;
use super::runs::{on_runs, plan, run_of, runs_origin};
use super::*;
use crate::command::{RunPlan, SetModel};

fn with_model(start: StartRun, named: &str) -> StartRun {
    StartRun { model: Some(named.into()), ..start }
}

/// The models that were asked, in order.
fn asked(bench: &Bench) -> Vec<String> {
    bench.model.requests().iter().map(|request| request.model.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_turn_is_answered_by_the_model_it_names_and_the_next_one_by_the_agents() {
    let bench = bench([]);
    for command in [with_model(start("alice", "1"), "m-9"), with_model(start("alice", "2"), "scripted/org/m-8")] {
        let run = bench.ask(&caller(1), command).await.unwrap();
        rest(bench.follow(run).await).await;
    }
    bench.chat("alice", "3").await;
    assert_eq!(asked(&bench), ["m-9", "org/m-8", "script-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_model_of_no_provider_is_refused_before_anything_starts() {
    let bench = bench([]);
    let commands = [start("alice", "hi"), run_of(Some("t"), "r", "hi", plan("react"))];
    for command in commands.map(|command| with_model(command, "scriptd/m")) {
        let refused = bench.ask(&on_runs(1), command).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid);
        assert!(refused.message.contains("did you mean `scripted`?"), "{refused}");
    }
    assert_eq!((bench.model.requests().len(), bench.live_runs()), (0, 0));
    assert_eq!(bench.store.count_sessions(&[]).await.unwrap(), 0);
    // Its name is free and its conversation not busy.
    let run = bench.ask(&on_runs(1), run_of(Some("t"), "r", "hi", plan("react"))).await.unwrap();
    assert_eq!(rest(bench.follow(run).await).await.last().unwrap(), "end Completed");
}

#[tokio::test(start_paused = true)]
async fn a_resumed_run_goes_on_with_its_model() {
    let (_gate, wait) = closed_gate();
    let bench = bench([say_and_wait(&["half"], wait)]);
    let command = with_model(run_of(Some("t"), "r", "go", plan("react")), "m-9");
    let run = bench.ask(&on_runs(1), command).await.unwrap();
    let mut followed = bench.follow(run).await;
    until(&mut followed, "text half").await;
    die(&bench, run).await;
    let bench = bench.restart([say(&["whole"], 7, 3)]).await;
    assert_eq!(bench.board.adopt().await.unwrap().resumed, 1);
    assert_eq!(rest(bench.follow(run).await).await.last().unwrap(), "end Completed");
    assert_eq!(asked(&bench), ["m-9"]);
}

async fn set(bench: &Bench, thread: Option<&str>, model: &str) -> Result<Option<Arc<str>>, String> {
    let thread = thread.map(|thread| runs_origin(Some(thread)));
    let command = SetModel { thread, model: model.into() };
    bench.ask(&on_runs(1), command).await.map_err(|error| error.message)
}

#[tokio::test(start_paused = true)]
async fn a_run_has_its_own_model_else_its_threads_else_the_usual_one() {
    let bench = bench([]);
    assert_eq!(set(&bench, Some("t"), "m-t").await, Ok(Some("scripted/m-t".into())));
    let usual = || RunPlan { default_model: Some("scripted/usual".into()), ..plan("react") };
    for command in [
        run_of(Some("t"), "1", "go", plan("react")),
        run_of(Some("t"), "2", "go", usual()),
        with_model(run_of(Some("t"), "3", "go", usual()), "m-own"),
        run_of(Some("other"), "4", "go", usual()),
        run_of(None, "5", "go", usual()),
        run_of(Some("other"), "6", "go", plan("react")),
    ] {
        let run = bench.ask(&on_runs(1), command).await.unwrap();
        assert_eq!(rest(bench.follow(run).await).await.last().unwrap(), "end Completed");
    }
    assert_eq!(asked(&bench), ["m-t", "m-t", "m-own", "usual", "usual", "script-1"]);
    // An empty name gives it back.
    assert_eq!(set(&bench, Some("t"), "").await, Ok(None));
    let run = bench.ask(&on_runs(1), run_of(Some("t"), "7", "go", plan("react"))).await.unwrap();
    rest(bench.follow(run).await).await;
    assert_eq!(asked(&bench).last().unwrap(), "script-1");
}

#[tokio::test(start_paused = true)]
async fn a_threads_model_outlives_the_server_and_an_unknown_one_changes_nothing() {
    let bench = bench([]);
    set(&bench, Some("t"), "m-t").await.unwrap();
    assert!(set(&bench, Some("t"), "scriptd/x").await.unwrap_err().contains("did you mean `scripted`?"));
    assert!(set(&bench, None, "scriptd/x").await.is_err());
    let bench = bench.restart([]).await;
    let run = bench.ask(&on_runs(1), run_of(Some("t"), "1", "go", plan("react"))).await.unwrap();
    rest(bench.follow(run).await).await;
    assert_eq!(asked(&bench), ["m-t"]);
}
