//! What `config show` prints.

use super::bench::Bench;
use crate::show::{ShowOrigin, show};

const FILE: &str = r#"
drain = "90s"
[gateway]
token = "env:TOKEN"
[tools.approval]
"*" = "ask"
[[plugins]]
name = "a"
path = "a.wasm"
[[plugins]]
name = "b"
path = "b.wasm"
grants = ["store:x"]
[[workers]]
name = "py"
command = ["python3", "-m", "w"]
env = { LEVEL = "hunter2", KEY = "env:TOKEN" }
"#;

fn bench() -> Bench {
    Bench::with_file(FILE)
        .env("TOKEN", "hunter2")
        .env("PATCHBOARD__RUNS__LISTEN", ":0")
        .flag("--hub", "hub.listen", "off")
        .file("project/a.wasm", "w")
        .file("project/b.wasm", "w")
}

#[test]
fn says_where_values_come_from() {
    let bench = bench();
    let text = bench.tidy(&show(&bench.load(), ShowOrigin::Yes));
    let has = |line: &str| assert!(text.lines().any(|found| found == line), "no `{line}` in:\n{text}");
    has("data_dir = \"~/.local/share/patchboard\"  # default");
    has("drain = \"1m30s\"  # patchboard.toml:2");
    has("token = \"env:TOKEN\"  # patchboard.toml:4");
    has("listen = \"127.0.0.1:0\"  # env PATCHBOARD__RUNS__LISTEN");
    has("listen = \"off\"  # --hub");
    has("listen = \"127.0.0.1:50051\"  # default");
    has("working_folder = \"~/project\"  # default");
    has("\"*\" = \"ask\"  # patchboard.toml:6");
    has("[[plugins]]");
    has("grants = [\"store:x\"]  # patchboard.toml:13");
    has("[workers.env]");
    has("LEVEL = \"(set)\"  # patchboard.toml:17");
    has("KEY = \"env:TOKEN\"  # patchboard.toml:17");
    has("[agents.default]");
}

#[test]
fn never_prints_secrets() {
    let bench = bench();
    let loaded = bench.load();
    for origin in [ShowOrigin::Yes, ShowOrigin::No] {
        assert!(!show(&loaded, origin).contains("hunter2"));
    }
}

#[test]
fn can_be_loaded_again() {
    let bench = bench();
    let loaded = bench.load();
    let again = Bench::with_file(&show(&loaded, ShowOrigin::No)).env("TOKEN", "t");
    let mut config = again.load().config;
    config.workers[0].env.insert("LEVEL".to_owned(), "hunter2".to_owned());
    assert_eq!(config, loaded.config);
}
