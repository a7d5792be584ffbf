//! Keeps one server process behind an address that never changes: started when it is needed, restarted when it dies,
//! stopped when nobody has used it for a while.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::activity::{Activity, Call, Rest};
use super::child::ServerProcess;
use super::front::{self, Upstream};
use super::{Error, Prepared};

/// A server at an address of its own, awake or asleep; dropping it stops the process, as does the token it was made with.
#[derive(Debug)]
pub struct ManagedServer {
    address: SocketAddr,
    api_key: SecretString,
    model_name: String,
    context_tokens: u32,
    tools: bool,
    pub(super) upstream: watch::Receiver<Upstream>,
    activity: Activity,
    _stop: DropGuard,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerStatus {
    /// No process; the next call starts one.
    Asleep,
    Starting,
    Ready,
    /// The process died and its successor is not ready yet; requests wait for it for a while.
    Restarting,
    /// It did not start; the next call tries again.
    Failed,
    Stopped,
}

impl ManagedServer {
    /// Returns when the server answers. A server that cannot start at all is an error; one that dies later is
    /// restarted until `stop`. The process and all tasks end soon after `stop`; the tracker knows when.
    pub async fn start(prepared: Prepared, stop: &CancellationToken, tracker: &TaskTracker) -> Result<Self, Error> {
        let timing = Timing::of(&prepared);
        Self::start_with(prepared, timing, stop, tracker).await
    }

    /// The same without a process: the first call starts it. Only what is wrong with the machine is an error here.
    pub async fn asleep(prepared: Prepared, stop: &CancellationToken, tracker: &TaskTracker) -> Result<Self, Error> {
        let timing = Timing::of(&prepared);
        Self::asleep_with(prepared, timing, stop, tracker).await
    }

    pub(super) async fn start_with(
        prepared: Prepared,
        timing: Timing,
        stop: &CancellationToken,
        tracker: &TaskTracker,
    ) -> Result<Self, Error> {
        let opening = Opening::begin().await?;
        let process = launch(&prepared, &opening.api_key, stop, tracker).await?;
        Ok(opening.keep(prepared, Some(process), timing, stop, tracker))
    }

    pub(super) async fn asleep_with(
        prepared: Prepared,
        timing: Timing,
        stop: &CancellationToken,
        tracker: &TaskTracker,
    ) -> Result<Self, Error> {
        Ok(Opening::begin().await?.keep(prepared, None, timing, stop, tracker))
    }

    /// Resolves when requests can be sent, having started the process where there was none. The server stays awake for
    /// as long as the answer is held.
    pub async fn awake(&self) -> Result<Call, Error> {
        let call = self.activity.begin();
        let mut upstream = self.upstream.clone();
        loop {
            let current = upstream.borrow_and_update().clone();
            match current {
                // Requests wait for a successor themselves, for a while.
                Upstream::Ready(_) | Upstream::Restarting => return Ok(call),
                Upstream::Failed { calls, reason } if calls >= call.number => {
                    return Err(Error::NotAwake { reason: reason.to_string() });
                }
                Upstream::Stopped => return Err(Error::Stopped),
                Upstream::Asleep | Upstream::Starting | Upstream::Failed { .. } => {}
            }
            if upstream.changed().await.is_err() {
                return Err(Error::Stopped);
            }
        }
    }

    /// Where an OpenAI-compatible client connects; the same until the end, whatever happens to the process.
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

    /// The window of one request as the server set it up, which is less than asked for when the model has less.
    pub fn context_tokens(&self) -> u32 {
        self.context_tokens
    }

    /// Whether the model's chat template has a place for tools; where not, the server drops tool definitions silently.
    pub fn understands_tools(&self) -> bool {
        self.tools
    }

    pub fn status(&self) -> ServerStatus {
        match &*self.upstream.borrow() {
            Upstream::Asleep => ServerStatus::Asleep,
            Upstream::Starting => ServerStatus::Starting,
            Upstream::Ready(_) => ServerStatus::Ready,
            Upstream::Restarting => ServerStatus::Restarting,
            Upstream::Failed { .. } => ServerStatus::Failed,
            Upstream::Stopped => ServerStatus::Stopped,
        }
    }
}

/// An address and a key, before there is anything behind them.
struct Opening {
    listener: TcpListener,
    address: SocketAddr,
    api_key: SecretString,
}

impl Opening {
    async fn begin() -> Result<Self, Error> {
        let api_key = random_key()?;
        // Bound once and kept: nobody else can take the address while the process behind it sleeps or restarts.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(|source| Error::NoPort { source })?;
        let address = listener.local_addr().map_err(|source| Error::NoPort { source })?;
        Ok(Self { listener, address, api_key })
    }

    fn keep(
        self,
        prepared: Prepared,
        process: Option<ServerProcess>,
        timing: Timing,
        stop: &CancellationToken,
        tracker: &TaskTracker,
    ) -> ManagedServer {
        let Self { listener, address, api_key } = self;
        let stop = stop.child_token();
        let announced = process.as_ref().map(|process| process.announcement);
        let (say, upstream) = watch::channel(match announced {
            Some(announcement) => Upstream::Ready(announcement.address()),
            None => Upstream::Asleep,
        });
        let activity = Activity::new(Instant::now());
        tracker.spawn(front::serve(listener, upstream.clone(), activity.clone(), stop.clone(), tracker.clone()));
        let (model_name, window, tools) =
            (prepared.model_name.clone(), prepared.context_tokens(), prepared.understands_tools());
        let (context_tokens, tools) =
            announced.map_or((window, tools), |announcement| (announcement.context_tokens, announcement.tools));
        let keeper = Keeper {
            prepared,
            api_key: api_key.clone(),
            timing,
            say,
            activity: activity.clone(),
            tracker: tracker.clone(),
        };
        tracker.spawn(keeper.keep(process, stop.clone()));
        ManagedServer {
            address,
            api_key,
            model_name,
            context_tokens,
            tools,
            upstream,
            activity,
            _stop: stop.drop_guard(),
        }
    }
}

async fn launch(
    prepared: &Prepared,
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

/// How long to wait for what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    /// Before the first new attempt; doubled for every further one.
    pub(super) first_delay: Duration,
    /// Attempts never end: memory that was short or a disk that was away may come back.
    pub(super) longest_delay: Duration,
    /// A process that lived this long was fine; its death starts the delays from the first again.
    pub(super) settled_after: Duration,
    /// How long a process may take to notice that its input closed before it is killed.
    pub(super) farewell: Duration,
    /// How long nobody uses it before it sleeps.
    pub(super) idle_after: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            first_delay: Duration::from_millis(250),
            longest_delay: Duration::from_secs(30),
            settled_after: Duration::from_secs(60),
            farewell: Duration::from_secs(2),
            idle_after: Duration::from_secs(600),
        }
    }
}

impl Timing {
    fn of(prepared: &Prepared) -> Self {
        Self { idle_after: prepared.idle_after, ..Self::default() }
    }

    pub(super) fn delay(&self, failures: u32) -> Duration {
        let doubled = 2_u32.checked_pow(failures).unwrap_or(u32::MAX);
        self.first_delay.saturating_mul(doubled).min(self.longest_delay)
    }
}

struct Keeper {
    prepared: Prepared,
    api_key: SecretString,
    timing: Timing,
    say: watch::Sender<Upstream>,
    activity: Activity,
    tracker: TaskTracker,
}

/// Why a process is no longer used.
enum Over {
    Died { status: String, output: String },
    Idle,
    Stopped,
}

impl Keeper {
    async fn keep(self, first: Option<ServerProcess>, stop: CancellationToken) {
        let mut process = first;
        loop {
            let running = match process.take() {
                Some(running) => running,
                None => match self.wake(&stop).await {
                    Some(woken) => {
                        self.ready(&woken);
                        woken
                    }
                    None => break,
                },
            };
            if !self.run(running, &stop).await {
                break;
            }
            self.say.send_replace(Upstream::Asleep);
        }
        self.say.send_replace(Upstream::Stopped);
    }

    /// Runs and restarts it until nobody uses it any more; answers whether it goes to sleep rather than stop.
    async fn run(&self, mut process: ServerProcess, stop: &CancellationToken) -> bool {
        let mut failures = 0;
        loop {
            let since = Instant::now();
            let over = tokio::select! {
                (status, output) = process.died() => Over::Died { status, output },
                () = self.idle() => Over::Idle,
                () = stop.cancelled() => Over::Stopped,
            };
            match over {
                Over::Died { status, output } => {
                    self.say.send_replace(Upstream::Restarting);
                    if since.elapsed() >= self.timing.settled_after {
                        failures = 0;
                    }
                    tracing::warn!(model.name = self.prepared.model_name, status, output, "local model died");
                    let Some(next) = self.revive(&mut failures, stop).await else { return false };
                    process = next;
                    self.ready(&process);
                    tracing::info!(model.name = self.prepared.model_name, "local model ready again");
                }
                Over::Idle => {
                    // Said first: a call that comes now waits for a new process instead of reaching one that ends.
                    self.say.send_replace(Upstream::Asleep);
                    process.shut_down(self.timing.farewell).await;
                    tracing::info!(
                        model.name = self.prepared.model_name,
                        idle_s = self.timing.idle_after.as_secs(),
                        "local model stopped, nobody used it; the next call starts it again"
                    );
                    return true;
                }
                Over::Stopped => {
                    self.say.send_replace(Upstream::Stopped);
                    process.shut_down(self.timing.farewell).await;
                    return false;
                }
            }
        }
    }

    fn ready(&self, process: &ServerProcess) {
        self.activity.touch(Instant::now());
        self.say.send_replace(Upstream::Ready(process.announcement.address()));
    }

    /// Resolves when it has been unused for long enough.
    async fn idle(&self) {
        loop {
            match self.activity.rest(Instant::now(), self.timing.idle_after) {
                Rest::Due => return,
                Rest::Busy => self.activity.changed().await,
                Rest::QuietFor(left) => tokio::time::sleep(left).await,
            }
        }
    }

    /// Waits for a call, then starts the process. A failure is told to the calls that waited; the next one tries again.
    /// Nothing when stopped meanwhile.
    async fn wake(&self, stop: &CancellationToken) -> Option<ServerProcess> {
        let mut answered = 0;
        loop {
            while !self.is_wanted(answered) {
                tokio::select! {
                    () = self.activity.changed() => {}
                    () = stop.cancelled() => return None,
                }
            }
            answered = self.activity.begun();
            self.say.send_replace(Upstream::Starting);
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
                    self.say.send_replace(Upstream::Failed { calls: answered, reason: error.to_string().into() });
                }
            }
        }
    }

    /// Is there a call under way that has not been told of a failed start?
    fn is_wanted(&self, answered: u64) -> bool {
        let waiting = self.activity.rest(Instant::now(), Duration::ZERO) == Rest::Busy;
        waiting && self.activity.begun() > answered
    }

    /// Nothing when stopped meanwhile.
    async fn revive(&self, failures: &mut u32, stop: &CancellationToken) -> Option<ServerProcess> {
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

/// 256 bits from the cryptographic provider that the crate's TLS uses.
fn random_key() -> Result<SecretString, Error> {
    let mut bytes = [0; 32];
    rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes).map_err(|_| Error::NoRandomness)?;
    let key: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(SecretString::from(key))
}
