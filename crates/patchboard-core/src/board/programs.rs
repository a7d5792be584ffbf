//! Commands of programs: their sessions, the tools they bring and those they call.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::Board;
use crate::access::{self, Caller, Surface};
use crate::bridge::{NameContext, NameForm, SessionReport, Signal, WORKER_KIND, Who, clipped, session_not_found};
use crate::command::{CallInSession, Command, OpenSession, Reach, RegisterTools};
use crate::error::{BoardError, ErrorKind};
use crate::id::{CallId, RunId};
use crate::model::{ToolCall, ToolInput};
use crate::reply::Reply;
use crate::run::Nesting;
use crate::tool::desk::Record;
use crate::tool::registry::Offer;
use crate::tool::{CallContext, Effect, ToolOutput, ToolScope, ToolSpec, ToolVoice};

impl Board {
    /// What the server and its workers tell about themselves from now on.
    pub fn signals(&self, caller: &Caller) -> Result<broadcast::Receiver<Arc<Signal>>, BoardError> {
        access::authorise(caller, &Command::ListWorkers)?;
        Ok(self.0.bridge.signals().listen())
    }

    pub(super) async fn open_session(&self, caller: &Caller, wanted: OpenSession) -> Result<Reply, BoardError> {
        self.0.bridge.open(&wanted, caller).await?;
        // Workers ask on every call and do not read the answer.
        let is_worker = wanted.worker.is_some();
        let tools = if is_worker { Vec::new() } else { self.tools_of_programs(&wanted.id) };
        Ok(Reply::SessionOpened(tools))
    }

    pub(super) async fn close_session(&self, caller: &Caller, id: &str) -> Reply {
        Reply::SessionClosed { resources: self.0.bridge.close(id, who(caller)).await }
    }

    pub(super) fn describe_session(&self, caller: &Caller, id: &Arc<str>) -> Result<Reply, BoardError> {
        let about = self.0.bridge.about(id, who(caller));
        let (metadata, created_at) = about.ok_or_else(|| session_not_found(id))?;
        let tools = u32::try_from(self.tools_of_programs(id).len()).unwrap_or(u32::MAX);
        Ok(Reply::BridgeSession(SessionReport { id: id.clone(), metadata, created_at, tools }))
    }

    pub(super) fn touch_session(&self, caller: &Caller, id: &str) -> Reply {
        Reply::SessionTouched { exists: self.0.bridge.look(id, who(caller)).is_some() }
    }

    pub(super) fn register_tools(&self, wanted: RegisterTools) -> Result<Reply, BoardError> {
        let RegisterTools { session, tools, named, worker } = wanted;
        let ids = tools.iter().map(|tool| (tool.name.clone(), format!("{session}:{}", tool.name).into())).collect();
        self.0.bridge.register(&session, tools, &named, worker.as_ref())?;
        Ok(Reply::ToolsRegistered(ids))
    }

    pub(super) async fn find_tool(
        &self,
        caller: &Caller,
        session: &str,
        name: &str,
        reach: Reach,
    ) -> Result<Reply, BoardError> {
        let place = self.0.bridge.look(session, who(caller)).ok_or_else(|| session_not_found(session))?;
        let wanted = WantedTool { session, name, folder: place.folder.as_deref(), reach };
        let (Found::Offered(spec, _) | Found::Registered(spec, _)) = self.resolve(caller, &wanted).await?;
        reachable(&spec, reach)?;
        Ok(Reply::Tool(spec))
    }

    /// What a name means to a program: a tool it may reach, one that a program registered in its session, or one that
    /// workers run without having registered it.
    async fn resolve(&self, caller: &Caller, wanted: &WantedTool<'_>) -> Result<Found, BoardError> {
        if let Some(found) = self.registered(wanted) {
            return Ok(found);
        }
        // It may be the tool of a worker that is starting; a worker that asks may be that one, and does not wait.
        if who(caller) == Who::Client
            && self.0.bridge.settle().await
            && let Some(found) = self.registered(wanted)
        {
            return Ok(found);
        }
        let not_found = || tool_not_found(wanted.name, wanted.session);
        if wanted.reach == Reach::Host {
            return Err(not_found());
        }
        let inner = &self.0;
        let all = inner.deps.registry.offer(None, wanted.folder);
        let context = NameContext {
            reachable: &inner.bridge.offer(&all, &inner.deps.desk.policy.get()),
            all: &all,
            policy: &inner.deps.desk.policy.get(),
            surface: Surface::Bridge,
            form: NameForm::Any,
        };
        let found = inner.bridge.unregistered(wanted.name, &context, &inner.ids)?;
        found.map(|(spec, offer)| Found::Offered(spec, offer)).ok_or_else(not_found)
    }

    fn registered(&self, wanted: &WantedTool<'_>) -> Option<Found> {
        let offer = self.offer(wanted.folder);
        if let Some((spec, _)) = offer.find(wanted.name) {
            let spec = spec.clone();
            return Some(Found::Offered(spec, offer));
        }
        let (spec, by) = self.0.bridge.registered(wanted.session, wanted.name)?;
        Some(Found::Registered(spec, by))
    }

    pub(super) fn host_tools(&self) -> Reply {
        let offer = self.offer(None);
        Reply::HostTools(offer.specs.iter().filter(|spec| spec.kind != WORKER_KIND).cloned().collect())
    }

    pub(super) async fn call_in_session(
        &self,
        caller: &Caller,
        wanted: CallInSession,
        stop: CancellationToken,
    ) -> Result<Reply, BoardError> {
        let inner = &self.0;
        let CallInSession { name, arguments, reach, parcel } = wanted;
        let session = &parcel.session;
        let mut visit = inner.bridge.enter(session, who(caller)).ok_or_else(|| session_not_found(session))?;
        let wanted = WantedTool { session, name: &name, folder: visit.place.folder.as_deref(), reach };
        let (spec, offer) = match self.resolve(caller, &wanted).await? {
            Found::Offered(spec, offer) => (spec, offer),
            Found::Registered(spec, by) => {
                reachable(&spec, reach)?;
                let text = format!("Remote tool execution failed: Worker not found: {by}");
                return Ok(Reply::ToolCalled(ToolOutput::error(text)));
            }
        };
        reachable(&spec, reach)?;
        let is_workers = spec.kind == WORKER_KIND;
        if is_workers {
            visit.leave_to_worker();
        }
        // What changes something of this server's own is on record before and after it happens.
        let record = match (spec.kind, spec.effect) {
            (WORKER_KIND, _) | (_, Effect::ReadOnly) => Record::Behind(inner.trail.clone()),
            (_, Effect::Writes) => Record::Audit(inner.store.clone()),
        };
        let call = ToolCall {
            id: CallId(format!("call_{}", inner.ids.next().simple()).into()),
            name: spec.name.clone(),
            input: ToolInput::Json(arguments),
        };
        let context = CallContext {
            caller: caller.clone(),
            run: RunId(inner.ids.next()),
            nesting: visit.nesting.take().unwrap_or_else(|| Nesting::top(visit.place.session.clone(), None)),
            scope: ToolScope {
                session: visit.place.session.clone(),
                owner: visit.place.owner.clone(),
                folder: visit.place.folder.clone(),
                folder_grant: visit.place.folder_grant.clone(),
                voice: ToolVoice::default(),
                parcel: Some(Arc::new(parcel)),
            },
            offer,
            node: None,
            record,
            depth: 0,
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
            () = visit.over().cancelled() => {
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
    ) -> Result<Reply, BoardError> {
        let inner = &self.0;
        let _tracked = inner.tracker.token();
        let stop = stop.child_token();
        let calling = inner.deps.desk.call_alone(context, call, &stop);
        tokio::pin!(calling);
        let output = tokio::select! {
            output = &mut calling => output,
            () = inner.closing.cancelled() => {
                stop.cancel();
                calling.await
            }
        };
        Ok(Reply::ToolCalled(output?))
    }

    /// What programs may reach, and nothing else.
    fn offer(&self, folder: Option<&Path>) -> Offer {
        let deps = &self.0.deps;
        self.0.bridge.offer(&deps.registry.offer(None, folder), &deps.desk.policy.get())
    }

    fn tools_of_programs(&self, session: &str) -> Vec<ToolSpec> {
        let offer = self.offer(None);
        let taken: HashSet<&Arc<str>> = offer.specs.iter().map(|spec| &spec.name).collect();
        let registered = self.0.bridge.registered_tools(session);
        let workers = offer.specs.iter().filter(|spec| spec.kind == WORKER_KIND).cloned();
        workers.chain(registered.into_iter().filter(|spec| !taken.contains(&spec.name))).collect()
    }
}

/// A tool that a program asks for by its name.
#[derive(Debug, Clone, Copy)]
struct WantedTool<'a> {
    session: &'a str,
    name: &'a str,
    folder: Option<&'a Path>,
    reach: Reach,
}

/// What a program's name for a tool leads to.
#[derive(Debug)]
enum Found {
    /// A tool that can be called, and the offer that has it.
    Offered(ToolSpec, Offer),
    /// A tool of a program that cannot be called back, and how that program names itself.
    Registered(ToolSpec, Arc<str>),
}

fn tool_not_found(name: &str, session: &str) -> BoardError {
    BoardError::not_found(format!("Tool {} not found for session {}", clipped(name), clipped(session)))
}

fn reachable(spec: &ToolSpec, reach: Reach) -> Result<(), BoardError> {
    let words = match reach {
        Reach::Host if spec.kind == WORKER_KIND => format!("Tool {} is not an Elixir tool", spec.name),
        Reach::Streams if !spec.streams() => format!("Streaming execution is not enabled for tool {}", spec.name),
        Reach::All | Reach::Host | Reach::Streams => return Ok(()),
    };
    Err(BoardError::new(ErrorKind::Conflict, words))
}

/// Workers call back on lines of their own, under names no client can have.
pub(super) fn who(caller: &Caller) -> Who<'_> {
    match caller.principal.strip_prefix("worker:") {
        Some(worker) if caller.surface == Surface::Bridge => Who::Worker(worker),
        Some(_) | None => Who::Client,
    }
}
