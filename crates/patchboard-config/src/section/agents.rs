//! `[agents.NAME]`: provider, model, tools and limits of an agent.

use std::path::PathBuf;

use patchboard_core::run_spec::StrategyKind;
use patchboard_core::run_spec::reasoning::ReasoningOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BudgetsConfig, GotConfig, TotConfig};
use crate::types::TimeSpan;

/// An agent. `default` always exists and answers chats that no binding matches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AgentConfig {
    /// Purpose of the agent, in one sentence, for people who choose among agents.
    #[schemars(example = &"Reviews changes to the code.")]
    pub description: Option<String>,
    /// Provider whose model the agent uses. Left out, the only one configured, or the one named `default` or `main`.
    #[schemars(example = &"main")]
    pub provider: Option<String>,
    /// Providers tried in order when the first fails before its first token.
    #[schemars(example = ["second"])]
    pub fallback: Vec<String>,
    /// Model name; left out, the provider's.
    #[schemars(example = &"llama3.2")]
    pub model: Option<String>,
    /// Strategy for working on a task. A run of the default agent may request another one.
    pub strategy: AgentStrategy,
    /// Longest answer of one model call, in tokens.
    #[schemars(range(min = 1))]
    pub max_tokens: u32,
    /// Sampling temperature; left out, the provider's default.
    #[schemars(range(min = 0.0, max = 2.0), example = 0.7)]
    pub temperature: Option<f64>,
    /// Markdown file with the agent's character; part of every prompt and read again when it changes.
    #[schemars(example = &"SOUL.md", extend("x-kind" = "path"))]
    pub soul: Option<PathBuf>,
    /// Instructions that are part of every prompt, besides the soul.
    #[schemars(example = &"Answer briefly.")]
    pub system_prompt: Option<String>,
    /// Tools the agent may use, as glob patterns over the registry. Left out, all.
    #[schemars(example = ["*"], extend("x-kind" = "glob"))]
    pub tools: Option<Vec<String>>,
    /// The agent's own token limits, besides `[budgets]`.
    pub budget: BudgetsConfig,
    /// Context window of the model in tokens; left out, a guess by its name, 16384 for unknown models.
    #[schemars(range(min = 1024), example = 128000)]
    pub context_window: Option<u32>,
    /// Model calls of one run. Left out, 10 for react and dup, 100 for tot and got.
    #[schemars(range(min = 1, max = 1000), example = 10)]
    pub max_model_calls: Option<u32>,
    /// Rounds of tool calls in one run, or in one task of a graph. Left out, limited by the model calls only.
    #[schemars(range(min = 1, max = 1000), example = 10)]
    pub max_turns: Option<u32>,
    /// Tokens that all calls of one run may use together; left out, only budgets apply.
    #[schemars(range(min = 1), example = 200000)]
    pub max_run_tokens: Option<u64>,
    /// Time limit of one run.
    pub run_timeout: TimeSpan,
    /// Options of the tree search of the strategy `tot`.
    pub tot: TotConfig,
    /// Options of the task graph of the strategy `got`.
    pub got: GotConfig,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            description: None,
            provider: None,
            fallback: Vec::new(),
            model: None,
            strategy: AgentStrategy::React,
            max_tokens: 4096,
            temperature: None,
            soul: None,
            system_prompt: None,
            tools: None,
            budget: BudgetsConfig::default(),
            context_window: None,
            max_model_calls: None,
            max_turns: None,
            max_run_tokens: None,
            run_timeout: TimeSpan::from_secs(1800),
            tot: TotConfig::default(),
            got: GotConfig::default(),
        }
    }
}

impl AgentConfig {
    /// Limits and options of the strategies.
    pub fn reasoning(&self) -> ReasoningOptions {
        ReasoningOptions {
            max_model_calls: self.max_model_calls,
            max_turns: self.max_turns,
            tot: self.tot.options(),
            got: self.got.options(),
            ..ReasoningOptions::default()
        }
    }

    /// The context window of `model`, from the configuration or by its name.
    pub fn context_window_for(&self, model: &str) -> u32 {
        self.context_window.unwrap_or_else(|| default_context_window(model))
    }
}

/// The context window of a model, by its name.
pub fn default_context_window(model: &str) -> u32 {
    // A guess that is too small costs some of the run's context; one that is too large makes the run fail.
    const UNKNOWN: u32 = 16_384;
    const WINDOWS: [(&str, u32); 6] = [
        ("claude", 200_000),
        ("gpt-3.5", 16_384),
        ("gpt-4o", 128_000),
        ("gpt-4.1", 1_000_000),
        ("gpt-4", 8_192),
        ("gpt-5", 272_000),
    ];
    WINDOWS.iter().find(|(name, _)| model.contains(name)).map_or(UNKNOWN, |(_, window)| *window)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AgentStrategy {
    /// think, call tools, repeat
    #[default]
    React,
    /// understand the question first, then answer
    Dup,
    /// search a tree of thoughts
    Tot,
    /// plan a graph of tasks and join their results
    Got,
}

impl AgentStrategy {
    pub const fn kind(self) -> StrategyKind {
        match self {
            Self::React => StrategyKind::React,
            Self::Dup => StrategyKind::Dup,
            Self::Tot => StrategyKind::Tot,
            Self::Got => StrategyKind::Got,
        }
    }
}
