//! Shared test support: a guest that misbehaves on demand, and stub services.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use patchboard_core::in_memory::InMemoryStore;
use patchboard_core::plugin::PluginGrant;
use patchboard_core::port::HostFunctions;
use patchboard_core::port::{Clock, FetchError, FetchRequest, FetchResponse, HttpFetcher};
use patchboard_core::tool::ToolOutput;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::rights::{HostServices, PluginOptions};

/// The component of `tests/fixtures/guest.wat`.
pub(crate) fn guest() -> Bytes {
    component(include_str!("../tests/fixtures/guest.wat"))
}

pub(crate) fn component(text: &str) -> Bytes {
    wat::parse_str(text).expect("WebAssembly text").into()
}

pub(crate) fn options(name: &str, grants: &[&str]) -> PluginOptions {
    PluginOptions {
        name: name.into(),
        file: PathBuf::from(format!("{name}.wasm")),
        grants: grants.iter().map(|grant| grant.parse::<PluginGrant>().expect("a grant")).collect(),
        settings: BTreeMap::new(),
        secrets: BTreeMap::new(),
        sha256: None,
    }
}

pub(crate) fn services() -> HostServices {
    services_with(Arc::new(NotifyingClock::default()))
}

pub(crate) fn services_with(clock: Arc<dyn Clock>) -> HostServices {
    HostServices::new(Arc::new(NoNetwork), Arc::new(InMemoryStore::new()), clock)
}

/// A clock that notifies when it is read: the guest that reads it is running.
#[derive(Debug, Default)]
pub(crate) struct NotifyingClock {
    pub(crate) reads: Notify,
}

impl Clock for NotifyingClock {
    fn now(&self) -> Timestamp {
        self.reads.notify_one();
        Timestamp::UNIX_EPOCH
    }
}

#[derive(Debug)]
struct NoNetwork;

impl HttpFetcher for NoNetwork {
    fn fetch(
        &self,
        _request: FetchRequest,
        _stop: CancellationToken,
    ) -> BoxFuture<'_, Result<FetchResponse, FetchError>> {
        Box::pin(async { Err(FetchError::Failed("there is no network".to_owned())) })
    }
}

/// A stub without tools.
#[derive(Debug)]
pub(crate) struct NoFunctions;

impl HostFunctions for NoFunctions {
    fn call_id(&self) -> &str {
        "call-1"
    }

    fn call(&self, name: &str, _arguments: Value, _stop: CancellationToken) -> BoxFuture<'_, ToolOutput> {
        let output = ToolOutput::error(format!("there is no {name}"));
        Box::pin(std::future::ready(output))
    }
}

/// Installs a global subscriber. `tracing` caches per process whether a log call is enabled; without this, a test
/// thread without a subscriber would disable it for another test.
pub(crate) fn install_subscriber() {
    static INSTALLED: std::sync::Once = std::sync::Once::new();
    INSTALLED.call_once(|| {
        let subscriber =
            tracing_subscriber::fmt().with_writer(std::io::sink).with_max_level(tracing::Level::TRACE).finish();
        tracing::subscriber::set_global_default(subscriber).expect("the first one");
    });
}
