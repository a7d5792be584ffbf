//! The secret that a worker process and the server present to each other with every call, so that no other process that
//! reaches either of them can impersonate the other.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The secret of one worker process. Clones share it.
#[derive(Clone)]
pub struct WorkerSecret(Arc<SecretState>);

struct SecretState {
    text: Box<str>,
    is_required: AtomicBool,
}

impl WorkerSecret {
    /// `text` must be made of random bits.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(Arc::new(SecretState { text: text.into(), is_required: AtomicBool::new(false) }))
    }

    pub fn expose(&self) -> &str {
        &self.0.text
    }

    /// The worker presents the secret: from now on calls without it are rejected. Cannot be undone.
    pub fn require(&self) {
        self.0.is_required.store(true, Ordering::Release);
    }

    /// Workers of other implementations do not know the secret and never present it.
    pub fn is_required(&self) -> bool {
        self.0.is_required.load(Ordering::Acquire)
    }
}

impl fmt::Debug for WorkerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WorkerSecret")
    }
}
