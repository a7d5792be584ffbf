//! The folder of the caller, in which `run`, `chat` and `tools call` ask the server to work.
//!
//! A server found by its data directory is called by its operator, who may grant any folder to a run. A server found by
//! its address may be on another machine, where this folder means nothing.

use std::path::{Path, PathBuf};

use patchboard_config::LoadedConfig;
use serde_json::Value;

use super::failure::CommandFailure;
use crate::assemble::grant_rules;

/// The folder part of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CallerFolder {
    /// `None`: the server's own folder.
    pub(super) path: Option<String>,
    /// The operator grants the folder to this request.
    pub(super) is_granted: bool,
    /// The current directory of the command, not named by a flag.
    pub(super) is_current: bool,
}

/// How a command found its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerLookup {
    /// By the data directory, with the operator's token; also a server embedded in the command.
    DataDir,
    /// By `--url`.
    Url,
}

impl CallerFolder {
    /// `flag`: the value of `--working-folder`, relative to the directory of the command, not of the server.
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

    /// Adds the folder to the params of a gateway request.
    pub(super) fn add_to(&self, params: &mut serde_json::Map<String, Value>) {
        if let Some(path) = &self.path {
            params.insert("working_folder".to_owned(), path.as_str().into());
            params.insert("grant_folder".to_owned(), self.is_granted.into());
        }
    }

    /// For commands that also work without a folder, such as a chat or a tool call: if the current folder is refused
    /// and the user did not name it, switches to the server's folder. Returns the notice for the user.
    pub(super) fn fall_back(&mut self, refusal: &str) -> Option<String> {
        // The gateway puts its method name before the reason.
        let reason = &refusal[refusal.find(FOLDER_REFUSED)?..];
        (self.is_current && self.path.is_some()).then(|| {
            *self = Self::default();
            format!("tools work in the folder of the server: {reason}")
        })
    }
}

/// Prefix of the server's refusals of folders.
const FOLDER_REFUSED: &str = "working folder ";

/// The only folder an embedded server opens to agents: the configured one, the named one, or the current one. `None` if
/// the allowed roots are configured. Configured folders were chosen on purpose; any other that is too wide is refused,
/// named or not.
pub(super) fn embedded_server_folder(
    loaded: &LoadedConfig,
    flag: Option<&Path>,
    current_dir: &Path,
) -> Result<Option<PathBuf>, CommandFailure> {
    if loaded.is_set("runs.allowed_roots") {
        return Ok(None);
    }
    // On its own this setting would leave the current folder open as well.
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
