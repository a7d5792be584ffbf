//! Parses plugin reports and webhook outcomes.

use patchboard_core::plugin::{PluginReport, PluginState};
use serde_json::Value;

use super::{Read, each, noon, number, text_of};

/// A name alone is a ready plugin with tools.
pub(super) fn report(json: &Value) -> Read<PluginReport> {
    let name = json.as_str().unwrap_or_else(|| text_of(&json["name"]));
    let state = match json["state"].as_str().unwrap_or("ready") {
        "loading" => PluginState::Loading,
        "ready" => PluginState::Ready,
        "held" => PluginState::AwaitingApproval,
        "refused" => PluginState::Refused,
        "unloaded" => PluginState::Unloaded,
        other => return Err(format!("no state of a plugin is called `{other}`")),
    };
    let kinds: Vec<String> = each(&json["kinds"], |kind| Ok(text_of(kind).to_owned()))?;
    Ok(PluginReport {
        name: name.into(),
        state,
        source: json["source"].as_str().map_or_else(|| format!("plugins/{name}.wasm").into(), Into::into),
        sha256: json["sha256"].as_str().map(Into::into),
        has_tools: kinds.is_empty() || kinds.iter().any(|kind| kind == "tools"),
        has_channel: kinds.iter().any(|kind| kind == "channel"),
        grants: each(&json["grants"], |grant| text_of(grant).parse().map_err(|bad| format!("{bad}")))?,
        tools: each(&json["tools"], |tool| Ok(text_of(tool).into()))?,
        loaded_at: Some(noon()?),
        calls: number(&json["calls"]),
        failures: number(&json["failures"]),
        problem: json["problem"].as_str().map(Into::into),
        changes: each(&json["changes"], |change| Ok(text_of(change).into()))?,
    })
}
