//! Which provider and model an agent uses, and what they cost.

use patchboard_core::model::TokenCount;

use super::bench::Bench;
use crate::Config;

fn config(text: &str) -> Config {
    Bench::with_file(text).load().config
}

fn routes(config: &Config, agent: &str) -> Vec<String> {
    let routes = config.model_routes(&config.agents[agent]);
    routes.into_iter().map(|route| format!("{} {}", route.provider, route.model)).collect()
}

#[test]
fn models_and_fallbacks() {
    let providers = r#"
        [providers.a]
        kind = "anthropic"
        [providers.b]
        kind = "anthropic"
        [providers.c]
        kind = "openai"
        [providers.d]
        kind = "openai"
        model = "llama3.2"
        [agents.default]
        provider = "a"
        fallback = ["b", "c", "d", "offline"]
        model = "claude-opus-4"
        [agents.plain]
        provider = "d"
        [agents.named]
        provider = "d"
        model = "qwen"
    "#;
    let config = config(providers);
    assert_eq!(
        routes(&config, "default"),
        // The same vendor runs the same model; others run their own.
        ["a claude-opus-4", "b claude-opus-4", "c gpt-4o", "d llama3.2", "offline offline"]
    );
    assert_eq!(routes(&config, "plain"), ["d llama3.2"]);
    assert_eq!(routes(&config, "named"), ["d qwen"]);
}

#[test]
fn agents_that_name_no_provider() {
    assert!(routes(&config(""), "default").is_empty());
    assert_eq!(routes(&config("[providers.x]\nkind = \"openai\""), "default"), ["x gpt-4o"]);
    let several = "[providers.a]\nkind = \"openai\"\n[providers.main]\nkind = \"anthropic\"";
    assert_eq!(routes(&config(several), "default"), ["main claude-sonnet-4-5-20250929"]);
    let both = format!("{several}\n[providers.default]\nkind = \"offline\"");
    assert_eq!(routes(&config(&both), "default"), ["default offline"]);
}

#[test]
fn prices() {
    let config = config(
        r#"
        [prices."gpt-4o*"]
        input = 1
        output = 2
        [prices."gpt-*"]
        input = 7
        output = 7
        [providers.local]
        kind = "openai"
        base_url = "http://127.0.0.1:11434/v1"
        model = "llama3.2"
        [providers.main]
        kind = "openai"
        [providers.own]
        kind = "openai"
        model = "house-model"
        price = { input = 0.5, output = 0.25 }
        [agents.default]
        provider = "main"
        fallback = ["local", "own"]
        [agents.mock]
        provider = "local"
        model = "claude-3-haiku"
    "#,
    );
    let table = config.price_table();
    let million = TokenCount { input: 1_000_000, output: 1_000_000 };
    let cost = |model: &str| table.cost_nanousd(model, million) as f64 / 1e9;
    let cases = [
        ("gpt-4o-mini", 3.0),
        ("gpt-4-turbo", 14.0),
        ("claude-3-5-sonnet", 18.0),
        ("claude-3-opus", 90.0),
        ("house-model", 0.75),
        // Local and unknown: free. Local but known: as known.
        ("llama3.2", 0.0),
        ("claude-3-haiku", 1.5),
        ("something-else", 18.0),
    ];
    for (model, dollars) in cases {
        assert!((cost(model) - dollars).abs() < 1e-9, "{model}: {}", cost(model));
    }
}
