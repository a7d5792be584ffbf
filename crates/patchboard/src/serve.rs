//! The running server. Startup binds all listeners before it announces any; shutdown records everything before it ends.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use metrics_exporter_prometheus::PrometheusHandle;
use patchboard_config::section::{PairingPolicy, WebhookVerification};
use patchboard_config::types::{ListenAddress, SystemUser};
use patchboard_config::{Config, Secrets};
use patchboard_core::board::{DrainReport, RetentionPolicy};
use patchboard_core::caller::{Caller, GrantSet, Principal, Surface};

use patchboard_core::command::ReloadSettings;
use patchboard_core::keys::KeyRing;
use patchboard_core::reloadable::Reloadable;
use patchboard_core::{Board, BoardError};
use patchboard_http::ClientPool;
use patchboard_surfaces::auth::{AuthGate, FailedAttempts};
use patchboard_surfaces::gateway::{self, GatewayOptions};
use patchboard_surfaces::guard::OriginGuard;
use patchboard_surfaces::hub::{self, HubOptions, HubTimeouts};
use patchboard_surfaces::limit::{ClientLimits, LiveLimits, RateLimit};
use patchboard_surfaces::listen::{self, ConnectionSlots, Listener};
use patchboard_surfaces::local_users::{self, LocalUsers, PeerLookupSupport};
use patchboard_surfaces::mcp::{self, McpOptions};
use patchboard_surfaces::pump::{self, PumpLimits};
use patchboard_surfaces::runs::{self, RunsOptions};
use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::VERSION;
use crate::assemble::{self, BoardAssembly, LiveEmbedder, RunningPools};
use crate::data_dir::process::ProcessState;
use crate::data_dir::{self, DataDir, ServerRecord};
use crate::effective_config::EffectiveConfig;
use crate::heap_trim;
use crate::system::SystemClock;
use crate::telemetry::otlp::TracePipeline;
use crate::telemetry::watch_worker_events;
use crate::telemetry::{LogFeed, ProcessMonitor};

mod bridge;
mod channels;
mod reload;

pub(crate) use reload::ReloadSource;
use reload::{LiveParts, LiveTls};

/// After the drain, connections get this long to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Concurrent HTTP requests to the hub, including those that wait.
const HUB_REQUESTS: usize = 256;
/// Interval of progress records while the server stops.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);
/// Interval at which the metrics recorder folds collected values.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) record: ServerRecord,
    board: Board,
    workers: Option<RunningPools>,
    pool: ClientPool,
    data: DataDir,
    /// Cancelled first: no new connections or requests are accepted, idle connections close.
    draining: CancellationToken,
    /// Cancelled last: background tasks end.
    stop: CancellationToken,
    connections: TaskTracker,
    background: TaskTracker,
    drain_timeout: Duration,
    tls: Option<LiveTls>,
    embedder: Option<Arc<LiveEmbedder>>,
    clients: LiveLimits,
}

impl Server {
    /// Starts the server; on an error nothing keeps running.
    pub(crate) async fn start(
        effective: &EffectiveConfig,
        data: DataDir,
        metrics: PrometheusHandle,
        log: LogFeed,
        traces: Option<TracePipeline>,
        background: TaskTracker,
        stop: CancellationToken,
    ) -> anyhow::Result<Self> {
        let EffectiveConfig { loaded, secrets, .. } = effective;
        let config = &loaded.config;
        let operator = data.operator_token()?;
        let local_users = LocalUsers::new(trusted_users(config)?);
        // Bound before the database is opened: a port in use is the most likely failure.
        let gateway = bind("gateway", config.gateway.listen).await?;
        let runs = bind("runs", config.runs.listen).await?;
        let hub = bind("hub", config.hub.listen).await?;
        let pool = ClientPool::new();
        let bridge = bridge::BridgeSockets::bind(loaded).await?;
        let bound = [&gateway, &runs, &hub, &bridge.tcp].into_iter().flatten();
        // Known only after binding, as a configured port may be 0. Jailed programs must not reach these ports.
        let own_ports: Vec<u16> = bound.map(|bound| bound.address.port()).collect();
        let tls = bridge.tls.clone();
        let BoardAssembly { board, pools: workers, embedder } =
            assemble::open_board(effective, &pool, &log.redactor, &background, &own_ports, &stop).await?;
        let draining = CancellationToken::new();
        let connections = TaskTracker::new();
        let record = ServerRecord {
            pid: std::process::id(),
            version: VERSION.to_owned(),
            gateway: gateway.as_ref().map(|bound| bound.address),
            runs: runs.as_ref().map(|bound| bound.address),
            hub: hub.as_ref().map(|bound| bound.address),
            bridge: bridge.tcp.as_ref().map(|bound| bound.address),
        };
        let clients: LiveLimits = Arc::new(Reloadable::new(client_limits(config)));
        let context = SurfaceContext {
            config,
            secrets,
            operator,
            local_users,
            clients: clients.clone(),
            keys: board.keys().clone(),
            wrong_tokens: Arc::default(),
            draining: &draining,
            connections: &connections,
        };
        context.warn_of_unknown_users();
        let open = |surface, bound: BoundListener, router, max_connections: u32| {
            let listener = Listener {
                surface,
                socket: bound.socket,
                max_connections: max_connections as usize,
                local_users: context.allowed_local_users(surface),
            };
            background.spawn(listen::serve(listener, router, draining.clone(), connections.clone()));
        };
        if let Some(bound) = gateway {
            let gate = Arc::new(context.gateway_gate());
            let router = gateway::router(board.clone(), context.gateway(gate.clone(), bound.address, &metrics))
                .merge(mcp::router(board.clone(), context.mcp(gate, bound.address)));
            open("gateway", bound, router, config.gateway.max_connections);
        }
        if let Some(bound) = runs {
            let router = runs::router(board.clone(), context.runs(bound.address));
            open("runs", bound, router, config.runs.max_connections);
        }
        if let Some(bound) = hub {
            // HTTP requests have slots in addition to those of apps.
            let slots = ConnectionSlots::new(config.hub.max_connections as usize + HUB_REQUESTS);
            let router = hub::router(board.clone(), context.hub(bound.address));
            let sockets = std::iter::once(bound.socket).chain(bind_other_loopback(bound.address).await);
            for socket in sockets {
                let serving = listen::serve_or_refuse(
                    "hub",
                    socket,
                    context.allowed_local_users("hub"),
                    slots.clone(),
                    router.clone(),
                    draining.clone(),
                    connections.clone(),
                );
                background.spawn(serving);
            }
        }
        bridge.open(&board, &context, workers.as_ref(), &background);
        let housekeeping_board = board.clone();
        let retention = &config.storage.retention;
        let retention_policy =
            RetentionPolicy { runs: retention.finished_runs.into(), events: retention.fold_deltas.into() };
        let housekeeping_stop = stop.clone();
        background.spawn(async move { housekeeping_board.run_housekeeping(retention_policy, housekeeping_stop).await });
        background.spawn(run_metrics_upkeep(metrics.clone(), stop.clone()));
        let monitor = Arc::new(ProcessMonitor::new(log.faults, Arc::new(SystemClock)));
        board.set_server_monitor(monitor.clone());
        background.spawn(monitor.watch(metrics, stop.clone()));
        background.spawn(heap_trim::trim_periodically(stop.clone()));
        let spans = traces.as_ref().map(|traces| traces.spans.clone());
        background.spawn(watch_worker_events(board.telemetry(&server_caller())?, spans, stop.clone()));
        if let Some(TracePipeline { exporter, .. }) = traces {
            background.spawn(exporter.run(stop.clone()));
        }
        let drain_timeout = config.drain.into();
        data.write_server_record(&record)?;
        data.record(|process| process.state = ProcessState::Ready)?;
        Ok(Self {
            record,
            board,
            workers,
            pool,
            data,
            draining,
            stop,
            connections,
            background,
            drain_timeout,
            tls,
            embedder,
            clients,
        })
    }

    /// Enables reloading of the configuration.
    pub(crate) fn enable_reloads(&mut self, source: ReloadSource) {
        let parts = LiveParts {
            board: self.board.clone(),
            pool: self.pool.clone(),
            tls: self.tls.take(),
            embedder: self.embedder.take(),
            clients: self.clients.clone(),
        };
        self.board.set_server_control(reload::start(source, parts, &self.background, &self.stop));
    }

    /// Does the same as `patchboard reload`. The outcome is logged.
    pub(crate) fn reload_in_background(&self) {
        let reloading = self.board.ask(&server_caller(), ReloadSettings, self.stop.child_token());
        self.background.spawn(async move {
            if let Err(error) = reloading.await {
                tracing::warn!(%error, "the configuration was not reloaded");
            }
        });
    }

    /// Waits for the drain and records progress meanwhile.
    async fn drain(&self) -> Result<DrainReport, BoardError> {
        let draining = self.board.drain(self.drain_timeout);
        tokio::pin!(draining);
        let mut ticks = tokio::time::interval(PROGRESS_INTERVAL);
        loop {
            tokio::select! {
                biased;
                report = &mut draining => return report,
                _ = ticks.tick() => self.record_progress(),
            }
        }
    }

    fn record_progress(&self) {
        let runs_left = Some(self.board.active_runs());
        let recorded = self.data.record(|process| {
            process.state = ProcessState::Stopping;
            process.runs_left = runs_left;
        });
        if let Err(error) = recorded {
            tracing::debug!(%error, "the progress of the shutdown cannot be recorded");
        }
    }

    /// Stops in order: no new work, running turns end or are cancelled, connections close, the store closes.
    pub(crate) async fn shut_down(self) -> anyhow::Result<()> {
        self.data.remove_server_record();
        self.draining.cancel();
        let report = self.drain().await;
        if let Some(workers) = &self.workers {
            workers.shut_down().await;
        }
        self.connections.close();
        if tokio::time::timeout(CLOSE_TIMEOUT, self.connections.wait()).await.is_err() {
            tracing::debug!("some connections did not close in time");
        }
        self.pool.close().await;
        self.stop.cancel();
        self.background.close();
        if tokio::time::timeout(CLOSE_TIMEOUT, self.background.wait()).await.is_err() {
            tracing::debug!("some background work did not end in time");
        }
        if let Ok(report) = &report
            && let Err(error) = self.data.record_stop(report.cancelled, report.suspended)
        {
            tracing::debug!(%error, "the outcome of the shutdown cannot be recorded");
        }
        drop(self.data);
        let report = report.context("cannot close the database")?;
        if report.cancelled > 0 {
            tracing::warn!(runs = report.cancelled, "runs were cancelled because they did not end in time");
        }
        if report.suspended > 0 {
            tracing::info!(runs = report.suspended, "runs did not end in time; they go on at the next start");
        }
        Ok(())
    }
}

/// The caller for the server's own commands to its board.
fn server_caller() -> Caller {
    Caller {
        surface: Surface::Cli,
        principal: Principal::Operator,
        connection: pump::next_connection(),
        grants: GrantSet::OPERATOR,
    }
}

/// Writes the ready file once the server accepts connections.
pub(crate) fn write_ready_file(server: &Server, ready_file: Option<&PathBuf>) -> anyhow::Result<()> {
    if let Some(path) = ready_file {
        data_dir::write_ready_file(path, &server.record)?;
    }
    Ok(())
}

/// What the options of all surfaces are built from.
struct SurfaceContext<'a> {
    config: &'a Config,
    secrets: &'a Secrets,
    operator: SecretString,
    local_users: LocalUsers,
    clients: LiveLimits,
    keys: Arc<KeyRing>,
    /// Shared by all listeners.
    wrong_tokens: Arc<FailedAttempts>,
    draining: &'a CancellationToken,
    connections: &'a TaskTracker,
}

impl SurfaceContext<'_> {
    /// The users whose programs may connect; `None` where a token identifies the client.
    fn allowed_local_users(&self, surface: &str) -> Option<LocalUsers> {
        let asks = surfaces_without_token(self.config).contains(&surface)
            || (surface == "gateway"
                && self.config.channels.values().any(|channel| channel.verify == WebhookVerification::None));
        asks.then(|| self.local_users.clone())
    }

    fn warn_of_unknown_users(&self) {
        let open = surfaces_without_token(self.config);
        if open.is_empty() {
            return;
        }
        let open = open.join(", ");
        match local_users::probe_peer_lookup() {
            PeerLookupSupport::Supported => {}
            PeerLookupSupport::Failing => tracing::warn!(
                "{open} ask for no token, and this kernel does not tell which user connects: all are refused; set a token"
            ),
            PeerLookupSupport::Unavailable => tracing::warn!(
                "{open} ask for no token and serve every user of this machine, as this system does not tell who connects"
            ),
        }
    }

    fn gate(&self, surface: &'static str, token: Option<SecretString>) -> AuthGate {
        AuthGate::new(surface, token, Some(self.operator.clone()), self.wrong_tokens.clone())
            .with_keys(self.keys.clone())
    }

    /// Shared by everything on the gateway's listener.
    fn gateway_gate(&self) -> AuthGate {
        self.gate("gateway", self.secrets.gateway_token.clone())
    }

    fn gateway(&self, gate: Arc<AuthGate>, address: SocketAddr, metrics: &PrometheusHandle) -> GatewayOptions {
        let gateway = &self.config.gateway;
        let metrics = metrics.clone();
        GatewayOptions {
            gate,
            guard: guard("gateway", &gateway.allowed_hosts, &gateway.allowed_origins, address),
            limits: PumpLimits::default(),
            clients: self.clients.clone(),
            version: VERSION,
            metrics: self.config.telemetry.metrics.then(|| {
                let render: Arc<dyn Fn() -> String + Send + Sync> = Arc::new(move || metrics.render());
                render
            }),
            channels: channels::checks(self.config, self.secrets),
            clock: Arc::new(SystemClock),
            draining: self.draining.clone(),
            tracker: self.connections.clone(),
        }
    }

    fn mcp(&self, gate: Arc<AuthGate>, address: SocketAddr) -> McpOptions {
        let gateway = &self.config.gateway;
        McpOptions {
            gate,
            guard: guard("mcp", &gateway.allowed_hosts, &gateway.allowed_origins, address),
            clients: self.clients.clone(),
            version: VERSION,
            tracker: self.connections.clone(),
        }
    }

    fn hub(&self, address: SocketAddr) -> HubOptions {
        let hub = &self.config.hub;
        HubOptions {
            // The board decides about registration; over HTTP only the operator's token is checked here.
            gate: self.gate("hub", None),
            http_needs_token: hub.pairing == PairingPolicy::Token,
            guard: guard("hub", &[], &hub.allowed_origins, address),
            timeouts: HubTimeouts {
                ping_interval: hub.ping_interval.into(),
                pong_timeout: hub.pong_timeout.into(),
                register_timeout: hub.register_timeout.into(),
                answer_window: hub.response_timeout.into(),
            },
            clock: Arc::new(SystemClock),
            max_sockets: hub.max_connections as usize,
            stall: PumpLimits::default().stall,
            draining: self.draining.clone(),
            tracker: self.connections.clone(),
        }
    }

    fn runs(&self, address: SocketAddr) -> RunsOptions {
        let runs = &self.config.runs;
        RunsOptions {
            gate: self.gate("runs", self.secrets.runs_token.clone()),
            guard: guard("runs", &runs.allowed_hosts, &runs.allowed_origins, address),
            limits: PumpLimits { stall: runs.stall_timeout.into(), ..PumpLimits::default() },
            clients: self.clients.clone(),
            strict_clients: runs.strict_clients,
            close_on_error: runs.close_on_error,
            draining: self.draining.clone(),
            tracker: self.connections.clone(),
        }
    }
}

/// Limits per client.
fn client_limits(config: &Config) -> ClientLimits {
    let rate = &config.gateway.rate_limit;
    ClientLimits {
        rate: RateLimit { per_second: f64::from(rate.per_second), burst: f64::from(rate.burst) },
        max_message: config.limits.message.as_usize(),
        sign_in: config.limits.auth_timeout.into(),
    }
}

/// Surfaces that listen and require no token.
pub(crate) fn surfaces_without_token(config: &Config) -> Vec<&'static str> {
    let gateway = config.gateway.token.is_some();
    let surfaces = [
        ("gateway", config.gateway.listen, gateway),
        ("runs", config.runs.listen, gateway || config.runs.token.is_some()),
        ("hub", config.hub.listen, config.hub.pairing == PairingPolicy::Token),
        ("bridge", config.bridge.listen, config.bridge.token.is_some() || requires_client_certificate(config)),
    ];
    let open = surfaces.into_iter().filter(|(_, listen, asks)| listen.address().is_some() && !asks);
    open.map(|(surface, ..)| surface).collect()
}

/// Clients of the bridge authenticate with a certificate instead.
fn requires_client_certificate(config: &Config) -> bool {
    config.bridge.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some())
}

/// The user ids in `trusted_users`.
pub(crate) fn trusted_users(config: &Config) -> anyhow::Result<Vec<u32>> {
    let number = |user: &SystemUser| user.number().with_context(|| format!("trusted_users: `{user}`"));
    config.trusted_users.iter().map(number).collect()
}

/// Apps use `127.0.0.1` or `::1`, so the hub listens on both if it can.
async fn bind_other_loopback(address: SocketAddr) -> Option<TcpListener> {
    let other: IpAddr = match address.ip() {
        IpAddr::V4(Ipv4Addr::LOCALHOST) => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::LOCALHOST) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V4(_) | IpAddr::V6(_) => return None,
    };
    let other = SocketAddr::new(other, address.port());
    match TcpListener::bind(other).await {
        Ok(socket) => Some(socket),
        Err(error) => {
            tracing::debug!(%error, "the hub does not listen on {other}");
            None
        }
    }
}

fn guard(surface: &'static str, hosts: &[String], origins: &[String], address: SocketAddr) -> OriginGuard {
    OriginGuard { surface, allowed_hosts: allowed_hosts(hosts, address), allowed_origins: origins.to_vec() }
}

/// A socket that is bound and not yet served.
struct BoundListener {
    socket: TcpListener,
    /// With the assigned port, if the configured one is 0.
    address: SocketAddr,
}

async fn bind(surface: &'static str, listen: ListenAddress) -> Result<Option<BoundListener>, ListenError> {
    let Some(address) = listen.address() else { return Ok(None) };
    let bound = async {
        let socket = TcpListener::bind(address).await?;
        Ok(BoundListener { address: socket.local_addr()?, socket })
    };
    bound.await.map(Some).map_err(|source| ListenError { surface, address, source })
}

#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for {surface}")]
pub(crate) struct ListenError {
    pub(crate) surface: &'static str,
    address: SocketAddr,
    #[source]
    source: io::Error,
}

/// Host names clients may use for a server that listens on one address.
fn allowed_hosts(configured: &[String], address: SocketAddr) -> Vec<String> {
    let mut hosts: Vec<String> = configured.iter().map(|host| host.to_ascii_lowercase()).collect();
    if !address.ip().is_unspecified() {
        hosts.push(address.ip().to_string());
    }
    hosts
}

async fn run_metrics_upkeep(metrics: PrometheusHandle, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(UPKEEP_INTERVAL) => metrics.run_upkeep(),
            () = stop.cancelled() => return,
        }
    }
}
