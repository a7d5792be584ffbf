//! Keys of clients: what each may start and use, who pays, and what happens when one is revoked; and overseers.

use super::*;
use crate::caller::{Grant, Principal};
use crate::command::{
    CallTool, CancelRun, ClearSession, CreateKey, DescribeServer, ListAgents, ListInputs, ListKeys, ListSessions,
    ListTools, ReadThread, RevokeKey, SummariseUsage,
};
use crate::keys::{KeyBudget, KeyHash, KeyRights, KeySource, KeySpec};
use crate::reply::KeyBudgetUsage;
use crate::store::{KvNamespace, SessionFilter, UsageGrouping};

fn ci() -> Caller {
    Caller { principal: Principal::Key("ci".into()), ..caller(5) }
}

fn overseer() -> Caller {
    Caller { principal: Principal::Key("eye".into()), grants: GrantSet::CLIENT.with(Grant::Oversee), ..caller(6) }
}

fn create(name: &str, rights: KeyRights) -> CreateKey {
    CreateKey { name: name.into(), hash: KeyHash([7; 32]), rights }
}

fn file_key(name: &str, rights: KeyRights) -> KeySpec {
    KeySpec { name: name.into(), hash: KeyHash([8; 32]), rights, source: KeySource::File }
}

fn budget(daily: Option<u64>, monthly: Option<u64>) -> KeyRights {
    KeyRights { budget: KeyBudget { daily, monthly }, ..KeyRights::default() }
}

fn only(names: &[&str]) -> Option<Vec<Arc<str>>> {
    Some(names.iter().map(|name| Arc::from(*name)).collect())
}

fn globs(patterns: &[&str]) -> Option<Vec<Glob>> {
    Some(patterns.iter().map(|pattern| Glob::new(*pattern)).collect())
}

/// A board with a second agent, `helper`, and the key `ci`.
async fn with_key(rights: KeyRights, scripts: impl IntoIterator<Item = Script>, helper: Arc<ScriptedModel>) -> Bench {
    let bench = bench_with(scripts, |setup| {
        setup.agents.push(AgentSpec { name: "helper".into(), provider: helper, ..setup.agent.clone() });
    });
    bench.ask(&operator(), create("ci", rights)).await.unwrap();
    bench
}

fn silent() -> Arc<ScriptedModel> {
    ScriptedModel::new([])
}

fn start_with(agent: &str, account: &str) -> StartRun {
    StartRun { kind: RunKind::Chat { agent: Some(agent.into()) }, ..start(account, "go") }
}

impl Bench {
    async fn finished(&self, caller: &Caller, command: StartRun) -> Vec<String> {
        let run = self.ask(caller, command).await.unwrap();
        let topic = Topic::Run(run);
        rest(self.board.follow(caller, topic, Seq::FIRST, FollowerPacing::Unpaced).await.unwrap()).await
    }

    /// Name, tokens of the day and of the month of the keys that a caller's report shows.
    async fn keys_in_report(&self, caller: &Caller) -> Vec<(String, u64, u64)> {
        let report = self.ask(caller, BudgetStatus { session: None }).await.unwrap();
        let line = |line: KeyBudgetUsage| (line.key.to_string(), line.daily.used, line.monthly.used);
        report.keys.into_iter().map(line).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_operator_creates_lists_and_revokes_keys() {
    let bench = bench([]);
    let commands = [
        AnyCommand::new(create("ci", KeyRights::default())),
        AnyCommand::new(ListKeys),
        AnyCommand::new(RevokeKey { name: "ci".into() }),
    ];
    for command in &commands {
        for other in [caller(1), overseer()] {
            assert_eq!(command.ask(&bench, &other).await.unwrap_err().kind, ErrorKind::Forbidden, "{command:?}");
        }
        command.ask(&bench, &operator()).await.unwrap();
    }
    let audit = bench.audit().await;
    let rows: Vec<_> = audit.iter().map(|row| (&*row.principal, &*row.action, &*row.subject)).collect();
    assert_eq!(rows, [("operator", "key.revoke", "ci"), ("operator", "key.create", "ci")]);
}

#[tokio::test(start_paused = true)]
async fn created_keys_are_there_after_a_restart_and_revoked_ones_are_not() {
    let bench = bench([]);
    let rights = KeyRights { agents: only(&["default"]), ..budget(None, Some(100)) };
    for name in ["ci", "old"] {
        bench.ask(&operator(), create(name, rights.clone())).await.unwrap();
    }
    bench.ask(&operator(), RevokeKey { name: "old".into() }).await.unwrap();
    let before = bench.ask(&operator(), ListKeys).await.unwrap();
    let next = bench_with([], |setup| setup.store = bench.store.clone());
    next.board.open_keys(vec![file_key("written", KeyRights::default())]).await.unwrap();
    let listed = next.ask(&operator(), ListKeys).await.unwrap();
    assert_eq!((&listed[..1], &*listed[1].name), (&before[..], "written"));
    assert_eq!((&*listed[0].name, &listed[0].rights), ("ci", &rights));
    let clash = bench_with([], |setup| setup.store = bench.store.clone());
    let error = clash.board.open_keys(vec![file_key("ci", KeyRights::default())]).await.unwrap_err();
    assert_eq!(error.to_string(), "the key `ci` of the configuration has the name of a created key");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_cannot_be_stored_does_not_exist() {
    let bench = bench([]);
    bench.store.fail_after(0);
    bench.ask(&operator(), create("ci", KeyRights::default())).await.unwrap_err();
    assert_eq!(bench.ask(&operator(), ListKeys).await.unwrap(), []);
    bench.store.stop_failing();
    bench.ask(&operator(), create("ci", KeyRights::default())).await.unwrap();
    bench.store.fail_after(0);
    bench.ask(&operator(), RevokeKey { name: "ci".into() }).await.unwrap_err();
    assert_eq!(bench.ask(&operator(), ListKeys).await.unwrap().len(), 1, "nor is it revoked");
}

#[tokio::test(start_paused = true)]
async fn names_clash_in_both_directions() {
    let bench = bench([]);
    bench.board.open_keys(vec![file_key("written", KeyRights::default())]).await.unwrap();
    bench.ask(&operator(), create("ci", KeyRights::default())).await.unwrap();
    for (name, kind) in [("ci", ErrorKind::Conflict), ("written", ErrorKind::Conflict), ("a b", ErrorKind::Invalid)] {
        let refused = bench.ask(&operator(), create(name, KeyRights::default())).await.unwrap_err();
        assert_eq!(refused.kind, kind, "{name}");
    }
    let unknown = KeyRights { agents: only(&["planer"]), ..KeyRights::default() };
    assert_eq!(bench.ask(&operator(), create("x", unknown)).await.unwrap_err().kind, ErrorKind::Invalid);
    let in_file = bench.ask(&operator(), RevokeKey { name: "written".into() }).await.unwrap_err();
    let expected = "the key `written` is in the configuration: remove its entry of `[[keys]]` there, then \
                    `patchboard reload`";
    assert_eq!((in_file.kind, in_file.message.as_str()), (ErrorKind::Conflict, expected));
    let missing = bench.ask(&operator(), RevokeKey { name: "none".into() }).await.unwrap_err();
    assert_eq!(missing.kind, ErrorKind::NotFound);
    bench.board.prepare_file_keys(vec![file_key("ci", KeyRights::default())]).await.unwrap_err();
    let change = bench.board.prepare_file_keys(vec![]).await.unwrap();
    bench.board.apply_file_keys(change);
    bench.ask(&operator(), create("written", KeyRights::default())).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_starts_only_its_agents_also_as_nested_runs() {
    let helper = silent();
    let scripts = [call(&[("agent.helper", json!({"message": "x"}))], 1, 1), say(&["done"], 1, 1)];
    let only_default = KeyRights { agents: only(&["default"]), ..KeyRights::default() };
    let bench = with_key(only_default, scripts, helper.clone()).await;
    let refused = bench.ask(&ci(), start_with("helper", "alice")).await.unwrap_err();
    let expected = "the key `ci` may not start the agent `helper`: name one of default";
    assert_eq!((refused.kind, refused.message.as_str()), (ErrorKind::Forbidden, expected));
    let events = bench.finished(&ci(), start("alice", "go")).await;
    assert_eq!(
        events[3],
        "error helper could not begin: the key `ci` may not start the agent `helper`: name one of default"
    );
    assert_eq!(helper.requests().len(), 0);
    let listed = bench.ask(&ci(), ListAgents).await.unwrap();
    assert!(listed.iter().all(|agent| &*agent.name != "helper"), "{listed:?}");
    assert!(bench.ask(&caller(1), ListAgents).await.unwrap().len() > listed.len());
}

#[tokio::test(start_paused = true)]
async fn its_runs_and_calls_use_only_its_tools() {
    let scripts = [call(&[("echo", json!({})), ("note", json!({}))], 1, 1), say(&["done"], 1, 1)];
    let bench =
        with_key(KeyRights { tools: globs(&["ech*", "todo_read"]), ..KeyRights::default() }, scripts, silent()).await;
    let events = bench.finished(&ci(), start("alice", "go")).await;
    assert!(events.contains(&"error unknown tool: note".to_owned()), "{events:?}");
    let offered: Vec<Arc<str>> = bench.model.requests()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(offered, ["echo".into(), "todo_read".into()]);
    let list = ListTools { folder: None, page: PageRequest::new(Some(500), None) };
    let listed = bench.ask(&ci(), list).await.unwrap().items;
    assert_eq!(listed.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["echo", "todo_read"]);
    let call = |name: &str| CallTool {
        name: name.into(),
        arguments: Arc::new(json!({})),
        folder: FolderChoice::Configured,
        origin: origin("bob"),
    };
    assert!(!bench.ask(&ci(), call("todo_read")).await.unwrap().is_error);
    let refused = bench.ask(&ci(), call("todo_write")).await.unwrap();
    assert_eq!(&*refused.content, "todo_write is not among the tools of the key `ci`");
}

#[tokio::test(start_paused = true)]
async fn a_key_pays_for_its_runs_and_their_nested_ones_and_nobody_else_does() {
    let helper = ScriptedModel::new([say(&["4"], 7, 2)]);
    let scripts =
        [call(&[("agent.helper", json!({"message": "2+2"}))], 10, 5), say(&["done"], 20, 1), say(&["x"], 3, 3)];
    let bench = with_key(budget(None, Some(100_000)), scripts, helper).await;
    bench.ask(&operator(), create("idle", KeyRights::default())).await.unwrap();
    bench.finished(&ci(), start("alice", "go")).await;
    bench.chat("bob", "hi").await;
    let (used, idle) = (("ci".to_owned(), 45, 45), ("idle".to_owned(), 0, 0));
    assert_eq!(bench.keys_in_report(&operator()).await, [used.clone(), idle.clone()]);
    assert_eq!(bench.keys_in_report(&ci()).await, std::slice::from_ref(&used), "its own");
    assert_eq!(bench.keys_in_report(&caller(1)).await, []);
    let report = bench.ask(&operator(), DescribeServer).await.unwrap().budget;
    assert_eq!((report.keys[0].monthly.limit, report.daily.used), (Some(100_000), 51));
    let next = bench_with([], |setup| setup.store = bench.store.clone());
    next.board.open_keys(vec![]).await.unwrap();
    assert_eq!(next.keys_in_report(&operator()).await, [used, idle], "counted in the store");
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_is_used_up_names_the_key() {
    let bench = bench_with([say(&["Hello"], 20, 20)], |setup| setup.agent.tools = Some(vec![]));
    bench.board.open_keys(vec![file_key("ci", budget(Some(40), None))]).await.unwrap();
    let refused = |bench: &Bench| bench.ask(&ci(), start("alice", "more"));
    bench.finished(&ci(), start("alice", "hi")).await;
    let refusal = refused(&bench).await.unwrap_err();
    assert_eq!(refusal.kind, ErrorKind::Exhausted);
    assert!(
        refusal.message.starts_with("token budget exceeded (daily of the key `ci`: 40/40): "),
        "{}",
        refusal.message
    );
    let remedy = "; raise `budget.daily` in the entry of `[[keys]]` named `ci` or wait until midnight UTC";
    assert!(refusal.message.ends_with(remedy), "{}", refusal.message);
    let change = bench.board.prepare_file_keys(vec![]).await.unwrap();
    bench.board.apply_file_keys(change);
    bench.ask(&operator(), create("ci", budget(Some(40), None))).await.unwrap();
    let refusal = refused(&bench).await.unwrap_err();
    let remedy = "; revoke the key `ci` and create it anew with a larger `--daily` or wait until midnight UTC";
    assert!(refusal.message.ends_with(remedy), "{}", refusal.message);
    bench.chat("bob", "the others go on").await;
}

#[tokio::test(start_paused = true)]
async fn a_revoked_key_loses_its_runs_and_is_refused_at_once() {
    let (_gate, closed) = closed_gate();
    let bench = with_key(KeyRights::default(), [say_and_wait(&["x"], closed)], silent()).await;
    let run = bench.ask(&ci(), start("alice", "go")).await.unwrap();
    let followed = bench.board.follow(&operator(), Topic::Run(run), Seq::FIRST, FollowerPacing::Unpaced).await.unwrap();
    let signed_in = bench.board.keys().get("ci").unwrap();
    bench.ask(&operator(), RevokeKey { name: "ci".into() }).await.unwrap();
    assert!(signed_in.revoked.is_cancelled());
    assert_eq!(rest(followed).await.last().unwrap(), "end Cancelled");
    let refused = bench.ask(&ci(), start("alice", "again")).await.unwrap_err();
    assert_eq!((refused.kind, refused.message.as_str()), (ErrorKind::Forbidden, "the key `ci` was revoked"));
    let topic = Topic::Run(run);
    let refused = bench.board.follow(&ci(), topic, Seq::FIRST, FollowerPacing::Unpaced).await.err().unwrap();
    assert_eq!(refused.kind, ErrorKind::Forbidden);
    let left = bench.store.kv_keys(&KvNamespace::Server, "keys/", None, 10).await.unwrap();
    assert_eq!(left, [] as [Arc<str>; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_overseer_sees_and_steers_every_run_and_changes_nothing() {
    let (_gate, closed) = closed_gate();
    let bench =
        bench([call(&[("write", json!({"a": 1}))], 10, 5), say(&["done"], 20, 1), say_and_wait(&["x"], closed)]);
    bench.ask(&operator(), create("eye", KeyRights { oversee: true, ..KeyRights::default() })).await.unwrap();
    let (_, mut followed) = bench.begin("alice", "write it").await;
    until(&mut followed, "may write run").await;
    let list = ListInputs(PageRequest::new(None, None));
    let open = bench.ask(&overseer(), list).await.unwrap().items;
    let approval = crate::command::InputRef::Id(open[0].request.input);
    bench
        .ask(&overseer(), crate::command::AnswerInput { input: approval, answer: crate::event::InputAnswer::Approved })
        .await
        .unwrap();
    assert_eq!(rest(followed).await[0], "approved true by gateway:key:eye");
    let session = SessionRef::Origin(origin("alice"));
    let page = PageRequest::new(None, None);
    let cli = SessionRef::Origin(ConversationOrigin { channel: "cli".into(), ..origin("alice") });
    for command in [
        AnyCommand::new(ReadHistory { session: session.clone(), page: page.clone() }),
        AnyCommand::new(ReadThread { session: session.clone(), before: None, limit: 10 }),
        AnyCommand::new(BudgetStatus { session: Some(session.clone()) }),
        AnyCommand::new(ReadHistory { session: cli, page: page.clone() }),
    ] {
        command.ask(&bench, &overseer()).await.unwrap();
    }
    for command in [
        AnyCommand::new(ClearSession { session, purge: false }),
        AnyCommand::new(start("alice", "in its name")),
        AnyCommand::new(DescribeServer),
        AnyCommand::new(ListKeys),
    ] {
        let refused = command.ask(&bench, &overseer()).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden, "{command:?}");
    }
    let sessions = ListSessions { filter: SessionFilter::default(), page: page.clone() };
    assert_eq!(bench.ask(&overseer(), sessions).await.unwrap().items.len(), 1);
    let usage = SummariseUsage { since: None, group_by: UsageGrouping::Session, then_by: None, page };
    assert_eq!(bench.ask(&overseer(), usage).await.unwrap().items.len(), 1);
    let (run, followed) = bench.begin("bob", "wait").await;
    bench.ask(&overseer(), CancelRun(run)).await.unwrap();
    assert_eq!(rest(followed).await.last().unwrap(), "end Cancelled");
}
