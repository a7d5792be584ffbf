//! Checks a component's imports and exports by name against the supported interfaces.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::PluginFileError;

const PACKAGE: &str = "patchboard:plugin";
/// The version of `wit/patchboard.wit`.
const VERSION: &str = "1.0.0";
const MAJOR: &str = "1";
const IMPORTS: [&str; 7] = ["clock", "host-functions", "http", "log", "random", "settings", "store"];
const EXPORTS: [&str; 2] = ["channel", "tools"];

/// The provided WASI interfaces, which have no function.
const WASI: [&str; 27] = [
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stderr",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stderr",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:clocks/monotonic-clock",
    "wasi:clocks/wall-clock",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
    "wasi:random/random",
    "wasi:sockets/instance-network",
    "wasi:sockets/ip-name-lookup",
    "wasi:sockets/network",
    "wasi:sockets/tcp",
    "wasi:sockets/tcp-create-socket",
    "wasi:sockets/udp",
    "wasi:sockets/udp-create-socket",
];
const WASI_VERSION: &str = "0.2.";
/// Names listed in one refusal.
const MAX_NAMES_LISTED: usize = 8;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct InterfaceNames {
    pub(super) imports: BTreeSet<Arc<str>>,
    pub(super) wasi: Vec<String>,
    pub(super) tools: bool,
    pub(super) channel: bool,
}

pub(super) fn check(imports: &[&str], exports: &[&str]) -> Result<InterfaceNames, PluginFileError> {
    let mut names = InterfaceNames::default();
    let mut unknown = Vec::new();
    for import in imports {
        match package_interface(import)? {
            Some(interface) if IMPORTS.contains(&interface) => {
                names.imports.insert(interface.into());
            }
            // The types-only interface, pulled in by an export that uses it, is `http`: there is no other.
            Some(_) => unknown.push(*import),
            None if is_wasi(import) => names.wasi.push((*import).to_owned()),
            None => unknown.push(*import),
        }
    }
    if !unknown.is_empty() {
        return Err(unknown_imports(&unknown));
    }
    for export in exports {
        match package_interface(export)? {
            Some("tools") => names.tools = true,
            Some("channel") => names.channel = true,
            Some(_) | None => {}
        }
    }
    if !names.tools && !names.channel {
        let expected = EXPORTS.map(|interface| format!("{PACKAGE}/{interface}@{VERSION}")).join(" nor ");
        return Err(
            PluginFileError::new(format!("exports neither {expected}")).hint("a plugin exports at least one of them")
        );
    }
    Ok(names)
}

/// The short name of an interface of this package; an error if its version is unsupported.
fn package_interface(name: &str) -> Result<Option<&str>, PluginFileError> {
    let Some(interface) = name.strip_prefix(PACKAGE).and_then(|rest| rest.strip_prefix('/')) else {
        return Ok(None);
    };
    let (interface, version) = interface.split_once('@').unwrap_or((interface, "none"));
    match version.split_once('.') {
        Some((MAJOR, _)) => Ok(Some(interface)),
        Some(_) | None => Err(PluginFileError::new(format!(
            "is built for version {version} of {PACKAGE}, but this server knows version {VERSION}"
        ))
        .hint("build it against the wit folder of this server's version")),
    }
}

fn is_wasi(name: &str) -> bool {
    name.split_once('@')
        .is_some_and(|(interface, version)| WASI.contains(&interface) && version.starts_with(WASI_VERSION))
}

fn unknown_imports(unknown: &[&str]) -> PluginFileError {
    let mut list = unknown.iter().take(MAX_NAMES_LISTED).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if unknown.len() > MAX_NAMES_LISTED {
        list.push_str(&format!(" and {} more", unknown.len() - MAX_NAMES_LISTED));
    }
    let refusal = PluginFileError::new(format!("imports what is not provided: {list}"));
    match unknown.iter().any(|name| name.starts_with("wasi:http/")) {
        true => refusal.hint("HTTP is reached through patchboard:plugin/http"),
        false => refusal,
    }
}

#[cfg(test)]
mod tests;
