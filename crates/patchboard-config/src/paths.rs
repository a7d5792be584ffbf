//! Where things are: the folders of the user, and what a relative path means.

use std::path::{Component, Path, PathBuf};

use super::{
    env::{Environment, HOME, XDG_CONFIG_HOME, XDG_DATA_HOME},
    tree::ValueOrigin,
};

/// Folders that follow from the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserFolders {
    /// Holds `patchboard.toml` and `credentials/`.
    pub config_dir: Option<PathBuf>,
    /// The data folder when none is configured.
    pub default_data_dir: Option<PathBuf>,
    pub home: Option<PathBuf>,
}

impl UserFolders {
    pub(crate) fn new(environment: &Environment) -> Self {
        // Relative values are invalid by the XDG rules and are ignored.
        let absolute = |variable: &str| environment.get(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = absolute(HOME);
        let below = |xdg: &str, fallback: &str| {
            absolute(xdg).or_else(|| home.as_ref().map(|home| home.join(fallback))).map(|base| base.join("patchboard"))
        };
        let (config_dir, default_data_dir) = (below(XDG_CONFIG_HOME, ".config"), below(XDG_DATA_HOME, ".local/share"));
        Self { config_dir, default_data_dir, home }
    }

    /// Where `patchboard onboard` stores keys.
    pub(crate) fn credentials_dir(&self) -> Option<PathBuf> {
        self.config_dir.as_ref().map(|folder| folder.join("credentials"))
    }
}

/// What relative paths and `~` mean.
#[derive(Clone, Debug)]
pub(crate) struct PathRules {
    pub home: Option<PathBuf>,
    /// Folder the command was started in, absolute.
    pub cwd: PathBuf,
}

impl PathRules {
    /// The absolute path meant by `text`: relative to the file that says it,
    /// or to the folder of the command for variables and flags.
    pub(crate) fn resolve(&self, text: &str, origin: &ValueOrigin) -> Result<PathBuf, String> {
        Ok(strip_current_dir_parts(&self.base_folder(origin).join(self.expand_home(text)?)))
    }

    /// Where relative paths start that come from `origin`.
    pub(crate) fn base_folder(&self, origin: &ValueOrigin) -> PathBuf {
        match origin {
            ValueOrigin::File { file, .. } => file.folder(),
            ValueOrigin::Default | ValueOrigin::Env(_) | ValueOrigin::Flag(_) => strip_current_dir_parts(&self.cwd),
        }
    }

    /// Replaces a leading `~`.
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

/// Drops `.` parts. `..` stays: what it means depends on symbolic links.
pub(crate) fn strip_current_dir_parts(path: &Path) -> PathBuf {
    path.components().filter(|component| *component != Component::CurDir).collect()
}
