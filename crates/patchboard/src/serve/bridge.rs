//! The bridge's listeners: TCP, a Unix socket, and the workers' callback sockets.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use futures_util::FutureExt;
use patchboard_config::LoadedConfig;
use patchboard_config::files::{ConfigFileReader, FileWarning};
use patchboard_config::section::bridge::TlsConfig;
use patchboard_core::Board;
use patchboard_surfaces::bridge::{Bridge, BridgeLimits, BridgeOptions, ReloadableTls, TlsFiles, UnixSocket};
use sha2::{Digest, Sha256};
use tokio_util::task::TaskTracker;

use super::reload::LiveTls;
use super::{BoundListener, SurfaceContext, bind, guard};
use crate::assemble::RunningPools;
use crate::system::SystemClock;
use crate::trust::TrustedReader;
use crate::trust::guarded_files::{content_file, trust_store};
use crate::trust::pending_trust::untrusted_secret;

/// The parts of the bridge that can fail, prepared before the database is opened.
pub(super) struct BridgeSockets {
    pub(super) tcp: Option<BoundListener>,
    unix: Option<UnixSocket>,
    pub(super) tls: Option<LiveTls>,
}

impl BridgeSockets {
    pub(super) async fn bind(loaded: &LoadedConfig) -> anyhow::Result<Self> {
        let bridge = &loaded.config.bridge;
        let reader = TrustedReader { store: trust_store(loaded) };
        let tls = match bridge.tls.as_ref().map(|tls| read_certificates(tls, &reader)).transpose()? {
            Some(CertificateState::Untrusted(reason)) => {
                // An agent may have created these files; that must not prevent the server's start.
                tracing::warn!("the bridge is closed: {reason}");
                return Ok(Self { tcp: None, unix: None, tls: None });
            }
            Some(CertificateState::Ready(tls)) => Some(*tls),
            None => None,
        };
        let tcp = bind("bridge", bridge.listen).await?;
        // Without a TCP listener there is no Unix socket either: `off` disables both.
        let path = bridge.unix_socket.as_ref().filter(|_| tcp.is_some());
        let unix = path.map(|path| {
            UnixSocket::bind(path).with_context(|| format!("cannot listen on the Unix socket `{}`", path.display()))
        });
        Ok(Self { tcp, unix: unix.transpose()?, tls })
    }

    /// Serves the bound sockets, and workers if pools exist.
    pub(super) fn open(
        self,
        board: &Board,
        context: &SurfaceContext<'_>,
        pools: Option<&RunningPools>,
        background: &TaskTracker,
    ) {
        let Self { tcp, unix, tls } = self;
        if tcp.is_none() && pools.is_none() {
            return;
        }
        let bridge = Bridge::new(board.clone(), bridge_options(context, tcp.as_ref(), pools));
        if let Some(pools) = pools {
            pools.listeners.attach(&bridge);
        }
        if let Some(bound) = tcp {
            background.spawn(bridge.clone().serve_public(bound.socket, tls.map(|live| live.tls)));
        }
        if let Some(socket) = unix {
            background.spawn(bridge.serve_unix(socket));
        }
    }
}

fn bridge_options(
    context: &SurfaceContext<'_>,
    tcp: Option<&BoundListener>,
    pools: Option<&RunningPools>,
) -> BridgeOptions {
    let config = &context.config.bridge;
    let address = tcp.map_or_else(|| ([127, 0, 0, 1], 0).into(), |bound| bound.address);
    BridgeOptions {
        local_users: context.local_users.clone(),
        gate: context.gate("bridge", context.secrets.bridge_token.clone()),
        guard: guard("bridge", &config.allowed_hosts, &[], address),
        node: format!("patchboard@{address}").into(),
        clock: Arc::new(SystemClock),
        limits: BridgeLimits {
            message: context.config.limits.bridge_message.as_usize(),
            connections: config.max_connections as usize,
            call: config.call_timeout.into(),
            stream: config.stream_timeout.into(),
        },
        allow_pickle: config.allow_pickle,
        workers_ready: pools.map_or_else(|| std::future::ready(()).boxed(), RunningPools::settled),
        draining: context.draining.clone(),
        drain_timeout: context.config.drain.into(),
        tracker: context.connections.clone(),
    }
}

pub(super) enum CertificateState {
    Ready(Box<LiveTls>),
    /// One of the files is not used until it is trusted. Names it and the command to use.
    Untrusted(String),
}

/// Reads certificates as far as they are trusted: a client CA decides which clients may connect.
pub(super) fn read_certificates(config: &TlsConfig, reader: &TrustedReader) -> anyhow::Result<CertificateState> {
    let failed = |path: &Path| format!("cannot read `{}` for TLS on the bridge", path.display());
    let agree = |path: &Path| format!("look at it and allow it with `patchboard trust {}`", path.display());
    let read = |path: &Path| {
        let file = content_file(path);
        if let Some(FileWarning { message, hint }) = reader.warning(&file) {
            tracing::warn!("{}: {message}; {hint}", path.display());
        }
        reader.read(&file).with_context(|| failed(path))
    };
    if let Some(problem) = untrusted_secret(&reader.store, &config.key) {
        return Ok(CertificateState::Untrusted(format!("{problem}; {}", agree(&config.key))));
    }
    let key = std::fs::read(&config.key).with_context(|| failed(&config.key))?;
    let Some(certificate) = read(&config.cert)? else {
        return Ok(CertificateState::Untrusted(agree(&config.cert)));
    };
    let client_authority = match config.client_ca.as_deref() {
        Some(path) => match read(path)? {
            Some(text) => Some(text),
            None => return Ok(CertificateState::Untrusted(agree(path))),
        },
        None => None,
    };
    let files = TlsFiles {
        certificate: certificate.as_bytes(),
        key: &key,
        client_authority: client_authority.as_ref().map(String::as_bytes),
    };
    let tls = ReloadableTls::new(files).context("cannot use TLS on the bridge")?;
    let mut digest = Sha256::new();
    for part in [certificate.as_bytes(), &key, client_authority.as_deref().unwrap_or_default().as_bytes()] {
        // Each part is prefixed with its length, so that bytes moved between parts change the digest.
        digest.update(part.len().to_le_bytes());
        digest.update(part);
    }
    Ok(CertificateState::Ready(Box::new(LiveTls { tls, digest: digest.finalize().into() })))
}
