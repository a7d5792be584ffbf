//! The wire protocols over the board, one folder each. A surface never sees another one, a provider or the store.
//!
//! - [`dialect`]: the pure half of a connection; [`pump`]: the half that carries bytes.
//! - [`listen`]: sockets; [`guard`]: who may talk to them at all; [`auth`] and [`limit`]: tokens and rates.
//! - [`gateway`]: chat over WebSocket JSON-RPC.

pub mod auth;
pub mod dialect;
pub mod gateway;
pub mod guard;
pub mod limit;
pub mod listen;
pub mod pump;
mod telemetry;
