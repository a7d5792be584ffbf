//! What comes from outside: under which licence, from where, and never some crates at all.

use crate::tidy::graph::Package;
use crate::tidy::policy::{self, Policy};
use crate::tidy::{Context, Problem, spdx};

const LOCK: &str = "Cargo.lock";

pub(super) fn check(context: &Context) -> Vec<Problem> {
    let packages = context.graph.packages().iter();
    packages
        .flat_map(|package| {
            let complaints = complaints(&context.policy, package);
            complaints.into_iter().map(|why| Problem::new(LOCK, line_in_lock(context, package), why))
        })
        .collect()
}

fn complaints(policy: &Policy, package: &Package) -> Vec<String> {
    let called = format!("`{} {}`", package.name, package.version);
    let mut complaints = Vec::new();
    match &package.license {
        Some(license) if spdx::is_satisfied(license, &policy.licenses.allow) => {}
        Some(license) => {
            complaints.push(format!("{called} is under `{license}`, which `{}` does not allow", policy::FILE));
        }
        None => complaints.push(format!("{called} names no licence")),
    }
    if let Some(ban) = policy.bans.deny.iter().find(|ban| ban.name == package.name) {
        complaints.push(format!("{called} is banned: {}", ban.reason));
    }
    let allowed = |registry: &str| policy.sources.allow_registry.iter().any(|one| one == registry);
    if let Some(source) = &package.source
        && !source.strip_prefix("registry+").is_some_and(allowed)
    {
        complaints
            .push(format!("{called} comes from `{source}`; only the registries in `{}` are allowed", policy::FILE));
    }
    complaints
}

fn line_in_lock(context: &Context, package: &Package) -> usize {
    let Some(lock) = context.tree.get(LOCK) else { return 0 };
    let name = format!("name = \"{}\"", package.name);
    let version = format!("version = \"{}\"", package.version);
    let lines: Vec<&str> = lock.text.lines().collect();
    lines.windows(2).position(|pair| pair == [name.as_str(), version.as_str()]).map_or(0, |at| at + 1)
}

#[cfg(test)]
mod tests;
