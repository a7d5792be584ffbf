//! Providers and the models that memory uses.

use super::{check_name, unknown_reference, warn_unencrypted_key};
use crate::{
    Config,
    agent_lookup::OFFLINE_PROVIDER,
    glob,
    key_path::KeyPath,
    problem::{ConfigProblem, ProblemCode},
    section::{ProviderKind, ProviderModelConfig},
};

pub(crate) fn validate(config: &Config, problems: &mut Vec<ConfigProblem>) {
    for (name, provider) in &config.providers {
        let path = KeyPath::dotted("providers").key(name);
        check_name(name, path.clone(), problems);
        if let (Some(root), Some(_)) = (&provider.base_url, &provider.api_key) {
            warn_unencrypted_key(root, path.key("base_url"), problems);
        }
    }
    for pattern in config.prices.keys() {
        if let Some(complaint) = glob::invalid_reason(pattern) {
            let path = KeyPath::dotted("prices").key(pattern);
            problems.push(ConfigProblem::error(ProblemCode::BadPattern, path, complaint));
        }
    }
    if let Some(choice) = &config.memory.embedding {
        check_embedding(choice, config, problems);
    }
}

fn check_embedding(choice: &ProviderModelConfig, config: &Config, problems: &mut Vec<ConfigProblem>) {
    let path = KeyPath::dotted("memory.embedding.provider");
    check_provider(&choice.provider, path.clone(), config, problems);
    let kind = config.providers.get(&choice.provider).map(|it| it.kind);
    if kind == Some(ProviderKind::Anthropic) {
        problems.push(
            ConfigProblem::error(
                ProblemCode::Conflict,
                path,
                format!("`{}` is of kind anthropic, which has no embeddings", choice.provider),
            )
            .with_hint("name a provider of kind openai, or leave embedding out"),
        );
    }
}

/// Reports a provider name that is not configured.
pub(crate) fn check_provider(name: &str, path: KeyPath, config: &Config, problems: &mut Vec<ConfigProblem>) {
    if name != OFFLINE_PROVIDER && !config.providers.contains_key(name) {
        let known = config.providers.keys().map(String::as_str);
        problems.push(unknown_reference("provider", name, known.collect::<Vec<_>>(), path));
    }
}
