//! Tool calls: the one path each of them takes, and that nothing on it ends a run.

use crate::command::ApproveTools;
use std::collections::HashSet;

use serde_json::Value;

use super::*;
use crate::approval::policy::ApprovalMode;
use crate::model::{ContentPart, StopReason};

/// The model calls these tools, then says `done`.
fn calls(tools: &[(&str, Value)]) -> [Script; 2] {
    [call(tools, 10, 5), say(&["done"], 20, 1)]
}

fn call_with(name: &str, input: ToolInput) -> [Script; 2] {
    let calls = vec![
        answering(),
        ScriptStep::Emit(ModelEvent::Text("Let me see.".into())),
        ScriptStep::Emit(ModelEvent::ToolCall { index: 0, id: "theirs".into(), name: name.into(), input }),
        ScriptStep::Emit(ModelEvent::Stop(StopReason::ToolCalls)),
    ];
    [calls, say(&["done"], 20, 1)]
}

#[tokio::test(start_paused = true)]
async fn a_tool_is_called_and_its_result_goes_back() {
    let bench = bench(calls(&[("echo", json!({"a": 1}))]));
    let events = bench.chat("alice", "look").await;
    let expected = [
        "started default:web:alice:main by default",
        "call echo {\"a\":1}",
        "usage 10+5",
        "result {\"a\":1}",
        "text done",
        "usage 20+1",
        "end Completed",
    ];
    assert_eq!(events, expected);
    assert_eq!(bench.last_prompt(), ["look", "<call echo>", "<result {\"a\":1}>"]);
    assert_eq!(bench.spent("alice").await, [(36, 0); 3], "one usage for each model call");
    let audit = bench.audit().await;
    assert_eq!((&*audit[0].action, &*audit[0].subject, &*audit[0].detail), ("tool.call", "echo", "ok"));
    bench.chat("alice", "and?").await;
    let remembered = ["look", "<call echo>", "<result {\"a\":1}>", "done", "and?"];
    assert_eq!(bench.last_prompt(), remembered, "results are remembered");
}

#[tokio::test(start_paused = true)]
async fn the_intent_is_on_record_before_the_tool_runs() {
    for tool in ["echo", "write"] {
        let bench = bench_with(calls(&[(tool, json!({}))]), allow_all);
        bench.chat("alice", "go").await;
        let expected = ["started default:web:alice:main by default", &format!("call {tool} {{}}"), "usage 10+5"];
        assert_eq!(bench.workshop.record_at_first_call(), expected);
    }
}

fn allow_all(setup: &mut Setup) {
    setup.policy.rules.push((Glob::new("*"), ApprovalMode::Allow));
}

#[derive(Debug)]
struct Picky;

impl SchemaValidator for Picky {
    fn check(&self, _schema: &Arc<Value>, arguments: &Value) -> Result<(), SchemaViolation> {
        if arguments.is_object() { Ok(()) } else { Err(SchemaViolation::new("not an object")) }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_be_made_is_an_answer_to_the_model() {
    let json = |value: Value| ToolInput::Json(value.into());
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let deny = (Glob::new("write"), ApprovalMode::Deny);
    for (name, input, result) in [
        ("nosuch", json(json!({})), "unknown tool: nosuch".to_owned()),
        ("echo", ToolInput::Malformed("{\"a\":".into()), "arguments of echo are not valid JSON".to_owned()),
        ("echo", json(json!([1])), "arguments of echo do not fit its schema: not an object".to_owned()),
        ("echo", json(deep), "arguments of echo are not valid JSON".to_owned()),
        ("write", json(json!({})), "write is not allowed here by the approval policy".to_owned()),
        ("fails", json(json!({})), "no such file".to_owned()),
        ("panics", json(json!({})), "panics: internal error".to_owned()),
        ("panics_later", json(json!({})), "panics_later: internal error".to_owned()),
        ("hangs", json(json!({})), "hangs was stopped after 120 s".to_owned()),
        ("huge", json(json!({})), format!("{}\n[cut: 65536 of 200000 bytes shown]", "é".repeat(32768))),
    ] {
        let bench = bench_with(call_with(name, input), |setup| {
            setup.schemas = Arc::new(Picky);
            setup.policy.rules.push(deny.clone());
        });
        let events = bench.chat("alice", "go").await;
        let word = if name == "huge" { "result" } else { "error" };
        assert!(events[2].starts_with(&format!("call {name} ")), "{events:?}");
        assert_eq!(events[4], format!("{word} {result}"));
        assert_eq!(events[5..], ["text done", "usage 20+1", "end Completed"]);
        assert_eq!(bench.last_prompt()[1..], [format!("Let me see.<call {name}>"), format!("<{word} {result}>")]);
        assert_eq!(bench.said("alice").await.last().unwrap(), "done", "the stored turn can be read back");
    }
}

#[tokio::test(start_paused = true)]
async fn arguments_of_any_depth_can_be_stored_and_read_back() {
    for depth in [10, 60, 126, 1000] {
        let nested = (1..depth).fold(json!({"end": 1}), |inner, _| json!({"in": inner}));
        let bench = bench_with(call_with("echo", ToolInput::Json(nested.into())), allow_all);
        bench.chat("alice", "go").await;
        for turn in bench.history("alice").await {
            let bytes = crate::record::encode_messages(&turn.messages);
            assert_eq!(
                crate::record::decode_messages(crate::record::RECORD_VERSION, &bytes).unwrap(),
                turn.messages,
                "depth {depth}"
            );
        }
        let run = bench.store.latest_run_of_session(&session("alice")).await.unwrap().unwrap().run;
        for record in bench.store.events(&Topic::Run(run), Seq::FIRST, 100).await.unwrap() {
            let bytes = crate::record::encode_entry(record.node, &record.event);
            let read = crate::record::decode_entry(crate::record::RECORD_VERSION, &bytes).unwrap();
            assert_eq!(read, (record.node, record.event.clone()), "depth {depth}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_was_stopped_for_its_time_is_told_so() {
    let (gate, closed) = closed_gate();
    let bench = bench([call(&[("hangs", json!({}))], 1, 1), say_and_wait(&["hm"], closed)]);
    let (_, mut followed) = bench.begin("alice", "go").await;
    until(&mut followed, "text hm").await;
    assert!(bench.workshop.hang_stop.lock().unwrap().as_ref().unwrap().is_cancelled(), "while the run goes on");
    gate.add_permits(1);
    rest(followed).await;
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_answer_run_side_by_side() {
    let bench = bench(calls(&[("waits", json!({})), ("echo", json!({})), ("panics", json!({})), ("waits", json!({}))]));
    let (_, mut followed) = bench.begin("alice", "go").await;
    until(&mut followed, "result {}").await;
    assert_eq!(bench.model.requests().len(), 1, "the model hears of the results together");
    bench.workshop.gate.add_permits(2);
    let rest = rest(followed).await;
    assert_eq!(rest.iter().filter(|event| *event == "result waited").count(), 2);
    assert_eq!(rest.last().unwrap(), "end Completed");
    let results = "<result waited><result {}><error panics: internal error><result waited>";
    assert_eq!(bench.last_prompt()[2], results, "in the order of the calls");
}

#[tokio::test(start_paused = true)]
async fn call_ids_are_made_here_and_pair_calls_with_results() {
    let twice = [("echo", json!({"n": 1})), ("echo", json!({"n": 2}))];
    let bench = bench([call(&twice, 1, 1), call(&twice, 1, 1), say(&["done"], 1, 1)]);
    let (run, followed) = bench.begin("alice", "go").await;
    rest(followed).await;
    let records = bench.store.events(&Topic::Run(run), Seq::FIRST, 100).await.unwrap();
    let mut open = HashSet::new();
    let mut all = HashSet::new();
    for record in &records {
        if let Event::ToolRequested(call) = &record.event {
            assert!(call.id.0.starts_with("call_") && all.insert(call.id.clone()), "{} is new", call.id);
            open.insert(call.id.clone());
        }
        if let Event::ToolFinished { call, .. } = &record.event {
            assert!(open.remove(call), "{call} was asked for");
        }
    }
    assert_eq!((all.len(), open.len()), (4, 0));
    let told = bench.model.requests();
    let pairs: Vec<_> = told[1].messages.iter().flat_map(|message| &message.parts).collect();
    let [
        _,
        ContentPart::ToolCall(first),
        ContentPart::ToolCall(second),
        ContentPart::ToolResult(one),
        ContentPart::ToolResult(two),
    ] = pairs[..]
    else {
        panic!("two calls and two results: {pairs:?}")
    };
    assert_eq!((&first.id, &second.id), (&one.call, &two.call));
}

#[tokio::test(start_paused = true)]
async fn a_model_that_never_stops_calling_fails_the_run() {
    let forever = (0..10).map(|_| call(&[("echo", json!({}))], 1, 1));
    let bench = bench_with(forever, |setup| setup.agent.reasoning.max_model_calls = Some(3));
    let events = bench.chat("alice", "go").await;
    assert_eq!(events[events.len() - 2..], ["failed tool-use loop exceeded max iterations", "end Failed"]);
    assert_eq!(bench.model.requests().len(), 3);
    assert_eq!(bench.spent("alice").await[0], (6, 0));
    assert_eq!(bench.said("alice").await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn agents_are_offered_their_own_tools_and_webhooks_only_named_ones() {
    let globs = |names: &[&str]| Some(names.iter().map(|&name| Glob::new(name)).collect::<Vec<_>>());
    for (tools, surface, offered) in [
        (None, Surface::Gateway, bench([]).offered()),
        (globs(&["echo", "panics*"]), Surface::Gateway, 3),
        (globs(&[]), Surface::Gateway, 0),
        (None, Surface::Webhook, 0),
        (globs(&["*"]), Surface::Webhook, 0),
        (globs(&["echo", "panics*"]), Surface::Webhook, 1),
    ] {
        let bench = bench_with(calls(&[("waits", json!({}))]), |setup| setup.agent.tools = tools.clone());
        bench.workshop.gate.add_permits(1);
        let caller = Caller { surface, ..caller(1) };
        let run = bench.ask(&caller, start("alice", "go")).await.unwrap();
        let events = rest(bench.follow(run).await).await;
        assert_eq!(bench.model.requests()[0].tools.len(), offered, "{tools:?} {surface:?}");
        let expected = if offered > 8 { "result waited" } else { "error unknown tool: waits" };
        assert!(events.iter().any(|event| event == expected), "what is not offered cannot be called: {events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_runaway_answer_is_cut() {
    let endless = std::iter::once(answering())
        .chain((0..9 * 1024).map(|_| ScriptStep::Emit(ModelEvent::Text("x".repeat(1024)))))
        .chain([ScriptStep::Wait(Arc::new(Semaphore::new(0)))]);
    let bench = bench([endless.collect()]);
    let events = bench.chat("alice", "go").await;
    assert_eq!(
        events[events.len() - 2..],
        ["failed provider error: the answer is longer than 8388608 bytes", "end Failed"]
    );
    let (used, reserved) = bench.spent("alice").await[0];
    assert!(used > 2_000_000 && reserved == 0, "what was said is counted: {used}");
}

#[tokio::test(start_paused = true)]
async fn changed_tools_are_approved_by_the_operator_and_it_is_on_record() {
    let bench = bench([]);
    let approve = |server: &str| ApproveTools { server: server.to_owned() };
    let refused = bench.ask(&caller(1), approve("workshop")).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Forbidden);
    assert_eq!(bench.ask(&operator(), approve("workshop")).await.unwrap(), ["write".into(), "once".into()]);
    let audit = bench.audit().await;
    assert_eq!((&*audit[0].action, &*audit[0].subject, &*audit[0].detail), ("tools.approve", "workshop", "write once"));
    let silent = bench.ask(&operator(), approve("silent")).await.unwrap_err();
    assert_eq!((silent.kind, silent.message.as_str()), (ErrorKind::Unavailable, "the server `silent` does not answer"));
    assert_eq!(bench.ask(&operator(), approve("nobody")).await.unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(bench.audit().await.len(), 1, "what failed changed nothing");
}
