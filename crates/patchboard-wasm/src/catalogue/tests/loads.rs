//! Loads that take their time, meet each other, or fail for no fault of the file.

use std::sync::atomic::Ordering;

use patchboard_core::plugin::PluginState;
use serde_json::json;

use super::super::*;
use super::stub::Bench;

/// Its loads wait at the gate.
fn gated(edition: u32) -> serde_json::Value {
    json!({"tools": {"echo": "Echoes."}, "imports": ["gate"], "edition": edition})
}

/// Time is paused: it passes only when nothing else is left to do.
async fn until(what: impl Fn() -> bool) {
    for _ in 0..1000 {
        if what() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came to pass");
}

#[tokio::test(start_paused = true)]
async fn a_slow_plugin_keeps_the_server_waiting_for_ten_seconds_and_comes_later() {
    let mut bench = Bench::new();
    bench.put("slow.wasm", &gated(0));
    bench.put("fast.wasm", &json!({"tools": {"fast": "Is fast."}}));
    bench.configure("slow", &[]);
    bench.configure("fast", &[]);
    let began = tokio::time::Instant::now();
    let host = bench.start().await;
    assert_eq!(began.elapsed().as_secs(), 10);
    assert_eq!((host.state("slow"), host.state("fast")), (PluginState::Loading, PluginState::Ready));
    assert_eq!(host.say("slow.echo").await, "NotFound: plugin `slow` is being loaded");
    bench.loader.gate.add_permits(1);
    until(|| host.state("slow") == PluginState::Ready).await;
    assert_eq!(host.tools().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn no_more_than_two_are_compiled_at_once() {
    let mut bench = Bench::new();
    for name in ["a", "b", "c", "d", "e"] {
        bench.put(&format!("{name}.wasm"), &gated(0));
        bench.configure(name, &[]);
    }
    bench.loader.gate.add_permits(5);
    let host = bench.start().await;
    assert!(host.list().iter().all(|report| report.state == PluginState::Ready));
    let most = bench.loader.most_at_once.load(Ordering::SeqCst);
    assert!((1..=2).contains(&most), "{most}");
}

#[tokio::test(start_paused = true)]
async fn loads_of_one_plugin_come_one_after_the_other() {
    let mut bench = Bench::new();
    bench.put("echo.wasm", &gated(0));
    bench.configure("echo", &[]);
    bench.loader.gate.add_permits(1);
    let host = bench.start().await;
    bench.put("echo.wasm", &gated(1));
    bench.loader.gate.add_permits(8);
    let loads = join_all((0..8).map(|_| host.ask_load("echo"))).await;
    assert!(loads.iter().all(Result::is_ok), "{loads:?}");
    assert_eq!(bench.loader.loads.load(Ordering::SeqCst), 9);
    assert_eq!(bench.loader.most_at_once.load(Ordering::SeqCst), 1);
    assert_eq!(host.say("echo").await, "echo {} of edition 1");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_was_only_touched_is_not_loaded_again() {
    let mut bench = Bench::new();
    bench.put("echo.wasm", &json!({"tools": {"echo": "Echoes."}}));
    bench.configure("echo", &[]);
    let host = bench.start().await;
    bench.put("echo.wasm", &json!({"tools": {"echo": "Echoes."}}));
    host.look_twice().await;
    assert_eq!(bench.loader.loads.load(Ordering::SeqCst), 1);
    host.ask_load("echo").await.unwrap();
    assert_eq!(bench.loader.loads.load(Ordering::SeqCst), 2, "whoever asks gets it loaded");
}

#[tokio::test(start_paused = true)]
async fn who_unloads_a_plugin_that_is_being_loaded_is_heard() {
    let mut bench = Bench::new();
    bench.put("echo.wasm", &gated(0));
    bench.configure("echo", &[]);
    bench.loader.gate.add_permits(1);
    let host = bench.start().await;
    let (first, second, unloaded) = tokio::join!(
        host.ask_load("echo"),
        // Waits for its turn when it is overtaken.
        host.ask_load("echo"),
        async {
            until(|| bench.loader.loads.load(Ordering::SeqCst) == 2).await;
            let unloaded = host.unload("echo").await;
            bench.loader.gate.add_permits(2);
            unloaded
        }
    );
    assert_eq!(unloaded, Ok(()));
    let overtaken = PluginError::Failed("`echo` was unloaded in the meantime".to_owned());
    assert_eq!((first, second), (Err(overtaken.clone()), Err(overtaken)));
    assert_eq!((host.state("echo"), host.tools().len()), (PluginState::Unloaded, 0));
}

#[tokio::test(start_paused = true)]
async fn a_load_that_nobody_wants_any_more_changes_nothing() {
    let mut bench = Bench::new();
    bench.put("echo.wasm", &gated(0));
    bench.configure("echo", &[]);
    bench.loader.gate.add_permits(1);
    let host = bench.start().await;
    bench.put("echo.wasm", &gated(1));
    let stop = CancellationToken::new();
    let (loaded, ()) = tokio::join!(host.load("echo", stop.clone()), async {
        until(|| bench.loader.loads.load(Ordering::SeqCst) == 2).await;
        stop.cancel();
    });
    assert_eq!(loaded, Err(PluginError::Failed("`echo` was not loaded: cancelled".to_owned())));
    let report = host.report("echo");
    assert_eq!((report.state, report.problem), (PluginState::Ready, None));
    assert_eq!(host.say("echo").await, "echo {} of edition 0");

    // The watch still sees that the file is another one.
    bench.loader.gate.add_permits(1);
    host.look_twice().await;
    assert_eq!(host.say("echo").await, "echo {} of edition 1");
}

#[tokio::test(start_paused = true)]
async fn nothing_works_that_could_not_be_pinned() {
    let mut bench = Bench::new();
    bench.put("echo.wasm", &json!({"tools": {"echo": "Echoes."}}));
    bench.configure("echo", &[]);
    bench.store.close().await.unwrap();
    let host = bench.start().await;
    let problem = "what was approved of it cannot be read: the store is closed";
    assert_eq!((host.state("echo"), host.problem("echo").as_deref()), (PluginState::Refused, Some(problem)));
    assert_eq!(host.tools().len(), 0);
    host.look_twice().await;
    assert_eq!(bench.loader.loads.load(Ordering::SeqCst), 2, "it is tried again with the next look");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stops_waits_for_no_load() {
    let mut bench = Bench::new();
    bench.put("echo.wasm", &gated(0));
    bench.configure("echo", &[]);
    bench.loader.gate.add_permits(1);
    let host = bench.start().await;
    let (loaded, ()) = tokio::join!(host.ask_load("echo"), async {
        until(|| bench.loader.loads.load(Ordering::SeqCst) == 2).await;
        host.0.stop.cancel();
    });
    assert!(loaded.is_err());
    host.0.tasks.close();
    host.0.tasks.wait().await;
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_not_admitted_is_not_loaded_until_it_is() {
    let mut bench = Bench::new();
    bench.put("echo.wasm", &json!({"tools": {"echo": "Echoes."}}));
    bench.put("plugins/other.wasm", &json!({"tools": {"other": "Lies in the folder."}}));
    bench.configure("echo", &[]);
    bench.watch = true;
    let asked: Arc<Mutex<Vec<(PathBuf, String)>>> = Arc::default();
    let is_trusted = Arc::new(AtomicBool::new(true));
    bench.admit = {
        let (asked, is_trusted) = (asked.clone(), is_trusted.clone());
        Arc::new(move |path, sha256| {
            asked.lock().unwrap().push((path.to_owned(), sha256.to_owned()));
            if is_trusted.load(Ordering::SeqCst) { Ok(()) } else { Err("it changed".to_owned()) }
        })
    };
    let host = bench.start().await;
    let first = host.report("echo").sha256.unwrap();
    assert_eq!(*asked.lock().unwrap(), [(bench.path("echo.wasm"), first.to_string())], "only what is configured");
    is_trusted.store(false, Ordering::SeqCst);
    bench.put("echo.wasm", &json!({"tools": {"evil": "Planted."}}));
    until(|| host.report("echo").problem.as_deref() == Some("it changed")).await;
    assert_eq!(
        (host.state("echo"), host.report("echo").sha256.unwrap()),
        (PluginState::Ready, first),
        "the old one works"
    );
    bench.put("echo.wasm", &json!({"tools": {"echo": "Echoes."}, "edition": 2}));
    is_trusted.store(true, Ordering::SeqCst);
    until(|| host.report("echo").problem.is_none()).await;
}
