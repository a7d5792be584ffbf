//! Maps error kinds to JSON-RPC codes. `data.kind` carries the kind, because the codes distinguish few of them.

use patchboard_core::{BoardError, ErrorKind, RetryHint};
use serde_json::json;

use super::wire::RpcError;

pub(super) fn rpc_error(error: &BoardError) -> RpcError {
    let (code, kind) = match error.kind {
        ErrorKind::Invalid => (RpcError::INVALID_PARAMS, "invalid"),
        ErrorKind::NotFound => (RpcError::INVALID_PARAMS, "not_found"),
        ErrorKind::Unauthenticated => (RpcError::SERVER, "unauthenticated"),
        ErrorKind::Forbidden => (RpcError::SERVER, "forbidden"),
        ErrorKind::Conflict => (RpcError::SERVER, "conflict"),
        ErrorKind::Exhausted => (RpcError::SERVER, "exhausted"),
        ErrorKind::Timeout => (RpcError::SERVER, "timeout"),
        ErrorKind::Cancelled => (RpcError::SERVER, "cancelled"),
        ErrorKind::Unavailable => (RpcError::SERVER, "unavailable"),
        ErrorKind::Upstream => (RpcError::SERVER, "upstream"),
        ErrorKind::Internal => {
            let cause = error.source_chain();
            tracing::error!(error = %error.message, cause, "request failed: internal error");
            // Internal details go to the log only; a client cannot act on them.
            return RpcError::new(RpcError::INTERNAL, "internal error: see the server's log");
        }
    };
    let mut data = json!({ "kind": kind });
    if let (RetryHint::After(pause), Some(fields)) = (error.retry, data.as_object_mut()) {
        fields.insert("retryAfterSeconds".to_owned(), pause.as_secs().max(1).into());
    }
    RpcError { code, message: error.message.clone().into(), data: Some(data) }
}
