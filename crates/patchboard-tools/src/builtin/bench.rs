//! What file tools work with: the folder, and threads on which waiting for a disk holds up nobody else.

use std::io;
use std::sync::Arc;

use patchboard_core::tool::ToolOutput;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::folder::{PathError, WorkFolder};

/// So many file calls work at once; more wait their turn, so that a stuck disk cannot take all blocking threads.
pub(super) const CALLS_AT_ONCE: usize = 16;

#[derive(Debug)]
pub(crate) struct Workbench {
    folder: WorkFolder,
    tasks: TaskTracker,
    slots: Arc<Semaphore>,
}

/// Why a tool could not do what was asked, in words for the model.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) String);

impl Workbench {
    pub(crate) fn new(folder: WorkFolder, tasks: TaskTracker) -> Self {
        Self { folder, tasks, slots: Arc::new(Semaphore::new(CALLS_AT_ONCE)) }
    }

    /// Does `work` on a blocking thread. When `stop` is cancelled, or the caller goes away, this ends at once and `work`
    /// at its next look at the token it was given; its slot stays taken until then.
    pub(crate) async fn blocking<W>(self: &Arc<Self>, stop: CancellationToken, work: W) -> ToolOutput
    where
        W: FnOnce(&WorkFolder, &CancellationToken) -> Result<String, Refusal> + Send + 'static,
    {
        let abandoned = stop.child_token();
        let _abandon_when_dropped = abandoned.clone().drop_guard();
        let bench = self.clone();
        let working = async move {
            let Ok(slot) = bench.slots.clone().acquire_owned().await else { return cancelled() };
            let tasks = bench.tasks.clone();
            let done = tasks.spawn_blocking(move || {
                let _slot = slot;
                work(&bench.folder, &abandoned)
            });
            match done.await {
                Ok(Ok(content)) => ToolOutput::ok(content),
                Ok(Err(Refusal(reason))) => ToolOutput::error(reason),
                Err(error) if error.is_panic() => {
                    tracing::error!(%error, "file tool panicked");
                    ToolOutput::error("the tool failed inside")
                }
                Err(_) => cancelled(),
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => cancelled(),
            output = working => output,
        }
    }
}

impl Refusal {
    pub(crate) fn cancelled() -> Self {
        Self("cancelled".to_owned())
    }

    pub(crate) fn because(path: &str, error: &io::Error) -> Self {
        Self(format!("{path} cannot be read: {error}"))
    }
}

impl From<PathError> for Refusal {
    fn from(error: PathError) -> Self {
        Self(error.to_string())
    }
}

fn cancelled() -> ToolOutput {
    ToolOutput::error(Refusal::cancelled().0)
}

/// An argument of type integer. JSON Schema counts `10.0` as one, so models may send it.
pub(crate) fn integer(arguments: &Value, name: &str) -> Option<u64> {
    let value = arguments.get(name)?;
    value.as_u64().or_else(|| value.as_f64().filter(|number| *number >= 0.0).map(saturating))
}

pub(crate) fn text<'a>(arguments: &'a Value, name: &str) -> Option<&'a str> {
    arguments.get(name).and_then(Value::as_str)
}

/// Casting a float saturates: a line number of `1e300` is simply past the end.
fn saturating(number: f64) -> u64 {
    number as u64
}
