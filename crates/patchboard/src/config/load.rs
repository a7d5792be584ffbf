//! Puts the layers together: defaults, file, environment, flags. Later wins;
//! tables merge, lists replace.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::{
    Config, DEFAULT_AGENT, Environment, check,
    key_path::KeyPath,
    overlay,
    paths::{Folders, PathRules, clean},
    problem::{Code, ConfigProblems, Problem, Severity},
    secrets::{self, Secrets},
    shape, source,
    tree::{Node, Origin},
    validate,
};

/// Name of the file looked for in the current folder and in the user's
/// configuration folder.
pub(crate) const FILE_NAME: &str = "patchboard.toml";

/// What to load, and everything it may depend on.
#[derive(Clone, Debug)]
pub(crate) struct LoadRequest {
    /// `--config`; without it the file is looked for.
    pub config_path: Option<PathBuf>,
    pub env: Environment,
    /// Command-line flags, in order; later ones win.
    pub overrides: Vec<Override>,
    /// Folder the command was started in, absolute.
    pub cwd: PathBuf,
}

/// A value set by a command-line flag.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Override {
    /// The flag as the user wrote it, for messages: `--gateway`.
    pub flag: String,
    /// The key it sets: `gateway.listen`.
    pub path: String,
    pub value: toml::Value,
}

impl Override {
    pub(crate) fn new(flag: &str, path: &str, value: impl Into<toml::Value>) -> Self {
        Self { flag: flag.to_owned(), path: path.to_owned(), value: value.into() }
    }
}

/// A configuration without errors.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub config: Config,
    /// Worth telling the operator; nothing that stops the server.
    pub warnings: ConfigProblems,
    /// The file that was read, if any.
    pub file: Option<PathBuf>,
    /// Where the command was started.
    pub cwd: PathBuf,
    pub folders: Folders,
    pub env: Environment,
    pub(crate) tree: Node,
}

impl Loaded {
    /// Files that this or the next start obeys, whether or not they are there: the one that was read, and those that are
    /// looked for.
    pub(crate) fn configuration_files(&self) -> Vec<PathBuf> {
        let users = self.folders.config_dir.as_ref().map(|folder| folder.join(FILE_NAME));
        let mut files: Vec<PathBuf> = [Some(self.cwd.join(FILE_NAME)), users].into_iter().flatten().collect();
        files.extend(self.file.iter().filter(|file| !files.contains(file)).cloned().collect::<Vec<_>>());
        files
    }
}

impl fmt::Debug for Loaded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The tree repeats the configuration.
        formatter
            .debug_struct("Loaded")
            .field("config", &self.config)
            .field("warnings", &self.warnings)
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// Loads and checks the configuration without reading secrets: for
    /// commands that only look, and for clients of a running server.
    pub(crate) fn load(request: LoadRequest) -> Result<Loaded, ConfigProblems> {
        let (loaded, problems) = examine(request);
        settle(loaded, problems)
    }

    /// Loads the configuration for a server about to start: secrets are read
    /// too, and a reference that leads nowhere is a problem like any other.
    pub(crate) fn load_for_start(request: LoadRequest) -> Result<(Loaded, Secrets), ConfigProblems> {
        let (loaded, secrets, problems) = examine_for_start(request);
        settle(loaded, problems).map(|loaded| (loaded, secrets))
    }
}

/// As [`examine`], and reads secrets.
pub(crate) fn examine_for_start(request: LoadRequest) -> (Loaded, Secrets, Vec<Problem>) {
    let (loaded, mut problems) = examine(request);
    let (secrets, missing) = secrets::resolve(&loaded.config, &loaded.env, &loaded.folders);
    problems.extend(locate(missing, &loaded.tree, &problems));
    (loaded, secrets, problems)
}

fn settle(mut loaded: Loaded, problems: Vec<Problem>) -> Result<Loaded, ConfigProblems> {
    let problems = ConfigProblems::new(problems);
    if problems.has_errors() {
        return Err(problems);
    }
    loaded.warnings = problems;
    Ok(loaded)
}

/// Loads as much as can be made sense of, with everything that is wrong.
fn examine(request: LoadRequest) -> (Loaded, Vec<Problem>) {
    let LoadRequest { config_path, env, overrides, cwd } = request;
    let folders = Folders::new(&env);
    let file = find_file(config_path, &cwd, &folders);
    let mut problems = Vec::new();
    let mut tree = Node::table(Origin::Default);
    let mut file_dir = cwd.clone();
    if let Some(file) = &file {
        file_dir = file.path.parent().map_or(file_dir, clean);
        match source::read(&file.path, &file.shown) {
            Ok(node) => tree = node,
            // What else a broken file says cannot be judged; other layers can.
            Err(found) => problems.extend(found),
        }
    }
    let root = shape::root();
    problems.extend(overlay::apply_environment(&mut tree, root, &env));
    overlay::apply_overrides(&mut tree, overrides);
    let rules = PathRules { home: env.get(super::env::HOME).map(PathBuf::from), file_dir, cwd };
    problems.extend(check::check(&mut tree, root, &rules));
    let broken_file = problems.iter().any(|problem| matches!(problem.code, Code::FileUnreadable | Code::Syntax));
    let mut config = typed(&mut tree, &mut problems);
    problems.extend(complete(&mut config, &tree, &folders, &rules));
    if !broken_file {
        let found = validate::validate(&config);
        problems.extend(locate(found, &tree, &problems));
    }
    let loaded = Loaded {
        config,
        warnings: ConfigProblems::default(),
        file: file.map(|file| file.path),
        cwd: rules.cwd,
        folders,
        env,
        tree,
    };
    (loaded, problems)
}

/// Gives problems the place they came from and drops those that only follow
/// from another one.
fn locate(found: Vec<Problem>, tree: &Node, known: &[Problem]) -> Vec<Problem> {
    found
        .into_iter()
        .filter(|problem| !known.iter().any(|other| follows(problem, other)))
        .map(|mut problem| {
            problem.origin = tree.origin_near(&problem.path);
            problem
        })
        .collect()
}

/// Whether `problem` is about a value that `known` has already taken out, or
/// about a table that lacks it for that reason. A key that was never there
/// explains nothing but itself, and a warning has taken nothing out.
fn follows(problem: &Problem, known: &Problem) -> bool {
    if known.severity == Severity::Warning && problem.severity == Severity::Error {
        return false;
    }
    let inside = problem.path.steps().len() >= known.path.steps().len();
    !known.path.steps().is_empty() && problem.path.touches(&known.path) && (inside || known.code != Code::MissingKey)
}

pub(crate) struct FoundFile {
    pub(crate) path: PathBuf,
    /// As messages show it: short where the file was found in the current folder.
    shown: PathBuf,
}

pub(crate) fn find_file(named: Option<PathBuf>, cwd: &Path, folders: &Folders) -> Option<FoundFile> {
    if let Some(named) = named {
        return Some(FoundFile { path: cwd.join(&named), shown: named });
    }
    let here = cwd.join(FILE_NAME);
    if here.exists() {
        return Some(FoundFile { path: here, shown: PathBuf::from(FILE_NAME) });
    }
    let users = folders.config_dir.as_ref()?.join(FILE_NAME);
    users.exists().then(|| FoundFile { path: users.clone(), shown: users })
}

/// The typed form. [`check`] has already taken out what does not fit, so a
/// failure here is a gap between the two; it is reported all the same and the
/// offending value removed until the rest can be read.
fn typed(tree: &mut Node, problems: &mut Vec<Problem>) -> Config {
    loop {
        let failure = match serde_path_to_error::deserialize(tree.to_value()) {
            Ok(config) => return config,
            Err(failure) => failure,
        };
        debug_assert_eq!(failure.to_string(), "", "the check let a value through that its type refuses");
        let path = key_path(failure.path());
        problems.push(
            Problem::error(Code::WrongType, path.clone(), failure.inner().to_string()).from(tree.origin_near(&path)),
        );
        if !tree.remove(&path) {
            return Config::default();
        }
    }
}

fn key_path(path: &serde_path_to_error::Path) -> KeyPath {
    use serde_path_to_error::Segment;
    path.iter().fold(KeyPath::default(), |path, segment| match segment {
        Segment::Seq { index } => path.index(*index),
        Segment::Map { key } => path.key(key),
        Segment::Enum { .. } | Segment::Unknown => path,
    })
}

/// Fills in what depends on the machine rather than on a constant.
fn complete(config: &mut Config, tree: &Node, folders: &Folders, rules: &PathRules) -> Vec<Problem> {
    let mut problems = Vec::new();
    let is_set = |path: &str| tree.get(&KeyPath::dotted(path)).is_some();
    if !is_set("data_dir") {
        match &folders.default_data_dir {
            Some(folder) => config.data_dir.clone_from(folder),
            None => problems.push(
                Problem::error(
                    Code::MissingFile,
                    KeyPath::dotted("data_dir"),
                    "has no default, as neither HOME nor XDG_DATA_HOME is set",
                )
                .hint("set data_dir, or use --data-dir"),
            ),
        }
    }
    if !is_set("runs.working_folder") {
        config.runs.working_folder = clean(&rules.cwd);
    }
    if !is_set("runs.allowed_roots") {
        config.runs.allowed_roots = vec![clean(&rules.cwd)];
    }
    config.storage.path = clean(&config.data_dir.join(&config.storage.path));
    let data_dir = &config.data_dir;
    config.wasm.folder.get_or_insert_with(|| data_dir.join("plugins"));
    if let Some(socket) = &mut config.bridge.unix_socket {
        *socket = clean(&config.data_dir.join(&*socket));
    }
    for worker in &mut config.workers {
        worker.working_folder.get_or_insert_with(|| rules.file_dir.clone());
    }
    config.agents.entry(DEFAULT_AGENT.to_owned()).or_default();
    problems
}
