//! Runs that wait for an answer: across restarts, without holding anything, answered once, by those who may.

use serde_json::Value;

use super::runs::{on_runs, plan, run_of};
use super::*;
use crate::command::{AnswerInput, FindRun, InputRef, ListInputs, RunPlan};
use crate::event::InputAnswer;
use crate::id::InputId;
use crate::run_spec::ClientToolSpec;

/// The next process on what this one left, as after a crash.
async fn next_process(bench: Bench, scripts: impl IntoIterator<Item = Script>) -> Bench {
    let (store, clock) = (bench.store.clone(), bench.clock.clone());
    for live in bench.board.live_runs().values() {
        live.control.suspend.cancel();
    }
    let first_id = 1_000_000 + u64::try_from(store.journal().len()).unwrap() * 1_000;
    drop(bench);
    let_others_run().await;
    let next = bench_with(scripts, |setup| {
        (setup.store, setup.clock) = (store, clock);
        setup.ids = Arc::new(CountingIds::starting_at(first_id));
    });
    next.board.adopt().await.unwrap();
    let_others_run().await;
    next
}

async fn open_inputs(bench: &Bench, caller: &Caller) -> Vec<InputId> {
    let list = ListInputs(PageRequest::new(None, None));
    bench.ask(caller, list).await.unwrap().items.into_iter().map(|item| item.request.input).collect()
}

async fn give(bench: &Bench, caller: &Caller, input: InputId, answer: InputAnswer) -> Result<(), BoardError> {
    bench.ask(caller, AnswerInput { input: InputRef::Id(input), answer }).await
}

fn writes() -> [Script; 2] {
    [call(&[("write", json!({"a": 1}))], 10, 5), say(&["done"], 20, 1)]
}

/// A chat turn that waits for the approval of its tool.
async fn waiting_chat(scripts: impl IntoIterator<Item = Script>) -> (Bench, RunId, InputId) {
    let bench = bench(scripts);
    let (run, mut followed) = bench.begin("alice", "write it").await;
    let record = until(&mut followed, "may write run").await;
    let Event::InputRequested(request) = &record.event else { panic!("{record:?}") };
    let input = request.input;
    drop(followed);
    (bench, run, input)
}

fn token(connection: u64) -> Caller {
    Caller { principal: "token".into(), ..caller(connection) }
}

#[tokio::test(start_paused = true)]
async fn a_chat_turn_waits_across_restarts_under_the_same_id_and_its_tool_runs_once() {
    let (mut bench, run, input) = waiting_chat(writes()).await;
    for _ in 0..20 {
        bench = next_process(bench, [say(&["done"], 20, 1)]).await;
        assert_eq!(open_inputs(&bench, &operator()).await, [input]);
        assert_eq!(bench.workshop.executed(), [""; 0]);
    }
    give(&bench, &operator(), input, InputAnswer::Approved).await.unwrap();
    let events = rest(bench.follow(run).await).await;
    assert_eq!(bench.workshop.executed(), ["write"]);
    let calls = events.iter().filter(|event| event.starts_with("call write")).count();
    assert_eq!(calls, 1, "its intent is on record once: {events:?}");
    assert_eq!(events.last().unwrap(), "end Completed");
    assert_eq!(bench.said("alice").await.last().unwrap(), "done");
    assert_eq!(give(&bench, &operator(), input, InputAnswer::Approved).await.unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(bench.store.inputs(None, 10).await.unwrap(), [], "nothing is left of it");
}

#[tokio::test(start_paused = true)]
async fn an_answer_counts_while_no_process_works_on_the_run() {
    for answer in [InputAnswer::Approved, InputAnswer::Refused] {
        let (bench, run, input) = waiting_chat(writes()).await;
        let (store, clock) = (bench.store.clone(), bench.clock.clone());
        for live in bench.board.live_runs().values() {
            live.control.suspend.cancel();
        }
        drop(bench);
        let_others_run().await;
        let idle = bench_with([say(&["done"], 20, 1)], |setup| {
            (setup.store, setup.clock) = (store, clock);
            setup.ids = Arc::new(CountingIds::starting_at(5_000_000));
        });
        assert_eq!(open_inputs(&idle, &operator()).await, [input]);
        give(&idle, &operator(), input, answer.clone()).await.unwrap();
        assert!(give(&idle, &operator(), input, InputAnswer::Approved).await.is_err(), "the first answer wins");
        idle.board.adopt().await.unwrap();
        let events = rest(idle.follow(run).await).await;
        assert_eq!(idle.workshop.executed().len(), usize::from(answer.is_approval()), "{events:?}");
        assert_eq!(events.last().unwrap(), "end Completed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_on_record_is_not_asked_again() {
    let (bench, run, input) = waiting_chat(writes()).await;
    // The answer is recorded, and the process dies before the call's result is.
    bench.store.fail(|batch| crate::faulty::contains_event(batch, |event| matches!(event, Event::ToolFinished { .. })));
    give(&bench, &operator(), input, InputAnswer::Refused).await.unwrap();
    until_released(&bench).await;
    bench.store.stop_failing();
    let bench = next_process(bench, [say(&["well then"], 20, 1)]).await;
    let events = rest(bench.follow(run).await).await;
    assert!(events.contains(&"error write was refused by the user".to_owned()), "{events:?}");
    assert_eq!(bench.workshop.executed(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_only_the_same_token_one_that_joined_by_id_and_the_operator_answer() {
    // A local user is nobody in particular.
    let (bench, run, input) = waiting_chat(writes()).await;
    let bench = next_process(bench, [say(&["done"], 20, 1)]).await;
    let forbidden = |result: Result<(), BoardError>| assert_eq!(result.unwrap_err().kind, ErrorKind::Forbidden);
    forbidden(give(&bench, &caller(1), input, InputAnswer::Approved).await);
    forbidden(give(&bench, &stranger(), input, InputAnswer::Approved).await);
    forbidden(
        give(
            &bench,
            &Caller { surface: Surface::Bridge, principal: "worker:py-1".into(), ..caller(7) },
            input,
            InputAnswer::Approved,
        )
        .await,
    );
    // Following by the session is not enough: sessions can be guessed.
    let by_session = FindRun(RunRef::Session(SessionRef::Key(session("alice"))));
    bench.ask(&caller(2), by_session).await.unwrap();
    let _following =
        bench.board.follow(&caller(2), Topic::Run(run), Seq::FIRST, FollowerPacing::Unpaced).await.unwrap();
    forbidden(give(&bench, &caller(2), input, InputAnswer::Approved).await);
    bench.ask(&caller(3), FindRun(RunRef::Id(run))).await.unwrap();
    let _joined = bench.board.follow(&caller(3), Topic::Run(run), Seq::FIRST, FollowerPacing::Unpaced).await.unwrap();
    give(&bench, &caller(3), input, InputAnswer::Approved).await.unwrap();
    assert_eq!(rest(bench.follow(run).await).await.last().unwrap(), "end Completed");

    // Whoever has the token is the one who asked.
    let bench = super::bench(writes());
    let run = bench.ask(&token(1), start("bob", "write it")).await.unwrap();
    let_others_run().await;
    let bench = next_process(bench, [say(&["done"], 20, 1)]).await;
    let [input] = open_inputs(&bench, &token(9)).await[..] else { panic!("one question") };
    assert_eq!(open_inputs(&bench, &caller(1)).await, []);
    give(&bench, &token(9), input, InputAnswer::Approved).await.unwrap();
    let followed = bench.board.follow(&operator(), Topic::Run(run), Seq::FIRST, FollowerPacing::Unpaced).await.unwrap();
    assert_eq!(rest(followed).await.last().unwrap(), "end Completed");
}

#[tokio::test(start_paused = true)]
async fn waiting_takes_no_working_time_no_permit_and_no_grace_period() {
    let scripts = [call(&[("write", json!({}))], 1, 1), say(&["second"], 1, 1), say(&["first"], 1, 1)];
    let bench = bench_with(scripts, |setup| {
        setup.limits.concurrent_runs = 1;
        setup.agent.run_timeout = Duration::from_secs(60);
    });
    let (run, mut followed) = bench.begin("alice", "write it").await;
    until(&mut followed, "may write run").await;
    drop(followed);
    // Another run gets the only permit while this one waits.
    assert_eq!(bench.chat("bob", "hello").await[1], "text second");
    // Longer than its time limit and than the grace period of runs without followers.
    tokio::time::advance(Duration::from_secs(600)).await;
    let_others_run().await;
    let [input] = open_inputs(&bench, &operator()).await[..] else { panic!("it still waits") };
    give(&bench, &operator(), input, InputAnswer::Approved).await.unwrap();
    assert_eq!(rest(bench.follow(run).await).await.last().unwrap(), "end Completed");
    assert_eq!(bench.workshop.executed(), ["write"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_allowed_for_the_session_is_not_asked_again() {
    let scripts = [
        call(&[("write", json!({"n": 1}))], 1, 1),
        say(&["one"], 1, 1),
        call(&[("write", json!({"n": 2}))], 1, 1),
        say(&["two"], 1, 1),
        call(&[("write", json!({"n": 3}))], 1, 1),
    ];
    let (bench, run, input) = waiting_chat(scripts).await;
    give(&bench, &operator(), input, InputAnswer::ApprovedForSession).await.unwrap();
    assert_eq!(rest(bench.follow(run).await).await.last().unwrap(), "end Completed");
    let second = bench.chat("alice", "again").await;
    assert!(second.iter().all(|event| !event.starts_with("may")), "{second:?}");
    let audit = bench.audit().await;
    assert!(audit.iter().any(|row| &*row.detail == "allowed for the session"));
    // Another session is asked, and so is this one after twelve hours.
    let (_, mut followed) = bench.begin("bob", "write it").await;
    until(&mut followed, "may write run").await;
    bench.clock.advance_seconds(12 * 3600);
    bench.model.push(call(&[("write", json!({"n": 4}))], 1, 1));
    let (_, mut followed) = bench.begin("alice", "once more").await;
    until(&mut followed, "may write run").await;
}

fn light() -> ClientToolSpec {
    let schema = json!({"type": "object", "properties": {"on": {"type": "boolean"}}});
    ClientToolSpec { name: "light".into(), description: "Switches the light.".into(), input_schema: schema.into() }
}

#[tokio::test(start_paused = true)]
async fn a_client_runs_its_own_tool_across_a_restart() {
    for agent in [false, true] {
        let scripts = [call(&[("light", json!({"on": true}))], 1, 1), say(&["bright"], 1, 1)];
        let bench = bench(scripts);
        let start = match agent {
            true => StartRun {
                client_tools: vec![light()],
                ..run_of(Some("t"), "r", "go", RunPlan { detach: true, ..plan("react") })
            },
            false => StartRun { client_tools: vec![light()], ..start("alice", "light, please") },
        };
        let me = if agent { on_runs(1) } else { caller(1) };
        let run = bench.ask(&me, start).await.unwrap();
        let mut followed = bench.follow(run).await;
        let record = until(&mut followed, "client runs light {\"on\":true}").await;
        let Event::InputRequested(request) = &record.event else { panic!("{record:?}") };
        let input = request.input;
        drop(followed);
        let offered = &bench.model.requests()[0].tools;
        assert!(offered.iter().any(|tool| &*tool.name == "light"), "the model knows it");
        let bench = next_process(bench, [say(&["bright"], 1, 1)]).await;
        let wrong = give(&bench, &operator(), input, InputAnswer::Approved).await.unwrap_err();
        assert_eq!(wrong.kind, ErrorKind::Invalid, "{wrong}");
        let result = InputAnswer::ToolResult { content: "it is on".into(), is_error: false };
        give(&bench, &operator(), input, result).await.unwrap();
        let events = rest(bench.follow(run).await).await;
        assert!(events.contains(&"result it is on".to_owned()), "{events:?}");
        assert_eq!(events.last().unwrap(), "end Completed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_s_tool_must_have_a_name_of_its_own() {
    let bench = bench([]);
    for name in ["write", "light", "", "a b", "é"] {
        let tools = if name == "light" {
            vec![light(), light()]
        } else {
            vec![ClientToolSpec { name: name.into(), ..light() }]
        };
        let refused =
            bench.ask(&caller(1), StartRun { client_tools: tools, ..start("alice", "hi") }).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid, "{name:?}: {refused}");
    }
    assert_eq!(bench.chat("alice", "hi").await.last().unwrap(), "end Completed", "the session is free");
}

#[tokio::test(start_paused = true)]
async fn a_question_with_a_schema_is_answered_after_a_restart() {
    let schema = json!({"type": "object", "required": ["colour"]});
    let question = json!({"question": "Which colour?", "schema": schema});
    let bench = bench_with([call(&[("ask_user", question)], 1, 1)], |setup| {
        setup.agent.tools = Some(vec![Glob::new("ask_user")]);
    });
    let (run, mut followed) = bench.begin("alice", "paint it").await;
    let record = until(&mut followed, "asks Which colour?").await;
    let Event::InputRequested(request) = &record.event else { panic!("{record:?}") };
    let input = request.input;
    drop(followed);
    let (store, clock) = (bench.store.clone(), bench.clock.clone());
    for live in bench.board.live_runs().values() {
        live.control.suspend.cancel();
    }
    drop(bench);
    let_others_run().await;
    let bench = bench_with([say(&["blue it is"], 1, 1)], |setup| {
        (setup.store, setup.clock) = (store, clock);
        setup.ids = Arc::new(CountingIds::starting_at(9_000_000));
        setup.agent.tools = Some(vec![Glob::new("ask_user")]);
    });
    bench.board.adopt().await.unwrap();
    let_others_run().await;
    let answer = |value: Value| InputAnswer::Answered(Arc::new(value));
    give(&bench, &operator(), input, answer(json!({"colour": "blue"}))).await.unwrap();
    let events = rest(bench.follow(run).await).await;
    assert!(events.contains(&"result {\"colour\":\"blue\"}".to_owned()), "{events:?}");
    assert_eq!(events.last().unwrap(), "end Completed");
}

#[tokio::test(start_paused = true)]
async fn a_chat_turn_resumes_only_when_nothing_of_its_open_answer_was_told() {
    // Cut while it waits for the first word: asked again.
    let (_gate, wait) = closed_gate();
    let silent = bench([vec![answering(), wait]]);
    let (run, followed) = silent.begin("alice", "hi").await;
    drop(followed);
    let_others_run().await;
    let next = next_process(silent, [say(&["hello"], 3, 1)]).await;
    let events = rest(next.follow(run).await).await;
    assert_eq!(events.last().unwrap(), "end Completed");
    assert!(events.contains(&"resumed".to_owned()), "{events:?}");
    assert_eq!(next.said("alice").await, ["hi", "hello"]);
    // Cut in the middle of its answer: half an answer cannot be taken back.
    let (_gate, wait) = closed_gate();
    let talking = bench([say_and_wait(&["half"], wait)]);
    let (run, mut followed) = talking.begin("alice", "hi").await;
    until(&mut followed, "text half").await;
    drop(followed);
    let next = next_process(talking, []).await;
    let events = rest(next.follow(run).await).await;
    assert_eq!(
        events[events.len() - 2..],
        ["failed interrupted: the server stopped during this turn", "end Interrupted"]
    );
}
