//! Prepares the `local-model/` directory, building only what is missing.
//!
//! ```text
//! local-model/
//!   lock          held while preparing
//!   launcher.py   runs the server, rewritten by every preparation
//!   server/       the Python environment, with its stamp
//!   weights/      the small model, with its stamp
//!   staging-*/    exists only during a build
//! ```

use std::fs::{DirBuilder, File, TryLockError};
use std::num::{NonZeroU8, NonZeroU16, NonZeroU32};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::environment::{self, SERVER_REQUIREMENTS, StagingDir, WEIGHTS_NAME, WEIGHTS_REQUIREMENTS};
use super::gguf::{self, ModelMetadata};
use super::stamp::{self, BuildKey};
use super::{Error, ManagedOptions, PrepareProgress, python, weights};

const LAUNCHER: &str = include_str!("launcher.py");

/// Everything needed to start the server; built by [`prepare`].
#[derive(Debug, Clone)]
pub struct PreparedServer {
    pub(super) directory: PathBuf,
    pub(super) python: PathBuf,
    pub(super) launcher: PathBuf,
    pub(super) weights: PathBuf,
    pub(super) model_name: String,
    pub(super) context_tokens: NonZeroU32,
    pub(super) parallel: NonZeroU8,
    pub(super) threads: Option<NonZeroU16>,
    pub(super) startup_timeout: Duration,
    pub(super) idle_after: Duration,
    /// Metadata read from the weights file.
    pub(super) metadata: ModelMetadata,
}

/// Builds what is missing and returns at once if nothing is. Needs the network only to build. If it is cancelled or
/// killed at any point, no partial result counts as finished later.
pub async fn prepare(
    options: &ManagedOptions,
    progress: &dyn PrepareProgress,
    stop: &CancellationToken,
) -> Result<PreparedServer, Error> {
    // Before any download, so that a mistyped file name does not cost minutes.
    let own_weights = options.weights.as_deref().map(weights::check).transpose()?;
    let directory = open_directory(&options.data_dir)?;
    let _lock = DirectoryLock::acquire(&directory)?;

    let python = ensure_server(&directory, options.python.as_deref(), progress, stop).await?;
    let weights = match own_weights {
        Some(path) => path,
        None => ensure_weights(&directory, &python, progress, stop).await?,
    };
    prepared_server(options, directory, python, weights)
}

/// The result of an earlier [`prepare`], if it is complete: downloads and builds nothing. `None` if something is
/// missing, was built by another version, or is being built at the moment.
pub async fn installed(options: &ManagedOptions, stop: &CancellationToken) -> Result<Option<PreparedServer>, Error> {
    let directory = model_dir(&options.data_dir)?;
    let environment = directory.join("server");
    if !environment.exists() {
        return Ok(None);
    }
    let weights = match options.weights.as_deref() {
        Some(own) => weights::check(own)?,
        None => match existing_weights(&directory) {
            Some(kept) => kept,
            None => return Ok(None),
        },
    };
    let Ok(_lock) = DirectoryLock::acquire(&directory) else { return Ok(None) };
    match existing_server(&environment, stop).await? {
        Some(python) => prepared_server(options, directory, python, weights).map(Some),
        None => Ok(None),
    }
}

fn prepared_server(
    options: &ManagedOptions,
    directory: PathBuf,
    python: PathBuf,
    weights: PathBuf,
) -> Result<PreparedServer, Error> {
    let launcher = write_launcher(&directory)?;
    Ok(PreparedServer {
        model_name: weights::model_name(&weights),
        directory,
        python,
        launcher,
        metadata: gguf::read_metadata(&weights),
        weights,
        context_tokens: options.context_tokens,
        parallel: options.parallel,
        threads: options.threads,
        startup_timeout: options.startup_timeout,
        idle_after: options.idle_after,
    })
}

impl PreparedServer {
    pub fn model_name(&self) -> &str {
        &self.model_name
    }

    /// Context window of one request: the configured size, or the size the model was trained on if that is smaller.
    pub fn context_tokens(&self) -> u32 {
        self.metadata.trained_window.unwrap_or(u32::MAX).min(self.context_tokens.get())
    }

    /// Whether the model's chat template supports tools.
    pub fn supports_tools(&self) -> bool {
        self.metadata.tools.unwrap_or(false)
    }

    pub fn idle_after(&self) -> Duration {
        self.idle_after
    }
}

async fn ensure_server(
    directory: &Path,
    named: Option<&Path>,
    progress: &dyn PrepareProgress,
    stop: &CancellationToken,
) -> Result<PathBuf, Error> {
    let place = directory.join("server");
    if let Some(interpreter) = existing_server(&place, stop).await? {
        return Ok(interpreter);
    }
    progress.report("looking for Python", None);
    let base = python::find(named, stop).await?;
    let staging = StagingDir::create(directory)?;
    let made = environment::build_server(&base, &staging, progress, stop).await?;
    stamp_and_publish(&staging, &made, &place, &server_key(base.version))?;
    Ok(environment::interpreter_of(&place))
}

/// The interpreter of a finished environment. An environment is bound to the Python version it was built with; an
/// update of the system's Python invalidates it.
async fn existing_server(place: &Path, stop: &CancellationToken) -> Result<Option<PathBuf>, Error> {
    let interpreter = environment::interpreter_of(place);
    let found = python::query(&interpreter, stop).await?;
    Ok(found.filter(|found| stamp::is_current(place, &server_key(found.version))).map(|_| interpreter))
}

async fn ensure_weights(
    directory: &Path,
    python: &Path,
    progress: &dyn PrepareProgress,
    stop: &CancellationToken,
) -> Result<PathBuf, Error> {
    if let Some(kept) = existing_weights(directory) {
        return Ok(kept);
    }
    let place = weights_dir(directory);
    let staging = StagingDir::create(directory)?;
    let made = environment::build_weights(python, &staging, progress, stop).await?;
    weights::check(&made.join(WEIGHTS_NAME))?;
    stamp_and_publish(&staging, &made, &place, &BuildKey::of(&[WEIGHTS_REQUIREMENTS]))?;
    weights::check(&place.join(WEIGHTS_NAME))
}

fn existing_weights(directory: &Path) -> Option<PathBuf> {
    let place = weights_dir(directory);
    let is_whole = stamp::is_current(&place, &BuildKey::of(&[WEIGHTS_REQUIREMENTS]));
    is_whole.then(|| weights::check(&place.join(WEIGHTS_NAME)).ok()).flatten()
}

fn weights_dir(directory: &Path) -> PathBuf {
    directory.join("weights")
}

fn stamp_and_publish(staging: &StagingDir, made: &Path, place: &Path, key: &BuildKey) -> Result<(), Error> {
    stamp::write(made, key).map_err(Error::file("stamp", made))?;
    staging.publish(made, place)
}

fn server_key(version: python::PythonVersion) -> BuildKey {
    BuildKey::of(&[SERVER_REQUIREMENTS, &version.to_string()])
}

fn model_dir(data_dir: &Path) -> Result<PathBuf, Error> {
    Ok(std::path::absolute(data_dir).map_err(Error::file("find", data_dir))?.join("local-model"))
}

/// Readable by the operator only, like the rest of the data directory.
fn open_directory(data_dir: &Path) -> Result<PathBuf, Error> {
    let directory = model_dir(data_dir)?;
    DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(Error::file("create", &directory))?;
    Ok(directory)
}

/// Excludes other processes; the system releases it when this process ends.
struct DirectoryLock(File);

impl DirectoryLock {
    fn acquire(directory: &Path) -> Result<Self, Error> {
        let path = directory.join("lock");
        let file = File::create(&path).map_err(Error::file("create", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(Error::Busy { directory: directory.to_owned() }),
            Err(TryLockError::Error(source)) => Err(Error::file("lock", &path)(source)),
        }
    }
}

impl Drop for DirectoryLock {
    /// Closing alone is not enough: a process that is just being spawned holds a copy of the descriptor for a moment.
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::debug!(%error, "the lock of the local model is released when this process ends");
        }
    }
}

/// A newer binary brings a newer launcher; the swap is atomic so that a restarting server never reads a partial file.
fn write_launcher(directory: &Path) -> Result<PathBuf, Error> {
    let (path, fresh) = (directory.join("launcher.py"), directory.join("launcher.py.new"));
    std::fs::write(&fresh, LAUNCHER).map_err(Error::file("write", &fresh))?;
    std::fs::rename(&fresh, &path).map_err(Error::file("write", &path))?;
    Ok(path)
}
