//! The bridge on the wire: its messages, client and server as generated from `proto/bridge.proto`, and what its values
//! and parameters mean as JSON. Knows nothing of sessions, workers or sockets.

mod parameter_type;
pub mod parameters;
#[rustfmt::skip]
pub mod pb;
pub mod value;

pub use prost::Message;
pub use prost_types::{Any, Timestamp};

/// `proto/bridge.proto` and what it imports, compiled, for clients that ask the server what it speaks.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("../bridge.binpb");

/// The header by which a worker and the server that started it know each other, in both directions.
pub const WORKER_SECRET_HEADER: &str = "x-patchboard-worker-secret";

#[cfg(test)]
mod tests;
