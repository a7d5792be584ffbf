//! Sidecar files, `NAME.toml` beside `NAME.wasm` in the plugins folder: grants and settings of a plugin without a
//! configuration entry. Secrets can be named only in the configuration.

use std::collections::BTreeMap;

use patchboard_core::plugin::PluginGrant;
use serde::Deserialize;

use super::validate::plugins::{MAX_GRANTS, MAX_SETTING_BYTES, MAX_SETTINGS, is_setting_key};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PluginSidecar {
    grants: Vec<String>,
    settings: BTreeMap<String, String>,
}

/// Parses a sidecar file. `Err` is a sentence for the operator; it repeats keys of the file but no values.
pub fn parse_sidecar(text: &str) -> Result<(Vec<PluginGrant>, BTreeMap<String, String>), String> {
    let PluginSidecar { grants, settings } = toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| 1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count());
        let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        format!("{place}{}", error.message().replace('\n', ", "))
    })?;
    if grants.len() > MAX_GRANTS {
        return Err(format!("`grants` has {} entries; {MAX_GRANTS} are the most", grants.len()));
    }
    if settings.len() > MAX_SETTINGS {
        return Err(format!("`settings` has {} entries; {MAX_SETTINGS} are the most", settings.len()));
    }
    if let Some(key) = settings.keys().find(|key| !is_setting_key(key)) {
        let shown: String = key.chars().take(80).collect();
        return Err(format!("`settings.{shown}`: a key has 1 to 64 letters, digits, `-` and `_`"));
    }
    if let Some((key, _)) = settings.iter().find(|(_, value)| value.len() > MAX_SETTING_BYTES) {
        return Err(format!("`settings.{key}` is longer than {} KiB", MAX_SETTING_BYTES / 1024));
    }
    let mut granted: Vec<PluginGrant> = Vec::with_capacity(grants.len());
    for grant in grants {
        let grant = grant.parse().map_err(|error: patchboard_core::plugin::InvalidGrant| error.to_string())?;
        if !granted.contains(&grant) {
            granted.push(grant);
        }
    }
    Ok((granted, settings))
}

#[cfg(test)]
mod tests;
