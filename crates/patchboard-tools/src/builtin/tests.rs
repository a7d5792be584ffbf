use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use patchboard_core::id::CallId;
use patchboard_core::model::ToolInput;
use patchboard_core::port::SchemaCheck;
use patchboard_core::tool::{Effect, UnknownOutcome};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};

use super::bench::Refusal;
use super::*;
use crate::JsonSchemaCheck;

struct Fixture {
    dir: TempDir,
    tasks: TaskTracker,
    host: Arc<dyn ToolHost>,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("hello.txt"), "hello\nworld\n").unwrap();
        let folder = WorkFolder::open(dir.path(), vec![]).unwrap();
        let tasks = TaskTracker::new();
        let host: Arc<dyn ToolHost> = Builtins::new(folder, tasks.clone());
        Self { dir, tasks, host }
    }

    async fn call(&self, name: &str, arguments: Value, stop: CancellationToken) -> ToolOutput {
        let call = ToolCall {
            id: CallId("call-1".into()),
            name: name.into(),
            input: ToolInput::Json(Arc::new(arguments.clone())),
        };
        self.host.call(&SessionKey::conversation("a", "b", "c", "d"), &call, &arguments, stop).await
    }

    fn bench(&self) -> Arc<Workbench> {
        Arc::new(Workbench::new(WorkFolder::open(self.dir.path(), vec![]).unwrap(), self.tasks.clone()))
    }
}

#[test]
fn offers_read_only_tools_with_the_agreed_arguments() {
    let fixture = Fixture::new();
    assert_eq!(fixture.host.kind(), "builtin");
    let mut offered = Vec::new();
    for spec in fixture.host.tools().iter() {
        assert_eq!(
            (spec.effect, spec.unknown_outcome, spec.kind),
            (Effect::ReadOnly, UnknownOutcome::Retry, "builtin")
        );
        assert_eq!(spec.input_schema["additionalProperties"], json!(false));
        let arguments: Vec<_> = spec.input_schema["properties"].as_object().unwrap().keys().cloned().collect();
        offered.push((spec.name.to_string(), arguments.join(" "), spec.input_schema.get("required").cloned()));
    }
    assert_eq!(
        offered,
        [
            ("ls".to_owned(), "ignore path".to_owned(), None),
            ("read".to_owned(), "encoding limit offset path".to_owned(), Some(json!(["path"]))),
        ]
    );
}

#[test]
fn schemas_accept_what_the_tools_take() {
    let (fixture, checker) = (Fixture::new(), JsonSchemaCheck::default());
    let cases = [
        ("read", json!({"path": "a"}), true),
        ("read", json!({"path": "a", "offset": 0, "limit": 1, "encoding": "utf-8"}), true),
        ("read", json!({}), false),
        ("read", json!({"path": ""}), false),
        ("read", json!({"path": "a", "offset": -1}), false),
        ("read", json!({"path": "a", "limit": 0}), false),
        ("read", json!({"path": "a", "limit": "5"}), false),
        ("read", json!({"path": "a", "lines": 5}), false),
        ("ls", json!({}), true),
        ("ls", json!({"path": ".", "ignore": ["*.log"]}), true),
        ("ls", json!({"path": null}), false),
        ("ls", json!({"ignore": "*.log"}), false),
        ("ls", json!({"ignore": vec!["x"; 51]}), false),
        ("ls", json!({"ignore": ["x".repeat(201)]}), false),
    ];
    for (name, arguments, fits) in cases {
        let specs = fixture.host.tools();
        let spec = specs.iter().find(|spec| &*spec.name == name).unwrap();
        let checked = checker.check(&spec.input_schema, &arguments);
        assert_eq!(checked.is_ok(), fits, "{name} {arguments}: {checked:?}");
    }
}

#[tokio::test]
async fn calls_answer_in_text() {
    let fixture = Fixture::new();
    let cases = [
        ("read", json!({"path": "hello.txt"}), ToolOutput::ok("     1\thello\n     2\tworld")),
        (
            "read",
            json!({"path": "hello.txt", "offset": 1.0, "limit": 1.0}),
            ToolOutput::ok("     2\tworld\n[lines 2-2, the last of 2]"),
        ),
        ("read", json!({"path": "nope"}), ToolOutput::error("`nope` does not exist")),
        ("ls", json!({}), ToolOutput::ok("./\n  hello.txt")),
        ("ls", json!({"ignore": ["*.txt"]}), ToolOutput::ok("./\n  (nothing)")),
        ("rm", json!({}), ToolOutput::error("unknown tool: rm")),
    ];
    for (name, arguments, expected) in cases {
        assert_eq!(
            fixture.call(name, arguments.clone(), CancellationToken::new()).await,
            expected,
            "{name} {arguments}"
        );
    }
    fixture.tasks.close();
    fixture.tasks.wait().await;
}

#[tokio::test]
async fn a_cancelled_call_ends_at_once_and_so_does_its_work() {
    let fixture = Fixture::new();
    let stop = CancellationToken::new();
    let (started, is_started) = oneshot::channel();
    let (ended, is_ended) = oneshot::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let bench = fixture.bench();
    let call = bench.blocking(stop.clone(), move |_, stop| {
        started.send(()).unwrap();
        // Stuck, as on a disk that does not answer, until the test lets go.
        released.recv().unwrap();
        ended.send(stop.is_cancelled()).unwrap();
        Ok(String::new())
    });
    let cancel = async {
        is_started.await.unwrap();
        stop.cancel();
    };
    let (output, ()) = tokio::join!(call, cancel);
    assert_eq!(output, ToolOutput::error("cancelled"));
    release.send(()).unwrap();
    assert!(is_ended.await.unwrap(), "the work was told");
}

#[tokio::test]
async fn a_caller_that_goes_away_stops_the_work() {
    let fixture = Fixture::new();
    let (started, is_started) = oneshot::channel();
    let (ended, is_ended) = oneshot::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let bench = fixture.bench();
    let call = bench.blocking(CancellationToken::new(), move |_, stop| {
        started.send(()).unwrap();
        released.recv().unwrap();
        ended.send(stop.is_cancelled()).unwrap();
        Ok(String::new())
    });
    // As when the desk's time limit ends the call: the future is dropped half-way.
    tokio::select! {
        output = call => panic!("ended by itself: {output:?}"),
        started = is_started => started.unwrap(),
    }
    release.send(()).unwrap();
    assert!(is_ended.await.unwrap());
}

#[tokio::test]
async fn only_so_many_calls_work_at_once() {
    let fixture = Fixture::new();
    let bench = fixture.bench();
    let (at_once, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (full, mut is_full) = mpsc::unbounded_channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = Arc::new(std::sync::Mutex::new(released));
    let calls = (0..40).map(|_| {
        let (at_once, most, full, released) = (at_once.clone(), most.clone(), full.clone(), released.clone());
        bench.blocking(CancellationToken::new(), move |_, _| {
            let now = at_once.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(now, Ordering::SeqCst);
            full.send(()).unwrap();
            released.lock().unwrap().recv().unwrap();
            at_once.fetch_sub(1, Ordering::SeqCst);
            Ok("done".to_owned())
        })
    });
    let let_go = async {
        for _ in 0..bench::CALLS_AT_ONCE {
            is_full.recv().await.unwrap();
        }
        for _ in 0..40 {
            release.send(()).unwrap();
        }
    };
    let (outputs, ()) = tokio::join!(join_all(calls), let_go);
    assert!(outputs.iter().all(|output| *output == ToolOutput::ok("done")));
    assert_eq!(most.load(Ordering::SeqCst), bench::CALLS_AT_ONCE);
}

#[tokio::test]
async fn a_panic_is_a_tool_error() {
    let fixture = Fixture::new();
    let work = |_: &WorkFolder, _: &CancellationToken| -> Result<String, Refusal> { panic!("on purpose") };
    let output = fixture.bench().blocking(CancellationToken::new(), work).await;
    assert_eq!(output, ToolOutput::error("the tool failed inside"));
}
