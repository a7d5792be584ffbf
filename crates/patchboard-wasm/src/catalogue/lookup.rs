//! Finds plugins by name, by the path of their file, and by scanning the folder.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use patchboard_core::plugin::PluginError;

use super::Catalogue;
use super::diff::PluginOrigin;
use super::entry::PluginEntry;
use super::folder::{self, MAX_PLUGINS};
use crate::rights::PluginOptions;

/// Names listed in the error for an unknown plugin.
const MAX_NAMES_LISTED: usize = 20;

impl Catalogue {
    /// Finds a plugin by its name or the path of its file. Other files are never loaded.
    pub(super) async fn find(&self, name_or_path: &str) -> Result<Arc<PluginEntry>, PluginError> {
        if let Some(entry) = self.entry_named(name_or_path) {
            return Ok(entry);
        }
        // The file may have been added since the latest scan.
        self.scan_folder().await;
        if let Some(entry) = self.entry_named(name_or_path) {
            return Ok(entry);
        }
        let entries = self.entries();
        let mut paths = vec![PathBuf::from(name_or_path)];
        paths.extend(self.folder.as_ref().map(|folder| folder.join(name_or_path)));
        let search = tokio::task::spawn_blocking(move || entry_at(&entries, &paths));
        search.await.ok().flatten().ok_or_else(|| self.unknown_plugin(name_or_path))
    }

    pub(super) fn unknown_plugin(&self, name_or_path: &str) -> PluginError {
        let entries = self.entries();
        let names: Vec<&str> = entries.iter().map(|entry| &**entry.name()).take(MAX_NAMES_LISTED).collect();
        let available = match (names.is_empty(), entries.len().saturating_sub(names.len())) {
            (true, _) => "there are none".to_owned(),
            (false, 0) => format!("there are {}", names.join(", ")),
            (false, more) => format!("there are {} and {more} more", names.join(", ")),
        };
        let hint = match &self.folder {
            Some(folder) => format!("; a new one is put into the configuration or into {}", folder.display()),
            None => "; a new one is put into the configuration".to_owned(),
        };
        PluginError::Unknown(format!("no plugin is named, or has the file, `{name_or_path}`: {available}{hint}"))
    }

    /// Adds entries for new files in the folder, without loading them.
    pub(super) async fn scan_folder(&self) {
        let Some(folder) = self.folder.clone() else { return };
        let is_configured = |entry: &&Arc<PluginEntry>| entry.origin == PluginOrigin::Configured;
        let configured: Vec<PathBuf> =
            self.entries().iter().filter(is_configured).map(|entry| entry.files.file.clone()).collect();
        let scanned = folder.clone();
        let Ok(scan) = tokio::task::spawn_blocking(move || folder::scan(&scanned, &configured)).await else { return };
        for warning in &scan.warnings {
            self.warn_once(warning);
        }
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let first = entries.iter().take_while(is_configured).count();
        for (name, file) in scan.found {
            match entries.iter().find(|entry| *entry.name() == name) {
                Some(entry) if entry.origin == PluginOrigin::Configured => self.warn_once(&format!(
                    "{} is ignored: the configuration has a plugin `{name}` with the file {}",
                    file.display(),
                    entry.files.file.display()
                )),
                Some(_) => {}
                None if entries.len() - first >= MAX_PLUGINS => self.warn_once(&format!(
                    "{} has had more than {MAX_PLUGINS} plugins since the server started; further ones are not loaded",
                    folder.display()
                )),
                None => {
                    let at = entries.partition_point(|entry| is_configured(&entry) || *entry.name() < name);
                    entries.insert(at, folder_entry(&folder, name, file));
                }
            }
        }
    }
}

fn folder_entry(folder: &Arc<Path>, name: Arc<str>, file: PathBuf) -> Arc<PluginEntry> {
    let options = PluginOptions {
        name,
        file: file.clone(),
        grants: Vec::new(),
        settings: std::collections::BTreeMap::new(),
        secrets: std::collections::BTreeMap::new(),
        sha256: None,
    };
    PluginEntry::new(PluginOrigin::Folder, folder::plugin_files(folder, file), options)
}

/// Finds the plugin whose file one of the paths resolves to. Blocks.
fn entry_at(entries: &[Arc<PluginEntry>], paths: &[PathBuf]) -> Option<Arc<PluginEntry>> {
    let canonical = |path: &Path| path.canonicalize().ok();
    let resolved: Vec<PathBuf> = paths.iter().filter_map(|path| canonical(path)).collect();
    let has_path = |entry: &&Arc<PluginEntry>| {
        let file = &entry.files.file;
        paths.contains(file) || canonical(file).is_some_and(|file| resolved.contains(&file))
    };
    entries.iter().find(has_path).cloned()
}
