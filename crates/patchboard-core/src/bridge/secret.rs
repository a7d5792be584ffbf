//! What a worker process and the server show each other with every call, so that nobody else who reaches either of them
//! is taken for the other.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The secret of one worker process. Clones are the same one.
#[derive(Clone)]
pub struct WorkerSecret(Arc<SecretState>);

struct SecretState {
    text: Box<str>,
    is_required: AtomicBool,
}

impl WorkerSecret {
    /// Made of random bits by whoever may draw them.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(Arc::new(SecretState { text: text.into(), is_required: AtomicBool::new(false) }))
    }

    pub fn expose(&self) -> &str {
        &self.0.text
    }

    /// The worker shows it: from now on nobody is taken for the worker who does not. There is no way back.
    pub fn require(&self) {
        self.0.is_required.store(true, Ordering::Release);
    }

    /// Workers of other makes know nothing of it and never show it.
    pub fn is_required(&self) -> bool {
        self.0.is_required.load(Ordering::Acquire)
    }
}

impl fmt::Debug for WorkerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WorkerSecret")
    }
}
