//! Classifies the words of a command line.

use std::path::{Path, PathBuf};

/// The first argument that is not an option names the code to run; it may be a folder.
const INTERPRETERS: &[&str] = &["python", "pypy", "node", "nodejs", "ruby", "perl", "php", "bun", "deno", "sh", "bash"];
/// Extensions that may be omitted from the name of a script.
const CODE_EXTENSIONS: &[&str] = &["js", "mjs", "cjs", "ts", "py"];
/// The first argument that is not an option names a package, never a file.
const PACKAGE_RUNNERS: &[&str] = &["npx", "bunx", "pnpx", "uvx", "pipx"];
/// Options of package runners that take a value.
const RUNNER_VALUE_OPTIONS: &[&str] =
    &["-p", "--package", "--from", "--with", "--python", "--index", "--spec", "-c", "--call"];
/// Options that take a folder.
const FOLDER_OPTIONS: &[&str] =
    &["-C", "-d", "--cwd", "--dir", "--directory", "--path", "--prefix", "--project", "--root", "--workdir"];
/// Short options of interpreters that load code from the working folder: `-m` and `-c`.
const CODE_OPTIONS: &[char] = &['m', 'c'];
/// Options that take the rest of the word as their value.
const VALUE_OPTIONS: &[char] = &['X', 'W'];

/// How a program interprets its command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandSyntax {
    Interpreter,
    PackageRunner,
    Other,
}

impl CommandSyntax {
    pub(super) fn of(program: &str) -> Self {
        let name = Path::new(program).file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let without_version = name.trim_end_matches(|last: char| last.is_ascii_digit() || last == '.');
        if INTERPRETERS.contains(&without_version) {
            Self::Interpreter
        } else if PACKAGE_RUNNERS.contains(&&*name) {
            Self::PackageRunner
        } else {
            Self::Other
        }
    }
}

/// The role of a word, by its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordRole {
    /// The script of an interpreter, or a word before it.
    UpToScript,
    /// The name of a package or module, or the value of an option that names one: not a path unless it looks like one.
    PackageName,
    /// A word after the script or package.
    Argument,
    /// The value of an option that takes a folder.
    Folder,
    /// An argument or a subcommand.
    Unclear,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct CommandWord<'a> {
    pub(super) text: &'a str,
    pub(super) role: WordRole,
    /// An interpreter's option that loads code from the working folder.
    pub(super) takes_code: bool,
}

/// The arguments of a program with their roles. Paths are looked up in `folder`.
pub(super) fn classify_words<'a>(
    reader: CommandSyntax,
    arguments: &'a [String],
    folder: &'a Path,
) -> impl Iterator<Item = CommandWord<'a>> {
    let mut is_run = false;
    let mut next = None;
    arguments.iter().map(move |text| {
        let text = text.as_str();
        let place = match reader {
            CommandSyntax::Other => WordRole::Unclear,
            CommandSyntax::Interpreter | CommandSyntax::PackageRunner if is_run => WordRole::Argument,
            CommandSyntax::Interpreter | CommandSyntax::PackageRunner => WordRole::UpToScript,
        };
        let mut word = CommandWord { text, role: place, takes_code: false };
        if let Some(place) = next.take() {
            return CommandWord { role: place, ..word };
        }
        if FOLDER_OPTIONS.contains(&text) {
            next = Some(WordRole::Folder);
        }
        match reader {
            CommandSyntax::Interpreter if !is_run && takes_code(text) => {
                (is_run, next, word.takes_code) = (true, Some(WordRole::PackageName), true);
            }
            // The value of an option may precede the script and names no file.
            CommandSyntax::Interpreter if !is_run && !text.starts_with('-') => {
                is_run = !existing_paths(folder, text).is_empty();
            }
            CommandSyntax::PackageRunner if !is_run && RUNNER_VALUE_OPTIONS.contains(&text) => {
                next = Some(WordRole::PackageName);
            }
            CommandSyntax::PackageRunner if !is_run && !text.starts_with('-') => {
                (is_run, word.role) = (true, WordRole::PackageName);
            }
            CommandSyntax::Interpreter | CommandSyntax::PackageRunner | CommandSyntax::Other => {}
        }
        word
    })
}

/// True for `-m`, `-c` and groups of short options that contain one of them.
fn takes_code(word: &str) -> bool {
    let Some(options) = word.strip_prefix('-').filter(|rest| !rest.starts_with('-')) else { return false };
    options.chars().take_while(|option| !VALUE_OPTIONS.contains(option)).any(|option| CODE_OPTIONS.contains(&option))
}

/// The parts of a word that may be paths: the word, the value of `--option=VALUE`, and that of `-oVALUE`.
pub(super) fn path_candidates(word: &str) -> Vec<&str> {
    let values = match word.strip_prefix('-') {
        None => vec![word],
        Some(option) => {
            let short = (!option.starts_with('-')).then(|| option.get(1..)).flatten();
            option.split_once('=').map(|(_, value)| value).into_iter().chain(short).collect()
        }
    };
    values.into_iter().filter(|value| !value.is_empty()).collect()
}

/// The existing ones among the path itself and the path with an omitted extension.
pub(super) fn existing_paths(folder: &Path, value: &str) -> Vec<PathBuf> {
    let path = folder.join(value);
    let with_ending = CODE_EXTENSIONS.iter().map(|ending| {
        let mut path = path.clone().into_os_string();
        path.push(".");
        path.push(ending);
        PathBuf::from(path)
    });
    let with_ending: Vec<PathBuf> = with_ending.filter(|path| path.is_file()).collect();
    if path.exists() { [path].into_iter().chain(with_ending).collect() } else { with_ending }
}

/// Rewrites a word for a program that runs in another folder than `folder`: a name of an existing file or folder
/// becomes absolute. A word without a slash may be a subcommand, so a folder counts only where one is expected, and a
/// file only where one is expected or its name has an extension.
pub(super) fn absolute_word(word: CommandWord<'_>, folder: &Path) -> String {
    let (option, value) = match word.text.strip_prefix('-').and_then(|_| word.text.split_once('=')) {
        Some((option, value)) => (Some(option), value),
        None => (None, word.text),
    };
    let is_option = option.is_none() && value.starts_with('-');
    let place =
        if option.is_some_and(|option| FOLDER_OPTIONS.contains(&option)) { WordRole::Folder } else { word.role };
    let path = folder.join(value);
    let is_path = value.starts_with(['/', '.']) || (value.contains('/') && place != WordRole::PackageName);
    let is_named = match place {
        WordRole::PackageName => false,
        WordRole::UpToScript | WordRole::Argument => !existing_paths(folder, value).is_empty(),
        WordRole::Folder => path.is_dir(),
        WordRole::Unclear => path.is_file() && Path::new(value).extension().is_some(),
    };
    if value.is_empty() || is_option || !(is_named || (is_path && !existing_paths(folder, value).is_empty())) {
        return word.text.to_owned();
    }
    // A path that is not UTF-8 stays relative and is not found.
    let Some(path) = path.to_str() else { return word.text.to_owned() };
    option.map_or_else(|| path.to_owned(), |option| format!("{option}={path}"))
}
