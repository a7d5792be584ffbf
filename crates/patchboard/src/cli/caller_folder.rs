//! The folder a command was typed in, which `run`, `chat` and `tools call` ask the server to work in.
//!
//! A server that is found by its data directory hears from its operator, who may open any folder for one run. A server
//! that is found by its address may be on another machine, where this folder means nothing.

use std::path::{Path, PathBuf};

use patchboard_config::LoadedConfig;
use serde_json::Value;

use super::failure::CommandFailure;
use crate::assemble::grant_rules;

/// What a request says about its folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CallerFolder {
    /// Left out, the server's own folder is meant.
    pub(super) path: Option<String>,
    /// The operator opens the folder for this one request.
    pub(super) is_granted: bool,
    /// Where the command was typed; nobody named it.
    pub(super) is_current: bool,
}

/// How a command found its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerLookup {
    /// By the data directory, with the operator's token; or the server is part of the command.
    DataDir,
    /// By `--url`.
    Url,
}

impl CallerFolder {
    /// `flag` is what `--working-folder` says; it is relative to where the command was typed, not to where the server was
    /// started.
    pub(super) fn new(flag: Option<&Path>, current_dir: &Path, reach: ServerLookup) -> Result<Self, CommandFailure> {
        let is_granted = reach == ServerLookup::DataDir;
        let folder = match flag {
            Some(flag) => current_dir.join(flag),
            None if is_granted => current_dir.to_owned(),
            None => return Ok(Self::default()),
        };
        match folder.to_str() {
            Some(path) => Ok(Self { path: Some(path.to_owned()), is_granted, is_current: flag.is_none() }),
            None => {
                Err(CommandFailure::unusable(format!("the folder `{}` cannot be named to a server", folder.display()))
                    .hint("choose one whose path is UTF-8 with `--working-folder DIR`"))
            }
        }
    }

    /// What a request to the gateway says of it.
    pub(super) fn add_to(&self, params: &mut serde_json::Map<String, Value>) {
        if let Some(path) = &self.path {
            params.insert("working_folder".to_owned(), path.as_str().into());
            params.insert("grant_folder".to_owned(), self.is_granted.into());
        }
    }

    /// Commands that are also useful without a folder, such as a chat or a call of a tool, take the server's where the
    /// current one is refused, unless the user named it. Answers what to tell the user then.
    pub(super) fn fall_back(&mut self, refusal: &str) -> Option<String> {
        // The gateway names its method before it.
        let reason = &refusal[refusal.find(FOLDER_REFUSED)?..];
        (self.is_current && self.path.is_some()).then(|| {
            *self = Self::default();
            format!("tools work in the folder of the server: {reason}")
        })
    }
}

/// How a server's refusals of folders begin.
const FOLDER_REFUSED: &str = "working folder ";

/// The one folder that a server inside a command opens to agents: the configured one, or the one that is named, or where
/// the command was typed. `None` where all that are open are configured. Configured folders were chosen on purpose; any
/// other that is too wide is refused, named or not.
pub(super) fn embedded_server_folder(
    loaded: &LoadedConfig,
    flag: Option<&Path>,
    current_dir: &Path,
) -> Result<Option<PathBuf>, CommandFailure> {
    if loaded.is_set("runs.allowed_roots") {
        return Ok(None);
    }
    // Alone it would leave the folder where the command was typed open as well.
    if loaded.is_set("runs.working_folder") {
        return Ok(Some(loaded.config.runs.working_folder.clone()));
    }
    let folder = flag.map_or_else(|| current_dir.to_owned(), |flag| current_dir.join(flag));
    if !folder.is_dir() {
        return Err(CommandFailure::unusable(format!("there is no folder `{}`", folder.display()))
            .hint("make it, or name another one with --working-folder DIR"));
    }
    let Some(reason) = grant_rules(loaded).too_wide(&folder) else { return Ok(Some(folder)) };
    Err(CommandFailure::unusable(format!("agents would work in `{}`, which {reason}", folder.display()))
        .hint("go to the folder they shall work in, or name it with --working-folder DIR"))
}

#[cfg(test)]
mod tests;
