//! Finds a Python interpreter to build on, and queries its properties.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Error;
use super::command::{PrepareStep, ProgramPurpose, clean_command, run};

const CANDIDATES: &[&str] =
    &["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python3.10", "python"];
const MIN_VERSION: PythonVersion = PythonVersion { major: 3, minor: 10 };
const QUERY_STEP: PrepareStep = PrepareStep { name: "asking Python for its version", limit: Duration::from_secs(20) };

/// Prints: major, minor, whether environments can be created without `virtualenv`, whether `pip` is available.
const QUERY_SCRIPT: &str = "\
import sys, importlib.util as u
print(sys.version_info[0], sys.version_info[1], \
int(bool(u.find_spec('venv') and u.find_spec('ensurepip'))), int(bool(u.find_spec('pip'))))";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PythonVersion {
    major: u16,
    minor: u16,
}

impl std::fmt::Display for PythonVersion {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PythonInterpreter {
    pub(super) path: PathBuf,
    pub(super) version: PythonVersion,
    pub(super) has_venv: bool,
    pub(super) has_pip: bool,
}

/// The given interpreter, or the first on the search path that is new enough.
pub(super) async fn find(named: Option<&Path>, stop: &CancellationToken) -> Result<PythonInterpreter, Error> {
    let candidates = match named {
        Some(path) => vec![path],
        None => CANDIDATES.iter().map(Path::new).collect(),
    };
    let mut tried = Vec::new();
    for path in candidates {
        match query(path, stop).await? {
            Some(found) if found.version >= MIN_VERSION => return Ok(found),
            Some(found) => tried.push(format!("`{}` (version {})", path.display(), found.version)),
            None => tried.push(format!("`{}`", path.display())),
        }
    }
    Err(Error::NoPython { tried: tried.join(", ") })
}

/// `None` if there is no such program or it does not behave like Python 3.
pub(super) async fn query(path: &Path, stop: &CancellationToken) -> Result<Option<PythonInterpreter>, Error> {
    let mut command = clean_command(path, ProgramPurpose::Serve);
    command.args(["-I", "-c", QUERY_SCRIPT]);
    match run(command, QUERY_STEP, stop).await {
        Ok(finished) if finished.succeeded => Ok(parse(path, &finished.stdout)),
        Err(Error::Stopped) => Err(Error::Stopped),
        Ok(_) | Err(_) => Ok(None),
    }
}

fn parse(path: &Path, answer: &str) -> Option<PythonInterpreter> {
    let numbers: Vec<u16> = answer.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let [major, minor, venv, pip] = numbers[..] else { return None };
    Some(PythonInterpreter {
        path: path.to_owned(),
        version: PythonVersion { major, minor },
        has_venv: venv == 1,
        has_pip: pip == 1,
    })
}
