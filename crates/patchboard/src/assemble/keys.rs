//! The keys of the configuration, as the board takes them.

use patchboard_config::section::{KeyConfig, KeySurface};
use patchboard_config::{Config, Secrets};
use patchboard_core::caller::Surface;
use patchboard_core::keys::{KeyBudget, KeyRights, KeySource, KeySpec};
use patchboard_core::tool::Glob;
use patchboard_surfaces::auth::key_hash;
use secrecy::ExposeSecret;

/// A key without a readable secret is left out: nobody can show it.
pub(crate) fn file_keys(config: &Config, secrets: &Secrets) -> Vec<KeySpec> {
    let spec = |key: &KeyConfig| {
        let secret = secrets.key_secrets.get(&key.name)?;
        Some(KeySpec {
            name: key.name.as_str().into(),
            hash: key_hash(secret.expose_secret()),
            rights: rights(key),
            source: KeySource::File,
        })
    };
    config.keys.iter().filter_map(spec).collect()
}

fn rights(key: &KeyConfig) -> KeyRights {
    let KeyConfig { name: _, secret: _, agents, surfaces, tools, oversee, budget, trust_headers } = key;
    let agent_names = |names: &Vec<String>| names.iter().map(|name| name.as_str().into()).collect();
    KeyRights {
        agents: agents.as_ref().map(agent_names),
        surfaces: surfaces.as_ref().map(|all| all.iter().copied().map(surface).collect()),
        tools: tools.as_ref().map(|all| all.iter().map(|glob| Glob::new(glob.as_str())).collect()),
        oversee: *oversee,
        budget: KeyBudget { daily: budget.daily, monthly: budget.monthly },
        trust_headers: trust_headers.iter().map(|name| name.as_str().into()).collect(),
    }
}

fn surface(surface: KeySurface) -> Surface {
    match surface {
        KeySurface::Gateway => Surface::Gateway,
        KeySurface::Runs => Surface::Runs,
        KeySurface::Mcp => Surface::Mcp,
        KeySurface::Hub => Surface::Hub,
        KeySurface::Bridge => Surface::Bridge,
    }
}
