//! A folder of its own for each test, and one way to load from it.

use std::{fs, path::PathBuf};

use patchboard_config::{Config, Environment, FlagOverride, LoadRequest, LoadedConfig};
use tempfile::TempDir;

/// What passes for a certificate, and for its key.
pub(crate) const PEM: &str = "-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n";

/// A temporary home with a project folder in it, where commands are started.
pub(crate) struct Bench {
    folder: TempDir,
    variables: Vec<(String, String)>,
    overrides: Vec<FlagOverride>,
    config_path: Option<PathBuf>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("project")).unwrap();
        let home = folder.path().display().to_string();
        Self { folder, variables: vec![("HOME".to_owned(), home)], overrides: Vec::new(), config_path: None }
    }

    /// A bench whose project has this `patchboard.toml`.
    pub(crate) fn with_file(text: &str) -> Self {
        Self::new().file("project/patchboard.toml", text)
    }

    /// A bench whose user has this `patchboard.toml`.
    pub(crate) fn with_users_file(text: &str) -> Self {
        Self::new().file(".config/patchboard/patchboard.toml", text)
    }

    pub(crate) fn file(self, path: &str, text: &str) -> Self {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn folder(self, path: &str) -> Self {
        fs::create_dir_all(self.folder.path().join(path)).unwrap();
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn without_home(mut self) -> Self {
        self.variables.retain(|(name, _)| name != "HOME");
        self
    }

    pub(crate) fn config(mut self, path: &str) -> Self {
        self.config_path = Some(PathBuf::from(path));
        self
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    pub(crate) fn environment(&self) -> Environment {
        self.variables.iter().cloned().collect()
    }

    pub(crate) fn request(&self) -> LoadRequest {
        LoadRequest {
            overrides: self.overrides.clone(),
            ..LoadRequest::new(self.config_path.clone(), self.environment(), self.path("project"))
        }
    }

    pub(crate) fn load(&self) -> LoadedConfig {
        Config::load(self.request()).unwrap()
    }

    /// Everything `config check` complains about.
    pub(crate) fn complaints(&self) -> String {
        self.tidy(&patchboard_config::report::check(self.request()).problems.to_string())
    }

    /// The text with the temporary folder shown as `~`.
    pub(crate) fn tidy(&self, text: &str) -> String {
        text.replace(&self.folder.path().display().to_string(), "~")
    }
}
