//! MCP servers that are programs, in jails.

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;
use std::sync::Arc;

use patchboard_core::id::{CallId, MemoryOwner, SessionKey};
use patchboard_core::model::{ToolCall, ToolInput};
use patchboard_core::port::ToolHost;
use patchboard_core::port::{ProgressSink, ToolScope};
use patchboard_core::tool::ToolOutput;
use patchboard_tools::mcp::{JailConfig, LaunchMode, McpHosts, McpServerOptions, McpTransport, MemoryPins};
use patchboard_tools::sandbox::Spawner;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::support::{Marked, PATIENCE, jailer, lacks_landlock, mark, until};

/// Answers every request in turn. A tool is run as a command, with its last line as the answer.
const SERVER: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) r='{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"tools/list"'*) r='{"tools":[{"name":"secret","inputSchema":{}},{"name":"note","inputSchema":{}},
      {"name":"variables","inputSchema":{}},{"name":"limits","inputSchema":{}}]}' ; r=$(printf '%s' "$r" | tr -d '\n') ;;
    *'"name":"secret"'*) t=$(cat "$1/data/token" 2>/dev/null) ;;
    *'"name":"note"'*) t=$(cat "$1/note") ;;
    *'"name":"variables"'*) t=$(env | sed 's/=.*//' | sort | tr '\n' ' ') ;;
    *'"name":"limits"'*) t=$(ulimit -t; ulimit -c) ; t=$(printf '%s' "$t" | tr '\n' ' ') ;;
    *) r='{}' ;;
  esac
  case "$line" in *'"tools/call"'*) r='{"content":[{"type":"text","text":"'$t'"}]}' ;; esac
  [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$r"
done
"#;

struct Fixture {
    dir: TempDir,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("data")).unwrap();
        fs::write(dir.path().join("data/token"), "SECRET").unwrap();
        fs::write(dir.path().join("note"), "what the note says").unwrap();
        Self { dir, tasks: TaskTracker::new(), stop: CancellationToken::new() }
    }

    fn host(&self, program: &str, arguments: &[&str]) -> Arc<dyn ToolHost> {
        let spawner = Spawner::new(jailer()).unwrap();
        let launch = LaunchMode::Jailed(JailConfig {
            spawner,
            protected: Arc::new([self.dir.path().join("data")]),
            closed_ports: Arc::new([]),
            guard: None,
            worker_ports: Arc::new([]),
        });
        let server = McpServerOptions {
            name: "srv".into(),
            transport: McpTransport::Command {
                program: program.to_owned(),
                arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
                env: BTreeMap::from([("API_TOKEN".to_owned(), "told only to it".into())]),
                working_folder: None,
                private: None,
            },
            start_timeout: PATIENCE,
            call_timeout: PATIENCE,
        };
        let pins = Arc::new(MemoryPins::default());
        McpHosts::start(vec![server], &launch, pins, &self.tasks, &self.stop).tool_hosts().remove(0)
    }

    async fn end(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

async fn call(host: &dyn ToolHost, name: &str) -> ToolOutput {
    let scope = ToolScope {
        session: SessionKey::conversation("default", "test", "me", "main"),
        owner: MemoryOwner::account("test", "me"),
        folder: None,
        folder_grant: None,
        progress: ProgressSink::default(),
        call_metadata: None,
    };
    let call = ToolCall { id: CallId("call-1".into()), name: name.into(), input: ToolInput::Json(json!({}).into()) };
    host.call(&scope, &call, &json!({}), CancellationToken::new()).await
}

#[tokio::test]
async fn a_server_sees_what_it_needs_and_not_what_is_protected() {
    let fixture = Fixture::new();
    let here = fixture.dir.path().to_str().unwrap();
    let host = fixture.host("sh", &["-c", SERVER, "server", here]);
    until("the server is ready", || host.tools(None).len() == 4).await;
    if !lacks_landlock(1) {
        assert_eq!(call(&*host, "srv.secret").await, ToolOutput::ok(""));
    }
    assert_eq!(call(&*host, "srv.note").await, ToolOutput::ok("what the note says"));
    assert_eq!(call(&*host, "srv.limits").await, ToolOutput::ok("unlimited 0"));
    let variables = call(&*host, "srv.variables").await.content;
    let allowed = ["API_TOKEN", "HOME", "LANG", "LANGUAGE", "PATH", "PWD", "SHLVL", "TMPDIR", "_"];
    let strange: Vec<&str> =
        variables.split_whitespace().filter(|name| !allowed.contains(name) && !name.starts_with("LC_")).collect();
    assert!(strange.is_empty() && variables.contains("API_TOKEN"), "{variables}");
    fixture.end().await;
}

#[tokio::test]
async fn how_a_server_went_is_told() {
    let check = async |program: &str, arguments: &[&str], expected: &str| {
        let fixture = Fixture::new();
        let host = fixture.host(program, arguments);
        let mut said = call(&*host, "srv.any").await.content;
        while said.ends_with("it is starting") {
            tokio::task::yield_now().await;
            said = call(&*host, "srv.any").await.content;
        }
        assert_eq!(&*said, format!("the MCP server `srv` is not there now: {expected}"));
        fixture.end().await;
    };
    check("/nonexistent", &[], "cannot start `/nonexistent`: No such file or directory (os error 2)").await;
    let broken = "it ended without introducing itself: it ended with exit status: 2: no module";
    check("sh", &["-c", "echo 'no module' >&2; exit 2"], broken).await;
    let killed = "it ended without introducing itself: it ended with signal: 9 (SIGKILL)";
    check("sh", &["-c", "kill -KILL $$"], killed).await;
}

#[tokio::test]
async fn a_server_ends_with_everything_it_started() {
    let (fixture, mark) = (Fixture::new(), mark());
    let script = format!(
        "setsid sleep {mark} & (setsid nohup sleep {mark} >/dev/null 2>&1 &); trap '' TERM; {SERVER}; sleep {mark}"
    );
    let host = fixture.host("sh", &["-c", &script, "server", "."]);
    until("the server is ready", || host.tools(None).len() == 4).await;
    // Its shell and two times `sleep`.
    let marked = Marked::at_least(3, &mark).await;
    fixture.end().await;
    marked.ended().await;
    assert_eq!(Marked::find(&mark).count(), 0);
}

#[tokio::test]
async fn a_killed_server_takes_its_mcp_servers_along() {
    let (fixture, mark) = (Fixture::new(), mark());
    let script = format!("setsid sleep {mark} & (setsid nohup sleep {mark} >/dev/null 2>&1 &); sleep {mark}; true");
    let mut server = tokio::process::Command::new(jailer());
    server.arg("mcp").arg(fixture.dir.path().join("data")).arg(&script).stdout(Stdio::null()).kill_on_drop(true);
    let mut server = server.spawn().unwrap();
    // The server, its MCP server and three times `sleep`.
    let marked = Marked::at_least(5, &mark).await;
    kill_process(Pid::from_raw(server.id().unwrap().try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
    marked.ended().await;
    until("those born meanwhile ended too", || Marked::find(&mark).count() == 0).await;
    server.wait().await.unwrap();
}
