//! What programs cannot do, however they go about it.

use super::*;
use crate::command::{AnswerInput, CloseSession, DescribeSession, FindTool, ListInputs, PageRequest, TouchSession};
use crate::tool::{ToolEffect, ToolFault, ToolKind, UnknownOutcomePolicy};

/// Tools of the server that need no run.
#[derive(Debug)]
struct Hosts;

impl ToolHost for Hosts {
    fn kind(&self) -> ToolKind {
        ToolKind::BuiltIn
    }

    fn tools(&self, _folder: Option<&std::path::Path>) -> Arc<[ToolSpec]> {
        let spec = |(name, effect): (&str, ToolEffect)| ToolSpec {
            name: name.into(),
            description: "".into(),
            input_schema: json!({"type": "object"}).into(),
            effect,
            timeout: None,
            unknown_outcome: UnknownOutcomePolicy::Fail,
            kind: ToolKind::BuiltIn,
            traits: None,
        };
        let specs = [("long", ToolEffect::ReadOnly), ("never", ToolEffect::ReadOnly), ("shell", ToolEffect::Writes)];
        specs.into_iter().map(spec).collect()
    }

    fn call<'a>(
        &'a self,
        _scope: &'a ToolScope,
        call: &'a ToolCall,
        arguments: &'a Value,
        _stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            match &*call.name {
                "never" => std::future::pending().await,
                "long" => ToolOutput::ok("x".repeat(usize::try_from(arguments["bytes"].as_u64().unwrap()).unwrap())),
                _ => ToolOutput::ok("done"),
            }
        })
    }
}

fn with_hosts(change: impl FnOnce(&mut Setup)) -> (Bench, Arc<Pool>) {
    with_pool(|setup| {
        setup.tools.push(Arc::new(Hosts));
        change(setup);
    })
}

fn within(timeout: Duration, name: &str) -> CallInSession {
    let metadata = CallMetadata { session: "s".into(), timeout: Some(timeout), ..CallMetadata::default() };
    let (name, arguments) = (name.into(), json!({}).into());
    CallInSession { name, arguments, filter: ToolFilter::All, metadata }
}

#[tokio::test(start_paused = true)]
async fn a_batch_reaches_what_its_caller_reaches() {
    let (bench, pool) = with_hosts(|setup| {
        setup.bridge.expose = vec![Glob::new("batch")];
        setup.policy.rules = vec![(Glob::new("*"), ApprovalMode::Allow), (Glob::new("pure"), ApprovalMode::Deny)];
    });
    bench.ask(&program(), open("s")).await.unwrap();
    let inside = |name: &str| json!({"tool": name, "parameters": {"n": 1}});
    let calls = json!({"calls": [inside("shell"), inside("pure"), inside("resize"), inside("todo_read")]});
    let metadata = CallMetadata {
        session: "s".into(),
        binary: [("n".to_owned(), Bytes::from_static(b"of the batch"))].into(),
        ..CallMetadata::default()
    };
    let batch =
        CallInSession { name: "batch".into(), arguments: calls.into(), filter: ToolFilter::ServerTools, metadata };
    let told = output(&bench, &program(), batch).await.content;
    for line in [
        "[1] shell: error\nunknown tool: shell",
        "[2] pure: error\nunknown tool: pure",
        "[3] resize: ok\n{\"n\":1}",
        "[4] todo_read: ok",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    let calls = pool.calls.lock().unwrap();
    let metadata = &calls[0].1;
    assert_eq!((calls.len(), metadata.for_model, metadata.binary.len()), (1, true, 0));
}

#[tokio::test(start_paused = true)]
async fn what_policy_denies_programs_is_not_there_for_them() {
    let (bench, _pool) = with_hosts(|setup| setup.policy.rules = vec![(Glob::new("resize"), ApprovalMode::Deny)]);
    let tools = bench.ask(&program(), open("s")).await.unwrap();
    assert!(!tools.iter().any(|tool| &*tool.name == "resize"));
    let words = "Tool resize not found for session s";
    assert_eq!(refusal(&bench, &program(), call("s", "resize", json!({}), ToolFilter::All)).await, words);
    let find = FindTool { session: "s".into(), name: "resize".into(), filter: ToolFilter::All };
    assert_eq!(refusal(&bench, &program(), find).await, words);
}

#[tokio::test(start_paused = true)]
async fn a_tool_of_a_session_shadows_nothing() {
    let (bench, _pool) = with_pool(|_| {});
    bench.ask(&program(), open("s")).await.unwrap();
    let tools = vec![tool("resize"), tool("variable_list"), tool("mine")];
    let register = RegisterTools { session: "s".into(), tools, client_name: "python-1".into(), worker: None };
    bench.ask(&program(), register).await.unwrap();
    let resized = output(&bench, &program(), call("s", "resize", json!({"n": 1}), ToolFilter::All)).await;
    assert_eq!(json_of(&resized), json!({"n": 1}));
    let listed = output(&bench, &program(), call("s", "variable_list", json!({}), ToolFilter::ServerTools)).await;
    assert_eq!(json_of(&listed), json!({"variables": []}));
    let tools = bench.ask(&program(), open("s")).await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["pure", "py.echo", "resize", "mine"]);
    assert_eq!(
        refusal(&bench, &program(), call("s", "mine", json!({}), ToolFilter::ServerTools)).await,
        "Tool mine is not an Elixir tool"
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_knows_a_stand_in_s_name_has_nothing_of_it() {
    let (bench, pool) = with_pool(|_| {});
    let wanted = CallTool {
        name: "resize".into(),
        arguments: json!({}).into(),
        folder: crate::command::FolderChoice::Configured,
        origin: origin("alice"),
    };
    let on_cli = Caller { surface: Surface::Cli, ..operator() };
    output(&bench, &on_cli, wanted).await;
    let id = pool.calls.lock().unwrap()[0].1.session.clone();
    let not_found = format!("Session not found: {id}");
    // A worker's name alone makes no worker either.
    let pretender = Caller { surface: Surface::Gateway, ..worker() };
    for outsider in [program(), on_cli, pretender] {
        let list = call(&id, "variable_list", json!({}), ToolFilter::ServerTools);
        assert_eq!(refusal(&bench, &outsider, list).await, not_found);
        let describe = DescribeSession { id: id.clone() };
        assert_eq!(refusal(&bench, &outsider, describe).await, not_found);
        assert!(bench.ask(&outsider, open(&id)).await.is_err());
        let closed = bench.ask(&outsider, CloseSession { id: id.clone() }).await.unwrap();
        assert_eq!(closed, 0);
        let touched = bench.ask(&outsider, TouchSession { id: id.clone() }).await.unwrap();
        assert!(!touched);
    }
    let touched = bench.ask(&worker(), TouchSession { id }).await.unwrap();
    assert!(touched);
}

#[tokio::test(start_paused = true)]
async fn time_is_what_the_caller_asks_for_and_for_the_server_s_own_tools_no_more_than_usual() {
    let (bench, pool) = with_hosts(|setup| setup.limits.tool.timeout = Duration::from_secs(20));
    pool.tools.lock().unwrap().push("slow");
    bench.ask(&program(), open("s")).await.unwrap();
    for (name, asked, least, most) in
        [("never", 5, 5, 6), ("never", 600, 20, 21), ("slow", 5, 5, 6), ("slow", 600, 600, 601)]
    {
        let began = tokio::time::Instant::now();
        let called = output(&bench, &program(), within(Duration::from_secs(asked), name)).await;
        assert_eq!(called.data.unwrap().fault, Some(ToolFault::TimedOut), "{name} {asked}");
        let took = began.elapsed().as_secs();
        assert!((least..most).contains(&took), "{name} {asked}: {took}");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_for_longer_than_the_caller_waits() {
    let (bench, pool) = with_pool(|setup| setup.policy.rules = vec![(Glob::new("resize"), ApprovalMode::Ask)]);
    bench.ask(&program(), open("s")).await.unwrap();
    let began = tokio::time::Instant::now();
    let called = output(&bench, &program(), within(Duration::from_secs(3), "resize")).await;
    assert_eq!((began.elapsed(), called.data.unwrap().fault), (Duration::from_secs(3), Some(ToolFault::TimedOut)));
    assert!(pool.calls.lock().unwrap().is_empty());
    // Programs cannot answer; the operator can.
    let asking = aside(bench.ask(&program(), within(Duration::from_secs(3), "resize")));
    let_others_run().await;
    let list = ListInputs(PageRequest::new(None, None));
    let open = bench.ask(&operator(), list).await.unwrap();
    let approval = crate::command::InputRef::Id(open.items[0].request.input);
    let answer = AnswerInput { input: approval, answer: InputAnswer::Approved };
    assert!(bench.ask(&Caller { connection: ConnectionId(77), ..worker() }, answer.clone()).await.is_err());
    bench.ask(&operator(), answer).await.unwrap();
    let called = asking.await.unwrap().unwrap();
    assert!(!called.is_error);
}

#[tokio::test(start_paused = true)]
async fn programs_get_long_answers_whole_within_reason() {
    let (bench, _pool) = with_hosts(|_| {});
    bench.ask(&program(), open("s")).await.unwrap();
    let long = |bytes: usize| call("s", "long", json!({"bytes": bytes}), ToolFilter::ServerTools);
    assert_eq!(output(&bench, &program(), long(1 << 20)).await.content.len(), 1 << 20);
    let cut = output(&bench, &program(), long(20 << 20)).await.content;
    assert!(cut.ends_with("bytes shown]") && cut.len() < 17 << 20, "{}", cut.len());
    // Models get what they are used to.
    let arguments = json!({"bytes": 1 << 20}).into();
    let wanted = CallTool {
        name: "long".into(),
        arguments,
        folder: crate::command::FolderChoice::Configured,
        origin: origin("alice"),
    };
    assert!(output(&bench, &operator(), wanted).await.content.len() < 70_000);
}

#[tokio::test(start_paused = true)]
async fn results_are_those_of_the_very_same_call() {
    let (bench, pool) = with_pool(|_| {});
    let config = SessionConfig { caching: true, cache_ttl: Duration::from_secs(10), telemetry: false };
    let caching = OpenSession { id: "s".into(), metadata: Default::default(), config: Some(config), worker: None };
    bench.ask(&program(), caching).await.unwrap();
    let with = |arguments: &str, metadata: &[(&str, &str)]| {
        let metadata = metadata.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        let metadata = CallMetadata { session: "s".into(), metadata, ..CallMetadata::default() };
        let arguments = serde_json::from_str::<Value>(arguments).unwrap().into();
        CallInSession { name: "pure".into(), arguments, filter: ToolFilter::All, metadata }
    };
    for (arguments, metadata, expected) in [
        (r#"{"a":1,"b":2}"#, &[][..], 1),
        (r#"{"b":2,"a":1}"#, &[][..], 1),
        (r#"{"b":2,"a":1}"#, &[("correlation_id", "x"), ("timeout_ms", "5")][..], 1),
        (r#"{"b":2,"a":1}"#, &[("user", "ann")][..], 2),
        (r#"{"b":2,"a":1.0}"#, &[][..], 3),
    ] {
        output(&bench, &program(), with(arguments, metadata)).await;
        assert_eq!(pool.calls.lock().unwrap().len(), expected, "{arguments} {metadata:?}");
    }
}
