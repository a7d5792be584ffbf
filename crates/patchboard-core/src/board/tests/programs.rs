//! Programs: their sessions, what they may reach, and what is told and kept about it.

use std::sync::Mutex;

use bytes::Bytes;
use serde_json::Value;

use super::*;
use crate::approval::policy::ApprovalMode;
use crate::bridge::BridgeOptions;
use crate::command::{
    CallInSession, CallTool, CloseSession, DescribeSession, FindTool, FolderChoice, ListHostTools, OpenSession,
    RegisterTools, ToolFilter, TouchSession,
};
use crate::model::ToolCall;
use crate::port::ToolScope;
use crate::port::WorkerSupervisor;
use crate::tool::{CallMetadata, StructuredOutput, ToolKind, ToolOutput, ToolSpec};
use crate::worker::{PoolReport, SessionConfig, WorkerId, WorkerTool};

mod bounds;
mod endings;
mod unregistered;

/// A pool that counts its calls, and what the board tells its workers.
#[derive(Debug)]
struct Pool {
    calls: Mutex<Vec<(String, CallMetadata)>>,
    /// Besides the usual ones.
    tools: Mutex<Vec<&'static str>>,
    /// Opens tools whose names begin with `slow`.
    gate: Semaphore,
    over: Mutex<Vec<String>>,
    registered: Mutex<Vec<(WorkerId, usize)>>,
}

impl Default for Pool {
    fn default() -> Self {
        let (calls, tools, gate) = (Mutex::default(), Mutex::default(), Semaphore::new(0));
        Self { calls, tools, gate, over: Mutex::default(), registered: Mutex::default() }
    }
}

impl ToolHost for Pool {
    fn kind(&self) -> ToolKind {
        ToolKind::Worker
    }

    fn tools(&self, _folder: Option<&std::path::Path>) -> Arc<[ToolSpec]> {
        let more = self.tools.lock().unwrap();
        ["resize", "echo", "pure"].iter().chain(more.iter()).map(|name| tool(name).spec()).collect()
    }

    fn qualifier(&self) -> Option<&str> {
        Some("py")
    }

    fn call<'a>(
        &'a self,
        scope: &'a ToolScope,
        call: &'a ToolCall,
        arguments: &'a Value,
        _stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        let metadata = scope.call_metadata.as_deref().expect("the board adds one").clone();
        self.calls.lock().unwrap().push((call.name.to_string(), metadata));
        Box::pin(async move {
            if call.name.starts_with("slow") {
                self.gate.acquire().await.unwrap().forget();
            }
            let text = arguments.to_string();
            let json = Some(Bytes::from(text.clone()));
            ToolOutput::ok(text).with_structured(StructuredOutput { json, ..StructuredOutput::default() })
        })
    }
}

impl WorkerSupervisor for Pool {
    fn report(&self) -> Vec<PoolReport> {
        vec![PoolReport { name: "py".into(), ..PoolReport::default() }]
    }

    fn tools_registered(&self, worker: &WorkerId, tools: Vec<WorkerTool>) {
        self.registered.lock().unwrap().push((worker.clone(), tools.len()));
    }

    fn session_closed(&self, session: &str) {
        self.over.lock().unwrap().push(session.to_owned());
    }
}

fn tool(name: &str) -> WorkerTool {
    WorkerTool {
        name: name.into(),
        description: "".into(),
        input_schema: json!({"type": "object"}).into(),
        parameters: Vec::new(),
        streams: name == "resize",
        metadata: [("cacheable".to_owned(), name.ends_with("pure").to_string())].into(),
    }
}

fn with_pool(change: impl FnOnce(&mut Setup)) -> (Bench, Arc<Pool>) {
    let pool = Arc::new(Pool::default());
    let bench = bench_with([], |setup| {
        setup.pools = vec![pool.clone()];
        setup.workers = Some(pool.clone());
        change(setup);
    });
    (bench, pool)
}

/// Goes on while the test does something else.
fn aside<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> tokio::task::JoinHandle<T> {
    TaskTracker::new().spawn(work)
}

fn program() -> Caller {
    Caller { surface: Surface::Bridge, principal: "bridge".into(), ..caller(1) }
}

fn worker() -> Caller {
    Caller { principal: "worker:py_worker_1".into(), ..program() }
}

fn open(id: &str) -> OpenSession {
    OpenSession { id: id.into(), metadata: Default::default(), config: None, worker: None }
}

fn call(session: &str, name: &str, arguments: Value, filter: ToolFilter) -> CallInSession {
    let metadata = CallMetadata { session: session.into(), ..CallMetadata::default() };
    CallInSession { name: name.into(), arguments: arguments.into(), filter, metadata }
}

async fn output(bench: &Bench, caller: &Caller, command: impl BoardCommand<Reply = ToolOutput>) -> ToolOutput {
    bench.ask(caller, command).await.unwrap()
}

async fn refusal(bench: &Bench, caller: &Caller, command: impl BoardCommand) -> String {
    bench.ask(caller, command).await.unwrap_err().message
}

fn json_of(output: &ToolOutput) -> Value {
    serde_json::from_slice(output.data.as_ref().unwrap().json.as_ref().unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_program_sees_the_tools_of_workers_and_calls_them_with_its_own_session() {
    let (bench, pool) = with_pool(|_| {});
    let tools = bench.ask(&program(), open("s")).await.unwrap();
    // `echo` is the workshop's already; nothing shadows.
    let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["pure", "py.echo", "resize"]);
    let output = output(&bench, &program(), call("s", "resize", json!({"n": 1}), ToolFilter::All)).await;
    assert_eq!(json_of(&output), json!({"n": 1}));
    let calls = pool.calls.lock().unwrap();
    assert_eq!((&*calls[0].0, &*calls[0].1.session, calls[0].1.for_model), ("resize", "s", false));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_reached_is_said_in_the_words_clients_look_for() {
    let (bench, _pool) = with_pool(|_| {});
    let all = |name| call("s", name, json!({}), ToolFilter::All);
    assert_eq!(refusal(&bench, &program(), all("resize")).await, "Session not found: s");
    bench.ask(&program(), open("s")).await.unwrap();
    for (name, filter, words) in [
        ("nothing", ToolFilter::All, "Tool nothing not found for session s"),
        // There, and not for programs.
        ("write", ToolFilter::All, "Tool write not found for session s"),
        ("write", ToolFilter::ServerTools, "Tool write not found for session s"),
        ("resize", ToolFilter::ServerTools, "Tool resize is not an Elixir tool"),
        ("pure", ToolFilter::Streaming, "Streaming execution is not enabled for tool pure"),
    ] {
        assert_eq!(refusal(&bench, &program(), call("s", name, json!({}), filter)).await, words);
        let find = FindTool { session: "s".into(), name: name.into(), filter };
        assert_eq!(refusal(&bench, &program(), find).await, words);
    }
}

#[tokio::test(start_paused = true)]
async fn host_tools_are_those_for_everyone_and_those_the_operator_exposes() {
    let listed = |bench: &Bench| {
        let listing = bench.ask(&program(), ListHostTools { session: "s".into() });
        async move {
            let tools = listing.await.unwrap();
            tools.into_iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>()
        }
    };
    let (bench, _pool) = with_pool(|_| {});
    let names = listed(&bench).await;
    for offered in ["fails", "hub_send", "variable_set", "variable_get", "todo_write"] {
        assert!(names.iter().any(|name| name == offered), "{offered}");
    }
    for hidden in ["write", "once", "resize", "py.echo"] {
        assert!(!names.iter().any(|name| name == hidden), "{hidden}");
    }
    let (bench, _pool) = with_pool(|setup| {
        setup.bridge = BridgeOptions { expose: vec![Glob::new("writ?")], ..BridgeOptions::default() };
        setup.policy.rules = vec![(Glob::new("fails"), ApprovalMode::Deny), (Glob::new("*"), ApprovalMode::Allow)];
    });
    let names = listed(&bench).await;
    assert!(names.iter().any(|name| name == "write"));
    assert!(!names.iter().any(|name| name == "fails" || name == "once"));
}

#[tokio::test(start_paused = true)]
async fn calls_of_programs_are_in_the_audit_trail() {
    let (bench, _pool) = with_pool(|setup| {
        setup.bridge.expose = vec![Glob::new("todo*")];
    });
    bench.ask(&program(), open("s")).await.unwrap();
    output(&bench, &program(), call("s", "resize", json!({}), ToolFilter::All)).await;
    output(&bench, &program(), call("s", "todo_read", json!({}), ToolFilter::ServerTools)).await;
    // They are written a moment later.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let rows = bench.store.audit(10, None).await.unwrap().items;
    let told: Vec<String> =
        rows.iter().rev().map(|row| format!("{} {} {}", row.surface, row.action, row.subject)).collect();
    assert_eq!(told, ["bridge tool.intent resize", "bridge tool.call resize", "bridge tool.call todo_read"]);
}

#[tokio::test(start_paused = true)]
async fn results_are_given_out_again_only_where_session_and_tool_say_so() {
    let (bench, pool) = with_pool(|_| {});
    let config = SessionConfig { caching: true, cache_ttl: Duration::from_secs(10), telemetry: false };
    let caching = OpenSession { id: "s".into(), metadata: Default::default(), config: Some(config), worker: None };
    bench.ask(&program(), caching).await.unwrap();
    bench.ask(&program(), open("plain")).await.unwrap();
    let count = || pool.calls.lock().unwrap().len();
    for (session, name, arguments, expected) in [
        ("s", "pure", json!({"a": 1}), 1),
        ("s", "pure", json!({"a": 1}), 1),
        ("s", "pure", json!({"a": 2}), 2),
        ("s", "resize", json!({"a": 1}), 3),
        ("s", "resize", json!({"a": 1}), 4),
        ("plain", "pure", json!({"a": 1}), 5),
        ("plain", "pure", json!({"a": 1}), 6),
    ] {
        output(&bench, &program(), call(session, name, arguments, ToolFilter::All)).await;
        assert_eq!(count(), expected, "{session} {name}");
    }
    tokio::time::advance(Duration::from_secs(10)).await;
    output(&bench, &program(), call("s", "pure", json!({"a": 1}), ToolFilter::All)).await;
    assert_eq!(count(), 7);
}

#[tokio::test(start_paused = true)]
async fn closing_a_session_takes_everything_along_and_tells_the_workers() {
    let (bench, pool) = with_pool(|_| {});
    bench.ask(&program(), open("s")).await.unwrap();
    let register = || {
        let tools = vec![tool("mine")];
        RegisterTools { session: "s".into(), tools, client_name: "python-1".into(), worker: None }
    };
    let reply = bench.ask(&program(), register()).await.unwrap();
    assert_eq!(reply, [("mine".into(), "s:mine".into())]);
    assert!(refusal(&bench, &program(), register()).await.contains("duplicate_tool"));
    let about = bench.ask(&program(), DescribeSession { id: "s".into() }).await.unwrap();
    assert_eq!((about.tools, about.created_at), (4, bench.clock.now()));
    let called = output(&bench, &program(), call("s", "mine", json!({}), ToolFilter::All)).await;
    assert_eq!(&*called.content, "Remote tool execution failed: Worker not found: python-1");
    let set = call("s", "variable_set", json!({"name": "a", "value": 1}), ToolFilter::ServerTools);
    assert!(!output(&bench, &program(), set).await.is_error);
    let closed = bench.ask(&program(), CloseSession { id: "s".into() }).await.unwrap();
    assert_eq!(closed, 3);
    assert_eq!(*pool.over.lock().unwrap(), ["s"]);
    bench.ask(&program(), open("s")).await.unwrap();
    bench.ask(&program(), register()).await.unwrap();
    let get = call("s", "variable_get", json!({"name": "a"}), ToolFilter::ServerTools);
    assert!(output(&bench, &program(), get).await.is_error);
}

#[tokio::test(start_paused = true)]
async fn a_workers_doings_do_not_keep_a_session() {
    let (bench, pool) = with_pool(|setup| setup.bridge.session_ttl = Duration::from_secs(60));
    bench.ask(&program(), open("s")).await.unwrap();
    let stop = CancellationToken::new();
    let (board, house_stop) = (bench.board.clone(), stop.clone());
    let keep = RetentionPolicy { runs: Duration::from_secs(3600), events: Duration::from_secs(3600) };
    let house = aside(async move { board.run_housekeeping(keep, house_stop).await });
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(11)).await;
        let touched = bench.ask(&worker(), TouchSession { id: "s".into() }).await.unwrap();
        assert!(touched);
    }
    tokio::time::sleep(Duration::from_secs(11)).await;
    let touched = bench.ask(&worker(), TouchSession { id: "s".into() }).await.unwrap();
    assert!(!touched);
    assert_eq!(*pool.over.lock().unwrap(), ["s"]);
    stop.cancel();
    house.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn tools_a_worker_registers_are_the_workers() {
    let (bench, pool) = with_pool(|_| {});
    let id = WorkerId("py_worker_1".into());
    let by_worker = |session: &str| {
        let (session, tools) = (session.into(), vec![tool("mine"), tool("other")]);
        RegisterTools { session, tools, client_name: "python-1".into(), worker: Some(id.clone()) }
    };
    assert_eq!(refusal(&bench, &worker(), by_worker("session_1")).await, "Session not found: session_1");
    let own =
        OpenSession { id: "session_1".into(), metadata: Default::default(), config: None, worker: Some(id.clone()) };
    bench.ask(&worker(), own).await.unwrap();
    bench.ask(&worker(), by_worker("session_1")).await.unwrap();
    bench.ask(&worker(), by_worker("session_1")).await.unwrap();
    assert_eq!(*pool.registered.lock().unwrap(), [(id.clone(), 2), (id.clone(), 2)]);
}

#[tokio::test(start_paused = true)]
async fn an_agents_call_has_a_session_that_says_nothing_and_leads_back_to_its_conversation() {
    let (bench, pool) = with_pool(|_| {});
    let wanted = CallTool {
        name: "resize".into(),
        arguments: json!({}).into(),
        folder: FolderChoice::Configured,
        origin: origin("alice"),
    };
    let on_cli = Caller { surface: Surface::Cli, ..operator() };
    for _ in 0..2 {
        output(&bench, &on_cli, wanted.clone()).await;
    }
    let received: Vec<CallMetadata> = pool.calls.lock().unwrap().iter().map(|(_, metadata)| metadata.clone()).collect();
    assert_eq!(received[0].session, received[1].session);
    assert!(received[0].session.starts_with("agent-") && !received[0].session.contains("alice"));
    assert!(received[0].for_model);
    // The tool calls back while it runs: it works on what its caller works on.
    let set = call(&received[0].session, "variable_set", json!({"name": "a", "value": 1}), ToolFilter::ServerTools);
    assert!(!output(&bench, &worker(), set).await.is_error);
    let arguments = json!({"name": "a"}).into();
    let get =
        CallTool { name: "variable_get".into(), arguments, folder: FolderChoice::Configured, origin: origin("alice") };
    assert_eq!(json_of(&output(&bench, &on_cli, get).await)["value"], 1);
}

#[tokio::test(start_paused = true)]
async fn calls_are_told_of_where_the_session_wants_it() {
    let (bench, _pool) = with_pool(|_| {});
    let mut heard = bench.board.telemetry(&program()).unwrap();
    let config = SessionConfig { telemetry: true, ..SessionConfig::default() };
    let telling = OpenSession { id: "told".into(), metadata: Default::default(), config: Some(config), worker: None };
    bench.ask(&program(), telling).await.unwrap();
    bench.ask(&program(), open("quiet")).await.unwrap();
    for session in ["quiet", "told"] {
        output(&bench, &program(), call(session, "resize", json!({}), ToolFilter::All)).await;
    }
    let names: Vec<String> =
        std::iter::from_fn(|| heard.try_recv().ok()).map(|signal| signal.name.to_string()).collect();
    assert_eq!(names, ["tool.execution.start", "tool.execution.stop"]);
    assert!(bench.board.telemetry(&Caller { grants: GrantSet::NONE, ..program() }).is_err());
}

#[derive(Debug)]
struct WholeNumbers;

impl SchemaValidator for WholeNumbers {
    fn check(&self, _schema: &Arc<Value>, arguments: &Value) -> Result<(), SchemaViolation> {
        match arguments["n"].is_u64() {
            true => Ok(()),
            false if arguments["n"].is_null() => Err(SchemaViolation::new("nothing fits")),
            false => Err(SchemaViolation {
                parameter: Some(("n".into(), "it is not a whole number".to_owned())),
                text: "at `/n`: not a whole number".to_owned(),
            }),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_reads_which_argument_does_not_fit_and_a_model_reads_why() {
    let (bench, pool) = with_pool(|setup| setup.schemas = Arc::new(WholeNumbers));
    bench.ask(&program(), open("s")).await.unwrap();
    for (arguments, words) in [
        (json!({"n": "x"}), "Invalid parameter n: it is not a whole number"),
        (json!({}), "Invalid parameters: nothing fits"),
    ] {
        let refused = output(&bench, &program(), call("s", "resize", arguments, ToolFilter::All)).await;
        assert!(refused.is_error);
        assert_eq!((&*refused.content, refused.data.unwrap().fault), (words, Some(crate::tool::ToolFault::Argument)));
    }
    let wanted = CallTool {
        name: "resize".into(),
        arguments: json!({"n": "x"}).into(),
        folder: FolderChoice::Configured,
        origin: origin("alice"),
    };
    let on_cli = Caller { surface: Surface::Cli, ..operator() };
    let refused = output(&bench, &on_cli, wanted).await;
    assert_eq!(&*refused.content, "arguments of resize do not fit its schema: at `/n`: not a whole number");
    assert!(pool.calls.lock().unwrap().is_empty());
}
