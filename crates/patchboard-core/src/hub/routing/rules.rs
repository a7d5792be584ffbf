//! The user's aliases and routing rules.

use std::sync::Arc;

use super::direct;
use crate::app::message::RoutingStage;
use crate::tool::Glob;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HubRules {
    /// Alias and app; compared without regard to case.
    pub aliases: Vec<(Arc<str>, Arc<str>)>,
    /// The first match decides.
    pub rules: Vec<RoutingRule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutingRule {
    patterns: Vec<Glob>,
    pattern_text: Arc<str>,
    pub app: Arc<str>,
}

impl RoutingRule {
    /// Patterns match the whole text; `*` is any run of characters, `?` any single one. Case does not matter.
    pub fn new<'a>(when: impl IntoIterator<Item = &'a str>, app: impl Into<Arc<str>>) -> Self {
        let when: Vec<&str> = when.into_iter().collect();
        let patterns = when.iter().map(|pattern| Glob::new(pattern.trim().to_lowercase())).collect();
        Self { patterns, pattern_text: when.join("` or `").into(), app: app.into() }
    }

    fn matches(&self, lowercase: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches(lowercase))
    }
}

impl HubRules {
    /// The stage, the app, the text without the alias, and the reason.
    pub(super) fn apply<'a>(&'a self, text: &'a str) -> Option<(RoutingStage, &'a str, Option<&'a str>, String)> {
        if let Some((name, rest)) = direct::split_address(text)
            && let Some((alias, app)) = self.aliases.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(name))
        {
            return Some((RoutingStage::Alias, app, Some(rest), format!("`{alias}` is another name of {app}")));
        }
        if self.rules.is_empty() {
            return None;
        }
        let lowercase = text.trim().to_lowercase();
        let rule = self.rules.iter().find(|rule| rule.matches(&lowercase))?;
        Some((RoutingStage::Rule, &rule.app, None, format!("the rule `{}` is for {}", rule.pattern_text, rule.app)))
    }
}

#[cfg(test)]
mod tests;
