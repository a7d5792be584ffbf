//! Settings that are replaced while work is under way.

use crate::command::{BudgetStatus, DescribeServer, ReloadSettings};
use futures_core::future::BoxFuture;

use super::*;
use crate::approval::policy::ApprovalMode;
use crate::port::{ModelProvider, ServerControl};
use crate::reply::{AgentModel, ReloadReport};

/// As the bench has them, to be changed.
fn settings(bench: &Bench) -> BoardSettings {
    let agents = bench.board.0.agents.get();
    let agents = agents.all().iter().map(|agent| AgentSpec::clone(agent)).collect();
    BoardSettings {
        agents: AgentTable::new(agents, Vec::new()).unwrap(),
        approval_policy: ApprovalPolicy::default(),
        limits: BoardLimits::default(),
        budgets: BudgetLimits::default(),
        prices: PriceTable(Vec::new()),
    }
}

fn agent(bench: &Bench, name: &str, model: &Arc<ScriptedModel>, named: &str) -> AgentSpec {
    let default = bench.board.0.agents.get().agent("default").unwrap().clone();
    AgentSpec { name: name.into(), provider: model.clone(), model: named.into(), ..AgentSpec::clone(&default) }
}

#[tokio::test(start_paused = true)]
async fn what_has_begun_ends_with_its_model_and_the_next_turn_has_the_new_one() {
    let (gate, closed) = closed_gate();
    let bench = bench([say_and_wait(&["old"], closed)]);
    let (_, running) = bench.begin("alice", "hi").await;
    let other = ScriptedModel::new([say(&["new"], 1, 1)]);
    let agents = AgentTable::new(vec![agent(&bench, "default", &other, "script-2")], Vec::new()).unwrap();
    bench.board.apply_settings(BoardSettings { agents, ..settings(&bench) });
    gate.add_permits(1);
    assert_eq!(rest(running).await[1], "text old");
    assert_eq!(bench.chat("alice", "again").await[1], "text new");
    assert_eq!((bench.model.requests().len(), other.requests().len()), (1, 1));
    assert_eq!(&*other.requests()[0].model, "script-2");
}

#[tokio::test(start_paused = true)]
async fn bindings_and_agents_as_tools_follow() {
    let bench = bench([]);
    let before = bench.offered();
    let coder = ScriptedModel::new([say(&["from coder"], 1, 1)]);
    let default = agent(&bench, "default", &bench.model, "script-1");
    let agents = vec![default, agent(&bench, "coder", &coder, "script-1")];
    let binding = AgentBinding { agent: "coder".into(), channel: Some("web".into()), ..AgentBinding::default() };
    let agents = AgentTable::new(agents, vec![binding]).unwrap();
    bench.board.apply_settings(BoardSettings { agents, ..settings(&bench) });
    assert_eq!(bench.chat("alice", "hi").await[1], "text from coder");
    assert_eq!(bench.offered(), before + 2, "both are tools now");
    bench.board.apply_settings(BoardSettings {
        agents: AgentTable::new(vec![agent(&bench, "default", &coder, "m")], vec![]).unwrap(),
        ..settings(&bench)
    });
    assert_eq!(bench.offered(), before);
}

#[tokio::test(start_paused = true)]
async fn approval_rules_and_limits_count_for_the_next_call() {
    let scripts = [call(&[("write", json!({}))], 1, 1), say(&["done"], 1, 1)];
    let bench = bench(scripts);
    let rules = vec![(Glob::new("write"), ApprovalMode::Deny)];
    let limits = BoardLimits { session_queue: 0, ..BoardLimits::default() };
    bench.board.apply_settings(BoardSettings { approval_policy: ApprovalPolicy { rules }, limits, ..settings(&bench) });
    let events = bench.chat("alice", "go").await;
    assert!(events.contains(&"error write is not allowed here by the approval policy".to_owned()), "{events:?}");
    assert_eq!(bench.workshop.executed(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn budgets_and_the_line_of_a_session_are_what_they_are_now() {
    let bench = bench([vec![closed_gate().1]]);
    let (_, _running) = bench.begin("alice", "0").await;
    let limits = BoardLimits { session_queue: 0, ..BoardLimits::default() };
    let budgets = BudgetLimits { daily: Some(1), ..BudgetLimits::default() };
    bench.board.apply_settings(BoardSettings { limits, budgets, ..settings(&bench) });
    let refused = bench.ask(&caller(1), start("alice", "1")).await.unwrap_err();
    assert_eq!(refused.message, "session busy: 0 requests are waiting for it");
    let refused = bench.ask(&caller(1), start("bob", "1")).await.unwrap_err();
    assert!(refused.message.starts_with("token budget exceeded (daily: "), "{}", refused.message);
    let report = bench.ask(&caller(1), BudgetStatus { session: None }).await.unwrap();
    assert_eq!(report.daily.limit, Some(1));
}

#[tokio::test(start_paused = true)]
async fn places_for_runs_grow_and_shrink() {
    let (gate, closed) = closed_gate();
    let scripts = (0..4).map(|_| say_and_wait(&["x"], closed.clone()));
    let bench = bench_with(scripts, |setup| setup.limits.concurrent_runs = 1);
    let at_work = async |places: usize, wanted: usize| {
        let limits = BoardLimits { concurrent_runs: places, ..BoardLimits::default() };
        bench.board.apply_settings(BoardSettings { limits, ..settings(&bench) });
        let_others_run().await;
        assert_eq!(bench.live_runs(), wanted, "with {places} places");
    };
    let asking = TaskTracker::new();
    for account in ["a", "b", "c", "d"] {
        asking.spawn(bench.ask(&caller(1), start(account, "hi")));
    }
    at_work(1, 1).await;
    at_work(2, 2).await;
    at_work(3, 3).await;
    // Nothing is cut; none begins before there are fewer.
    at_work(1, 3).await;
    gate.add_permits(2);
    let_others_run().await;
    assert_eq!(bench.live_runs(), 1);
    at_work(2, 2).await;
    gate.add_permits(2);
    let_others_run().await;
    assert_eq!((bench.live_runs(), bench.model.requests().len()), (0, 4));
}

#[derive(Debug)]
struct Control(ReloadReport);

impl ServerControl for Control {
    fn reload(&self) -> BoxFuture<'_, Result<ReloadReport, BoardError>> {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }
}

#[tokio::test(start_paused = true)]
async fn a_reload_is_the_operators_and_is_on_record() {
    let bench = bench([]);
    let alone = bench.ask(&operator(), ReloadSettings).await.unwrap_err();
    assert_eq!(
        (alone.kind, &*alone.message),
        (ErrorKind::Conflict, "this server reads its configuration only when it starts")
    );
    let report = ReloadReport { changed: vec!["a.b".into(), "c".into()], ..ReloadReport::default() };
    bench.board.set_server_control(Arc::new(Control(report.clone())));
    assert_eq!(bench.ask(&caller(1), ReloadSettings).await.unwrap_err().kind, ErrorKind::Forbidden);
    let told = bench.ask(&operator(), ReloadSettings).await.unwrap();
    assert_eq!(told, report);
    let audit = bench.audit().await;
    let row = audit.iter().find(|row| &*row.action == "server.reload").expect("an audit row");
    assert_eq!((&*row.principal, &*row.detail), ("operator", "a.b c"));
}

#[tokio::test(start_paused = true)]
async fn the_operator_learns_how_the_server_is_even_while_it_stops() {
    let (gate, closed) = closed_gate();
    let bench = bench([say_and_wait(&["x"], closed)]);
    assert_eq!(bench.ask(&caller(1), DescribeServer).await.unwrap_err().kind, ErrorKind::Forbidden);
    let (_, _running) = bench.begin("alice", "hi").await;
    let draining = TaskTracker::new();
    let board = bench.board.clone();
    let drained = draining.spawn(async move { board.drain(Duration::from_secs(3600)).await });
    let_others_run().await;
    let report = bench.ask(&operator(), DescribeServer).await.unwrap();
    assert!(report.is_draining);
    let model = AgentModel { agent: "default".into(), provider: bench.model.name().into(), model: "script-1".into() };
    assert_eq!((report.agents, report.approvals, report.node.live_runs), (vec![model], 0, 1));
    gate.add_permits(1);
    assert_eq!(drained.await.unwrap().unwrap().cancelled, 0);
}
