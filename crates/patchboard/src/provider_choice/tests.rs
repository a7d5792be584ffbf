//! Choosing a provider when none is configured.

use std::collections::BTreeMap;

use secrecy::{ExposeSecret, SecretString};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::test_home::Bench;

fn local(name: &'static str, port: u16, models: &[&str]) -> LocalServer {
    let models = models.iter().map(|model| (*model).to_owned()).collect();
    LocalServer { name, title: name, port, models }
}

fn choice(env: &[(&str, &str)], stored: &[(&str, &str)], local: &[LocalServer]) -> ProviderChoice {
    let env: Environment = env.iter().copied().collect();
    let stored: BTreeMap<String, SecretString> =
        stored.iter().map(|(name, key)| ((*name).to_owned(), SecretString::from(*key))).collect();
    choose_provider(&ProviderSources { env: &env, stored: &stored, local, installed: None })
}

#[test]
fn order_of_preference() {
    let anthropic = ("ANTHROPIC_API_KEY", "ka");
    let openai = ("OPENAI_API_KEY", "ko");
    let stored_anthropic = ("anthropic", "sa");
    let stored_openai = ("openai", "so");
    let ollama = local("ollama", 11434, &["llama3.2"]);
    let all_stored = [stored_openai, stored_anthropic];
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a [(&'a str, &'a str)], &'a [LocalServer], &'a str, Option<&'a str>);
    let cases: [Case<'_>; 8] = [
        (&[openai, anthropic], &all_stored, std::slice::from_ref(&ollama), "anthropic", Some("ka")),
        (&[openai], &all_stored, std::slice::from_ref(&ollama), "openai", Some("ko")),
        (&[("OPENAI_API_KEY", "  ")], &[stored_openai], &[], "openai", Some("so")),
        (&[], &all_stored, std::slice::from_ref(&ollama), "anthropic", Some("sa")),
        (&[], &[stored_openai], &[], "openai", Some("so")),
        (&[], &[("other", "x")], std::slice::from_ref(&ollama), "ollama", None),
        (&[("OPENAI_BASE_URL", "http://x")], &[], &[], "offline", None),
        (&[], &[], &[], "offline", None),
    ];
    for (env, stored, local, name, key) in cases {
        let choice = choice(env, stored, local);
        let found = (choice.name.as_str(), choice.key.as_ref().map(ExposeSecret::expose_secret));
        assert_eq!(found, (name, key), "{env:?} {stored:?}");
    }
}

#[test]
fn says_why() {
    let cases = [
        (
            choice(&[("ANTHROPIC_API_KEY", "k")], &[], &[]),
            "using Anthropic with model claude-sonnet-4-5-20250929: ANTHROPIC_API_KEY is set",
        ),
        (
            choice(&[("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", "http://10.0.0.1/v1/")], &[], &[]),
            "using OpenAI API at http://10.0.0.1/v1 with model gpt-4o: OPENAI_API_KEY is set",
        ),
        (choice(&[], &[("openai", "k")], &[]), "using OpenAI with model gpt-4o: its key is stored on this machine"),
        (
            choice(&[], &[], &[local("llama-cpp", 8081, &["tiny.gguf"])]),
            "using llama-cpp at http://127.0.0.1:8081/v1 with model tiny.gguf: no provider or key is configured, and it runs on this machine",
        ),
        (
            choice(&[], &[], &[]),
            "using the built-in offline provider: no provider or key is configured and no local model server answers; run `patchboard onboard` to choose one, or `patchboard serve --local-model` to fetch a small model",
        ),
    ];
    for (choice, why) in cases {
        assert_eq!(choice.reason, why);
    }
}

#[test]
fn servers_without_a_chat_model_are_passed_over() {
    let embeds = local("ollama", 11434, &["nomic-embed-text"]);
    let empty = local("ollama", 11434, &[]);
    let chats = local("llama-cpp", 8081, &["nomic-embed-text", "tiny"]);
    assert_eq!(choice(&[], &[], &[embeds.clone(), chats.clone()]).provider.model.as_deref(), Some("tiny"));
    assert_eq!(choice(&[], &[], &[empty.clone(), chats]).name, "llama-cpp");
    assert_eq!(choice(&[], &[], &[embeds, empty]).name, "offline");
}

#[test]
fn own_listeners_are_not_asked() {
    let ports = |config: &Config| candidates(config).iter().map(|it| it.port).collect::<Vec<_>>();
    assert_eq!(ports(&Config::default()), [11434, 8081]);
    let moved = Bench::with_file("[runs]\nlisten = \":0\"\n[hub]\nlisten = \":11434\"").load().config;
    assert_eq!(ports(&moved), [8081, 8080]);
    assert_eq!(candidates(&Config::default())[0], ServerCandidate::new("ollama", "Ollama", 11434));
}

#[test]
fn the_installed_model_comes_after_everything_but_the_offline_provider() {
    let installed = InstalledModel { name: "small", idle_timeout: TimeSpan::from_secs(600) };
    let chosen = |env: &[(&str, &str)], stored: &[(&str, &str)], local: &[LocalServer]| {
        let env: Environment = env.iter().copied().collect();
        let stored: BTreeMap<String, SecretString> =
            stored.iter().map(|(name, key)| ((*name).to_owned(), SecretString::from(*key))).collect();
        choose_provider(&ProviderSources { env: &env, stored: &stored, local, installed: Some(installed) })
    };
    assert_eq!(chosen(&[("OPENAI_API_KEY", "k")], &[], &[]).name, "openai");
    assert_eq!(chosen(&[], &[("anthropic", "k")], &[]).name, "anthropic");
    assert_eq!(chosen(&[], &[], &[local("ollama", 11434, &["llama3.2"])]).name, "ollama");
    assert_eq!(chosen(&[], &[], &[local("ollama", 11434, &["nomic-embed-text"])]).name, "local");
    let choice = chosen(&[], &[], &[]);
    assert_eq!((choice.name.as_str(), choice.provider.default_model()), ("local", "small"));
    assert_eq!(
        choice.reason,
        "using the local model small: no provider or key is configured, and it is installed here; it starts with the first call and stops after 10m without one"
    );
}

async fn found(loaded: &LoadedConfig) -> Option<ProviderChoice> {
    ProviderChoice::find(loaded, &CancellationToken::new()).await.unwrap()
}

#[tokio::test]
async fn a_model_that_must_be_used_must_be_installed() {
    let bench = Bench::with_file("[local_model]\nenabled = \"on\"").env("ANTHROPIC_API_KEY", "key");
    let (loaded, _) = Config::load_for_start(bench.request()).unwrap();
    let refused = ProviderChoice::find(&loaded, &CancellationToken::new()).await.unwrap_err();
    assert!(refused.to_string().starts_with("the local model is not installed in `"), "{refused}");
    assert!(refused.hint().unwrap().contains("`patchboard serve --local-model`"));
}

#[tokio::test]
async fn a_chosen_provider_is_used_like_a_configured_one() {
    let bench = Bench::new().env("ANTHROPIC_API_KEY", "key");
    let (mut loaded, mut secrets) = Config::load_for_start(bench.request()).unwrap();
    let choice = found(&loaded).await.unwrap();
    assert_eq!(choice.name, "anthropic");
    choice.add_to(&mut loaded.config, &mut secrets);
    let config = &loaded.config;
    let routes = config.model_routes(&config.agents["default"]);
    assert_eq!(routes.len(), 1);
    assert_eq!((routes[0].provider.as_str(), routes[0].model.as_str()), ("anthropic", "claude-sonnet-4-5-20250929"));
    assert_eq!(secrets.provider_keys["anthropic"].expose_secret(), "key");
}

#[tokio::test]
async fn stored_keys_are_found() {
    let bench = Bench::new().file(".config/patchboard/credentials/openai.key", "stored\n");
    let (loaded, _) = Config::load_for_start(bench.request()).unwrap();
    let choice = found(&loaded).await.unwrap();
    assert_eq!((choice.name.as_str(), choice.key.unwrap().expose_secret()), ("openai", "stored"));
}

#[tokio::test]
async fn a_configured_provider_is_left_alone() {
    let bench = Bench::with_file("[providers.x]\nkind = \"offline\"").env("ANTHROPIC_API_KEY", "key");
    let (loaded, _) = Config::load_for_start(bench.request()).unwrap();
    assert!(found(&loaded).await.is_none());
    assert_eq!(loaded.config.providers.keys().collect::<Vec<_>>(), ["x"]);
}
