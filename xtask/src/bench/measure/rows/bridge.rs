//! The bridge: what it answers itself, beside a bare gRPC echo, and what workers answer through it, beside the same
//! call of the same worker without it.

mod binary;
mod host;
mod pool;
mod replaced;
mod worker;

use std::sync::Arc;

use patchboard_proto::{Any, pb};

use super::Row;
use crate::bench::measure::grpc::Call;

pub(super) use binary::BridgeBinary;
pub(super) use host::{BridgePing, BridgeTool};
pub(super) use replaced::BridgeReplaced;
pub(super) use worker::BridgeWorker;

/// The one session of a measurement, with the server and with its workers.
pub(super) const SESSION: &str = "bench";
const JSON: &str = "type.snakepit.bridge/json";

/// A call of a tool in the session, with what must come of it.
pub(super) fn tool_call<'a>(
    tool: &str,
    arguments: impl IntoIterator<Item = (&'a str, &'a str)>,
    answer: &'static str,
) -> Call {
    let any = |json: &str| Any { type_url: JSON.to_owned(), value: json.into() };
    let request = pb::ExecuteToolRequest {
        session_id: SESSION.to_owned(),
        tool_name: tool.to_owned(),
        parameters: arguments.into_iter().map(|(name, json)| (name.to_owned(), any(json))).collect(),
        ..Default::default()
    };
    Call::Tool { request, answer }
}

/// What all workers are asked for: next to nothing.
fn small_call() -> Arc<Call> {
    Arc::new(tool_call("echo", [("text", r#""hello""#)], r#""hello""#))
}
