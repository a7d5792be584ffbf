//! What the core needs from outside. Every trait is object-safe, so that leaves stay out of each other's builds.

use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;
use futures_core::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::app::UserNotice;
use crate::error::BoardError;
use crate::model::{ListedModel, ModelError, ModelEvent, ModelRequest};
use crate::plugin::{HostGrant, PluginError, PluginReport};
use crate::reply::ReloadReport;
use crate::tool::{ToolOutput, ToolSpec};
use crate::webhook::{ChannelError, ChannelReply, ChannelRequest, FormattedReply, ParsedWebhook, Webhook};
use crate::worker::{PoolReport, WorkerId, WorkerTool};

mod tool_host;
pub use tool_host::{ProgressSink, ToolHost, ToolNameStatus, ToolScope, UnregisteredTools};

pub type BoxStream<T> = std::pin::Pin<Box<dyn Stream<Item = T> + Send>>;

/// A language model behind some API. Retries and fallbacks are inside, up to the first token; none after it.
pub trait ModelProvider: Send + Sync + fmt::Debug {
    fn name(&self) -> &str;

    /// Can it be asked at all? `Err(NotConfigured)` says what is missing (a key) without asking anyone.
    fn check(&self) -> Result<(), ModelError>;

    /// Starts one call. The stream ends after `ModelEvent::Stop` or its first error; dropping it, or cancelling
    /// `stop`, ends the call upstream.
    fn stream(
        &self,
        request: ModelRequest,
        stop: CancellationToken,
    ) -> BoxFuture<'_, Result<BoxStream<Result<ModelEvent, ModelError>>, ModelError>>;

    /// The models it offers now, in its own order. `Err` says why it cannot tell; then any name may be one.
    fn models(&self, _stop: CancellationToken) -> BoxFuture<'_, Result<Vec<ListedModel>, ModelError>> {
        let silent = ModelError::Unavailable("this provider does not list its models".to_owned());
        Box::pin(std::future::ready(Err(silent)))
    }
}

/// Programs that offer tools, started and watched by the server. Their tools are called through `ToolHost`s.
pub trait WorkerSupervisor: Send + Sync + fmt::Debug {
    /// What each pool and each of its workers is doing now.
    fn report(&self) -> Vec<PoolReport>;

    /// A worker says which tools it has.
    fn tools_registered(&self, worker: &WorkerId, tools: Vec<WorkerTool>);

    /// Done when every pool has shown its tools, or has failed to; `None` when that is so already.
    fn startup_complete(&self) -> Option<BoxFuture<'static, ()>> {
        None
    }

    /// A session is over; the workers that saw it are told, in their own time.
    fn session_closed(&self, session: &str);

    /// Pools whose workers may be called by names that they never registered, in the order of the configuration. A pool
    /// that decides by its workers is missing until it has had one.
    fn pools_taking_unregistered(&self) -> Vec<Arc<dyn UnregisteredTools>> {
        Vec::new()
    }
}

/// Sandboxed plugins. A version that is at work when another takes over finishes the calls it has.
pub trait PluginRuntime: Send + Sync + fmt::Debug {
    /// Of all plugins that are ready. Cheap: called for every run.
    fn tools(&self) -> Arc<[ToolSpec]>;

    /// Runs one call whose tool came from `tools`. Failures are outputs with `is_error`.
    fn call(&self, call: PluginCall, stop: CancellationToken) -> BoxFuture<'_, ToolOutput>;

    /// In the order of the configuration, then those of the folder.
    fn list(&self) -> Vec<PluginReport>;

    /// Reads a plugin's file anew, and takes it over if that needs no approval. `named`: a plugin's name, or the path
    /// of its file.
    fn load<'a>(&'a self, named: &'a str, stop: CancellationToken) -> BoxFuture<'a, Result<PluginReport, PluginError>>;

    /// Takes no more calls; those under way end in their own time. It stays away until it is loaded again.
    fn unload<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), PluginError>>;

    /// Takes over the version that waits for it.
    fn approve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<PluginReport, PluginError>>;

    /// The adapter's reading of a webhook.
    fn parse_incoming<'a>(
        &'a self,
        plugin: &'a str,
        webhook: Webhook,
        stop: CancellationToken,
    ) -> BoxFuture<'a, Result<ParsedWebhook, ChannelError>>;

    fn format_outgoing<'a>(
        &'a self,
        plugin: &'a str,
        reply: ChannelReply,
        stop: CancellationToken,
    ) -> BoxFuture<'a, Result<FormattedReply, ChannelError>>;

    /// Sends what an adapter wrote, under its grants and with its secrets.
    fn send<'a>(
        &'a self,
        plugin: &'a str,
        request: ChannelRequest,
        stop: CancellationToken,
    ) -> BoxFuture<'a, Result<FetchResponse, FetchError>>;
}

/// One call of a plugin's tool.
#[derive(Debug, Clone)]
pub struct PluginCall {
    /// As it was offered: its own name, or `PLUGIN.NAME`.
    pub tool: Arc<str>,
    /// A JSON object that fits the schema.
    pub arguments: Arc<str>,
    /// For what the plugin calls in turn.
    pub functions: Arc<dyn HostFunctions>,
}

/// The server's tools, for a plugin that works on somebody's behalf. Whether the plugin was granted a tool has been
/// checked before.
pub trait HostFunctions: Send + Sync + fmt::Debug {
    fn call(&self, name: &str, arguments: Value, stop: CancellationToken) -> BoxFuture<'_, ToolOutput>;
}

/// Checks tool arguments against a JSON Schema.
pub trait SchemaValidator: Send + Sync + fmt::Debug {
    /// Implementations cache compiled schemas.
    fn check(&self, schema: &Arc<Value>, arguments: &Value) -> Result<(), SchemaViolation>;
}

/// Why arguments do not fit a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaViolation {
    /// The first parameter that is wrong, with a sentence about it alone; `None` where it is none in particular.
    pub parameter: Option<(Arc<str>, String)>,
    /// Sentences for the model: what is wrong, at which path.
    pub text: String,
}

impl SchemaViolation {
    /// One that is not about a parameter.
    pub fn new(text: impl Into<String>) -> Self {
        Self { parameter: None, text: text.into() }
    }
}

impl fmt::Display for SchemaViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The character document of an agent, read anew when its file changes.
pub trait SoulSource: Send + Sync + fmt::Debug {
    fn soul(&self, agent: &str) -> Option<Arc<str>>;
}

/// The folders runs may work in.
pub trait WorkingFolders: Send + Sync + fmt::Debug {
    /// Opens a folder to one run or call that the operator asked for, beneath a configured root or not. `Err` is a sentence
    /// for the client.
    fn grant<'a>(&'a self, named: &'a str) -> BoxFuture<'a, Result<GrantedFolder, String>>;

    /// The folder a request names, or the configured one, if it exists and lies where runs may work.
    /// `Err` is a sentence for the client.
    fn resolve<'a>(&'a self, named: Option<&'a str>) -> BoxFuture<'a, Result<Arc<Path>, String>>;

    /// What the folder itself has to say to agents that work in it.
    fn documents<'a>(&'a self, folder: &'a Path) -> BoxFuture<'a, FolderDocuments>;
}

/// A folder that the operator opened to one run or call.
#[derive(Debug, Clone)]
pub struct GrantedFolder {
    pub path: Arc<Path>,
    /// `None` when a configured root contains it, so that no more than the configuration is needed.
    pub grant: Option<FolderGrant>,
}

/// The right to work in a folder outside the configured roots. It lasts until the last copy is dropped.
#[derive(Debug, Clone)]
pub struct FolderGrant {
    _lease: Arc<dyn Any + Send + Sync>,
    /// Commands cannot be confined on this machine, so every tool that writes asks first.
    pub asks_before_writing: bool,
}

impl FolderGrant {
    /// `lease` ends the right when it is dropped.
    pub fn new(lease: impl Any + Send + Sync, asks_before_writing: bool) -> Self {
        Self { _lease: Arc::new(lease), asks_before_writing }
    }
}

/// Documents of a working folder, cut to a bearable length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FolderDocuments {
    /// `SOUL.md`: who to be.
    pub soul: Option<Arc<str>>,
    /// `AGENTS.md`: how to work here.
    pub notes: Option<Arc<str>>,
}

/// The one way out to the web for tools and plugins: addresses are checked, redirects are checked again, size and time
/// are bounded.
pub trait HttpFetcher: Send + Sync + fmt::Debug {
    fn fetch(&self, request: FetchRequest, stop: CancellationToken)
    -> BoxFuture<'_, Result<FetchResponse, FetchError>>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchRequest {
    /// Upper case.
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<Vec<u8>>,
    /// For the whole exchange, redirects included.
    pub timeout: Duration,
    /// A longer body is cut.
    pub max_bytes: usize,
    /// Only these hosts, on every hop; `None` for all that may be reached from here.
    pub only_hosts: Option<Arc<[HostGrant]>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchResponse {
    pub status: u16,
    /// Where the answer came from, after redirects.
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The body went on.
    pub is_truncated: bool,
}

/// Sentences for the model; they name hosts, never credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    #[error("{0}")]
    BadRequest(String),
    /// The address may not be reached from here.
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Timeout(String),
    #[error("{0}")]
    Failed(String),
    #[error("cancelled")]
    Cancelled,
}

/// Turns text into vectors for finding facts by meaning.
pub trait Embedder: Send + Sync + fmt::Debug {
    /// Names the vector space; vectors of different spaces are never compared.
    fn space(&self) -> &str;
    fn embed(&self, texts: Vec<String>, stop: CancellationToken) -> BoxFuture<'_, Result<Vec<Vec<f32>>, ModelError>>;
}

/// Shows notices to the user in one way: on the desktop, in the log, over HTTP.
pub trait NoticeSink: Send + Sync + fmt::Debug {
    /// One of a closed set: `desktop`, `console`, `webhook`, `ntfy`.
    fn name(&self) -> &'static str;

    /// `Err` is a sentence for the log. Bounded in time by itself; when `stop` is cancelled it returns promptly.
    fn show(&self, notice: Arc<UserNotice>, stop: CancellationToken) -> BoxFuture<'_, Result<(), String>>;
}

/// What of a running server lies outside of the board.
pub trait ServerControl: Send + Sync + fmt::Debug {
    /// Reads the configuration anew and takes over what can change while the server works, or nothing of it. One reload
    /// after the other.
    fn reload(&self) -> BoxFuture<'_, Result<ReloadReport, BoardError>>;
}

/// Wall time. Timers use `tokio::time`, which tests pause.
pub trait Clock: Send + Sync + fmt::Debug {
    fn now(&self) -> Timestamp;
}

/// Fresh identifiers, time-ordered.
pub trait IdGenerator: Send + Sync + fmt::Debug {
    fn next(&self) -> Uuid;
}
