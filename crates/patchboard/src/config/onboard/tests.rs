use std::{
    collections::VecDeque,
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt},
};

use secrecy::SecretString;

use super::{Error, OnboardRequest, Onboarded, Prompt, onboard};
use crate::config::{Config, tests::bench::Bench};

/// Gives prepared answers; an empty one takes the default.
#[derive(Default)]
struct Script {
    answers: VecDeque<&'static str>,
    said: Vec<String>,
}

impl Script {
    fn new(answers: &[&'static str]) -> Self {
        Self { answers: answers.iter().copied().collect(), said: Vec::new() }
    }

    fn next(&mut self) -> io::Result<&'static str> {
        self.answers.pop_front().ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

impl Prompt for Script {
    fn say(&mut self, line: &str) -> io::Result<()> {
        self.said.push(line.to_owned());
        Ok(())
    }

    fn ask(&mut self, question: &str, default: &str) -> io::Result<String> {
        self.said.push(format!("{question} [{default}]"));
        Ok(match self.next()? {
            "" => default.to_owned(),
            answer => answer.to_owned(),
        })
    }

    fn ask_hidden(&mut self, question: &str) -> io::Result<SecretString> {
        self.said.push(question.to_owned());
        self.next().map(SecretString::from)
    }
}

fn request(bench: &Bench) -> OnboardRequest {
    let load = bench.request();
    OnboardRequest {
        config_path: load.config_path,
        env: load.env,
        cwd: load.cwd,
        provider: None,
        base_url: None,
        model: None,
    }
}

fn run(bench: &Bench, answers: &[&'static str]) -> (Result<Onboarded, Error>, Vec<String>) {
    let mut script = Script::new(answers);
    let result = onboard(request(bench), &mut script);
    (result, script.said.iter().map(|line| bench.tidy(line)).collect())
}

const USERS_FILE: &str = ".config/patchboard/patchboard.toml";

#[test]
fn a_fresh_machine() {
    let bench = Bench::new();
    let (result, said) = run(&bench, &["", "sk-ant-1", ""]);
    assert_eq!(
        result.unwrap(),
        Onboarded {
            provider: "anthropic".to_owned(),
            model: "claude-sonnet-4-5-20250929".to_owned(),
            config_file: bench.path(USERS_FILE),
            key_file: Some(bench.path(".config/patchboard/credentials/anthropic.key")),
        }
    );
    assert_eq!(
        said,
        ["Provider (anthropic, openai, ollama) [anthropic]", "Anthropic API key", "Model [claude-sonnet-4-5-20250929]",]
    );
    let text = fs::read_to_string(bench.path(USERS_FILE)).unwrap();
    assert_eq!(
        text,
        "[providers.anthropic]\nkind = \"anthropic\"\n\n[agents.default]\nprovider = \"anthropic\"\nmodel = \"claude-sonnet-4-5-20250929\"\n"
    );
    let mode = |path: &str| fs::metadata(bench.path(path)).unwrap().mode() & 0o777;
    assert_eq!(mode(USERS_FILE), 0o600);
    assert_eq!(mode(".config/patchboard"), 0o700);
    // And the server finds both.
    let (loaded, secrets) = Config::load_for_start(bench.request()).unwrap();
    assert!(secrets.provider_keys.contains_key("anthropic"));
    assert_eq!(loaded.config.model_routes(&loaded.config.agents["default"])[0].provider, "anthropic");
}

#[test]
fn everything_else_in_the_file_stays() {
    let before = r#"# my server
drain = "5s"   # short

[providers.openai] # the usual one
kind = "openai"
api_key = "env:OLD" # old
idle_timeout = "9s"

[agents.default]
provider = "anthropic" # who
max_tokens = 100

# route telegram
[[bindings]]
agent = "default"
channel = "telegram"

[budgets]
daily = 5
"#;
    let after = r#"# my server
drain = "5s"   # short

[providers.openai] # the usual one
kind = "openai"
idle_timeout = "9s"

[agents.default]
provider = "openai" # who
max_tokens = 100
model = "gpt-4o"

# route telegram
[[bindings]]
agent = "default"
channel = "telegram"

[budgets]
daily = 5
"#;
    let bench = Bench::with_users_file(before);
    let path = bench.path(USERS_FILE);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let (result, _) = run(&bench, &["openai", "sk-1", ""]);
    assert_eq!(result.unwrap().config_file, path.canonicalize().unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), after);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o644);
    // A second time changes nothing but the key, and offers what is there.
    let (result, said) = run(&bench, &["", "sk-2", ""]);
    result.unwrap();
    assert_eq!(said[0], "Provider (anthropic, openai, ollama) [openai]");
    assert_eq!(fs::read_to_string(&path).unwrap(), after);
    assert_eq!(fs::read_to_string(bench.path(".config/patchboard/credentials/openai.key")).unwrap(), "sk-2\n");
}

#[test]
fn other_ways_to_write_tables() {
    let cases = [
        "providers = { openai = { kind = \"openai\" } }\nagents = { default = { max_tokens = 5 } }\n",
        "providers.openai.kind = \"openai\"\nagents.default.max_tokens = 5\n",
        "[providers]\n[agents]\ndefault.max_tokens = 5\n",
    ];
    for text in cases {
        let bench = Bench::with_users_file(text);
        run(&bench, &["openai", "sk-1", "gpt-x"]).0.unwrap();
        let config = bench.load().config;
        let agent = &config.agents["default"];
        assert_eq!(
            (agent.provider.as_deref(), agent.model.as_deref(), agent.max_tokens),
            (Some("openai"), Some("gpt-x"), 5)
        );
        assert_eq!(config.providers.len(), 1);
    }
}

#[test]
fn a_local_server_needs_no_key() {
    let bench = Bench::new();
    let (result, said) = run(&bench, &["ollama", "", "", ""]);
    assert_eq!(result.unwrap().key_file, None);
    assert_eq!(
        said[1..4],
        [
            "Address of the server [http://127.0.0.1:11434/v1]",
            "Ollama or compatible API key (empty if it needs none)",
            "Model [llama3.2]",
        ]
    );
    let config = bench.load().config;
    assert_eq!(config.providers["ollama"].base_url.as_deref(), Some("http://127.0.0.1:11434/v1"));
    assert!(!bench.path(".config/patchboard/credentials").exists());

    let (result, said) = run(&bench, &["", "https://models.example.com/v1", "key", "m"]);
    assert!(result.unwrap().key_file.is_some());
    assert_eq!(said[0], "Provider (anthropic, openai, ollama) [ollama]");
    assert_eq!(bench.load().config.agents["default"].model.as_deref(), Some("m"));
}

#[test]
fn nothing_is_written_when_something_is_wrong() {
    let cases: [(&[&'static str], &str); 8] = [
        (&["mistral"], "`mistral` is not one of: anthropic, openai, ollama"),
        (&["../x"], "`../x` is not one of: anthropic, openai, ollama"),
        (&["openai", ""], "the key is empty"),
        (&["openai", "  "], "the key is empty"),
        (&["openai", "two words"], "the key holds spaces or characters that no API key has"),
        (&["ollama", "nonsense"], "the address must start with http:// or https://"),
        (&["openai", "key", "a\tb"], "`a\tb` is not a model name"),
        (&["openai"], "cannot ask"),
    ];
    for (answers, message) in cases {
        let bench = Bench::new();
        let (result, _) = run(&bench, answers);
        assert_eq!(result.unwrap_err().to_string(), message);
        assert!(!bench.path(".config").exists(), "{answers:?} left files");
    }
}

#[test]
fn a_file_that_cannot_be_changed_is_left_alone() {
    for text in ["[gateway\n", "providers = 5\n", "[agents]\ndefault = 5\n"] {
        let bench = Bench::with_users_file(text);
        let error = run(&bench, &["openai", "key", ""]).0.unwrap_err();
        assert!(matches!(error, Error::Edit { .. }), "{error}");
        assert_eq!(fs::read_to_string(bench.path(USERS_FILE)).unwrap(), text);
        assert!(!bench.path(".config/patchboard/credentials").exists());
    }
}

#[test]
fn a_key_that_cannot_be_stored_leaves_the_file_alone() {
    // A file where the folder of keys belongs.
    let bench = Bench::with_file("drain = \"5s\"\n").config("patchboard.toml").file(".config/patchboard", "in the way");
    let error = run(&bench, &["openai", "key", ""]).0.unwrap_err();
    assert!(matches!(error, Error::Credentials(_)), "{error}");
    assert_eq!(fs::read_to_string(bench.path("project/patchboard.toml")).unwrap(), "drain = \"5s\"\n");
    let left: Vec<_> = fs::read_dir(bench.path("project")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn a_link_to_the_file_stays_a_link() {
    let bench = Bench::new().file("dotfiles/board.toml", "# mine\n").folder(".config/patchboard");
    std::os::unix::fs::symlink(bench.path("dotfiles/board.toml"), bench.path(USERS_FILE)).unwrap();
    run(&bench, &["openai", "key", ""]).0.unwrap();
    assert!(fs::symlink_metadata(bench.path(USERS_FILE)).unwrap().is_symlink());
    assert!(fs::read_to_string(bench.path("dotfiles/board.toml")).unwrap().starts_with("# mine\n"));
}

/// A key is meant for an address that the user chose.
#[test]
fn a_projects_file_is_left_alone() {
    let bench = Bench::with_file("# the project's\n");
    assert_eq!(run(&bench, &["openai", "key", ""]).0.unwrap().config_file, bench.path(USERS_FILE));
    assert_eq!(fs::read_to_string(bench.path("project/patchboard.toml")).unwrap(), "# the project's\n");
}

#[test]
fn flags_answer_in_advance() {
    let bench = Bench::new();
    let mut script = Script::new(&["key"]);
    let request = OnboardRequest {
        provider: Some("openai".to_owned()),
        base_url: Some("https://proxy.example.com/v1".to_owned()),
        model: Some("gpt-x".to_owned()),
        ..request(&bench)
    };
    assert_eq!(onboard(request, &mut script).unwrap().model, "gpt-x");
    let config = bench.load().config;
    assert_eq!(config.providers["openai"].base_url.as_deref(), Some("https://proxy.example.com/v1"));
}

#[test]
fn a_variable_that_wins_is_mentioned() {
    let bench = Bench::new().env("OPENAI_API_KEY", "other");
    let (result, said) = run(&bench, &["openai", "key", ""]);
    result.unwrap();
    assert!(said.contains(&"Note: OPENAI_API_KEY is set and wins over the stored key".to_owned()), "{said:?}");
}

#[test]
fn without_a_home_there_is_no_place_for_keys() {
    let bench = Bench::new().without_home();
    assert!(matches!(run(&bench, &["openai", "key", ""]).0, Err(Error::NoHome)));
}
