//! Resolution of relative paths in values.

use std::path::PathBuf;

use super::{origin::ValueOrigin, paths::strip_current_dir_parts};

/// Rules for relative paths and `~`.
#[derive(Clone, Debug)]
pub(crate) struct PathRules {
    pub home: Option<PathBuf>,
    /// Folder in which the command was started, absolute.
    pub cwd: PathBuf,
}

impl PathRules {
    /// The absolute path of `text`: relative to its file, or to the folder of the command for variables and flags.
    pub(crate) fn resolve(&self, text: &str, origin: &ValueOrigin) -> Result<PathBuf, String> {
        Ok(strip_current_dir_parts(&self.base_folder(origin).join(self.expand_home(text)?)))
    }

    /// Base folder of relative paths from `origin`.
    pub(crate) fn base_folder(&self, origin: &ValueOrigin) -> PathBuf {
        match origin {
            ValueOrigin::File { file, .. } => file.folder(),
            ValueOrigin::Default | ValueOrigin::Env(_) | ValueOrigin::Flag(_) => strip_current_dir_parts(&self.cwd),
        }
    }

    /// Expands a leading `~`.
    pub(crate) fn expand_home(&self, text: &str) -> Result<PathBuf, String> {
        let Some(rest) = text.strip_prefix('~') else {
            return Ok(PathBuf::from(text));
        };
        if !rest.is_empty() && !rest.starts_with('/') {
            return Err(format!("`{text}`: only `~/` is understood, not `~user`"));
        }
        let home = self.home.as_ref().ok_or_else(|| format!("`{text}` needs the variable HOME, which is not set"))?;
        Ok(home.join(rest.trim_start_matches('/')))
    }
}
