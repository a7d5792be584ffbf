use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use patchboard_core::id::{CallId, MemoryOwner, SessionKey};
use patchboard_core::model::ToolInput;
use patchboard_core::port::ProgressSink;
use patchboard_core::port::SchemaValidator;
use patchboard_core::tool::{ToolEffect, ToolKind, UnknownOutcomePolicy};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};

mod escapes;
pub(super) mod yard;

use super::file_runtime::ToolRefusal;
use super::*;
use crate::{JsonSchemaCheck, WorkFolder, WorkspaceOptions};

struct Fixture {
    dir: TempDir,
    tasks: TaskTracker,
    host: Arc<dyn ToolHost>,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("hello.txt"), "hello\nworld\n").unwrap();
        let tasks = TaskTracker::new();
        let workspaces = workspaces(dir.path(), &tasks);
        let host: Arc<dyn ToolHost> = Arc::new(BuiltinTools::new(BuiltinOptions { workspaces, tasks: tasks.clone() }));
        Self { dir, tasks, host }
    }

    async fn call(&self, name: &str, arguments: Value, stop: CancellationToken) -> ToolOutput {
        let call = ToolCall {
            id: CallId("call-1".into()),
            name: name.into(),
            input: ToolInput::Json(Arc::new(arguments.clone())),
        };
        self.host.call(&scope(None), &call, &arguments, stop).await
    }

    fn bench(&self) -> Arc<FileToolRuntime> {
        Arc::new(FileToolRuntime::new(workspaces(self.dir.path(), &self.tasks), self.tasks.clone()))
    }
}

fn workspaces(folder: &Path, tasks: &TaskTracker) -> Workspaces {
    let (working_folder, allowed_roots) = (folder.to_owned(), vec![folder.to_owned()]);
    Workspaces::new(WorkspaceOptions {
        working_folder,
        allowed_roots,
        protected: vec![],
        tasks: tasks.clone(),
        grants: crate::GrantRules::default(),
    })
    .unwrap()
}

fn scope(folder: Option<&Path>) -> ToolScope {
    ToolScope {
        session: SessionKey::conversation("a", "b", "c", "d"),
        owner: MemoryOwner::account("a", "b"),
        folder: folder.map(Into::into),
        folder_grant: None,
        progress: ProgressSink::default(),
        call_metadata: None,
    }
}

#[test]
fn offers_tools_with_the_agreed_arguments() {
    use ToolEffect::{ReadOnly, Writes};
    use UnknownOutcomePolicy::{Fail, Retry};
    let fixture = Fixture::new();
    assert_eq!(fixture.host.kind(), ToolKind::BuiltIn);
    let mut offered = Vec::new();
    let specs = fixture.host.tools(None);
    for spec in specs.iter() {
        assert_eq!(spec.kind, ToolKind::BuiltIn);
        assert_eq!(spec.input_schema["additionalProperties"], json!(false));
        let names = |list: Vec<&str>| list.join(" ");
        let mut arguments: Vec<_> = spec.input_schema["properties"].as_object().unwrap().keys().map(|k| &**k).collect();
        let required = spec.input_schema.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let required: Vec<_> = required.iter().filter_map(Value::as_str).collect();
        arguments.retain(|argument| !required.contains(argument));
        offered.push((&*spec.name, names(required), names(arguments), spec.effect, spec.unknown_outcome));
    }
    let expected = [
        ("apply_patch", "patchText", "", Writes, Fail),
        ("create_dir", "path", "exist_ok", Writes, Retry),
        ("delete_file", "path", "recursive", Writes, Fail),
        ("edit", "path oldString newString", "replaceAll", Writes, Fail),
        ("glob", "pattern", "include path", ReadOnly, Retry),
        ("grep", "pattern", "include path", ReadOnly, Retry),
        ("ls", "", "ignore path", ReadOnly, Retry),
        ("move_file", "source target", "", Writes, Fail),
        ("multiedit", "path edits", "", Writes, Fail),
        ("read", "path", "encoding limit offset", ReadOnly, Retry),
        ("skill", "name", "", ReadOnly, Retry),
        ("write_file", "path content", "append", Writes, Fail),
    ];
    let expected = expected.map(|(name, required, optional, effect, unknown)| {
        (name, required.to_owned(), optional.to_owned(), effect, unknown)
    });
    assert_eq!(offered, expected);
}

#[tokio::test]
async fn another_tool_can_be_added() {
    let fixture = Fixture::new();
    let options =
        BuiltinOptions { workspaces: workspaces(fixture.dir.path(), &fixture.tasks), tasks: fixture.tasks.clone() };
    let host = BuiltinTools::new(options).with(BoxedBuiltin::new(Says("hello"))).with(BoxedBuiltin::new(Says("bye")));
    let specs = host.tools(None);
    let names: Vec<&str> = specs.iter().map(|spec| &*spec.name).collect();
    assert!(names.ends_with(&["write_file", "hello", "bye"]), "{names:?}");
    let fixture = Fixture { host: Arc::new(host), ..fixture };
    assert_eq!(fixture.call("hello", json!({}), CancellationToken::new()).await, ToolOutput::ok("hello"));
    assert_eq!(fixture.call("bye", json!({}), CancellationToken::new()).await, ToolOutput::ok("bye"));
}

/// Answers with its name.
#[derive(Debug)]
struct Says(&'static str);

impl BuiltinTool for Says {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.0.into(),
            description: "says its name".into(),
            input_schema: Arc::new(json!({"type": "object"})),
            effect: ToolEffect::ReadOnly,
            unknown_outcome: UnknownOutcomePolicy::Retry,
            timeout: None,
            kind: TOOL_KIND,
            traits: None,
        }
    }

    fn run<'a>(&'a self, _: &'a ToolScope, _: &'a Value, _: CancellationToken) -> BoxFuture<'a, ToolOutput> {
        Box::pin(std::future::ready(ToolOutput::ok(self.0)))
    }
}

/// Each call works in the folder of its own scope.
#[tokio::test]
async fn calls_work_in_the_folder_of_their_scope() {
    let fixture = Fixture::new();
    let inner = fixture.dir.path().canonicalize().unwrap().join("inner");
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join("here.txt"), "x").unwrap();
    let list = |folder: Option<&Path>| {
        let (host, scope) = (fixture.host.clone(), scope(folder));
        async move {
            let arguments = json!({});
            let input = ToolInput::Json(Arc::new(arguments.clone()));
            let call = ToolCall { id: CallId("call".into()), name: "ls".into(), input };
            host.call(&scope, &call, &arguments, CancellationToken::new()).await
        }
    };
    assert_eq!(list(Some(&inner)).await, ToolOutput::ok("./\n  here.txt"));
    assert_eq!(list(None).await, ToolOutput::ok("./\n  inner/\n    here.txt\n  hello.txt"));
    // Deleted and made again: the new one is meant.
    fs::remove_dir_all(&inner).unwrap();
    let gone = list(Some(&inner)).await;
    assert_eq!(gone, ToolOutput::error(format!("cannot open working folder: {}", inner.display())));
    fs::create_dir(&inner).unwrap();
    assert_eq!(list(Some(&inner)).await, ToolOutput::ok("./\n  (nothing)"));
    let outside = list(Some(Path::new("/etc"))).await;
    assert_eq!(outside, ToolOutput::error("working folder lies outside the allowed roots: /etc"));
}

/// Parallel calls of one answer edit one file: none may undo another's work.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn parallel_changes_of_one_file_all_take_effect() {
    let fixture = Fixture::new();
    let numbers: Vec<String> = (0..24).map(|number| format!("<{number}>")).collect();
    fs::write(fixture.dir.path().join("list.txt"), numbers.concat()).unwrap();
    let edits = numbers.iter().map(|number| {
        let arguments = json!({"path": "list.txt", "oldString": number, "newString": ""});
        fixture.call("edit", arguments, CancellationToken::new())
    });
    let appends = (0..24).map(|_| {
        let arguments = json!({"path": "new/log.txt", "content": "x", "append": true});
        fixture.call("write_file", arguments, CancellationToken::new())
    });
    for output in join_all(edits).await.into_iter().chain(join_all(appends).await) {
        assert!(!output.is_error, "{output:?}");
    }
    assert_eq!(fs::read_to_string(fixture.dir.path().join("list.txt")).unwrap(), "");
    assert_eq!(fs::read_to_string(fixture.dir.path().join("new/log.txt")).unwrap(), "x".repeat(24));
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
        ("write_file", json!({"path": "a", "content": "", "append": false}), true),
        ("write_file", json!({"path": "a"}), false),
        ("edit", json!({"path": "a", "oldString": "", "newString": "", "replaceAll": true}), true),
        ("edit", json!({"path": "a", "oldString": "x"}), false),
        ("multiedit", json!({"path": "a", "edits": [{"oldString": "a", "newString": "b"}]}), true),
        ("multiedit", json!({"path": "a", "edits": []}), false),
        ("multiedit", json!({"path": "a", "edits": [{"oldString": "a"}]}), false),
        ("apply_patch", json!({"patchText": "x"}), true),
        ("apply_patch", json!({}), false),
        ("move_file", json!({"source": "a", "target": "b"}), true),
        ("move_file", json!({"source": "a"}), false),
        ("delete_file", json!({"path": "a", "recursive": true}), true),
        ("delete_file", json!({"path": "a", "recursive": "yes"}), false),
        ("create_dir", json!({"path": "a", "exist_ok": false}), true),
        ("glob", json!({"pattern": "*", "path": "a", "include": ["*.rs"]}), true),
        ("glob", json!({"pattern": "x".repeat(501)}), false),
        ("grep", json!({"pattern": "a", "path": ".", "include": "*.rs"}), true),
        ("grep", json!({"pattern": "a", "include": ["*.rs"]}), false),
        ("skill", json!({"name": "a"}), true),
        ("skill", json!({"name": ""}), false),
    ];
    for (name, arguments, fits) in cases {
        let specs = fixture.host.tools(None);
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
        ("write_file", json!({"path": "new.txt", "content": "one two"}), ToolOutput::ok("ok")),
        (
            "edit",
            json!({"path": "new.txt", "oldString": "one", "newString": "1"}),
            ToolOutput::ok("Edit applied successfully."),
        ),
        (
            "multiedit",
            json!({"path": "new.txt", "edits": [{"oldString": "1", "newString": "I"}, {"oldString": "two", "newString": "II"}]}),
            ToolOutput::ok("Applied 2 edit(s) successfully."),
        ),
        ("grep", json!({"pattern": "I+ I"}), ToolOutput::ok("Found 1 matches\nnew.txt:\n  Line 1: I II")),
        ("move_file", json!({"source": "new.txt", "target": "d/moved.txt"}), ToolOutput::ok("ok")),
        ("glob", json!({"pattern": "**/*.txt"}), ToolOutput::ok("d/moved.txt\nhello.txt")),
        (
            "apply_patch",
            json!({"patchText": "*** Begin Patch\n*** Delete File: d/moved.txt\n*** End Patch"}),
            ToolOutput::ok("Applied 1 hunk(s) successfully."),
        ),
        ("delete_file", json!({"path": "d"}), ToolOutput::ok("ok")),
        ("create_dir", json!({"path": "d"}), ToolOutput::ok("ok")),
        ("skill", json!({"name": "x"}), ToolOutput::error("no skill is named `x`: this working folder has none")),
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
    let call = bench.blocking(&scope(None), stop.clone(), move |_, stop| {
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
    let call = bench.blocking(&scope(None), CancellationToken::new(), move |_, stop| {
        started.send(()).unwrap();
        released.recv().unwrap();
        ended.send(stop.is_cancelled()).unwrap();
        Ok(String::new())
    });
    // As when the tool executor's time limit ends the call: the future is dropped.
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
        bench.blocking(&scope(None), CancellationToken::new(), move |_, _| {
            let now = at_once.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(now, Ordering::SeqCst);
            full.send(()).unwrap();
            released.lock().unwrap().recv().unwrap();
            at_once.fetch_sub(1, Ordering::SeqCst);
            Ok("done".to_owned())
        })
    });
    let let_go = async {
        for _ in 0..file_runtime::CALLS_AT_ONCE {
            is_full.recv().await.unwrap();
        }
        for _ in 0..40 {
            release.send(()).unwrap();
        }
    };
    let (outputs, ()) = tokio::join!(join_all(calls), let_go);
    assert!(outputs.iter().all(|output| *output == ToolOutput::ok("done")));
    assert_eq!(most.load(Ordering::SeqCst), file_runtime::CALLS_AT_ONCE);
}

#[tokio::test]
async fn a_panic_is_a_tool_error() {
    let fixture = Fixture::new();
    let work = |_: &WorkFolder, _: &CancellationToken| -> Result<String, ToolRefusal> { panic!("on purpose") };
    let output = fixture.bench().blocking(&scope(None), CancellationToken::new(), work).await;
    assert_eq!(output, ToolOutput::error("internal error in the tool"));
}

#[tokio::test(start_paused = true)]
async fn what_a_folder_adds_is_looked_at_once_a_second_and_kept_while_it_is_the_same() {
    let fixture = Fixture::new();
    let before = fixture.host.tools(None);
    let skills = fixture.dir.path().join(".patchboard/skills");
    fs::create_dir_all(&skills).unwrap();
    fs::write(skills.join("review.md"), "Look twice.").unwrap();
    assert!(Arc::ptr_eq(&before, &fixture.host.tools(None)));
    tokio::time::advance(SPEC_CACHE_TTL).await;
    let after = fixture.host.tools(None);
    let description =
        |specs: &[ToolSpec]| specs.iter().find(|spec| &*spec.name == "skill").unwrap().description.clone();
    assert!(description(&after).contains("review") && !description(&before).contains("review"));
    tokio::time::advance(SPEC_CACHE_TTL).await;
    assert!(Arc::ptr_eq(&after, &fixture.host.tools(None)), "an equal list is the same list");
}
