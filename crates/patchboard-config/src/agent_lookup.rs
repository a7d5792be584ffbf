//! Queries over several sections: the provider and model of an agent, and the price of a model.

use patchboard_core::{
    budget::price::{ModelPrice, PriceTable},
    tool::Glob,
};

use super::{
    Config,
    glob::specificity,
    section::{AgentConfig, BUILT_IN_PRICES, PriceConfig, ProviderConfig, ProviderKind},
    url,
};

/// The agent that always exists and answers chats that no binding matches.
pub const DEFAULT_AGENT: &str = "default";

/// Provider names preferred if an agent names none and several are configured.
const PREFERRED_PROVIDERS: [&str; 2] = ["default", "main"];

/// The provider that exists without configuration.
pub const OFFLINE_PROVIDER: &str = "offline";

/// A provider and the model to request from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRoute {
    pub provider: String,
    pub model: String,
}

impl Config {
    /// The agent's provider. `None` if no provider is configured and none has been chosen yet.
    pub fn provider_name<'a>(&'a self, agent: &'a AgentConfig) -> Option<&'a str> {
        agent.provider.as_deref().or_else(|| {
            let mut names = self.providers.keys();
            match (names.next(), names.next()) {
                (Some(only), None) => Some(only.as_str()),
                _ => PREFERRED_PROVIDERS.into_iter().find(|name| self.providers.contains_key(*name)),
            }
        })
    }

    /// A configured provider, or the built-in offline one by its name.
    pub fn provider(&self, name: &str) -> Option<ProviderConfig> {
        self.providers
            .get(name)
            .cloned()
            .or_else(|| (name == OFFLINE_PROVIDER).then(|| ProviderConfig::of_kind(ProviderKind::Offline)))
    }

    /// The agent's provider and its fallbacks in order, each with the model to request. Empty if no provider has been
    /// chosen.
    pub fn model_routes(&self, agent: &AgentConfig) -> Vec<ModelRoute> {
        let Some((first_name, first)) = self.provider_name(agent).and_then(|name| Some((name, self.provider(name)?)))
        else {
            return Vec::new();
        };
        let first_model = agent.model.as_deref().unwrap_or(first.default_model());
        let mut routes = vec![ModelRoute { provider: first_name.to_owned(), model: first_model.to_owned() }];
        for name in &agent.fallback {
            let Some(provider) = self.provider(name) else {
                continue;
            };
            // Another account at the same vendor has the same models; another vendor does not know the name.
            let model = match &provider.model {
                None if provider.kind == first.kind => first_model,
                Some(_) | None => provider.default_model(),
            };
            routes.push(ModelRoute { provider: name.clone(), model: model.to_owned() });
        }
        routes
    }

    /// Prices of models, highest precedence first: prices of the providers that agents use, then `[prices]`, then the
    /// built-in table. The built-in estimate for unknown models does not apply to local servers, which are free.
    pub fn price_table(&self) -> PriceTable {
        let mut configured: Vec<(&str, PriceConfig)> =
            self.prices.iter().map(|(pattern, price)| (pattern.as_str(), *price)).collect();
        configured.sort_by_key(|(pattern, _)| specificity(pattern));
        let mut built_in = BUILT_IN_PRICES.to_vec();
        built_in.sort_by_key(|(pattern, _)| specificity(pattern));
        let general: Vec<ModelPrice> =
            configured.iter().chain(&built_in).map(|(pattern, price)| price_row(pattern, *price)).collect();

        let mut table = Vec::new();
        for route in self.agents.values().flat_map(|agent| self.model_routes(agent)) {
            let Some(provider) = self.provider(&route.provider) else { continue };
            let local =
                provider.kind == ProviderKind::Offline || provider.base_url.as_deref().is_some_and(url::is_loopback);
            let guessed = configured.iter().all(|(pattern, _)| !Glob::new(*pattern).matches(&route.model))
                && built_in.iter().all(|(pattern, _)| *pattern == "*" || !Glob::new(*pattern).matches(&route.model));
            match provider.price {
                Some(price) => table.push(price_row(&route.model, price)),
                None if local && guessed => table.push(price_row(&route.model, PriceConfig::FREE)),
                None => {}
            }
        }
        table.extend(general);
        PriceTable(table)
    }
}

fn price_row(pattern: &str, price: PriceConfig) -> ModelPrice {
    ModelPrice { model: Glob::new(pattern), input: price.input, output: price.output }
}
