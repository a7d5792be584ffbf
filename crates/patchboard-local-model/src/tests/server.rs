//! The keeper with a script in place of the launcher: a real process that announces, dies, returns and ends.

use std::num::{NonZeroU8, NonZeroU32};
use std::sync::Arc;
use std::time::Duration;

use secrecy::ExposeSecret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{TestDir, is_alive, kill, within};
use crate::gguf::ModelMetadata;
use crate::server::SupervisorTiming;
use crate::{Error, ManagedServer, PreparedServer, ServerStatus};

/// Notes its process and settings, then announces the port in `port` and lives as long as its input.
const GOOD: &str = r#"
echo $$ >> "$dir/pids"
read -r settings && printf '%s' "$settings" > "$dir/settings"
echo "{\"port\": $(cat "$dir/port"), \"context_tokens\": 4096, \"tools\": true}"
exec cat > /dev/null
"#;

const QUICK: SupervisorTiming = SupervisorTiming {
    first_delay: Duration::from_millis(1),
    longest_delay: Duration::from_millis(4),
    stable_after: Duration::from_secs(60),
    stop_grace: Duration::from_secs(20),
    idle_after: Duration::from_secs(600),
};

struct Stage {
    dir: TestDir,
    stop: CancellationToken,
    tracker: TaskTracker,
    upstream: Arc<TcpListener>,
}

impl Stage {
    async fn new() -> Self {
        let dir = TestDir::new();
        let upstream = TcpListener::bind("127.0.0.1:0").await.unwrap();
        dir.write("port", upstream.local_addr().unwrap().port().to_string());
        Self { dir, stop: CancellationToken::new(), tracker: TaskTracker::new(), upstream: Arc::new(upstream) }
    }

    fn prepared(&self, script: &str, startup: Duration) -> PreparedServer {
        PreparedServer {
            directory: self.dir.0.clone(),
            python: self.dir.script("python", script),
            launcher: self.dir.path("launcher.py"),
            weights: self.dir.path("model.gguf"),
            model_name: "small".to_owned(),
            context_tokens: NonZeroU32::new(8192).unwrap(),
            parallel: NonZeroU8::new(2).unwrap(),
            threads: None,
            startup_timeout: startup,
            idle_after: Duration::from_secs(600),
            metadata: ModelMetadata { trained_window: Some(2048), tools: Some(false) },
        }
    }

    async fn start(&self, script: &str, startup: Duration, timing: SupervisorTiming) -> Result<ManagedServer, Error> {
        let prepared = self.prepared(script, startup);
        within(ManagedServer::start_with(prepared, timing, &self.stop, &self.tracker)).await
    }

    async fn asleep(&self, script: &str, timing: SupervisorTiming) -> ManagedServer {
        let prepared = self.prepared(script, super::GUARD);
        ManagedServer::start_asleep_with(prepared, timing, &self.stop, &self.tracker).await.unwrap()
    }

    async fn started(&self, script: &str) -> ManagedServer {
        self.start(script, super::GUARD, QUICK).await.unwrap()
    }

    /// One exchange through the public address with whatever is behind it.
    async fn exchange(&self, server: &ManagedServer) -> String {
        let address = server.base_url().replace("http://", "").replace("/v1", "");
        let upstream = self.upstream.clone();
        let answer = self.tracker.spawn(async move {
            let (mut peer, _) = upstream.accept().await.unwrap();
            let mut asked = [0; 4];
            peer.read_exact(&mut asked).await.unwrap();
            peer.write_all(b"pong").await.unwrap();
        });
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"ping").await.unwrap();
        let mut answered = String::new();
        within(client.read_to_string(&mut answered)).await.unwrap();
        answer.await.unwrap();
        answered
    }

    async fn ended(&self) {
        self.tracker.close();
        within(self.tracker.wait()).await;
    }

    /// A process killed very early has noted nothing.
    fn assert_no_process_left(&self) {
        if self.dir.path("pids").exists() {
            assert!(!self.dir.read("pids").lines().any(is_alive));
        }
    }

    fn last_pid(&self) -> String {
        self.dir.read("pids").lines().last().unwrap().to_owned()
    }
}

#[tokio::test]
async fn serves_on_loopback_with_a_secret_key() {
    let stage = Stage::new().await;
    let server = stage.started(GOOD).await;
    assert!(server.base_url().starts_with("http://127.0.0.1:") && server.base_url().ends_with("/v1"));
    assert_eq!((server.model_name(), server.context_tokens(), server.supports_tools()), ("small", 4096, true));
    assert_eq!(server.status(), ServerStatus::Ready);
    assert_eq!(stage.exchange(&server).await, "pong");

    let key = server.api_key().expose_secret();
    assert_eq!(key.len(), 64);
    assert!(!format!("{server:?}").contains(key), "never printed");
    let settings: serde_json::Value = serde_json::from_str(&stage.dir.read("settings")).unwrap();
    assert_eq!(
        settings,
        serde_json::json!({
            "weights": stage.dir.path("model.gguf"), "model_name": "small", "api_key": key,
            "context_tokens": 8192, "parallel": 2, "threads": null, "prompt_cache_mib": 256,
        })
    );
    let other = stage.started(GOOD).await;
    assert_ne!(other.api_key().expose_secret(), key, "another start, another key");
}

#[tokio::test]
async fn a_dead_server_returns_at_the_same_address() {
    let stage = Stage::new().await;
    let server = stage.started(GOOD).await;
    let (address, first) = (server.base_url(), stage.last_pid());
    let mut upstream = server.state.clone();
    upstream.mark_unchanged();
    kill(&first);
    within(upstream.changed()).await.unwrap();
    // Asked while nobody serves: the client waits and gets its answer from the successor.
    assert_eq!(stage.exchange(&server).await, "pong");
    assert_eq!(server.base_url(), address);
    assert_ne!(stage.last_pid(), first);
    assert!(is_alive(&stage.last_pid()));
}

#[tokio::test]
async fn failing_restarts_are_tried_again() {
    let stage = Stage::new().await;
    // The first run is good and is killed; the next two fail in different ways; the fourth is good.
    let flaky = format!(
        "echo run >> \"$dir/runs\"\ncase $(wc -l < \"$dir/runs\" | tr -d ' ') in 2) echo boom >&2; exit 7 ;; \
         3) read -r ignored; echo 'not an announcement'; exit 0 ;; esac\n{GOOD}"
    );
    let server = stage.started(&flaky).await;
    let mut upstream = server.state.clone();
    upstream.mark_unchanged();
    kill(&stage.last_pid());
    within(upstream.changed()).await.unwrap();
    while server.status() != ServerStatus::Ready {
        within(upstream.changed()).await.unwrap();
    }
    assert_eq!(stage.dir.read("runs").lines().count(), 4);
    assert_eq!(stage.exchange(&server).await, "pong");
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why() {
    let stage = Stage::new().await;
    let script = "read -r settings; echo 'loading' >&2; echo 'error: bad tensor' >&2; exit 3";
    let error = stage.start(script, super::GUARD, QUICK).await.unwrap_err();
    assert_eq!(error.to_string(), "the model server ended while starting (exit status: 3): error: bad tensor");
    assert_eq!(error.output(), Some("loading\nerror: bad tensor"));
    stage.ended().await;
}

#[tokio::test]
async fn a_start_has_a_time_limit() {
    let stage = Stage::new().await;
    let script = "echo $$ > \"$dir/pids\"; echo 'reading tensors' >&2; exec sleep 600";
    let limit = Duration::from_millis(300);
    match stage.start(script, limit, QUICK).await {
        Err(Error::StartupTimeout { limit: reported, .. }) => assert_eq!(reported, limit),
        other => panic!("{other:?}"),
    }
    stage.ended().await;
    stage.assert_no_process_left();
}

#[tokio::test]
async fn stopping_ends_the_process_and_every_task() {
    let stage = Stage::new().await;
    let server = stage.started(GOOD).await;
    let pid = stage.last_pid();
    assert!(is_alive(&pid));
    stage.stop.cancel();
    stage.ended().await;
    assert!(!is_alive(&pid));
    assert_eq!(server.status(), ServerStatus::Stopped);
}

#[tokio::test]
async fn dropping_the_handle_stops_it_too() {
    let stage = Stage::new().await;
    let server = stage.started(GOOD).await;
    let pid = stage.last_pid();
    drop(server);
    stage.ended().await;
    assert!(!is_alive(&pid));
    assert!(!stage.stop.is_cancelled(), "the caller's token is the caller's");
}

#[tokio::test]
async fn a_process_that_does_not_listen_is_killed() {
    let stage = Stage::new().await;
    let stubborn = GOOD.replace("exec cat > /dev/null", "exec sleep 600");
    let timing = SupervisorTiming { stop_grace: Duration::from_millis(20), ..QUICK };
    let server = stage.start(&stubborn, super::GUARD, timing).await.unwrap();
    let pid = stage.last_pid();
    drop(server);
    stage.ended().await;
    assert!(!is_alive(&pid));
}

#[tokio::test]
async fn stopping_during_the_start_leaves_no_process() {
    let stage = Stage::new().await;
    let script = "echo $$ > \"$dir/pids\"; exec sleep 600";
    stage.stop.cancel();
    assert!(matches!(stage.start(script, super::GUARD, QUICK).await, Err(Error::Stopped)));
    stage.ended().await;
    stage.assert_no_process_left();
}

async fn until(server: &ManagedServer, status: ServerStatus) {
    let mut upstream = server.state.clone();
    while server.status() != status {
        within(upstream.changed()).await.unwrap();
    }
}

#[tokio::test]
async fn asleep_there_is_no_process_and_the_first_call_starts_it() {
    let stage = Stage::new().await;
    let server = stage.asleep(GOOD, QUICK).await;
    assert_eq!((server.status(), stage.dir.path("pids").exists()), (ServerStatus::Asleep, false));
    // What the weights say, for nobody else can be asked.
    assert_eq!((server.context_tokens(), server.supports_tools()), (2048, false));
    let call = within(server.ensure_running()).await.unwrap();
    assert_eq!(server.status(), ServerStatus::Ready);
    assert!(is_alive(&stage.last_pid()));
    assert_eq!(stage.exchange(&server).await, "pong");
    drop(call);
}

#[tokio::test]
async fn calls_at_once_start_one_process() {
    let stage = Stage::new().await;
    let server = stage.asleep(GOOD, QUICK).await;
    let calls = futures_util::future::join_all((0..8).map(|_| server.ensure_running()));
    assert!(within(calls).await.iter().all(Result::is_ok));
    assert_eq!(stage.dir.read("pids").lines().count(), 1);
}

#[tokio::test]
async fn a_client_of_the_address_wakes_it_too() {
    let stage = Stage::new().await;
    let server = stage.asleep(GOOD, QUICK).await;
    assert_eq!(stage.exchange(&server).await, "pong");
    assert_eq!(server.status(), ServerStatus::Ready);
}

#[tokio::test]
async fn unused_it_sleeps_and_a_call_under_way_keeps_it_awake() {
    let stage = Stage::new().await;
    let timing = SupervisorTiming { idle_after: Duration::from_millis(1), ..QUICK };
    let server = stage.asleep(GOOD, timing).await;
    let call = within(server.ensure_running()).await.unwrap();
    let first = stage.last_pid();
    // Far longer than it may be idle, as its own clock goes.
    assert_eq!(stage.exchange(&server).await, "pong");
    assert!(is_alive(&first));
    drop(call);
    until(&server, ServerStatus::Asleep).await;
    let call = within(server.ensure_running()).await.unwrap();
    assert_ne!(stage.last_pid(), first);
    assert!(!is_alive(&first), "the old one is gone before the new one starts");
    assert_eq!(stage.exchange(&server).await, "pong", "at the same address");
    drop(call);
}

#[tokio::test]
async fn a_server_started_at_once_sleeps_as_well() {
    let stage = Stage::new().await;
    let timing = SupervisorTiming { idle_after: Duration::from_millis(1), ..QUICK };
    let server = stage.start(GOOD, super::GUARD, timing).await.unwrap();
    until(&server, ServerStatus::Asleep).await;
    assert_eq!(stage.exchange(&server).await, "pong");
}

#[tokio::test]
async fn a_failed_start_is_told_and_the_next_call_tries_again() {
    let stage = Stage::new().await;
    let flaky = format!(
        "echo run >> \"$dir/runs\"\ncase $(wc -l < \"$dir/runs\" | tr -d ' ') in 1) read -r ignored; echo 'no memory' >&2; \
         exit 7 ;; esac\n{GOOD}"
    );
    let server = stage.asleep(&flaky, QUICK).await;
    let error = within(server.ensure_running()).await.unwrap_err().to_string();
    assert!(error.starts_with("the local model does not start: ") && error.ends_with("no memory"), "{error}");
    assert_eq!(server.status(), ServerStatus::Failed);
    within(server.ensure_running()).await.unwrap();
    assert_eq!(stage.dir.read("runs").lines().count(), 2);
}

#[tokio::test]
async fn stopping_ends_a_sleeping_server_and_tells_who_waits() {
    let stage = Stage::new().await;
    let server = stage.asleep("exec sleep 600", QUICK).await;
    let waiting = server.ensure_running();
    stage.stop.cancel();
    assert!(matches!(within(waiting).await, Err(Error::Stopped)));
    stage.ended().await;
    assert_eq!(server.status(), ServerStatus::Stopped);
}
