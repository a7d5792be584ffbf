//! Agent runs: they name their agent, tell of their nodes, and have a thread to themselves.

use super::*;
use crate::command::{CallTool, DetachRun, FolderChoice, ReadThread, RunPlan};
use crate::model::MessageRole;
use crate::reply::ThreadPage;

pub(super) fn plan(agent: &str) -> RunPlan {
    RunPlan { agent: agent.into(), default_model: None, adaptive: false, detach: false, verbose: false }
}

pub(super) fn on_runs(connection: u64) -> Caller {
    Caller { surface: Surface::Runs, ..caller(connection) }
}

pub(super) fn runs_origin(thread: Option<&str>) -> ConversationOrigin {
    ConversationOrigin {
        channel: "runs".into(),
        account: "local".into(),
        peer: thread.map(str::to_owned),
        guild: None,
        team: None,
    }
}

pub(super) fn run_of(thread: Option<&str>, id: &str, content: &str, plan: RunPlan) -> StartRun {
    let origin = runs_origin(thread);
    StartRun {
        origin,
        content: content.into(),
        client_id: id.into(),
        model: None,
        client_tools: Vec::new(),
        folder: FolderChoice::Configured,
        kind: RunKind::Agent(plan),
    }
}

impl Bench {
    pub(super) async fn begin_run(&self, id: &str, content: &str) -> (RunId, Followed) {
        self.begin_planned(id, content, plan("react")).await
    }

    pub(super) async fn begin_planned(&self, id: &str, content: &str, plan: RunPlan) -> (RunId, Followed) {
        let run = self.ask(&on_runs(1), run_of(Some("t"), id, content, plan)).await.unwrap();
        (run, self.follow(run).await)
    }

    async fn messages(&self, before: Option<u64>, limit: usize) -> (Vec<(u64, MessageRole, String)>, bool) {
        let session = SessionRef::Key(runs_origin(Some("t")).session_key("default"));
        let command = ReadThread { session, before, limit };
        let ThreadPage { messages, has_more } = self.ask(&on_runs(1), command).await.unwrap();
        (messages.into_iter().map(|message| (message.seq, message.role, message.text)).collect(), has_more)
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_tells_of_its_nodes_in_order() {
    let bench =
        bench([call(&[("echo", json!({"a": 1})), ("write", json!({"b": 2}))], 10, 5), say(&["do", "ne"], 20, 2)]);
    let (_, followed) = bench.begin_run("r1", "go").await;
    assert_eq!(
        rest(followed).await,
        [
            "started default:runs:local:t by default",
            "briefed react for r1",
            "enter think-0",
            "answered with echo,write",
            "usage 10+5",
            "leave-0 Done",
            "enter act-1",
            "tool echo",
            "tool write",
            "result {\"a\":1}",
            "result {\"b\":2}",
            "leave-1 Done",
            "enter observe-2",
            "leave-2 Done",
            "enter compress-3",
            "leave-3 Done",
            "enter think-4",
            "text do|ne",
            "answered with ",
            "usage 20+2",
            "leave-4 Done",
            "end Completed",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn pieces_of_arguments_are_told_under_the_id_of_their_call() {
    let piece = |text: &str| {
        ScriptStep::Emit(ModelEvent::ToolCallChunk { index: 0, name: "echo".into(), text: text.to_owned() })
    };
    let mut script = call(&[("echo", json!({"a": 1}))], 1, 1);
    script.splice(1..1, [piece(""), piece("{\"a\""), piece(": 1}")]);
    let bench = bench([script]);
    let (run, followed) = bench.begin_run("r1", "go").await;
    let events = rest(followed).await;
    assert!(events.contains(&"arguments echo |{\"a\"|: 1}".to_owned()), "{events:?}");
    let records = bench.store.events(&Topic::Run(run), Seq::FIRST, 100).await.unwrap();
    let ids: Vec<_> = records
        .iter()
        .filter_map(|record| {
            if let Event::ToolArguments { call, .. } | Event::ToolStarted { call, .. } = &record.event {
                return Some(call.clone());
            }
            let Event::ModelCallEnded(ModelCallOutcome::Completed { calls, .. }) = &record.event else { return None };
            calls.first().map(|call| call.id.clone())
        })
        .collect();
    assert_eq!(ids.len(), 3, "{ids:?}");
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_tool_says_while_it_works_is_told_before_its_result() {
    let bench = bench([call(&[("talks", json!({}))], 1, 1)]);
    let (_, followed) = bench.begin_run("r1", "go").await;
    let events = rest(followed).await;
    let said: Vec<&String> =
        events.iter().filter(|event| event.starts_with("said") || event.starts_with("result")).collect();
    assert_eq!(said, ["said half way", "said nearly there", "result talked"]);
}

#[tokio::test(start_paused = true)]
async fn a_live_id_is_refused_and_a_free_one_is_not() {
    let (gate, wait) = closed_gate();
    let bench = bench([say_and_wait(&["a"], wait)]);
    let (_, followed) = bench.begin_run("same", "one").await;
    let refused = bench.ask(&on_runs(2), run_of(None, "same", "two", plan("react"))).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    let other = Caller { principal: "other".into(), ..on_runs(3) };
    bench.ask(&other, run_of(None, "same", "theirs", plan("react"))).await.unwrap();
    gate.add_permits(1);
    rest(followed).await;
    let_others_run().await;
    bench.ask(&on_runs(2), run_of(None, "same", "three", plan("react"))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_unnamed_run_has_a_name_and_a_thread_of_its_own() {
    let bench = bench([]);
    let run = bench.ask(&on_runs(1), run_of(None, "", "go", plan("react"))).await.unwrap();
    let row = bench.store.run(run).await.unwrap().unwrap();
    assert_eq!(*row.client_id, format!("run-{run}"));
    assert_eq!(row.session.as_str(), format!("default:runs:local:run-{run}"));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_agent_is_refused_by_name() {
    let bench = bench([]);
    let refused = bench.ask(&on_runs(1), run_of(None, "", "go", plan("nobody"))).await.unwrap_err();
    assert!(refused.message.contains("`nobody`"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn messages_of_a_thread_are_stored_once_and_page_backwards() {
    let bench = bench([
        call(&[("echo", json!({}))], 1, 1),
        say(&["first"], 1, 1),
        say(&["second"], 1, 1),
        say(&["third"], 1, 1),
    ]);
    for (id, content) in [("1", "a"), ("2", "b"), ("3", "c")] {
        let (_, followed) = bench.begin_run(id, content).await;
        rest(followed).await;
    }
    let (all, has_more) = bench.messages(None, 100).await;
    let texts: Vec<&str> = all.iter().map(|(_, _, text)| text.as_str()).collect();
    assert_eq!(texts, ["a", "first", "b", "second", "c", "third"], "no tool results among them");
    assert!(!has_more);
    let (newest, has_more) = bench.messages(None, 2).await;
    assert_eq!(newest, all[4..], "the newest, oldest first");
    assert!(has_more);
    let (older, has_more) = bench.messages(Some(newest[0].0), 3).await;
    assert_eq!(older, all[1..4]);
    assert!(has_more);
    let (oldest, has_more) = bench.messages(Some(older[0].0), 3).await;
    assert_eq!(oldest, all[..1]);
    assert!(!has_more);
    assert_eq!(bench.messages(Some(0), 3).await, (vec![], false));
    assert_eq!(bench.messages(Some(u64::MAX), 100).await.0, all);
}

#[tokio::test(start_paused = true)]
async fn a_kept_run_outlives_its_listeners() {
    let (gate, wait) = closed_gate();
    let bench = bench([say_and_wait(&["a"], wait)]);
    let (run, followed) = bench.begin_run("r", "go").await;
    bench.ask(&on_runs(1), DetachRun(run)).await.unwrap();
    drop(followed);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(bench.live_runs(), 1);
    gate.add_permits(1);
    let events = rest(bench.follow(run).await).await;
    assert_eq!(events.last().unwrap(), "end Completed");
}

#[tokio::test(start_paused = true)]
async fn a_run_nobody_listens_to_is_cancelled_after_its_grace() {
    let (_gate, wait) = closed_gate();
    let bench = bench([say_and_wait(&["a"], wait)]);
    let (run, followed) = bench.begin_run("r", "go").await;
    drop(followed);
    tokio::time::sleep(Duration::from_secs(61)).await;
    let events = bench.stored(run).await;
    assert_eq!(events[events.len() - 2..], ["leave-0 Failed(\"cancelled\")", "end Cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_takes_the_path_of_every_call() {
    let calls = json!({"calls": [
        {"tool": "echo", "parameters": {"n": 1}},
        {"tool": "fails", "parameters": {}},
        {"tool": "nothing_like_it", "parameters": {}},
        {"tool": "batch", "parameters": {"calls": []}},
        {"tool": "panics", "parameters": {}},
    ]});
    let bench = bench([call(&[("batch", calls)], 1, 1)]);
    let (_, followed) = bench.begin_run("r", "go").await;
    let events = rest(followed).await;
    let result = events.iter().find(|event| event.starts_with("result")).unwrap();
    assert_eq!(
        result,
        "result [1] echo: ok\n{\"n\":1}\n\n[2] fails: error\nno such file\n\n[3] nothing_like_it: error\nunknown tool: \
         nothing_like_it\n\n[4] batch: error\na batch cannot hold another batch\n\n[5] panics: error\npanics: internal error"
    );
}

#[tokio::test(start_paused = true)]
async fn a_batch_cannot_slip_a_call_past_the_policy() {
    let calls = json!({"calls": [{"tool": "write", "parameters": {}}]});
    let bench = bench_with([call(&[("batch", calls)], 1, 1)], |setup| {
        setup.policy.rules.push((Glob::new("write"), crate::approval::policy::ApprovalMode::Deny));
    });
    let (_, followed) = bench.begin_run("r", "go").await;
    rest(followed).await;
    assert_eq!(bench.workshop.executed(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_tool_called_by_itself_is_in_the_audit_trail() {
    let bench = bench([]);
    let call = |name: &str| {
        let arguments = Arc::new(json!({"x": 1}));
        CallTool { name: name.into(), arguments, folder: FolderChoice::Configured, origin: runs_origin(None) }
    };
    // `write` needs a run in this workshop's notes only; `fails` and `panics` do not get that far.
    let unknown = bench.ask(&on_runs(1), call("nothing_like_it")).await.unwrap_err();
    assert_eq!(unknown.message, "tool not found: nothing_like_it");
    let output = bench.ask(&on_runs(1), call("panics")).await.unwrap();
    assert_eq!(&*output.content, "panics: internal error");
    let audit = bench.audit().await;
    assert_eq!((&*audit[0].action, &*audit[0].subject, &*audit[0].detail), ("tool.call", "panics", "error"));
}

#[tokio::test(start_paused = true)]
async fn parallel_nodes_wait_for_each_others_tokens() {
    // Room for one call at a time: each reserves its input and a thousand tokens of output.
    let plan_text = r#"{"nodes":[{"id":"a","description":"one"},{"id":"b","description":"two"}],"edges":[]}"#;
    let scripts = [say(&[plan_text], 5, 5), say(&["A"], 5, 5), say(&["B"], 5, 5), say(&["both"], 5, 5)];
    let bench = bench_with(scripts, |setup| setup.budgets.daily = Some(1900));
    let (_, followed) = bench.begin_planned("r", "go", plan("got")).await;
    let events = rest(followed).await;
    assert_eq!(events.last().unwrap(), "end Completed", "{events:#?}");
}
