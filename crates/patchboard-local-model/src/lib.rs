//! The managed local model: a private Python environment with the llama.cpp server, weights to run in it, and a
//! watched process that speaks the OpenAI dialect on loopback.
//!
//! [`prepare()`] makes the environment once, [`installed`] only looks whether it is there; [`ManagedServer::start`] runs the
//! server from it at once, [`ManagedServer::start_asleep`] with the first call. Either way it sleeps when nothing uses it.
//! [`LocalModel`] wakes it for the provider that talks to it. This crate must not know which dialect that provider speaks,
//! the configuration, nor how progress is drawn.

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

/// What the operator chose; [`ManagedOptions::new`] has sensible defaults for the rest.
#[derive(Debug, Clone)]
pub struct ManagedOptions {
    /// Everything made here lives in `local-model/` below it.
    pub data_dir: PathBuf,
    /// A GGUF file of the operator, or the small packaged model.
    pub weights: Option<PathBuf>,
    /// The interpreter to build on, or the first suitable one on the search path.
    pub python: Option<PathBuf>,
    /// The window of one conversation; a model trained on less gets less.
    pub context_tokens: NonZeroU32,
    /// Requests computed at the same time; each costs memory for a whole window, further ones wait.
    pub parallel: NonZeroU8,
    /// Threads to compute with, or what the server thinks best.
    pub threads: Option<NonZeroU16>,
    /// Large weights on a slow disk take minutes to load.
    pub startup_timeout: Duration,
    /// The process ends after so long without a call; the next call starts it again.
    pub idle_after: Duration,
}

impl ManagedOptions {
    pub fn new(data_dir: PathBuf, weights: Option<PathBuf>) -> Self {
        // A second window is cheap with the small model and may not fit beside a large one.
        // It hardly gains by a second thread either, and threads wait for each other by spinning: on a machine that is
        // busy otherwise, two write a tenth of what one does.
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

/// Hears how far a preparation is.
pub trait PrepareProgress: Send + Sync {
    /// `fraction` is between 0 and 1 where the size of the step is known. Called several times a second.
    fn report(&self, message: &str, fraction: Option<f32>);
}
