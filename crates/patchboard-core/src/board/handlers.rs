//! Handlers of commands.

use crate::access::Guarded;
use crate::command::{
    AddWorkspaceThread, AnswerInput, AnswerMessage, ApproveApp, ApprovePlugin, ApproveTools, BudgetStatus,
    CallInSession, CancelMessage, CancelRun, ClearSession, CloseSession, ConfirmAppAlive, CreateWorkspace,
    DeregisterApp, DescribeNode, DescribeServer, DescribeSession, DetachRun, ExplainRouting, FindRun, FindTool,
    ForgetApp, ListAgents, ListApps, ListHostTools, ListInputs, ListMessages, ListModels, ListPlugins, ListSessions,
    ListTools, ListWorkers, ListWorkspaceThreads, ListWorkspaces, LoadPlugin, NextInboxEvent, OpenSession, PairApp,
    ReadHistory, ReadMessage, ReadThread, ReceiveWebhook, RegisterApp, RegisterTools, ReloadSettings,
    RemoveWorkspaceThread, ResendMessage, SearchMemory, SetModel, StartRun, SubmitMessage, SummariseUsage,
    TouchSession, UnloadPlugin,
};
use crate::command::{CreateKey, ListKeys, RevokeKey};
use crate::reply::{BudgetReport, SessionHistory, ThreadPage};
use crate::store::{FactRow, SessionRow, UsageGroup};
use crate::tool::{ToolOutput, ToolSpec};
use futures_core::future::BoxFuture;
use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{Board, messages};
use crate::access;
use crate::agent::{AgentTable, PROFILE_AGENTS};
use crate::bridge::{NameContext, NameForm};
use crate::budget::BudgetLimits;
use crate::budget::call_chain::CallChain;
use crate::caller::{Caller, Grant};
use crate::command::ExplainLocalRouting;
use crate::command::{CallTool, Command, PageRequest, SessionRef};
use crate::error::BoardError;
use crate::executor::CallContext;
use crate::executor::{CallRecorder, StoredInputs};
use crate::id::{CallId, MemoryOwner, RunId};
use crate::model::{ToolCall, ToolInput};
use crate::port::{ProgressSink, ToolScope};
use crate::reply::{AgentSummary, NodeReport};
use crate::run::start;
use crate::run_spec::{AgentSource, StrategyKind};
use crate::store::RunRequestKind;
use crate::store::{
    AuditRow, AuditSubject, FactQuery, PageCursor, ResultPage, StoreError, StoreWrite, TurnQuery, UsageGrouping,
    UsageQuery, WriteBatch,
};

/// A command that the board can execute.
pub trait BoardCommand: Guarded {
    /// Work done before this returns happens in call order; the rest happens when the future is polled.
    fn execute(self, board: &Board, caller: &Caller, stop: CancellationToken) -> CommandFuture<Self>;
}

/// The reply of a command.
pub type CommandFuture<C> = BoxFuture<'static, Result<<C as Command>::Reply, BoardError>>;

/// The handler of each command: an expression that yields its reply.
macro_rules! handlers {
    ($($command:ident($board:ident, $caller:pat, $request:pat, $stop:pat) => $handler:expr;)+) => {
        $(impl BoardCommand for $command {
            fn execute(self, board: &Board, caller: &Caller, stop: CancellationToken) -> CommandFuture<Self> {
                let ($board, caller) = (board.clone(), caller.clone());
                Box::pin(async move {
                    let ($caller, $request, $stop) = (&caller, self, stop);
                    $handler
                })
            }
        })+
    };
}

pub(super) use handlers;

handlers! {
    CancelRun(board, caller, CancelRun(run), _) => board.request_of_run(caller, run, RunRequestKind::Cancel).await;
    DetachRun(board, caller, DetachRun(run), _) => board.request_of_run(caller, run, RunRequestKind::Detach).await;
    FindRun(board, caller, FindRun(run), _) => board.find_run(caller, run).await;
    AnswerInput(board, caller, request, _) => board.0.inputs.answer(caller, &request.input, request.answer).await;
    ListInputs(board, caller, ListInputs(page), _) => Ok(paginate(board.0.inputs.list(caller).await?, &page)?);

    ListSessions(board, caller, request, _) => board.list_sessions(caller, request).await;
    ReadHistory(board, caller, request, _) => board.read_history(caller, request).await;
    ClearSession(board, caller, request, _) => board.clear_session(caller, request).await;
    ReadThread(board, caller, request, _) => board.read_messages(caller, request).await;
    SearchMemory(board, _, request, stop) => board.search_memory(request, &stop).await;
    BudgetStatus(board, caller, request, _) => board.budget_status(caller, request).await;
    SummariseUsage(board, caller, request, _) => board.summarise_usage(caller, request).await;

    ListTools(board, caller, request, _) => board.list_tools(caller, request).await;
    CallTool(board, caller, request, stop) => board.call_tool(caller, request, stop).await;
    ApproveTools(board, caller, request, _) => board.approve_tools(caller, &request.server).await;
    ListAgents(board, caller, _, _) => Ok(board.agents_of(caller));
    ListModels(board, _, request, stop) => board.list_models(request.agent.as_deref(), &stop).await;
    SetModel(board, caller, request, stop) => board.set_model(caller, request, &stop).await;
    DescribeNode(board, _, _, _) => board.describe_node().await;
    DescribeServer(board, caller, _, _) => board.describe_server(caller).await;
    ReloadSettings(board, caller, _, _) => board.reload_settings(caller).await;

    ListWorkspaces(board, caller, _, _) => board.0.workspaces.list(&caller.principal.text()).await;
    CreateWorkspace(board, caller, request, _) => board.0.workspaces.create(&caller.principal.text(), request.name).await;
    ListWorkspaceThreads(board, caller, request, _) =>
        board.0.workspaces.list_threads(&caller.principal.text(), &request.workspace).await;
    AddWorkspaceThread(board, caller, request, _) =>
        board.0.workspaces.add(&caller.principal.text(), &request.workspace, request.thread).await;
    RemoveWorkspaceThread(board, caller, request, _) =>
        board.0.workspaces.remove(&caller.principal.text(), &request.workspace, &request.thread).await;

    ListPlugins(board, _, _, _) => Ok(board.plugins());
    LoadPlugin(board, caller, request, stop) => board.load_plugin(caller, &request.named, stop).await;
    UnloadPlugin(board, caller, request, _) => board.unload_plugin(caller, &request.name).await;
    ApprovePlugin(board, caller, request, _) => board.approve_plugin(caller, &request.name).await;
    ReceiveWebhook(board, _, request, stop) => board.receive_webhook(&request.channel, request.webhook, stop).await;

    SubmitMessage(board, caller, request, _) => board.0.hub.submit(caller, request).await;
    ReadMessage(board, _, request, stop) => board.0.hub.read(request.message, request.newer_than, &stop).await;
    ListMessages(board, _, request, _) => board.0.hub.list(request.state, request.page).await;
    ResendMessage(board, caller, request, _) => board.0.hub.resend(caller, request.message, request.app).await;
    CancelMessage(board, caller, CancelMessage(message), _) => board.0.hub.cancel(caller, message).await;
    ExplainRouting(board, caller, request, stop) => Ok(Arc::new(board.0.hub.explain(caller, &request.text, &stop).await?));
    RegisterApp(board, caller, request, _) => board.0.hub.register(caller, request).await;
    NextInboxEvent(board, caller, _, stop) => board.0.hub.next_inbox_item(caller, &stop).await;
    ConfirmAppAlive(board, caller, _, _) => board.0.hub.confirm_alive(caller);
    DeregisterApp(board, caller, _, _) => board.0.hub.unregister(caller).await;
    ListApps(board, _, _, _) => Ok(board.0.hub.apps());
    ApproveApp(board, caller, request, _) => board.0.hub.approve(caller, &request.app).await;
    PairApp(board, caller, request, _) => board.0.hub.pair(caller, &request.app, request.token).await;
    ForgetApp(board, caller, request, _) => board.0.hub.forget(caller, &request.app, request.unpair).await;

    OpenSession(board, caller, request, _) => board.open_session(caller, request).await;
    CloseSession(board, caller, request, _) => Ok(board.close_session(caller, &request.id).await);
    DescribeSession(board, caller, request, _) => board.describe_session(caller, &request.id);
    TouchSession(board, caller, request, _) => Ok(board.touch_session(caller, &request.id));
    RegisterTools(board, _, request, _) => board.register_tools(request);
    FindTool(board, caller, request, _) => board.find_tool(caller, &request).await;
    ListHostTools(board, _, _, _) => Ok(board.host_tools());
    CallInSession(board, caller, request, stop) => board.call_in_session(caller, request, stop).await;
    ListWorkers(board, _, _, _) => Ok(board.0.bridge.workers());
}

handlers! {
    CreateKey(board, caller, request, _) => board.create_key(caller, request).await;
    ListKeys(board, _, _, _) => Ok(board.list_keys());
    RevokeKey(board, caller, request, _) => board.revoke_key(caller, &request.name).await;
    ExplainLocalRouting(board, caller, request, _) => Ok(Arc::new(board.0.hub.explain_locally(caller, &request.text)?));
}

impl BoardCommand for StartRun {
    /// The slot in the session's queue is taken before this returns.
    fn execute(self, board: &Board, caller: &Caller, stop: CancellationToken) -> CommandFuture<Self> {
        board.start_run(caller, self, stop)
    }
}

impl BoardCommand for AnswerMessage {
    /// The response is queued before this returns, so that an app's responses count in their order.
    fn execute(self, board: &Board, caller: &Caller, _stop: CancellationToken) -> CommandFuture<Self> {
        let recorded = board.0.hub.respond(caller, self.message, self.response);
        Box::pin(async move { recorded.await.unwrap_or_else(|_| Err(BoardError::shutting_down())) })
    }
}

impl Board {
    async fn list_sessions(
        &self,
        caller: &Caller,
        request: ListSessions,
    ) -> Result<ResultPage<SessionRow>, BoardError> {
        let ListSessions { mut filter, page } = request;
        if !caller.grants.has(Grant::Oversee) {
            filter.owners = Some(access::session_owners(caller));
        }
        Ok(self.0.store.sessions(filter, page.limit, page.cursor).await?)
    }

    async fn read_history(&self, caller: &Caller, request: ReadHistory) -> Result<SessionHistory, BoardError> {
        let ReadHistory { session, page } = request;
        let session = self.session_key(session)?;
        self.check_session_read(caller, &session).await?;
        let query = TurnQuery { session: session.clone(), limit: page.limit, before: page.cursor };
        Ok(SessionHistory { turns: self.0.store.turns(query).await?, session })
    }

    async fn read_messages(&self, caller: &Caller, request: ReadThread) -> Result<ThreadPage, BoardError> {
        // A thread is one conversation, whichever agent works on it and however chats are routed.
        let session = match request.session {
            SessionRef::Key(key) => key,
            SessionRef::Origin(origin) => origin.session_key(AgentTable::DEFAULT),
        };
        self.check_session_read(caller, &session).await?;
        messages::read_messages(&self.0.store, session, request.before, request.limit).await
    }

    async fn search_memory(
        &self,
        request: SearchMemory,
        stop: &CancellationToken,
    ) -> Result<ResultPage<FactRow>, BoardError> {
        let SearchMemory { channel, account, query, page } = request;
        let query = FactQuery {
            owner: MemoryOwner::account(&channel, &account),
            embedding: self.0.run_deps.memory.embed_one(&query, stop).await,
            text: query,
            limit: page.limit,
            fill_with_recent: false,
            cursor: page.cursor,
        };
        Ok(self.0.store.facts(query).await?)
    }

    async fn budget_status(&self, caller: &Caller, request: BudgetStatus) -> Result<BudgetReport, BoardError> {
        let session = request.session.map(|session| self.session_key(session)).transpose()?;
        if let Some(session) = &session {
            self.check_session_read(caller, session).await?;
        }
        self.0.ledger.report(session.as_ref(), &self.agent_budgets(), &self.keys_seen_by(caller)).await
    }

    async fn summarise_usage(
        &self,
        caller: &Caller,
        request: SummariseUsage,
    ) -> Result<ResultPage<UsageGroup>, BoardError> {
        let SummariseUsage { since, group_by, then_by, page } = request;
        // Session keys reveal accounts and peers.
        let names_sessions = group_by == UsageGrouping::Session || then_by == Some(UsageGrouping::Session);
        let owners = (names_sessions && !caller.grants.has(Grant::Oversee)).then(|| access::session_owners(caller));
        let query = UsageQuery { since, group_by, then_by, owners, limit: page.limit, cursor: page.cursor };
        Ok(self.0.store.usage(query).await?)
    }

    async fn list_tools(&self, caller: &Caller, request: ListTools) -> Result<ResultPage<ToolSpec>, BoardError> {
        let folder = self.admit_folder(request.folder.as_deref()).await?;
        let tool_set = self.0.run_deps.registry.tool_set(None, Some(&folder));
        let key = caller.principal.key().map(|name| &**name);
        let tool_set = self.0.run_deps.tool_executor.tools_of_key(key, tool_set);
        Ok(paginate(tool_set.specs.to_vec(), &request.page)?)
    }

    pub(super) async fn describe_node(&self) -> Result<NodeReport, BoardError> {
        Ok(NodeReport {
            version: self.0.version,
            plugins: self.loaded_plugins(),
            sessions: self.0.store.count_sessions(access::RESERVED_CHANNELS).await?,
            live_runs: self.live_runs().len() as u64,
        })
    }

    async fn admit_folder(&self, folder: Option<&str>) -> Result<Arc<Path>, BoardError> {
        self.0.run_deps.folders.resolve(folder).await.map_err(BoardError::invalid)
    }

    async fn call_tool(
        &self,
        caller: &Caller,
        request: CallTool,
        stop: CancellationToken,
    ) -> Result<ToolOutput, BoardError> {
        let inner = &self.0;
        let CallTool { name, arguments, folder, origin } = request;
        let (folder, folder_grant) = start::admit_folder(&*inner.run_deps.folders, &folder).await?;
        let mut tool_set = inner.run_deps.registry.tool_set(None, Some(&folder));
        // The tool may belong to a worker that is starting.
        if tool_set.find(&name).is_none() && inner.bridge.wait_for_pools().await {
            tool_set = inner.run_deps.registry.tool_set(None, Some(&folder));
        }
        let name = match tool_set.find(&name) {
            Some(_) => name,
            None => {
                let context = NameContext {
                    reachable: &tool_set,
                    all: &tool_set,
                    policy: &inner.run_deps.tool_executor.policy.get(),
                    surface: caller.surface,
                    form: NameForm::Qualified,
                };
                let found = inner.bridge.unregistered(&name, &context, &inner.ids)?;
                let (spec, found) = found.ok_or_else(|| BoardError::not_found(format!("tool not found: {name}")))?;
                tool_set = found;
                spec.name
            }
        };
        let call = ToolCall {
            id: CallId(format!("call_{}", inner.ids.next().simple()).into()),
            name,
            input: ToolInput::Json(arguments),
        };
        let session = origin.session_key(AgentTable::DEFAULT);
        self.check_session(caller, &session).await?;
        let context = CallContext {
            caller: caller.clone(),
            agent: None,
            run: RunId(inner.ids.next()),
            call_chain: CallChain::root(session.clone(), &caller.principal, None),
            scope: ToolScope {
                session,
                owner: origin.memory_owner(),
                folder: Some(folder),
                folder_grant,
                progress: ProgressSink::default(),
                call_metadata: None,
            },
            tool_set,
            node: None,
            recorder: CallRecorder::AuditStore(inner.store.clone()),
            plugin_depth: 0,
            made_by: None,
            stored_inputs: StoredInputs::default(),
        };
        self.call_tracked(&context, call, stop).await
    }

    /// All agents or, for the client of a key, those that the key may start.
    fn agents_of(&self, caller: &Caller) -> Vec<AgentSummary> {
        let Some(key) = caller.principal.key() else { return self.agents() };
        let Some(key) = self.keys().get(key) else { return Vec::new() };
        let agents = self.0.agents.get();
        let starts = |name: &str| agents.select_for_run(name).is_ok_and(|(agent, _)| key.spec.may_start(&agent.name));
        self.agents().into_iter().filter(|agent| starts(&agent.name)).collect()
    }

    /// The configured agents with their limits.
    pub(super) fn agent_budgets(&self) -> Vec<(Arc<str>, BudgetLimits)> {
        self.0.agents.get().all().iter().map(|agent| (agent.name.clone(), agent.budget)).collect()
    }

    fn agents(&self) -> Vec<AgentSummary> {
        let strategies = StrategyKind::ALL.into_iter().map(|strategy| AgentSummary {
            name: strategy.name().into(),
            description: Some(strategy.description().into()),
            source: AgentSource::BuiltIn,
        });
        let agents = self.0.agents.get();
        let configured = agents.all().iter().map(|agent| AgentSummary {
            name: agent.name.clone(),
            description: agent.description.clone(),
            source: agent.source,
        });
        let profiles = PROFILE_AGENTS.into_iter().filter(|(name, _)| agents.agent(name).is_none());
        let profiles = profiles.map(|(name, description)| AgentSummary {
            name: name.into(),
            description: Some(description.into()),
            source: AgentSource::BuiltIn,
        });
        strategies.chain(profiles).chain(configured).collect()
    }

    async fn approve_tools(&self, caller: &Caller, server: &str) -> Result<Vec<Arc<str>>, BoardError> {
        let approved = self.0.run_deps.registry.approve(server).await?;
        let audit = AuditRow {
            at: self.0.clock.now(),
            principal: caller.principal.text(),
            surface: caller.surface.name().into(),
            action: "tools.approve".into(),
            subject: server.into(),
            run: None,
            detail: approved.join(" ").into(),
        };
        self.0.store.commit(WriteBatch::boundary(vec![StoreWrite::Audit(audit)])).await?;
        Ok(approved)
    }

    async fn clear_session(&self, caller: &Caller, request: ClearSession) -> Result<(), BoardError> {
        let purge = request.purge;
        let session = self.session_key(request.session)?;
        self.check_session(caller, &session).await?;
        let at = self.0.clock.now();
        let audit = AuditRow {
            at,
            principal: caller.principal.text(),
            surface: caller.surface.name().into(),
            action: if purge { "session.purge".into() } else { "session.clear".into() },
            subject: AuditSubject::Session(session.clone()),
            run: None,
            detail: Arc::from(""),
        };
        let writes = vec![StoreWrite::ClearSession { session: session.clone(), at, purge }, StoreWrite::Audit(audit)];
        self.0.store.commit(WriteBatch::boundary(writes)).await?;
        if purge {
            // Bridge variables are held in memory and must be deleted separately.
            self.0.bridge.variables().delete_all(&session).await;
        }
        Ok(())
    }
}

/// Pages over an in-memory list. The cursor is an index.
pub(super) fn paginate<T>(items: Vec<T>, page: &PageRequest) -> Result<ResultPage<T>, StoreError> {
    let start = match &page.cursor {
        Some(cursor) => cursor.0.parse::<usize>().map_err(|_| StoreError::BadCursor)?,
        None => 0,
    };
    let total = items.len();
    let end = start.saturating_add(page.limit).min(total);
    let next = (end < total).then(|| PageCursor(end.to_string()));
    Ok(ResultPage { items: items.into_iter().skip(start).take(page.limit).collect(), next })
}
