//! Nested runs: an agent's tool call starts another agent and waits for it. They use permits of their own and never
//! queue, because the waiting run already holds a run permit and its session's turn: a nested run that cannot start at
//! once is refused.

use crate::caller::Caller;
use crate::command::StartRun;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::run_permits::PermitSlot;
use super::{Board, WeakBoard};
use crate::agent::AgentTable;
use crate::command::MAX_CONTENT;
use crate::command::{FolderChoice, RunKind, RunPlan};
use crate::conversation::ConversationOrigin;
use crate::error::{BoardError, ErrorKind};
use crate::event::Topic;
use crate::executor::CallContext;
use crate::id::{RunId, Seq, SessionKey};
use crate::log::FollowerPacing;
use crate::port::ToolScope;
use crate::run::start::RunFolder;
use crate::run::starter::{AgentCall, NestedRun, RunEvents, RunStarter};
use crate::run::{RunControl, RunRequest};
use crate::session::QueueSlot;
use crate::store::TurnQuery;
use futures_core::future::BoxFuture;

/// Longest chain of nested runs, not counting the top-level run.
const MAX_DEPTH: usize = 3;

impl Board {
    /// Starts a run on behalf of a tool call; it is cancelled with `stop`.
    pub(super) async fn start_nested(
        &self,
        context: &CallContext,
        call: AgentCall,
        stop: CancellationToken,
    ) -> Result<NestedRun, BoardError> {
        let inner = &self.0;
        let AgentCall { agent: name, message, thread } = call;
        if context.call_chain.depth() >= MAX_DEPTH {
            let message = format!("agents ask each other at most {MAX_DEPTH} deep");
            return Err(BoardError::new(ErrorKind::Exhausted, message));
        }
        if message.len() > MAX_CONTENT {
            return Err(BoardError::invalid(format!("the message is too long: at most {MAX_CONTENT} bytes")));
        }
        let agents = inner.agents.get();
        let agent = agents.agent(&name).ok_or_else(|| BoardError::not_found(format!("no agent named `{name}`")))?;
        self.check_key_agent(context.call_chain.key.as_ref(), &agent.name)?;
        let run = RunId(inner.ids.next());
        let client_id: Arc<str> = format!("run-{run}").into();
        let peer = thread.clone().unwrap_or_else(|| client_id.clone());
        let (channel, account) = context.scope.owner.parts().unwrap_or_default();
        let origin = ConversationOrigin { channel, account, peer: Some(peer.to_string()), guild: None, team: None };
        // As for every run that names its agent: a thread is one conversation, whichever agent works on it.
        let session = origin.session_key(AgentTable::DEFAULT);
        if session.as_str().len() > SessionKey::MAX_BYTES {
            return Err(BoardError::invalid("the name of the conversation is too long"));
        }
        if session == context.scope.session {
            return Err(BoardError::new(ErrorKind::Conflict, "an agent cannot wait for its own conversation"));
        }
        self.check_session(&context.caller, &session).await?;
        let QueueSlot::Ready(turn) = inner.queues.enqueue(&session)? else {
            let message = "the conversation is busy: take another `thread_id`, or none";
            return Err(BoardError::new(ErrorKind::Conflict, message));
        };
        let run_permit = inner
            .nested_run_permits
            .try_acquire()
            .ok_or_else(|| BoardError::new(ErrorKind::Exhausted, "too many agents work for others at the moment"))?;
        let slot = PermitSlot::new(inner.nested_run_permits.clone(), Some(run_permit));
        let ToolScope { folder, folder_grant, .. } = &context.scope;
        // A chat without a folder starts the other agent as a chat too.
        let kind = match folder {
            Some(_) => RunKind::Agent(RunPlan {
                agent: name,
                default_model: None,
                adaptive: false,
                detach: false,
                verbose: false,
            }),
            None => RunKind::Chat { agent: Some(name) },
        };
        let folder = match folder {
            Some(folder) => RunFolder::Inherit(folder.clone(), folder_grant.clone()),
            None => RunFolder::Choose(FolderChoice::Configured),
        };
        let request = RunRequest {
            run,
            caller: context.caller.clone(),
            agent: agent.clone(),
            strategy: agent.strategy,
            origin,
            thread,
            session: session.clone(),
            client_id,
            content: message,
            model: None,
            client_tools: Vec::new(),
            kind,
            folder,
            call_chain: Some(context.call_chain.child(context.run, agent.max_run_tokens, Some(slot))),
            // Detached: its lifetime depends on the waiting call, not on subscribers.
            control: RunControl::new(stop.child_token(), true),
            slot: None,
            stored_inputs: Vec::new(),
            trace: crate::trace::current_traceparent(),
        };
        let (started, start_result) = oneshot::channel();
        let task = self.clone();
        inner.tracker.spawn(async move {
            let exit = task.run(request, turn, started).await;
            task.note_exit(exit);
        });
        start_result.await.unwrap_or_else(|_| Err(BoardError::new(ErrorKind::Internal, "the run failed to begin")))?;
        let events = inner.log.follow(&Topic::Run(run), Seq::FIRST, FollowerPacing::Unpaced);
        Ok(NestedRun { run, thread: peer, session, events })
    }

    /// The last message of a run, as stored in its session.
    pub(super) async fn final_answer(&self, session: SessionKey, run: RunId) -> Result<String, BoardError> {
        let query = TurnQuery { session, limit: 1, before: None };
        let turns = self.0.store.turns(query).await?;
        let turn = turns.items.into_iter().find(|turn| turn.run == run);
        let last = turn.as_ref().and_then(|turn| turn.messages.last());
        let text = last.map(crate::model::ModelMessage::text);
        text.ok_or_else(|| BoardError::not_found("its conversation was cleared before the answer could be read"))
    }
}

impl RunStarter for WeakBoard {
    fn start<'a>(
        &'a self,
        caller: &'a Caller,
        start: StartRun,
        stop: CancellationToken,
        trace: Option<&'a str>,
    ) -> BoxFuture<'a, Result<RunId, BoardError>> {
        Box::pin(async move { self.board()?.ask_traced(caller, start, stop, trace).await })
    }

    fn start_nested<'a>(
        &'a self,
        context: &'a CallContext,
        call: AgentCall,
        stop: CancellationToken,
    ) -> BoxFuture<'a, Result<NestedRun, BoardError>> {
        Box::pin(async move { self.board()?.start_nested(context, call, stop).await })
    }

    fn follow<'a>(&'a self, caller: &'a Caller, run: RunId, from: Seq) -> BoxFuture<'a, Result<RunEvents, BoardError>> {
        Box::pin(async move { self.board()?.follow(caller, Topic::Run(run), from, FollowerPacing::Unpaced).await })
    }

    fn final_answer(&self, session: SessionKey, run: RunId) -> BoxFuture<'_, Result<String, BoardError>> {
        Box::pin(async move { self.board()?.final_answer(session, run).await })
    }

    fn is_draining(&self) -> bool {
        self.board().is_ok_and(|board| board.is_draining())
    }
}
