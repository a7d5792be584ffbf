//! The runs surface as a client sees it: one run is asked for, or joined again, and what it says is read.

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Address, Socket};

#[derive(Debug)]
pub(crate) struct RunsClient {
    socket: Socket,
}

/// What is asked of an agent.
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
    /// The operator opens the folder for this run, wherever it lies.
    pub(crate) grant_folder: bool,
    pub(crate) got_adaptive: bool,
    pub(crate) verbose: bool,
    pub(crate) detach: bool,
}

/// What a server says about the run of this connection.
#[derive(Debug)]
pub(crate) enum Frame {
    /// One event, as it came.
    Event(Box<RawValue>),
    End(RunEnd),
    Error(String),
    /// An answer to an approval was refused: too late, most likely.
    ApprovalRefused(String),
}

/// The good end of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunEnd {
    pub(crate) reply: String,
    pub(crate) session_id: String,
    pub(crate) node_id: String,
    pub(crate) event_id: u64,
    pub(crate) usage: Option<Usage>,
    pub(crate) total_usage: Option<Usage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Usage {
    pub(crate) prompt_tokens: u64,
    pub(crate) completion_tokens: u64,
    pub(crate) total_tokens: u64,
}

impl RunsClient {
    pub(crate) async fn connect(address: &Address) -> anyhow::Result<Self> {
        Ok(Self { socket: Socket::open(address).await? })
    }

    pub(crate) async fn run(&mut self, request: &RunRequest) -> anyhow::Result<()> {
        self.socket.send(serde_json::to_string(request)?).await
    }

    /// Events after number `after`, and then what comes.
    pub(crate) async fn attach(&mut self, id: &str, after: u64) -> anyhow::Result<()> {
        self.send(&json!({ "type": "attach", "id": id, "after": after })).await
    }

    /// The run ends with an error that says so.
    pub(crate) async fn cancel(&mut self, id: &str) -> anyhow::Result<()> {
        self.send(&json!({ "type": "cancel", "id": id })).await
    }

    /// Stops a run of any connection. `Err` inside is why the server does not.
    pub(crate) async fn cancel_run(&mut self, run: &str) -> anyhow::Result<Result<(), String>> {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(rename = "type")]
            kind: String,
            id: Option<String>,
            error: Option<String>,
        }
        const ID: &str = "cancel";
        self.send(&json!({ "type": "cancel_run", "id": ID, "run_id": run })).await?;
        loop {
            let text = self.socket.next().await?;
            let answer: Answer = serde_json::from_str(&text).context("the server's answer cannot be read")?;
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

    /// The next thing that is said. Safe to drop while it waits.
    pub(crate) async fn frame(&mut self) -> anyhow::Result<Frame> {
        loop {
            let text = self.socket.next().await?;
            if let Some(frame) = read(&text).context("the server sent something that cannot be read")? {
                return Ok(frame);
            }
        }
    }

    async fn send(&mut self, request: &Value) -> anyhow::Result<()> {
        self.socket.send(request.to_string()).await
    }
}

/// How the server begins to say that an answer to an approval came too late. It speaks under the run's id, and is not
/// the run's end.
const APPROVAL: &str = "tool_approve: ";

/// Frames of kinds this program does not know are passed over.
fn read(text: &str) -> serde_json::Result<Option<Frame>> {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(rename = "type")]
        kind: &'a str,
    }
    #[derive(Deserialize)]
    struct Event {
        event: Box<RawValue>,
    }
    #[derive(Deserialize)]
    struct Problem {
        error: String,
    }
    Ok(match serde_json::from_str::<Head<'_>>(text)?.kind {
        "run_stream_event" => Some(Frame::Event(serde_json::from_str::<Event>(text)?.event)),
        "run_end" => Some(Frame::End(serde_json::from_str(text)?)),
        "error" => {
            let Problem { error } = serde_json::from_str(text)?;
            match error.strip_prefix(APPROVAL) {
                Some(refusal) => Some(Frame::ApprovalRefused(refusal.to_owned())),
                None => Some(Frame::Error(error)),
            }
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests;
