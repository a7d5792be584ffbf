//! The folder a command was typed in, which `run` and `tools call` ask the server to work in.
//!
//! A server that is found by its data directory hears from its operator, who may open any folder for one run. A server
//! that is found by its address may be on another machine, where this folder means nothing.

use std::path::Path;

use super::failure::Failure;
use crate::assemble::grant_rules;
use crate::config::Loaded;

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
pub(super) enum Reach {
    /// By the data directory, with the operator's token; or the server is part of the command.
    Operator,
    /// By `--url`.
    Address,
}

impl CallerFolder {
    /// `flag` is what `--working-folder` says; it is relative to where the command was typed, not to where the server was
    /// started.
    pub(super) fn new(flag: Option<&Path>, current_dir: &Path, reach: Reach) -> Result<Self, Failure> {
        let is_granted = reach == Reach::Operator;
        let folder = match flag {
            Some(flag) => current_dir.join(flag),
            None if is_granted => current_dir.to_owned(),
            None => return Ok(Self::default()),
        };
        match folder.to_str() {
            Some(path) => Ok(Self { path: Some(path.to_owned()), is_granted, is_current: flag.is_none() }),
            None => Err(Failure::unusable(format!("the folder `{}` cannot be named to a server", folder.display()))
                .hint("choose one whose path is UTF-8 with `--working-folder DIR`")),
        }
    }

    /// Commands that are also useful without a folder, such as a call of a tool, take the server's where the current one is
    /// refused, unless the user named it. Answers what to tell the user then.
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

/// Refuses to start a server inside a command in a folder that is too wide: it would be open to agents for no other reason
/// than that the command was typed there. Configured folders were chosen on purpose.
pub(super) fn check_own_server(loaded: &Loaded, current_dir: &Path) -> Result<(), Failure> {
    if loaded.is_set("runs.allowed_roots") || loaded.is_set("runs.working_folder") {
        return Ok(());
    }
    let Some(reason) = grant_rules(loaded).too_wide(current_dir) else { return Ok(()) };
    Err(Failure::unusable(format!("agents would work in `{}`, which {reason}", current_dir.display()))
        .hint("go to the folder they shall work in, or name it with --working-folder DIR"))
}

#[cfg(test)]
mod tests;
