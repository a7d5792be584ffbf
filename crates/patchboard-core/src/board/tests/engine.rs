//! Where the engine of runs could break: crashes upon crashes, stores that stall, tools that do not behave, servers that
//! are configured otherwise at their next start.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering as Atomic};

use futures_util::FutureExt;
use serde_json::Value;

use super::runs::{on_runs, plan, run_of};
use super::*;
use crate::command::{AnswerInput, CallTool, CancelRun, FolderChoice, InputRef, ReadThread, RunPlan};
use crate::model::ToolCall;
use crate::port::FolderDocuments;
use crate::port::{ProgressSink, ToolScope};
use crate::store::TurnQuery;
use crate::tool::{ToolEffect, ToolFault, ToolKind, ToolOutput, ToolSpec, UnknownOutcomePolicy};

/// The next process: nothing of this one survives but its store.
async fn restart(bench: Bench, scripts: impl IntoIterator<Item = Script>, change: impl FnOnce(&mut Setup)) -> Bench {
    let store = bench.store.clone();
    drop(bench);
    let_others_run().await;
    bench_with(scripts, |setup| {
        setup.store = store;
        setup.ids = Arc::new(CountingIds::starting_at(1_000_000));
        change(setup);
    })
}

/// The run is dropped as if the process had died: nothing more is recorded.
async fn die(bench: &Bench, run: RunId) {
    let live = bench.board.live_runs().get(&run).cloned().expect("a live run");
    live.control.suspend.cancel();
    let_others_run().await;
}

fn detached(agent: &str) -> RunPlan {
    RunPlan { detach: true, ..plan(agent) }
}

async fn begin_in(bench: &Bench, thread: &str, id: &str, plan: RunPlan) -> (RunId, Followed) {
    let run = bench.ask(&on_runs(1), run_of(Some(thread), id, "go", plan)).await.unwrap();
    (run, bench.follow(run).await)
}

/// Tools that do as they like. What each does is its name.
#[derive(Debug, Default)]
struct Rascals {
    /// Somebody still works on the call.
    at_work: Arc<AtomicBool>,
    talker: Mutex<Option<tokio::task::JoinHandle<()>>>,
    tasks: TaskTracker,
}

struct AtWork(Arc<AtomicBool>);

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.store(false, Atomic::SeqCst);
    }
}

async fn talk_for_ever(voice: ProgressSink) {
    loop {
        voice.send_text("blah").await;
        tokio::task::yield_now().await;
    }
}

impl ToolHost for Rascals {
    fn kind(&self) -> ToolKind {
        ToolKind::BuiltIn
    }

    fn tools(&self, _folder: Option<&Path>) -> Arc<[ToolSpec]> {
        let spec = |name: &str| ToolSpec {
            name: name.into(),
            description: "does as it likes".into(),
            input_schema: json!({"type": "object"}).into(),
            effect: ToolEffect::ReadOnly,
            timeout: None,
            unknown_outcome: UnknownOutcomePolicy::Retry,
            kind: ToolKind::BuiltIn,
            traits: None,
        };
        ["floods", "shouts", "says_and_hangs", "talks_after_its_end"].map(spec).into()
    }

    fn call<'a>(
        &'a self,
        scope: &'a ToolScope,
        call: &'a ToolCall,
        _arguments: &'a Value,
        _stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            self.at_work.store(true, Atomic::SeqCst);
            let _at_work = AtWork(self.at_work.clone());
            match &*call.name {
                "floods" => talk_for_ever(scope.progress.clone()).await,
                "shouts" => scope.progress.send_text("é".repeat(2 * 1024 * 1024)).await,
                "talks_after_its_end" => {
                    *self.talker.lock().unwrap() = Some(self.tasks.spawn(talk_for_ever(scope.progress.clone())));
                    let_others_run().await;
                }
                _ => {
                    scope.progress.send_text("working").await;
                    std::future::pending::<()>().await;
                }
            }
            ToolOutput::ok("done")
        })
    }
}

fn with_rascals(scripts: impl IntoIterator<Item = Script>, store: Arc<FaultyStore>) -> (Bench, Arc<Rascals>) {
    let rascals = Arc::new(Rascals::default());
    let host = rascals.clone();
    let bench = bench_with(scripts, |setup| {
        setup.store = store;
        setup.tools.push(host);
    });
    (bench, rascals)
}

#[tokio::test(start_paused = true)]
async fn a_graph_of_one_task_tells_how_it_began() {
    let bench = bench_with([say(&["done"], 1, 1)], |setup| {
        setup.agent.reasoning.max_model_calls = Some(2);
    });
    let (_, followed) = begin_in(&bench, "t", "r", plan("got")).await;
    let mut events = rest(followed).await;
    for event in &mut events {
        if let Some((found, _)) = event.split_once(" {").filter(|(found, _)| found.starts_with("found")) {
            *event = found.to_owned();
        }
    }
    assert_eq!(
        events[2..],
        [
            "enter plan_graph-0",
            "found Planned",
            "leave-0 Done",
            "enter execute_graph-1",
            "found TaskStarted",
            "text done",
            "answered with ",
            "usage 1+1",
            "found TaskCompleted",
            "leave-1 Done",
            "end Completed",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn one_unreadable_run_does_not_keep_the_server_from_starting() {
    for spoiled_from in [1, 3, 4] {
        let (_gate, wait) = closed_gate();
        let scripts = [say_and_wait(&["half"], wait.clone()), say_and_wait(&["half"], wait)];
        let bench = bench(scripts);
        let (bad, mut followed) = begin_in(&bench, "bad", "bad", detached("react")).await;
        until(&mut followed, "text half").await;
        let (good, mut followed) = begin_in(&bench, "good", "good", detached("react")).await;
        until(&mut followed, "text half").await;
        die(&bench, bad).await;
        die(&bench, good).await;
        bench.store.corrupt(Topic::Run(bad), Seq(spoiled_from));

        let bench = restart(bench, [say(&["whole"], 1, 1)], |_| {}).await;
        assert_eq!(
            bench.board.adopt().await.unwrap(),
            AdoptionReport { resumed: 1, closed: 1, messages: 0, deliveries: 0 },
            "{spoiled_from}"
        );
        assert_eq!(rest(bench.follow(good).await).await.last().unwrap(), "end Completed");
        assert_eq!(bench.store.unfinished_runs().await.unwrap(), [], "what was asked of the model is settled too");
    }
}

#[tokio::test(start_paused = true)]
async fn two_unfinished_runs_of_one_name_do_not_keep_the_server_from_starting() {
    let (_gate, wait) = closed_gate();
    let bench = bench([say(&["lost"], 1, 1), say_and_wait(&["half"], wait)]);
    bench.store.fail(|batch| crate::faulty::contains_event(batch, |event| matches!(event, Event::RunEnded { .. })));
    let (lost, _followed) = begin_in(&bench, "a", "same", plan("react")).await;
    until_released(&bench).await;
    bench.store.stop_failing();
    let (run, mut followed) = begin_in(&bench, "b", "same", plan("react")).await;
    until(&mut followed, "text half").await;
    die(&bench, run).await;

    let bench = restart(bench, [], |_| {}).await;
    assert_eq!(
        bench.board.adopt().await.unwrap(),
        AdoptionReport { resumed: 1, closed: 1, messages: 0, deliveries: 0 }
    );
    assert_eq!(rest(bench.follow(lost).await).await.last().unwrap(), "end Completed");
    let events = rest(bench.follow(run).await).await;
    assert_eq!(
        events[events.len() - 2..],
        ["failed interrupted: another run of the id same goes on", "end Interrupted"]
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_settled_at_start_counts_at_once() {
    let (_gate, wait) = closed_gate();
    let bench = bench([say_and_wait(&["half"], wait.clone()), say_and_wait(&["half"], wait)]);
    for thread in ["a", "b"] {
        let (run, mut followed) = begin_in(&bench, thread, thread, detached("react")).await;
        until(&mut followed, "text half").await;
        die(&bench, run).await;
    }
    // The first run is at work again long before the second one is read.
    let slow = FaultyStore::slow(50);
    copy(&bench.store, &slow).await;
    drop(bench);
    let bench = bench_with([], |setup| {
        setup.store = slow;
        setup.ids = Arc::new(CountingIds::starting_at(1_000_000));
    });
    assert_eq!(bench.board.adopt().await.unwrap().resumed, 2);
    bench.board.0.tracker.close();
    bench.board.0.tracker.wait().await;
    let spent =
        bench.store.tokens_spent(vec![crate::store::BudgetScope::Day(jiff::civil::date(2026, 11, 15))]).await.unwrap();
    assert_eq!(bench.spent("any").await[1], (spent[0], 0), "memory and store agree");
}

/// The runs and events of one store into another.
async fn copy(from: &FaultyStore, to: &FaultyStore) {
    use crate::store::{StoreWrite, WriteBatch};
    for unfinished in from.unfinished_runs().await.unwrap() {
        let topic = Topic::Run(unfinished.run.run);
        let mut writes = vec![StoreWrite::OpenRun(unfinished.run)];
        writes.extend(from.events(&topic, Seq::FIRST, 1000).await.unwrap().into_iter().map(StoreWrite::Event));
        writes.extend(unfinished.open_calls.into_iter().map(StoreWrite::OpenModelCall));
        to.commit(WriteBatch::boundary(writes)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_never_stops_talking_is_stopped_all_the_same() {
    for cancel in [true, false] {
        let (bench, rascals) = with_rascals([call(&[("floods", json!({}))], 1, 1)], FaultyStore::slow(2));
        let (run, mut followed) = begin_in(&bench, "t", "r", plan("react")).await;
        until(&mut followed, "said").await;
        if cancel {
            bench.ask(&on_runs(1), CancelRun(run)).await.unwrap();
        } else {
            tokio::time::advance(Duration::from_secs(120)).await;
        }
        for _ in 0..20 {
            let_others_run().await;
        }
        assert!(!rascals.at_work.load(Atomic::SeqCst), "cancelled: {cancel}");
        assert_eq!(bench.live_runs(), 0);
        let events = bench.stored(run).await;
        let expected = if cancel { "error cancelled" } else { "error floods was stopped after 120 s" };
        assert!(events.iter().any(|event| event == expected), "{:?}", events.last());
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_said_after_the_end_of_a_call_holds_nobody_up() {
    let (bench, rascals) = with_rascals([call(&[("talks_after_its_end", json!({}))], 1, 1)], FaultyStore::slow(2));
    let (_run, _followed) = begin_in(&bench, "t", "r", plan("react")).await;
    for _ in 0..20 {
        let_others_run().await;
    }
    rascals.talker.lock().unwrap().take().expect("it talks").abort();
    assert_eq!(bench.live_runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn one_call_says_no_more_than_it_may() {
    let (bench, _rascals) = with_rascals([call(&[("shouts", json!({}))], 1, 1)], FaultyStore::new());
    let (run, followed) = begin_in(&bench, "t", "r", plan("react")).await;
    rest(followed).await;
    let records = bench.store.events(&Topic::Run(run), Seq::FIRST, 1000).await.unwrap();
    let said = records.iter().filter_map(|record| {
        if let Event::ToolProgress { pieces, .. } = &record.event { Some(pieces.text().len()) } else { None }
    });
    let said: usize = said.sum();
    assert!((1000 * 1024..=1024 * 1024).contains(&said), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stalls_does_not_keep_a_cancelled_tool_at_work() {
    let (asked, wait) = closed_gate();
    let mut script = call(&[("says_and_hangs", json!({}))], 1, 1);
    script.insert(0, wait);
    let (bench, rascals) = with_rascals([script], FaultyStore::new());
    let (run, mut followed) = begin_in(&bench, "t", "r", plan("react")).await;
    let gate = bench.store.block_commits();
    asked.add_permits(1);
    // The answer with its intents; what the tool says has to wait.
    gate.add_permits(1);
    until(&mut followed, "tool says_and_hangs").await;
    let_others_run().await;
    assert!(rascals.at_work.load(Atomic::SeqCst));
    let _cancelling = cancel_in_background(&bench, run);
    let_others_run().await;
    assert!(!rascals.at_work.load(Atomic::SeqCst), "it is gone before anything is recorded");
    gate.add_permits(100);
    assert_eq!(rest(followed).await[..2], ["said working", "error cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn a_question_stays_open_across_crashes() {
    // `unsure` may have taken effect in the first process; the second asks and dies; the third goes on waiting.
    let bench = bench([call(&[("unsure", json!({}))], 1, 1)]);
    let (run, mut followed) = begin_in(&bench, "t", "r", detached("react")).await;
    until(&mut followed, "tool unsure").await;
    let_others_run().await;
    die(&bench, run).await;
    let mut bench = restart(bench, [], |_| {}).await;
    let mut asked = Vec::new();
    for _ in 0..20 {
        bench.board.adopt().await.unwrap();
        let_others_run().await;
        let list = crate::command::ListInputs(PageRequest::new(None, None));
        asked.extend(bench.ask(&operator(), list).await.unwrap().items.into_iter().map(|item| item.request.input));
        assert_eq!(bench.workshop.executed(), Vec::<String>::new());
        die(&bench, run).await;
        bench = restart(bench, [], |_| {}).await;
    }
    asked.dedup();
    assert_eq!(asked.len(), 1, "always the same question");
    // Nobody answers it.
    bench.board.adopt().await.unwrap();
    let events = rest(bench.follow(run).await).await;
    assert!(events.iter().any(|event| event.starts_with("error the server stopped while unsure")), "{events:#?}");
    assert_eq!(bench.workshop.executed(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_cut_batch_each_follow_their_own_policy() {
    let calls = json!({"calls": [{"tool": "once", "parameters": {}}, {"tool": "slow_write", "parameters": {}}]});
    let bench = bench([call(&[("batch", calls)], 1, 1)]);
    let (run, mut followed) = begin_in(&bench, "t", "r", detached("react")).await;
    until(&mut followed, "tool batch").await;
    let_others_run().await;
    assert_eq!(bench.workshop.executed(), ["once", "slow_write"]);
    die(&bench, run).await;
    let bench = restart(bench, [], |_| {}).await;
    bench.board.adopt().await.unwrap();
    bench.workshop.gate.add_permits(2);
    let events = rest(bench.follow(run).await).await;
    assert_eq!(bench.workshop.executed(), ["slow_write"], "`once` must not be run again, whoever called it");
    assert!(!events.iter().any(|event| event.starts_with("may ")), "{events:#?}");
    let result = events.iter().find(|event| event.starts_with("result [1]")).expect("a result");
    assert!(result.contains("[1] once: error\nthe server stopped while once was running"), "{result}");
    assert!(result.contains("[2] slow_write: ok\nwaited"), "{result}");
}

#[tokio::test(start_paused = true)]
async fn a_drain_stops_a_tool_that_was_called_by_itself() {
    let (bench, rascals) = with_rascals([], FaultyStore::new());
    let origin = origin("alice");
    let call = CallTool {
        name: "says_and_hangs".into(),
        arguments: json!({}).into(),
        folder: FolderChoice::Configured,
        origin: origin.clone(),
    };
    let mut called = bench.ask(&on_runs(1), call);
    assert!((&mut called).now_or_never().is_none());
    assert!(rascals.at_work.load(Atomic::SeqCst));
    let begun = tokio::time::Instant::now();
    let (drained, output) = tokio::join!(bench.board.drain(Duration::from_secs(1)), called);
    drained.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_secs(1), "nothing is left to wait for");
    assert_eq!(output.unwrap(), ToolOutput::fault(ToolFault::Cancelled, "cancelled"));
    assert!(!rascals.at_work.load(Atomic::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_drain_does_not_take_up_again_what_was_cancelled() {
    let bench = bench([call(&[("hangs", json!({}))], 1, 1)]);
    let (run, mut followed) = begin_in(&bench, "t", "r", plan("react")).await;
    until(&mut followed, "tool hangs").await;
    let gate = bench.store.block_commits();
    let _cancelling = cancel_in_background(&bench, run);
    let_others_run().await;
    let opened = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        gate.add_permits(100);
    };
    let (drained, ()) = tokio::join!(bench.board.drain(Duration::from_secs(1)), opened);
    drained.unwrap();
    assert_eq!(rest(followed).await.last().unwrap(), "end Cancelled");
}

#[tokio::test(start_paused = true)]
async fn resumed_runs_take_their_places_among_those_at_work() {
    let (_gate, wait) = closed_gate();
    let bench = bench([say_and_wait(&["half"], wait)]);
    let (run, mut followed) = begin_in(&bench, "a", "a", detached("react")).await;
    until(&mut followed, "text half").await;
    die(&bench, run).await;
    let (gate, wait) = closed_gate();
    let bench = restart(bench, [say_and_wait(&["whole"], wait)], |setup| setup.limits.concurrent_runs = 1).await;
    bench.board.adopt().await.unwrap();
    let mut second = bench.ask(&on_runs(1), run_of(Some("b"), "b", "go", plan("react")));
    for _ in 0..100 {
        assert!((&mut second).now_or_never().is_none(), "there is one place and it is taken");
        tokio::task::yield_now().await;
    }
    gate.add_permits(1);
    second.await.unwrap();
    assert_eq!(rest(bench.follow(run).await).await.last().unwrap(), "end Completed");
}

/// No folder may be worked in any more.
#[derive(Debug)]
struct Closed;

impl WorkingFolders for Closed {
    fn grant<'a>(&'a self, named: &'a str) -> BoxFuture<'a, Result<crate::port::GrantedFolder, String>> {
        Box::pin(std::future::ready(Err(format!("working folder is closed: {named}"))))
    }

    fn resolve<'a>(&'a self, named: Option<&'a str>) -> BoxFuture<'a, Result<Arc<Path>, String>> {
        let refused = format!("working folder lies outside the allowed roots: {}", named.unwrap_or("."));
        Box::pin(std::future::ready(Err(refused)))
    }

    fn documents<'a>(&'a self, _folder: &'a Path) -> BoxFuture<'a, FolderDocuments> {
        Box::pin(std::future::ready(FolderDocuments::default()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_does_not_go_on_in_a_folder_that_is_closed_by_now() {
    let bench = bench([call(&[("slow_write", json!({}))], 1, 1)]);
    let (run, mut followed) = begin_in(&bench, "t", "r", detached("react")).await;
    until(&mut followed, "tool slow_write").await;
    let_others_run().await;
    die(&bench, run).await;
    let bench = restart(bench, [], |setup| setup.folders = Arc::new(Closed)).await;
    assert_eq!(
        bench.board.adopt().await.unwrap(),
        AdoptionReport { resumed: 0, closed: 1, messages: 0, deliveries: 0 }
    );
    let events = rest(bench.follow(run).await).await;
    assert_eq!(
        events[events.len() - 3..],
        [
            "leave-1 Interrupted",
            "failed interrupted: working folder lies outside the allowed roots: /work",
            "end Interrupted"
        ]
    );
    assert_eq!(bench.workshop.executed(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn messages_of_a_thread_are_found_whatever_agent_chats_are_routed_to() {
    let bench = bench_with([], |setup| {
        setup.agents.push(AgentSpec { name: "other".into(), ..setup.agent.clone() });
        setup.bindings.push(AgentBinding { agent: "other".into(), ..AgentBinding::default() });
    });
    let (_, followed) = begin_in(&bench, "t", "r", plan("react")).await;
    rest(followed).await;
    let origin = ConversationOrigin { channel: "runs".into(), peer: Some("t".into()), ..origin("local") };
    let command = ReadThread { session: SessionRef::Origin(origin), before: None, limit: 10 };
    let page = bench.ask(&on_runs(1), command).await.unwrap();
    assert_eq!(page.messages.into_iter().map(|message| message.text).collect::<Vec<_>>(), ["go", "ok"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_would_go_another_way_now_is_closed_not_confused() {
    let (_gate, wait) = closed_gate();
    let bench = bench([say(&["{\"core_goal\": \"x\"}"], 1, 1), say_and_wait(&["half"], wait)]);
    let (run, mut followed) = begin_in(&bench, "t", "r", detached("dup")).await;
    until(&mut followed, "text half").await;
    die(&bench, run).await;
    // With one call there is no understanding first: the recorded answer would be taken for the reply.
    let bench = restart(bench, [], |setup| setup.agent.reasoning.max_model_calls = Some(1)).await;
    assert_eq!(
        bench.board.adopt().await.unwrap(),
        AdoptionReport { resumed: 0, closed: 1, messages: 0, deliveries: 0 }
    );
    let events = rest(bench.follow(run).await).await;
    let [.., failed, ended] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(
        [failed, ended],
        [
            "failed interrupted: its agent is configured otherwise now, so it cannot go on where it stopped",
            "end Interrupted"
        ]
    );
    let session = SessionKey::conversation("default", "runs", "local", "t");
    let turns = bench.store.turns(TurnQuery { session, limit: 10, before: None }).await.unwrap();
    assert_eq!(turns.items, []);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_cut_again_and_again_in_one_place_is_given_up() {
    let (_gate, wait) = closed_gate();
    let mut bench = bench([say_and_wait(&["half"], wait)]);
    let (run, mut followed) = begin_in(&bench, "t", "r", detached("react")).await;
    until(&mut followed, "text half").await;
    drop(followed);
    die(&bench, run).await;
    let mut resumed = 0;
    loop {
        let (_gate, wait) = closed_gate();
        bench = restart(bench, [say_and_wait(&["half"], wait)], |_| {}).await;
        if bench.board.adopt().await.unwrap().resumed == 0 {
            break;
        }
        resumed += 1;
        assert!(resumed < 100, "it may be the run itself that brings the server down");
        let_others_run().await;
        die(&bench, run).await;
    }
    assert!(resumed >= 10, "a few restarts are nothing unusual: {resumed}");
    assert_eq!(bench.stored(run).await.last().unwrap(), "end Interrupted");
}

#[tokio::test(start_paused = true)]
async fn what_a_cut_call_used_counts_for_the_runs_own_limit() {
    let (_gate, wait) = closed_gate();
    let bench = bench([say_and_wait(&["half"], wait)]);
    let (run, mut followed) = begin_in(&bench, "t", "r", detached("react")).await;
    until(&mut followed, "text half").await;
    die(&bench, run).await;
    let asked = bench.store.unfinished_runs().await.unwrap()[0].open_calls[0].estimated_input;
    let bench = restart(bench, [], |setup| setup.agent.max_run_tokens = Some(2 * asked)).await;
    bench.board.adopt().await.unwrap();
    let events = rest(bench.follow(run).await).await;
    let failed = events.iter().find(|event| event.starts_with("failed")).expect("no room for a second question");
    assert!(failed.starts_with("failed the run's token limit is reached"), "{failed}");
}

#[tokio::test(start_paused = true)]
async fn an_approval_of_a_batched_call_is_answered_by_the_call_it_is_about() {
    let calls =
        json!({"calls": [{"tool": "write", "parameters": {"n": 1}}, {"tool": "write", "parameters": {"n": 2}}]});
    let bench = bench_with([call(&[("batch", calls)], 1, 1)], |setup| {
        setup.policy.rules.push((Glob::new("write"), crate::approval::policy::ApprovalMode::Ask));
    });
    let (run, mut followed) = begin_in(&bench, "t", "r", plan("react")).await;
    for approve in [true, false] {
        let wanted = until(&mut followed, "may write run").await;
        let Event::InputRequested(request) = &wanted.event else { panic!() };
        let answer = AnswerInput {
            input: InputRef::Call { run, call: request.asking_call().clone() },
            answer: if approve { InputAnswer::Approved } else { InputAnswer::Refused },
        };
        assert_eq!(bench.ask(&on_runs(2), answer.clone()).await.unwrap_err().kind, ErrorKind::Forbidden);
        bench.ask(&on_runs(1), answer).await.unwrap();
    }
    let events = rest(followed).await;
    let result = events.iter().find(|event| event.starts_with("result")).unwrap();
    assert_eq!(result, "result [1] write: ok\n{\"n\":1}\n\n[2] write: error\nwrite was refused by the user");
}

/// Whoever hears the end of a run may use its name again at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_name_is_free_when_the_end_is_told() {
    let bench = bench([]);
    for _ in 0..300 {
        let (_, followed) = begin_in(&bench, "t", "same", plan("react")).await;
        assert_eq!(rest(followed).await.last().unwrap(), "end Completed");
    }
}
