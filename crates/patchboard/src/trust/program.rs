//! Of which files and folders the command of a worker or an MCP server consists.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Longer command lines are looked at as far as this.
const MAX_ARGUMENTS: usize = 64;
/// Their first argument that is not an option names what they run, a folder too.
const INTERPRETERS: &[&str] = &["python", "pypy", "node", "nodejs", "ruby", "perl", "php", "bun", "deno", "sh", "bash"];
/// The option of an interpreter that looks for a module in the working folder.
const MODULE: &str = "-m";
/// The option of an interpreter that takes its program from the command line; what that imports is looked for in the
/// working folder.
const INLINE: &str = "-c";
/// Variables that name folders with code.
const CODE_PATHS: &[&str] = &["PYTHONPATH", "NODE_PATH"];

/// What has to be looked at to know a command again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ObeyedProgram {
    /// The program, its scripts and other files it is given.
    pub(crate) files: Vec<PathBuf>,
    /// Folders that its scripts load code from.
    pub(crate) folders: Vec<PathBuf>,
    /// What it has to read to run at all: the above, and the interpreter with its packages.
    pub(crate) readable: Vec<PathBuf>,
}

/// Surroundings that decide what a command line means.
pub(crate) struct Surroundings<'a> {
    pub(crate) working_folder: &'a Path,
    /// The variable `PATH`.
    pub(crate) search_path: Option<&'a str>,
    pub(crate) home: Option<&'a Path>,
    /// A variable of the program.
    pub(crate) variable: &'a dyn Fn(&str) -> Option<String>,
}

impl ObeyedProgram {
    pub(crate) fn of(command: &[String], around: &Surroundings<'_>) -> Self {
        let mut found = Self::default();
        let Some((name, arguments)) = command.split_first() else { return found };
        let (absent, program) = locate(name, around);
        found.files.extend(absent);
        if let Some(program) = &program {
            found.add_file(program);
            if is_script(program) {
                found.add_folder_of(program);
            }
            found.add_prefix(program);
        }
        let is_interpreter = is_interpreter(name);
        let mut has_script = false;
        for argument in arguments.iter().take(MAX_ARGUMENTS) {
            if is_interpreter && !has_script && [MODULE, INLINE].contains(&argument.as_str()) {
                found.folders.push(around.working_folder.to_owned());
                has_script = true;
                continue;
            }
            let value = match argument.strip_prefix('-') {
                Some(option) => option.split_once('=').map(|(_, value)| value),
                None => Some(argument.as_str()),
            };
            let Some(value) = value.filter(|value| !value.is_empty()) else { continue };
            let path = around.working_folder.join(value);
            if path.is_file() {
                found.add_file(&path);
                found.add_folder_of(&path);
            } else if is_interpreter && !has_script && path.is_dir() {
                found.folders.push(path);
            }
            has_script |= !argument.starts_with('-');
        }
        for variable in CODE_PATHS {
            let named = (around.variable)(variable).unwrap_or_default();
            let folders = named.split(':').filter(|folder| !folder.is_empty());
            found.folders.extend(folders.map(|folder| around.working_folder.join(folder)));
        }
        found.readable.extend(around.home.map(|home| home.join(".local/lib")));
        let existing = found.files.iter().chain(&found.folders).filter(|path| path.exists());
        found.readable.extend(existing.cloned().collect::<Vec<_>>());
        for list in [&mut found.files, &mut found.folders, &mut found.readable] {
            list.sort();
            list.dedup();
        }
        found
    }

    fn add_file(&mut self, path: &Path) {
        self.files.push(path.to_owned());
    }

    /// What lies beside a script is loaded by it.
    fn add_folder_of(&mut self, script: &Path) {
        self.folders.extend(script.parent().map(Path::to_owned));
        // An interpreter looks beside the real file.
        self.folders.extend(script.canonicalize().ok().and_then(|real| real.parent().map(Path::to_owned)));
    }

    /// `bin/python` of an environment or installation needs what lies beside `bin`. Both by its name and where it leads.
    fn add_prefix(&mut self, program: &Path) {
        for path in [Some(program.to_owned()), program.canonicalize().ok()].into_iter().flatten() {
            let folder = path.parent().filter(|folder| folder.file_name().is_some_and(|name| name == "bin"));
            self.readable.extend(folder.and_then(Path::parent).map(Path::to_owned));
        }
    }
}

/// With a slash a path, else looked for as the system does. Also the places that were looked at before: what is put there is
/// the program of the next start.
fn locate(name: &str, around: &Surroundings<'_>) -> (Vec<PathBuf>, Option<PathBuf>) {
    if name.contains('/') {
        return (Vec::new(), Some(around.working_folder.join(name)));
    }
    let mut absent = Vec::new();
    for folder in around.search_path.unwrap_or_default().split(':').filter(|folder| !folder.is_empty()) {
        let path = around.working_folder.join(folder).join(name);
        if path.is_file() {
            return (absent, Some(path));
        }
        absent.push(path);
    }
    (absent, None)
}

fn is_interpreter(name: &str) -> bool {
    let name = Path::new(name).file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let name = name.trim_end_matches(|last: char| last.is_ascii_digit() || last == '.');
    INTERPRETERS.contains(&name)
}

fn is_script(program: &Path) -> bool {
    let mut start = [0; 2];
    let is_file = fs::metadata(program).is_ok_and(|found| found.is_file());
    is_file && File::open(program).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *b"#!"
}

#[cfg(test)]
mod tests;
