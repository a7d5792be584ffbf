use patchboard_core::hub::routing::{HubRules, RoutingRule};
use patchboard_core::run_spec::StrategyKind;
use patchboard_core::run_spec::reasoning::{GotOptions, ReasoningOptions, SearchMethod, TotOptions};

use super::{
    AgentConfig, BridgeConfig, ChannelConfig, LogConfig, ProviderConfig, ProviderKind, WorkerConfig,
    hub::PairingPolicy,
    log::{LogFormat, LogLevel},
    tools::ToolApproval,
    workers::WorkerLogLevel,
};
use crate::{Config, Environment};

/// The values other programs rely on.
#[test]
fn defaults_of_the_contract() {
    let text = r#"
        drain = "10s"
        [gateway]
        listen = "127.0.0.1:7200"
        allowed_origins = []
        orphan_grace = "60s"
        [runs]
        listen = "127.0.0.1:8080"
        strict_clients = false
        close_on_error = false
        stall_timeout = "30s"
        [hub]
        listen = "127.0.0.1:9473"
        response_timeout = "30s"
        ping_interval = "30s"
        pong_timeout = "10s"
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
        [memory]
        episodic_window = 5
        semantic = true
        context_tokens = 5000
        [storage.retention]
        finished_runs = "30d"
        fold_deltas = "24h"
        [wasm]
        watch = true
        [limits]
        plugin_memory = "64MiB"
        plugin_time = "30s"
        plugin_fuel = 10000000000
        plugin_output = "1MiB"
        plugin_calls = 32
        message = "16MiB"
        bridge_message = "100MiB"
        approval_timeout = "15m"
        session_queue = 8
        [log]
        level = "info"
        format = "auto"
    "#;
    assert_eq!(toml::from_str::<Config>(text).unwrap(), Config::default());
    assert_eq!(Config::default().hub.pairing, PairingPolicy::Open);
    assert_eq!(Config::default().log, LogConfig { level: LogLevel::Info, format: LogFormat::Auto, filter: None });
    assert_eq!(AgentConfig::default().max_tokens, 4096);
}

#[test]
fn default_rate_limit_lets_a_burst_of_200_pass() {
    assert!(Config::default().gateway.rate_limit.burst >= 200);
}

#[test]
fn searching_strategies_get_more_model_calls() {
    let agent = AgentConfig::default();
    let calls = StrategyKind::ALL.map(|kind| (kind.name(), agent.reasoning().model_calls(kind)));
    assert_eq!(calls, [("react", 10), ("dup", 10), ("tot", 100), ("got", 100)]);
    let fixed = AgentConfig { max_model_calls: Some(3), ..AgentConfig::default() };
    assert!(StrategyKind::ALL.iter().all(|kind| fixed.reasoning().model_calls(*kind) == 3));
}

#[test]
fn reasoning_of_the_defaults_is_that_of_the_core() {
    assert_eq!(AgentConfig::default().reasoning(), ReasoningOptions::default());
}

#[test]
fn reasoning_as_configured() {
    let text = r#"
        strategy = "got"
        description = "Plans."
        max_turns = 4
        [tot]
        breadth = 5
        depth = 10
        search = "depth-first"
        beam = 2
        threshold = 0.25
        [got]
        max_tasks = 64
        parallel = 1
        adaptive = true
    "#;
    let agent: AgentConfig = toml::from_str(text).unwrap();
    assert_eq!((agent.strategy.kind(), agent.description.as_deref()), (StrategyKind::Got, Some("Plans.")));
    let wanted = ReasoningOptions {
        max_model_calls: None,
        max_turns: Some(4),
        tot: TotOptions { breadth: 5, depth: 10, search: SearchMethod::DepthFirst, beam: 2, threshold: 0.25 },
        got: GotOptions { max_tasks: 64, parallel: 1, adaptive: true, ..GotOptions::default() },
        ..ReasoningOptions::default()
    };
    assert_eq!(agent.reasoning(), wanted);
}

#[test]
fn context_windows() {
    let agent = AgentConfig::default();
    let cases = [
        ("claude-sonnet-4-5-20250929", 200_000),
        ("gpt-4o-mini", 128_000),
        ("gpt-4-turbo", 8_192),
        ("llama3.2", 16_384),
    ];
    for (model, window) in cases {
        assert_eq!(agent.context_window_for(model), window, "{model}");
    }
    let fixed = AgentConfig { context_window: Some(2048), ..AgentConfig::default() };
    assert_eq!(fixed.context_window_for("claude"), 2048);
}

#[test]
fn aliases_and_rules_reach_the_core() {
    let text = r#"
        aliases = { nb = "notebook" }
        rules = [{ when = ["play *", "put on *"], app = "music" }]
    "#;
    let hub: super::HubConfig = toml::from_str(text).unwrap();
    let wanted = HubRules {
        aliases: vec![("nb".into(), "notebook".into())],
        rules: vec![RoutingRule::new(["play *", "put on *"], "music")],
    };
    assert_eq!(hub.user_rules(), wanted);
}

#[test]
fn stricter_approval_is_larger() {
    assert!(ToolApproval::Allow < ToolApproval::Ask && ToolApproval::Ask < ToolApproval::Deny);
}

#[test]
fn api_roots() {
    let set: Environment =
        [("OPENAI_BASE_URL", "http://proxy/v1/"), ("ANTHROPIC_BASE_URL", "http://other")].into_iter().collect();
    let unset = Environment::default();
    let openai = ProviderConfig::of_kind(ProviderKind::Openai);
    let anthropic = ProviderConfig::of_kind(ProviderKind::Anthropic);
    let own = ProviderConfig { base_url: Some("http://mine/v1/".to_owned()), ..openai.clone() };
    let cases = [
        (&openai, &unset, Some("https://api.openai.com/v1")),
        (&openai, &set, Some("http://proxy/v1")),
        (&anthropic, &unset, Some("https://api.anthropic.com")),
        (&anthropic, &set, Some("http://other")),
        (&own, &set, Some("http://mine/v1")),
        (&ProviderConfig::of_kind(ProviderKind::Offline), &set, None),
    ];
    for (provider, environment, root) in cases {
        assert_eq!(provider.api_root(environment).as_deref(), root);
    }
}

#[test]
fn log_directives() {
    let plain = LogConfig::default();
    let filtered = LogConfig { filter: Some("debug".to_owned()), ..LogConfig::default() };
    let unset = Environment::default();
    let set: Environment = [("RUST_LOG", "trace")].into_iter().collect();
    assert_eq!(plain.directives(&unset), "warn,rmcp=off,patchboard=info");
    assert_eq!(plain.directives(&set), "trace");
    assert_eq!(filtered.directives(&set), "debug");
}

#[test]
fn defaults_of_pools_and_of_the_bridge() {
    let text = r#"
        count = 1
        warm = false
        start_timeout = "30s"
        affinity = "hint"
        writable = []
        pin = true
        log_level = "error"
    "#;
    assert_eq!(toml::from_str::<WorkerConfig>(text).unwrap(), WorkerConfig::default());
    let text = r#"
        call_timeout = "298800ms"
        stream_timeout = "900000ms"
        expose = []
        allowed_hosts = []
        max_connections = 1000
        private_ports = 512
    "#;
    assert_eq!(toml::from_str::<BridgeConfig>(text).unwrap(), BridgeConfig::default());
}

#[test]
fn defaults_of_channels() {
    let text = r#"
        replay_window = "5m"
        rate_limit = { per_second = 5, burst = 50 }
        reply = "async"
        wait = "25s"
        max_waiting = 1000
    "#;
    let channel: ChannelConfig = toml::from_str(text).unwrap();
    assert_eq!(channel, ChannelConfig::default());
    assert_eq!(channel.adapter("telegram"), "telegram");
    let named = ChannelConfig { plugin: Some("json".to_owned()), ..channel };
    assert_eq!(named.adapter("telegram"), "json");
    // Half of a rate is completed from the defaults of channels, not from those of connections.
    let fast: ChannelConfig = toml::from_str("rate_limit = { per_second = 9 }").unwrap();
    assert_eq!((fast.rate_limit.per_second, fast.rate_limit.burst), (9, 50));
}

#[test]
fn levels_are_the_words_of_workers() {
    use WorkerLogLevel::{Debug, Error, Info, None, Warning};
    for level in [Debug, Info, Warning, Error, None] {
        let text = format!("log_level = \"{level}\"");
        assert_eq!(toml::from_str::<WorkerConfig>(&text).unwrap().log_level, level);
    }
}
