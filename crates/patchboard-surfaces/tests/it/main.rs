//! One binary for all integration tests of the surfaces.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its files fails")]

mod runs;
mod transcripts;
