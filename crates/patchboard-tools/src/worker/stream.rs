//! Streamed results: forwarded chunk by chunk, or collected.

use std::collections::BTreeMap;

use bytes::Bytes;
use patchboard_core::port::ProgressSink;
use patchboard_core::tool::ToolChunk;
use patchboard_proto::pb;
use serde_json::Value;
use tokio::sync::mpsc;

use super::response::{ExecutionInfo, MAX_TEXT};

/// Limit of a result that is collected for a program.
const MAX_LIST_BYTES: usize = 32 * 1024 * 1024;

/// The consumer of the chunks.
#[derive(Debug)]
pub(super) enum ChunkSink<'a> {
    /// A program that takes the chunks one by one.
    Each(ChunkRelay<'a>),
    /// A model, as one text; the chunks are also sent as progress to people.
    Text(TextCollector<'a>),
    /// A program that takes one list.
    List(ListCollector),
}

/// Whether to go on reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChunkStep {
    Continue,
    /// This was the last chunk.
    Last,
    /// The receiver was dropped.
    ReceiverGone,
    TooLong,
}

impl ChunkSink<'_> {
    pub(super) async fn accept(&mut self, chunk: pb::ToolChunk, info: ExecutionInfo<'_>) -> ChunkStep {
        match self {
            Self::Each(relay) => relay.forward(chunk, info).await,
            Self::Text(text) => text.add(chunk).await,
            Self::List(list) => list.add(&chunk),
        }
    }

    /// Called after the stream ended without a final chunk. Only a consumer of single chunks needs one.
    pub(super) async fn finish(&mut self, info: ExecutionInfo<'_>) {
        if let Self::Each(relay) = self {
            relay.finish(info).await;
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

    /// Applies backpressure: waits until the receiver takes the chunk.
    async fn forward(&mut self, chunk: pb::ToolChunk, info: ExecutionInfo<'_>) -> ChunkStep {
        let pb::ToolChunk { chunk_id, data, is_final, metadata } = chunk;
        let metadata = if is_final { with_execution_defaults(metadata, info) } else { metadata };
        let result = self.chunks.send(ToolChunk { id: chunk_id.into(), data, is_final, metadata }).await;
        self.sent += 1;
        match result {
            Err(_) => ChunkStep::ReceiverGone,
            Ok(()) if is_final => ChunkStep::Last,
            Ok(()) => ChunkStep::Continue,
        }
    }

    async fn finish(&mut self, info: ExecutionInfo<'_>) {
        let metadata = [("synthetic_final", "true".to_owned()), ("chunks_sent", self.sent.to_string())];
        let metadata = metadata.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let id = format!("sp-final-{}", self.sent + 1).into();
        let last =
            ToolChunk { id, data: Bytes::new(), is_final: true, metadata: with_execution_defaults(metadata, info) };
        // A dropped receiver does not need the final chunk.
        drop(self.chunks.send(last).await);
    }
}

/// Values set by the worker are kept.
fn with_execution_defaults(
    mut metadata: BTreeMap<String, String>,
    info: ExecutionInfo<'_>,
) -> BTreeMap<String, String> {
    let defaults = [
        ("execution_time_ms", info.milliseconds.to_string()),
        ("tool_type", "remote".to_owned()),
        ("worker_id", info.worker.to_owned()),
    ];
    for (key, value) in defaults {
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
    pub(super) fn new(progress: &'a ProgressSink) -> Self {
        Self { progress, text: String::new(), is_structured: false }
    }

    /// Strings are concatenated; objects and lists go on lines of their own.
    async fn add(&mut self, chunk: pb::ToolChunk) -> ChunkStep {
        let step = if chunk.is_final { ChunkStep::Last } else { ChunkStep::Continue };
        if chunk.data.is_empty() {
            return step;
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
        step
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
    /// A chunk that is JSON is added as a value, any other as a string.
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
