//! Runs before every start of a process that may write, and before every start of a configured program.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use patchboard_config::files::FileLayer;
use patchboard_config::program::GuardedProgram;
use patchboard_tools::guard::{
    FileSealing, ProgramKey, ProgramRights, ReadOnlyMounts, ReducedRights, WriteGuard, WriteProtection, WriteReach,
};

use super::TrustStore;
use super::exposure::{exposure_keys, folder_keys, is_exposed};
use super::pending_trust::pending_changes;
use super::reach::{FileReach, can_change_folder, file_reach, pinned_ancestors};
use super::store::{TrustedPathIndex, TrustedPaths};

mod baseline;
mod holds;

use baseline::{Baseline, GuardedPath};
use holds::FileHolds;

/// Changes shown in a message; the rest is counted.
const MAX_SHOWN_CHANGES: usize = 5;
/// Held files of other configurations. Files past this limit are exposed instead, as each costs a mount in every jail.
const MAX_HELD_OF_OTHERS: usize = 128;

/// All paths that this server executes or reads as configuration.
#[derive(Debug, Default)]
pub(crate) struct GuardedFiles {
    /// Files whose trusted content is stored: configuration and certificates. They may be absent.
    pub(crate) configs: Vec<(PathBuf, FileLayer)>,
    pub(crate) programs: BTreeMap<ProgramName, GuardedProgram>,
    /// Plugins and other single files.
    pub(crate) files: Vec<PathBuf>,
    /// Files that are only protected from writes and need no trust.
    pub(crate) read_only: Vec<PathBuf>,
    /// Files with keys and tokens. Existing ones are inaccessible to every process of the server; an absent one could
    /// be created by such a process.
    pub(crate) secrets: Vec<PathBuf>,
    /// The server's data directory, inaccessible to every process it starts.
    pub(crate) data_dir: PathBuf,
    /// Left out of folder fingerprints: the data directories and the database.
    pub(crate) server_data: Vec<PathBuf>,
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
    guarded: GuardedFiles,
    /// Folders that agents' commands and tools may write to, as real paths; grows with folders granted to single runs.
    agent_roots: Mutex<Vec<PathBuf>>,
    /// What agents' commands may access.
    bash: ReducedRights,
    /// Paths with a record in the store, from any configuration.
    trusted_paths: Mutex<TrustedPathIndex>,
    holds: Arc<FileHolds>,
    /// Serialises recording: a baseline must be recorded before its folder is exposed. Nothing is read or compared
    /// under this lock.
    record_lock: Mutex<()>,
}

/// The consequences of one start.
#[derive(Default)]
struct ExposurePlan {
    mounts: ReadOnlyMounts,
    /// Paths whose baselines must be recorded first: all that the process can change and that are not held.
    baselines_needed: Vec<GuardedPath>,
    /// Held files, with their real paths.
    held: Vec<(GuardedPath, PathBuf)>,
    exposed: BTreeSet<PathBuf>,
    absent_secrets: Vec<PathBuf>,
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
    pub(crate) fn new(store: TrustStore, obeyed: GuardedFiles, agent_roots: Vec<PathBuf>, bash: ReducedRights) -> Self {
        let agent_roots = agent_roots.iter().map(|root| root.canonicalize().unwrap_or_else(|_| root.clone())).collect();
        let holds = FileHolds::new(store.clone(), &obeyed.data_dir);
        Self {
            store,
            guarded: obeyed,
            agent_roots: Mutex::new(agent_roots),
            bash,
            trusted_paths: Mutex::default(),
            holds,
            record_lock: Mutex::default(),
        }
    }

    fn lock_records(&self) -> MutexGuard<'_, ()> {
        self.record_lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trusted_paths(&self) -> TrustedPaths {
        self.trusted_paths.lock().unwrap_or_else(PoisonError::into_inner).current_paths(&self.store)
    }

    fn plan(&self, reach: &WriteReach) -> ExposurePlan {
        let mut plan = ExposurePlan::default();
        // File tools reject configuration files by name.
        let configs = self.guarded.configs.iter().filter(|_| reach.sealed_by != FileSealing::Sealed);
        for (path, layer) in configs {
            plan.add_file(GuardedPath::Content(path.clone(), *layer), reach);
        }
        let programs = self.guarded.programs.values();
        for path in programs.clone().flat_map(|program| &program.files).chain(&self.guarded.files) {
            plan.add_file(GuardedPath::File(path.clone()), reach);
        }
        for folder in programs.flat_map(|program| &program.folders) {
            plan.add_folder(folder, reach);
        }
        // Absence is the trusted state. An existing secret is inaccessible to every started process.
        let absent = self.guarded.secrets.iter().filter(|path| !path.exists());
        for path in absent.filter(|path| file_reach(path, reach) == FileReach::Open) {
            plan.exposed.extend(exposure_keys(path));
            plan.absent_secrets.push(path.clone());
        }
        self.add_trusted_paths(&mut plan, reach);
        plan
    }

    /// Adds paths of other configurations that were ever recorded.
    fn add_trusted_paths(&self, plan: &mut ExposurePlan, reach: &WriteReach) {
        let TrustedPaths { configs, files, folders } = self.trusted_paths();
        let own_configs: BTreeSet<&PathBuf> = self.guarded.configs.iter().map(|(path, _)| path).collect();
        let programs = self.guarded.programs.values();
        let own_files = programs.clone().flat_map(|program| &program.files).chain(&self.guarded.files);
        // Existing secrets of this configuration are inaccessible, and their content is not subject to trust.
        let own_files: BTreeSet<&PathBuf> = own_files.chain(&self.guarded.secrets).collect();
        let own_folders: BTreeSet<&PathBuf> = programs.flat_map(|program| &program.folders).collect();
        let configs = configs.into_iter().filter(|path| !own_configs.contains(path));
        let configs = configs.map(|path| GuardedPath::Content(path, FileLayer::Project));
        let files = files.into_iter().filter(|path| !own_files.contains(path)).map(GuardedPath::File);
        let mut room = MAX_HELD_OF_OTHERS;
        for obeyed in configs.chain(files) {
            // Past the limit the file is treated as one that cannot be held.
            let is_crowded = room == 0 && reach.sealed_by == FileSealing::Existing;
            let reach =
                if is_crowded { &WriteReach { sealed_by: FileSealing::Nothing, ..reach.clone() } } else { reach };
            if plan.add_file(obeyed, reach) == AddOutcome::Held {
                room = room.saturating_sub(1);
            }
        }
        for folder in folders.iter().filter(|folder| !own_folders.contains(folder)) {
            plan.add_folder(folder, reach);
        }
    }

    /// A newly exposed folder may contain other guarded files that have no baseline yet.
    fn add_files_in_newly_exposed_folders(&self, plan: &mut ExposurePlan) {
        let new: BTreeSet<&PathBuf> = plan.exposed.iter().filter(|folder| !self.store.has_exposure(folder)).collect();
        if new.is_empty() {
            return;
        }
        let configs = self.guarded.configs.iter().map(|(path, layer)| GuardedPath::Content(path.clone(), *layer));
        let programs = self.guarded.programs.values();
        let files = programs.clone().flat_map(|program| &program.files).chain(&self.guarded.files);
        let files = files.chain(&self.guarded.secrets).map(|path| GuardedPath::File(path.clone()));
        let folders = programs.flat_map(|program| &program.folders).map(|folder| GuardedPath::Folder(folder.clone()));
        let beside = configs.chain(files).chain(folders);
        let beside: Vec<GuardedPath> =
            beside.filter(|one| one.exposure_keys().iter().any(|key| new.contains(key))).collect();
        for one in beside {
            if !plan.baselines_needed.contains(&one) {
                plan.baselines_needed.push(one);
            }
        }
    }

    /// Writes all records before the process starts. Current content counts as the owner's unless a process could
    /// already have written there, so all baselines are recorded before any exposure, and none is taken again.
    fn record_plan(&self, plan: &ExposurePlan) -> io::Result<Option<holds::HoldGuard>> {
        let held = plan.held.iter().filter(|(_, real)| !self.holds.is_held(real)).map(|(obeyed, _)| obeyed);
        // Read before the lock is taken, as reading may take long; whether a baseline is still valid is checked under
        // the lock.
        let baselines = plan.baselines_needed.iter().chain(held).filter(|obeyed| !obeyed.is_exposed(&self.store));
        let baselines: Vec<Baseline<'_>> =
            baselines.map(|obeyed| obeyed.baseline(&self.store, &self.guarded.server_data)).collect();
        let _turn = self.lock_records();
        for baseline in baselines.iter().filter(|baseline| !baseline.guarded.is_exposed(&self.store)) {
            baseline.record(&self.store)?;
        }
        plan.absent_secrets.iter().try_for_each(|path| self.store.forget_file(path))?;
        let mut new = plan.exposed.iter().filter(|folder| !self.store.has_exposure(folder));
        new.try_for_each(|folder| self.store.expose(folder))?;
        // In an exposed folder a hold mark adds no information.
        let held =
            plan.held.iter().filter(|(obeyed, real)| self.holds.is_held(real) || !obeyed.is_exposed(&self.store));
        let mut held: Vec<PathBuf> = held.map(|(_, real)| real.clone()).collect();
        held.sort();
        held.dedup();
        (!held.is_empty()).then(|| self.holds.acquire(&held)).transpose()
    }

    /// Decides whether a plugin may be loaded. Takes the hash of the bytes already read, so that the content cannot be
    /// exchanged afterwards.
    pub(crate) fn admit_file(&self, path: &Path, sha256: &str) -> Result<(), String> {
        if !is_exposed(&self.store, path) {
            return Ok(());
        }
        let trusted = self.store.file(path);
        let is_trusted =
            trusted.is_some_and(|trusted| trusted.has_content(sha256).unwrap_or_else(|| trusted.matches_disk(path)));
        match is_trusted {
            true => Ok(()),
            false => Err(format!(
                "its file changed where agents may write; look at it and allow it with `patchboard trust {}`",
                path.display()
            )),
        }
    }
}

#[derive(PartialEq, Eq)]
enum AddOutcome {
    Nothing,
    Held,
    Exposed,
}

impl ExposurePlan {
    fn add_file(&mut self, obeyed: GuardedPath, reach: &WriteReach) -> AddOutcome {
        match file_reach(obeyed.path(), reach) {
            FileReach::Outside => AddOutcome::Nothing,
            FileReach::Holdable(real) => {
                self.mounts.pinned.extend(pinned_ancestors(&real, reach));
                self.mounts.files.push(real.clone());
                self.held.push((obeyed, real));
                AddOutcome::Held
            }
            FileReach::Open => {
                self.exposed.extend(exposure_keys(obeyed.path()));
                self.baselines_needed.push(obeyed);
                AddOutcome::Exposed
            }
        }
    }

    fn add_folder(&mut self, folder: &Path, reach: &WriteReach) {
        if can_change_folder(folder, reach) {
            self.exposed.extend(folder_keys(folder));
            self.baselines_needed.push(GuardedPath::Folder(folder.to_owned()));
        }
    }
}

impl WriteGuard for TrustGuard {
    fn before_write(&self, reach: &WriteReach) -> Result<WriteProtection, String> {
        let mut plan = self.plan(reach);
        self.add_files_in_newly_exposed_folders(&mut plan);
        let hold = self.record_plan(&plan).map_err(|error| record_failure_message(&error))?;
        let mut mounts = plan.mounts;
        for path in &self.guarded.read_only {
            if let FileReach::Holdable(real) = file_reach(path, reach) {
                mounts.pinned.extend(pinned_ancestors(&real, reach));
                mounts.files.push(real);
            }
        }
        for list in [&mut mounts.pinned, &mut mounts.files] {
            list.sort();
            list.dedup();
        }
        Ok(WriteProtection { mounts, lease: hold.map(|hold| Box::new(hold) as _) })
    }

    fn admit(&self, key: ProgramKey<'_>) -> Result<ProgramRights, String> {
        let Some(program) = self.guarded.programs.get(&ProgramName::of(key)) else { return Ok(ProgramRights::Full) };
        let waiting = pending_changes(&self.store, program, &self.guarded.server_data);
        if !waiting.is_empty() {
            let more = waiting.len().saturating_sub(MAX_SHOWN_CHANGES);
            let mut shown: Vec<String> = waiting.into_iter().take(MAX_SHOWN_CHANGES).collect();
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
            return Ok(ProgramRights::Full);
        }
        let mut rights = self.bash.clone();
        rights.readable.extend(program.readable.iter().cloned());
        Ok(ProgramRights::Reduced(rights))
    }

    fn is_agent_writable(&self, path: &Path) -> bool {
        let roots = self.agent_roots.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let reach = WriteReach { roots, sealed_by: FileSealing::Nothing };
        file_reach(path, &reach) != FileReach::Outside
    }

    /// Valid until this process ends, since what an agent wrote there stays. After that, the records of exposed folders
    /// have the same effect.
    fn mark_agent_writable(&self, folder: &Path) {
        let mut roots = self.agent_roots.lock().unwrap_or_else(PoisonError::into_inner);
        if !roots.iter().any(|root| folder.starts_with(root)) {
            roots.push(folder.to_owned());
        }
    }
}

fn record_failure_message(error: &io::Error) -> String {
    format!("not started, because it cannot be recorded which files of the server it could change: {error}")
}

#[cfg(test)]
mod tests;
