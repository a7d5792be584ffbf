//! Lists of models, agents, sessions and tools, and the chat's usage: how they are requested and shown.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::context::ChatContext;
use super::slash::CompletionChoices;
use crate::cli::run::live_display::format_count;
use crate::client::{GatewayClient, ServerAddress};
use crate::output::cut;
use crate::output::{self, Column, PageLayout, TextTable, clock};

/// List items that are stored for completion.
const MAX_ITEMS: usize = 500;

/// Facts about the server, refreshed while the conversation runs.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedChatFacts(Arc<Mutex<ChatFacts>>);

#[derive(Debug, Clone, Default)]
pub(super) struct ChatFacts {
    pub(super) choices: CompletionChoices,
    /// The answering agent and its default model.
    pub(super) agent: Option<String>,
    pub(super) model: Option<String>,
    pub(super) tokens: u64,
    pub(super) cost: f64,
}

impl SharedChatFacts {
    pub(super) fn lock(&self) -> MutexGuard<'_, ChatFacts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests the facts on a separate connection; values that cannot be read keep their previous state.
    pub(super) async fn refresh(self, address: ServerAddress, context: ChatContext, since: Timestamp) {
        let Ok(mut client) = GatewayClient::connect(&address).await else { return };
        if let Ok(sessions) = client.list("session.list", context.owner_params(), MAX_ITEMS).await {
            let mut facts = self.lock();
            facts.choices.sessions = texts(&sessions, "peer");
            let current = sessions.iter().find(|session| context.is_session(session));
            facts.agent =
                context.agent.clone().or_else(|| text(current?, "agent")).or_else(|| Some("default".to_owned()));
        }
        let agent = self.lock().agent.clone().unwrap_or_default();
        let report = json!({ "since": since.to_string(), "group_by": "session", "limit": 500 });
        if let Ok(rows) = client.list("usage.report", report, MAX_ITEMS).await {
            let key = context.session_key(&agent);
            if let Some(row) = rows.iter().find(|row| text(row, "key").as_deref() == Some(&key)) {
                let count = |key: &str| row.get(key).and_then(Value::as_u64).unwrap_or(0);
                let mut facts = self.lock();
                facts.tokens = count("input_tokens") + count("output_tokens");
                facts.cost = row.get("cost_usd").and_then(Value::as_f64).unwrap_or(0.0);
            }
        }
        if let Ok(agents) = client.list("agent.list", json!({}), MAX_ITEMS).await {
            self.lock().choices.agents = texts(&agents, "name");
        }
        if let Ok(tools) = client.list("tool.list", json!({ "limit": 500 }), MAX_ITEMS).await {
            self.lock().choices.tools = texts(&tools, "name");
        }
        // Last, as an unresponsive provider delays it.
        if let Ok(report) = client.call("models.list", json!({ "agent": agent })).await {
            let models = report.get("models").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let is_default = |model: &&Value| model.get("default") == Some(&Value::Bool(true));
            let default = models.iter().find(is_default).and_then(|model| text(model, "id"));
            let mut facts = self.lock();
            facts.choices.models = texts(models, "id");
            facts.model = default;
        }
    }
}

pub(super) fn text(item: &Value, key: &str) -> Option<String> {
    item.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn texts(items: &[Value], key: &str) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for text in items.iter().filter_map(|item| text(item, key)) {
        // Names with terminal control characters are not offered.
        if !texts.contains(&text) && output::one_line(&text) == text {
            texts.push(text);
        }
    }
    texts
}

/// The line above the prompt.
pub(super) fn status(facts: &ChatFacts, context: &ChatContext, columns: usize) -> String {
    let agent = context.agent.as_deref().or(facts.agent.as_deref());
    let model = context.model.as_deref().or(facts.model.as_deref());
    let mut parts: Vec<String> = [agent, model].into_iter().flatten().map(output::one_line).collect();
    if context.peer != "main" {
        parts.push(output::one_line(&context.peer));
    }
    if facts.tokens > 0 {
        parts.push(format!("{} tokens", format_count(facts.tokens)));
        parts.push(money(facts.cost));
    }
    cut(&format!("─ {}", parts.join(" · ")), columns.saturating_sub(1))
}

fn money(dollars: f64) -> String {
    if dollars >= 1.0 || dollars == 0.0 { format!("${dollars:.2}") } else { format!("${dollars:.4}") }
}

/// The models, with the current one marked.
pub(super) fn models(report: &Value, context: &ChatContext) -> Vec<String> {
    let list = |key: &str| report.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut lines: Vec<String> = list("models")
        .iter()
        .map(|model| {
            let (id, name) = (text(model, "id").unwrap_or_default(), text(model, "name").unwrap_or_default());
            let is_default = model.get("default") == Some(&Value::Bool(true));
            let is_used = context.model.as_deref().map_or(is_default, |used| used == id || used == name);
            let note = if is_default { "  (the agent's own)" } else { "" };
            output::one_line(&format!("{} {id}{note}", if is_used { "*" } else { " " }))
        })
        .collect();
    for silent in list("unavailable") {
        let (provider, reason) = (text(silent, "provider"), text(silent, "reason"));
        let (provider, reason) = (provider.unwrap_or_default(), reason.unwrap_or_default());
        lines.push(output::one_line(&format!("  {provider}/…  ({reason}; any model of it can be named)")));
    }
    lines
}

/// The id of the model `wanted` names, or an error text.
pub(super) fn find_model(report: &Value, requested: &str) -> Result<String, String> {
    let list = |key: &str| report.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let ids = texts(list("models"), "id");
    if ids.iter().any(|id| id == requested) {
        return Ok(requested.to_owned());
    }
    let named: Vec<&Value> =
        list("models").iter().filter(|model| text(model, "name").as_deref() == Some(requested)).collect();
    if let [only] = named.as_slice() {
        return Ok(text(only, "id").unwrap_or_else(|| requested.to_owned()));
    }
    let is_of = |silent: &&Value| {
        let provider = text(silent, "provider").unwrap_or_default();
        requested.strip_prefix(&provider).is_some_and(|rest| rest.starts_with('/'))
    };
    if list("unavailable").iter().any(|silent| is_of(&silent)) {
        return Ok(requested.to_owned());
    }
    Err(unknown_name("model", requested, &ids))
}

pub(super) fn unknown_name(what: &str, requested: &str, known: &[String]) -> String {
    let containing: Vec<&str> =
        known.iter().map(String::as_str).filter(|one| one.contains(requested)).take(3).collect();
    let nearest_name = patchboard_core::text::nearest(requested, known.iter().map(String::as_str));
    let suggestion = match (nearest_name, containing.as_slice()) {
        (Some(nearest_name), _) => format!(": did you mean {nearest_name}?"),
        (None, []) => String::new(),
        (None, some) => format!(": did you mean {}?", some.join(" or ")),
    };
    output::one_line(&format!("there is no {what} {requested}{suggestion}"))
}

/// The conversations, newest first, with the current one marked.
pub(super) fn sessions(items: &[Value], context: &ChatContext, page: PageLayout) -> Vec<String> {
    let columns = ["  NAME", "AGENT"].map(Column::whole).into_iter();
    let columns = columns.chain([Column::number("TURNS"), Column::whole("LAST USED")]);
    let mut table = TextTable::new(columns.collect::<Vec<_>>());
    for item in items {
        let mark = if context.is_session(item) { "*" } else { " " };
        let turns = item.get("turns").map(ToString::to_string).unwrap_or_default();
        table.push_row([
            format!("{mark} {}", text(item, "peer").unwrap_or_default()).into(),
            text(item, "agent").unwrap_or_default().into(),
            turns.into(),
            clock::local(&text(item, "used_at").unwrap_or_default(), clock::MINUTE).into(),
        ]);
    }
    table.lines(page)
}

/// One line per tool, or the description of one tool.
pub(super) fn tools(items: &[Value], requested: Option<&str>, columns: usize) -> Result<Vec<String>, String> {
    if let Some(requested) = requested {
        let Some(found) = items.iter().find(|item| text(item, "name").as_deref() == Some(requested)) else {
            return Err(unknown_name("tool", requested, &texts(items, "name")));
        };
        let description = output::plain(&text(found, "description").unwrap_or_default());
        return Ok(description.lines().map(str::to_owned).collect());
    }
    let names: Vec<String> =
        items.iter().map(|item| output::one_line(&text(item, "name").unwrap_or_default())).collect();
    let wide = names.iter().map(String::len).max().unwrap_or(0).min(columns / 3);
    let line = |(item, name): (&Value, &String)| {
        let about = text(item, "description").unwrap_or_default();
        let first = about.lines().next().unwrap_or_default();
        cut(&output::one_line(&format!("{name:wide$}  {first}")), columns.saturating_sub(1))
    };
    Ok(items.iter().zip(&names).map(line).collect())
}

/// The chat's usage and the remaining budgets.
pub(super) fn usage(facts: &ChatFacts, budget: &Value) -> Vec<String> {
    let mut lines = vec![match facts.tokens {
        0 => "nothing used in this chat yet".to_owned(),
        tokens => format!("this chat: {} tokens, {}", format_count(tokens), money(facts.cost)),
    }];
    for (key, label) in [("session", "this conversation"), ("daily", "today"), ("monthly", "this month")] {
        let count = |name: &str| budget.get(key).and_then(|line| line.get(name)).and_then(Value::as_u64);
        match (count("used"), count("limit")) {
            (Some(used), Some(limit)) => {
                let remaining = limit.saturating_sub(used);
                lines.push(format!(
                    "{label}: {} of {} tokens, {} left",
                    format_count(used),
                    format_count(limit),
                    format_count(remaining)
                ));
            }
            (Some(used), None) if used > 0 => lines.push(format!("{label}: {} tokens, no limit", format_count(used))),
            (Some(_), None) | (None, _) => {}
        }
    }
    lines
}

#[cfg(test)]
mod tests;
