//! The wire protocols over the board, one folder each. A surface must not use another surface, a provider or the store.
//!
//! - [`dialect`]: the protocol logic of a connection, without I/O; [`pump`]: the loop that does the I/O.
//! - [`listen`]: sockets; [`guard`] and [`local_users`]: which clients may connect at all; [`auth`] and [`limit`]:
//!   tokens and rates.
//! - [`gateway`]: chat over WebSocket JSON-RPC; [`runs`]: agent runs, step by step; [`hub`]: utterances for apps;
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
