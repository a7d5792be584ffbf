//! The wire protocols over the board, one folder each. A surface never sees another one, a provider or the store.
//!
//! - [`dialect`]: the pure half of a connection; [`pump`]: the half that carries bytes.
//! - [`listen`]: sockets; [`guard`] and [`local_users`]: who may talk to them at all; [`auth`] and [`limit`]: tokens and
//!   rates.
//! - [`gateway`]: chat over WebSocket JSON-RPC; [`runs`]: agent runs, step by step; [`hub`]: utterances for apps.
//!   [`mcp`]: the tool registry for MCP clients; [`bridge`]: gRPC for programs and workers.

pub mod auth;
pub mod bridge;
pub mod dialect;
pub mod gateway;
pub mod guard;
pub mod hub;
pub mod limit;
pub mod listen;
pub mod local_users;
pub mod mcp;
pub mod pump;
pub mod runs;
mod telemetry;
mod trace;
mod upgrade;
