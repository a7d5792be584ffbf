//! Agents, their bindings, and the hub's routing agent.

use patchboard_core::run_spec::StrategyKind;

use super::{check_name, duplicates, providers::check_provider, unknown_reference};
use crate::{
    Config,
    key_path::KeyPath,
    problem::{ConfigProblem, ProblemCode},
    section::AgentConfig,
};

pub(crate) fn validate(config: &Config, problems: &mut Vec<ConfigProblem>) {
    for (name, agent) in &config.agents {
        let path = KeyPath::dotted("agents").key(name);
        check_name(name, path.clone(), problems);
        if StrategyKind::from_name(name).is_some() {
            problems.push(
                ConfigProblem::error(
                    ProblemCode::UnusableName,
                    path.clone(),
                    format!("`{name}` is the name of a strategy"),
                )
                .with_hint(format!("choose another name and set strategy = \"{name}\"")),
            );
        }
        check_agent(agent, &path, config, problems);
    }
    check_bindings(config, problems);
    if let Some(agent) = &config.hub.agent {
        check_agent_reference(agent, KeyPath::dotted("hub.agent"), config, problems);
    }
}

fn check_agent(agent: &AgentConfig, path: &KeyPath, config: &Config, problems: &mut Vec<ConfigProblem>) {
    match &agent.provider {
        Some(provider) => check_provider(provider, path.key("provider"), config, problems),
        None if config.providers.len() > 1 && config.provider_name(agent).is_none() => {
            let names: Vec<&str> = config.providers.keys().map(String::as_str).collect();
            problems.push(
                ConfigProblem::error(
                    ProblemCode::MissingKey,
                    path.key("provider"),
                    "is required, as several providers are configured",
                )
                .with_hint(format!("choose one of: {}", names.join(", "))),
            );
        }
        None => {}
    }
    let first = config.provider_name(agent);
    for (index, fallback) in agent.fallback.iter().enumerate() {
        let at = path.key("fallback").index(index);
        check_provider(fallback, at.clone(), config, problems);
        let earlier = agent.fallback.iter().take(index).any(|it| it == fallback);
        if first == Some(fallback.as_str()) || earlier {
            problems.push(ConfigProblem::error(
                ProblemCode::Conflict,
                at,
                format!("`{fallback}` is already tried before"),
            ));
        }
    }
    if agent.context_window.is_some_and(|window| agent.max_tokens >= window) {
        problems.push(ConfigProblem::error(
            ProblemCode::Conflict,
            path.key("max_tokens"),
            format!("an answer of {} tokens leaves no room in the context window", agent.max_tokens),
        ));
    }
}

fn check_bindings(config: &Config, problems: &mut Vec<ConfigProblem>) {
    let bindings = KeyPath::dotted("bindings");
    let mut keys = Vec::new();
    for (index, binding) in config.bindings.iter().enumerate() {
        let path = bindings.index(index);
        check_agent_reference(&binding.agent, path.key("agent"), config, problems);
        let fields = binding.fields();
        if fields.iter().all(|(_, value)| value.is_none()) {
            let names = fields.map(|(name, _)| name);
            problems.push(
                ConfigProblem::error(ProblemCode::UselessBinding, path, "says nothing to match")
                    .with_hint(format!("set at least one of: {}", names.join(", "))),
            );
            // Not compared with others, because it has already been reported.
            keys.push(format!("{index}"));
        } else {
            keys.push(format!("{fields:?}"));
        }
    }
    for (index, first) in duplicates(keys.iter().map(String::as_str)) {
        problems.push(
            ConfigProblem::error(
                ProblemCode::UselessBinding,
                bindings.index(index),
                format!("matches the same as {}, which comes first", bindings.index(first)),
            )
            .with_hint("remove one of the two"),
        );
    }
}

fn check_agent_reference(name: &str, path: KeyPath, config: &Config, problems: &mut Vec<ConfigProblem>) {
    if !config.agents.contains_key(name) {
        let known = config.agents.keys().map(String::as_str);
        problems.push(unknown_reference("agent", name, known.collect::<Vec<_>>(), path));
    }
}
