//! A stub MCP server and its test fixture.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use patchboard_core::id::{CallId, MemoryOwner, SessionKey};
use patchboard_core::model::{ToolCall, ToolInput};
use patchboard_core::port::ToolHost;
use patchboard_core::port::{ProgressSink, ToolScope};
use patchboard_core::tool::ToolOutput;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::mcp::{LaunchMode, McpHosts, McpServerOptions, McpTransport, MemoryPins};

/// Speaks the protocol over a pipe, as wrongly as it is told to.
#[derive(Debug, Default)]
pub(super) struct Stub {
    pub(super) tools: Mutex<Vec<Value>>,
    /// Tools on one page of the list; 0 for all.
    pub(super) page: AtomicUsize,
    /// Answers nothing at all.
    pub(super) is_mute: AtomicBool,
    pub(super) starts: AtomicUsize,
    seen: Mutex<Vec<Value>>,
    output_sender: Mutex<Option<mpsc::UnboundedSender<String>>>,
    tasks: TaskTracker,
}

pub(super) fn tool(name: &str) -> Value {
    json!({"name": name, "description": format!("does {name}"), "inputSchema": {"type": "object"}})
}

impl Stub {
    pub(super) fn new(tools: &[&str]) -> Arc<Self> {
        Arc::new(Self { tools: Mutex::new(tools.iter().map(|name| tool(name)).collect()), ..Self::default() })
    }

    pub(super) fn connect(self: Arc<Self>) -> DuplexStream {
        self.starts.fetch_add(1, Ordering::SeqCst);
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (reading, mut writing) = tokio::io::split(ours);
        let (output_sender, mut said) = mpsc::unbounded_channel::<String>();
        *self.output_sender.lock().unwrap() = Some(output_sender.clone());
        let stub = self.clone();
        self.tasks.spawn(async move {
            let mut lines = BufReader::new(reading).lines();
            loop {
                tokio::select! {
                    line = lines.next_line() => {
                        let Ok(Some(line)) = line else { break };
                        stub.hear(&serde_json::from_str(&line).unwrap(), &output_sender);
                    }
                    line = said.recv() => {
                        let Some(line) = line.filter(|line| line != "CUT") else { break };
                        if writing.write_all(format!("{line}\n").as_bytes()).await.is_err() {
                            break;
                        }
                    }
                }
            }
        });
        theirs
    }

    /// Sends a line to the connected client.
    pub(super) fn say(&self, line: impl Into<String>) {
        let output_sender = self.output_sender.lock().unwrap().clone();
        drop(output_sender.unwrap().send(line.into()));
    }

    pub(super) fn notify(&self, method: &str) {
        self.say(json!({"jsonrpc": "2.0", "method": method}).to_string());
    }

    /// Breaks the connection off.
    pub(super) fn cut(&self) {
        self.say("CUT");
    }

    /// Messages of that method so far.
    pub(super) fn seen(&self, method: &str) -> Vec<Value> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|message| message["method"] == method).cloned().collect()
    }

    fn hear(&self, message: &Value, output_sender: &mpsc::UnboundedSender<String>) {
        self.seen.lock().unwrap().push(message.clone());
        if self.is_mute.load(Ordering::SeqCst) {
            return;
        }
        for answer in self.answers(message) {
            drop(output_sender.send(answer));
        }
    }

    pub(super) fn answers(&self, message: &Value) -> Vec<String> {
        let id = &message["id"];
        let params = &message["params"];
        let result = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        match message["method"].as_str().unwrap_or_default() {
            "initialize" => vec![result(json!({
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "stub", "version": "1"},
            }))],
            "ping" => vec![result(json!({}))],
            "tools/list" => vec![result(self.list(params))],
            "tools/call" => self.call(id, params),
            _ => Vec::new(),
        }
    }

    fn list(&self, params: &Value) -> Value {
        let tools = self.tools.lock().unwrap();
        let page = match self.page.load(Ordering::SeqCst) {
            0 => tools.len().max(1),
            page => page,
        };
        let from: usize = params["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
        let until = (from + page).min(tools.len());
        let mut result = json!({"tools": tools[from..until]});
        if until < tools.len() {
            result["nextCursor"] = until.to_string().into();
        }
        result
    }

    fn call(&self, id: &Value, params: &Value) -> Vec<String> {
        let result = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        let text = |text: String| result(json!({"content": [{"type": "text", "text": text}]}));
        match params["name"].as_str().unwrap() {
            "hang" => Vec::new(),
            "fails" => vec![result(json!({"content": [{"type": "text", "text": "no luck"}], "isError": true}))],
            "refuses" => {
                vec![json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "not today"}}).to_string()]
            }
            "odd" => vec![result(json!({"content": [{"type": "hologram"}, {"type": "text", "text": "still here"}]}))],
            "garbage" => {
                let mut lines: Vec<String> = ["Starting up…", "{", "[]", "null", "{\"jsonrpc\": \"2.0\"}", "", "\u{0}"]
                    .map(str::to_owned)
                    .into();
                lines.push(json!({"jsonrpc": "2.0", "id": 4711, "result": {}}).to_string());
                lines.push("x".repeat(9 * 1024 * 1024));
                lines.push(text("after all".to_owned()));
                lines
            }
            "progress" => {
                let token = &params["_meta"]["progressToken"];
                let told =
                    |params: Value| json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
                vec![
                    told(json!({"progressToken": token, "progress": 1, "total": 2})).to_string(),
                    told(json!({"progressToken": token, "progress": 2, "message": "nearly"})).to_string(),
                    told(json!({"progressToken": 4711, "progress": 3, "message": "not yours"})).to_string(),
                ]
            }
            name => vec![text(format!("{name} {}", params["arguments"]))],
        }
    }

    /// Answers the last call of `progress` or `hang`.
    pub(super) fn finish(&self) {
        let id = self.seen("tools/call").last().unwrap()["id"].clone();
        let result = json!({"content": [{"type": "text", "text": "finished"}]});
        self.say(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string());
    }
}

/// One server, hosted.
pub(super) struct Bench {
    pub(super) hosts: Arc<McpHosts>,
    pub(super) host: Arc<dyn ToolHost>,
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
}

impl Bench {
    pub(super) fn of(stub: &Arc<Stub>) -> Self {
        Self::with_pins(stub, Arc::default())
    }

    pub(super) fn with_pins(stub: &Arc<Stub>, pins: Arc<MemoryPins>) -> Self {
        let stub = stub.clone();
        Self::reaching(McpTransport::InProcess(Arc::new(move || stub.clone().connect())), pins)
    }

    pub(super) fn reaching(reach: McpTransport, pins: Arc<MemoryPins>) -> Self {
        let options = McpServerOptions {
            name: "srv".into(),
            transport: reach,
            start_timeout: Duration::from_secs(20),
            call_timeout: Duration::from_secs(30),
        };
        let tasks = TaskTracker::new();
        let stop = CancellationToken::new();
        let hosts = McpHosts::start(vec![options], &LaunchMode::Plain, pins, &tasks, &stop);
        let host = hosts.tool_hosts().remove(0);
        Self { hosts, host, tasks, stop }
    }

    pub(super) fn tools(&self) -> Vec<String> {
        self.host.tools(None).iter().map(|spec| spec.name.to_string()).collect()
    }

    /// Waits for the tools to be these.
    pub(super) async fn ready(&self, tools: &[&str]) {
        until(|| self.tools() == tools).await;
    }

    pub(super) async fn call(&self, name: &str, arguments: Value) -> ToolOutput {
        self.call_until(name, arguments, CancellationToken::new()).await
    }

    pub(super) async fn call_until(&self, name: &str, arguments: Value, stop: CancellationToken) -> ToolOutput {
        self.host.call(&scope(ProgressSink::default()), &call(name), &arguments, stop).await
    }

    pub(super) async fn end(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

pub(super) fn scope(progress: ProgressSink) -> ToolScope {
    ToolScope {
        session: SessionKey::conversation("default", "test", "me", "main"),
        owner: MemoryOwner::account("test", "me"),
        folder: None,
        folder_grant: None,
        progress,
        call_metadata: None,
    }
}

pub(super) fn call(name: &str) -> ToolCall {
    ToolCall { id: CallId("call-1".into()), name: name.into(), input: ToolInput::Json(json!({}).into()) }
}

/// With paused time this returns as soon as all tasks are idle; else it polls for a while.
pub(super) async fn until(happened: impl Fn() -> bool) {
    let moments = async {
        while !happened() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(3600), moments).await.expect("it did not happen");
}
