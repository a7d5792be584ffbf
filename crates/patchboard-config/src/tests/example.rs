//! The documented example as a whole, and what happens to files like it when
//! they are damaged.

use std::sync::Arc;

use proptest::prelude::*;

use super::{
    bench::{Bench, PEM},
    generated::uncommented,
};
use crate::{
    check::check,
    file_parser,
    files::{ConfigFile, FileLayer},
    path_rules::PathRules,
    section::{ProviderKind, agents::AgentStrategy, hub::PairingPolicy, tools::ToolApproval},
    shape,
    types::ListenAddress,
};

const EXAMPLE: &str = r#"
data_dir = "~/.local/share/patchboard"

[gateway]
listen = "127.0.0.1:7200"
token = "env:PATCHBOARD_TOKEN"
allowed_origins = []

[runs]
listen = "127.0.0.1:8080"
working_folder = "."
allowed_roots = ["."]
strict_clients = false
close_on_error = false
stall_timeout = "30s"

[hub]
listen = "127.0.0.1:9473"
response_timeout = "30s"
ping_interval = "30s"
pong_timeout = "10s"
agent = "router"
catch_all = "notebook"
policy = "balanced"
reroute_direct = false
pairing = "open"
expiry = "24h"

[bridge]
listen = "127.0.0.1:50051"
allow_pickle = false
session_ttl = "1h"
max_sessions = 10000
queue_timeout = "10s"
max_queue = 1000
unix_socket = "bridge.sock"
token = "env:PATCHBOARD_BRIDGE_TOKEN"
tls = { cert = "cert.pem", key = "key.pem", client_ca = "ca.pem" }

[providers.main]
kind = "openai"
base_url = "http://127.0.0.1:11434/v1"
api_key = "env:OPENAI_API_KEY"

[providers.second-provider-name]
kind = "offline"

[agents.default]
provider = "main"
fallback = ["second-provider-name"]
model = "llama3.2"
strategy = "react"
max_tokens = 4096
soul = "SOUL.md"
tools = ["*"]

[agents.router]

[[bindings]]
agent = "default"
channel = "telegram"

[budgets]
session = 10000
daily = 1000000
monthly = 20000000

[memory]
episodic_window = 5
semantic = true

[[plugins]]
name = "echo"
path = "plugins/echo.wasm"
grants = ["http:api.example.com", "store:notes"]

[[workers]]
name = "py"
command = ["python3", "grpc_server.py", "--adapter", "my.Adapter"]
count = 2

[mcp.files]
command = ["npx", "some-mcp-server"]

[tools.approval]
"bash" = "ask"
"*" = "allow"
"#;

#[test]
fn the_documented_example_is_understood() {
    let bench = Bench::with_file(EXAMPLE)
        .config("patchboard.toml")
        .env("PATCHBOARD_TOKEN", "t")
        .env("PATCHBOARD_BRIDGE_TOKEN", "t")
        .env("OPENAI_API_KEY", "k")
        .file("project/cert.pem", PEM)
        .file("project/key.pem", PEM)
        .file("project/ca.pem", PEM)
        .file("project/SOUL.md", "I am.")
        .file("project/plugins/echo.wasm", "w");
    assert_eq!(bench.complaints(), "");
    let config = bench.load().config;
    assert_eq!(config.data_dir, bench.path(".local/share/patchboard"));
    assert_eq!(config.gateway.listen, ListenAddress::loopback(7200));
    assert_eq!(config.hub.pairing, PairingPolicy::Open);
    assert_eq!(config.hub.agent.as_deref(), Some("router"));
    assert_eq!(config.bridge.tls.unwrap().client_ca, Some(bench.path("project/ca.pem")));
    assert_eq!(config.bridge.unix_socket, Some(bench.path(".local/share/patchboard/bridge.sock")));
    assert_eq!(config.providers["main"].kind, ProviderKind::Openai);
    let agent = &config.agents["default"];
    assert_eq!((agent.strategy, agent.max_tokens), (AgentStrategy::React, 4096));
    assert_eq!(agent.soul, Some(bench.path("project/SOUL.md")));
    assert_eq!(config.bindings[0].channel.as_deref(), Some("telegram"));
    assert_eq!(config.budgets.monthly, Some(20_000_000));
    assert_eq!(config.plugins[0].path, bench.path("project/plugins/echo.wasm"));
    assert_eq!(config.workers[0].count, 2);
    assert_eq!(config.mcp["files"].command, ["npx", "some-mcp-server"]);
    assert_eq!(config.tools.approval["bash"], ToolApproval::Ask);
}

fn rules() -> PathRules {
    PathRules { home: Some("/h/x".into()), cwd: "/srv".into() }
}

fn file() -> Arc<ConfigFile> {
    Arc::new(ConfigFile { layer: FileLayer::User, path: "/etc/x.toml".into(), shown: "x.toml".into() })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the check lets through, the types accept.
    #[test]
    fn damaged_files_are_reported_and_the_rest_is_read(
        line in 0usize..400,
        from in 0usize..40,
        instead in prop_oneof![
            Just("5".to_owned()),
            Just("\"\"".to_owned()),
            Just("[]".to_owned()),
            Just("{}".to_owned()),
            Just("-1.5e300".to_owned()),
            Just("1979-05-27".to_owned()),
            Just("[[1], {a = 2}]".to_owned()),
            "\\PC{0,12}",
        ],
    ) {
        let file = uncommented();
        let settings: Vec<&str> = file.lines().filter(|line| !line.starts_with('#')).collect();
        let damaged: Vec<String> = settings
            .iter()
            .enumerate()
            .map(|(number, text)| match text.split_once(" = ") {
                Some((key, _)) if number == line % settings.len() => format!("{key} = {instead}"),
                None if number == line % settings.len() => {
                    text.chars().take(from).chain(instead.chars()).collect()
                }
                _ => (*text).to_owned(),
            })
            .collect();
        if let Ok(mut tree) = file_parser::parse(&damaged.join("\n"), &self::file()) {
            let problems = check(&mut tree, shape::root(), &rules());
            let typed = tree.to_value().try_into::<crate::Config>();
            prop_assert!(typed.is_ok(), "{:?} after {problems:?}", typed.err());
        }
    }

    #[test]
    fn any_text_is_a_file_or_a_problem(text in "[\\[\\]{}=\"'.,#a-c0-9\\n -]{0,60}") {
        let outcome = file_parser::parse(&text, &file());
        if let Err(problems) = outcome {
            prop_assert!(!problems.is_empty());
        }
    }
}
