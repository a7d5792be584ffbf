//! Folders of the user.

use std::path::{Component, Path, PathBuf};

use super::env::{Environment, HOME, XDG_CONFIG_HOME, XDG_DATA_HOME};

/// Folders derived from the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserFolders {
    /// Holds `patchboard.toml` and `credentials/`.
    pub config_dir: Option<PathBuf>,
    /// The data folder if none is configured.
    pub default_data_dir: Option<PathBuf>,
    pub home: Option<PathBuf>,
}

impl UserFolders {
    pub fn new(environment: &Environment) -> Self {
        // Relative values are invalid by the XDG rules and are ignored.
        let absolute = |variable: &str| environment.get(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = absolute(HOME);
        let below = |xdg: &str, fallback: &str| {
            absolute(xdg).or_else(|| home.as_ref().map(|home| home.join(fallback))).map(|base| base.join("patchboard"))
        };
        let (config_dir, default_data_dir) = (below(XDG_CONFIG_HOME, ".config"), below(XDG_DATA_HOME, ".local/share"));
        Self { config_dir, default_data_dir, home }
    }

    /// Folder in which `patchboard onboard` stores keys.
    pub fn credentials_dir(&self) -> Option<PathBuf> {
        self.config_dir.as_ref().map(|folder| folder.join("credentials"))
    }
}

/// Removes `.` components. Keeps `..`, whose meaning depends on symbolic links.
pub(crate) fn strip_current_dir_parts(path: &Path) -> PathBuf {
    path.components().filter(|component| *component != Component::CurDir).collect()
}
