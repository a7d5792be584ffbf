use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use patchboard_core::in_memory::InMemoryStore;
use patchboard_core::port::HostFunctions;
use patchboard_core::port::{Clock, FetchError, FetchRequest, FetchResponse, HttpFetcher};
use patchboard_core::tool::ToolOutput;
use serde_json::Value;

use super::*;
use crate::engine::admission::CallSlots;
use crate::rights::{HostServices, PluginLimits, PluginOptions, PluginRights};
use crate::state::GuestCall;

mod functions;
mod http;
mod small;
mod store;

/// Answers each request with the next answer and remembers what was asked.
#[derive(Debug, Default)]
struct ScriptedFetch {
    answers: Mutex<VecDeque<Result<FetchResponse, FetchError>>>,
    requests: Mutex<Vec<FetchRequest>>,
}

impl ScriptedFetch {
    fn answer(&self, answer: Result<FetchResponse, FetchError>) {
        self.answers.lock().unwrap().push_back(answer);
    }

    fn requests(&self) -> Vec<FetchRequest> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }
}

impl HttpFetcher for ScriptedFetch {
    fn fetch(
        &self,
        request: FetchRequest,
        stop: CancellationToken,
    ) -> BoxFuture<'_, Result<FetchResponse, FetchError>> {
        self.requests.lock().unwrap().push(request);
        let answer = self.answers.lock().unwrap().pop_front();
        Box::pin(async move {
            match answer {
                Some(answer) => answer,
                None => {
                    stop.cancelled().await;
                    Err(FetchError::Cancelled)
                }
            }
        })
    }
}

#[derive(Debug)]
struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        "2026-01-01T12:00:00.250Z".parse().unwrap()
    }
}

/// A tool that says what it was asked, fails when told to, or never answers.
#[derive(Debug, Default)]
struct Tools {
    stops: Mutex<Vec<CancellationToken>>,
}

impl HostFunctions for Tools {
    fn call_id(&self) -> &str {
        "call-1"
    }

    fn call(&self, name: &str, arguments: Value, stop: CancellationToken) -> BoxFuture<'_, ToolOutput> {
        self.stops.lock().unwrap().push(stop);
        let name = name.to_owned();
        Box::pin(async move {
            match &*name {
                "fail" => ToolOutput::error("it did not work"),
                "long" => ToolOutput::ok("é".repeat(1024 * 1024)),
                "wait" => std::future::pending().await,
                _ => ToolOutput::ok(format!("{name} {arguments}")),
            }
        })
    }
}

/// A host, and plugins of one file with grants, settings and secrets.
struct Setting {
    fetch: Arc<ScriptedFetch>,
    store: Arc<InMemoryStore>,
    tools: Arc<Tools>,
    services: HostServices,
    options: PluginOptions,
    stop: CancellationToken,
    limits: PluginLimits,
}

impl Setting {
    fn new(grants: &[&str]) -> Self {
        let (fetch, store) = (Arc::new(ScriptedFetch::default()), Arc::new(InMemoryStore::new()));
        let services = HostServices::new(fetch.clone(), store.clone(), Arc::new(Noon));
        let options = PluginOptions {
            name: "probe".into(),
            file: "probe.wasm".into(),
            grants: grants.iter().map(|grant| grant.parse().unwrap()).collect(),
            settings: [("city".to_owned(), "Ulm".to_owned())].into(),
            secrets: [("token".to_owned(), "123:abc/DEF".into()), ("key".to_owned(), "opensesame".into())].into(),
            sha256: None,
        };
        let (tools, stop) = (Arc::default(), CancellationToken::new());
        Self { fetch, store, tools, services, options, stop, limits: PluginLimits::default() }
    }

    fn rights(&self) -> PluginRights {
        PluginRights::new(&self.options, self.services.clone())
    }

    async fn call(&self) -> CallState {
        self.call_with(self.rights()).await
    }

    async fn call_with(&self, rights: PluginRights) -> CallState {
        let slots = CallSlots::new(1);
        let quota = slots.quota();
        let slot = slots.acquire(&quota, Duration::from_secs(1), &self.stop).await.unwrap();
        let functions = Some(self.tools.clone() as Arc<dyn HostFunctions>);
        let main_runtime = tokio::runtime::Handle::current();
        let guest_call = GuestCall {
            rights: Arc::new(rights),
            functions,
            stop: self.stop.clone(),
            quota,
            pace: Arc::default(),
            main_runtime,
        };
        CallState::new(guest_call, &self.limits, slot)
    }
}

/// What is logged on this thread while it lives.
struct Logged {
    lines: Lines,
    _guard: tracing::subscriber::DefaultGuard,
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Logged {
    fn start() -> Self {
        crate::testing::install_subscriber();
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .without_time()
            .finish();
        Self { lines, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// Those of plugins.
    fn lines(&self) -> Vec<String> {
        let bytes = self.lines.0.lock().unwrap();
        let text = String::from_utf8(bytes.clone()).unwrap();
        text.lines().filter(|line| line.contains(" plugin: ")).map(|line| line.trim().to_owned()).collect()
    }
}

/// How a host function ended that did not return to the guest.
fn ended<T: std::fmt::Debug>(result: wasmtime::Result<T>) -> CallAborted {
    *result.unwrap_err().downcast_ref::<CallAborted>().unwrap()
}
