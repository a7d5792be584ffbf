//! Ports: the core's interfaces to the outside. Every trait is object-safe, so that crates that implement one do not
//! recompile those that use it.

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
use crate::extensions::WorkerLine;
use crate::figures::{Fault, FigureReport};
use crate::model::{ListedModel, ModelError, ModelEvent, ModelRequest};
use crate::plugin::{HostGrant, PluginError, PluginReport};
use crate::reply::ReloadReport;
use crate::tool::{ToolOutput, ToolSpec};
use crate::webhook::{ChannelError, ChannelReply, ChannelRequest, FormattedReply, ParsedWebhook, Webhook};
use crate::worker::{PoolReport, WorkerId, WorkerTool};

mod tool_host;
pub use tool_host::{ProgressSink, ToolHost, ToolNameStatus, ToolScope, UnregisteredTools};

pub type BoxStream<T> = std::pin::Pin<Box<dyn Stream<Item = T> + Send>>;

/// A language model behind some API. Implementations retry and fall back before the first token, never after it.
pub trait ModelProvider: Send + Sync + fmt::Debug {
    fn name(&self) -> &str;

    /// Whether it can be called at all. `Err(NotConfigured)` names what is missing (a key) without a request.
    fn check(&self) -> Result<(), ModelError>;

    /// Starts one call. The stream ends after `ModelEvent::Stop` or its first error; dropping it, or cancelling
    /// `stop`, ends the call upstream.
    fn stream(
        &self,
        request: ModelRequest,
        stop: CancellationToken,
    ) -> BoxFuture<'_, Result<BoxStream<Result<ModelEvent, ModelError>>, ModelError>>;

    /// Lists the models it offers now, in its own order. On `Err` the list is unknown and any name may be valid.
    fn models(&self, _stop: CancellationToken) -> BoxFuture<'_, Result<Vec<ListedModel>, ModelError>> {
        let silent = ModelError::Unavailable("this provider does not list its models".to_owned());
        Box::pin(std::future::ready(Err(silent)))
    }
}

/// Supervises worker processes. Their tools are called through `ToolHost`s.
pub trait WorkerSupervisor: Send + Sync + fmt::Debug {
    /// Current state of each pool and its workers.
    fn report(&self) -> Vec<PoolReport>;

    /// Replaces the running workers of a pool, or one of them. Returns at once with those that are replaced; `None` if
    /// there is no such pool.
    fn restart(&self, _pool: &str, _worker: Option<&str>) -> Option<Vec<Arc<str>>> {
        None
    }

    /// The last lines that a worker wrote after that number, without secrets; `None` if the worker is not known, or no
    /// more.
    fn lines(&self, _worker: &str, _after: u64) -> Option<Vec<WorkerLine>> {
        None
    }

    /// A worker has registered its tools.
    fn tools_registered(&self, worker: &WorkerId, tools: Vec<WorkerTool>);

    /// Resolves when every pool has registered its tools or failed to start; `None` if that is already so.
    fn startup_complete(&self) -> Option<BoxFuture<'static, ()>> {
        None
    }

    /// A session has ended; workers that took part in it are notified asynchronously.
    fn session_closed(&self, session: &str);

    /// Pools whose workers may be called by unregistered names, in configuration order. A pool whose workers decide
    /// that is missing until its first worker has started.
    fn pools_taking_unregistered(&self) -> Vec<Arc<dyn UnregisteredTools>> {
        Vec::new()
    }
}

/// Sandboxed plugins. A version that is replaced finishes its calls.
pub trait PluginRuntime: Send + Sync + fmt::Debug {
    /// Tools of all ready plugins. Must be cheap: called for every run.
    fn tools(&self) -> Arc<[ToolSpec]>;

    /// Calls a tool from `tools`. Failures are outputs with `is_error`.
    fn call(&self, call: PluginCall, stop: CancellationToken) -> BoxFuture<'_, ToolOutput>;

    /// Plugins of the configuration in their order, then those of the folder.
    fn list(&self) -> Vec<PluginReport>;

    /// Reads a plugin's file again, and activates it if that needs no approval. `named`: a plugin's name, or the path
    /// of its file.
    fn load<'a>(&'a self, named: &'a str, stop: CancellationToken) -> BoxFuture<'a, Result<PluginReport, PluginError>>;

    /// Refuses new calls; active ones finish. The plugin stays unloaded until it is loaded again.
    fn unload<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), PluginError>>;

    /// Activates the version that waits for approval.
    fn approve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<PluginReport, PluginError>>;

    /// Parses a webhook with the channel's adapter.
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

    /// Sends an adapter's request, under its grants and with its secrets.
    fn send<'a>(
        &'a self,
        plugin: &'a str,
        request: ChannelRequest,
        stop: CancellationToken,
    ) -> BoxFuture<'a, Result<FetchResponse, FetchError>>;
}

/// One call of a plugin tool.
#[derive(Debug, Clone)]
pub struct PluginCall {
    /// The offered name: the tool's own, or `PLUGIN.NAME`.
    pub tool: Arc<str>,
    /// A JSON object that matches the schema.
    pub arguments: Arc<str>,
    /// Host functions available to the plugin during the call.
    pub functions: Arc<dyn HostFunctions>,
}

/// The server's tools for a plugin, on behalf of the plugin's caller. The plugin's grant of the tool has already been
/// checked.
pub trait HostFunctions: Send + Sync + fmt::Debug {
    /// The id of the plugin's call, which identifies its effects on the outside.
    fn call_id(&self) -> &str;

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
    /// The first wrong parameter with a sentence about it; `None` if no parameter in particular is wrong.
    pub parameter: Option<(Arc<str>, String)>,
    /// Sentences for the model: the errors and their paths.
    pub text: String,
}

impl SchemaViolation {
    /// A violation that concerns no parameter in particular.
    pub fn new(text: impl Into<String>) -> Self {
        Self { parameter: None, text: text.into() }
    }
}

impl fmt::Display for SchemaViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Character documents of agents, read again when their file changes.
pub trait SoulSource: Send + Sync + fmt::Debug {
    fn soul(&self, agent: &str) -> Option<Arc<str>>;
}

/// Folders that runs may work in.
pub trait WorkingFolders: Send + Sync + fmt::Debug {
    /// Grants one run or call a folder that the operator requested, beneath a configured root or not. `Err` is a
    /// sentence for the client.
    fn grant<'a>(&'a self, named: &'a str) -> BoxFuture<'a, Result<GrantedFolder, String>>;

    /// The requested folder, or the configured one, if it exists and is allowed. `Err` is a sentence for the client.
    fn resolve<'a>(&'a self, named: Option<&'a str>) -> BoxFuture<'a, Result<Arc<Path>, String>>;

    /// The folder's own documents for agents.
    fn documents<'a>(&'a self, folder: &'a Path) -> BoxFuture<'a, FolderDocuments>;
}

/// A folder that the operator granted to one run or call.
#[derive(Debug, Clone)]
pub struct GrantedFolder {
    pub path: Arc<Path>,
    /// `None` if a configured root contains the folder, so that no grant is needed.
    pub grant: Option<FolderGrant>,
}

/// The right to work in a folder outside the configured roots. Ends when its last clone is dropped.
#[derive(Debug, Clone)]
pub struct FolderGrant {
    _lease: Arc<dyn Any + Send + Sync>,
    /// Commands cannot be sandboxed on this machine, so every writing tool requires approval.
    pub asks_before_writing: bool,
}

impl FolderGrant {
    /// Dropping `lease` ends the grant.
    pub fn new(lease: impl Any + Send + Sync, asks_before_writing: bool) -> Self {
        Self { _lease: Arc::new(lease), asks_before_writing }
    }
}

/// Documents of a working folder, cut to a maximum length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FolderDocuments {
    /// `SOUL.md`: the agent's character.
    pub soul: Option<Arc<str>>,
    /// `AGENTS.md`: instructions for work in the folder.
    pub notes: Option<Arc<str>>,
}

/// The only HTTP client for tools and plugins: checks addresses, checks every redirect again, bounds size and time.
pub trait HttpFetcher: Send + Sync + fmt::Debug {
    fn fetch(&self, request: FetchRequest, stop: CancellationToken)
    -> BoxFuture<'_, Result<FetchResponse, FetchError>>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchRequest {
    /// In upper case.
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<Vec<u8>>,
    /// For the whole exchange, redirects included.
    pub timeout: Duration,
    /// A longer body is truncated.
    pub max_bytes: usize,
    /// Restricts every hop to these hosts; `None` allows all reachable ones.
    pub only_hosts: Option<Arc<[HostGrant]>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchResponse {
    pub status: u16,
    /// The final URL, after redirects.
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The body was longer.
    pub is_truncated: bool,
}

/// Sentences for the model; they contain host names, never credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    #[error("{0}")]
    BadRequest(String),
    /// The address is not allowed.
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Timeout(String),
    #[error("{0}")]
    Failed(String),
    #[error("cancelled")]
    Cancelled,
}

/// Computes embeddings, for retrieval of facts by meaning.
pub trait Embedder: Send + Sync + fmt::Debug {
    /// Name of the vector space; vectors of different spaces are never compared.
    fn space(&self) -> &str;
    fn embed(&self, texts: Vec<String>, stop: CancellationToken) -> BoxFuture<'_, Result<Vec<Vec<f32>>, ModelError>>;
}

/// Shows notices to the user through one medium: desktop, log, HTTP.
pub trait NoticeSink: Send + Sync + fmt::Debug {
    /// One of: `desktop`, `console`, `webhook`, `ntfy`.
    fn name(&self) -> &'static str;

    /// `Err` is a sentence for the log. Implementations bound their own time and return promptly when `stop` is
    /// cancelled.
    fn show(&self, notice: Arc<UserNotice>, stop: CancellationToken) -> BoxFuture<'_, Result<(), String>>;
}

/// Control of the parts of the server outside the board.
pub trait ServerControl: Send + Sync + fmt::Debug {
    /// Reads the configuration again and applies what can change at run time, all of it or nothing. Reloads are
    /// serialised.
    fn reload(&self) -> BoxFuture<'_, Result<ReloadReport, BoardError>>;
}

/// What the process measures about itself.
pub trait ServerMonitor: Send + Sync + fmt::Debug {
    /// The named series since then, without names all; without a time, of the last hour. The flows are left empty.
    /// `Err` is the name that no series has.
    fn figures(&self, series: &[Arc<str>], since: Option<Timestamp>) -> Result<FigureReport, Arc<str>>;

    /// The last warnings and errors of the log, newest first.
    fn faults(&self) -> Vec<Fault>;
}

/// Wall-clock time. Timers use `tokio::time`, which tests can pause.
pub trait Clock: Send + Sync + fmt::Debug {
    fn now(&self) -> Timestamp;
}

/// Generates unique, time-ordered identifiers.
pub trait IdGenerator: Send + Sync + fmt::Debug {
    fn next(&self) -> Uuid;
}
