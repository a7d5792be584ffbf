//! One binary for all integration tests of the tools: those that take processes.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test stops at the first surprise")]
#![expect(clippy::print_stdout, reason = "why a test was skipped, and what was measured")]

mod all_but;
mod bash;
mod jails;
mod mcp;
mod protected;
mod support;
mod workers;
