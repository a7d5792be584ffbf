//! Bridge commands: sessions of clients and workers, the tools they register, and the tools they call.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::Board;
use crate::access;
use crate::bridge::{BridgeCaller, NameContext, NameForm, TelemetryEvent, clipped, session_not_found};
use crate::budget::call_chain::CallChain;
use crate::caller::{Caller, Principal, Surface};
use crate::command::{CallInSession, FindTool, ListWorkers, OpenSession, RegisterTools, ToolFilter, ToolIds};
use crate::error::{BoardError, ErrorKind};
use crate::executor::CallRecorder;
use crate::executor::registry::ToolSet;
use crate::executor::{CallContext, StoredInputs};
use crate::id::{CallId, RunId};
use crate::model::{ToolCall, ToolInput};
use crate::port::{ProgressSink, ToolScope};
use crate::tool::{ToolEffect, ToolKind, ToolOutput, ToolSpec};
use crate::worker::SessionReport;

impl Board {
    /// Subscribes to telemetry events of the server and its workers.
    pub fn telemetry(&self, caller: &Caller) -> Result<broadcast::Receiver<Arc<TelemetryEvent>>, BoardError> {
        access::authorise(caller, &ListWorkers)?;
        Ok(self.0.bridge.telemetry().subscribe())
    }

    pub(super) async fn open_session(
        &self,
        caller: &Caller,
        request: OpenSession,
    ) -> Result<Vec<ToolSpec>, BoardError> {
        self.0.bridge.open(&request, caller).await?;
        // Workers open the session on every call and do not read the reply.
        let is_worker = request.worker.is_some();
        let tools = if is_worker { Vec::new() } else { self.tools_of_session(&request.id) };
        Ok(tools)
    }

    pub(super) async fn close_session(&self, caller: &Caller, id: &str) -> u32 {
        self.0.bridge.close(id, bridge_caller(caller)).await
    }

    pub(super) fn describe_session(&self, caller: &Caller, id: &Arc<str>) -> Result<SessionReport, BoardError> {
        let about = self.0.bridge.describe_session(id, bridge_caller(caller));
        let (metadata, created_at) = about.ok_or_else(|| session_not_found(id))?;
        let tools = u32::try_from(self.tools_of_session(id).len()).unwrap_or(u32::MAX);
        Ok(SessionReport { id: id.clone(), metadata, created_at, tools })
    }

    pub(super) fn touch_session(&self, caller: &Caller, id: &str) -> bool {
        self.0.bridge.touch_session(id, bridge_caller(caller)).is_some()
    }

    pub(super) fn register_tools(&self, request: RegisterTools) -> Result<ToolIds, BoardError> {
        let RegisterTools { session, tools, client_name, worker } = request;
        let ids = tools.iter().map(|tool| (tool.name.clone(), format!("{session}:{}", tool.name).into())).collect();
        self.0.bridge.register(&session, tools, &client_name, worker.as_ref())?;
        Ok(ids)
    }

    pub(super) async fn find_tool(&self, caller: &Caller, request: &FindTool) -> Result<ToolSpec, BoardError> {
        let (session, name, filter) = (&*request.session, &*request.name, request.filter);
        let scope =
            self.0.bridge.touch_session(session, bridge_caller(caller)).ok_or_else(|| session_not_found(session))?;
        let lookup = ToolLookup { session, name, folder: scope.folder.as_deref(), filter };
        let (ResolvedTool::Callable(spec, _) | ResolvedTool::ClientOwned(spec, _)) =
            self.resolve_tool(caller, &lookup).await?;
        check_filter(&spec, filter)?;
        Ok(spec)
    }

    /// Resolves a name: an exposed tool, a tool that a client registered in its session, or a tool that workers run
    /// without having registered it.
    async fn resolve_tool(&self, caller: &Caller, lookup: &ToolLookup<'_>) -> Result<ResolvedTool, BoardError> {
        if let Some(found) = self.find_registered(lookup) {
            return Ok(found);
        }
        // The tool may belong to a worker that is starting. A worker does not wait: it may be the one that is starting.
        if bridge_caller(caller) == BridgeCaller::Client
            && self.0.bridge.wait_for_pools().await
            && let Some(found) = self.find_registered(lookup)
        {
            return Ok(found);
        }
        let not_found = || tool_not_found(lookup.name, lookup.session);
        if lookup.filter == ToolFilter::ServerTools {
            return Err(not_found());
        }
        let inner = &self.0;
        let all = inner.run_deps.registry.tool_set(None, lookup.folder);
        let context = NameContext {
            reachable: &inner.bridge.exposed_tools(&all, &inner.run_deps.tool_executor.policy.get()),
            all: &all,
            policy: &inner.run_deps.tool_executor.policy.get(),
            surface: Surface::Bridge,
            form: NameForm::Any,
        };
        let found = inner.bridge.unregistered(lookup.name, &context, &inner.ids)?;
        found.map(|(spec, offer)| ResolvedTool::Callable(spec, offer)).ok_or_else(not_found)
    }

    fn find_registered(&self, lookup: &ToolLookup<'_>) -> Option<ResolvedTool> {
        let tool_set = self.exposed_tools(lookup.folder);
        if let Some((spec, _)) = tool_set.find(lookup.name) {
            let spec = spec.clone();
            return Some(ResolvedTool::Callable(spec, tool_set));
        }
        let (spec, by) = self.0.bridge.registered_tool(lookup.session, lookup.name)?;
        Some(ResolvedTool::ClientOwned(spec, by))
    }

    pub(super) fn host_tools(&self) -> Vec<ToolSpec> {
        let tool_set = self.exposed_tools(None);
        tool_set.specs.iter().filter(|spec| spec.kind != ToolKind::Worker).cloned().collect()
    }

    pub(super) async fn call_in_session(
        &self,
        caller: &Caller,
        request: CallInSession,
        stop: CancellationToken,
    ) -> Result<ToolOutput, BoardError> {
        let inner = &self.0;
        let CallInSession { name, arguments, filter, metadata } = request;
        let session = &metadata.session;
        let mut session_call =
            inner.bridge.begin_call(session, bridge_caller(caller)).ok_or_else(|| session_not_found(session))?;
        let lookup = ToolLookup { session, name: &name, folder: session_call.scope.folder.as_deref(), filter };
        let (spec, tool_set) = match self.resolve_tool(caller, &lookup).await? {
            ResolvedTool::Callable(spec, tool_set) => (spec, tool_set),
            ResolvedTool::ClientOwned(spec, by) => {
                check_filter(&spec, filter)?;
                let text = format!("Remote tool execution failed: Worker not found: {by}");
                return Ok(ToolOutput::error(text));
            }
        };
        check_filter(&spec, filter)?;
        let is_workers = spec.kind == ToolKind::Worker;
        if is_workers {
            session_call.stop_tracking();
        }
        // Writing tools of this server are recorded in the store before and after the call.
        let record = match (spec.kind, spec.effect) {
            (ToolKind::Worker, _) | (_, ToolEffect::ReadOnly) => CallRecorder::AuditQueue(inner.audit_trail.clone()),
            (_, ToolEffect::Writes) => CallRecorder::AuditStore(inner.store.clone()),
        };
        let call = ToolCall {
            id: CallId(format!("call_{}", inner.ids.next().simple()).into()),
            name: spec.name.clone(),
            input: ToolInput::Json(arguments),
        };
        let context = CallContext {
            caller: caller.clone(),
            agent: None,
            run: RunId(inner.ids.next()),
            call_chain: session_call
                .call_chain
                .take()
                .unwrap_or_else(|| CallChain::root(session_call.scope.session.clone(), &caller.principal, None)),
            scope: ToolScope {
                session: session_call.scope.session.clone(),
                owner: session_call.scope.owner.clone(),
                folder: session_call.scope.folder.clone(),
                folder_grant: session_call.scope.folder_grant.clone(),
                progress: ProgressSink::default(),
                call_metadata: Some(Arc::new(metadata)),
            },
            tool_set,
            node: None,
            recorder: record,
            plugin_depth: 0,
            made_by: None,
            stored_inputs: StoredInputs::default(),
        };
        if is_workers {
            return self.call_tracked(&context, call, stop).await;
        }
        // A call of a server tool ends with its session; a worker is notified of the end instead.
        let stop = stop.child_token();
        let calling = self.call_tracked(&context, call, stop.clone());
        tokio::pin!(calling);
        tokio::select! {
            biased;
            called = &mut calling => called,
            () = session_call.session_ended().cancelled() => {
                stop.cancel();
                calling.await
            }
        }
    }

    /// Runs a call outside of any run. A drain waits for it; dropping the future drops the call.
    pub(super) async fn call_tracked(
        &self,
        context: &CallContext,
        call: ToolCall,
        stop: CancellationToken,
    ) -> Result<ToolOutput, BoardError> {
        let inner = &self.0;
        let _tracked = inner.tracker.token();
        let stop = stop.child_token();
        let calling = inner.run_deps.tool_executor.call_outside_run(context, call, &stop);
        tokio::pin!(calling);
        let output = tokio::select! {
            output = &mut calling => output,
            () = inner.closing.cancelled() => {
                stop.cancel();
                calling.await
            }
        };
        output
    }

    /// The tools that bridge clients may reach.
    fn exposed_tools(&self, folder: Option<&Path>) -> ToolSet {
        let deps = &self.0.run_deps;
        self.0.bridge.exposed_tools(&deps.registry.tool_set(None, folder), &deps.tool_executor.policy.get())
    }

    fn tools_of_session(&self, session: &str) -> Vec<ToolSpec> {
        let tool_set = self.exposed_tools(None);
        let taken: HashSet<&Arc<str>> = tool_set.specs.iter().map(|spec| &spec.name).collect();
        let registered = self.0.bridge.registered_tools(session);
        let workers = tool_set.specs.iter().filter(|spec| spec.kind == ToolKind::Worker).cloned();
        workers.chain(registered.into_iter().filter(|spec| !taken.contains(&spec.name))).collect()
    }
}

/// A lookup of a tool by name.
#[derive(Debug, Clone, Copy)]
struct ToolLookup<'a> {
    session: &'a str,
    name: &'a str,
    folder: Option<&'a Path>,
    filter: ToolFilter,
}

/// Result of a lookup.
#[derive(Debug)]
enum ResolvedTool {
    /// A callable tool, and the tool set that contains it.
    Callable(ToolSpec, ToolSet),
    /// A registered tool whose client cannot be called back, and that client's name.
    ClientOwned(ToolSpec, Arc<str>),
}

fn tool_not_found(name: &str, session: &str) -> BoardError {
    BoardError::not_found(format!("Tool {} not found for session {}", clipped(name), clipped(session)))
}

fn check_filter(spec: &ToolSpec, filter: ToolFilter) -> Result<(), BoardError> {
    let message = match filter {
        ToolFilter::ServerTools if spec.kind == ToolKind::Worker => format!("Tool {} is not an Elixir tool", spec.name),
        ToolFilter::Streaming if !spec.streams() => {
            format!("Streaming execution is not enabled for tool {}", spec.name)
        }
        ToolFilter::All | ToolFilter::ServerTools | ToolFilter::Streaming => return Ok(()),
    };
    Err(BoardError::new(ErrorKind::Conflict, message))
}

/// Workers connect through listeners of their own, under principals that no client can have.
pub(super) fn bridge_caller(caller: &Caller) -> BridgeCaller<'_> {
    if let (Principal::Worker(worker), Surface::Bridge) = (&caller.principal, caller.surface) {
        BridgeCaller::Worker(worker)
    } else {
        BridgeCaller::Client
    }
}
