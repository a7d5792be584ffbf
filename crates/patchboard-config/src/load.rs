//! Loads the layers: defaults, the user's file, the project's file, environment, flags. Later layers win, by the rules
//! of [`merge`].

use std::{fmt, path::PathBuf, sync::Arc};

use super::{
    Config, DEFAULT_AGENT, Environment, check, file_parser,
    files::{self, ConfigFile, ConfigFileReader, DiskReader, FileLayer},
    key_path::KeyPath,
    merge::{self, DisabledEntry},
    origin::ValueOrigin,
    overlay::{self, FlagOverride},
    path_rules::PathRules,
    paths::{UserFolders, strip_current_dir_parts},
    problem::{ConfigProblem, ConfigProblems, ProblemCode, Severity},
    secrets::{self, Secrets},
    shape,
    tree::ConfigNode,
    validate,
};

/// What to load, with all inputs that the result depends on.
#[derive(Clone, Debug)]
pub struct LoadRequest {
    /// From `--config`; without it the default paths are searched.
    pub config_path: Option<PathBuf>,
    pub env: Environment,
    /// Command-line flags, in order; later ones win.
    pub overrides: Vec<FlagOverride>,
    /// Folder in which the command was started, absolute.
    pub cwd: PathBuf,
    /// Returns the text of the files, and decides which are used.
    pub reader: Arc<dyn ConfigFileReader>,
}

impl LoadRequest {
    /// Loads the files found from `cwd`, as they are on disk.
    pub fn new(config_path: Option<PathBuf>, env: Environment, cwd: PathBuf) -> Self {
        Self { config_path, env, overrides: Vec::new(), cwd, reader: DiskReader::shared() }
    }

    /// The files of this request in order, whether or not they exist.
    pub fn files(&self) -> Vec<ConfigFile> {
        files::find(self.config_path.as_deref(), &self.cwd, &UserFolders::new(&self.env))
    }
}

/// A configuration without errors.
#[derive(Clone)]
pub struct LoadedConfig {
    pub config: Config,
    /// Problems that do not keep the server from starting.
    pub warnings: ConfigProblems,
    /// The files that were read and used, in order; later ones win.
    pub files: Vec<ConfigFile>,
    /// Entries that a layer disabled, in the order of sections.
    pub(crate) disabled: Vec<DisabledEntry>,
    pub folders: UserFolders,
    pub env: Environment,
    /// Paths at which this or the next start looks for configuration.
    search_paths: Vec<PathBuf>,
    pub(crate) tree: ConfigNode,
}

impl LoadedConfig {
    /// All paths at which this or the next start looks for configuration, whether or not a file exists there.
    pub fn config_search_paths(&self) -> Vec<PathBuf> {
        self.search_paths.clone()
    }

    /// Whether a layer sets the key, so that it is not only a default.
    pub fn is_set(&self, path: &str) -> bool {
        self.tree.get(&KeyPath::dotted(path)).is_some()
    }

    /// The files that set any value of an agent.
    pub fn agent_files(&self, name: &str) -> Vec<Arc<ConfigFile>> {
        let agent = self.tree.get(&KeyPath::dotted("agents").key(name));
        agent.map(ConfigNode::files).unwrap_or_default()
    }

    /// The layer that set the value at a key such as `data_dir`.
    pub fn origin_of(&self, key: &str) -> ValueOrigin {
        self.tree.origin_of(&KeyPath::dotted(key))
    }
}

impl fmt::Debug for LoadedConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `tree` is left out because it repeats the configuration.
        formatter
            .debug_struct("LoadedConfig")
            .field("config", &self.config)
            .field("warnings", &self.warnings)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// Loads and checks the configuration without resolving secrets: for commands that only inspect it, and for clients
    /// of a running server.
    pub fn load(request: LoadRequest) -> Result<LoadedConfig, ConfigProblems> {
        let (loaded, problems) = load_with_problems(request);
        into_result(loaded, problems)
    }

    /// Loads the configuration for the start of a server: also resolves secrets, and reports unresolvable references
    /// like other problems.
    pub fn load_for_start(request: LoadRequest) -> Result<(LoadedConfig, Secrets), ConfigProblems> {
        let (loaded, secrets, problems) = load_with_secrets(request);
        into_result(loaded, problems).map(|loaded| (loaded, secrets))
    }
}

/// Loads as much as possible, resolves secrets, and returns all problems.
pub fn load_with_secrets(request: LoadRequest) -> (LoadedConfig, Secrets, Vec<ConfigProblem>) {
    let reader = request.reader.clone();
    let (loaded, mut problems) = load_with_problems(request);
    let (secrets, missing) = secrets::resolve(&loaded.config, &loaded.tree, &*reader, &loaded.env, &loaded.folders);
    problems.extend(attach_origins(missing, &loaded.tree, &problems));
    (loaded, secrets, problems)
}

fn into_result(mut loaded: LoadedConfig, problems: Vec<ConfigProblem>) -> Result<LoadedConfig, ConfigProblems> {
    let problems = ConfigProblems::new(problems);
    if problems.has_errors() {
        return Err(problems);
    }
    loaded.warnings = problems;
    Ok(loaded)
}

/// Loads as much as possible and returns all problems.
fn load_with_problems(request: LoadRequest) -> (LoadedConfig, Vec<ConfigProblem>) {
    let found = request.files();
    let LoadRequest { config_path, env, overrides, cwd, reader } = request;
    let folders = UserFolders::new(&env);
    let places = files::search_paths(config_path.as_deref(), &cwd, &folders);
    let root = shape::root();
    let mut problems = Vec::new();
    let mut tree = ConfigNode::table(ValueOrigin::Default);
    let mut files = Vec::new();
    for file in found.into_iter().map(Arc::new) {
        let warning = reader.warning(&file).map(|warning| {
            let origin = ValueOrigin::File { file: Arc::clone(&file), line: 0 };
            let problem = ConfigProblem::warning(ProblemCode::UntrustedFile, KeyPath::default(), warning.message);
            problem.with_hint(warning.hint).with_origin(origin)
        });
        let is_withheld = warning.is_some();
        problems.extend(warning);
        match file_parser::read(&file, &*reader) {
            Ok(Some(node)) => merge::merge_file(&mut tree, node, root),
            // A user who names a file relies on its contents, such as a budget, so leaving it out is an error.
            Ok(None) if is_withheld && file.layer == FileLayer::Named => {
                let message = "the file that --config names does not count, and there is no other";
                let problem = ConfigProblem::error(ProblemCode::UntrustedFile, KeyPath::default(), message);
                let origin = ValueOrigin::File { file: Arc::clone(&file), line: 0 };
                problems.push(problem.with_hint("look at it with `patchboard trust FILE`").with_origin(origin));
                continue;
            }
            Ok(None) => continue,
            // The rest of a broken file cannot be checked; other layers can.
            Err(found) => problems.extend(found),
        }
        files.push(ConfigFile::clone(&file));
    }
    problems.extend(overlay::apply_environment(&mut tree, root, &env));
    overlay::apply_overrides(&mut tree, root, overrides);
    let switched_off = merge::remove_disabled(&mut tree, root);
    let rules = PathRules { home: env.get(super::env::HOME).map(PathBuf::from), cwd };
    problems.extend(check::check(&mut tree, root, &rules));
    let broken_file =
        problems.iter().any(|problem| matches!(problem.code, ProblemCode::FileUnreadable | ProblemCode::Syntax));
    let mut config = deserialize_config(&mut tree, &mut problems);
    problems.extend(fill_machine_defaults(&mut config, &tree, &folders, &rules));
    if !broken_file {
        let mut found = validate::validate(&config);
        found.extend(validate::scripts::validate(&config, &rules.cwd));
        found.retain(|problem| !is_about_untrusted_file(problem, &config, &*reader));
        problems.extend(attach_origins(found, &tree, &problems));
    }
    let loaded = LoadedConfig {
        config,
        warnings: ConfigProblems::default(),
        files,
        disabled: switched_off,
        folders,
        env,
        search_paths: places,
        tree,
    };
    (loaded, problems)
}

/// Whether the problem concerns a certificate or key that is not trusted: a process started by the server may have
/// replaced it, which must not keep the server from starting.
fn is_about_untrusted_file(problem: &ConfigProblem, config: &Config, reader: &dyn ConfigFileReader) -> bool {
    let Some(tls) = &config.bridge.tls else { return false };
    let is_about = |key: &str| problem.path == KeyPath::dotted("bridge.tls").key(key);
    let is_judged = |path: &PathBuf| {
        let file = ConfigFile { layer: FileLayer::User, path: path.clone(), shown: path.clone() };
        reader.warning(&file).is_some()
    };
    (is_about("cert") && is_judged(&tls.cert))
        || (is_about("client_ca") && tls.client_ca.as_ref().is_some_and(is_judged))
        || (is_about("key") && reader.untrusted_secret_reason(&tls.key).is_some())
}

/// Adds origins to problems and drops problems that are only consequences of another one.
fn attach_origins(found: Vec<ConfigProblem>, tree: &ConfigNode, known: &[ConfigProblem]) -> Vec<ConfigProblem> {
    found
        .into_iter()
        .filter(|problem| !known.iter().any(|other| is_consequence_of(problem, other)))
        .map(|mut problem| {
            problem.origin = tree.nearest_origin(&problem.path);
            problem
        })
        .collect()
}

/// Whether `problem` concerns a value that was removed because of `known`, or a table that lacks it for that reason. A
/// key that was never present explains only its own problem, and a warning removes nothing.
fn is_consequence_of(problem: &ConfigProblem, known: &ConfigProblem) -> bool {
    if known.severity == Severity::Warning && problem.severity == Severity::Error {
        return false;
    }
    let inside = problem.path.segments().len() >= known.path.segments().len();
    !known.path.segments().is_empty()
        && problem.path.is_related_to(&known.path)
        && (inside || known.code != ProblemCode::MissingKey)
}

/// Deserialises the typed configuration. [`check`] has already removed invalid values, so an error here is a gap
/// between the two; it is reported, and the value is removed until the rest can be read.
fn deserialize_config(tree: &mut ConfigNode, problems: &mut Vec<ConfigProblem>) -> Config {
    loop {
        let failure = match serde_path_to_error::deserialize(tree.to_value()) {
            Ok(config) => return config,
            Err(failure) => failure,
        };
        debug_assert_eq!(failure.to_string(), "", "the check let a value through that its type refuses");
        let path = key_path(failure.path());
        problems.push(
            ConfigProblem::error(ProblemCode::WrongType, path.clone(), failure.inner().to_string())
                .with_origin(tree.nearest_origin(&path)),
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

/// Sets defaults that depend on the machine.
fn fill_machine_defaults(
    config: &mut Config,
    tree: &ConfigNode,
    folders: &UserFolders,
    rules: &PathRules,
) -> Vec<ConfigProblem> {
    let mut problems = Vec::new();
    let is_set = |path: &str| tree.get(&KeyPath::dotted(path)).is_some();
    if !is_set("data_dir") {
        match &folders.default_data_dir {
            Some(folder) => config.data_dir.clone_from(folder),
            None => problems.push(
                ConfigProblem::error(
                    ProblemCode::MissingFile,
                    KeyPath::dotted("data_dir"),
                    "has no default, as neither HOME nor XDG_DATA_HOME is set",
                )
                .with_hint("set data_dir, or use --data-dir"),
            ),
        }
    }
    let is_home =
        rules.home.as_ref().is_some_and(|home| strip_current_dir_parts(home) == strip_current_dir_parts(&rules.cwd));
    if is_home && !is_set("runs.working_folder") && !is_set("runs.allowed_roots") {
        problems.push(
            ConfigProblem::warning(
                ProblemCode::RiskySetting,
                KeyPath::dotted("runs.allowed_roots"),
                "agents may work in all of your home folder",
            )
            .with_hint("start the server in a project's folder, or set runs.allowed_roots"),
        );
    }
    if !is_set("runs.working_folder") {
        config.runs.working_folder = strip_current_dir_parts(&rules.cwd);
    }
    if !is_set("runs.allowed_roots") {
        config.runs.allowed_roots = vec![strip_current_dir_parts(&rules.cwd)];
    }
    config.storage.path = strip_current_dir_parts(&config.data_dir.join(&config.storage.path));
    let data_dir = &config.data_dir;
    config.wasm.folder.get_or_insert_with(|| data_dir.join("plugins"));
    if let Some(socket) = &mut config.bridge.unix_socket {
        *socket = strip_current_dir_parts(&config.data_dir.join(&*socket));
    }
    for (index, worker) in config.workers.iter_mut().enumerate() {
        // Arguments of the command are resolved there, so the default is the folder of the file that sets the command.
        let command = KeyPath::dotted("workers").index(index).key("command");
        worker.working_folder.get_or_insert_with(|| rules.base_folder(&tree.nearest_origin(&command)));
    }
    config.agents.entry(DEFAULT_AGENT.to_owned()).or_default();
    problems
}
