//! Results that come piece by piece: passed on as they come, or put together.

use std::collections::BTreeMap;

use bytes::Bytes;
use patchboard_core::port::ProgressSink;
use patchboard_core::tool::ToolChunk;
use patchboard_proto::pb;
use serde_json::Value;
use tokio::sync::mpsc;

use super::response::{ExecutionInfo, MAX_TEXT};

/// Of a result that is put together for a program.
const MAX_LIST_BYTES: usize = 32 * 1024 * 1024;

/// Who takes the pieces.
#[derive(Debug)]
pub(super) enum ChunkSink<'a> {
    /// A program, one after the other.
    Each(ChunkRelay<'a>),
    /// A model, as one text; people hear the pieces.
    Text(TextCollector<'a>),
    /// A program, as one list.
    List(ListCollector),
}

/// Is there any sense in going on?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChunkStep {
    Continue,
    /// That was the last one.
    Last,
    /// Nobody takes them any more.
    ReceiverGone,
    TooLong,
}

impl ChunkSink<'_> {
    pub(super) async fn accept(&mut self, chunk: pb::ToolChunk, trip: ExecutionInfo<'_>) -> ChunkStep {
        match self {
            Self::Each(relay) => relay.forward(chunk, trip).await,
            Self::Text(text) => text.add(chunk).await,
            Self::List(list) => list.add(&chunk),
        }
    }

    /// After the last piece, if none of them said so itself. Only whoever gets them one by one needs to hear it.
    pub(super) async fn finish(&mut self, trip: ExecutionInfo<'_>) {
        if let Self::Each(relay) = self {
            relay.finish(trip).await;
        }
    }
}

#[derive(Debug)]
pub(super) struct ChunkRelay<'a> {
    chunks: &'a mpsc::Sender<ToolChunk>,
    sent: u64,
}

impl<'a> ChunkRelay<'a> {
    pub(super) fn new(chunks: &'a mpsc::Sender<ToolChunk>) -> Self {
        Self { chunks, sent: 0 }
    }

    /// As fast as it is taken.
    async fn forward(&mut self, chunk: pb::ToolChunk, trip: ExecutionInfo<'_>) -> ChunkStep {
        let pb::ToolChunk { chunk_id, data, is_final, metadata } = chunk;
        let metadata = if is_final { with_execution_defaults(metadata, trip) } else { metadata };
        let passed = self.chunks.send(ToolChunk { id: chunk_id.into(), data, is_final, metadata }).await;
        self.sent += 1;
        match passed {
            Err(_) => ChunkStep::ReceiverGone,
            Ok(()) if is_final => ChunkStep::Last,
            Ok(()) => ChunkStep::Continue,
        }
    }

    async fn finish(&mut self, trip: ExecutionInfo<'_>) {
        let said = [("synthetic_final", "true".to_owned()), ("chunks_sent", self.sent.to_string())];
        let said = said.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let id = format!("sp-final-{}", self.sent + 1).into();
        let last = ToolChunk { id, data: Bytes::new(), is_final: true, metadata: with_execution_defaults(said, trip) };
        // Whoever is gone does not wait for the end.
        drop(self.chunks.send(last).await);
    }
}

/// What the worker said itself stays.
fn with_execution_defaults(
    mut metadata: BTreeMap<String, String>,
    trip: ExecutionInfo<'_>,
) -> BTreeMap<String, String> {
    let known = [
        ("execution_time_ms", trip.milliseconds.to_string()),
        ("tool_type", "remote".to_owned()),
        ("worker_id", trip.worker.to_owned()),
    ];
    for (key, value) in known {
        metadata.entry(key.to_owned()).or_insert(value);
    }
    metadata
}

#[derive(Debug)]
pub(super) struct TextCollector<'a> {
    progress: &'a ProgressSink,
    text: String,
    is_structured: bool,
}

impl<'a> TextCollector<'a> {
    pub(super) fn new(voice: &'a ProgressSink) -> Self {
        Self { progress: voice, text: String::new(), is_structured: false }
    }

    /// Words are joined as they are, objects and lists stand on lines of their own.
    async fn add(&mut self, chunk: pb::ToolChunk) -> ChunkStep {
        let next = if chunk.is_final { ChunkStep::Last } else { ChunkStep::Continue };
        if chunk.data.is_empty() {
            return next;
        }
        let piece = match std::str::from_utf8(&chunk.data) {
            Ok(text) => text.to_owned(),
            Err(_) => format!("[{} bytes]", chunk.data.len()),
        };
        let is_structured = piece.starts_with(['{', '[']);
        if self.text.len() <= MAX_TEXT {
            if !self.text.is_empty() && (is_structured || self.is_structured) {
                self.text.push('\n');
            }
            self.text.push_str(&piece);
        }
        self.is_structured = is_structured;
        self.progress.send_text(piece).await;
        next
    }

    pub(super) fn into_text(self) -> String {
        super::response::truncate_text(self.text)
    }
}

#[derive(Debug, Default)]
pub(super) struct ListCollector {
    items: Vec<Value>,
    bytes: usize,
}

impl ListCollector {
    /// Pieces that are JSON are what they say; others are text.
    fn add(&mut self, chunk: &pb::ToolChunk) -> ChunkStep {
        self.bytes += chunk.data.len();
        if self.bytes > MAX_LIST_BYTES {
            return ChunkStep::TooLong;
        }
        if !chunk.data.is_empty() {
            let text = || Value::String(String::from_utf8_lossy(&chunk.data).into_owned());
            self.items.push(serde_json::from_slice(&chunk.data).unwrap_or_else(|_| text()));
        }
        if chunk.is_final { ChunkStep::Last } else { ChunkStep::Continue }
    }

    pub(super) fn into_json(self) -> Bytes {
        Value::Array(self.items).to_string().into()
    }
}

#[cfg(test)]
mod tests;
