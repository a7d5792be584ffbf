//! Limits of one run and of all runs together.

use crate::command::{ListPlugins, LoadPlugin};
use futures_util::FutureExt;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_run_that_takes_too_long_is_stopped_counted_and_failed() {
    let hangs = vec![answering(), ScriptStep::Emit(ModelEvent::Text("Hello".into())), closed_gate().1];
    for (script, expected) in [
        (hangs, vec!["text Hello", "usage 5+2 estimated"]),
        (call(&[("hangs", json!({}))], 10, 5), vec!["call hangs {}", "usage 10+5", "error cancelled"]),
    ] {
        let tool_calls = expected.len() == 3;
        let bench = bench_with([script], |setup| {
            setup.agent.run_timeout = Duration::from_secs(90);
            setup.agent.tools = Some(if tool_calls { vec![Glob::new("hangs")] } else { vec![] });
        });
        let start = tokio::time::Instant::now();
        let events = bench.chat("alice", "hi").await;
        assert_eq!(start.elapsed(), Duration::from_secs(90));
        assert_eq!(events[1..events.len() - 2], expected);
        assert_eq!(events[events.len() - 2..], ["failed stopped after 90 s, the longest a run may take", "end Failed"]);
        assert_eq!(bench.spent("alice").await[0].1, 0);
        assert_eq!(bench.said("alice").await, [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_may_use_only_so_many_tokens_in_all_its_calls() {
    let scripts = || [call(&[("echo", json!({}))], 60, 30), say(&["done"], 60, 1)];
    let with_limit = |limit| {
        bench_with(scripts(), move |setup| {
            setup.agent.max_run_tokens = Some(limit);
            setup.agent.tools = Some(vec![Glob::new("echo")]);
        })
    };
    let plenty = with_limit(600);
    assert_eq!(plenty.chat("alice", "go").await.last().unwrap(), "end Completed");
    let allowed: Vec<u32> = plenty.model.requests().iter().map(|request| request.max_tokens).collect();
    assert!(allowed[0] < 600 && allowed[1] < allowed[0] - 90, "what is left goes down: {allowed:?}");

    let short = with_limit(100);
    let events = short.chat("alice", "go").await;
    let [.., failed, end] = &events[..] else { panic!("{events:?}") };
    assert!(failed.starts_with("failed the run's token limit is reached (90/100): the next call needs about "));
    assert!(failed.ends_with(" tokens and 10 are left; raise `agents.default.max_run_tokens`"), "{failed}");
    assert_eq!(end, "end Failed");

    let none = with_limit(1);
    let refused = none.ask(&caller(1), start("alice", "go")).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Exhausted);
    assert!(refused.message.starts_with("the run's token limit is reached (0/1): "), "{}", refused.message);
    assert_eq!(none.model.requests().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn runs_beyond_the_limit_wait_for_a_place() {
    let (gate, closed) = closed_gate();
    let scripts = (0..2).map(|_| say_and_wait(&["x"], closed.clone()));
    let bench = bench_with(scripts, |setup| setup.limits.concurrent_runs = 2);
    let (_, first) = bench.begin("a", "hi").await;
    let (_, second) = bench.begin("b", "hi").await;
    let mut third = bench.ask(&caller(1), start("c", "hi"));
    let stop = CancellationToken::new();
    let mut withdrawn = bench.board.ask(&caller(1), start("d", "hi"), stop.clone());
    assert!((&mut third).now_or_never().is_none() && (&mut withdrawn).now_or_never().is_none());
    let_others_run().await;
    assert_eq!((bench.live_runs(), bench.model.requests().len()), (2, 2));
    stop.cancel();
    assert_eq!(withdrawn.await.unwrap_err().kind, ErrorKind::Cancelled);
    gate.add_permits(1);
    let third = third.await.unwrap();
    assert_eq!(rest(bench.follow(third).await).await[1], "text ok");
    gate.add_permits(1);
    for followed in [first, second] {
        assert_eq!(rest(followed).await.last().unwrap(), "end Completed");
    }
    assert_eq!(
        bench.chat("d", "again").await.last().unwrap(),
        "end Completed",
        "the withdrawn one left its session free"
    );
}

#[tokio::test(start_paused = true)]
async fn the_length_of_the_line_is_a_setting() {
    let bench = bench_with([vec![closed_gate().1]], |setup| setup.limits.session_queue = 1);
    let (_, _running) = bench.begin("alice", "0").await;
    let _waiting = bench.ask(&caller(1), start("alice", "1"));
    let refused = bench.ask(&caller(1), start("alice", "2")).await.unwrap_err();
    assert_eq!(refused.message, "session busy: 1 requests are waiting for it");
}

#[tokio::test(start_paused = true)]
async fn without_a_plugin_host_nobody_can_load_plugins() {
    let bench = bench([]);
    for (caller, kind) in [(caller(1), ErrorKind::Forbidden), (operator(), ErrorKind::Unavailable)] {
        let load = LoadPlugin { named: "p".into() };
        assert_eq!(bench.ask(&caller, load).await.unwrap_err().kind, kind);
    }
    assert_eq!(bench.ask(&caller(1), ListPlugins).await.unwrap(), []);
}
