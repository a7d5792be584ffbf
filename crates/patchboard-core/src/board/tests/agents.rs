//! Agents as tools: their answers, how deep it goes, who pays, who is asked, and that nobody waits for ever.

use crate::tool::ToolKind;
use serde_json::Value;

use super::runs::on_runs;
use super::*;
use crate::command::{
    AnswerInput, BudgetStatus, CallTool, CancelRun, ClearSession, FolderChoice, InputRef, ListInputs,
};
use crate::event::RunOutcome;
use crate::store::{RunState, SessionFilter};

fn ask(message: &str) -> Value {
    json!({"message": message})
}

fn in_thread(message: &str, thread: &str) -> Value {
    json!({"message": message, "thread_id": thread})
}

/// A board with a second agent, `helper`, that says what `scripts` say.
fn with_helper(
    scripts: impl IntoIterator<Item = Script>,
    helper: &Arc<ScriptedModel>,
    change: impl FnOnce(&mut Setup),
) -> Bench {
    bench_with(scripts, |setup| {
        setup.agents.push(AgentSpec { name: "helper".into(), provider: helper.clone(), ..setup.agent.clone() });
        change(setup);
    })
}

impl Bench {
    /// Conversations of `channel:account` but the one under `peer`, newest first.
    async fn conversations(&self, channel: &str, account: &str, peer: &str) -> Vec<SessionKey> {
        let filter =
            SessionFilter { channel: Some(channel.into()), account: Some(account.into()), ..SessionFilter::default() };
        let page = self.store.sessions(filter, 100, None).await.unwrap();
        let own = SessionKey::conversation("default", channel, account, peer);
        page.items.into_iter().map(|row| row.key).filter(|key| *key != own).collect()
    }

    /// The run of the only conversation beneath alice's.
    async fn run_beneath(&self) -> RunRow {
        let found = self.conversations("web", "alice", "main").await;
        let [session] = &found[..] else { panic!("not one conversation: {found:?}") };
        self.store.latest_run_of_session(session).await.unwrap().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_is_asked_and_its_answer_is_the_result() {
    let helper = ScriptedModel::new([say(&["fo", "ur"], 7, 2)]);
    let bench = with_helper([call(&[("agent.helper", ask("2+2"))], 10, 5), say(&["done"], 20, 1)], &helper, |_| {});
    let events = bench.chat("alice", "go").await;
    assert_eq!(
        events[1..],
        [
            "call agent.helper {\"message\":\"2+2\"}",
            "usage 10+5",
            "result four",
            "text done",
            "usage 20+1",
            "end Completed",
        ],
        "nobody is asked for leave: each of its own calls is judged by itself"
    );
    assert_eq!(prompt(&helper.requests()[0]), ["2+2"], "it knows nothing of the conversation");
    // A run of its own, of the same principal and surface.
    let row = bench.run_beneath().await;
    assert_eq!((&*row.principal, &*row.surface, &*row.input), ("local", "gateway", "2+2"));
    assert_eq!(row.session, SessionKey::conversation("default", "web", "alice", &format!("run-{}", row.run)));
    let started = format!("started {} by helper", row.session);
    assert_eq!(bench.stored(row.run).await, [&*started, "text fo|ur", "usage 7+2", "end Completed"]);
    assert_eq!(bench.said("alice").await.last().unwrap(), "done");
}

#[tokio::test(start_paused = true)]
async fn a_thread_goes_on_and_its_folder_is_the_callers() {
    let helper = ScriptedModel::new([say(&["one"], 1, 1), say(&["two"], 1, 1)]);
    let scripts = [
        call(&[("agent.helper", in_thread("first", "side"))], 1, 1),
        call(&[("agent.helper", in_thread("second", "side"))], 1, 1),
        say(&["done"], 1, 1),
    ];
    let bench = with_helper(scripts, &helper, |_| {});
    let (_, followed) = bench.begin_run("r", "go").await;
    let events = rest(followed).await;
    assert!(events.contains(&"said one".to_owned()), "what it says is told while it works: {events:#?}");
    assert!(events.contains(&"result two".to_owned()), "{events:#?}");
    assert_eq!(prompt(&helper.requests()[1]), ["first", "one", "second"]);
    let side = SessionKey::conversation("default", "runs", "local", "side");
    assert_eq!(bench.conversations("runs", "local", "t").await, std::slice::from_ref(&side));
    let row = bench.store.latest_run_of_session(&side).await.unwrap().unwrap();
    let told = bench.stored(row.run).await;
    assert_eq!(told[1], "enter think-0", "it tells of its nodes, and nothing to be resumed from is on record");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_waits_for_its_own_conversation_is_told_at_once() {
    let helper = ScriptedModel::new([call(&[("agent.default", in_thread("back", "main"))], 1, 1)]);
    let scripts = [
        call(&[("agent.helper", in_thread("x", "main"))], 1, 1),
        call(&[("agent.helper", ask("y"))], 1, 1),
        say(&["done"], 1, 1),
    ];
    let bench = with_helper(scripts, &helper, |_| {});
    let events = bench.chat("alice", "go").await;
    assert_eq!(events[3], "error helper could not begin: an agent cannot wait for its own conversation");
    // Nor for one that waits for it.
    let busy = "<error default could not begin: the conversation is busy: take another `thread_id`, or none>";
    assert_eq!(prompt(&helper.requests()[1])[2], busy);
    assert_eq!(events.last().unwrap(), "end Completed");
}

#[tokio::test(start_paused = true)]
async fn agents_ask_each_other_three_deep_and_no_deeper() {
    let asks = |message: &str| call(&[("agent.helper", ask(message))], 1, 1);
    let helper = ScriptedModel::new([
        asks("two"),
        asks("three"),
        asks("four"),
        say(&["deepest"], 1, 1),
        say(&["deeper"], 1, 1),
        say(&["deep"], 1, 1),
    ]);
    let bench = with_helper([asks("one"), say(&["done"], 1, 1)], &helper, |_| {});
    let events = bench.chat("alice", "go").await;
    assert_eq!(events[3], "result deep");
    let refused = "<error helper could not begin: agents ask each other at most 3 deep>";
    assert_eq!(prompt(&helper.requests()[3]), ["three", "<call agent.helper>", refused]);
    assert_eq!(helper.requests().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn cancelling_the_run_cancels_those_beneath_it() {
    let (_gate, wait) = closed_gate();
    let helper = ScriptedModel::new([say_and_wait(&["half"], wait)]);
    let bench = with_helper([call(&[("agent.helper", ask("x"))], 1, 1)], &helper, |_| {});
    let (run, followed) = bench.begin("alice", "go").await;
    let_others_run().await;
    assert_eq!(bench.live_runs(), 2);
    bench.ask(&caller(1), CancelRun(run)).await.unwrap();
    assert_eq!(rest(followed).await.last().unwrap(), "end Cancelled");
    let_others_run().await;
    let row = bench.run_beneath().await;
    assert_eq!(row.state, RunState::Ended(RunOutcome::Cancelled));
    assert_eq!(bench.live_runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn cancelling_the_run_beneath_is_an_answer_to_the_one_above() {
    let (_gate, wait) = closed_gate();
    let helper = ScriptedModel::new([say_and_wait(&["half"], wait)]);
    let bench = with_helper([call(&[("agent.helper", ask("x"))], 1, 1), say(&["pity"], 1, 1)], &helper, |_| {});
    let (_, followed) = bench.begin("alice", "go").await;
    let_others_run().await;
    let beneath = bench.run_beneath().await.run;
    bench.ask(&caller(1), CancelRun(beneath)).await.unwrap();
    let events = rest(followed).await;
    assert_eq!(events[3..], ["error helper was cancelled", "text pity", "usage 1+1", "end Completed"]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_told_in_words() {
    let helper =
        ScriptedModel::new([vec![ScriptStep::Fail(crate::model::ModelError::Rejected("no such model".into()))]]);
    let bench = with_helper([call(&[("agent.helper", ask("x"))], 1, 1), say(&["pity"], 1, 1)], &helper, |_| {});
    let events = bench.chat("alice", "go").await;
    assert!(events[3].starts_with("error helper failed: provider error: "), "{}", events[3]);
    assert_eq!(events.last().unwrap(), "end Completed");
}

#[tokio::test(start_paused = true)]
async fn the_caller_pays() {
    let helper = ScriptedModel::new([say(&["four"], 30, 10)]);
    let bench = with_helper([call(&[("agent.helper", ask("2+2"))], 10, 5), say(&["done"], 20, 1)], &helper, |_| {});
    bench.chat("alice", "go").await;
    let row = bench.run_beneath().await;
    assert_eq!(bench.spent("alice").await, [(76, 0), (76, 0), (76, 0)]);
    let command = BudgetStatus { session: Some(SessionRef::Key(row.session)) };
    let report = bench.ask(&caller(1), command).await.unwrap();
    assert_eq!(report.session.unwrap().used, 0);
}

#[tokio::test(start_paused = true)]
async fn the_callers_budgets_hold_beneath() {
    let none = || Some(vec![Glob::new("agent.*")]);
    // The session's.
    let helper = ScriptedModel::new([say(&["four"], 30, 10)]);
    let scripts = [call(&[("agent.helper", ask("2+2"))], 900, 50)];
    let bench = with_helper(scripts, &helper, |setup| {
        setup.agent.tools = none();
        setup.budgets = BudgetLimits { session: Some(950), daily: None, monthly: None };
    });
    let events = bench.chat("alice", "go").await;
    let refusal = "error helper could not begin: token budget exceeded (session: 950/950): ";
    assert!(events[3].starts_with(refusal), "{}", events[3]);
    assert_eq!(helper.requests().len(), 0);

    // The run's own.
    let helper = ScriptedModel::new([say(&["four"], 300, 100)]);
    let scripts = [call(&[("agent.helper", ask("2+2"))], 400, 100), say(&["done"], 1, 1)];
    let bench = with_helper(scripts, &helper, |setup| {
        setup.agent.tools = none();
        setup.agent.max_run_tokens = Some(900);
        for agent in &mut setup.agents {
            agent.tools = Some(vec![]);
        }
    });
    let events = bench.chat("alice", "go").await;
    let allowed = helper.requests()[0].max_tokens;
    assert!(allowed < 400, "{allowed} tokens: what the run above has left");
    assert_eq!((events[3].as_str(), events[5].as_str(), events.len()), ("result four", "end Failed", 6));
    assert!(events[4].starts_with("failed the run's token limit is reached (900/900): "), "{}", events[4]);
}

#[tokio::test(start_paused = true)]
async fn what_a_run_beneath_asks_reaches_whoever_started_the_one_above() {
    // By its own id, as chats answer; or by the run above, as runs do.
    for by_run in [false, true] {
        let helper = ScriptedModel::new([
            call(&[("agent.helper", ask("go on"))], 1, 1),
            call(&[("write", json!({"a": 1}))], 1, 1),
            say(&["written"], 1, 1),
            say(&["it is"], 1, 1),
        ]);
        let bench = with_helper([call(&[("agent.helper", ask("write"))], 1, 1), say(&["done"], 1, 1)], &helper, |_| {});
        let (run, mut followed) = bench.begin("alice", "go").await;
        let record = until(&mut followed, "may write run").await;
        let Event::InputRequested(request) = &record.event else { panic!("not a question: {record:?}") };
        let approval = match by_run {
            false => InputRef::Id(request.input),
            true => InputRef::Call { run, call: request.asking_call().clone() },
        };
        let answer =
            |by: Caller| bench.ask(&by, AnswerInput { input: approval.clone(), answer: InputAnswer::Approved });
        assert_eq!(answer(caller(2)).await.unwrap_err().kind, ErrorKind::Forbidden);
        assert_eq!(bench.workshop.executed(), [""; 0], "not before the answer");
        answer(caller(1)).await.unwrap();
        let events = rest(followed).await;
        assert_eq!(events[..3], ["approved true by gateway:local", "result it is", "text done"]);
        assert_eq!(bench.workshop.executed(), ["write"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_nobody_waits_for_any_more_is_withdrawn() {
    let helper = ScriptedModel::new([call(&[("write", json!({}))], 1, 1)]);
    let bench = with_helper([call(&[("agent.helper", ask("write"))], 1, 1)], &helper, |_| {});
    let (run, mut followed) = bench.begin("alice", "go").await;
    until(&mut followed, "may write run").await;
    bench.ask(&caller(1), CancelRun(run)).await.unwrap();
    let events = rest(followed).await;
    assert_eq!(events.last().unwrap(), "end Cancelled", "nothing is told after the end: {events:?}");
    let_others_run().await;
    let list = ListInputs(PageRequest::new(None, None));
    let open = bench.ask(&operator(), list).await.unwrap();
    assert_eq!(open.items, []);
    assert_eq!(bench.stored(run).await.last().unwrap(), "end Cancelled");
}

#[tokio::test(start_paused = true)]
async fn no_place_is_waited_for() {
    let helper = ScriptedModel::new([say(&["four"], 1, 1)]);
    let both = call(&[("agent.helper", ask("a")), ("agent.helper", ask("b"))], 1, 1);
    let bench = with_helper([both, say(&["done"], 1, 1)], &helper, |setup| setup.limits.concurrent_runs = 1);
    let (_, followed) = bench.begin("alice", "go").await;
    let events = rest(followed).await;
    let results: Vec<&String> =
        events.iter().filter(|event| event.contains("four") || event.contains("error")).collect();
    assert_eq!(results, ["error helper could not begin: too many agents work for others at the moment", "result four"]);
    assert_eq!(events.last().unwrap(), "end Completed");
    // The places are free again.
    bench.model.push(call(&[("agent.helper", ask("c"))], 1, 1));
    assert!(bench.chat("alice", "more").await.contains(&"result ok".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn two_calls_in_one_thread_do_not_wait_for_each_other() {
    let (gate, wait) = closed_gate();
    let helper = ScriptedModel::new([say_and_wait(&["one"], wait)]);
    let both = call(&[("agent.helper", in_thread("a", "side")), ("agent.helper", in_thread("b", "side"))], 1, 1);
    let bench = with_helper([both, say(&["done"], 1, 1)], &helper, |_| {});
    let (_, mut followed) = bench.begin("alice", "go").await;
    let refused = until(&mut followed, "error").await;
    let busy = "error helper could not begin: the conversation is busy: take another `thread_id`, or none";
    assert_eq!(short(&refused), busy);
    gate.add_permits(1);
    assert_eq!(rest(followed).await[0], "result one");
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_the_run_beneath_is_closed_and_the_call_is_left_to_the_operator() {
    let (_gate, wait) = closed_gate();
    let helper = ScriptedModel::new([say_and_wait(&["half"], wait)]);
    let bench = with_helper([call(&[("agent.helper", in_thread("x", "side"))], 1, 1)], &helper, |_| {});
    let (run, mut followed) = bench.begin_run("r", "go").await;
    until(&mut followed, "said half").await;
    let side = SessionKey::conversation("default", "runs", "local", "side");
    let beneath = bench.store.latest_run_of_session(&side).await.unwrap().unwrap().run;
    // Both die where they stand.
    let live: Vec<LiveRun> = bench.board.live_runs().values().cloned().collect();
    bench.store.fail(|_| true);
    live.iter().for_each(|live| live.control.suspend.cancel());
    let_others_run().await;
    bench.store.stop_failing();
    let store = bench.store.clone();
    drop(bench);
    let_others_run().await;

    let helper = ScriptedModel::new([say(&["whole"], 1, 1)]);
    let bench = with_helper([say(&["done"], 1, 1)], &helper, |setup| {
        setup.store = store;
        setup.ids = Arc::new(CountingIds::starting_at(1_000_000));
    });
    assert_eq!(
        bench.board.adopt().await.unwrap(),
        AdoptionReport { resumed: 1, closed: 1, messages: 0, deliveries: 0 }
    );
    assert_eq!(bench.stored(beneath).await.last().unwrap(), "end Interrupted");
    let mut followed = bench.follow(run).await;
    let wanted = until(&mut followed, "may agent.helper run").await;
    let Event::InputRequested(request) = &wanted.event else { panic!("not a question") };
    let command = AnswerInput { input: InputRef::Id(request.input), answer: InputAnswer::Approved };
    bench.ask(&operator(), command).await.unwrap();
    let events = rest(followed).await;
    assert!(events.contains(&"result whole".to_owned()), "{events:#?}");
    assert_eq!(events.last().unwrap(), "end Completed");
    assert_eq!(bench.store.unfinished_runs().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_drain_leaves_the_run_above_to_be_resumed_and_ends_the_one_beneath() {
    let (_gate, wait) = closed_gate();
    let helper = ScriptedModel::new([say_and_wait(&["half"], wait)]);
    let bench = with_helper([call(&[("agent.helper", in_thread("x", "side"))], 1, 1)], &helper, |_| {});
    let (run, mut followed) = bench.begin_run("r", "go").await;
    until(&mut followed, "said half").await;
    let report = bench.board.drain(Duration::from_secs(1)).await.unwrap();
    assert_eq!(report, DrainReport { cancelled: 1, suspended: 1 });
    let left: Vec<RunId> = bench.store.journal().iter().flat_map(|batch| &batch.writes).filter_map(ended).collect();
    assert!(!left.contains(&run), "the run above has not ended");
    assert_eq!(left.len(), 1);
}

fn ended(write: &crate::store::StoreWrite) -> Option<RunId> {
    if let crate::store::StoreWrite::CloseRun { run, .. } = write { Some(*run) } else { None }
}

#[tokio::test(start_paused = true)]
async fn a_direct_call_gets_the_answer_as_data() {
    let helper = ScriptedModel::new([say(&["fo", "ur"], 7, 2)]);
    let bench = with_helper([], &helper, |_| {});
    let origin = ConversationOrigin { channel: "runs".into(), ..origin("alice") };
    let arguments = Arc::new(in_thread("2+2", "sums"));
    let command = CallTool { name: "agent.helper".into(), arguments, folder: FolderChoice::Configured, origin };
    let output = bench.ask(&on_runs(1), command).await.unwrap();
    assert_eq!((&*output.content, output.is_error), ("four", false));
    let data = output.data.unwrap();
    assert_eq!(data.json.as_deref(), Some(&b"\"four\""[..]));
    assert_eq!(data.metadata["thread_id"], "sums");
    let run: RunId = data.metadata["run_id"].parse().unwrap();
    assert_eq!(bench.stored(run).await.last().unwrap(), "end Completed");
    assert_eq!(bench.conversations("runs", "alice", "main").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn only_the_last_word_of_a_strategy_is_its_answer() {
    let helper = ScriptedModel::new([say(&["the question"], 1, 1), say(&["the answer"], 1, 1)]);
    let bench = with_helper([call(&[("agent.helper", ask("why"))], 1, 1), say(&["done"], 1, 1)], &helper, |setup| {
        for agent in &mut setup.agents {
            agent.strategy = StrategyKind::Dup;
        }
    });
    let events = bench.chat("alice", "go").await;
    assert_eq!((helper.requests().len(), &*events[3]), (2, "result the answer"));
}

#[tokio::test(start_paused = true)]
async fn a_single_agent_is_offered_only_where_programs_may_ask_it() {
    let names = |bench: &Bench| -> Vec<String> {
        let offer = bench.board.0.run_deps.registry.tool_set(None, None);
        let agents = offer.specs.iter().filter(|spec| spec.kind == ToolKind::Agent);
        agents.map(|spec| spec.name.to_string()).collect()
    };
    assert_eq!(names(&bench([])), [""; 0]);
    let exposed = bench_with([], |setup| setup.bridge.expose = vec![Glob::new("agent.*")]);
    assert_eq!(names(&exposed), ["agent.default"]);
    let several = with_helper([], &ScriptedModel::new([]), |_| {});
    assert_eq!(names(&several), ["agent.default", "agent.helper"]);
}

#[tokio::test(start_paused = true)]
async fn the_words_of_agents_teach_nothing_about_the_user() {
    let helper = ScriptedModel::new([say(&["noted"], 1, 1)]);
    let asked = ask("My name is Robot.");
    let bench = with_helper([call(&[("agent.helper", asked)], 1, 1), say(&["done"], 1, 1)], &helper, |_| {});
    bench.chat("alice", "My name is Alice.").await;
    let writes: Vec<String> = bench
        .store
        .journal()
        .iter()
        .flat_map(|batch| batch.writes.clone())
        .filter_map(
            |write| if let crate::store::StoreWrite::LearnFact(fact) = write { Some(fact.object) } else { None },
        )
        .collect();
    assert_eq!(writes, ["Alice"]);
}

#[tokio::test(start_paused = true)]
async fn a_purged_session_loses_its_variables_in_memory_too() {
    let set = call(&[("variable_set", json!({"name": "x", "value": 1}))], 1, 1);
    let get = call(&[("variable_get", json!({"name": "x"}))], 1, 1);
    let bench = bench_with([set, say(&["set"], 1, 1), get, say(&["got"], 1, 1)], |setup| {
        setup.agent.tools = Some(vec![Glob::new("*")]);
        setup.policy.rules.push((Glob::new("*"), crate::approval::policy::ApprovalMode::Allow));
    });
    assert!(bench.chat("alice", "go").await.iter().any(|event| event.starts_with("result {\"name\":\"x\"")));
    let purge = ClearSession { session: SessionRef::Origin(origin("alice")), purge: true };
    bench.ask(&caller(1), purge).await.unwrap();
    let events = bench.chat("alice", "more").await;
    assert!(events.contains(&"error no variable is named x".to_owned()), "{events:?}");
}
