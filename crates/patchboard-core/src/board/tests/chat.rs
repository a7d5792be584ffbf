//! Plain turns: what is told, what is stored, and who waits for whom.

use crate::command::{ClearSession, DescribeNode, FindRun, ListTools, MAX_CONTENT, SummariseUsage};
use futures_util::future;

use super::*;
use crate::model::{ModelError, StopReason};
use crate::reply::NodeReport;
use crate::store::{RunState, UsageGrouping};

#[tokio::test(start_paused = true)]
async fn a_turn_is_told_counted_and_stored() {
    let bench = bench([say(&["Hel", "lo"], 10, 5)]);
    let (run, followed) = bench.begin("alice", "hi").await;
    let expected = ["started default:web:alice:main by default", "text Hel|lo", "usage 10+5", "end Completed"];
    assert_eq!(rest(followed).await, expected);
    assert_eq!(bench.said("alice").await, ["hi", "Hello"]);
    assert_eq!(bench.spent("alice").await, [(15, 0); 3]);
    let row = bench.store.run(run).await.unwrap().unwrap();
    assert_eq!(row.state, RunState::Ended(crate::event::RunOutcome::Completed));
    assert_eq!((&*row.principal, &*row.surface, &*row.client_id, &*row.input), ("local", "gateway", "hi", "hi"));
    let report = SummariseUsage {
        since: None,
        group_by: UsageGrouping::Model,
        then_by: None,
        page: PageRequest::new(None, None),
    };
    let usage = bench.ask(&caller(1), report).await.unwrap();
    let [group] = usage.items.as_slice() else { panic!("one model: {usage:?}") };
    assert_eq!(
        (group.key.as_str(), group.calls, group.estimated_calls, group.cost_nanousd),
        ("script-1", 1, 0, 20_000)
    );
    assert_eq!(bench.live_runs(), 0);
    let node = bench.ask(&caller(1), DescribeNode).await.unwrap();
    assert_eq!(node, NodeReport { version: "0.0.0-test", plugins: 0, sessions: 1, live_runs: 0 });
}

#[tokio::test(start_paused = true)]
async fn the_model_is_told_soul_then_history_then_the_words_unchanged() {
    let bench = bench_with([], |setup| {
        setup.soul = Some("Be kind.".into());
        setup.agent.system_prompt = Some("You are terse.".into());
        setup.agent.temperature = Some(0.5);
    });
    let odd = "  I said: \"É\"\n\t<b>my name is Zoë</b> \u{0} ";
    bench.chat("alice", "first").await;
    bench.chat("alice", odd).await;
    let seen = bench.model.requests();
    assert_eq!(&*seen[1].system, "You are terse.\n\nBe kind.");
    assert_eq!(prompt(&seen[1]), ["first", "ok", odd]);
    assert_eq!((seen[1].max_tokens, seen[1].temperature, &*seen[1].model), (1000, Some(0.5), "script-1"));
    assert_eq!(seen[1].tools.len(), bench.offered());
    assert_eq!(seen.len(), 2, "a turn makes no call beyond the agent's own");
}

#[tokio::test(start_paused = true)]
async fn reasoning_is_told_and_counted_but_not_remembered() {
    let thinks = vec![
        answering(),
        ScriptStep::Emit(ModelEvent::Thought("hm".into())),
        ScriptStep::Emit(ModelEvent::Text("yes".into())),
        ScriptStep::Emit(ModelEvent::Thought("done".into())),
        ScriptStep::Emit(ModelEvent::Stop(StopReason::EndOfTurn)),
    ];
    let bench = bench([thinks]);
    let events = bench.chat("alice", "hi").await;
    assert_eq!(events[1..4], ["thought hm", "text yes", "thought done"]);
    assert!(events[4].starts_with("usage ") && events[4].ends_with("+3 estimated"), "{}", events[4]);
    assert_eq!(bench.said("alice").await, ["hi", "yes"]);
}

#[tokio::test(start_paused = true)]
async fn pieces_are_told_as_they_come_and_can_be_joined_in_the_middle() {
    let (gate, closed) = closed_gate();
    let bench = bench([say_and_wait(&["a", "b", "c"], closed)]);
    let (run, mut first) = bench.begin("alice", "hi").await;
    until(&mut first, "text a|b|c").await;
    let joined = bench.board.follow(&caller(2), Topic::Run(run), Seq(3), FollowerPacing::Unpaced).await.unwrap();
    gate.add_permits(1);
    assert_eq!(rest(joined).await, ["text b|c", "usage 10+5", "end Completed"]);
    assert_eq!(rest(first).await, ["usage 10+5", "end Completed"]);
    let replayed = bench.board.follow(&caller(2), Topic::Run(run), Seq(5), FollowerPacing::Unpaced).await.unwrap();
    assert_eq!(rest(replayed).await, ["usage 10+5", "end Completed"], "the numbers outlive the run");
}

#[tokio::test(start_paused = true)]
async fn the_second_request_of_a_session_waits_and_sees_the_first_turn() {
    let (gate, closed) = closed_gate();
    let bench = bench([say_and_wait(&["one"], closed)]);
    let (_, mut first) = bench.begin("alice", "q1").await;
    until(&mut first, "text one").await;
    let second = bench.ask(&caller(2), start("alice", "q2"));
    let elsewhere = bench.chat("bob", "q3").await;
    assert_eq!(elsewhere.last().unwrap(), "end Completed", "other sessions do not wait");
    assert_eq!(bench.model.requests().len(), 2);
    gate.add_permits(1);
    let second = second.await.unwrap();
    assert_eq!(rest(bench.follow(second).await).await[1], "text ok");
    assert_eq!(bench.last_prompt(), ["q1", "one", "q2"]);
    assert_eq!(bench.said("alice").await, ["q1", "one", "q2", "ok"]);
}

#[tokio::test(start_paused = true)]
async fn the_order_of_asking_is_the_order_of_turns() {
    let bench = bench([]);
    let asked: Vec<_> = ["a", "b", "c", "d"].map(|content| bench.ask(&caller(1), start("alice", content))).into();
    // Polled the other way round, and nobody follows: each run ends by itself.
    for reply in future::join_all(asked.into_iter().rev()).await {
        reply.unwrap();
    }
    let (_, last) = bench.begin("alice", "e").await;
    rest(last).await;
    let asked: Vec<String> = bench.model.requests().iter().map(|request| prompt(request).pop().unwrap()).collect();
    assert_eq!(asked, ["a", "b", "c", "d", "e"]);
}

#[tokio::test(start_paused = true)]
async fn the_line_of_a_session_is_bounded() {
    let (gate, closed) = closed_gate();
    let bench = bench([say_and_wait(&["x"], closed)]);
    let (_, mut running) = bench.begin("alice", "0").await;
    until(&mut running, "text x").await;
    let withdrawn = CancellationToken::new();
    let first_waiting = bench.board.ask(&caller(1), start("alice", "1"), withdrawn.clone());
    let waiting: Vec<_> = (2..=8).map(|n| bench.ask(&caller(n), start("alice", &n.to_string()))).collect();
    let refused = bench.ask(&caller(1), start("alice", "9")).await.unwrap_err();
    assert_eq!(
        (refused.kind, refused.message.as_str()),
        (ErrorKind::Exhausted, "session busy: 8 requests are waiting for it")
    );
    withdrawn.cancel();
    assert_eq!(first_waiting.await.unwrap_err().kind, ErrorKind::Cancelled);
    let late = bench.ask(&caller(1), start("alice", "10"));
    gate.add_permits(1);
    for waiting in waiting.into_iter().chain([late]) {
        waiting.await.unwrap();
    }
    assert_eq!(bench.chat("alice", "11").await.last().unwrap(), "end Completed");
    let asked: Vec<String> = bench.model.requests().iter().map(|request| prompt(request).pop().unwrap()).collect();
    assert_eq!(asked, ["0", "2", "3", "4", "5", "6", "7", "8", "10", "11"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_is_found_by_its_client_id_or_session_and_only_by_its_principal() {
    let bench = bench([]);
    bench.chat("alice", "one").await;
    bench.chat("alice", "two").await;
    let find = |caller: Caller, wanted: RunRef| bench.ask(&caller, FindRun(wanted));
    for (wanted, client_id) in [
        (RunRef::ClientId { id: "one".into(), within: None }, "one"),
        (RunRef::Session(SessionRef::Origin(origin("alice"))), "two"),
        (RunRef::Session(SessionRef::Key(session("alice"))), "two"),
    ] {
        let found = find(caller(7), wanted.clone()).await.unwrap();
        assert_eq!((&*found.client_id, found.last_seq, &found.session), (client_id, Seq(4), &session("alice")));
        let refused = find(stranger(), wanted).await.unwrap_err();
        assert_eq!((refused.kind, refused.message.as_str()), (ErrorKind::NotFound, "run expired or unknown"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_provider_fails_the_turn_and_leaves_no_history() {
    let text = || ScriptStep::Emit(ModelEvent::Text("Hel".into()));
    let unavailable = || ScriptStep::Fail(ModelError::Unavailable("connection reset".into()));
    let usage = || ScriptStep::Emit(ModelEvent::Usage(crate::model::TokenCount { input: 20, output: 1 }));
    let (no_text, cut) =
        ("failed provider error: connection reset", "failed provider error: stream ended without a terminator");
    for (script, expected) in [
        (vec![unavailable()], vec![no_text]),
        (vec![answering(), text(), unavailable()], vec!["text Hel", "usage 5+1 estimated", no_text]),
        // Figures of a cut answer are partial at best; what arrived is counted at least.
        (vec![answering(), usage(), text(), unavailable()], vec!["text Hel", "usage 20+1 estimated", no_text]),
        (vec![answering(), text()], vec!["text Hel", "usage 5+1 estimated", cut]),
        (vec![], vec![cut]),
    ] {
        let bench = bench_with([script], |setup| setup.agent.tools = Some(vec![]));
        let events = bench.chat("alice", "hi").await;
        assert_eq!(events[1..events.len() - 1], expected);
        assert_eq!(events.last().unwrap(), "end Failed");
        assert_eq!(bench.said("alice").await, [""; 0]);
        let counted = if expected.len() == 1 {
            0
        } else if expected[1].contains("20") {
            21
        } else {
            6
        };
        assert_eq!(bench.spent("alice").await, [(counted, 0); 3]);
        assert_eq!(bench.chat("alice", "again").await[1], "text ok", "the session goes on");
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_asked_is_refused_plainly() {
    let bench = bench([]);
    let too_long = "x".repeat(MAX_CONTENT + 1);
    let long_account = "y".repeat(SessionKey::MAX_BYTES);
    for (account, content, message) in [
        ("alice", too_long.as_str(), format!("content is too long: at most {MAX_CONTENT} bytes are accepted")),
        (&long_account, "hi", "channel, account and peer are too long".to_owned()),
    ] {
        let refused = bench.ask(&caller(1), start(account, content)).await.unwrap_err();
        assert_eq!((refused.kind, refused.message), (ErrorKind::Invalid, message));
    }
    let nobody = Caller { grants: GrantSet::NONE, ..caller(1) };
    assert_eq!(bench.ask(&nobody, start("alice", "hi")).await.unwrap_err().kind, ErrorKind::Forbidden);
    let page = PageRequest::new(None, Some(crate::store::PageCursor("nonsense".into())));
    let refused = bench.ask(&caller(1), ListTools { folder: None, page }).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Invalid);
    assert_eq!(bench.model.requests().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cleared_session_forgets_its_turns_and_the_audit_knows() {
    let bench = bench([]);
    bench.chat("alice", "q1").await;
    let clear = ClearSession { session: SessionRef::Origin(origin("alice")), purge: false };
    bench.ask(&caller(1), clear).await.unwrap();
    assert_eq!(bench.said("alice").await, [""; 0]);
    bench.chat("alice", "q2").await;
    assert_eq!(bench.last_prompt(), ["q2"]);
    assert_eq!(bench.spent("alice").await[0], (4, 0), "clearing does not reset a budget");
    let audit = bench.audit().await;
    assert_eq!((&*audit[0].action, &*audit[0].subject), ("session.clear", "default:web:alice:main"));
}
