use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use patchboard_core::port::HostFunctions;
use patchboard_core::tool::{ToolEffect, ToolFault, ToolOutput};
use patchboard_core::webhook::{ChannelError, Webhook};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::LoadedPlugin;
use crate::compile::PluginFileError;
use crate::machine::PluginMachine;
use crate::rights::{HostServices, PluginLimits};
use crate::testing::{NoFunctions, NotifyingClock, guest, options, services, services_with};
use crate::text::format_duration;

/// Longer than any test takes, on any machine.
const LONG_TIMEOUT: Duration = Duration::from_secs(600);
/// Tried one after the other: on a busy machine a short time is not enough for any call.
const SHORT_LIMITS: [Duration; 3] = [Duration::from_millis(100), Duration::from_secs(2), Duration::from_secs(20)];

async fn load(limits: PluginLimits, grants: &[&str], services: &HostServices) -> Arc<LoadedPlugin> {
    let machine = PluginMachine::start(limits, None).expect("a machine");
    load_on(&machine, grants, services).await
}

async fn load_on(machine: &PluginMachine, grants: &[&str], services: &HostServices) -> Arc<LoadedPlugin> {
    try_load(machine, grants, services).await.expect("a plugin")
}

async fn try_load(
    machine: &PluginMachine,
    grants: &[&str],
    services: &HostServices,
) -> Result<Arc<LoadedPlugin>, PluginFileError> {
    let plugin = LoadedPlugin::load(machine, &options("bad", grants), guest(), services).await;
    // The instance that described it is cleared away behind its answer, and counts until then.
    while !machine.slots().are_free() {
        tokio::task::yield_now().await;
    }
    plugin.map(Arc::new)
}

/// With the first of `times` in which it can be loaded here: saying what it offers has to be done in that time too.
async fn load_within(times: &[Duration], limits: PluginLimits) -> (Arc<LoadedPlugin>, Duration) {
    for time in times.iter().copied() {
        let machine = PluginMachine::start(PluginLimits { time, ..limits }, None).expect("a machine");
        if let Ok(plugin) = try_load(&machine, &[], &services()).await {
            return (plugin, time);
        }
    }
    panic!("it cannot be loaded within {times:?}");
}

fn too_long(time: Duration) -> String {
    format!("plugin bad ran longer than {}", format_duration(time))
}

async fn call(plugin: &Arc<LoadedPlugin>, tool: &str) -> ToolOutput {
    plugin.call(tool, "hello".into(), Arc::new(NoFunctions), CancellationToken::new()).await
}

fn fault(output: &ToolOutput) -> Option<ToolFault> {
    output.data.as_ref().and_then(|data| data.fault)
}

/// Every way to break has its sentence, and none of them hurts the next call.
#[tokio::test]
async fn breaks_with_a_sentence() {
    let few = PluginLimits { fuel: 1_000_000, ..PluginLimits::default() };
    let cases = [
        ("loop", "plugin bad ran out of fuel (1000000)"),
        ("grow", "plugin bad used more than 64 MiB of memory"),
        ("recurse", "plugin bad recursed too deep"),
        ("panic", "plugin bad panicked"),
        ("divide", "plugin bad broke: integer divide by zero"),
        ("big", "plugin bad returned more than 1 MiB"),
        ("Big", "plugin bad returned more than 1 MiB"),
        ("hand over", "plugin bad handed more than 8 MiB to the host at once"),
        ("text", "plugin bad broke: invalid utf-8 sequence of 1 bytes from index 0"),
    ];
    let plugin = load(few, &[], &services()).await;
    for (tool, sentence) in cases {
        check_broken(&plugin, tool, sentence, ToolFault::Internal).await;
        assert_eq!(call(&plugin, "echo").await, ToolOutput::ok("hello"), "after {tool}");
    }
    assert_eq!(plugin.counts(), (18, 9));
    assert_eq!(call(&plugin, "fail").await, ToolOutput::error("no luck"));
    assert_eq!(plugin.counts(), (19, 9), "what a tool itself calls an error is none of the host's");

    let mut times = SHORT_LIMITS.as_slice();
    while !late_calls_are_ended(times).await {
        times = times.get(1..).expect("the longest one is enough for calls that behave");
    }
}

async fn check_broken(plugin: &Arc<LoadedPlugin>, tool: &str, sentence: &str, expected: ToolFault) {
    let output = call(plugin, tool).await;
    assert_eq!((&*output.content, output.is_error, fault(&output)), (sentence, true, Some(expected)), "{tool}");
}

/// `false` if the time was not enough for calls that behave either.
async fn late_calls_are_ended(times: &[Duration]) -> bool {
    let limits = PluginLimits { fuel: u64::MAX / 2, ..PluginLimits::default() };
    let (plugin, time) = load_within(times, limits).await;
    for tool in ["loop", "ask"] {
        check_broken(&plugin, tool, &too_long(time), ToolFault::TimedOut).await;
        let next = call(&plugin, "echo").await;
        if fault(&next) == Some(ToolFault::TimedOut) {
            return false;
        }
        assert_eq!(next, ToolOutput::ok("hello"), "after {tool}");
    }
    assert_eq!(plugin.counts(), (4, 2));
    true
}

#[tokio::test]
async fn breaks_with_the_same_sentences_without_a_pool() {
    let limits = PluginLimits { memory: 1024 * 1024, ..PluginLimits::default() };
    let machine = PluginMachine::start_on_demand(limits).expect("a machine");
    let plugin = load_on(&machine, &[], &services()).await;
    assert_eq!(call(&plugin, "echo").await, ToolOutput::ok("hello"));
    assert_eq!(&*call(&plugin, "grow").await.content, "plugin bad used more than 1 MiB of memory");
    assert_eq!(&*call(&plugin, "recurse").await.content, "plugin bad recursed too deep");
}

#[tokio::test]
async fn every_call_gets_a_fresh_instance() {
    let plugin = load(PluginLimits::default(), &[], &services()).await;
    for _ in 0..20 {
        assert_eq!(call(&plugin, "count").await, ToolOutput::ok("11"));
    }
}

#[tokio::test]
async fn ends_when_it_is_stopped() {
    let clock = Arc::new(NotifyingClock::default());
    // So that nothing else can end it.
    let limits = PluginLimits { time: LONG_TIMEOUT, fuel: u64::MAX / 2, ..PluginLimits::default() };
    let plugin = load(limits, &[], &services_with(clock.clone())).await;
    let stop = CancellationToken::new();
    let calling = plugin.call("ask", "".into(), Arc::new(NoFunctions), stop.clone());
    let stopping = async {
        clock.reads.notified().await;
        stop.cancel();
    };
    let (output, ()) = tokio::join!(calling, stopping);
    assert_eq!((&*output.content, fault(&output)), ("cancelled", Some(ToolFault::Cancelled)));
    assert_eq!(plugin.counts(), (1, 0));
}

/// With one call at a time, the next call runs only when the first one's instance is dropped, and the first one's
/// timeout is longer than this test may take.
#[tokio::test]
async fn ends_when_nobody_waits_for_it() {
    let clock = Arc::new(NotifyingClock::default());
    let limits = PluginLimits { calls: 1, time: LONG_TIMEOUT, fuel: u64::MAX / 2, ..PluginLimits::default() };
    let plugin = load(limits, &[], &services_with(clock.clone())).await;
    {
        let mut calling = Box::pin(plugin.call("ask", "".into(), Arc::new(NoFunctions), CancellationToken::new()));
        tokio::select! {
            output = &mut calling => panic!("it ended: {output:?}"),
            () = clock.reads.notified() => {}
        }
    }
    assert_eq!(call(&plugin, "echo").await, ToolOutput::ok("hello"));
}

/// The caller's threads stay free, and so do permits: ten endless loops on a few threads do not keep an eleventh call
/// waiting.
#[tokio::test]
async fn ten_loops_do_not_keep_others_waiting() {
    let limits = PluginLimits { calls: 16, time: LONG_TIMEOUT, fuel: u64::MAX / 2, ..PluginLimits::default() };
    let clock = Arc::new(NotifyingClock::default());
    let plugin = load(limits, &[], &services_with(clock.clone())).await;
    let stop = CancellationToken::new();
    let loops = join_all((0..10).map(|number| {
        let tool = if number == 9 { "ask" } else { "loop" };
        plugin.call(tool, "".into(), Arc::new(NoFunctions), stop.clone())
    }));
    let meanwhile = async {
        clock.reads.notified().await;
        for _ in 0..10 {
            assert_eq!(call(&plugin, "echo").await, ToolOutput::ok("hello"));
        }
        // Nothing else ends the loops: all of them ran until now.
        stop.cancel();
    };
    let (loops, ()) = tokio::join!(loops, meanwhile);
    for output in loops {
        assert_eq!((&*output.content, fault(&output)), ("cancelled", Some(ToolFault::Cancelled)));
    }
    // Left alone, each of them ends when its time is over.
    let (plugin, time) = load_within(&SHORT_LIMITS, limits).await;
    for output in join_all((0..10).map(|_| call(&plugin, "loop"))).await {
        assert_eq!((&*output.content, fault(&output)), (&*too_long(time), Some(ToolFault::TimedOut)));
    }
}

/// On one thread: a guest that stays on it is the only thing that happens.
#[tokio::test]
async fn a_plugin_known_as_quick_does_not_hold_up_whoever_asks_when_it_loops() {
    let limits = PluginLimits { fuel: u64::MAX / 2, ..PluginLimits::default() };
    let (plugin, time) = load_within(&[Duration::from_secs(1), Duration::from_secs(20)], limits).await;
    // However slow this machine is.
    for _ in 0..10 {
        plugin.pace.record(Duration::ZERO);
    }
    assert_eq!(call(&plugin, "echo").await, ToolOutput::ok("hello"));
    for _ in 0..10 {
        plugin.pace.record(Duration::ZERO);
    }
    let looping = call(&plugin, "loop");
    tokio::pin!(looping);
    assert!(futures_util::poll!(looping.as_mut()).is_pending(), "it gives way before its time is over");
    assert!(!plugin.pace.is_quick());
    assert_eq!(&*looping.await.content, too_long(time));
}

#[tokio::test]
async fn too_many_are_refused_at_once() {
    let limits = PluginLimits { calls: 1, time: LONG_TIMEOUT, fuel: u64::MAX / 2, ..PluginLimits::default() };
    let plugin = load(limits, &[], &services()).await;
    let stop = CancellationToken::new();
    let at_work = (0..9).map(|_| plugin.call("loop", "".into(), Arc::new(NoFunctions), stop.clone()));
    let refused = async {
        let output = call(&plugin, "echo").await;
        stop.cancel();
        output
    };
    let (at_work, refused) = tokio::join!(join_all(at_work), refused);
    assert_eq!(&*refused.content, "too many plugin calls wait");
    assert_eq!(fault(&refused), Some(ToolFault::Saturated));
    for output in at_work {
        assert_eq!((&*output.content, fault(&output)), ("cancelled", Some(ToolFault::Cancelled)));
    }
}

/// Another tool that is a call of the same plugin.
#[derive(Debug)]
struct SamePlugin {
    plugin: Weak<LoadedPlugin>,
    thread: Mutex<Option<String>>,
}

impl HostFunctions for SamePlugin {
    fn call_id(&self) -> &str {
        "call-1"
    }

    fn call(&self, name: &str, arguments: Value, stop: CancellationToken) -> BoxFuture<'_, ToolOutput> {
        *self.thread.lock().expect("no poison") = std::thread::current().name().map(str::to_owned);
        assert_eq!((name, &arguments), ("other", &serde_json::json!({})));
        let plugin = self.plugin.upgrade().expect("it is called");
        Box::pin(async move { plugin.call("echo", "inner".into(), Arc::new(NoFunctions), stop).await })
    }
}

/// With one call at a time: the outer one steps aside for the inner one, which begins on the caller's threads.
#[tokio::test]
async fn plugins_that_call_plugins_do_not_wait_for_each_other() {
    let limits = PluginLimits { calls: 1, ..PluginLimits::default() };
    let plugin = load(limits, &["host-function:other"], &services()).await;
    let functions = Arc::new(SamePlugin { plugin: Arc::downgrade(&plugin), thread: Mutex::new(None) });
    let output = plugin.call("use", "".into(), functions.clone(), CancellationToken::new()).await;
    assert_eq!(output, ToolOutput::ok("inner"));
    let here = std::thread::current().name().map(str::to_owned);
    assert_eq!(*functions.thread.lock().expect("no poison"), here, "not on the threads of guests");

    let plugin = load(limits, &[], &services()).await;
    let output = plugin.call("use", "".into(), functions, CancellationToken::new()).await;
    assert!(output.is_error && output.content.contains("not granted"), "{output:?}");
}

#[tokio::test]
async fn says_what_it_is() {
    let plugin = load(PluginLimits::default(), &[], &services()).await;
    assert_eq!(plugin.sha256().len(), 64);
    assert_eq!(plugin.imports().iter().map(|name| &**name).collect::<Vec<_>>(), ["clock", "host-functions"]);
    assert_eq!((plugin.has_tools(), plugin.has_channel()), (true, false));
    let [tool] = &**plugin.tools() else { panic!("one tool: {:?}", plugin.tools()) };
    assert_eq!((&*tool.name, &*tool.description, tool.effect), ("guest", "Does things.", ToolEffect::ReadOnly));
    assert_eq!(tool.timeout, Some(Duration::from_secs(32)));

    let granted = load(PluginLimits::default(), &["store:notes"], &services()).await;
    assert_eq!(granted.tools()[0].effect, ToolEffect::Writes);

    let webhook = Webhook {
        method: "POST".to_owned(),
        query: String::new(),
        headers: Vec::new(),
        body: "{}".into(),
        digest: "".into(),
    };
    let error = plugin.parse_incoming(webhook, CancellationToken::new()).await.expect_err("it is no adapter");
    assert_eq!(error, ChannelError::Unavailable("plugin bad is not a channel adapter".to_owned()));
}

/// A panic as Rust guests have them: words on standard error, then a trap.
#[tokio::test]
async fn quotes_the_last_words_of_a_panic() {
    let machine = PluginMachine::start(PluginLimits::default(), None).expect("a machine");
    let bytes = include_bytes!("../../tests/fixtures/panics.wasm").as_slice().into();
    let refusal =
        LoadedPlugin::load(&machine, &options("rusty", &[]), bytes, &services()).await.expect_err("it panics");
    assert_eq!(refusal.to_string(), "cannot say what it offers: plugin rusty panicked: made to fail at load");
}

#[tokio::test]
async fn only_the_pinned_file_is_loaded() {
    let machine = PluginMachine::start(PluginLimits::default(), None).expect("a machine");
    let pinned = crate::rights::PluginOptions { sha256: Some([7; 32]), ..options("pinned", &[]) };
    let refusal = LoadedPlugin::load(&machine, &pinned, guest(), &services()).await.expect_err("another file");
    assert!(refusal.reason().starts_with("is another file than the one that is pinned: its sha256 is "), "{refusal}");
}

/// What is written for the operator when a call breaks: one line.
#[tokio::test]
async fn each_failure_is_one_line_of_the_log() {
    let plugin = load(PluginLimits { fuel: 100_000, ..PluginLimits::default() }, &[], &services()).await;
    let log = Arc::new(Mutex::new(Vec::new()));
    let subscriber = tracing_subscriber::fmt()
        .with_writer({
            let log = log.clone();
            move || Line(log.clone())
        })
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .finish();
    crate::testing::install_subscriber();
    let guard = tracing::subscriber::set_default(subscriber);
    call(&plugin, "loop").await;
    call(&plugin, "echo").await;
    drop(guard);
    let log = String::from_utf8(log.lock().expect("no poison").clone()).expect("text");
    let lines: Vec<&str> = log.lines().collect();
    let [line] = &lines[..] else { panic!("{log}") };
    for part in
        [" WARN plugin call failed", "plugin=bad", "tool.name=\"loop\"", "reason=plugin bad ran out of fuel (100000)"]
    {
        assert!(line.contains(part), "{line}");
    }
}

struct Line(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Line {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no poison").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
