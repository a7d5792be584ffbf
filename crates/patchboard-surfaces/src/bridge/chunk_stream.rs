//! Streams a result in chunks with backpressure: the tool may be a few chunks ahead of the client.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use patchboard_core::BoardError;
use patchboard_core::board::CommandFuture;
use patchboard_core::command::CallInSession;
use patchboard_core::tool::{ToolChunk, ToolFault, ToolOutput};
use patchboard_proto::pb;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::{Code, Status};

use super::metered_body::MemoryCharge;
use super::rpc_counters::{RpcMethod, RpcOutcome};
use super::{Bridge, error, map};

/// Chunks that are buffered between tool and client; then the tool waits.
const MAX_CHUNKS_AHEAD: usize = 4;

pub(super) fn channel() -> (mpsc::Sender<ToolChunk>, mpsc::Receiver<ToolChunk>) {
    mpsc::channel(MAX_CHUNKS_AHEAD)
}

pub(super) struct ChunkStreamOptions {
    /// Cancelled when the client no longer reads.
    pub(super) stop: CancellationToken,
    /// Held until the call has ended: its permit and the memory charge of its request.
    pub(super) guards: (OwnedSemaphorePermit, Arc<MemoryCharge>),
    /// Largest chunk that the client accepts.
    pub(super) limit: usize,
}

/// The call runs in its own task, so that its deadline holds even if the client does not read.
pub(super) fn stream_call(
    bridge: &Bridge,
    call: CommandFuture<CallInSession>,
    chunks: mpsc::Receiver<ToolChunk>,
    options: ChunkStreamOptions,
) -> ChunkStream {
    let ChunkStreamOptions { stop, guards, limit } = options;
    let (end, ended) = oneshot::channel();
    bridge.0.tracker.spawn(async move {
        let end_of_call = call_status(call.await);
        drop(guards);
        // The receiver may be dropped already.
        drop(end.send(end_of_call));
    });
    ChunkStream {
        bridge: bridge.clone(),
        chunks,
        ended,
        call_result: None,
        sent: 0,
        has_final: false,
        is_over: false,
        limit,
        _stop: stop.drop_guard(),
    }
}

/// The final status of the stream.
fn call_status(result: Result<ToolOutput, BoardError>) -> Result<(), Status> {
    let output = result.map_err(|error| error::stream_status(&error))?;
    let fault = output.data.as_ref().and_then(|data| data.fault);
    match (fault, output.is_error) {
        (Some(fault), _) => Err(error::fault_status(fault, &output.content)),
        // The tool's own error text.
        (None, true) => Err(error::fault_status(ToolFault::Internal, &output.content)),
        (None, false) => Ok(()),
    }
}

pub(super) struct ChunkStream {
    bridge: Bridge,
    chunks: mpsc::Receiver<ToolChunk>,
    ended: oneshot::Receiver<Result<(), Status>>,
    /// Set once the call has ended; chunks may still be buffered.
    call_result: Option<Result<(), Status>>,
    sent: u64,
    has_final: bool,
    is_over: bool,
    limit: usize,
    _stop: DropGuard,
}

impl Stream for ChunkStream {
    type Item = Result<pb::ToolChunk, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.is_over {
            return Poll::Ready(None);
        }
        if let Poll::Ready(Some(chunk)) = this.chunks.poll_recv(context) {
            return Poll::Ready(Some(this.encode_chunk(chunk)));
        }
        // The channel is empty or closed; the stream ends only once the call has.
        if this.call_result.is_none() {
            match Pin::new(&mut this.ended).poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(end) => {
                    this.call_result =
                        Some(end.unwrap_or_else(|_| Err(Status::unavailable("server is shutting down"))));
                }
            }
        }
        // Chunks sent before the end of the call precede its status.
        if let Ok(chunk) = this.chunks.try_recv() {
            return Poll::Ready(Some(this.encode_chunk(chunk)));
        }
        this.is_over = true;
        match this.call_result.take() {
            Some(Err(status)) => {
                this.count(status.code());
                Poll::Ready(Some(Err(status)))
            }
            Some(Ok(())) | None => {
                this.count(Code::Ok);
                // The protocol requires a final chunk, so one is synthesised if the tool sent none.
                Poll::Ready((!this.has_final).then(|| Ok(map::last_chunk(this.sent))))
            }
        }
    }
}

impl ChunkStream {
    fn encode_chunk(&mut self, chunk: ToolChunk) -> Result<pb::ToolChunk, Status> {
        let size = chunk.data.len();
        if size > self.limit {
            self.is_over = true;
            self.count(Code::ResourceExhausted);
            let message =
                format!("a piece of {size} bytes is too large for this connection, which takes {}", self.limit);
            return Err(Status::resource_exhausted(message));
        }
        self.sent += 1;
        self.has_final |= chunk.is_final;
        Ok(map::chunk(chunk))
    }

    fn count(&self, code: Code) {
        self.bridge.0.rpc_counters.count(RpcMethod::ExecuteStreamingTool, RpcOutcome::Ended(code));
    }
}

impl Drop for ChunkStream {
    fn drop(&mut self) {
        if !self.is_over {
            self.count(Code::Cancelled);
        }
    }
}
