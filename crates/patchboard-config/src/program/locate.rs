//! Locates a program and reads its shebang line.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Search path of the system when `PATH` is unset.
const DEFAULT_SEARCH_PATH: &str = "/bin:/usr/bin";
/// The kernel reads at most this much of a shebang line.
const MAX_SHEBANG_BYTES: u64 = 256;

/// The result of a lookup.
#[derive(Debug, Default)]
pub(super) struct LocatedProgram {
    pub(super) found: Option<PathBuf>,
    /// Earlier candidates in the search path: a file created there would be started next time.
    pub(super) earlier_candidates: Vec<PathBuf>,
}

/// A name with a slash is a path; any other is looked up as the system does: an empty element of the search path is the
/// current folder, and files that are not executable are skipped.
pub(super) fn locate(name: &str, folder: &Path, search_path: Option<&str>) -> LocatedProgram {
    if name.contains('/') {
        return LocatedProgram { found: Some(folder.join(name)), earlier_candidates: Vec::new() };
    }
    let mut before = Vec::new();
    for element in search_path.unwrap_or(DEFAULT_SEARCH_PATH).split(':') {
        let path = folder.join(element).join(name);
        if path.is_file() && access(&path, Access::EXEC_OK).is_ok() {
            return LocatedProgram { found: Some(path), earlier_candidates: before };
        }
        // A program in a folder that this user may not search could not be started either.
        if std::fs::metadata(&path).err().is_none_or(|error| error.kind() != io::ErrorKind::PermissionDenied) {
            before.push(path);
        }
    }
    LocatedProgram { found: None, earlier_candidates: before }
}

/// The command of a script's shebang line; `None` for other programs.
pub(super) fn shebang_command(program: &Path) -> Option<Vec<String>> {
    let mut start = Vec::new();
    // Devices and pipes must not be read.
    let is_file = std::fs::metadata(program).is_ok_and(|found| found.is_file());
    is_file.then(|| File::open(program).ok()?.take(MAX_SHEBANG_BYTES).read_to_end(&mut start).ok()).flatten()?;
    let line = String::from_utf8_lossy(&start);
    let line = line.strip_prefix("#!")?.lines().next().unwrap_or_default();
    // The kernel passes the rest of the line as one argument; programs such as `env -S` split it at spaces.
    let command: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    (!command.is_empty()).then_some(command)
}

/// The command from the program on in `/usr/bin/env [-S] [NAME=VALUE] PROGRAM …`.
pub(super) fn strip_env(command: &[String]) -> Option<&[String]> {
    let (program, arguments) = command.split_first()?;
    if Path::new(program).file_name()? != "env" {
        return None;
    }
    let mut is_value = false;
    let begins = arguments.iter().position(|word| {
        if std::mem::take(&mut is_value) {
            return false;
        }
        is_value = ["-u", "-C", "--unset", "--chdir"].contains(&word.as_str());
        !word.starts_with('-') && !word.contains('=')
    })?;
    arguments.get(begins..)
}
