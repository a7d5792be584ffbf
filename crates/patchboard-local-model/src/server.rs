//! Keeps one server process behind a fixed address: started on demand, restarted when it exits, stopped when it has
//! been idle for a while.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use patchboard_core::backoff::BackoffSchedule;
use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::activity::{IdleState, ServerActivity, ServerLease};
use super::child::ServerProcess;
use super::proxy::{self, BackendState};
use super::{Error, PreparedServer};

/// A server at an address of its own, running or asleep. Dropping it stops the process, as does cancelling the token it
/// was created with.
#[derive(Debug)]
pub struct ManagedServer {
    address: SocketAddr,
    api_key: SecretString,
    model_name: String,
    context_tokens: u32,
    tools: bool,
    pub(super) state: watch::Receiver<BackendState>,
    activity: ServerActivity,
    _stop: DropGuard,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerStatus {
    /// No process; the next call starts one.
    Asleep,
    Starting,
    Ready,
    /// The process exited and its replacement is not ready yet; requests wait a bounded time.
    Restarting,
    /// The start failed; the next call tries again.
    Failed,
    Stopped,
}

impl ManagedServer {
    /// Returns when the server is ready. A failed first start is an error; a server that exits later is restarted until
    /// `stop`. The process and all tasks, which the tracker tracks, end soon after `stop`.
    pub async fn start(
        prepared: PreparedServer,
        stop: &CancellationToken,
        tracker: &TaskTracker,
    ) -> Result<Self, Error> {
        let timing = SupervisorTiming::of(&prepared);
        Self::start_with(prepared, timing, stop, tracker).await
    }

    /// Without starting a process: the first call starts it. Only errors of the machine are returned here.
    pub async fn start_asleep(
        prepared: PreparedServer,
        stop: &CancellationToken,
        tracker: &TaskTracker,
    ) -> Result<Self, Error> {
        let timing = SupervisorTiming::of(&prepared);
        Self::start_asleep_with(prepared, timing, stop, tracker).await
    }

    pub(super) async fn start_with(
        prepared: PreparedServer,
        timing: SupervisorTiming,
        stop: &CancellationToken,
        tracker: &TaskTracker,
    ) -> Result<Self, Error> {
        let opening = ServerEndpoint::bind().await?;
        let process = launch(&prepared, &opening.api_key, stop, tracker).await?;
        Ok(opening.into_server(prepared, Some(process), timing, stop, tracker))
    }

    pub(super) async fn start_asleep_with(
        prepared: PreparedServer,
        timing: SupervisorTiming,
        stop: &CancellationToken,
        tracker: &TaskTracker,
    ) -> Result<Self, Error> {
        Ok(ServerEndpoint::bind().await?.into_server(prepared, None, timing, stop, tracker))
    }

    /// Resolves when requests can be sent, starting the process if there is none. The server stays awake as long as the
    /// lease is held.
    pub async fn ensure_running(&self) -> Result<ServerLease, Error> {
        let call = self.activity.acquire();
        let mut upstream = self.state.clone();
        loop {
            let current = upstream.borrow_and_update().clone();
            match current {
                // Requests wait for a replacement themselves, for a bounded time.
                BackendState::Ready(_) | BackendState::Restarting => return Ok(call),
                BackendState::Failed { calls, reason } if calls >= call.number => {
                    return Err(Error::WakeFailed { reason: reason.to_string() });
                }
                BackendState::Stopped => return Err(Error::Stopped),
                BackendState::Asleep | BackendState::Starting | BackendState::Failed { .. } => {}
            }
            if upstream.changed().await.is_err() {
                return Err(Error::Stopped);
            }
        }
    }

    /// Base URL for an OpenAI-compatible client; fixed for the server's lifetime, across restarts of the process.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Random per start, so that neither other users of the machine nor web pages can use the model.
    pub fn api_key(&self) -> &SecretString {
        &self.api_key
    }

    pub fn model_name(&self) -> &str {
        &self.model_name
    }

    /// Context window of one request in effect, which is less than configured if the model supports less.
    pub fn context_tokens(&self) -> u32 {
        self.context_tokens
    }

    /// Whether the model's chat template supports tools; if not, the server drops tool definitions silently.
    pub fn supports_tools(&self) -> bool {
        self.tools
    }

    pub fn status(&self) -> ServerStatus {
        match &*self.state.borrow() {
            BackendState::Asleep => ServerStatus::Asleep,
            BackendState::Starting => ServerStatus::Starting,
            BackendState::Ready(_) => ServerStatus::Ready,
            BackendState::Restarting => ServerStatus::Restarting,
            BackendState::Failed { .. } => ServerStatus::Failed,
            BackendState::Stopped => ServerStatus::Stopped,
        }
    }
}

/// Address and key, bound before any process exists.
struct ServerEndpoint {
    listener: TcpListener,
    address: SocketAddr,
    api_key: SecretString,
}

impl ServerEndpoint {
    async fn bind() -> Result<Self, Error> {
        let api_key = random_key()?;
        // Bound once and kept, so that no other process can take the address while the server sleeps or restarts.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(|source| Error::NoPort { source })?;
        let address = listener.local_addr().map_err(|source| Error::NoPort { source })?;
        Ok(Self { listener, address, api_key })
    }

    fn into_server(
        self,
        prepared: PreparedServer,
        process: Option<ServerProcess>,
        timing: SupervisorTiming,
        stop: &CancellationToken,
        tracker: &TaskTracker,
    ) -> ManagedServer {
        let Self { listener, address, api_key } = self;
        let stop = stop.child_token();
        let announced = process.as_ref().map(|process| process.announcement);
        let (say, upstream) = watch::channel(match announced {
            Some(announcement) => BackendState::Ready(announcement.address()),
            None => BackendState::Asleep,
        });
        let activity = ServerActivity::new(Instant::now());
        tracker.spawn(proxy::serve(listener, upstream.clone(), activity.clone(), stop.clone(), tracker.clone()));
        let (model_name, window, tools) =
            (prepared.model_name.clone(), prepared.context_tokens(), prepared.supports_tools());
        let (context_tokens, tools) =
            announced.map_or((window, tools), |announcement| (announcement.context_tokens, announcement.tools));
        let keeper = ServerSupervisor {
            prepared,
            api_key: api_key.clone(),
            timing,
            state: say,
            activity: activity.clone(),
            tracker: tracker.clone(),
        };
        tracker.spawn(keeper.supervise(process, stop.clone()));
        ManagedServer {
            address,
            api_key,
            model_name,
            context_tokens,
            tools,
            state: upstream,
            activity,
            _stop: stop.drop_guard(),
        }
    }
}

async fn launch(
    prepared: &PreparedServer,
    api_key: &SecretString,
    stop: &CancellationToken,
    tracker: &TaskTracker,
) -> Result<ServerProcess, Error> {
    let started = Instant::now();
    let process = ServerProcess::launch(prepared, api_key, stop, tracker).await?;
    tracing::info!(
        model.name = prepared.model_name,
        duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        "local model ready"
    );
    Ok(process)
}

/// Timing of the supervisor.
#[derive(Debug, Clone, Copy)]
pub(super) struct SupervisorTiming {
    /// Delay before the first restart; doubled for each further one.
    pub(super) first_delay: Duration,
    /// Maximum delay. Restarts never give up: memory or a disk may become available again.
    pub(super) longest_delay: Duration,
    /// A process that ran this long was stable; the delays start from the first again when it exits.
    pub(super) stable_after: Duration,
    /// How long a process may take to exit after its input was closed before it is killed.
    pub(super) stop_grace: Duration,
    /// Idle time after which the process is stopped.
    pub(super) idle_after: Duration,
}

impl Default for SupervisorTiming {
    fn default() -> Self {
        Self {
            first_delay: Duration::from_millis(250),
            longest_delay: Duration::from_secs(30),
            stable_after: Duration::from_secs(60),
            stop_grace: Duration::from_secs(2),
            idle_after: Duration::from_secs(600),
        }
    }
}

impl SupervisorTiming {
    fn of(prepared: &PreparedServer) -> Self {
        Self { idle_after: prepared.idle_after, ..Self::default() }
    }

    pub(super) fn delay(&self, failures: u32) -> Duration {
        BackoffSchedule::doubling(self.first_delay, self.longest_delay).delay(failures)
    }
}

struct ServerSupervisor {
    prepared: PreparedServer,
    api_key: SecretString,
    timing: SupervisorTiming,
    state: watch::Sender<BackendState>,
    activity: ServerActivity,
    tracker: TaskTracker,
}

/// Why a process ended.
enum ProcessEnd {
    Died { status: String, output: String },
    Idle,
    Stopped,
}

impl ServerSupervisor {
    async fn supervise(self, first: Option<ServerProcess>, stop: CancellationToken) {
        let mut process = first;
        loop {
            let running = match process.take() {
                Some(running) => running,
                None => match self.start_on_demand(&stop).await {
                    Some(woken) => {
                        self.mark_ready(&woken);
                        woken
                    }
                    None => break,
                },
            };
            if !self.serve_until_idle(running, &stop).await {
                break;
            }
            self.state.send_replace(BackendState::Asleep);
        }
        self.state.send_replace(BackendState::Stopped);
    }

    /// Runs and restarts the process until it is idle; returns whether the server goes to sleep rather than stop.
    async fn serve_until_idle(&self, mut process: ServerProcess, stop: &CancellationToken) -> bool {
        let mut failures = 0;
        loop {
            let since = Instant::now();
            let over = tokio::select! {
                (status, output) = process.wait_for_exit() => ProcessEnd::Died { status, output },
                () = self.wait_until_idle() => ProcessEnd::Idle,
                () = stop.cancelled() => ProcessEnd::Stopped,
            };
            match over {
                ProcessEnd::Died { status, output } => {
                    self.state.send_replace(BackendState::Restarting);
                    if since.elapsed() >= self.timing.stable_after {
                        failures = 0;
                    }
                    tracing::warn!(model.name = self.prepared.model_name, status, output, "local model died");
                    let Some(next) = self.restart(&mut failures, stop).await else { return false };
                    process = next;
                    self.mark_ready(&process);
                    tracing::info!(model.name = self.prepared.model_name, "local model ready again");
                }
                ProcessEnd::Idle => {
                    // State first: a call that arrives now waits for a new process instead of reaching one that is
                    // ending.
                    self.state.send_replace(BackendState::Asleep);
                    process.shut_down(self.timing.stop_grace).await;
                    tracing::info!(
                        model.name = self.prepared.model_name,
                        idle_s = self.timing.idle_after.as_secs(),
                        "local model stopped, nobody used it; the next call starts it again"
                    );
                    return true;
                }
                ProcessEnd::Stopped => {
                    self.state.send_replace(BackendState::Stopped);
                    process.shut_down(self.timing.stop_grace).await;
                    return false;
                }
            }
        }
    }

    fn mark_ready(&self, process: &ServerProcess) {
        self.activity.touch(Instant::now());
        self.state.send_replace(BackendState::Ready(process.announcement.address()));
    }

    /// Resolves when the server has been idle for long enough.
    async fn wait_until_idle(&self) {
        loop {
            match self.activity.idle_state(Instant::now(), self.timing.idle_after) {
                IdleState::Expired => return,
                IdleState::Busy => self.activity.changed().await,
                IdleState::RecheckAfter(left) => tokio::time::sleep(left).await,
            }
        }
    }

    /// Waits for a call, then starts the process. A failure is reported to the waiting calls; the next call tries
    /// again. `None` if stopped meanwhile.
    async fn start_on_demand(&self, stop: &CancellationToken) -> Option<ServerProcess> {
        let mut answered = 0;
        loop {
            while !self.is_wanted(answered) {
                tokio::select! {
                    () = self.activity.changed() => {}
                    () = stop.cancelled() => return None,
                }
            }
            answered = self.activity.calls_started();
            self.state.send_replace(BackendState::Starting);
            match launch(&self.prepared, &self.api_key, stop, &self.tracker).await {
                Ok(process) => return Some(process),
                Err(Error::Stopped) => return None,
                Err(error) => {
                    tracing::warn!(
                        model.name = self.prepared.model_name,
                        %error,
                        output = error.output(),
                        "local model does not start; the next call tries again"
                    );
                    self.state.send_replace(BackendState::Failed { calls: answered, reason: error.to_string().into() });
                }
            }
        }
    }

    /// Whether an active call has not yet received the result of a start.
    fn is_wanted(&self, answered: u64) -> bool {
        let waiting = self.activity.idle_state(Instant::now(), Duration::ZERO) == IdleState::Busy;
        waiting && self.activity.calls_started() > answered
    }

    /// `None` if stopped meanwhile.
    async fn restart(&self, failures: &mut u32, stop: &CancellationToken) -> Option<ServerProcess> {
        loop {
            let delay = self.timing.delay(*failures);
            *failures = failures.saturating_add(1);
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = stop.cancelled() => return None,
            }
            match ServerProcess::launch(&self.prepared, &self.api_key, stop, &self.tracker).await {
                Ok(process) => return Some(process),
                Err(Error::Stopped) => return None,
                Err(error) => tracing::warn!(
                    model.name = self.prepared.model_name,
                    %error,
                    output = error.output(),
                    "local model does not restart, trying again"
                ),
            }
        }
    }
}

/// 256 random bits from the operating system.
fn random_key() -> Result<SecretString, Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| Error::NoRandomness)?;
    Ok(SecretString::from(hex::encode(bytes)))
}
