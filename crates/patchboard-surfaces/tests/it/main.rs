//! One binary for all integration tests of the surfaces.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod runs;
mod transcripts;
