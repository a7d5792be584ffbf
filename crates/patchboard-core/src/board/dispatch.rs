//! Commands that are answered at once.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio_util::sync::CancellationToken;

use super::{Board, messages};
use crate::access;
use crate::agent::{AgentTable, PROFILE_AGENTS};
use crate::bridge::{NameContext, NameForm};
use crate::budget::call_chain::CallChain;
use crate::caller::{Caller, Grant};
use crate::command::{CallTool, Command, PageRequest, SessionRef};
use crate::error::BoardError;
use crate::executor::CallContext;
use crate::executor::CallRecorder;
use crate::id::{CallId, MemoryOwner, RunId};
use crate::model::{ToolCall, ToolInput};
use crate::port::{ProgressSink, ToolScope};
use crate::reply::{AgentSummary, BoardReply, NodeReport};
use crate::run::start;
use crate::run_spec::{AgentSource, StrategyKind};
use crate::store::{
    AuditRow, Durability, FactQuery, PageCursor, ResultPage, StoreError, StoreWrite, TurnQuery, UsageGrouping,
    UsageQuery, WriteBatch,
};

impl Board {
    pub(super) async fn dispatch(
        &self,
        caller: &Caller,
        command: Command,
        stop: CancellationToken,
    ) -> Result<BoardReply, BoardError> {
        let inner = &self.0;
        Ok(match command {
            Command::StartRun(start) => return self.start_run(caller, start, stop).await,
            Command::CancelRun(run) => self.cancel_run(caller, run)?,
            Command::DetachRun(run) => self.detach_run(caller, run)?,
            Command::FindRun(wanted) => self.find_run(caller, wanted).await?,
            Command::AnswerApproval { approval, approve } => {
                inner.approvals.answer(caller, &approval, approve)?;
                BoardReply::Done
            }
            Command::ListApprovals(page) => BoardReply::Approvals(paginate(inner.approvals.list(caller), &page)?),
            Command::ListSessions { mut filter, page } => {
                if !caller.grants.has(Grant::Operate) {
                    filter.owners = Some(access::session_owners(caller));
                }
                BoardReply::Sessions(inner.store.sessions(filter, page.limit, page.cursor).await?)
            }
            Command::ReadHistory { session, page } => {
                let session = self.session_key(session)?;
                self.check_session(caller, &session).await?;
                let query = TurnQuery { session: session.clone(), limit: page.limit, before: page.cursor };
                BoardReply::History { turns: inner.store.turns(query).await?, session }
            }
            Command::ClearSession { session, purge } => {
                let session = self.session_key(session)?;
                self.check_session(caller, &session).await?;
                self.clear_session(caller, session, purge).await?
            }
            Command::SearchMemory { channel, account, query, page } => {
                let query = FactQuery {
                    owner: MemoryOwner::account(&channel, &account),
                    embedding: inner.run_deps.memory.embed_one(&query, &stop).await,
                    text: query,
                    limit: page.limit,
                    fill_with_recent: false,
                    cursor: page.cursor,
                };
                BoardReply::Facts(inner.store.facts(query).await?)
            }
            Command::BudgetStatus { session } => {
                let session = session.map(|session| self.session_key(session)).transpose()?;
                if let Some(session) = &session {
                    self.check_session(caller, session).await?;
                }
                BoardReply::Budget(inner.ledger.report(session.as_ref()).await?)
            }
            Command::UsageReport { since, group_by, page } => {
                // The keys of sessions say who talks where.
                let is_by_session = group_by == UsageGrouping::Session && !caller.grants.has(Grant::Operate);
                let owners = is_by_session.then(|| access::session_owners(caller));
                let query = UsageQuery { since, group_by, owners, limit: page.limit, cursor: page.cursor };
                BoardReply::Usage(inner.store.usage(query).await?)
            }
            Command::ReadMessages { session, before, limit } => {
                // Whatever agent works on it, and wherever chats are routed, a thread is one conversation.
                let session = match session {
                    SessionRef::Key(key) => key,
                    SessionRef::Origin(origin) => origin.session_key(AgentTable::DEFAULT),
                };
                self.check_session(caller, &session).await?;
                messages::read_messages(&inner.store, session, before, limit).await?
            }
            Command::ListTools { folder, page } => {
                let folder = self.admit_folder(folder.as_deref()).await?;
                BoardReply::Tools(paginate(
                    inner.run_deps.registry.tool_set(None, Some(&folder)).specs.to_vec(),
                    &page,
                )?)
            }
            Command::CallTool(call) => self.call_tool(caller, call, stop).await?,
            Command::ApproveTools { server } => self.approve_tools(caller, &server).await?,
            Command::ListAgents => BoardReply::Agents(self.agents()),
            Command::ListModels { agent } => self.list_models(agent.as_deref(), &stop).await?,
            Command::SetModel { thread, model } => self.set_model(caller, thread, &model, &stop).await?,
            Command::Workspaces(wanted) => inner.workspaces.execute(&caller.principal, wanted).await?,
            Command::ListPlugins => BoardReply::Plugins(self.plugins()),
            Command::LoadPlugin { named } => self.load_plugin(caller, &named, stop).await?,
            Command::UnloadPlugin { name } => self.unload_plugin(caller, &name).await?,
            Command::ApprovePlugin { name } => self.approve_plugin(caller, &name).await?,
            Command::ReceiveWebhook { channel, webhook } => self.receive_webhook(&channel, webhook, stop).await?,
            Command::SubmitMessage(wanted) => BoardReply::Message(inner.hub.submit(caller, wanted).await?),
            Command::ReadMessage { message, newer_than } => {
                BoardReply::Message(inner.hub.read(message, newer_than, &stop).await?)
            }
            Command::ListMessages { state, page } => BoardReply::MessageList(inner.hub.list(state, page).await?),
            Command::ResendMessage { message, app } => inner.hub.resend(caller, message, app).await?,
            Command::CancelMessage(message) => inner.hub.cancel(caller, message).await?,
            Command::ExplainRouting { text } => {
                BoardReply::RoutingExplained(Arc::new(inner.hub.explain(&text, &stop).await?))
            }
            Command::RegisterApp(wanted) => inner.hub.register(caller, wanted).await?,
            Command::NextInboxEvent => inner.hub.next_inbox_item(caller, &stop).await?,
            Command::ConfirmAppAlive => inner.hub.confirm_alive(caller),
            Command::DeregisterApp => inner.hub.unregister(caller).await?,
            Command::AnswerMessage { message, response } => {
                let answer = inner.hub.respond(caller, message, response);
                answer.await.unwrap_or_else(|_| Err(BoardError::shutting_down()))?
            }
            Command::ListApps => BoardReply::Apps(inner.hub.apps()),
            Command::ApproveApp { app } => inner.hub.approve(caller, &app).await?,
            Command::PairApp { app, token } => inner.hub.pair(caller, &app, token).await?,
            Command::ForgetApp { app, unpair } => inner.hub.forget(caller, &app, unpair).await?,
            Command::OpenSession(wanted) => self.open_session(caller, wanted).await?,
            Command::CloseSession { id } => self.close_session(caller, &id).await,
            Command::DescribeSession { id } => self.describe_session(caller, &id)?,
            Command::TouchSession { id } => self.touch_session(caller, &id),
            Command::RegisterTools(wanted) => self.register_tools(wanted)?,
            Command::FindTool { session, name, reach } => self.find_tool(caller, &session, &name, reach).await?,
            Command::ListHostTools { session: _ } => self.host_tools(),
            Command::CallInSession(wanted) => self.call_in_session(caller, wanted, stop).await?,
            Command::ListWorkers => BoardReply::Workers(inner.bridge.workers()),
            Command::DescribeNode => BoardReply::Node(self.describe_node().await?),
            Command::DescribeServer => BoardReply::Server(Box::new(self.describe_server(caller).await?)),
            Command::ReloadSettings => BoardReply::Reloaded(Box::new(self.reload_settings(caller).await?)),
        })
    }

    pub(super) async fn describe_node(&self) -> Result<NodeReport, BoardError> {
        Ok(NodeReport {
            version: self.0.version,
            plugins: self.loaded_plugins(),
            sessions: self.0.store.count_sessions(access::RESERVED_CHANNELS).await?,
            live_runs: self.live_runs().len() as u64,
        })
    }

    fn cancel_run(&self, caller: &Caller, run: RunId) -> Result<BoardReply, BoardError> {
        let live = self.live_runs().get(&run).cloned();
        match live {
            Some(live) if access::can_control(caller, &live.principal) => {
                live.control.cancel.cancel();
                Ok(BoardReply::Done)
            }
            Some(_) | None => Err(BoardError::not_found("no such run is under way")),
        }
    }

    fn detach_run(&self, caller: &Caller, run: RunId) -> Result<BoardReply, BoardError> {
        let live = self.live_runs().get(&run).cloned();
        match live {
            Some(live) if access::can_control(caller, &live.principal) => {
                live.control.detached.store(true, Ordering::Relaxed);
                Ok(BoardReply::Done)
            }
            Some(_) | None => Err(BoardError::not_found("no such run is under way")),
        }
    }

    async fn admit_folder(&self, named: Option<&str>) -> Result<Arc<Path>, BoardError> {
        self.0.run_deps.folders.resolve(named).await.map_err(BoardError::invalid)
    }

    async fn call_tool(
        &self,
        caller: &Caller,
        wanted: CallTool,
        stop: CancellationToken,
    ) -> Result<BoardReply, BoardError> {
        let inner = &self.0;
        let CallTool { name, arguments, folder, origin } = wanted;
        let (folder, folder_grant) = start::admit_folder(&*inner.run_deps.folders, &folder).await?;
        let mut offer = inner.run_deps.registry.tool_set(None, Some(&folder));
        // It may be the tool of a worker that is just starting.
        if offer.find(&name).is_none() && inner.bridge.wait_for_pools().await {
            offer = inner.run_deps.registry.tool_set(None, Some(&folder));
        }
        let name = match offer.find(&name) {
            Some(_) => name,
            None => {
                let context = NameContext {
                    reachable: &offer,
                    all: &offer,
                    policy: &inner.run_deps.tool_executor.policy.get(),
                    surface: caller.surface,
                    form: NameForm::Qualified,
                };
                let found = inner.bridge.unregistered(&name, &context, &inner.ids)?;
                let (spec, found) = found.ok_or_else(|| BoardError::not_found(format!("tool not found: {name}")))?;
                offer = found;
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
            run: RunId(inner.ids.next()),
            call_chain: CallChain::root(session.clone(), None),
            scope: ToolScope {
                session,
                owner: origin.memory_owner(),
                folder: Some(folder),
                folder_grant,
                progress: ProgressSink::default(),
                call_metadata: None,
            },
            tool_set: offer,
            node: None,
            recorder: CallRecorder::AuditStore(inner.store.clone()),
            plugin_depth: 0,
        };
        self.call_tracked(&context, call, stop).await
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

    async fn approve_tools(&self, caller: &Caller, server: &str) -> Result<BoardReply, BoardError> {
        let approved = self.0.run_deps.registry.approve(server).await?;
        let audit = AuditRow {
            at: self.0.clock.now(),
            principal: caller.principal.clone(),
            surface: caller.surface.name().into(),
            action: "tools.approve".into(),
            subject: server.into(),
            run: None,
            detail: approved.join(" ").into(),
        };
        self.0
            .store
            .commit(WriteBatch { durability: Durability::Boundary, writes: vec![StoreWrite::Audit(audit)] })
            .await?;
        Ok(BoardReply::ToolsApproved(approved))
    }

    async fn clear_session(
        &self,
        caller: &Caller,
        session: crate::id::SessionKey,
        purge: bool,
    ) -> Result<BoardReply, BoardError> {
        let at = self.0.clock.now();
        let audit = AuditRow {
            at,
            principal: caller.principal.clone(),
            surface: caller.surface.name().into(),
            action: if purge { "session.purge".into() } else { "session.clear".into() },
            subject: session.as_str().into(),
            run: None,
            detail: Arc::from(""),
        };
        let writes = vec![StoreWrite::ClearSession { session: session.clone(), at, purge }, StoreWrite::Audit(audit)];
        self.0.store.commit(WriteBatch { durability: Durability::Boundary, writes }).await?;
        if purge {
            // What is held of it in memory goes too.
            self.0.bridge.variables().delete_all(&session).await;
        }
        Ok(BoardReply::Done)
    }
}

/// Pages over a list that is in memory anyway. The cursor is a position.
fn paginate<T>(items: Vec<T>, page: &PageRequest) -> Result<ResultPage<T>, StoreError> {
    let start = match &page.cursor {
        Some(cursor) => cursor.0.parse::<usize>().map_err(|_| StoreError::BadCursor)?,
        None => 0,
    };
    let total = items.len();
    let end = start.saturating_add(page.limit).min(total);
    let next = (end < total).then(|| PageCursor(end.to_string()));
    Ok(ResultPage { items: items.into_iter().skip(start).take(page.limit).collect(), next })
}
