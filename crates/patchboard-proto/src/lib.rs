//! The bridge protocol: messages, client and server generated from `proto/bridge.proto`, and the JSON form of its
//! values and parameters. Knows nothing of sessions, workers or sockets.

pub mod limits;
mod parameter_type;
pub mod parameters;
#[rustfmt::skip]
pub mod pb;
pub mod value;

pub use prost::Message;
pub use prost_types::{Any, Timestamp};

/// The compiled `proto/bridge.proto` with its imports, for gRPC server reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("../bridge.binpb");

/// The header by which a worker and the server that started it authenticate each other, in both directions.
pub const WORKER_SECRET_HEADER: &str = "x-patchboard-worker-secret";

#[cfg(test)]
mod tests;
