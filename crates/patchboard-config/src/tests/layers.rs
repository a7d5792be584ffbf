//! Which layer wins, where the file is found, and what paths mean.

use super::bench::Bench;
use crate::{files::FileLayer, problem::ProblemCode, types::ListenAddress};

#[test]
fn nothing_at_all_is_a_configuration() {
    let bench = Bench::new();
    assert_eq!(bench.complaints(), "");
    let loaded = bench.load();
    assert_eq!(loaded.files, []);
    assert_eq!(loaded.config.data_dir, bench.path(".local/share/patchboard"));
    assert_eq!(loaded.config.storage.path, bench.path(".local/share/patchboard/patchboard.db"));
    assert_eq!(loaded.config.runs.working_folder, bench.path("project"));
    assert_eq!(loaded.config.runs.allowed_roots, [bench.path("project")]);
    assert_eq!(loaded.config.agents.keys().collect::<Vec<_>>(), ["default"]);
}

#[test]
fn later_layers_win() {
    let bench = Bench::with_file("[gateway]\nlisten = \":1\"\n[runs]\nlisten = \":1001\"\n[hub]\nlisten = \":1002\"")
        .env("PATCHBOARD__RUNS__LISTEN", ":2001")
        .env("PATCHBOARD__HUB__LISTEN", ":2002")
        .flag("--hub", "hub.listen", ":3002");
    let config = bench.load().config;
    let listens = [config.gateway.listen, config.runs.listen, config.hub.listen, config.bridge.listen];
    assert_eq!(listens, [1, 2001, 3002, 50051].map(ListenAddress::loopback));
}

#[test]
fn the_last_flag_wins() {
    let bench = Bench::new().flag("--gateway", "gateway.listen", ":1").flag("--gateway", "gateway.listen", "off");
    assert_eq!(bench.load().config.gateway.listen, ListenAddress::Off);
}

#[test]
fn files_are_found_in_order() {
    let named = |listen: &str| format!("[gateway]\nlisten = \"{listen}\"");
    let users = Bench::new().file(".config/patchboard/patchboard.toml", &named(":1"));
    assert_eq!(users.load().config.gateway.listen, ListenAddress::loopback(1));

    let xdg = Bench::new().file("xdg/patchboard/patchboard.toml", &named(":2"));
    let folder = xdg.path("xdg").display().to_string();
    let xdg = xdg.env("XDG_CONFIG_HOME", &folder);
    assert_eq!(xdg.load().config.gateway.listen, ListenAddress::loopback(2));

    let here = xdg.file("project/patchboard.toml", &named(":3"));
    assert_eq!(here.load().config.gateway.listen, ListenAddress::loopback(3));

    let chosen = here.file("project/other.toml", &named(":4")).config("other.toml");
    assert_eq!(chosen.load().config.gateway.listen, ListenAddress::loopback(4));
    let files: Vec<_> = chosen.load().files.into_iter().map(|file| (file.layer, file.path)).collect();
    assert_eq!(files, [(FileLayer::Named, chosen.path("project/other.toml"))]);
}

#[test]
fn a_named_file_must_exist() {
    let bench = Bench::with_file("").config("missing.toml");
    assert_eq!(
        bench.complaints(),
        "error[PB0101] missing.toml: no such file\n  hint: `patchboard config sample > FILE` makes one with every key"
    );
}

#[test]
fn unreadable_files() {
    assert_eq!(Bench::new().config(".").complaints(), "error[PB0101] .: a folder");
    let large = Bench::with_file(&"#".repeat(1024 * 1024 + 1));
    assert_eq!(large.complaints(), "error[PB0101] patchboard.toml: larger than 1 MiB");
    let binary = Bench::new();
    std::fs::write(binary.path("project/patchboard.toml"), [0xff, 0xfe]).unwrap();
    assert_eq!(binary.complaints(), "error[PB0101] patchboard.toml: not UTF-8 text");
}

#[test]
fn environment_values() {
    let bench = Bench::with_file("[agents.My-Agent]\nmax_tokens = 7\n[providers.second-one]\nkind = \"openai\"")
        .env("PATCHBOARD__GATEWAY__TOKEN", "env:TOKEN")
        .env("TOKEN", "t")
        .env("patchboard__gateway__max_connections", "5")
        .env("PATCHBOARD__Gateway__Allowed_Origins", "[\"https://a.example\", \"https://b.example\"]")
        .env("PATCHBOARD__GATEWAY__INSECURE", "true")
        .env("PATCHBOARD__DRAIN", "\"2s\"")
        .env("PATCHBOARD__AGENTS__MY_AGENT__MODEL", "4")
        .env("PATCHBOARD__AGENTS__NEW__TEMPERATURE", "1")
        .env("PATCHBOARD__PROVIDERS__SECOND_ONE__MODEL", "2024-01-01")
        .env("PATCHBOARD__TOOLS__APPROVAL", "{ \"*\" = \"ask\" }")
        .env("PATCHBOARD__TOOLS__APPROVAL__BASH", "deny")
        .env("PATCHBOARD__BINDINGS", "[{ agent = \"new\", channel = \"web\" }]")
        .env("PATCHBOARD__STORAGE__RETENTION__FINISHED_RUNS", "2d")
        .env("PATCHBOARD_SOMETHING", "else");
    assert_eq!(bench.complaints(), "");
    let config = bench.load().config;
    assert_eq!(config.gateway.token.unwrap().to_string(), "env:TOKEN");
    assert_eq!(config.gateway.max_connections, 5);
    assert_eq!(config.gateway.allowed_origins, ["https://a.example", "https://b.example"]);
    assert!(config.gateway.insecure);
    assert_eq!(config.drain.to_string(), "2s");
    assert_eq!(config.agents["My-Agent"].model.as_deref(), Some("4"));
    assert_eq!(config.agents["My-Agent"].max_tokens, 7);
    assert_eq!(config.agents["new"].temperature, Some(1.0));
    assert_eq!(config.providers["second-one"].model.as_deref(), Some("2024-01-01"));
    let approval: Vec<(&str, String)> =
        config.tools.approval.iter().map(|(glob, approval)| (glob.as_str(), format!("{approval:?}"))).collect();
    assert_eq!(approval, [("*", "Ask".to_owned()), ("bash", "Deny".to_owned())]);
    assert_eq!(config.bindings[0].agent, "new");
    assert_eq!(config.storage.retention.finished_runs.to_string(), "2d");
}

#[test]
fn a_line_break_in_a_variable_sets_nothing_else() {
    let bench = Bench::new().env("PATCHBOARD__GATEWAY__MAX_CONNECTIONS", "5\nother = 1");
    assert_eq!(
        bench.complaints(),
        "error[PB0104] gateway.max_connections (env PATCHBOARD__GATEWAY__MAX_CONNECTIONS): must be a whole number, but is text"
    );
}

#[test]
fn relative_paths_start_where_they_are_written() {
    let bench = Bench::new()
        .file(
            "etc/board.toml",
            "data_dir = \"state\"\n[agents.default]\nsoul = \"./souls/a.md\"\n[agents.b]\nsoul = \"~/b.md\"",
        )
        .file("etc/souls/a.md", "a")
        .file("b.md", "b")
        .file("project/c.md", "c")
        .folder("project/work")
        .env("PATCHBOARD__AGENTS__C__SOUL", "c.md")
        .flag("--working-folder", "runs.working_folder", "work")
        .config("../etc/board.toml");
    assert_eq!(bench.complaints(), "");
    let config = bench.load().config;
    let soul = |agent: &str| config.agents[agent].soul.clone().unwrap();
    assert_eq!(config.data_dir, bench.path("project/../etc/state"));
    assert_eq!(soul("default"), bench.path("project/../etc/souls/a.md"));
    assert_eq!(soul("b"), bench.path("b.md"));
    assert_eq!(soul("c"), bench.path("project/c.md"));
    assert_eq!(config.runs.working_folder, bench.path("project/work"));
    // Left out, the roots are the folder the server is started in.
    assert_eq!(config.runs.allowed_roots, [bench.path("project")]);
}

#[test]
fn some_paths_start_in_the_data_folder() {
    let text = "data_dir = \"/srv/data\"\n[storage]\npath = \"db/main.db\"\n[bridge]\nunix_socket = \"bridge.sock\"";
    let config = Bench::with_file(text).load().config;
    assert_eq!(config.storage.path.to_str(), Some("/srv/data/db/main.db"));
    assert_eq!(config.bridge.unix_socket.unwrap().to_str(), Some("/srv/data/bridge.sock"));
    let absolute = Bench::with_file("[storage]\npath = \"/var/x.db\"").load().config;
    assert_eq!(absolute.storage.path.to_str(), Some("/var/x.db"));
}

#[test]
fn workers_run_beside_the_file_that_names_them() {
    let bench = Bench::new()
        .file("etc/board.toml", "[[workers]]\nname = \"py\"\ncommand = [\"python3\"]")
        .config("../etc/board.toml");
    assert_eq!(bench.load().config.workers[0].working_folder, Some(bench.path("project/../etc")));
}

#[test]
fn without_a_home() {
    let nowhere = Bench::new().without_home();
    assert_eq!(
        nowhere.complaints(),
        "error[PB0120] data_dir: has no default, as neither HOME nor XDG_DATA_HOME is set\n  hint: set data_dir, or use --data-dir"
    );
    let named = Bench::with_file("data_dir = \"data\"").without_home();
    assert_eq!(named.complaints(), "");
    let tilde = Bench::with_file("data_dir = \"~/data\"").without_home();
    let problems = tilde.problems();
    let codes: Vec<ProblemCode> = problems.iter().map(|problem| problem.code).collect();
    assert_eq!(codes, [ProblemCode::MissingFile, ProblemCode::MissingFile], "{problems}");
    assert_eq!(
        Bench::with_file("data_dir = \"~other/data\"").complaints().lines().next().unwrap(),
        "error[PB0120] data_dir (patchboard.toml:1): `~other/data`: only `~/` is understood, not `~user`"
    );
}

#[test]
fn data_home_is_honoured() {
    let bench = Bench::new().env("XDG_DATA_HOME", "/srv/share");
    assert_eq!(bench.load().config.data_dir.to_str(), Some("/srv/share/patchboard"));
    let relative = Bench::new().env("XDG_DATA_HOME", "share");
    assert_eq!(relative.load().config.data_dir, relative.path(".local/share/patchboard"));
}
