//! Asked before everything that may write starts, and before every start of a configured program.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use patchboard_tools::guard::{
    Admission, HeldFiles, ProgramKey, ReadOnlyMounts, ReducedRights, WriteGuard, WriteReach,
};

use super::TrustStore;
use super::config_file::exposure_keys;
use super::fingerprint::{FileStamp, FolderPrint};
use super::program::ObeyedProgram;
use super::reach::{FileReach, file_reach, pinned, touches_folder};
use crate::config::files::FileLayer;

/// Differences that a message shows; the rest is counted.
const SHOWN: usize = 5;

/// Everything that this server executes or obeys.
#[derive(Debug, Default)]
pub(crate) struct ObeyedFiles {
    /// Files whose trusted content is kept: configuration and certificates. Existing or not.
    pub(crate) configs: Vec<(PathBuf, FileLayer)>,
    pub(crate) programs: BTreeMap<ProgramName, ObeyedProgram>,
    /// Plugins and other single files.
    pub(crate) files: Vec<PathBuf>,
    /// Files that are kept from being written to, and need nobody's trust.
    pub(crate) held: Vec<PathBuf>,
    /// Files with keys and tokens. Those that exist are closed to everything the server runs; one that is absent could be
    /// made by what it runs.
    pub(crate) secrets: Vec<PathBuf>,
}

/// A configured program, by its table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ProgramName {
    WorkerPool(String),
    McpServer(String),
}

#[derive(Debug)]
pub(crate) struct TrustGuard {
    store: TrustStore,
    obeyed: ObeyedFiles,
    /// Folders that agents' commands and tools may write to, real paths.
    agent_roots: Vec<PathBuf>,
    /// What commands of agents may reach.
    bash: ReducedRights,
    /// One at a time: a baseline is taken before its folder is exposed.
    turn: Mutex<()>,
}

impl ProgramName {
    fn of(key: ProgramKey<'_>) -> Self {
        match key {
            ProgramKey::WorkerPool(name) => Self::WorkerPool(name.to_owned()),
            ProgramKey::McpServer(name) => Self::McpServer(name.to_owned()),
        }
    }
}

impl TrustGuard {
    pub(crate) fn new(store: TrustStore, obeyed: ObeyedFiles, agent_roots: Vec<PathBuf>, bash: ReducedRights) -> Self {
        let agent_roots = agent_roots.iter().map(|root| root.canonicalize().unwrap_or_else(|_| root.clone())).collect();
        Self { store, obeyed, agent_roots, bash, turn: Mutex::default() }
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the folders as exposed. What lies in them until now is its owner's, so all baselines come first.
    fn expose(&self, folders: BTreeSet<PathBuf>) -> Result<(), String> {
        let new: BTreeSet<PathBuf> = folders.into_iter().filter(|folder| !self.store.is_exposed(folder)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let recorded =
            self.take_baselines(&new).and_then(|()| new.iter().try_for_each(|folder| self.store.expose(folder)));
        recorded.map_err(|error| not_recorded(&error))
    }

    fn take_baselines(&self, folders: &BTreeSet<PathBuf>) -> io::Result<()> {
        let lies_in = |path: &&PathBuf| exposure_keys(path).iter().any(|folder| folders.contains(folder));
        for (path, layer) in self.obeyed.configs.iter().filter(|(path, _)| lies_in(&path)) {
            self.config_baseline(path, *layer)?;
        }
        let programs = self.obeyed.programs.values();
        let files = programs.clone().flat_map(|program| &program.files).chain(&self.obeyed.files);
        let files = files.chain(&self.obeyed.secrets);
        files.filter(lies_in).try_for_each(|path| trust_file(&self.store, path))?;
        let prints = programs.flat_map(|program| &program.folders).filter(|folder| folders.contains(*folder));
        prints.collect::<BTreeSet<_>>().into_iter().try_for_each(|folder| trust_folder(&self.store, folder))
    }

    fn config_baseline(&self, path: &Path, layer: FileLayer) -> io::Result<()> {
        // A project file that nobody trusted must not become trusted by a command that runs beside it.
        let is_known = self.store.config(path).is_some();
        match std::fs::read_to_string(path) {
            Ok(text) if is_known || layer != FileLayer::Project => self.store.trust_config(path, &text),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The folders in which the process could put a secret that is not there. That it is absent is what is trusted.
    fn expose_absent_secrets(&self, reach: &WriteReach) -> Result<BTreeSet<PathBuf>, String> {
        let absent = self.obeyed.secrets.iter().filter(|path| !path.exists());
        let mut exposed = BTreeSet::new();
        for path in absent.filter(|path| file_reach(path, reach) == FileReach::Open) {
            self.store.forget_file(path).map_err(|error| not_recorded(&error))?;
            exposed.extend(exposure_keys(path));
        }
        Ok(exposed)
    }

    /// May this plugin be loaded? Asked with the hash of what was read, so that no other content can take its place.
    pub(crate) fn admit_file(&self, path: &Path, sha256: &str) -> Result<(), String> {
        let _turn = self.turn();
        if !is_exposed(&self.store, path) {
            return Ok(());
        }
        let is_trusted = self
            .store
            .file(path)
            .is_some_and(|trusted| trusted.has_content(sha256).unwrap_or_else(|| trusted.still_holds(path)));
        match is_trusted {
            true => Ok(()),
            false => Err(format!(
                "its file changed where agents may write; look at it and allow it with `patchboard trust {}`",
                path.display()
            )),
        }
    }

    fn is_agent_writable(&self, path: &Path) -> bool {
        let reach = WriteReach { roots: self.agent_roots.clone(), held: HeldFiles::Nothing };
        file_reach(path, &reach) != FileReach::Outside
    }
}

impl WriteGuard for TrustGuard {
    fn before_write(&self, reach: &WriteReach) -> Result<ReadOnlyMounts, String> {
        let _turn = self.turn();
        let mut mounts = ReadOnlyMounts::default();
        let mut exposed = BTreeSet::new();
        let configs = self.obeyed.configs.iter();
        // A project file that was never trusted is not obeyed, whatever becomes of it.
        let configs = configs.filter(|(path, layer)| *layer != FileLayer::Project || self.store.config(path).is_some());
        // File tools refuse these by name.
        let configs = configs.filter(|_| reach.held != HeldFiles::Sealed);
        let programs = self.obeyed.programs.values();
        let files = programs.clone().flat_map(|program| &program.files).chain(&self.obeyed.files);
        for path in configs.map(|(path, _)| path).chain(files) {
            match file_reach(path, reach) {
                FileReach::Outside => {}
                FileReach::Holdable(real) => {
                    mounts.pinned.extend(pinned(&real, reach));
                    mounts.files.push(real);
                }
                FileReach::Open => exposed.extend(exposure_keys(path)),
            }
        }
        for path in &self.obeyed.held {
            if let FileReach::Holdable(real) = file_reach(path, reach) {
                mounts.pinned.extend(pinned(&real, reach));
                mounts.files.push(real);
            }
        }
        exposed.extend(programs.flat_map(|program| &program.folders).filter(|one| touches_folder(one, reach)).cloned());
        exposed.extend(self.expose_absent_secrets(reach)?);
        self.expose(exposed)?;
        for list in [&mut mounts.pinned, &mut mounts.files] {
            list.sort();
            list.dedup();
        }
        Ok(mounts)
    }

    fn admit(&self, key: ProgramKey<'_>) -> Result<Admission, String> {
        let Some(program) = self.obeyed.programs.get(&ProgramName::of(key)) else { return Ok(Admission::Full) };
        let _turn = self.turn();
        let waiting = waiting(&self.store, program);
        if !waiting.is_empty() {
            let more = waiting.len().saturating_sub(SHOWN);
            let mut shown: Vec<String> = waiting.into_iter().take(SHOWN).collect();
            if more > 0 {
                shown.push(format!("{more} more"));
            }
            return Err(format!(
                "its code changed where agents may write ({}); look at it and allow it with `patchboard trust`",
                shown.join("; ")
            ));
        }
        let mut code = program.files.iter().chain(&program.folders);
        if !code.any(|path| path.exists() && self.is_agent_writable(path)) {
            return Ok(Admission::Full);
        }
        let mut rights = self.bash.clone();
        rights.readable.extend(program.readable.iter().cloned());
        Ok(Admission::Reduced(rights))
    }
}

fn not_recorded(error: &io::Error) -> String {
    format!("not started, because it cannot be recorded which files of the server it could change: {error}")
}

fn is_exposed(store: &TrustStore, path: &Path) -> bool {
    exposure_keys(path).iter().any(|folder| store.is_exposed(folder))
}

/// Why a file with a secret is not used: it appeared where agents may write.
pub(crate) fn waiting_secret(store: &TrustStore, path: &Path) -> Option<String> {
    let is_planted = path.exists() && is_exposed(store, path) && store.file(path).is_none();
    is_planted.then(|| format!("never trusted: {}", path.display()))
}

/// What of a program changed in exposed folders and has not been trusted. What changed elsewhere is recorded as its owner's.
pub(crate) fn waiting(store: &TrustStore, program: &ObeyedProgram) -> Vec<String> {
    let files = program.files.iter().flat_map(|path| waiting_file(store, path));
    let folders = program.folders.iter().flat_map(|folder| {
        if !store.is_exposed(folder) {
            return Vec::new();
        }
        match store.folder(folder) {
            Some(trusted) => {
                let differences = trusted.differences(folder).into_iter();
                differences.map(|line| format!("{line} in {}", folder.display())).collect()
            }
            None => vec![format!("never trusted: {}", folder.display())],
        }
    });
    files.chain(folders).collect()
}

/// The same of one file.
pub(crate) fn waiting_file(store: &TrustStore, path: &Path) -> Option<String> {
    if !is_exposed(store, path) {
        return None;
    }
    match store.file(path) {
        Some(stamp) if stamp.still_holds(path) => None,
        Some(_) => Some(format!("changed {}", path.display())),
        // Absent then and now: there is nothing to start.
        None if !path.exists() => None,
        None => Some(format!("never trusted: {}", path.display())),
    }
}

/// Records a program as it is now.
pub(crate) fn trust_program(store: &TrustStore, program: &ObeyedProgram) -> io::Result<()> {
    program.files.iter().try_for_each(|path| trust_file(store, path))?;
    program.folders.iter().try_for_each(|folder| trust_folder(store, folder))
}

fn trust_folder(store: &TrustStore, folder: &Path) -> io::Result<()> {
    store.trust_folder(folder, &FolderPrint::of(folder))
}

pub(crate) fn trust_file(store: &TrustStore, path: &Path) -> io::Result<()> {
    match FileStamp::of(path) {
        Ok(stamp) => store.trust_file(path, &stamp),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
