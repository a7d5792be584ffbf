//! The managed local model: a private Python environment with the llama.cpp server, its weights, and a supervised
//! process that serves the OpenAI API on loopback.
//!
//! [`prepare()`] builds the environment once, [`installed`] only checks for it; [`ManagedServer::start`] starts the
//! server at once, [`ManagedServer::start_asleep`] with the first call. Either way it is stopped when idle.
//! [`LocalModel`] is the provider, which starts it on demand. This crate must not depend on that provider's API, on the
//! configuration, or on how progress is displayed.

mod activity;
mod child;
mod command;
mod environment;
mod error;
mod gguf;
mod prepare;
mod provider;
mod proxy;
mod python;
mod repetition;
mod server;
mod stamp;
mod tail;
mod weights;

#[cfg(test)]
mod tests;

use std::num::{NonZeroU8, NonZeroU16, NonZeroU32};
use std::path::PathBuf;
use std::time::Duration;

pub use self::activity::ServerLease;
pub use self::error::Error;
pub use self::prepare::{PreparedServer, installed, prepare};
pub use self::provider::LocalModel;
pub use self::server::{ManagedServer, ServerStatus};

/// The operator's options; [`ManagedOptions::new`] sets defaults for the rest.
#[derive(Debug, Clone)]
pub struct ManagedOptions {
    /// All files are in `local-model/` below this directory.
    pub data_dir: PathBuf,
    /// The operator's GGUF file; `None` for the small packaged model.
    pub weights: Option<PathBuf>,
    /// The interpreter to build on; `None` for the first suitable one on the search path.
    pub python: Option<PathBuf>,
    /// Context window of one conversation; reduced to what the model was trained on.
    pub context_tokens: NonZeroU32,
    /// Requests computed concurrently; each costs memory for a whole window, further ones wait.
    pub parallel: NonZeroU8,
    /// Number of compute threads; `None` for the server's default.
    pub threads: Option<NonZeroU16>,
    /// Large weights on a slow disk take minutes to load.
    pub startup_timeout: Duration,
    /// The process is stopped after this long without a call; the next call starts it again.
    pub idle_after: Duration,
}

impl ManagedOptions {
    pub fn new(data_dir: PathBuf, weights: Option<PathBuf>) -> Self {
        // A second window is cheap with the small model and may not fit beside a large one. The small model hardly
        // gains from a second thread either, and threads wait for each other by spinning: on a busy machine two threads
        // generate a tenth of what one does.
        let threads = weights.is_none().then_some(NonZeroU16::MIN);
        let parallel = if weights.is_none() { NonZeroU8::MIN.saturating_add(1) } else { NonZeroU8::MIN };
        Self {
            data_dir,
            weights,
            python: None,
            context_tokens: NonZeroU32::MIN.saturating_add(8191),
            parallel,
            threads,
            startup_timeout: Duration::from_secs(300),
            idle_after: Duration::from_secs(600),
        }
    }
}

/// Receives the progress of a preparation.
pub trait PrepareProgress: Send + Sync {
    /// `fraction` is between 0 and 1 if the size of the step is known. Called several times a second.
    fn report(&self, message: &str, fraction: Option<f32>);
}
