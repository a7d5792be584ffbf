//! Agents and the bindings that select one for a message.

use crate::conversation::ConversationOrigin;
use crate::run_spec::{AgentSource, StrategyKind};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::agent::catalogue::ModelCatalogue;
use crate::budget::BudgetLimits;
use crate::caller::Surface;
use crate::error::BoardError;
use crate::port::ModelProvider;
use crate::run_spec::reasoning::ReasoningOptions;
use crate::text::did_you_mean;
use crate::tool::Glob;

pub mod catalogue;

/// One configured agent.
#[derive(Debug, Clone)]
pub struct AgentSpec {
    pub name: Arc<str>,
    /// Includes retries and fallbacks.
    pub provider: Arc<dyn ModelProvider>,
    /// Empty selects the provider's default.
    pub model: Arc<str>,
    pub strategy: StrategyKind,
    /// Limits of the strategies.
    pub reasoning: ReasoningOptions,
    pub source: AgentSource,
    /// One sentence for users who choose among agents.
    pub description: Option<Arc<str>>,
    pub max_tokens: u32,
    pub temperature: Option<f32>,
    /// Precedes the soul in the system text.
    pub system_prompt: Option<Arc<str>>,
    /// `None` allows every tool of the registry.
    pub tools: Option<Vec<Glob>>,
    pub budget: BudgetLimits,
    /// Tokens one run may use in all its model calls together.
    pub max_run_tokens: Option<u64>,
    /// A run that takes longer is stopped and fails.
    pub run_timeout: Duration,
    /// The model's context window in tokens; older tool results of a run are dropped when it is full.
    pub context_window: u32,
}

impl AgentSpec {
    /// The tools the agent may use for requests of this surface; `None` means all. Anyone may be behind a webhook, so
    /// there only tools listed by their full name are allowed.
    pub fn tools_for(&self, surface: Surface) -> Option<Cow<'_, [Glob]>> {
        let listed = self.tools.as_deref();
        match surface {
            Surface::Webhook => {
                let names = listed.unwrap_or_default().iter().filter(|glob| glob.is_name());
                Some(names.cloned().collect())
            }
            Surface::Gateway | Surface::Runs | Surface::Hub | Surface::Bridge | Surface::Mcp | Surface::Cli => {
                listed.map(Cow::Borrowed)
            }
        }
    }
}

/// Routes matching messages to an agent. Every field that is set must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentBinding {
    pub agent: Arc<str>,
    pub channel: Option<String>,
    pub account: Option<String>,
    pub peer: Option<String>,
    pub guild: Option<String>,
    pub team: Option<String>,
}

/// Specificity of a binding; later variants win.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum BindingTier {
    CatchAll,
    Channel,
    Account,
    Team,
    Guild,
    Peer,
}

impl AgentBinding {
    fn specificity(&self) -> BindingTier {
        match self {
            Self { peer: Some(_), .. } => BindingTier::Peer,
            Self { guild: Some(_), .. } => BindingTier::Guild,
            Self { team: Some(_), .. } => BindingTier::Team,
            Self { account: Some(_), .. } => BindingTier::Account,
            Self { channel: Some(_), .. } => BindingTier::Channel,
            _ => BindingTier::CatchAll,
        }
    }

    fn matches(&self, origin: &ConversationOrigin) -> bool {
        let fits = |expected: &Option<String>, actual: Option<&str>| match expected {
            Some(expected) => Some(expected.as_str()) == actual,
            None => true,
        };
        fits(&self.channel, Some(&origin.channel))
            && fits(&self.account, Some(&origin.account))
            && fits(&self.peer, Some(origin.peer()))
            && fits(&self.guild, origin.guild.as_deref())
            && fits(&self.team, origin.team.as_deref())
    }
}

/// Agent names that clients of the runs API send without checking. If no agent of that name is configured, they select
/// the default agent with react.
pub const PROFILE_AGENTS: [(&str, &str); 6] = [
    ("dev", "the default agent, for software development"),
    ("ask", "the default agent, for questions"),
    ("explore", "the default agent, for finding a way around"),
    ("orchestrator", "the default agent, for work in several parts"),
    ("agent-builder", "the default agent, for making agents"),
    ("assistant", "the default agent"),
];

/// All agents and bindings. Validated when built, read-only afterwards.
#[derive(Debug, Default)]
pub struct AgentTable {
    agents: Vec<Arc<AgentSpec>>,
    bindings: Vec<AgentBinding>,
    models: ModelCatalogue,
}

impl AgentTable {
    pub const DEFAULT: &'static str = "default";

    /// Fails if a binding refers to an agent that does not exist.
    pub fn new(agents: Vec<AgentSpec>, bindings: Vec<AgentBinding>) -> Result<Self, BoardError> {
        let agents: Vec<Arc<AgentSpec>> = agents.into_iter().map(Arc::new).collect();
        let models = ModelCatalogue::new(&agents, Vec::new(), None);
        let table = Self { agents, bindings, models };
        for (index, binding) in table.bindings.iter().enumerate() {
            if table.agent(&binding.agent).is_none() {
                return Err(BoardError::invalid(format!("bindings[{index}]: no agent named `{}`", binding.agent)));
            }
        }
        Ok(table)
    }

    /// Lets runs choose models of these providers too. `window` returns the context window of a model.
    #[must_use]
    pub fn with_providers(mut self, providers: Vec<Arc<dyn ModelProvider>>, window: fn(&str) -> u32) -> Self {
        self.models = ModelCatalogue::new(&self.agents, providers, Some(window));
        self
    }

    pub fn models(&self) -> &ModelCatalogue {
        &self.models
    }

    pub fn agent(&self, name: &str) -> Option<&Arc<AgentSpec>> {
        self.agents.iter().find(|agent| &*agent.name == name)
    }

    /// The agent a run names: a strategy executed by the default agent, a configured agent with its own strategy, or a
    /// profile name.
    pub fn select_for_run(&self, name: &str) -> Result<(&Arc<AgentSpec>, StrategyKind), BoardError> {
        let default =
            || self.agent(Self::DEFAULT).ok_or_else(|| BoardError::not_found("no default agent is configured"));
        if let Some(strategy) = StrategyKind::from_name(name) {
            return Ok((default()?, strategy));
        }
        if let Some(agent) = self.agent(name) {
            return Ok((agent, agent.strategy));
        }
        if PROFILE_AGENTS.iter().any(|(profile, _)| *profile == name) {
            return Ok((default()?, StrategyKind::React));
        }
        let mut known: Vec<&str> = StrategyKind::ALL.into_iter().map(StrategyKind::name).collect();
        known.extend(self.agents.iter().map(|agent| &*agent.name));
        let hint = did_you_mean(name, known, "use react, dup, tot, got or a configured agent");
        Err(BoardError::not_found(format!("no agent named `{name}`: {hint}")))
    }

    pub fn configured(&self, name: &str) -> Result<&Arc<AgentSpec>, BoardError> {
        self.agent(name).ok_or_else(|| {
            let all = || self.agents.iter().map(|agent| &*agent.name);
            let known = format!("there are {}", all().collect::<Vec<_>>().join(", "));
            let hint = did_you_mean(name, all(), &known);
            BoardError::not_found(format!("no agent named `{name}`: {hint}"))
        })
    }

    pub fn all(&self) -> &[Arc<AgentSpec>] {
        &self.agents
    }

    /// The agent of the most specific matching binding; among equals the first in the file; else the default agent.
    pub fn route(&self, origin: &ConversationOrigin) -> Result<&Arc<AgentSpec>, BoardError> {
        let mut best: Option<&AgentBinding> = None;
        for binding in self.bindings.iter().filter(|binding| binding.matches(origin)) {
            if best.is_none_or(|best| binding.specificity() > best.specificity()) {
                best = Some(binding);
            }
        }
        let name = best.map_or(Self::DEFAULT, |binding| &*binding.agent);
        self.agent(name).ok_or_else(|| {
            let ConversationOrigin { channel, account, .. } = origin;
            BoardError::not_found(format!("no agent configured for {channel}:{account}:{}", origin.peer()))
        })
    }
}

#[cfg(test)]
mod tests;
