//! Plugins' tools on the one path of every call, and what they call in turn.

use std::sync::Mutex;

use serde_json::Value;

use super::plugin_host::{Answer, PluginHost};
use super::*;
use crate::approval::policy::ApprovalMode;
use crate::command::{ApprovePlugin, CallTool, DescribeNode, FolderChoice, ListPlugins, LoadPlugin, UnloadPlugin};
use crate::plugin::{PLUGIN_METADATA_KEY, PluginState};
use crate::port::{HostFunctions, PluginCall};
use crate::scripted::ScriptedTools;
use crate::tool::{StructuredOutput, ToolEffect, ToolKind, ToolOutput, ToolSpec, ToolTraits, UnknownOutcomePolicy};

fn spec(name: &str, effect: ToolEffect) -> ToolSpec {
    let traits =
        ToolTraits { metadata: [(PLUGIN_METADATA_KEY.to_owned(), "tg".to_owned())].into(), ..ToolTraits::default() };
    ToolSpec {
        name: name.into(),
        description: "a tool of a plugin".into(),
        input_schema: json!({"type": "object"}).into(),
        effect,
        unknown_outcome: UnknownOutcomePolicy::Fail,
        timeout: None,
        kind: ToolKind::Plugin,
        traits: Some(Arc::new(traits)),
    }
}

/// Calls the tool its arguments name, with the arguments they hold, and says what came of it.
fn forward(call: PluginCall) -> BoxFuture<'static, ToolOutput> {
    Box::pin(async move {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
        let name = arguments["tool"].as_str().unwrap();
        let output = call.functions.call(name, arguments["with"].clone(), CancellationToken::new()).await;
        match output.is_error {
            true => ToolOutput::error(format!("{name} failed: {}", output.content)),
            false => ToolOutput::ok(format!("{name} said: {}", output.content)),
        }
    })
}

fn with_plugin(answer: Answer, change: impl FnOnce(&mut Setup)) -> Bench {
    let specs = [("forward", ToolEffect::ReadOnly), ("change", ToolEffect::Writes), ("repeat", ToolEffect::ReadOnly)];
    let specs = specs.into_iter().map(|(name, effect)| spec(name, effect)).collect();
    let own = |name, effect| ToolSpec { kind: ToolKind::BuiltIn, traits: None, ..spec(name, effect) };
    let own = ScriptedTools {
        specs: [own("repeat", ToolEffect::ReadOnly), own("put", ToolEffect::Writes)].into(),
        answer: |_, arguments| ToolOutput::ok(arguments.to_string()),
    };
    bench_with([], |setup| {
        setup.tools.push(Arc::new(own));
        setup.plugins = Some(Arc::new(PluginHost { specs, answer, ..PluginHost::default() }));
        change(setup);
    })
}

async fn call_tool(bench: &Bench, name: &str, arguments: Value) -> ToolOutput {
    let call = CallTool {
        name: name.into(),
        arguments: Arc::new(arguments),
        folder: FolderChoice::Configured,
        origin: origin("alice"),
    };
    bench.ask(&caller(1), call).await.unwrap()
}

/// What the audit trail says, oldest first.
async fn trail(bench: &Bench) -> Vec<String> {
    let rows = bench.audit().await;
    rows.iter().rev().map(|row| format!("{} {} {} {}", row.principal, row.action, row.subject, row.detail)).collect()
}

#[tokio::test(start_paused = true)]
async fn an_agent_calls_a_plugin_like_any_tool() {
    let bench = with_plugin(|call| Box::pin(std::future::ready(ToolOutput::ok(call.arguments))), |_| {});
    bench.model.push(call(&[("forward", json!({"a": 1}))], 1, 1));
    bench.model.push(say(&["done"], 1, 1));
    let events = bench.chat("alice", "go").await;
    assert_eq!(events[1..4], ["call forward {\"a\":1}", "usage 1+1", "result {\"a\":1}"]);
    assert_eq!(trail(&bench).await, ["local tool.call forward ok"]);
}

#[tokio::test(start_paused = true)]
async fn json_is_handed_to_programs_as_the_value_it_is() {
    let bench = with_plugin(|call| Box::pin(std::future::ready(ToolOutput::ok(call.arguments))), |_| {});
    let output = call_tool(&bench, "forward", json!({"a": 1})).await;
    let json = StructuredOutput { json: Some(bytes::Bytes::from_static(b"{\"a\":1}")), ..StructuredOutput::default() };
    assert_eq!(output, ToolOutput::ok("{\"a\":1}").with_structured(json));
    let words = with_plugin(|_| Box::pin(std::future::ready(ToolOutput::ok("just words"))), |_| {});
    assert_eq!(call_tool(&words, "forward", json!({})).await, ToolOutput::ok("just words"));
    let wrong = with_plugin(|_| Box::pin(std::future::ready(ToolOutput::error("{}"))), |_| {});
    assert_eq!(call_tool(&wrong, "forward", json!({})).await, ToolOutput::error("{}"));
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_gets_the_plugin_before_it() {
    let bench = with_plugin(|call| Box::pin(std::future::ready(ToolOutput::ok(call.tool))), |_| {});
    assert_eq!(call_tool(&bench, "repeat", json!({"a": 1})).await.content.as_ref(), "{\"a\":1}", "the server's own");
    assert_eq!(call_tool(&bench, "tg.repeat", json!({})).await.content.as_ref(), "tg.repeat");
}

#[tokio::test(start_paused = true)]
async fn what_a_plugin_calls_is_called_for_whoever_called_it() {
    let bench = with_plugin(forward, |_| {});
    let output = call_tool(&bench, "forward", json!({"tool": "repeat", "with": {"x": 2}})).await;
    assert_eq!(output, ToolOutput::ok("repeat said: {\"x\":2}"));
    assert_eq!(trail(&bench).await, ["local tool.call repeat ok", "local tool.call forward ok"]);
    let unknown = call_tool(&bench, "forward", json!({"tool": "nothing", "with": {}})).await;
    assert_eq!(unknown, ToolOutput::error("nothing failed: unknown tool: nothing"));
}

#[tokio::test(start_paused = true)]
async fn policy_and_approvals_are_those_of_every_call() {
    let denied = with_plugin(forward, |setup| setup.policy.rules.push((Glob::new("put"), ApprovalMode::Deny)));
    let output = call_tool(&denied, "forward", json!({"tool": "put", "with": {}})).await;
    assert_eq!(output, ToolOutput::error("put failed: put is not allowed here by the approval policy"));
    let expected = ["local tool.intent put ", "local tool.call put error", "local tool.call forward error"];
    assert_eq!(trail(&denied).await, expected, "what has effects is on record before it happens");

    // Over the gateway what writes is asked for; nobody answers.
    let asked = with_plugin(forward, |setup| setup.limits.inputs.approval = Duration::from_secs(20));
    let output = call_tool(&asked, "forward", json!({"tool": "put", "with": {}})).await;
    assert_eq!(output, ToolOutput::error("put failed: nobody approved put in time"));
    let output = call_tool(&asked, "change", json!({})).await;
    assert_eq!(output, ToolOutput::error("nobody approved change in time"), "a plugin that may change something too");
}

#[tokio::test(start_paused = true)]
async fn what_a_plugin_did_not_live_to_see_has_its_end_on_record() {
    // Its time is over while a person is asked.
    let bench = with_plugin(
        |call| {
            Box::pin(async move {
                let called = forward(call);
                match tokio::time::timeout(Duration::from_secs(30), called).await {
                    Ok(output) => output,
                    Err(_) => ToolOutput::error("plugin tg ran longer than 30 s"),
                }
            })
        },
        |_| {},
    );
    bench.model.push(call(&[("forward", json!({"tool": "put", "with": {}}))], 1, 1));
    bench.model.push(say(&["done"], 1, 1));
    let (run, mut followed) = bench.begin("alice", "go").await;
    until(&mut followed, "end Completed").await;
    let_others_run().await;
    let stored = bench.stored(run).await;
    let of = |wanted: &str| stored.iter().position(|event| event.starts_with(wanted)).expect(wanted);
    assert!(of("may put") < of("approved false by cancel"), "{stored:?}");
    assert!(of("may put") < of("error plugin tg ran longer than 30 s"), "{stored:?}");
    let mut trail = trail(&bench).await;
    trail.sort_unstable();
    let expected = [
        "cancel approval put withdrawn",
        "local tool.call forward error",
        "local tool.call put error",
        "local tool.intent put ",
    ];
    assert_eq!(trail, expected);
}

#[tokio::test(start_paused = true)]
async fn plugins_call_each_other_only_so_deep() {
    let bench = with_plugin(forward, |_| {});
    let mut arguments = json!({"tool": "repeat", "with": {}});
    for _ in 0..2 {
        arguments = json!({"tool": "forward", "with": arguments});
    }
    let deep = call_tool(&bench, "forward", arguments.clone()).await;
    assert_eq!(deep, ToolOutput::ok("forward said: forward said: repeat said: {}"));
    let too_deep = call_tool(&bench, "forward", json!({"tool": "forward", "with": arguments})).await;
    let reason = "repeat failed: plugins call each other at most 3 deep";
    assert_eq!(too_deep, ToolOutput::error(format!("forward failed: forward failed: forward failed: {reason}")));
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_outlives_its_server_calls_nothing() {
    static KEPT: Mutex<Option<Arc<dyn HostFunctions>>> = Mutex::new(None);
    let keep: Answer = |call| {
        *KEPT.lock().unwrap() = Some(call.functions);
        Box::pin(std::future::ready(ToolOutput::ok("later")))
    };
    let bench = with_plugin(keep, |_| {});
    call_tool(&bench, "forward", json!({})).await;
    let kept = KEPT.lock().unwrap().take().expect("what it may call");
    let call = || kept.call("repeat", json!({"a": 1}), CancellationToken::new());
    assert_eq!(call().await, ToolOutput::ok("{\"a\":1}"));
    drop(bench);
    let_others_run().await;
    assert_eq!(call().await, ToolOutput::error("the server is shutting down"));
}

#[tokio::test(start_paused = true)]
async fn only_the_operator_changes_plugins_and_the_trail_says_so() {
    let bench = with_plugin(forward, |_| {});
    let commands = [
        AnyCommand::new(LoadPlugin { named: "tg".into() }),
        AnyCommand::new(ApprovePlugin { name: "tg".into() }),
        AnyCommand::new(UnloadPlugin { name: "tg".into() }),
    ];
    for command in &commands {
        assert_eq!(command.ask(&bench, &caller(1)).await.unwrap_err().kind, ErrorKind::Forbidden);
    }
    for command in &commands {
        command.ask(&bench, &operator()).await.unwrap();
    }
    let expected = ["operator plugin.load tg abc", "operator plugin.approve tg abc", "operator plugin.unload tg "];
    assert_eq!(trail(&bench).await, expected);
    let unknown = bench.ask(&operator(), LoadPlugin { named: "x".into() }).await.unwrap_err();
    assert_eq!((unknown.kind, unknown.message.as_str()), (ErrorKind::NotFound, "no plugin named `x`"));
    let plugins = bench.ask(&caller(1), ListPlugins).await.unwrap();
    assert_eq!(plugins.iter().map(|plugin| plugin.state).collect::<Vec<_>>(), [PluginState::Ready]);
    let node = bench.ask(&caller(1), DescribeNode).await.unwrap();
    assert_eq!(node.plugins, 1);
}
