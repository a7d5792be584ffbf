//! Budgets as runs meet them: refused before anything happens, or in the middle.

use futures_util::future;

use super::*;
use crate::faulty::{FailurePredicate, contains_event};
use crate::store::BudgetScope;

fn limits(session: impl Into<Option<u64>>, daily: impl Into<Option<u64>>) -> BudgetLimits {
    BudgetLimits { session: session.into(), daily: daily.into(), monthly: None }
}

/// No tool schemas, so that the figures are those of the words.
fn words_only(budgets: BudgetLimits) -> impl FnOnce(&mut Setup) {
    move |setup| {
        setup.budgets = budgets;
        setup.agent.tools = Some(vec![]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_before_the_start_is_a_plain_error_and_leaves_nothing() {
    let bench = bench_with([say(&["Hello"], 20, 10)], words_only(limits(30, None)));
    bench.chat("alice", "hi").await;
    let runs_before = bench.store.latest_run_of_session(&session("alice")).await.unwrap();
    let refused = bench.ask(&caller(1), start("alice", "more")).await.unwrap_err();
    let expected = "token budget exceeded (session: 30/30): this call needs about 17 tokens and 0 are left; \
                    raise `budgets.session` or start a new session";
    assert_eq!((refused.kind, refused.message.as_str()), (ErrorKind::Exhausted, expected));
    assert_eq!(bench.store.latest_run_of_session(&session("alice")).await.unwrap(), runs_before, "no run");
    assert_eq!((bench.live_runs(), bench.model.requests().len()), (0, 1));
    assert_eq!(bench.spent("alice").await[0], (30, 0));
    assert_eq!(bench.chat("bob", "hi").await[1], "text ok", "another session has its own budget");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_in_the_middle_fails_the_run() {
    let bench = bench_with([call(&[("echo", json!({}))], 50, 45)], |setup| setup.budgets = limits(100, None));
    let events = bench.chat("alice", "go").await;
    assert_eq!(events[1..4], ["call echo {}", "usage 50+45", "result {}"]);
    let refusal = "failed token budget exceeded (session: 95/100): this call needs about ";
    assert!(events[4].starts_with(refusal), "{}", events[4]);
    assert_eq!(events[5..], ["end Failed"]);
    assert_eq!((bench.said("alice").await.len(), bench.spent("alice").await[0]), (0, (95, 0)));
}

#[tokio::test(start_paused = true)]
async fn the_model_may_say_no_more_than_is_left() {
    let bench = bench_with([say(&["Hello"], 20, 10)], words_only(limits(None, 100)));
    bench.chat("alice", "hi").await;
    bench.chat("bob", "hi").await;
    let allowed: Vec<u32> = bench.model.requests().iter().map(|request| request.max_tokens).collect();
    assert_eq!(allowed, [95, 65]);
}

#[tokio::test(start_paused = true)]
async fn six_parallel_requests_cannot_spend_one_budget_twice() {
    let (gate, closed) = closed_gate();
    let scripts = (0..6).map(|_| say_and_wait(&["x"], closed.clone()));
    let bench = bench_with(scripts, words_only(limits(None, 40)));
    let asked = ["a", "b", "c", "d", "e", "f"].map(|account| bench.ask(&caller(1), start(account, "hi")));
    let (granted, refused): (Vec<_>, Vec<_>) = future::join_all(asked).await.into_iter().partition(Result::is_ok);
    assert_eq!(granted.len(), 1);
    for refused in refused {
        let message = refused.unwrap_err().message;
        assert!(message.starts_with("token budget exceeded (daily: 40/40): "), "{message}");
    }
    gate.add_permits(1);
    for granted in granted {
        rest(bench.follow(granted.unwrap()).await).await;
    }
    assert_eq!(bench.spent("a").await[1], (15, 0));
}

#[tokio::test(start_paused = true)]
async fn a_turn_over_midnight_counts_on_the_day_it_began_everywhere() {
    let (gate, closed) = closed_gate();
    let bench = bench([say_and_wait(&["x"], closed)]);
    let (_, mut followed) = bench.begin("alice", "hi").await;
    until(&mut followed, "text x").await;
    let yesterday = BudgetScope::Day(jiff::civil::date(2026, 11, 15));
    let today = BudgetScope::Day(jiff::civil::date(2026, 11, 16));
    bench.clock.advance_seconds(12 * 3600);
    assert_eq!(bench.spent("alice").await[1], (0, 0), "the new day's account is in memory now");
    gate.add_permits(1);
    rest(followed).await;
    assert_eq!(bench.spent("alice").await, [(15, 0), (0, 0), (15, 0)]);
    assert_eq!(
        bench.store.tokens_spent(vec![yesterday, today]).await.unwrap(),
        [15, 0],
        "the store agrees with memory"
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_spent_counts_even_when_it_cannot_be_recorded() {
    let fails_at_text: FailurePredicate = |batch| contains_event(batch, |event| matches!(event, Event::AnswerText(_)));
    let fails_at_end: FailurePredicate = |batch| contains_event(batch, |event| matches!(event, Event::RunEnded { .. }));
    for (script, fails, counted) in
        [(say_and_wait(&["x"], closed_gate().1), fails_at_text, 6), (say(&["x"], 10, 5), fails_at_end, 15)]
    {
        let bench = bench_with([script], words_only(BudgetLimits::default()));
        bench.store.fail(fails);
        let (run, mut followed) = bench.begin("alice", "hi").await;
        until(&mut followed, "started").await;
        until_released(&bench).await;
        assert_eq!(bench.stored(run).await, ["started default:web:alice:main by default"]);
        assert_eq!(bench.spent("alice").await, [(counted, 0); 3]);
    }
}

#[tokio::test(start_paused = true)]
async fn where_only_the_conversation_fits_the_model_is_asked_without_tools() {
    let bench = bench_with([say(&["Hello"], 20, 10)], |setup| setup.budgets = limits(100, None));
    let events = bench.chat("alice", "hi").await;
    assert_eq!(events.last().unwrap(), "end Completed");
    let said: String = events.iter().filter_map(|event| event.strip_prefix("text ")).collect();
    let said = said.replace('|', "");
    assert!(said.starts_with("Hello\n\n(answered without tools: describing them takes about "), "{said}");
    let remedy = "and the session budget has 100 of 100 left; raise `budgets.session` or start a new session)";
    assert!(said.ends_with(remedy), "{said}");
    let asked = &bench.model.requests()[0];
    assert_eq!(asked.tools.len(), 0);
    assert!(u64::from(asked.max_tokens) < 100, "{}", asked.max_tokens);
}

#[tokio::test(start_paused = true)]
async fn missing_tools_are_mentioned_once_and_only_where_tools_would_have_been_offered() {
    for (tools, expected) in [(None, 1), (Some(vec![]), 0)] {
        let bench = bench_with([say(&["Hello"], 20, 10)], |setup| {
            setup.budgets = limits(100, None);
            setup.agent.tools = tools;
        });
        let said = bench.chat("alice", "hi").await.join("\n");
        assert_eq!(said.matches("answered without tools").count(), expected, "{said}");
    }
}
