//! The same with components.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use patchboard_core::plugin::PluginState;

use super::super::*;
use crate::testing::{self, NoFunctions, component, services};

/// The guest of all tests with a tool that echoes, and a few bytes of it replaced by others.
fn guest(before: &str, after: &str) -> bytes::Bytes {
    let text = include_str!("../../../tests/fixtures/guest.wat").replace("\"guest\"", "\"echo1\"");
    assert!(text.contains(before));
    component(&text.replace(before, after))
}

fn options(root: &Path, plugins: &[&str]) -> HostOptions {
    let configured =
        |name: &&str| PluginOptions { file: root.join(format!("{name}.wasm")), ..testing::options(name, &[]) };
    HostOptions {
        plugins: plugins.iter().map(configured).collect(),
        folder: Some(root.join("plugins")),
        sidecar: Arc::new(|_| Ok(Default::default())),
        admit: Arc::new(|_, _| Ok(())),
        cache: root.join("cache"),
        watch: false,
        limits: PluginLimits { calls: 2, ..PluginLimits::default() },
    }
}

async fn start_on(options: HostOptions, start: machine::StartMachine) -> Arc<PluginHost> {
    let services = services();
    let (store, clock) = (services.store.clone(), services.clock.clone());
    let mut loader = MachineLoader::new(options.limits, options.cache.clone(), services);
    loader.start = start;
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    PluginHost::start_with(options, Arc::new(loader), store, clock, &tasks, &stop).await
}

#[tokio::test]
async fn components_are_loaded_replaced_held_and_refused() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("good.wasm");
    fs::write(&file, guest("echo1", "echo1")).unwrap();
    fs::write(root.path().join("bad.wasm"), "not WebAssembly").unwrap();
    let options = options(root.path(), &["good", "bad"]);
    let host = PluginHost::start(options, services(), &TaskTracker::new(), &CancellationToken::new()).await;
    // A machine under load may take longer than a server waits.
    let first = host.ask_load("good").await.unwrap();
    assert_eq!((first.state, first.tools.as_slice()), (PluginState::Ready, &["echo1".into()][..]));
    let call = |arguments: &str| {
        let call = PluginCall { tool: "echo1".into(), arguments: arguments.into(), functions: Arc::new(NoFunctions) };
        host.call(call, CancellationToken::new())
    };
    assert_eq!(call("{}").await, ToolOutput::ok("{}"));
    let PluginError::Refused(told) = host.ask_load("bad").await.unwrap_err() else { panic!("it was loaded") };
    assert!(told.starts_with("`bad` cannot be loaded: "), "{told}");
    assert_eq!(host.state("bad"), PluginState::Refused);

    fs::write(&file, guest("no luck", "no LUCK")).unwrap();
    let second = host.ask_load("good").await.unwrap();
    assert_ne!(second.sha256, first.sha256);
    fs::write(&file, guest("Does things.", "Obey it now.")).unwrap();
    let PluginError::AwaitingApproval(_) = host.ask_load("good").await.unwrap_err() else {
        panic!("it was put to work")
    };
    let held = host.report("good");
    assert_eq!((held.state, &held.sha256), (PluginState::Ready, &second.sha256));
    assert_eq!(held.changes, ["tool echo1: other description".into()]);
    assert_eq!(call("[1]").await, ToolOutput::ok("[1]"));
    let approved = host.approve("good").await.unwrap();
    assert_ne!(approved.sha256, second.sha256);
    assert_eq!((approved.calls, approved.failures), (2, 0));
    assert_eq!(&*host.tools()[0].description, "Obey it now.");
}

#[tokio::test]
async fn a_server_that_cannot_run_plugins_refuses_them_all_and_starts() {
    let root = tempfile::tempdir().unwrap();
    for name in ["a.wasm", "b.wasm"] {
        fs::write(root.path().join(name), "content").unwrap();
    }
    let host = start_on(options(root.path(), &["a", "b"]), |_, _| Err("there is no memory".to_owned())).await;
    assert_eq!(host.list().len(), 2);
    for report in host.list() {
        let problem = Some("this server cannot run plugins: there is no memory");
        assert_eq!((report.state, report.problem.as_deref()), (PluginState::Refused, problem));
    }
}

#[tokio::test]
async fn a_server_without_plugins_never_makes_a_machine() {
    static MADE: AtomicBool = AtomicBool::new(false);
    let root = tempfile::tempdir().unwrap();
    let host = start_on(options(root.path(), &[]), |_, _| {
        MADE.store(true, Ordering::SeqCst);
        Err("it is not to be made".to_owned())
    })
    .await;
    host.look_twice().await;
    assert_eq!((host.list(), host.tools().len()), (Vec::new(), 0));
    assert!(!MADE.load(Ordering::SeqCst));
    assert!(!root.path().join("cache").exists() && !root.path().join("plugins").exists());
}
