//! Progress reported by a running tool, on its way into the log.

use tokio::sync::mpsc;

use super::{CallContext, CallRecorder};
use crate::approval::policy::is_agent_tool;
use crate::error::BoardError;
use crate::event::{Event, NewEvent, TextChunks};
use crate::model::ToolCall;
use crate::port::{ProgressSink, ToolScope};
use crate::store::Durability;
use crate::tool::ToolSpec;

/// Progress messages a tool may be ahead of the log; past this its send waits.
const CHANNEL_CAPACITY: usize = 64;
/// Bytes of progress recorded for one call; the rest is discarded. The output has its own limit.
const MAX_RECORDED_BYTES: usize = 1024 * 1024;

/// The receiving end of the progress of one call.
pub(super) struct ProgressReader<'a> {
    context: &'a CallContext,
    call: &'a ToolCall,
    text_receiver: Option<mpsc::Receiver<String>>,
    event_receiver: Option<mpsc::Receiver<Event>>,
    recorded_bytes: usize,
}

/// One update from a running tool.
pub(super) enum ProgressUpdate {
    Text(String),
    /// An approval event of a run the tool waits for.
    ApprovalEvent(Event),
}

impl<'a> ProgressReader<'a> {
    /// Opens the channels. Text is received only in runs that record nodes and approval events only from agents called
    /// in a run; otherwise progress is discarded by the sender.
    pub(super) fn open(context: &'a CallContext, call: &'a ToolCall, spec: &ToolSpec) -> (Self, ToolScope) {
        let mut scope = context.scope.clone();
        let text_receiver = match context.recorder {
            CallRecorder::RunLog { records_nodes: true, .. } => {
                let (text_sender, text_receiver) = mpsc::channel(CHANNEL_CAPACITY);
                scope.progress = ProgressSink::new(text_sender);
                Some(text_receiver)
            }
            CallRecorder::RunLog { records_nodes: false, .. }
            | CallRecorder::AuditStore(_)
            | CallRecorder::AuditQueue(_) => None,
        };
        let event_receiver = match context.recorder {
            CallRecorder::RunLog { .. } if is_agent_tool(spec) => {
                let (event_sender, event_receiver) = mpsc::channel(CHANNEL_CAPACITY);
                scope.progress = scope.progress.with_event_sender(event_sender);
                Some(event_receiver)
            }
            CallRecorder::RunLog { .. } | CallRecorder::AuditStore(_) | CallRecorder::AuditQueue(_) => None,
        };
        (Self { context, call, text_receiver, event_receiver, recorded_bytes: 0 }, scope)
    }

    /// The next update; pending forever once all senders are dropped.
    pub(super) async fn next(&mut self) -> ProgressUpdate {
        tokio::select! {
            biased;
            event = receive_or_pend(&mut self.event_receiver) => ProgressUpdate::ApprovalEvent(event),
            text = receive_or_pend(&mut self.text_receiver) => ProgressUpdate::Text(text),
        }
    }

    pub(super) async fn record(&mut self, update: ProgressUpdate) -> Result<(), BoardError> {
        let CallRecorder::RunLog { writer, .. } = &self.context.recorder else { return Ok(()) };
        let first = match update {
            ProgressUpdate::Text(text) => text,
            ProgressUpdate::ApprovalEvent(event) => {
                let entry = NewEvent { node: self.context.node, event };
                return writer.append(vec![entry], vec![], Durability::Boundary).await;
            }
        };
        let mut pieces = TextChunks::default();
        let mut next_text = Some(first);
        while let Some(piece) = next_text {
            let piece = &piece[..piece.floor_char_boundary(MAX_RECORDED_BYTES - self.recorded_bytes)];
            if !piece.is_empty() {
                self.recorded_bytes += piece.len();
                pieces.push(piece);
            }
            next_text = match &mut self.text_receiver {
                Some(receiver) if !pieces.is_full() => receiver.try_recv().ok(),
                Some(_) | None => None,
            };
        }
        if pieces.is_empty() {
            return Ok(());
        }
        let event = Event::ToolProgress { call: self.call.id.clone(), name: self.call.name.clone(), pieces };
        writer.append(vec![NewEvent { node: self.context.node, event }], vec![], Durability::Delta).await
    }

    /// Records the progress received before the call ended. Later progress is discarded.
    pub(super) async fn record_rest(&mut self) -> Result<(), BoardError> {
        if let Some(receiver) = &mut self.text_receiver {
            receiver.close();
        }
        if let Some(receiver) = &mut self.event_receiver {
            receiver.close();
        }
        while let Some(text) = self.text_receiver.as_mut().and_then(|receiver| receiver.try_recv().ok()) {
            self.record(ProgressUpdate::Text(text)).await?;
        }
        while let Some(event) = self.event_receiver.as_mut().and_then(|receiver| receiver.try_recv().ok()) {
            self.record(ProgressUpdate::ApprovalEvent(event)).await?;
        }
        Ok(())
    }
}

async fn receive_or_pend<T>(from: &mut Option<mpsc::Receiver<T>>) -> T {
    if let Some(receiver) = from
        && let Some(received) = receiver.recv().await
    {
        return received;
    }
    *from = None;
    std::future::pending().await
}
