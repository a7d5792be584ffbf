//! The bridge's listeners: TCP, a Unix socket, and the lines of workers.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use futures_util::FutureExt;
use patchboard_core::Board;
use patchboard_surfaces::auth::AuthGate;
use patchboard_surfaces::bridge::{Bridge, BridgeLimits, BridgeOptions, Tls, TlsFiles, UnixSocket};
use tokio_util::task::TaskTracker;

use super::{Bound, Plugs, bind, guard};
use crate::assemble::Pools;
use crate::config::Config;
use crate::config::section::bridge::TlsConfig;
use crate::system::SystemClock;

/// Everything that can go wrong, before the database is touched.
pub(super) struct Sockets {
    pub(super) tcp: Option<Bound>,
    unix: Option<UnixSocket>,
    tls: Option<Tls>,
}

impl Sockets {
    pub(super) async fn bind(config: &Config) -> anyhow::Result<Self> {
        let bridge = &config.bridge;
        let tls = bridge.tls.as_ref().map(read_certificates).transpose()?;
        let tcp = bind("bridge", bridge.listen).await?;
        // Off is off.
        let path = bridge.unix_socket.as_ref().filter(|_| tcp.is_some());
        let unix = path.map(|path| {
            UnixSocket::bind(path).with_context(|| format!("cannot listen on the Unix socket `{}`", path.display()))
        });
        Ok(Self { tcp, unix: unix.transpose()?, tls })
    }

    /// Serves what is bound, and workers wherever there are any.
    pub(super) fn open(self, board: &Board, plugs: &Plugs<'_>, pools: Option<&Pools>, background: &TaskTracker) {
        let Self { tcp, unix, tls } = self;
        if tcp.is_none() && pools.is_none() {
            return;
        }
        let bridge = Bridge::new(board.clone(), options(plugs, tcp.as_ref(), pools));
        if let Some(pools) = pools {
            pools.doors.attach(&bridge);
        }
        if let Some(bound) = tcp {
            background.spawn(bridge.clone().serve_public(bound.socket, tls));
        }
        if let Some(socket) = unix {
            background.spawn(bridge.serve_unix(socket));
        }
    }
}

fn options(plugs: &Plugs<'_>, tcp: Option<&Bound>, pools: Option<&Pools>) -> BridgeOptions {
    let config = &plugs.config.bridge;
    let address = tcp.map_or_else(|| ([127, 0, 0, 1], 0).into(), |bound| bound.address);
    BridgeOptions {
        gate: AuthGate::new("bridge", plugs.secrets.bridge_token.clone(), Some(plugs.operator.clone())),
        guard: guard("bridge", &config.allowed_hosts, &[], address),
        node: format!("patchboard@{address}").into(),
        clock: Arc::new(SystemClock),
        limits: BridgeLimits {
            message: plugs.config.limits.bridge_message.as_usize(),
            connections: config.max_connections as usize,
            call: config.call_timeout.into(),
            stream: config.stream_timeout.into(),
        },
        allow_pickle: config.allow_pickle,
        settled: pools.map_or_else(|| std::future::ready(()).boxed(), Pools::settled),
        draining: plugs.draining.clone(),
        patience: plugs.config.drain.into(),
        tracker: plugs.connections.clone(),
    }
}

fn read_certificates(config: &TlsConfig) -> anyhow::Result<Tls> {
    let read = |path: &Path| {
        std::fs::read(path).with_context(|| format!("cannot read `{}` for TLS on the bridge", path.display()))
    };
    let (certificate, key) = (read(&config.cert)?, read(&config.key)?);
    let client_authority = config.client_ca.as_deref().map(read).transpose()?;
    let files = TlsFiles { certificate: &certificate, key: &key, client_authority: client_authority.as_deref() };
    Tls::new(files).context("cannot use TLS on the bridge")
}
