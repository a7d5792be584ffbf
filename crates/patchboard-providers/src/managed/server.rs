//! Keeps one server process running behind an address that never changes.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::child::{Announcement, ServerProcess};
use super::front::{self, Upstream};
use super::{Error, Prepared};

/// A running server; dropping it stops the process, as does the token it was started with.
#[derive(Debug)]
pub struct ManagedServer {
    address: SocketAddr,
    api_key: SecretString,
    model_name: String,
    announcement: Announcement,
    pub(super) upstream: watch::Receiver<Upstream>,
    _stop: DropGuard,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerStatus {
    Ready,
    /// The process died and its successor is not ready yet; requests wait for it for a while.
    Restarting,
    Stopped,
}

impl ManagedServer {
    /// Returns when the server answers. A server that cannot start at all is an error; one that dies later is
    /// restarted until `stop`. The process and all tasks end soon after `stop`; the tracker knows when.
    pub async fn start(prepared: Prepared, stop: &CancellationToken, tracker: &TaskTracker) -> Result<Self, Error> {
        Self::start_with(prepared, Timing::default(), stop, tracker).await
    }

    pub(super) async fn start_with(
        prepared: Prepared,
        timing: Timing,
        stop: &CancellationToken,
        tracker: &TaskTracker,
    ) -> Result<Self, Error> {
        let api_key = random_key()?;
        // Bound once and kept: nobody else can take the address while the process behind it restarts.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(|source| Error::NoPort { source })?;
        let address = listener.local_addr().map_err(|source| Error::NoPort { source })?;

        let started = Instant::now();
        let process = ServerProcess::launch(&prepared, &api_key, stop, tracker).await?;
        let announcement = process.announcement;
        tracing::info!(
            model.name = prepared.model_name,
            duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            "local model ready"
        );

        let stop = stop.child_token();
        let (say, upstream) = watch::channel(Upstream::Ready(announcement.address()));
        tracker.spawn(front::serve(listener, upstream.clone(), stop.clone(), tracker.clone()));
        let model_name = prepared.model_name.clone();
        let keeper = Keeper { prepared, api_key: api_key.clone(), timing, say, tracker: tracker.clone() };
        tracker.spawn(keeper.keep(process, stop.clone()));
        Ok(Self { address, api_key, model_name, announcement, upstream, _stop: stop.drop_guard() })
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
        self.announcement.context_tokens
    }

    /// Whether the model's chat template has a place for tools; where not, the server drops tool definitions silently.
    pub fn understands_tools(&self) -> bool {
        self.announcement.tools
    }

    pub fn status(&self) -> ServerStatus {
        match *self.upstream.borrow() {
            Upstream::Ready(_) => ServerStatus::Ready,
            Upstream::Restarting => ServerStatus::Restarting,
            Upstream::Stopped => ServerStatus::Stopped,
        }
    }
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
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            first_delay: Duration::from_millis(250),
            longest_delay: Duration::from_secs(30),
            settled_after: Duration::from_secs(60),
            farewell: Duration::from_secs(2),
        }
    }
}

impl Timing {
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
    tracker: TaskTracker,
}

impl Keeper {
    async fn keep(self, first: ServerProcess, stop: CancellationToken) {
        let mut process = first;
        let mut failures = 0;
        loop {
            let since = Instant::now();
            let (status, output) = tokio::select! {
                death = process.died() => death,
                () = stop.cancelled() => {
                    self.say.send_replace(Upstream::Stopped);
                    process.shut_down(self.timing.farewell).await;
                    return;
                }
            };
            self.say.send_replace(Upstream::Restarting);
            if since.elapsed() >= self.timing.settled_after {
                failures = 0;
            }
            tracing::warn!(model.name = self.prepared.model_name, status, output, "local model died");
            let Some(next) = self.revive(&mut failures, &stop).await else {
                self.say.send_replace(Upstream::Stopped);
                return;
            };
            process = next;
            self.say.send_replace(Upstream::Ready(process.announcement.address()));
            tracing::info!(model.name = self.prepared.model_name, "local model ready again");
        }
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
