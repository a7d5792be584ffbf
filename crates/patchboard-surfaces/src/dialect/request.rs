//! Requests of a dialect to the board.

use std::any::Any;
use std::fmt;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use patchboard_core::board::BoardCommand;
use patchboard_core::caller::Caller;
use patchboard_core::{Board, BoardError};
use tokio_util::sync::CancellationToken;

/// A command for the board, with the function that turns its reply into an `R`. The types of command, reply and function
/// are checked where the request is made, so that no reply is unexpected.
pub struct BoardRequest<R>(Box<dyn ErasedRequest<R>>);

impl<R: Send + 'static> BoardRequest<R> {
    pub fn new<C: BoardCommand>(
        command: C,
        into_reply: impl FnOnce(Result<C::Reply, BoardError>) -> R + Send + 'static,
    ) -> Self {
        Self(Box::new(TypedRequest { command, into_reply }))
    }

    /// The same request with another form of its reply.
    pub fn map<T: Send + 'static>(self, form: impl FnOnce(R) -> T + Send + 'static) -> BoardRequest<T> {
        BoardRequest(Box::new(MappedRequest { request: self.0, form }))
    }

    /// Executes the command. What the board does at once, such as taking a place in a queue, is done when this returns.
    pub fn ask(
        self,
        board: &Board,
        caller: &Caller,
        stop: CancellationToken,
        traceparent: Option<&str>,
    ) -> BoxFuture<'static, R> {
        self.0.ask(board, caller, stop, traceparent)
    }

    /// The command, for tests that compare or print it.
    pub fn command(&self) -> &dyn Any {
        self.0.command()
    }

    /// The reply that the dialect gets for this reply of the board; `None` if the command has replies of another type.
    /// For tests without a board.
    pub fn reply_for(self, reply: Result<Box<dyn Any>, BoardError>) -> Option<R> {
        self.0.reply_for(reply)
    }
}

impl<R> fmt::Debug for BoardRequest<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_command(f)
    }
}

trait ErasedRequest<R>: Send {
    fn ask(
        self: Box<Self>,
        board: &Board,
        caller: &Caller,
        stop: CancellationToken,
        traceparent: Option<&str>,
    ) -> BoxFuture<'static, R>;
    fn command(&self) -> &dyn Any;
    fn reply_for(self: Box<Self>, reply: Result<Box<dyn Any>, BoardError>) -> Option<R>;
    fn fmt_command(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

struct TypedRequest<C, F> {
    command: C,
    into_reply: F,
}

impl<R, C, F> ErasedRequest<R> for TypedRequest<C, F>
where
    R: Send + 'static,
    C: BoardCommand,
    F: FnOnce(Result<C::Reply, BoardError>) -> R + Send + 'static,
{
    fn ask(
        self: Box<Self>,
        board: &Board,
        caller: &Caller,
        stop: CancellationToken,
        traceparent: Option<&str>,
    ) -> BoxFuture<'static, R> {
        let Self { command, into_reply } = *self;
        Box::pin(board.ask_traced(caller, command, stop, traceparent).map(into_reply))
    }

    fn command(&self) -> &dyn Any {
        &self.command
    }

    fn reply_for(self: Box<Self>, reply: Result<Box<dyn Any>, BoardError>) -> Option<R> {
        let reply = reply.map(|reply| reply.downcast::<C::Reply>());
        match reply {
            Ok(Ok(reply)) => Some((self.into_reply)(Ok(*reply))),
            Ok(Err(_other_type)) => None,
            Err(error) => Some((self.into_reply)(Err(error))),
        }
    }

    fn fmt_command(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.command.fmt(f)
    }
}

struct MappedRequest<R, F> {
    request: Box<dyn ErasedRequest<R>>,
    form: F,
}

impl<R, T, F> ErasedRequest<T> for MappedRequest<R, F>
where
    R: Send + 'static,
    T: Send + 'static,
    F: FnOnce(R) -> T + Send + 'static,
{
    fn ask(
        self: Box<Self>,
        board: &Board,
        caller: &Caller,
        stop: CancellationToken,
        traceparent: Option<&str>,
    ) -> BoxFuture<'static, T> {
        let Self { request, form } = *self;
        Box::pin(request.ask(board, caller, stop, traceparent).map(form))
    }

    fn command(&self) -> &dyn Any {
        self.request.command()
    }

    fn reply_for(self: Box<Self>, reply: Result<Box<dyn Any>, BoardError>) -> Option<T> {
        self.request.reply_for(reply).map(self.form)
    }

    fn fmt_command(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.request.fmt_command(f)
    }
}
