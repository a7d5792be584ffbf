//! The port by which engines below the board start runs: for agents called as tools, and for channel deliveries.

use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::caller::Caller;
use crate::command::StartRun;
use crate::error::BoardError;
use crate::event::Envelope;
use crate::executor::CallContext;
use crate::id::{RunId, Seq, SessionKey};
use crate::port::BoxStream;

/// The events of a run, as recorded.
pub(crate) type RunEvents = BoxStream<Result<Arc<Envelope>, BoardError>>;

/// Starts runs and reads their results. Once the board is dropped, every method fails as shutting down.
pub(crate) trait RunStarter: Send + Sync + fmt::Debug {
    /// As a client's request, so that access, queues and limits apply; `trace` is the caller's traceparent.
    fn start<'a>(
        &'a self,
        caller: &'a Caller,
        start: StartRun,
        stop: CancellationToken,
        trace: Option<&'a str>,
    ) -> BoxFuture<'a, Result<RunId, BoardError>>;

    /// Starts a run on behalf of a tool call. It ends at the latest when `stop` is cancelled.
    fn start_nested<'a>(
        &'a self,
        context: &'a CallContext,
        call: AgentCall,
        stop: CancellationToken,
    ) -> BoxFuture<'a, Result<NestedRun, BoardError>>;

    /// The run's events from `from` on.
    fn follow<'a>(&'a self, caller: &'a Caller, run: RunId, from: Seq) -> BoxFuture<'a, Result<RunEvents, BoardError>>;

    /// The last message of the run, as stored in its session.
    fn final_answer(&self, session: SessionKey, run: RunId) -> BoxFuture<'_, Result<String, BoardError>>;

    fn is_draining(&self) -> bool;
}

/// A task for another agent.
#[derive(Debug)]
pub(crate) struct AgentCall {
    pub(crate) agent: Arc<str>,
    pub(crate) message: Arc<str>,
    /// A conversation of the caller's account; a new one if left out.
    pub(crate) thread: Option<Arc<str>>,
}

/// A run started by another one, which waits for it.
pub(crate) struct NestedRun {
    pub(crate) run: RunId,
    pub(crate) thread: Arc<str>,
    pub(crate) session: SessionKey,
    pub(crate) events: RunEvents,
}
