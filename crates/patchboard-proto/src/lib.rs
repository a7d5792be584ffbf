//! The bridge on the wire: its messages, client and server as generated from `proto/bridge.proto`, and what its values
//! and parameters mean as JSON. Knows nothing of sessions, workers or sockets.

pub mod parameters;
#[rustfmt::skip]
pub mod pb;
pub mod value;

pub use prost::Message;
pub use prost_types::{Any, Timestamp};

/// `proto/bridge.proto` and what it imports, compiled, for clients that ask the server what it speaks.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("../bridge.binpb");

#[cfg(test)]
mod tests;
