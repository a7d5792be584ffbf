//! The client of the runs surface: starts one run or attaches to it, and reads its frames.

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{ServerAddress, ServerSocket};

#[derive(Debug)]
pub(crate) struct RunsClient {
    socket: ServerSocket,
}

/// A request to start a run.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "run")]
pub(crate) struct RunRequest {
    pub(crate) id: String,
    pub(crate) message: String,
    pub(crate) agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    pub(crate) thread_id: Option<String>,
    pub(crate) working_folder: Option<String>,
    /// The operator grants this folder to the run, wherever it is.
    pub(crate) grant_folder: bool,
    pub(crate) got_adaptive: bool,
    pub(crate) verbose: bool,
    pub(crate) detach: bool,
}

/// A frame about this connection's run.
#[derive(Debug)]
pub(crate) enum RunFrame {
    /// One event, unparsed.
    Event(Box<RawValue>),
    End(RunEnd),
    Error(String),
    /// An answer to an approval was rejected, most likely because it came too late.
    ApprovalRefused(String),
}

/// The successful end of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunEnd {
    pub(crate) reply: String,
    pub(crate) session_id: String,
    pub(crate) node_id: String,
    pub(crate) event_id: u64,
    pub(crate) usage: Option<TokenUsage>,
    pub(crate) total_usage: Option<TokenUsage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TokenUsage {
    pub(crate) prompt_tokens: u64,
    pub(crate) completion_tokens: u64,
    pub(crate) total_tokens: u64,
}

impl RunsClient {
    pub(crate) async fn connect(address: &ServerAddress) -> anyhow::Result<Self> {
        Ok(Self { socket: ServerSocket::open(address).await? })
    }

    pub(crate) async fn run(&mut self, request: &RunRequest) -> anyhow::Result<()> {
        self.socket.send(serde_json::to_string(request)?).await
    }

    /// Requests the events after number `after` and all later ones.
    pub(crate) async fn attach(&mut self, id: &str, after: u64) -> anyhow::Result<()> {
        self.send(&json!({ "type": "attach", "id": id, "after": after })).await
    }

    /// Cancels the run, which then ends with an error.
    pub(crate) async fn cancel(&mut self, id: &str) -> anyhow::Result<()> {
        self.send(&json!({ "type": "cancel", "id": id })).await
    }

    /// Cancels a run of any connection. The inner `Err` is the server's reason for rejecting.
    pub(crate) async fn cancel_run(&mut self, run: &str) -> anyhow::Result<Result<(), String>> {
        #[derive(Deserialize)]
        struct CancelResponse {
            #[serde(rename = "type")]
            kind: String,
            id: Option<String>,
            error: Option<String>,
        }
        const ID: &str = "cancel";
        self.send(&json!({ "type": "cancel_run", "id": ID, "run_id": run })).await?;
        loop {
            let text = self.socket.next().await?;
            let answer: CancelResponse = serde_json::from_str(&text).context("the server's answer cannot be read")?;
            match (answer.error, answer.kind.as_str()) {
                (Some(error), _) => return Ok(Err(error)),
                (None, "cancel_run_ack" | "cancel_run") if answer.id.as_deref() == Some(ID) => return Ok(Ok(())),
                _ => {}
            }
        }
    }

    pub(crate) async fn approve(&mut self, id: &str, call_id: &str, approve: bool) -> anyhow::Result<()> {
        self.send(&json!({ "type": "tool_approve", "id": id, "call_id": call_id, "approve": approve })).await
    }

    /// The next frame. Cancel-safe.
    pub(crate) async fn next_frame(&mut self) -> anyhow::Result<RunFrame> {
        loop {
            let text = self.socket.next().await?;
            if let Some(frame) = parse_frame(&text).context("the server sent something that cannot be read")? {
                return Ok(frame);
            }
        }
    }

    async fn send(&mut self, request: &Value) -> anyhow::Result<()> {
        self.socket.send(request.to_string()).await
    }
}

/// Prefix of the error for a late answer to an approval. It carries the run's id but does not end the run.
const APPROVAL_ERROR_PREFIX: &str = "tool_approve: ";

/// Frames of unknown kinds are skipped.
fn parse_frame(text: &str) -> serde_json::Result<Option<RunFrame>> {
    #[derive(Deserialize)]
    struct FrameHead<'a> {
        #[serde(rename = "type")]
        kind: &'a str,
    }
    #[derive(Deserialize)]
    struct EventFrame {
        event: Box<RawValue>,
    }
    #[derive(Deserialize)]
    struct ErrorFrame {
        error: String,
    }
    Ok(match serde_json::from_str::<FrameHead<'_>>(text)?.kind {
        "run_stream_event" => Some(RunFrame::Event(serde_json::from_str::<EventFrame>(text)?.event)),
        "run_end" => Some(RunFrame::End(serde_json::from_str(text)?)),
        "error" => {
            let ErrorFrame { error } = serde_json::from_str(text)?;
            match error.strip_prefix(APPROVAL_ERROR_PREFIX) {
                Some(refusal) => Some(RunFrame::ApprovalRefused(refusal.to_owned())),
                None => Some(RunFrame::Error(error)),
            }
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests;
