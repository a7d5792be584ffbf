//! Brings `local-model/` of the data directory into the wanted state, doing only what is missing.
//!
//! ```text
//! local-model/
//!   lock          held while preparing
//!   launcher.py   runs the server, written anew by every preparation
//!   server/       the Python environment, with its stamp
//!   weights/      the small model, with its stamp
//!   staging-*/    exists only while something is being made
//! ```

use std::fs::{DirBuilder, File, TryLockError};
use std::num::{NonZeroU8, NonZeroU16, NonZeroU32};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::environment::{self, SERVER_REQUIREMENTS, Staging, WEIGHTS_NAME, WEIGHTS_REQUIREMENTS};
use super::stamp::{self, Key};
use super::{Error, ManagedOptions, Progress, python, weights};

const LAUNCHER: &str = include_str!("launcher.py");

/// Everything that starting the server needs; made by [`prepare`].
#[derive(Debug, Clone)]
pub struct Prepared {
    pub(super) directory: PathBuf,
    pub(super) python: PathBuf,
    pub(super) launcher: PathBuf,
    pub(super) weights: PathBuf,
    pub(super) model_name: String,
    pub(super) context_tokens: NonZeroU32,
    pub(super) parallel: NonZeroU8,
    pub(super) threads: Option<NonZeroU16>,
    pub(super) startup_timeout: Duration,
}

/// Makes what is missing and returns at once when nothing is. Needs the network only to make something.
/// Cancelled or killed at any point it leaves nothing that a later call would take for finished.
pub async fn prepare(
    options: &ManagedOptions,
    progress: &dyn Progress,
    stop: &CancellationToken,
) -> Result<Prepared, Error> {
    // Before any download: a mistyped file name should not cost minutes.
    let own_weights = options.weights.as_deref().map(weights::check).transpose()?;
    let directory = open_directory(&options.data_dir)?;
    let _lock = Lock::take(&directory)?;

    let python = ensure_server(&directory, options.python.as_deref(), progress, stop).await?;
    let weights = match own_weights {
        Some(path) => path,
        None => ensure_weights(&directory, &python, progress, stop).await?,
    };
    let launcher = write_launcher(&directory)?;
    Ok(Prepared {
        model_name: weights::model_name(&weights),
        directory,
        python,
        launcher,
        weights,
        context_tokens: options.context_tokens,
        parallel: options.parallel,
        threads: options.threads,
        startup_timeout: options.startup_timeout,
    })
}

async fn ensure_server(
    directory: &Path,
    named: Option<&Path>,
    progress: &dyn Progress,
    stop: &CancellationToken,
) -> Result<PathBuf, Error> {
    let place = directory.join("server");
    let interpreter = environment::interpreter_of(&place);
    // An environment is bound to the version it was made with; an update of the system's Python ends it.
    if let Some(found) = python::ask(&interpreter, stop).await?
        && stamp::holds(&place, &server_key(found.version))
    {
        return Ok(interpreter);
    }
    progress.step("looking for Python", None);
    let base = python::find(named, stop).await?;
    let staging = Staging::begin(directory)?;
    let made = environment::build_server(&base, &staging, progress, stop).await?;
    finish(&staging, &made, &place, &server_key(base.version))?;
    Ok(interpreter)
}

async fn ensure_weights(
    directory: &Path,
    python: &Path,
    progress: &dyn Progress,
    stop: &CancellationToken,
) -> Result<PathBuf, Error> {
    let place = directory.join("weights");
    let file = place.join(WEIGHTS_NAME);
    let key = Key::of(&[WEIGHTS_REQUIREMENTS]);
    if !stamp::holds(&place, &key) || weights::check(&file).is_err() {
        let staging = Staging::begin(directory)?;
        let made = environment::build_weights(python, &staging, progress, stop).await?;
        weights::check(&made.join(WEIGHTS_NAME))?;
        finish(&staging, &made, &place, &key)?;
    }
    weights::check(&file)
}

fn finish(staging: &Staging, made: &Path, place: &Path, key: &Key) -> Result<(), Error> {
    stamp::write(made, key).map_err(Error::file("stamp", made))?;
    staging.publish(made, place)
}

fn server_key(version: python::Version) -> Key {
    Key::of(&[SERVER_REQUIREMENTS, &version.to_string()])
}

/// Readable by the operator alone, like the rest of the data directory.
fn open_directory(data_dir: &Path) -> Result<PathBuf, Error> {
    let directory = std::path::absolute(data_dir).map_err(Error::file("find", data_dir))?.join("local-model");
    DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(Error::file("create", &directory))?;
    Ok(directory)
}

/// Keeps other processes out; the system releases it when this one dies.
struct Lock(File);

impl Lock {
    fn take(directory: &Path) -> Result<Self, Error> {
        let path = directory.join("lock");
        let file = File::create(&path).map_err(Error::file("create", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(Error::Busy { directory: directory.to_owned() }),
            Err(TryLockError::Error(source)) => Err(Error::file("lock", &path)(source)),
        }
    }
}

impl Drop for Lock {
    /// Closing alone is not enough: a process being started elsewhere holds a copy of the file for a moment.
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::debug!(%error, "the lock of the local model is released when this process ends");
        }
    }
}

/// A newer binary brings a newer launcher; the swap is atomic so that a restarting server never reads half of one.
fn write_launcher(directory: &Path) -> Result<PathBuf, Error> {
    let (path, fresh) = (directory.join("launcher.py"), directory.join("launcher.py.new"));
    std::fs::write(&fresh, LAUNCHER).map_err(Error::file("write", &fresh))?;
    std::fs::rename(&fresh, &path).map_err(Error::file("write", &path))?;
    Ok(path)
}
