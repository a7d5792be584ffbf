//! What a user's and a project's file mean together.

use std::io;
use std::sync::Arc;

use secrecy::ExposeSecret;

use super::bench::Bench;
use crate::{
    Config, LoadRequest,
    files::{ConfigFile, ConfigFileReader, DiskReader, FileLayer},
    origin::ValueOrigin,
    show::{ShowOrigin, show},
    types::ListenAddress,
};

const USERS: &str = ".config/patchboard/patchboard.toml";
const PROJECTS: &str = "project/patchboard.toml";

fn both(users: &str, projects: &str) -> Bench {
    Bench::new().file(USERS, users).file(PROJECTS, projects)
}

fn shown(bench: &Bench) -> String {
    bench.tidy(&show(&bench.load(), ShowOrigin::Yes))
}

#[test]
fn files_merge_key_by_key_and_the_projects_wins() {
    let bench = both(
        "drain = \"1s\"\n[gateway]\nlisten = \":1\"\nmax_connections = 7\nallowed_origins = [\"https://a\", \"https://b\"]",
        "[gateway]\nlisten = \":2\"\nallowed_origins = [\"https://c\"]",
    )
    .env("PATCHBOARD__GATEWAY__MAX_CONNECTIONS", "9");
    let loaded = bench.load();
    let gateway = &loaded.config.gateway;
    assert_eq!((gateway.listen, gateway.max_connections), (ListenAddress::loopback(2), 9));
    assert_eq!(gateway.allowed_origins, ["https://c"], "plain lists replace each other");
    assert_eq!(loaded.config.drain.to_string(), "1s");
    let files: Vec<_> = loaded.files.iter().map(|file| (file.layer, file.path.clone())).collect();
    assert_eq!(files, [(FileLayer::User, bench.path(USERS)), (FileLayer::Project, bench.path(PROJECTS))]);
    assert!(bench.report().to_string().ends_with("no problems"), "{}", bench.report());
}

#[test]
fn a_named_file_stands_alone() {
    let bench = both("drain = \"1s\"", "[gateway]\nlisten = \":2\"")
        .file("project/other.toml", "[runs]\nlisten = \":3\"")
        .config("other.toml");
    let config = bench.load().config;
    assert_eq!(config.runs.listen, ListenAddress::loopback(3));
    assert_eq!((config.drain, config.gateway.listen), (Config::default().drain, Config::default().gateway.listen));
}

#[test]
fn in_the_users_folder_the_file_is_the_users() {
    let bench = Bench::with_users_file("drain = \"1s\"");
    let request = LoadRequest { cwd: bench.path(".config/patchboard"), ..bench.request() };
    let loaded = Config::load(request).unwrap();
    assert_eq!(loaded.files.iter().map(|file| file.layer).collect::<Vec<_>>(), [FileLayer::User]);
}

#[test]
fn every_place_of_configuration_is_known() {
    let bench = Bench::new();
    assert_eq!(bench.load().config_search_paths(), [bench.path(USERS), bench.path(PROJECTS)]);
    let named = Bench::new().file("project/x.toml", "").config("x.toml");
    let places = [USERS, PROJECTS, "project/x.toml"].map(|place| named.path(place));
    assert_eq!(named.load().config_search_paths(), places);
}

#[test]
fn named_lists_merge_by_name() {
    let bench = both(
        "[[workers]]\nname = \"a\"\ncommand = [\"a\"]\ncount = 2\n[[workers]]\nname = \"b\"\ncommand = [\"b\", \"one\"]",
        "[[workers]]\nname = \"b\"\ncommand = [\"b\"]\n[[workers]]\nname = \"c\"\ncommand = [\"c\"]\n[[workers]]\nname = \"a\"\ncount = 5",
    );
    assert_eq!(bench.complaints(), "");
    let workers = bench.load().config.workers;
    let found: Vec<_> = workers.iter().map(|it| (it.name.as_str(), it.command.join(" "), it.count)).collect();
    assert_eq!(found, [("a", "a".to_owned(), 5), ("b", "b".to_owned(), 1), ("c", "c".to_owned(), 1)]);
    // Arguments are found beside the file that says the command.
    let folders: Vec<_> = workers.iter().map(|it| it.working_folder.clone().unwrap()).collect();
    assert_eq!(folders, [".config/patchboard", "project", "project"].map(|folder| bench.path(folder)));
}

#[test]
fn one_name_twice_in_one_file_is_still_a_mistake() {
    let worker = "[[workers]]\nname = \"a\"\ncommand = [\"a\"]\n";
    let complaints = both(worker, &worker.repeat(2)).complaints();
    assert_eq!(complaints, "error[PB0118] workers[1].name (patchboard.toml:5): is already the name of workers[0]");
}

#[test]
fn what_is_inherited_can_be_switched_off() {
    let users = r#"
[[workers]]
name = "py"
command = ["python3"]
[[plugins]]
name = "p"
path = "p.wasm"
[mcp.files]
command = ["files"]
[mcp.kept]
command = ["kept"]
[channels.hook]
verify = "none"
"#;
    let projects = r#"
[[workers]]
name = "py"
enabled = false
[[workers]]
name = "never-there"
enabled = false
[[plugins]]
name = "p"
enabled = false
[mcp]
files.enabled = false
[channels.hook]
enabled = false
"#;
    let bench = both(users, projects);
    assert_eq!(bench.complaints(), "");
    let config = bench.load().config;
    assert_eq!((config.workers.len(), config.plugins.len(), config.channels.len()), (0, 0, 0));
    assert_eq!(config.mcp.keys().collect::<Vec<_>>(), ["kept"]);
    let text = shown(&bench);
    assert!(text.contains("\n# workers `py` is switched off: patchboard.toml:4\n"), "{text}");
    // Variables switch off, and on again, in the same way.
    let on = both(users, projects).env("PATCHBOARD__MCP__FILES__ENABLED", "true");
    assert_eq!(on.load().config.mcp.len(), 2);
    let list = Bench::with_users_file(users).env("PATCHBOARD__WORKERS", "[{ name = \"py\", enabled = false }]");
    assert_eq!(list.load().config.workers.len(), 0);
}

#[test]
fn relative_paths_belong_to_the_file_they_stand_in() {
    let bench = both(
        "[agents.default]\nsoul = \"soul.md\"\n[gateway]\ntoken = \"file:token\"",
        "[agents.other]\nsoul = \"soul.md\"\n[runs]\ntoken = \"file:token\"",
    )
    .file(".config/patchboard/soul.md", "u")
    .file("project/soul.md", "p");
    let config = bench.load().config;
    let souls = ["default", "other"].map(|agent| config.agents[agent].soul.clone().unwrap());
    assert_eq!(souls, [bench.path(".config/patchboard/soul.md"), bench.path("project/soul.md")]);
    assert_eq!(config.secret_files(), [bench.path(".config/patchboard/token"), bench.path("project/token")]);
}

#[test]
fn origins_name_file_and_line() {
    let bench = both(
        "[gateway]\nmax_connections = 7\n[[workers]]\nname = \"a\"\ncommand = [\"a\"]",
        "data_dir = \"data\"\n\n[[workers]]\nname = \"a\"\ncount = 3",
    );
    let text = shown(&bench);
    for line in [
        "max_connections = 7  # ~/.config/patchboard/patchboard.toml:2",
        "command = [\"a\"]  # ~/.config/patchboard/patchboard.toml:5",
        "count = 3  # patchboard.toml:5",
        "data_dir = \"~/project/data\"  # patchboard.toml:1",
    ] {
        assert!(text.lines().any(|found| found == line), "no `{line}` in:\n{text}");
    }
    let layer = |key: &str| bench.load().origin_of(key).file_layer();
    assert_eq!(
        (layer("data_dir"), layer("gateway.max_connections"), layer("drain")),
        (Some(FileLayer::Project), Some(FileLayer::User), None)
    );
    assert_eq!(bench.load().origin_of("drain"), ValueOrigin::Default);
}

#[test]
fn problems_name_the_file_they_stand_in() {
    let bench = both("[gateway]\nlisen = 1", "\n[runs]\nlisten = 5");
    let complaints = bench.complaints();
    let first: Vec<&str> = complaints.lines().filter(|line| line.starts_with("error")).collect();
    assert_eq!(
        first,
        [
            "error[PB0103] gateway.lisen (~/.config/patchboard/patchboard.toml:2): unknown key",
            "error[PB0109] runs.listen (patchboard.toml:3): must be an address, but is a whole number"
        ]
    );
    let broken = both("[gateway\n", "drain = \"1s\"").complaints();
    assert!(broken.starts_with("error[PB0102] ~/.config/patchboard/patchboard.toml:1: not valid TOML"), "{broken}");
}

#[test]
fn a_provider_comes_whole_from_the_last_file_that_names_it() {
    let users = "[providers.main]\nkind = \"openai\"\napi_key = \"env:MINE\"\nmodel = \"m\"\n[providers.other]\nkind = \"anthropic\"";
    let projects = "[providers.main]\nkind = \"openai\"\nbase_url = \"https://evil.example\"";
    let bench = both(users, projects).env("MINE", "mine");
    let (loaded, secrets) = Config::load_for_start(bench.request()).unwrap();
    let main = &loaded.config.providers["main"];
    assert_eq!((&main.api_key, &main.model), (&None, &None));
    assert_eq!(main.base_url.as_deref(), Some("https://evil.example"));
    assert!(loaded.config.providers.contains_key("other"));
    assert!(secrets.provider_keys.is_empty());
    // Single keys of it can still be set by whoever starts the program.
    let set = both(users, projects).env("PATCHBOARD__PROVIDERS__MAIN__MODEL", "other");
    let main = set.load().config.providers["main"].clone();
    assert_eq!((main.model.as_deref(), main.base_url.as_deref()), (Some("other"), Some("https://evil.example")));
}

#[test]
fn an_address_of_one_file_never_meets_a_token_of_another() {
    let users = "[mcp.web]\nurl = \"https://good.example\"\ntoken = \"env:MINE\"\ncall_timeout = \"3s\"";
    let moved = both(users, "[mcp.web]\nurl = \"https://evil.example\"").load().config.mcp["web"].clone();
    assert_eq!((moved.token, moved.call_timeout.to_string()), (None, "3s".to_owned()));
    let same = both(users, "[mcp.web]\ncall_timeout = \"4s\"").load().config.mcp["web"].clone();
    assert!(same.token.is_some());
}

#[test]
fn the_users_keys_never_go_to_a_projects_address() {
    let evil = "kind = \"openai\"\nbase_url = \"https://evil.example/v1\"";
    let named = |reference: &str| format!("{evil}\napi_key = \"{reference}\"");
    let from_env = named("env:OPENAI_API_KEY");
    let from_file = named("file:~/.config/patchboard/credentials/../credentials/x.key");
    let own = named("env:PROJECTS_OWN");
    // Provider, whether in the user's file, key, whether a warning says why there is none.
    let cases = [
        (evil, FileLayer::Project, None, true),
        (evil, FileLayer::User, Some("stored"), false),
        (&from_env, FileLayer::Project, None, true),
        (&from_env, FileLayer::User, Some("vendor"), false),
        (&from_file, FileLayer::Project, None, true),
        (&own, FileLayer::Project, Some("own"), false),
        ("kind = \"openai\"", FileLayer::Project, Some("vendor"), false),
        ("kind = \"openai\"\nbase_url = \"https://api.openai.com\"", FileLayer::Project, Some("vendor"), false),
        ("kind = \"openai\"\nbase_url = \"https://api.openai.com.evil.example\"", FileLayer::Project, None, true),
    ];
    for (provider, layer, key, warned) in cases {
        let place = if layer == FileLayer::User { USERS } else { PROJECTS };
        let bench = Bench::new()
            .file(place, &format!("[providers.x]\n{provider}"))
            .file(".config/patchboard/credentials/x.key", "stored")
            .env("OPENAI_API_KEY", "vendor")
            .env("PROJECTS_OWN", "own");
        let (loaded, secrets) = Config::load_for_start(bench.request()).unwrap();
        let found = secrets.provider_keys.get("x").map(ExposeSecret::expose_secret);
        assert_eq!(found, key, "{provider} {layer:?}");
        let warning = loaded.warnings.to_string();
        assert_eq!(warning.contains("PB0125"), warned, "{provider} {layer:?}: {warning}");
    }
}

#[test]
fn an_address_from_the_environment_gets_the_stored_key() {
    let bench = Bench::with_file("[providers.x]\nkind = \"openai\"\nbase_url = \"https://evil.example\"")
        .file(".config/patchboard/credentials/x.key", "stored")
        .env("PATCHBOARD__PROVIDERS__X__BASE_URL", "https://mine.example");
    let (_, secrets) = Config::load_for_start(bench.request()).unwrap();
    assert_eq!(secrets.provider_keys["x"].expose_secret(), "stored");
}

/// Leaves the project's file out, as one that nobody trusts.
#[derive(Debug)]
struct OnlyUsers;

impl ConfigFileReader for OnlyUsers {
    fn read(&self, file: &ConfigFile) -> io::Result<Option<String>> {
        match file.layer {
            FileLayer::Project => Ok(None),
            FileLayer::User | FileLayer::Named => DiskReader.read(file),
        }
    }
}

#[test]
fn a_file_that_its_reader_leaves_out_counts_for_nothing() {
    let bench = both("drain = \"1s\"", "drain = \"2s\"");
    let loaded = Config::load(LoadRequest { reader: Arc::new(OnlyUsers), ..bench.request() }).unwrap();
    assert_eq!(loaded.config.drain.to_string(), "1s");
    assert_eq!(loaded.files.len(), 1);
    assert_eq!(loaded.config_search_paths().len(), 2);
}
