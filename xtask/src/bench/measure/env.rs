//! What a row has at hand: the binary, a folder, the helpers and a runtime.

use std::fmt;
use std::fs::{File, TryLockError};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Context;
use tokio::runtime::Runtime;

use super::helper::{self, Helper};
use super::server::{Launch, Server};
use super::watchdog::Watchdog;
use crate::bench::options::Options;
use crate::output::say;
use crate::workspace::Workspace;

pub(crate) struct Env {
    pub(crate) options: Options,
    /// The product, built like this program and beside it.
    pub(crate) binary: PathBuf,
    /// The repository.
    pub(crate) root: PathBuf,
    /// What cargo builds into.
    pub(crate) target: PathBuf,
    runtime: Runtime,
    /// This program.
    program: PathBuf,
    /// On the disk the build is on: a memory file system would make syncing look free.
    scratch: PathBuf,
    folders: AtomicU32,
    watchdog: Arc<Watchdog>,
    /// Two measurements at once would measure each other.
    _alone: File,
}

impl fmt::Debug for Env {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Env").field("options", &self.options).field("scratch", &self.scratch).finish_non_exhaustive()
    }
}

impl Env {
    pub(super) fn new(workspace: &Workspace, target: &Path, options: Options) -> anyhow::Result<Env> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let binary = program.with_file_name(format!("patchboard{}", std::env::consts::EXE_SUFFIX));
        anyhow::ensure!(binary.is_file(), "no product beside this program: run `cargo xtask bench`, which builds both");
        let scratch = target.join("bench").join(std::process::id().to_string());
        std::fs::create_dir_all(&scratch).with_context(|| format!("cannot create {}", scratch.display()))?;
        let watchdog = Arc::new(Watchdog::start(&program, &scratch)?);
        let alone = wait_for_turn(&target.join("bench").join("lock"))?;
        let runtime = helper::runtime()?;
        Ok(Env {
            options,
            binary,
            root: workspace.root.clone(),
            target: target.to_owned(),
            runtime,
            program,
            scratch,
            folders: AtomicU32::new(0),
            watchdog,
            _alone: alone,
        })
    }

    /// How long one side of a comparison is measured in all.
    pub(super) fn span(&self) -> Duration {
        Duration::from_secs(self.options.seconds)
    }

    /// Runs to the end, or fails after `patience`.
    pub(super) fn block_on<T>(
        &self,
        patience: Duration,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        self.runtime.block_on(async {
            tokio::time::timeout(patience, work)
                .await
                .with_context(|| format!("gave up after {} s", patience.as_secs()))?
        })
    }

    pub(super) fn stub(&self) -> anyhow::Result<Helper> {
        Helper::start(&self.program, "bench-stub", &self.watchdog)
    }

    pub(super) fn echo(&self) -> anyhow::Result<Helper> {
        Helper::start(&self.program, "bench-echo", &self.watchdog)
    }

    pub(super) fn grpc_echo(&self) -> anyhow::Result<Helper> {
        Helper::start(&self.program, "bench-grpc-echo", &self.watchdog)
    }

    /// A new, empty folder; the watchdog removes it with all others.
    pub(super) fn folder(&self) -> anyhow::Result<PathBuf> {
        let number = self.folders.fetch_add(1, Ordering::Relaxed);
        let folder = self.scratch.join(number.to_string());
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(folder)
    }

    /// A server with an empty store whose channels are answered by the models of their names.
    pub(super) fn server(&self, stub: SocketAddr, models: &[&str]) -> anyhow::Result<Server> {
        self.server_in(&self.folder()?, stub, models)
    }

    /// The same with whatever an earlier server left in the folder.
    pub(super) fn server_in(&self, folder: &Path, stub: SocketAddr, models: &[&str]) -> anyhow::Result<Server> {
        Launch { binary: &self.binary, folder, stub, models, more: "" }.start(&self.watchdog)
    }

    /// A server with an empty store and more of a configuration than others.
    pub(super) fn server_with(&self, more: &str, stub: SocketAddr) -> anyhow::Result<Server> {
        Launch { binary: &self.binary, folder: &self.folder()?, stub, models: &[], more }.start(&self.watchdog)
    }
}

/// Held until it is dropped, or the process ends.
fn wait_for_turn(path: &Path) -> anyhow::Result<File> {
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => say!("waiting for another measurement to end"),
        Err(TryLockError::Error(error)) => return Err(error).context("cannot lock"),
    }
    file.lock().context("cannot wait for another measurement to end")?;
    Ok(file)
}
