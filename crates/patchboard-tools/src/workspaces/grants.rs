//! Folders outside the configured roots that the operator opens for single runs: which may be granted, and which are
//! open now.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{display_path, existing_prefix, folder_message};
use crate::guard::WriteGuard;

/// Rules for folders that the operator may grant by naming them in a request.
#[derive(Debug, Clone, Default)]
pub struct GrantRules {
    /// The operator's home folder: working in all of it must be configured.
    pub home: Option<PathBuf>,
    /// The data directory and the configuration folder. A folder that contains one of them, or lies in it, is not
    /// granted.
    pub own_folders: Vec<PathBuf>,
    /// Commands are confined to their working folder. If false, tools that write ask for approval first.
    pub commands_are_jailed: bool,
    /// Called with every folder before an agent may write there.
    pub guard: Option<Arc<dyn WriteGuard>>,
}

impl GrantRules {
    /// Why a folder is too wide to work in; `None` if it is not. The text continues a sentence after the folder's name.
    pub fn too_wide(&self, folder: &Path) -> Option<&'static str> {
        let (folder, _) = existing_prefix(folder);
        let home = self.home.as_deref().map(existing_prefix).filter(|(_, exists)| *exists).map(|(home, _)| home);
        let is_home = home.as_ref() == Some(&folder);
        let own_folders: Vec<_> = self.own_folders.iter().map(|own| existing_prefix(own)).collect();
        if folder.parent().is_none() {
            Some("is the whole file system")
        } else if is_home {
            Some("is the whole home folder")
        } else if home.is_some_and(|home| home.starts_with(&folder)) {
            Some("contains the whole home folder")
        } else if own_folders.iter().any(|(own, _)| own.starts_with(&folder)) {
            Some("contains the data directory or the configuration of this server")
        // Of a folder that does not exist yet only an ancestor is known, which contains much else.
        } else if own_folders.iter().any(|(own, exists)| *exists && folder.starts_with(own)) {
            Some("lies in the data directory or the configuration of this server")
        } else {
            None
        }
    }

    pub(super) fn check(&self, folder: &Path) -> Result<(), String> {
        let Some(reason) = self.too_wide(folder) else { return Ok(()) };
        Err(format!(
            "{}; name a folder for agents to work in with `--working-folder DIR`, or open this one to all runs with \
             `runs.allowed_roots` in patchboard.toml",
            folder_message(reason, folder)
        ))
    }
}

/// The error for callers that cannot grant a folder.
pub(super) fn outside_message(folder: &Path) -> String {
    format!(
        "{}; to open it, add it to `runs.allowed_roots` in patchboard.toml, as in `allowed_roots = [\".\", \"{}\"]`, and \
         restart the server",
        folder_message("lies outside the allowed roots", folder),
        display_path(folder)
    )
}

/// Reference counts of the folders that are open now. At most one grant per active run and call.
#[derive(Debug, Default)]
pub(super) struct GrantedFolders(Mutex<BTreeMap<PathBuf, usize>>);

impl GrantedFolders {
    pub(super) fn open(folders: &Arc<Self>, path: &Path) -> FolderLease {
        *folders.lock().entry(path.to_owned()).or_default() += 1;
        FolderLease { folders: folders.clone(), path: path.to_owned() }
    }

    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a folder open; dropping a folder's last lease closes it.
#[derive(Debug)]
pub(super) struct FolderLease {
    folders: Arc<GrantedFolders>,
    path: PathBuf,
}

impl Drop for FolderLease {
    fn drop(&mut self) {
        let mut folders = self.folders.lock();
        if let Some(leases) = folders.get_mut(&self.path) {
            *leases -= 1;
            if *leases == 0 {
                folders.remove(&self.path);
            }
        }
    }
}
