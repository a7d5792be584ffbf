//! A server as a `ToolHost`: its approved tools, and calls to it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use patchboard_core::error::BoxError;
use patchboard_core::extensions::{McpServerStage, McpServerState, ToolChangeReport};
use patchboard_core::model::ToolCall;
use patchboard_core::port::ToolHost;
use patchboard_core::port::ToolScope;
use patchboard_core::tool::{IDEMPOTENCY_KEY, ToolKind, ToolOutput, ToolSpec};
use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest, ErrorData};
use rmcp::service::{PeerRequestOptions, RequestHandle, RoleClient, ServiceError};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{ConnectionHandle, service_error_text};
use super::notifications::ServerNotifications;
use super::pin::{PinStore, ToolPins, tool_changes};
use super::tool_list::{ListedTool, qualified_name};
use super::{ApproveError, LaunchMode, McpServerOptions, PendingTool, output};
use crate::text::clipped;

/// Concurrent calls; further ones wait.
const MAX_CONCURRENT_CALLS: usize = 64;
/// Time limit for sending a cancellation to the server.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_ERROR: usize = 4 * 1024;

pub(super) struct McpHost {
    pub(super) options: McpServerOptions,
    pub(super) launch: LaunchMode,
    pins: Arc<dyn PinStore>,
    pub(super) tasks: TaskTracker,
    call_permits: Semaphore,
    state: Mutex<HostState>,
    /// Serialises changes of the pins.
    pin_lock: tokio::sync::Mutex<()>,
}

struct HostState {
    connection: Option<ConnectionHandle>,
    /// Why there is no connection.
    unavailable_reason: Arc<str>,
    /// The tools the server offered last, approved or not.
    listed: Option<Vec<ListedTool>>,
    specs: Arc<[ToolSpec]>,
    /// Maps the names in `specs` to the server's own names.
    server_names: HashMap<Arc<str>, String>,
    pending: Vec<PendingTool>,
    changes: Vec<ToolChangeReport>,
    stage_since: Instant,
    last_error: Option<Arc<str>>,
}

impl fmt::Debug for McpHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpHost").field("options", &self.options).finish_non_exhaustive()
    }
}

impl McpHost {
    pub(super) fn new(
        options: McpServerOptions,
        launch: LaunchMode,
        pins: Arc<dyn PinStore>,
        tasks: TaskTracker,
    ) -> Self {
        let state = HostState {
            connection: None,
            unavailable_reason: "it is starting".into(),
            listed: None,
            specs: Arc::new([]),
            server_names: HashMap::new(),
            pending: Vec::new(),
            changes: Vec::new(),
            stage_since: Instant::now(),
            last_error: None,
        };
        Self {
            options,
            launch,
            pins,
            tasks,
            call_permits: Semaphore::new(MAX_CONCURRENT_CALLS),
            state: Mutex::new(state),
            pin_lock: tokio::sync::Mutex::new(()),
        }
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.options.name
    }

    /// Records that the server is connected and offers these tools. Only approved tools are passed on; the first list
    /// ever seen is approved automatically. Returns the number of usable tools.
    pub(super) async fn mark_available(
        &self,
        connection: ConnectionHandle,
        listed: Vec<ListedTool>,
    ) -> Result<usize, BoxError> {
        let _guard = self.pin_lock.lock().await;
        let pins = match self.pins.load(self.name()).await? {
            Some(pins) => pins,
            // No pins are stored yet: the first non-empty list is approved.
            None if listed.is_empty() => ToolPins::default(),
            None => {
                let pins = ToolPins::from_tools(&listed);
                self.pins.save(self.name(), pins.clone()).await?;
                pins
            }
        };
        let (usable, pending) = self.split_by_approval(&listed, &pins);
        let server = self.name();
        for PendingTool { name, change } in &pending {
            tracing::warn!(
                mcp.server = &**server,
                "the tool `{name}` {change} since it was approved and is not offered; \
                 look at it and run `patchboard tools approve {server}`"
            );
        }
        let changes = tool_changes(server, &listed, &pins, |tool| qualified_name(server, tool).into());
        let mut state = self.state();
        if state.connection.is_none() {
            state.stage_since = Instant::now();
        }
        state.changes = changes;
        state.connection = Some(connection);
        state.listed = Some(listed);
        state.pending = pending;
        state.set_tools(usable);
        Ok(state.specs.len())
    }

    /// Records that the server is not connected.
    pub(super) fn mark_unavailable(&self, reason: &str) {
        let mut state = self.state();
        if state.connection.take().is_some() || state.last_error.is_none() {
            state.stage_since = Instant::now();
        }
        state.last_error = Some(reason.into());
        state.changes = Vec::new();
        state.unavailable_reason = reason.into();
        state.listed = None;
        state.pending = Vec::new();
        state.set_tools(Vec::new());
    }

    pub(super) fn pending(&self) -> Vec<PendingTool> {
        self.state().pending.clone()
    }

    pub(super) async fn approve(&self) -> Result<Vec<Arc<str>>, ApproveError> {
        let _guard = self.pin_lock.lock().await;
        let listed = {
            let state = self.state();
            let not_listed = || ApproveError::NotListed(self.name().clone(), state.unavailable_reason.clone());
            state.listed.clone().ok_or_else(not_listed)?
        };
        let pins = ToolPins::from_tools(&listed);
        self.pins.save(self.name(), pins.clone()).await.map_err(ApproveError::Store)?;
        let (usable, _) = self.split_by_approval(&listed, &pins);
        let mut state = self.state();
        state.changes = Vec::new();
        let approved = std::mem::take(&mut state.pending).into_iter().map(|tool| tool.name).collect();
        // If the server has disconnected in the meantime, its tools are reviewed when it is back.
        if state.listed.is_some() {
            state.set_tools(usable);
        }
        Ok(approved)
    }

    fn split_by_approval(&self, listed: &[ListedTool], pins: &ToolPins) -> (Vec<(ToolSpec, String)>, Vec<PendingTool>) {
        let mut usable = Vec::new();
        let mut pending = Vec::new();
        for tool in listed {
            match pins.change(tool) {
                None => usable.push((tool.spec(self.name(), self.options.call_timeout), tool.name.clone())),
                Some(change) => {
                    pending.push(PendingTool { name: qualified_name(self.name(), &tool.name).into(), change });
                }
            }
        }
        (usable, pending)
    }

    fn find(&self, tool: &str) -> Result<(ConnectionHandle, String), String> {
        let state = self.state();
        let server = self.name();
        let Some(connection) = &state.connection else {
            return Err(format!("the MCP server `{server}` is not there now: {}", state.unavailable_reason));
        };
        match state.server_names.get(tool) {
            Some(server_name) => Ok((connection.clone(), server_name.clone())),
            None => Err(format!("the MCP server `{server}` does not offer `{tool}` any more")),
        }
    }

    async fn run(
        &self,
        scope: &ToolScope,
        call: &ToolCall,
        arguments: &Value,
        stop: CancellationToken,
    ) -> Result<ToolOutput, String> {
        let (connection, server_name) = self.find(&call.name)?;
        let Some(arguments) = arguments.as_object() else {
            return Err("the arguments are not an object".to_owned());
        };
        let mut params = CallToolRequestParams::new(server_name).with_arguments(arguments.clone());
        // A server can recognise a call that is made again after a crash.
        params.meta.get_or_insert_default().0.0.insert(IDEMPOTENCY_KEY.to_owned(), call.id.to_string().into());
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let exchange = async {
            let Ok(_permit) = self.call_permits.acquire().await else { return Err("cancelled".to_owned()) };
            let result = connection.peer.send_request_with_option(request, PeerRequestOptions::no_options()).await;
            let handle = result.map_err(|error| self.call_error(&connection, &error))?;
            let mut progress_messages = connection.notifications.subscribe_progress(handle.progress_token.clone());
            let mut in_flight = InFlightCall {
                handle: Some(handle),
                notifications: connection.notifications.clone(),
                tasks: self.tasks.clone(),
            };
            let forward_progress = async {
                while let Some(progress) = progress_messages.recv().await {
                    scope.progress.send_text(progress).await;
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                biased;
                response = in_flight.response() => response.map_err(|error| self.call_error(&connection, &error)),
                () = forward_progress => Err("cancelled".to_owned()),
            }
        };
        let result = tokio::select! {
            biased;
            result = exchange => result?,
            () = stop.cancelled() => return Err("cancelled".to_owned()),
            () = tokio::time::sleep(self.options.call_timeout) => {
                let seconds = self.options.call_timeout.as_secs_f64();
                return Err(format!("the MCP server `{}` did not answer within {seconds} s", self.name()));
            }
        };
        Ok(output::tool_output(&result))
    }

    /// An error message for the model.
    fn call_error(&self, connection: &ConnectionHandle, error: &ServiceError) -> String {
        let server = self.name();
        if let ServiceError::McpError(ErrorData { code, message, .. }) = error {
            let code = code.0;
            return clipped(&format_args!("the MCP server `{server}` refused the call: {message} ({code})"), MAX_ERROR);
        }
        if let ServiceError::TransportClosed = error {
            return format!("the MCP server `{server}` went away during the call");
        }
        connection.notifications.health_check.notify_one();
        format!("the MCP server `{server}` cannot be reached: {}", service_error_text(error))
    }

    fn state(&self) -> MutexGuard<'_, HostState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostState {
    fn set_tools(&mut self, usable: Vec<(ToolSpec, String)>) {
        self.server_names = usable.iter().map(|(spec, server_name)| (spec.name.clone(), server_name.clone())).collect();
        self.specs = usable.into_iter().map(|(spec, _)| spec).collect();
    }
}

/// A call in progress. If dropped before its response arrives, it sends a cancellation to the server.
struct InFlightCall {
    handle: Option<RequestHandle<RoleClient>>,
    notifications: Arc<ServerNotifications>,
    tasks: TaskTracker,
}

impl InFlightCall {
    async fn response(&mut self) -> Result<Value, ServiceError> {
        let Some(handle) = &mut self.handle else { return Err(ServiceError::TransportClosed) };
        let response = (&mut handle.rx).await.unwrap_or(Err(ServiceError::TransportClosed));
        if let Some(handle) = self.handle.take() {
            self.notifications.unsubscribe_progress(&handle.progress_token);
        }
        serde_json::to_value(response?).map_err(|_| ServiceError::UnexpectedResponse)
    }
}

impl Drop for InFlightCall {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else { return };
        self.notifications.unsubscribe_progress(&handle.progress_token);
        self.tasks.spawn(async move {
            let cancellation = handle.cancel(Some("the call is no longer wanted".to_owned()));
            if !matches!(tokio::time::timeout(CANCEL_TIMEOUT, cancellation).await, Ok(Ok(()))) {
                tracing::debug!("cannot send the cancellation of a call to an MCP server");
            }
        });
    }
}

impl ToolHost for McpHost {
    fn kind(&self) -> ToolKind {
        ToolKind::Mcp
    }

    fn tools(&self, _folder: Option<&std::path::Path>) -> Arc<[ToolSpec]> {
        self.state().specs.clone()
    }

    fn call<'a>(
        &'a self,
        scope: &'a ToolScope,
        call: &'a ToolCall,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move { self.run(scope, call, arguments, stop).await.unwrap_or_else(ToolOutput::error) })
    }

    fn pending_changes(&self) -> Vec<ToolChangeReport> {
        self.state().changes.clone()
    }

    fn mcp_server(&self) -> Option<McpServerState> {
        let state = self.state();
        let stage = match (&state.connection, &state.last_error) {
            (Some(_), _) => McpServerStage::Ready,
            (None, None) => McpServerStage::Starting,
            (None, Some(_)) => McpServerStage::Failed,
        };
        Some(McpServerState {
            name: self.name().clone(),
            stage,
            stage_age: state.stage_since.elapsed(),
            last_error: state.last_error.clone(),
            tools: state.specs.iter().map(|spec| spec.name.clone()).collect(),
        })
    }

    fn host_name<'a>(&'a self, _tool: &'a ToolSpec) -> &'a str {
        self.name()
    }

    fn approve<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Option<Result<Vec<Arc<str>>, String>>> {
        Box::pin(async move {
            if **self.name() != *server {
                return None;
            }
            Some(McpHost::approve(self).await.map_err(|error| error.to_string()))
        })
    }
}
