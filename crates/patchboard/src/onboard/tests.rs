use std::{
    cell::RefCell,
    collections::VecDeque,
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt},
};

use patchboard_config::Config;
use patchboard_core::model::ModelError;
use secrecy::{ExposeSecret, SecretString};

use super::{
    ModelServer, OnboardError, OnboardOutcome, OnboardPrompt, OnboardRequest, ProviderEndpoint, ServerCheck, onboard,
};
use crate::test_home::Bench;

/// Gives prepared answers; an empty one takes the default.
struct Script {
    answers: VecDeque<&'static str>,
    said: Vec<String>,
    is_person: bool,
}

impl Script {
    fn new(answers: &[&'static str]) -> Self {
        Self { answers: answers.iter().copied().collect(), said: Vec::new(), is_person: true }
    }

    fn next(&mut self) -> io::Result<&'static str> {
        self.answers.pop_front().ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

impl OnboardPrompt for Script {
    fn print_line(&mut self, line: &str) -> io::Result<()> {
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

    fn ask_secret(&mut self, question: &str) -> io::Result<SecretString> {
        self.said.push(question.to_owned());
        self.next().map(SecretString::from)
    }

    fn is_interactive(&self) -> bool {
        self.is_person
    }
}

type Listed = Result<Vec<String>, ModelError>;

/// Gives prepared answers in turn, the last one again and again, and notes what it was asked.
struct Stub {
    lists: RefCell<VecDeque<Listed>>,
    trials: RefCell<VecDeque<Result<(), ModelError>>>,
    asked: RefCell<Vec<String>>,
}

impl Stub {
    fn new(lists: Vec<Listed>, trials: Vec<Result<(), ModelError>>) -> Self {
        Self { lists: RefCell::new(lists.into()), trials: RefCell::new(trials.into()), asked: RefCell::default() }
    }

    fn of(models: &[&str]) -> Self {
        Self::new(vec![listed(models)], vec![Ok(())])
    }

    fn note(&self, what: &str, target: &ProviderEndpoint<'_>) {
        let key = target.key.map_or("no key", |key| key.expose_secret());
        self.asked.borrow_mut().push(format!("{what} {} at {} with {key}", target.name, target.address));
    }

    fn asked(&self) -> Vec<String> {
        self.asked.take()
    }
}

fn listed(models: &[&str]) -> Listed {
    Ok(models.iter().map(|model| (*model).to_owned()).collect())
}

fn rejected(text: &str) -> ModelError {
    ModelError::Rejected(text.to_owned())
}

fn unreachable() -> ModelError {
    ModelError::Unavailable("connection refused (127.0.0.1:1)".to_owned())
}

fn turn<T: Clone>(answers: &RefCell<VecDeque<T>>) -> T {
    let mut answers = answers.borrow_mut();
    match answers.len() {
        0 | 1 => answers[0].clone(),
        _ => answers.pop_front().unwrap(),
    }
}

impl ModelServer for Stub {
    fn models(&self, target: &ProviderEndpoint<'_>) -> Listed {
        self.note("list", target);
        turn(&self.lists)
    }

    fn trial_call(&self, target: &ProviderEndpoint<'_>, model: &str) -> Result<(), ModelError> {
        self.note(&format!("try {model} of"), target);
        turn(&self.trials)
    }
}

/// What the vendors and a local server list in these tests.
const MODELS: [&str; 7] =
    ["claude-opus-9", "claude-sonnet-9", "gpt-4o", "gpt-9", "gpt-9-mini", "text-embedding-9", "llama3.2"];

fn request(bench: &Bench) -> OnboardRequest {
    let load = bench.request();
    OnboardRequest {
        config_path: load.config_path,
        env: load.env,
        cwd: load.cwd,
        provider: None,
        base_url: None,
        model: None,
        key: None,
        check: ServerCheck::Yes,
    }
}

fn run(bench: &Bench, answers: &[&'static str]) -> (Result<OnboardOutcome, OnboardError>, Vec<String>) {
    run_with(request(bench), bench, answers, &Stub::of(&MODELS))
}

fn run_with(
    request: OnboardRequest,
    bench: &Bench,
    answers: &[&'static str],
    server: &Stub,
) -> (Result<OnboardOutcome, OnboardError>, Vec<String>) {
    let mut script = Script::new(answers);
    let result = onboard(request, &mut script, server);
    (result, script.said.iter().map(|line| bench.tidy(line)).collect())
}

/// The same without a terminal.
fn piped(request: OnboardRequest, answers: &[&'static str], server: &Stub) -> Result<OnboardOutcome, OnboardError> {
    let mut script = Script { is_person: false, ..Script::new(answers) };
    onboard(request, &mut script, server)
}

const PROVIDER: &str = "Provider (anthropic, openai, ollama, or the address of any server that speaks the OpenAI API)";

const USERS_FILE: &str = ".config/patchboard/patchboard.toml";

#[test]
fn a_fresh_machine() {
    let bench = Bench::new();
    let (result, said) = run(&bench, &["", "sk-ant-1", ""]);
    assert_eq!(
        result.unwrap(),
        OnboardOutcome {
            provider: "anthropic".to_owned(),
            model: "claude-sonnet-9".to_owned(),
            config_file: bench.path(USERS_FILE),
            key_file: Some(bench.path(".config/patchboard/credentials/anthropic.key")),
        }
    );
    assert_eq!(
        said,
        [
            &format!("{PROVIDER} [anthropic]"),
            "Anthropic API key",
            "The server offers 6 models:",
            "   1  claude-opus-9",
            "   2  claude-sonnet-9  (default)",
            "   3  gpt-4o",
            "   4  gpt-9",
            "   5  gpt-9-mini",
            "   6  llama3.2",
            "Model (number, name, or part of a name) [claude-sonnet-9]",
        ]
    );
    let text = fs::read_to_string(bench.path(USERS_FILE)).unwrap();
    assert_eq!(
        text,
        "[providers.anthropic]\nkind = \"anthropic\"\n\n[agents.default]\nprovider = \"anthropic\"\nmodel = \"claude-sonnet-9\"\n"
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
model = "gpt-9"

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
    assert_eq!(said[0], format!("{PROVIDER} [openai]"));
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
        run(&bench, &["openai", "sk-1", "gpt-9-mini"]).0.unwrap();
        let config = bench.load().config;
        let agent = &config.agents["default"];
        assert_eq!(
            (agent.provider.as_deref(), agent.model.as_deref(), agent.max_tokens),
            (Some("openai"), Some("gpt-9-mini"), 5)
        );
        assert_eq!(config.providers.len(), 1);
    }
}

#[test]
fn a_local_server_needs_no_key() {
    let bench = Bench::new();
    let server = Stub::of(&["nomic-embed-text", "llama3.2"]);
    let (result, said) = run_with(request(&bench), &bench, &["ollama", "", "", ""], &server);
    assert_eq!(result.unwrap().key_file, None);
    assert_eq!(
        said[1..],
        [
            "Address of the server [http://127.0.0.1:11434/v1]",
            "API key for 127.0.0.1:11434 (empty if it needs none)",
            "The server offers 1 models:",
            "   1  llama3.2  (default)",
            "Model (number, name, or part of a name) [llama3.2]",
        ]
    );
    assert_eq!(server.asked(), ["list ollama at http://127.0.0.1:11434/v1 with no key"]);
    let config = bench.load().config;
    assert_eq!(config.providers["ollama"].base_url.as_deref(), Some("http://127.0.0.1:11434/v1"));
    assert_eq!(config.agents["default"].model.as_deref(), Some("llama3.2"));
    assert!(!bench.path(".config/patchboard/credentials").exists());
}

#[test]
fn any_address_is_taken_and_none_is_called_ollama() {
    for (address, name, key_file) in [
        ("https://models.example.com/v1", "example", "example.key"),
        ("https://api.mistral.ai/v1", "mistral", "mistral.key"),
        ("https://llm.corp.co.uk", "corp", "corp.key"),
        ("http://localhost:8000/v1", "server-8000", "server-8000.key"),
        ("http://[::1]:8000", "server-8000", "server-8000.key"),
        ("http://10.0.0.7/v1", "server", "server.key"),
        ("http://gpu-box:9000/v1", "gpu-box", "gpu-box.key"),
        ("https://openai.example.net/anthropic.openai.com", "example", "example.key"),
        ("https://proxy.openai.com/v1", "openai-server", "openai-server.key"),
    ] {
        let bench = Bench::new();
        let server = Stub::of(&["m"]);
        let (result, _) = run_with(request(&bench), &bench, &[address, "key", "1"], &server);
        let done = result.unwrap();
        assert_eq!(done.provider, name, "{address}");
        assert_eq!(done.key_file.unwrap().file_name().unwrap(), key_file);
        // Some servers list their models for everybody, so the key is tried with a call.
        let asked = server.asked();
        assert!(asked[0].starts_with("list ") && asked[1].starts_with("try m of ") && asked.len() == 2, "{asked:?}");
        let config = bench.load().config;
        assert_eq!(config.providers[name].base_url.as_deref(), Some(address));
        // A second time the address is offered, and the name stays.
        let (result, said) = run(&bench, &["", "key", "llama3.2"]);
        assert_eq!(result.unwrap().provider, name);
        assert_eq!(said[0], format!("{PROVIDER} [{address}]"));
    }
    // A vendor's own address is the vendor.
    let bench = Bench::new();
    assert_eq!(run(&bench, &["https://api.openai.com/v1", "key", ""]).0.unwrap().provider, "openai");
}

#[test]
fn the_default_is_looked_up() {
    for (provider, models, expected) in [
        ("anthropic", &["claude-haiku-7", "claude-sonnet-7", "claude-sonnet-6"][..], "claude-sonnet-7"),
        ("anthropic", &["claude-next"], "claude-next"),
        ("openai", &["gpt-4o", "gpt-4.1", "gpt-10", "gpt-9", "gpt-10-mini", "gpt-10-2027-01-01"], "gpt-10"),
        ("openai", &["text-embedding-3", "o7", "whisper-1"], "o7"),
        ("openai", &["text-embedding-3"], "text-embedding-3"),
    ] {
        let bench = Bench::new();
        let (result, _) = run_with(request(&bench), &bench, &[provider, "key", ""], &Stub::of(models));
        assert_eq!(result.unwrap().model, expected);
    }
    // What is configured stays, as long as the server has it.
    let bench = Bench::new();
    run(&bench, &["openai", "key", "gpt-4o"]).0.unwrap();
    assert_eq!(run(&bench, &["", "key", ""]).0.unwrap().model, "gpt-4o");
    let (result, _) = run_with(request(&bench), &bench, &["", "key", ""], &Stub::of(&["gpt-9"]));
    assert_eq!(result.unwrap().model, "gpt-9");
}

#[test]
fn a_long_list_is_made_shorter_by_typing() {
    let models: Vec<String> = (1..=60).map(|n| format!("vendor/model-{n}")).collect();
    let server = Stub::new(vec![Ok(models)], vec![Ok(())]);
    let bench = Bench::new();
    let (result, said) = run_with(request(&bench), &bench, &["http://x:1", "", "MODEL-5", "2"], &server);
    assert_eq!(result.unwrap().model, "vendor/model-50");
    let at = said.iter().position(|line| line == "The server offers 60 models:").unwrap();
    assert_eq!(said[at + 1], "   1  vendor/model-1  (default)");
    assert_eq!(said[at + 21], "      and 40 more: type part of a name to see those that hold it");
    assert_eq!(said[at + 23..at + 25], ["   1  vendor/model-5", "   2  vendor/model-50"]);
    // A part that only one has is enough; a name that none has must be typed twice.
    let models = ["alpha-1", "beta-1"];
    let (result, _) = run_with(request(&bench), &bench, &["http://x:1", "", "bet"], &Stub::of(&models));
    assert_eq!(result.unwrap().model, "beta-1");
    let (result, said) = run_with(request(&bench), &bench, &["http://x:1", "", "new", "new"], &Stub::of(&models));
    assert_eq!(result.unwrap().model, "new");
    assert!(said.contains(&"None of them has `new` in its name; type it again to use it all the same.".to_owned()));
}

#[test]
fn trouble_says_what_happened_and_what_to_do_and_stores_nothing() {
    let unreadable = ModelError::Unavailable("provider answered with something unreadable".to_owned());
    let unresolved = ModelError::Unavailable("cannot resolve host name (api.openai.com)".to_owned());
    for (lists, what, next) in [
        (
            Err(rejected("401 Unauthorized (invalid_api_key)")),
            "api.openai.com does not accept this key (401",
            "whole key",
        ),
        (Err(unreachable()), "api.openai.com cannot be reached: connection refused", "check that the server runs"),
        (Err(unresolved), "api.openai.com cannot be found", "online"),
        (Err(unreadable), "what answers at https://api.openai.com/v1 is not a model server", "root of its API"),
        (Err(ModelError::RateLimited("429 Too Many Requests".to_owned())), "takes no requests", "limits and credit"),
        (listed(&[]), "api.openai.com answers, but has no models", "load one there first"),
    ] {
        let bench = Bench::new();
        let server = Stub::new(vec![lists], vec![Ok(())]);
        let (result, said) = run_with(request(&bench), &bench, &["openai", "key", ""], &server);
        assert!(matches!(result, Err(OnboardError::Cancelled)), "{result:?}");
        let [.., happened, todo, asked] = &said[..] else { panic!("{said:?}") };
        assert!(happened.contains(what) && todo.contains(next), "{said:?}");
        assert_eq!(asked, "Type `again` to try again, `store` to store it all the same [stop]");
        assert!(!bench.path(".config").exists());

        // Without a terminal it is an error with the same words.
        let flags = OnboardRequest { provider: Some("openai".to_owned()), ..request(&bench) };
        let error = piped(flags, &["key"], &server).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
        let hint = error.hint().unwrap();
        assert!(hint.contains(next) && hint.contains("Nothing was stored; --no-check"), "{hint}");
        assert!(!bench.path(".config").exists());
    }
}

#[test]
fn after_trouble_it_can_be_tried_again_or_stored() {
    let refused = || Err(rejected("401 Unauthorized"));
    let bench = Bench::new();
    let server = Stub::new(vec![refused(), listed(&MODELS)], vec![Ok(())]);
    let answers = ["openai", "wrong-key", "again", "right-key", ""];
    let (result, _) = run_with(request(&bench), &bench, &answers, &server);
    assert_eq!(result.unwrap().model, "gpt-9");
    let key = fs::read_to_string(bench.path(".config/patchboard/credentials/openai.key")).unwrap();
    assert_eq!(key, "right-key\n");

    let bench = Bench::new();
    let server = Stub::new(vec![refused()], vec![Ok(())]);
    let answers = ["openai", "key", "store", "key", "my-model"];
    let (result, _) = run_with(request(&bench), &bench, &answers, &server);
    assert_eq!(result.unwrap().model, "my-model");
    assert_eq!(server.asked().len(), 1, "not asked again");
}

#[test]
fn a_server_without_a_list_is_tried_with_the_typed_model() {
    let no_list = || Err(rejected("404 Not Found"));
    let bench = Bench::new();
    let server = Stub::new(vec![no_list()], vec![Ok(())]);
    let (result, said) = run_with(request(&bench), &bench, &["https://x.example/v1", "", "my-model"], &server);
    assert_eq!(result.unwrap().model, "my-model");
    assert!(said.contains(&"x.example offers no list of models, so type the name of one.".to_owned()), "{said:?}");
    assert_eq!(server.asked()[1], "try my-model of x at https://x.example/v1 with no key");

    // Nor does it answer the call: the address is likely to be wrong.
    let bench = Bench::new();
    let server = Stub::new(vec![no_list()], vec![Err(rejected("404 Not Found"))]);
    let (result, said) = run_with(request(&bench), &bench, &["https://x.example/wrong", "", "m", ""], &server);
    assert!(matches!(result, Err(OnboardError::Cancelled)), "{result:?}");
    let said = said.join("\n");
    assert!(said.contains("x.example knows no model `m` at https://x.example/wrong (404 Not Found)"), "{said}");
    assert!(said.contains("that the address is the root of the API"), "{said}");
    assert!(!bench.path(".config").exists());
}

#[test]
fn without_a_terminal_flags_say_everything() {
    let bench = Bench::new();
    let flags = || OnboardRequest {
        base_url: Some("https://models.example.com/v1".to_owned()),
        model: Some("llama3.2".to_owned()),
        key: Some("key".into()),
        ..request(&bench)
    };
    let done = piped(flags(), &[], &Stub::of(&MODELS)).unwrap();
    assert_eq!((done.provider.as_str(), done.model.as_str()), ("example", "llama3.2"));

    let named = OnboardRequest { provider: Some("mine".to_owned()), ..flags() };
    assert_eq!(piped(named, &[], &Stub::of(&MODELS)).unwrap().provider, "mine");

    let wrong = OnboardRequest { model: Some("llama3.3".to_owned()), ..flags() };
    let error = piped(wrong, &[], &Stub::of(&MODELS)).unwrap_err();
    assert_eq!(error.to_string(), "the server offers no model `llama3.3`");
    assert_eq!(error.hint().unwrap(), "did you mean `llama3.2`? --no-check takes any name");

    let unchecked = OnboardRequest { model: Some("any".to_owned()), check: ServerCheck::No, ..flags() };
    let server = Stub::new(vec![Err(unreachable())], vec![Err(unreachable())]);
    assert_eq!(piped(unchecked, &[], &server).unwrap().model, "any");
    assert_eq!(server.asked(), [""; 0]);
}

#[test]
fn nothing_is_written_when_something_is_wrong() {
    let unknown = "is not a provider";
    let cases: [(&[&'static str], &str); 9] = [
        (&["mistral"], &format!("`mistral` {unknown}")),
        (&["../x"], &format!("`../x` {unknown}")),
        (&["ftp://x"], "the address must start with http:// or https://"),
        (&["openai", ""], "the key is empty"),
        (&["openai", "  "], "the key is empty"),
        (&["openai", "two words"], "the key holds spaces or characters that no API key has"),
        (&["ollama", "nonsense"], "the address must start with http:// or https://"),
        (&["openai", "key", "a\tb", "a\tb"], "`a\tb` is not a model name"),
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
        assert!(matches!(error, OnboardError::Edit { .. }), "{error}");
        assert_eq!(fs::read_to_string(bench.path(USERS_FILE)).unwrap(), text);
        assert!(!bench.path(".config/patchboard/credentials").exists());
    }
}

#[test]
fn a_key_that_cannot_be_stored_leaves_the_file_alone() {
    // A file where the folder of keys belongs.
    let bench = Bench::with_file("drain = \"5s\"\n").config("patchboard.toml").file(".config/patchboard", "in the way");
    let error = run(&bench, &["openai", "key", ""]).0.unwrap_err();
    assert!(matches!(error, OnboardError::Credentials(_)), "{error}");
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
    let request = OnboardRequest {
        provider: Some("openai".to_owned()),
        base_url: Some("https://proxy.example.com/v1".to_owned()),
        model: Some("gpt-9".to_owned()),
        ..request(&bench)
    };
    let server = Stub::of(&MODELS);
    let (result, said) = run_with(request, &bench, &["key"], &server);
    assert_eq!((result.unwrap().model.as_str(), said.len()), ("gpt-9", 2), "{said:?}");
    let place = "openai at https://proxy.example.com/v1 with key";
    assert_eq!(server.asked(), [format!("list {place}"), format!("try gpt-9 of {place}")]);
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
    assert!(matches!(run(&bench, &["openai", "key", ""]).0, Err(OnboardError::NoHome)));
}
