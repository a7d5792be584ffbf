//! Shared runtime of the file tools: the folder of the call, per-file locks, and blocking threads for file system
//! access.

use std::io;
use std::path::Path;
use std::sync::Arc;

use patchboard_core::port::ToolScope;
use patchboard_core::tool::ToolOutput;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(super) mod content;
mod file_locks;

use crate::folder::{Error, PathError, WorkFolder};
use crate::workspaces::Workspaces;
pub(crate) use file_locks::FileLocks;

/// Concurrent file calls; further ones wait, so that a stuck disk cannot take all blocking threads.
pub(super) const CALLS_AT_ONCE: usize = 16;

#[derive(Debug)]
pub(crate) struct FileToolRuntime {
    workspaces: Workspaces,
    tasks: TaskTracker,
    slots: Arc<Semaphore>,
    locks: FileLocks,
}

/// Why a tool refused the call, as a message for the model.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ToolRefusal(pub(crate) String);

impl FileToolRuntime {
    pub(crate) fn new(workspaces: Workspaces, tasks: TaskTracker) -> Self {
        Self { workspaces, tasks, slots: Arc::new(Semaphore::new(CALLS_AT_ONCE)), locks: FileLocks::default() }
    }

    pub(crate) fn workspaces(&self) -> &Workspaces {
        &self.workspaces
    }

    pub(crate) fn locks(&self) -> &FileLocks {
        &self.locks
    }

    /// Runs `work` in the folder of `scope`, on a blocking thread. If `stop` is cancelled or the future is dropped,
    /// this returns at once; `work` ends when it next checks its token, and keeps its slot until then.
    pub(crate) fn blocking<W>(
        self: &Arc<Self>,
        scope: &ToolScope,
        stop: CancellationToken,
        work: W,
    ) -> impl Future<Output = ToolOutput> + Send + use<W>
    where
        W: FnOnce(&WorkFolder, &CancellationToken) -> Result<String, ToolRefusal> + Send + 'static,
    {
        let (bench, given) = (self.clone(), scope.folder.clone());
        async move { bench.run_blocking(given, stop, work).await }
    }

    async fn run_blocking<W>(self: Arc<Self>, given: Option<Arc<Path>>, stop: CancellationToken, work: W) -> ToolOutput
    where
        W: FnOnce(&WorkFolder, &CancellationToken) -> Result<String, ToolRefusal> + Send + 'static,
    {
        let abandoned = stop.child_token();
        let _abandon_when_dropped = abandoned.clone().drop_guard();
        let bench = self;
        let working = async move {
            let Ok(slot) = bench.slots.clone().acquire_owned().await else { return cancelled() };
            let tasks = bench.tasks.clone();
            let done = tasks.spawn_blocking(move || {
                let _slot = slot;
                work(&bench.workspaces.open_named(given.as_deref())?, &abandoned)
            });
            match done.await {
                Ok(Ok(content)) => ToolOutput::ok(content),
                Ok(Err(ToolRefusal(reason))) => ToolOutput::error(reason),
                Err(error) if error.is_panic() => {
                    tracing::error!(%error, "file tool panicked");
                    ToolOutput::error("internal error in the tool")
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

impl ToolRefusal {
    pub(crate) fn cancelled() -> Self {
        Self("cancelled".to_owned())
    }

    pub(crate) fn unreadable(path: &str, error: &io::Error) -> Self {
        Self(format!("{path} cannot be read: {error}"))
    }
}

impl From<PathError> for ToolRefusal {
    fn from(error: PathError) -> Self {
        Self(error.to_string())
    }
}

impl From<Error> for ToolRefusal {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

fn cancelled() -> ToolOutput {
    ToolOutput::error(ToolRefusal::cancelled().0)
}

/// An integer argument. JSON Schema counts `10.0` as an integer, so models may send it.
pub(crate) fn integer_argument(arguments: &Value, name: &str) -> Option<u64> {
    let value = arguments.get(name)?;
    value.as_u64().or_else(|| value.as_f64().filter(|number| *number >= 0.0).map(saturating))
}

pub(crate) fn text_argument<'a>(arguments: &'a Value, name: &str) -> Option<&'a str> {
    arguments.get(name).and_then(Value::as_str)
}

pub(crate) fn flag_argument(arguments: &Value, name: &str) -> Option<bool> {
    arguments.get(name).and_then(Value::as_bool)
}

/// The cast saturates: a line number of `1e300` is simply past the end.
fn saturating(number: f64) -> u64 {
    number as u64
}
