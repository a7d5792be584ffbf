//! One binary for all integration tests of the surfaces.

mod transcripts;
