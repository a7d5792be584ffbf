//! A worker that is a program: what tests of pools start in jails. It listens where it is told, says what it has, and
//! tries the walls when asked. Started as the program that workers are forked from, it starts them.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{StreamExt, stream};
use patchboard_core::port::BoxStream;
use patchboard_proto::pb::bridge_service_server::{BridgeService, BridgeServiceServer};
use patchboard_proto::{pb, value};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tonic::{Request, Response, Status};

fn variable(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "workers are told by their environment")]
    std::env::var(name).ok()
}

pub(crate) fn run(arguments: &[&str]) -> io::Result<()> {
    if variable("PATCHBOARD_WARM").is_some() {
        return start_others(arguments);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(serve())
}

async fn serve() -> io::Result<()> {
    let socket: PathBuf = variable("PATCHBOARD_WORKER_SOCKET").ok_or(io::ErrorKind::InvalidInput)?.into();
    let listener = UnixListener::bind(&socket)?;
    announce(&format!("unix:{}", socket.display()))?;
    let incoming = stream::unfold(listener, |listener| async {
        Some((listener.accept().await.map(|(stream, _)| stream), listener))
    });
    let service = BridgeServiceServer::new(Worker).max_decoding_message_size(usize::MAX);
    let served = tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming).await;
    served.map_err(io::Error::other)
}

fn announce(place: &str) -> io::Result<()> {
    let file = variable("SNAKEPIT_READY_FILE").ok_or(io::ErrorKind::InvalidInput)?;
    let unfinished = format!("{file}.tmp");
    std::fs::write(&unfinished, format!("{place}\npid={}\n", std::process::id()))?;
    std::fs::rename(unfinished, file)
}

/// Orders are lines; the end of input is the end of all workers.
fn start_others(arguments: &[&str]) -> io::Result<()> {
    announce("warm")?;
    let children: Arc<Mutex<HashMap<u32, ()>>> = Arc::default();
    for line in io::stdin().lock().lines() {
        let order: Value = serde_json::from_str(&line?)?;
        if let Some(signal) = order.get("signal") {
            let number = |name: &str| signal[name].as_i64().and_then(|number| i32::try_from(number).ok());
            let is_own = number("pid")
                .and_then(|pid| u32::try_from(pid).ok())
                .is_some_and(|pid| children.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&pid));
            let signal = if number("signal") == Some(9) { Signal::KILL } else { Signal::TERM };
            if let Some(pid) = number("pid").and_then(Pid::from_raw).filter(|_| is_own) {
                kill_process(pid, signal)?;
            }
        } else {
            let own: Vec<String> = serde_json::from_value(order["spawn"]["args"].clone())?;
            let variables: BTreeMap<String, String> = serde_json::from_value(order["spawn"]["env"].clone())?;
            let mut command = Command::new("/proc/self/exe");
            command.arg("worker").args(arguments).args(own).envs(variables).env_remove("PATCHBOARD_WARM");
            let mut child = command.stdin(Stdio::null()).spawn()?;
            let (pid, children) = (child.id(), children.clone());
            children.lock().unwrap_or_else(PoisonError::into_inner).insert(pid, ());
            std::thread::spawn(move || {
                let status =
                    child.wait().map_or(-1, |status| status.code().or(status.signal().map(|n| -n)).unwrap_or(-1));
                children.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid);
                tell(&format!("patchboard: worker {pid} exited with {status}"));
            });
        }
    }
    let left: Vec<u32> = children.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect();
    for pid in left {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            kill_process(pid, Signal::TERM).unwrap_or(());
        }
    }
    Ok(())
}

fn tell(line: &str) {
    use std::io::Write;
    // Nobody listens any more: nobody misses it.
    writeln!(io::stderr(), "{line}").unwrap_or(());
}

struct Worker;

impl Worker {
    /// What the tool found out.
    async fn work(request: &pb::ExecuteToolRequest) -> Value {
        let argument = request.parameters.get("value");
        let argument =
            argument.and_then(|any| value::decode(any, value::ParameterKind::Other).ok()).unwrap_or(Value::Null);
        let text = argument.as_str().unwrap_or_default();
        let told = |done: io::Result<String>| match done {
            Ok(said) => json!(said),
            Err(error) => json!(error.kind().to_string()),
        };
        match request.tool_name.as_str() {
            "pid" => json!(std::process::id()),
            "read" => told(std::fs::read_to_string(text)),
            "write" => told(std::fs::write(text, "written").map(|()| "written".to_owned())),
            "run" => told(
                Command::new("/bin/sh")
                    .arg("-c")
                    .arg(text)
                    .output()
                    .map(|output| String::from_utf8_lossy(&output.stdout).into_owned()),
            ),
            "connect" => {
                let port = argument.as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or_default();
                told(std::net::TcpStream::connect(("127.0.0.1", port)).map(|_| "connected".to_owned()))
            }
            "bind" => {
                let port = argument.as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or_default();
                told(std::net::TcpListener::bind(("127.0.0.1", port)).map(|_| "bound".to_owned()))
            }
            "hold" => std::future::pending().await,
            _ => argument,
        }
    }
}

#[tonic::async_trait]
impl BridgeService for Worker {
    async fn ping(&self, _: Request<pb::PingRequest>) -> Result<Response<pb::PingResponse>, Status> {
        Ok(Response::new(pb::PingResponse::default()))
    }

    async fn initialize_session(
        &self,
        _: Request<pb::InitializeSessionRequest>,
    ) -> Result<Response<pb::InitializeSessionResponse>, Status> {
        let tools = ["echo", "pid", "read", "write", "run", "connect", "bind", "hold"];
        let tools = tools.map(|name| (name.to_owned(), pb::ToolSpec { name: name.to_owned(), ..Default::default() }));
        let answer =
            pb::InitializeSessionResponse { success: true, available_tools: tools.into(), ..Default::default() };
        let mut answer = Response::new(answer);
        answer.metadata_mut().insert("x-patchboard-capacity", tonic::metadata::MetadataValue::from_static("4"));
        Ok(answer)
    }

    async fn cleanup_session(
        &self,
        _: Request<pb::CleanupSessionRequest>,
    ) -> Result<Response<pb::CleanupSessionResponse>, Status> {
        Ok(Response::new(pb::CleanupSessionResponse { success: true, resources_cleaned: 0 }))
    }

    async fn get_session(&self, _: Request<pb::GetSessionRequest>) -> Result<Response<pb::GetSessionResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn heartbeat(&self, _: Request<pb::HeartbeatRequest>) -> Result<Response<pb::HeartbeatResponse>, Status> {
        Ok(Response::new(pb::HeartbeatResponse { server_time: None, session_valid: true }))
    }

    async fn execute_tool(
        &self,
        request: Request<pb::ExecuteToolRequest>,
    ) -> Result<Response<pb::ExecuteToolResponse>, Status> {
        let request = request.into_inner();
        let binary_result = request.binary_parameters.values().next().cloned().unwrap_or_default();
        let result = Some(value::encode(&Self::work(&request).await));
        Ok(Response::new(pb::ExecuteToolResponse { success: true, result, binary_result, ..Default::default() }))
    }

    type ExecuteStreamingToolStream = BoxStream<Result<pb::ToolChunk, Status>>;

    async fn execute_streaming_tool(
        &self,
        _: Request<pb::ExecuteToolRequest>,
    ) -> Result<Response<Self::ExecuteStreamingToolStream>, Status> {
        Ok(Response::new(stream::empty().boxed()))
    }

    async fn register_tools(
        &self,
        _: Request<pb::RegisterToolsRequest>,
    ) -> Result<Response<pb::RegisterToolsResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn get_exposed_elixir_tools(
        &self,
        _: Request<pb::GetExposedElixirToolsRequest>,
    ) -> Result<Response<pb::GetExposedElixirToolsResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn execute_elixir_tool(
        &self,
        _: Request<pb::ExecuteElixirToolRequest>,
    ) -> Result<Response<pb::ExecuteElixirToolResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    type StreamTelemetryStream = BoxStream<Result<pb::TelemetryEvent, Status>>;

    async fn stream_telemetry(
        &self,
        _: Request<tonic::Streaming<pb::TelemetryControl>>,
    ) -> Result<Response<Self::StreamTelemetryStream>, Status> {
        Err(Status::unimplemented(""))
    }
}
