//! Commands of programs: their sessions, the tools they bring and those they call.

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
use crate::executor::CallContext;
use crate::executor::CallRecorder;
use crate::executor::registry::ToolSet;
use crate::id::{CallId, RunId};
use crate::model::{ToolCall, ToolInput};
use crate::port::{ProgressSink, ToolScope};
use crate::tool::{ToolEffect, ToolKind, ToolOutput, ToolSpec};
use crate::worker::SessionReport;

impl Board {
    /// What the server and its workers tell about themselves from now on.
    pub fn telemetry(&self, caller: &Caller) -> Result<broadcast::Receiver<Arc<TelemetryEvent>>, BoardError> {
        access::authorise(caller, &ListWorkers)?;
        Ok(self.0.bridge.telemetry().subscribe())
    }

    pub(super) async fn open_session(&self, caller: &Caller, wanted: OpenSession) -> Result<Vec<ToolSpec>, BoardError> {
        self.0.bridge.open(&wanted, caller).await?;
        // Workers ask on every call and do not read the answer.
        let is_worker = wanted.worker.is_some();
        let tools = if is_worker { Vec::new() } else { self.tools_of_session(&wanted.id) };
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

    pub(super) fn register_tools(&self, wanted: RegisterTools) -> Result<ToolIds, BoardError> {
        let RegisterTools { session, tools, client_name: named, worker } = wanted;
        let ids = tools.iter().map(|tool| (tool.name.clone(), format!("{session}:{}", tool.name).into())).collect();
        self.0.bridge.register(&session, tools, &named, worker.as_ref())?;
        Ok(ids)
    }

    pub(super) async fn find_tool(&self, caller: &Caller, request: &FindTool) -> Result<ToolSpec, BoardError> {
        let (session, name, filter) = (&*request.session, &*request.name, request.filter);
        let place =
            self.0.bridge.touch_session(session, bridge_caller(caller)).ok_or_else(|| session_not_found(session))?;
        let wanted = ToolLookup { session, name, folder: place.folder.as_deref(), filter };
        let (ResolvedTool::Callable(spec, _) | ResolvedTool::ClientOwned(spec, _)) =
            self.resolve_tool(caller, &wanted).await?;
        check_filter(&spec, filter)?;
        Ok(spec)
    }

    /// What a name means to a program: a tool it may reach, one that a program registered in its session, or one that
    /// workers run without having registered it.
    async fn resolve_tool(&self, caller: &Caller, wanted: &ToolLookup<'_>) -> Result<ResolvedTool, BoardError> {
        if let Some(found) = self.find_registered(wanted) {
            return Ok(found);
        }
        // It may be the tool of a worker that is starting; a worker that asks may be that one, and does not wait.
        if bridge_caller(caller) == BridgeCaller::Client
            && self.0.bridge.wait_for_pools().await
            && let Some(found) = self.find_registered(wanted)
        {
            return Ok(found);
        }
        let not_found = || tool_not_found(wanted.name, wanted.session);
        if wanted.filter == ToolFilter::ServerTools {
            return Err(not_found());
        }
        let inner = &self.0;
        let all = inner.run_deps.registry.tool_set(None, wanted.folder);
        let context = NameContext {
            reachable: &inner.bridge.exposed_tools(&all, &inner.run_deps.tool_executor.policy.get()),
            all: &all,
            policy: &inner.run_deps.tool_executor.policy.get(),
            surface: Surface::Bridge,
            form: NameForm::Any,
        };
        let found = inner.bridge.unregistered(wanted.name, &context, &inner.ids)?;
        found.map(|(spec, offer)| ResolvedTool::Callable(spec, offer)).ok_or_else(not_found)
    }

    fn find_registered(&self, wanted: &ToolLookup<'_>) -> Option<ResolvedTool> {
        let offer = self.exposed_tools(wanted.folder);
        if let Some((spec, _)) = offer.find(wanted.name) {
            let spec = spec.clone();
            return Some(ResolvedTool::Callable(spec, offer));
        }
        let (spec, by) = self.0.bridge.registered_tool(wanted.session, wanted.name)?;
        Some(ResolvedTool::ClientOwned(spec, by))
    }

    pub(super) fn host_tools(&self) -> Vec<ToolSpec> {
        let offer = self.exposed_tools(None);
        offer.specs.iter().filter(|spec| spec.kind != ToolKind::Worker).cloned().collect()
    }

    pub(super) async fn call_in_session(
        &self,
        caller: &Caller,
        wanted: CallInSession,
        stop: CancellationToken,
    ) -> Result<ToolOutput, BoardError> {
        let inner = &self.0;
        let CallInSession { name, arguments, filter, metadata } = wanted;
        let session = &metadata.session;
        let mut visit =
            inner.bridge.begin_call(session, bridge_caller(caller)).ok_or_else(|| session_not_found(session))?;
        let wanted = ToolLookup { session, name: &name, folder: visit.scope.folder.as_deref(), filter };
        let (spec, offer) = match self.resolve_tool(caller, &wanted).await? {
            ResolvedTool::Callable(spec, offer) => (spec, offer),
            ResolvedTool::ClientOwned(spec, by) => {
                check_filter(&spec, filter)?;
                let text = format!("Remote tool execution failed: Worker not found: {by}");
                return Ok(ToolOutput::error(text));
            }
        };
        check_filter(&spec, filter)?;
        let is_workers = spec.kind == ToolKind::Worker;
        if is_workers {
            visit.stop_tracking();
        }
        // What changes something of this server's own is on record before and after it happens.
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
            run: RunId(inner.ids.next()),
            call_chain: visit.call_chain.take().unwrap_or_else(|| CallChain::root(visit.scope.session.clone(), None)),
            scope: ToolScope {
                session: visit.scope.session.clone(),
                owner: visit.scope.owner.clone(),
                folder: visit.scope.folder.clone(),
                folder_grant: visit.scope.folder_grant.clone(),
                progress: ProgressSink::default(),
                call_metadata: Some(Arc::new(metadata)),
            },
            tool_set: offer,
            node: None,
            recorder: record,
            plugin_depth: 0,
        };
        if is_workers {
            return self.call_tracked(&context, call, stop).await;
        }
        // What the server itself does in a session ends with it.
        let stop = stop.child_token();
        let calling = self.call_tracked(&context, call, stop.clone());
        tokio::pin!(calling);
        tokio::select! {
            biased;
            called = &mut calling => called,
            () = visit.session_ended().cancelled() => {
                stop.cancel();
                calling.await
            }
        }
    }

    /// Outside of any run, and still waited for by a drain; dropping it drops the call.
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

    /// The tools that programs may reach.
    fn exposed_tools(&self, folder: Option<&Path>) -> ToolSet {
        let deps = &self.0.run_deps;
        self.0.bridge.exposed_tools(&deps.registry.tool_set(None, folder), &deps.tool_executor.policy.get())
    }

    fn tools_of_session(&self, session: &str) -> Vec<ToolSpec> {
        let offer = self.exposed_tools(None);
        let taken: HashSet<&Arc<str>> = offer.specs.iter().map(|spec| &spec.name).collect();
        let registered = self.0.bridge.registered_tools(session);
        let workers = offer.specs.iter().filter(|spec| spec.kind == ToolKind::Worker).cloned();
        workers.chain(registered.into_iter().filter(|spec| !taken.contains(&spec.name))).collect()
    }
}

/// A tool that a program asks for by its name.
#[derive(Debug, Clone, Copy)]
struct ToolLookup<'a> {
    session: &'a str,
    name: &'a str,
    folder: Option<&'a Path>,
    filter: ToolFilter,
}

/// What a program's name for a tool leads to.
#[derive(Debug)]
enum ResolvedTool {
    /// A tool that can be called, and the offer that has it.
    Callable(ToolSpec, ToolSet),
    /// A tool of a program that cannot be called back, and how that program names itself.
    ClientOwned(ToolSpec, Arc<str>),
}

fn tool_not_found(name: &str, session: &str) -> BoardError {
    BoardError::not_found(format!("Tool {} not found for session {}", clipped(name), clipped(session)))
}

fn check_filter(spec: &ToolSpec, filter: ToolFilter) -> Result<(), BoardError> {
    let words = match filter {
        ToolFilter::ServerTools if spec.kind == ToolKind::Worker => format!("Tool {} is not an Elixir tool", spec.name),
        ToolFilter::Streaming if !spec.streams() => {
            format!("Streaming execution is not enabled for tool {}", spec.name)
        }
        ToolFilter::All | ToolFilter::ServerTools | ToolFilter::Streaming => return Ok(()),
    };
    Err(BoardError::new(ErrorKind::Conflict, words))
}

/// Workers call back on lines of their own, under names no client can have.
pub(super) fn bridge_caller(caller: &Caller) -> BridgeCaller<'_> {
    if let (Principal::Worker(worker), Surface::Bridge) = (&caller.principal, caller.surface) {
        BridgeCaller::Worker(worker)
    } else {
        BridgeCaller::Client
    }
}
