//! Determines which files and folders the command of a worker or MCP server consists of.

use std::fmt;
use std::path::{Path, PathBuf};

mod command_line;
mod locate;

use command_line::{CommandSyntax, WordRole, absolute_word, classify_words, existing_paths, path_candidates};
use locate::{locate, shebang_command, strip_env};

/// Arguments past this limit are not examined.
const MAX_ARGUMENTS: usize = 64;
/// A script's interpreter may itself be a script.
const MAX_INTERPRETERS: usize = 2;
/// Variables with folders of the program's code.
const CODE_FOLDERS: &[&str] = &["PYTHONPATH", "NODE_PATH"];
/// Variables with library folders, often of the whole system: they count only where agents may write.
const LIBRARY_FOLDERS: &[&str] = &["PYTHONHOME", "RUBYLIB", "PERL5LIB", "LD_LIBRARY_PATH"];
/// Variables that name code files.
const CODE_FILES: &[&str] = &["PYTHONSTARTUP", "BASH_ENV", "ENV", "LD_PRELOAD"];
/// Options for every Node program.
const NODE_OPTIONS: &str = "NODE_OPTIONS";

/// The files and folders that identify a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GuardedProgram {
    /// The program, its scripts and other files named in its arguments.
    pub files: Vec<PathBuf>,
    /// Folders its scripts load code from.
    pub folders: Vec<PathBuf>,
    /// What it must be able to read to run: the above, the interpreter and its packages.
    pub readable: Vec<PathBuf>,
}

/// The environment in which a command line is resolved.
pub struct ProgramContext<'a> {
    /// Where the program and its arguments are looked up.
    pub base: &'a Path,
    /// Its working directory; `None` for a private folder, where no other process writes.
    pub working_folder: Option<&'a Path>,
    /// The value of `PATH`.
    pub search_path: Option<&'a str>,
    pub home: Option<&'a Path>,
    /// Looks up a variable of the program's environment.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Whether an agent may write to a path.
    pub is_agent_writable: &'a dyn Fn(&Path) -> bool,
}

impl fmt::Debug for ProgramContext<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ProgramContext")
            .field("base", &self.base)
            .field("working_folder", &self.working_folder)
            .finish_non_exhaustive()
    }
}

/// The command line as it is started: the examined program by its absolute path and, if it runs in a private folder,
/// absolute paths for arguments that name files.
pub fn resolved_command(command: &[String], around: &ProgramContext<'_>) -> Vec<String> {
    let Some((name, arguments)) = command.split_first() else { return Vec::new() };
    let found = locate(name, around.base, around.search_path).found;
    // A program that is not found now fails at the start as well.
    let program = found.and_then(|path| path.to_str().map(str::to_owned)).unwrap_or_else(|| name.clone());
    let arguments = match around.working_folder {
        Some(_) => arguments.to_vec(),
        None => {
            let words = classify_words(CommandSyntax::of(name), arguments, around.base);
            words.map(|word| absolute_word(word, around.base)).collect()
        }
    };
    [program].into_iter().chain(arguments).collect()
}

impl GuardedProgram {
    pub fn of(command: &[String], around: &ProgramContext<'_>) -> Self {
        let mut found = Self::default();
        let started = resolved_command(command, around);
        let (Some(name), Some((_, arguments))) = (command.first(), started.split_first()) else { return found };
        let command: Vec<String> = [name.clone()].into_iter().chain(arguments.iter().cloned()).collect();
        found.add_command(&command, around, MAX_INTERPRETERS);
        // Any program may load code from its working folder.
        let folder = around.working_folder;
        found.folders.extend(folder.filter(|folder| (around.is_agent_writable)(folder)).map(Path::to_owned));
        found.add_variables(around);
        found.readable.extend(folder.map(Path::to_owned));
        found.readable.extend(around.home.map(|home| home.join(".local/lib")));
        let existing = found.files.iter().chain(&found.folders).filter(|path| path.exists());
        found.readable.extend(existing.cloned().collect::<Vec<_>>());
        for list in [&mut found.files, &mut found.folders, &mut found.readable] {
            list.sort();
            list.dedup();
        }
        found
    }

    /// Adds a program with its arguments and the interpreter of its shebang line, up to `levels` deep.
    fn add_command(&mut self, command: &[String], around: &ProgramContext<'_>, levels: usize) {
        let Some((name, arguments)) = command.split_first() else { return };
        let located = locate(name, around.base, around.search_path);
        self.files.extend(located.earlier_candidates);
        if let Some(program) = &located.found {
            self.files.push(program.clone());
            self.add_prefix(program);
            if let Some(line) = shebang_command(program) {
                self.add_folder_of(program);
                if levels > 0 {
                    self.add_command(&line, around, levels - 1);
                }
            }
        }
        if let Some(command) = strip_env(command) {
            return self.add_command(command, around, levels);
        }
        let reader = CommandSyntax::of(name);
        let arguments = arguments.get(..MAX_ARGUMENTS).unwrap_or(arguments);
        for word in classify_words(reader, arguments, around.base) {
            if word.takes_code {
                self.folders.extend(around.working_folder.map(Path::to_owned));
            }
            let is_run = reader == CommandSyntax::Interpreter && word.role == WordRole::UpToScript;
            for path in path_candidates(word.text).into_iter().flat_map(|value| around.existing_paths(value)) {
                if path.is_file() {
                    self.add_file(&path);
                } else if is_run || (around.is_agent_writable)(&path) {
                    self.folders.push(path);
                }
            }
        }
    }

    fn add_variables(&mut self, around: &ProgramContext<'_>) {
        let value = |name: &str| (around.variable)(name).unwrap_or_default();
        for variable in CODE_FOLDERS {
            self.folders.extend(value(variable).split(':').filter_map(|folder| around.resolve_path(folder)));
        }
        for variable in LIBRARY_FOLDERS {
            let folders: Vec<PathBuf> =
                value(variable).split(':').filter_map(|folder| around.resolve_path(folder)).collect();
            self.folders.extend(folders.iter().filter(|folder| (around.is_agent_writable)(folder)).cloned());
            self.readable.extend(folders);
        }
        for variable in CODE_FILES {
            let text = value(variable);
            let files =
                text.split([':', ' ']).filter_map(|file| around.resolve_path(file)).filter(|path| path.is_file());
            self.files.extend(files);
        }
        let options = value(NODE_OPTIONS);
        let files = options.split_whitespace().flat_map(path_candidates).flat_map(|value| around.existing_paths(value));
        files.filter(|path| path.is_file()).for_each(|file| self.add_file(&file));
    }

    /// Adds a file and its folder, as a script may load files beside it.
    fn add_file(&mut self, path: &Path) {
        self.files.push(path.to_owned());
        self.add_folder_of(path);
    }

    fn add_folder_of(&mut self, script: &Path) {
        self.folders.extend(script.parent().map(Path::to_owned));
        // An interpreter looks beside the real file, not beside the symlink.
        self.folders.extend(script.canonicalize().ok().and_then(|real| real.parent().map(Path::to_owned)));
    }

    /// `bin/python` of an environment or installation needs the siblings of `bin`, at its path and at its symlink
    /// target.
    fn add_prefix(&mut self, program: &Path) {
        for path in [Some(program.to_owned()), program.canonicalize().ok()].into_iter().flatten() {
            let folder = path.parent().filter(|folder| folder.file_name().is_some_and(|name| name == "bin"));
            self.readable.extend(folder.and_then(Path::parent).map(Path::to_owned));
        }
    }
}

impl ProgramContext<'_> {
    /// Resolves a value in the program's working folder. In a private folder a relative path cannot name anything other
    /// processes could write.
    fn resolve_path(&self, value: &str) -> Option<PathBuf> {
        let path = Path::new(value);
        match self.working_folder {
            Some(folder) => (!value.is_empty()).then(|| folder.join(path)),
            None => path.is_absolute().then(|| path.to_owned()),
        }
    }

    /// The existing paths for a value, also with an omitted extension.
    fn existing_paths(&self, value: &str) -> Vec<PathBuf> {
        self.resolve_path(value).map(|path| existing_paths(Path::new("/"), &path.to_string_lossy())).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
