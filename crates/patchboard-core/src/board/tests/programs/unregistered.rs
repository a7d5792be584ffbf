//! Tools that workers run without having registered them.

use super::*;
use crate::command::{FindTool, ListTools};
use crate::port::{ToolNameStatus, UnregisteredTools};
use crate::tool::{ToolEffect, ToolKind};

/// Pools whose workers take any name, and a report of all pools there are.
#[derive(Debug)]
struct Open {
    pools: Vec<Arc<OpenPool>>,
    closed: &'static [&'static str],
}

#[derive(Debug)]
struct OpenPool {
    name: &'static str,
    called: Mutex<Vec<String>>,
}

impl WorkerSupervisor for Open {
    fn report(&self) -> Vec<PoolReport> {
        let open = self.pools.iter().map(|pool| pool.name);
        let named = |name: &str| PoolReport { name: name.into(), ..PoolReport::default() };
        open.chain(self.closed.iter().copied()).map(named).collect()
    }

    fn tools_registered(&self, _worker: &WorkerId, _tools: Vec<WorkerTool>) {}

    fn session_closed(&self, _session: &str) {}

    fn pools_taking_unregistered(&self) -> Vec<Arc<dyn UnregisteredTools>> {
        let mut pools: Vec<Arc<dyn UnregisteredTools>> = Vec::new();
        for pool in &self.pools {
            pools.push(pool.clone());
        }
        pools
    }
}

impl UnregisteredTools for OpenPool {
    fn name_status(&self, name: &str) -> ToolNameStatus {
        match name {
            "echo" | "resize" | "withheld" => ToolNameStatus::Registered,
            "missing" => ToolNameStatus::Unknown,
            _ => ToolNameStatus::Untried,
        }
    }
}

impl ToolHost for OpenPool {
    fn kind(&self) -> ToolKind {
        ToolKind::Worker
    }

    fn tools(&self, _folder: Option<&std::path::Path>) -> Arc<[ToolSpec]> {
        Arc::new([])
    }

    fn qualifier(&self) -> Option<&str> {
        Some(self.name)
    }

    fn call<'a>(
        &'a self,
        _scope: &'a ToolScope,
        call: &'a ToolCall,
        arguments: &'a Value,
        _stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        self.called.lock().unwrap().push(call.name.to_string());
        Box::pin(async move { ToolOutput::ok(arguments.to_string()) })
    }
}

fn with_open(
    names: &[&'static str],
    closed: &'static [&'static str],
    change: impl FnOnce(&mut Setup),
) -> (Bench, Arc<Open>) {
    let pool = |name: &&'static str| Arc::new(OpenPool { name, called: Mutex::default() });
    let open = Arc::new(Open { pools: names.iter().map(pool).collect(), closed });
    let bench = bench_with([], |setup| {
        setup.pools = vec![Arc::new(Pool::default())];
        setup.workers = Some(open.clone());
        change(setup);
    });
    (bench, open)
}

impl Open {
    fn called(&self) -> Vec<String> {
        let of = |pool: &Arc<OpenPool>| {
            let called = std::mem::take(&mut *pool.called.lock().unwrap());
            called.into_iter().map(|name| format!("{}: {name}", pool.name)).collect::<Vec<_>>()
        };
        self.pools.iter().flat_map(of).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_nothing_has_goes_to_the_one_pool_that_takes_it() {
    let (bench, open) = with_open(&["py"], &["js"], |_| {});
    let tools = bench.ask(&program(), super::open("s")).await.unwrap();
    assert!(!tools.iter().any(|tool| &*tool.name == "add"));
    for (name, called) in [("add", "py: add"), ("py.add", "py: py.add"), ("py.py.add", "py: py.py.add")] {
        let find = FindTool { session: "s".into(), name: name.into(), filter: ToolFilter::Streaming };
        let spec = bench.ask(&program(), find).await.unwrap();
        assert_eq!((spec.effect, spec.kind, &*spec.name), (ToolEffect::Writes, ToolKind::Worker, name));
        let answer = output(&bench, &program(), call("s", name, json!({"any": [1]}), ToolFilter::All)).await;
        assert_eq!((&*answer.content, open.called()), ("{\"any\":[1]}", vec![called.to_owned()]));
    }
    // What is registered is called as that, under either name.
    assert_eq!(&*output(&bench, &program(), call("s", "py.resize", json!({}), ToolFilter::All)).await.content, "{}");
    assert_eq!(open.called(), [""; 0]);
    for name in [
        "missing",
        "py.missing",
        "withheld",
        "py.withheld",
        "write",
        "js.add",
        "",
        "py.",
        "py._add",
        "__init__",
        "a b",
        "x\ny",
    ] {
        let words = format!("Tool {name} not found for session s");
        assert_eq!(refusal(&bench, &program(), call("s", name, json!({}), ToolFilter::All)).await, words);
    }
    let long = "x".repeat(200);
    let refused = refusal(&bench, &program(), call("s", &long, json!({}), ToolFilter::All)).await;
    assert!(refused.ends_with("not found for session s"), "{refused}");
    let host = refusal(&bench, &program(), call("s", "add", json!({}), ToolFilter::ServerTools)).await;
    assert_eq!((&*host, open.called()), ("Tool add not found for session s", vec![]));
}

#[tokio::test(start_paused = true)]
async fn several_pools_are_named_and_the_name_chooses() {
    let (bench, open) = with_open(&["py", "r"], &[], |_| {});
    bench.ask(&program(), super::open("s")).await.unwrap();
    let refused = refusal(&bench, &program(), call("s", "add", json!({}), ToolFilter::All)).await;
    assert_eq!(
        refused,
        "Tool add is registered by no worker, and several pools run tools that are not registered: call it as `py.add` \
         or `r.add`"
    );
    output(&bench, &program(), call("s", "r.add", json!({}), ToolFilter::All)).await;
    assert_eq!(open.called(), ["r: r.add"]);
}

#[tokio::test(start_paused = true)]
async fn the_stricter_rule_of_its_two_names_holds_and_it_counts_as_writing() {
    let rules = [
        (Glob::new("py.deny_long"), ApprovalMode::Deny),
        (Glob::new("deny_short"), ApprovalMode::Deny),
        (Glob::new("ask"), ApprovalMode::Ask),
        // Of the server's own tool, and not of the pool's.
        (Glob::new("write"), ApprovalMode::Deny),
    ];
    let (bench, open) = with_open(&["py"], &[], |setup| {
        setup.policy.rules = rules.to_vec();
        setup.limits.inputs.approval = Duration::from_secs(10);
    });
    bench.ask(&program(), super::open("s")).await.unwrap();
    for name in ["deny_long", "py.deny_long", "deny_short", "py.deny_short"] {
        let words = format!("Tool {name} not found for session s");
        assert_eq!(refusal(&bench, &program(), call("s", name, json!({}), ToolFilter::All)).await, words);
    }
    for name in ["ask", "py.ask"] {
        let answer = output(&bench, &program(), call("s", name, json!({}), ToolFilter::All)).await;
        assert_eq!((&*answer.content, open.called()), ("nobody approved ask in time", vec![]), "{name}");
    }
    output(&bench, &program(), call("s", "py.write", json!({}), ToolFilter::All)).await;
    assert_eq!(open.called(), ["py: py.write"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let rows = bench.store.audit(10, None).await.unwrap().items;
    assert!(rows.iter().any(|row| &*row.action == "tool.intent" && &*row.subject == "py.write"), "{rows:?}");
}

#[tokio::test(start_paused = true)]
async fn the_command_line_names_the_pool_and_agents_have_none_of_it() {
    let (bench, open) = with_open(&["py"], &[], |_| {});
    let on_cli = Caller { surface: Surface::Cli, ..operator() };
    let by_name = |name: &str| CallTool {
        name: name.into(),
        arguments: json!({}).into(),
        folder: FolderChoice::Configured,
        origin: origin("alice"),
    };
    assert_eq!(refusal(&bench, &on_cli, by_name("add")).await, "tool not found: add");
    output(&bench, &on_cli, by_name("py.add")).await;
    assert_eq!(open.called(), ["py: py.add"]);
    let listing = ListTools { folder: None, page: PageRequest::new(Some(1000), None) };
    let page = bench.ask(&on_cli, listing).await.unwrap();
    assert!(!page.items.iter().any(|tool| tool.name.contains("add")));
}
