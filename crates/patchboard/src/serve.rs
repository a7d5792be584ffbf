//! A running server: everything bound before anything is announced, everything recorded before anything is gone.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use metrics_exporter_prometheus::PrometheusHandle;
use patchboard_core::Board;
use patchboard_core::board::Keep;
use patchboard_providers::Pool;
use patchboard_surfaces::auth::AuthGate;
use patchboard_surfaces::gateway::{self, GatewayOptions};
use patchboard_surfaces::guard::Guard;
use patchboard_surfaces::limit::Rate;
use patchboard_surfaces::listen::{self, Listener};
use patchboard_surfaces::pump::PumpLimits;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::assemble::{self, VERSION};
use crate::config::{Loaded, Secrets};
use crate::data_dir::{self, DataDir, ServerRecord};

/// After the drain, connections get this long to hear that the server is gone.
const FAREWELL: Duration = Duration::from_secs(2);
/// How often the metrics recorder folds what it collected.
const UPKEEP: Duration = Duration::from_secs(5);

/// A server that accepts connections.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) record: ServerRecord,
    board: Board,
    pool: Pool,
    data: DataDir,
    /// Cancelled first: nothing new is accepted, idle connections close.
    draining: CancellationToken,
    /// Cancelled last: background work ends.
    stop: CancellationToken,
    connections: TaskTracker,
    background: TaskTracker,
    patience: Duration,
}

impl Server {
    /// Starts, or fails with nothing left half-started.
    pub(crate) async fn start(
        loaded: &Loaded,
        secrets: &Secrets,
        data: DataDir,
        metrics: PrometheusHandle,
        background: TaskTracker,
        stop: CancellationToken,
    ) -> anyhow::Result<Self> {
        let config = &loaded.config;
        let operator = data.operator_token()?;
        // Bound before the database is touched: a port in use is the likeliest thing to go wrong.
        let socket = match config.gateway.listen.address() {
            Some(address) => Some(bind("gateway", address).await?),
            None => None,
        };
        let pool = Pool::new();
        let board = assemble::board(loaded, secrets, &pool, &background).await?;
        let draining = CancellationToken::new();
        let connections = TaskTracker::new();
        let mut record = ServerRecord {
            pid: std::process::id(),
            version: VERSION.to_owned(),
            gateway: None,
            runs: None,
            hub: None,
            bridge: None,
        };
        let render = metrics.clone();
        if let Some(socket) = socket {
            let address = socket.local_addr().context("cannot read the gateway's address")?;
            record.gateway = Some(address);
            let gateway = &config.gateway;
            let options = GatewayOptions {
                gate: AuthGate::new("gateway", secrets.gateway_token.clone(), Some(operator)),
                guard: Guard {
                    surface: "gateway",
                    allowed_hosts: allowed_hosts(&gateway.allowed_hosts, address),
                    allowed_origins: gateway.allowed_origins.clone(),
                },
                rate: Rate {
                    per_second: f64::from(gateway.rate_limit.per_second),
                    burst: f64::from(gateway.rate_limit.burst),
                },
                limits: PumpLimits { sign_in: config.limits.auth_timeout.into(), ..PumpLimits::default() },
                max_message: config.limits.message.as_usize(),
                version: VERSION,
                metrics: config.telemetry.metrics.then(|| {
                    let render: Arc<dyn Fn() -> String + Send + Sync> = Arc::new(move || render.render());
                    render
                }),
                draining: draining.clone(),
                tracker: connections.clone(),
            };
            let router = gateway::router(board.clone(), options);
            let listener = Listener { surface: "gateway", socket, max_connections: gateway.max_connections as usize };
            background.spawn(listen::serve(listener, router, draining.clone(), connections.clone()));
        }
        let keeping = board.clone();
        let retention = &config.storage.retention;
        let keep = Keep { runs: retention.finished_runs.into(), events: retention.fold_deltas.into() };
        let house_stop = stop.clone();
        background.spawn(async move { keeping.keep_house(keep, house_stop).await });
        background.spawn(fold_metrics(metrics, stop.clone()));
        let patience = config.drain.into();
        data.announce(&record)?;
        Ok(Self { record, board, pool, data, draining, stop, connections, background, patience })
    }

    /// Lets go in order: no new work, running turns end or are cancelled, connections hear of it, the store closes.
    pub(crate) async fn shut_down(self) -> anyhow::Result<()> {
        self.draining.cancel();
        let report = self.board.drain(self.patience).await;
        self.connections.close();
        if tokio::time::timeout(FAREWELL, self.connections.wait()).await.is_err() {
            tracing::debug!("some connections did not close in time");
        }
        self.pool.close().await;
        self.stop.cancel();
        self.background.close();
        if tokio::time::timeout(FAREWELL, self.background.wait()).await.is_err() {
            tracing::debug!("some background work did not end in time");
        }
        drop(self.data);
        let report = report.context("cannot close the database")?;
        if report.cancelled > 0 {
            tracing::warn!(runs = report.cancelled, "runs were cancelled because they did not end in time");
        }
        Ok(())
    }
}

/// Writes the ready file once the server accepts.
pub(crate) fn announce(server: &Server, ready_file: Option<&PathBuf>) -> anyhow::Result<()> {
    if let Some(path) = ready_file {
        data_dir::write_ready_file(path, &server.record)?;
    }
    Ok(())
}

async fn bind(surface: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address} for the {surface}"))
}

/// A name clients may call a server by that listens on one address of the network.
fn allowed_hosts(configured: &[String], address: SocketAddr) -> Vec<String> {
    let mut hosts: Vec<String> = configured.iter().map(|host| host.to_ascii_lowercase()).collect();
    if !address.ip().is_unspecified() {
        hosts.push(address.ip().to_string());
    }
    hosts
}

async fn fold_metrics(metrics: PrometheusHandle, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(UPKEEP) => metrics.run_upkeep(),
            () = stop.cancelled() => return,
        }
    }
}
