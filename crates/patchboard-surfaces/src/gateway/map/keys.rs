//! Keys of clients: requests, and what is shown of them.

use patchboard_core::command::CreateKey;
use patchboard_core::keys::{KEY_SURFACES, KeyBudget, KeyRights, KeySource, key_surface};
use patchboard_core::reply::{BudgetReport, KeyReport};
use patchboard_core::tool::Glob;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::{GatewayRequest, budget_line, wire};
use crate::auth::new_key_secret;
use crate::dialect::BoardRequest;

/// The secret is made here and shown in the one reply; the board gets its hash.
pub(super) fn create(params: wire::KeyCreate) -> Result<GatewayRequest, String> {
    let wire::KeyCreate { name, agents, surfaces, tools, oversee, daily, monthly } = params;
    if daily == Some(0) || monthly == Some(0) {
        return Err("`daily` and `monthly` are 1 or more; left out means unlimited".to_owned());
    }
    let surface = |name: String| {
        key_surface(&name).ok_or_else(|| {
            let known = KEY_SURFACES.map(|surface| surface.name()).join(", ");
            format!("`surfaces` are of {known}; not {name}")
        })
    };
    let surfaces = surfaces.map(|names| names.into_iter().map(surface).collect::<Result<Vec<_>, _>>()).transpose()?;
    let rights = KeyRights {
        agents: agents.map(|names| names.into_iter().map(Into::into).collect()),
        surfaces,
        tools: tools.map(|globs| globs.into_iter().map(Glob::new).collect()),
        oversee,
        budget: KeyBudget { daily, monthly },
        trust_headers: Vec::new(),
    };
    let (secret, hash) = new_key_secret();
    let command = CreateKey { name: name.into(), hash, rights };
    Ok(GatewayRequest::Call(BoardRequest::new(command, move |reply| {
        reply.map(|report| {
            let mut shown = item(&report);
            if let Some(fields) = shown.as_object_mut() {
                fields.insert("secret".into(), secret.expose_secret().into());
            }
            shown
        })
    })))
}

pub(super) fn list(keys: Vec<KeyReport>) -> Value {
    let items: Vec<Value> = keys.iter().map(item).collect();
    json!({ "items": items, "next_cursor": null })
}

/// Absent rights are shown as null: no restriction.
fn item(key: &KeyReport) -> Value {
    let KeyRights { agents, surfaces, tools, oversee, budget, trust_headers } = &key.rights;
    let (source, created_at) = match key.source {
        KeySource::File => ("configuration", None),
        KeySource::Created(at) => ("created", Some(at.to_string())),
    };
    let surfaces = surfaces.as_ref().map(|all| all.iter().map(|surface| surface.name()).collect::<Vec<_>>());
    let tools = tools.as_ref().map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>());
    let agents = agents.as_ref().map(|all| all.iter().map(|name| &**name).collect::<Vec<_>>());
    let headers: Vec<&str> = trust_headers.iter().map(|name| &**name).collect();
    json!({
        "name": &*key.name, "source": source, "created_at": created_at, "agents": agents, "surfaces": surfaces,
        "tools": tools, "oversee": oversee, "daily": budget.daily, "monthly": budget.monthly,
        "trust_headers": headers,
    })
}

/// A budget with those of the keys, if the caller sees any.
pub(super) fn with_keys(mut shown: Value, report: &BudgetReport) -> Value {
    let lines = report.keys.iter().map(
        |line| json!({ "key": &*line.key, "daily": budget_line(&line.daily), "monthly": budget_line(&line.monthly) }),
    );
    let lines: Vec<Value> = lines.collect();
    if let Some(fields) = shown.as_object_mut().filter(|_| !lines.is_empty()) {
        fields.insert("keys".into(), lines.into());
    }
    shown
}
