//! Asked before everything that may write starts, and before every start of a configured program.

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

/// Differences that a message shows; the rest is counted.
const MAX_SHOWN_CHANGES: usize = 5;
/// Of other configurations. What is beyond is exposed instead: each costs a mount in every jail.
const MAX_HELD_OF_OTHERS: usize = 128;

/// Everything that this server executes or obeys.
#[derive(Debug, Default)]
pub(crate) struct GuardedFiles {
    /// Files whose trusted content is kept: configuration and certificates. Existing or not.
    pub(crate) configs: Vec<(PathBuf, FileLayer)>,
    pub(crate) programs: BTreeMap<ProgramName, GuardedProgram>,
    /// Plugins and other single files.
    pub(crate) files: Vec<PathBuf>,
    /// Files that are kept from being written to, and need nobody's trust.
    pub(crate) read_only: Vec<PathBuf>,
    /// Files with keys and tokens. Those that exist are closed to everything the server runs; one that is absent could be
    /// made by what it runs.
    pub(crate) secrets: Vec<PathBuf>,
    /// The server's own: closed to everything it runs.
    pub(crate) data_dir: PathBuf,
    /// Left out of prints of folders: the data directories and the database.
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
    /// Folders that agents' commands and tools may write to, real paths; grows with what is granted to single runs.
    agent_roots: Mutex<Vec<PathBuf>>,
    /// What commands of agents may reach.
    bash: ReducedRights,
    /// What the store vouches for, of whatever configuration.
    trusted_paths: Mutex<TrustedPathIndex>,
    holds: Arc<FileHolds>,
    /// One at a time: a baseline is recorded before its folder is exposed. Nothing is read or compared meanwhile.
    record_lock: Mutex<()>,
}

/// What comes of a start.
#[derive(Default)]
struct ExposurePlan {
    mounts: ReadOnlyMounts,
    /// What is to be on record before: everything that the process could change, were it not held, and could.
    baselines_needed: Vec<GuardedPath>,
    /// Held, by their real paths.
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
        // File tools refuse these by name.
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
        // That it is absent is what is trusted. One that exists is closed to everything that is started.
        let absent = self.guarded.secrets.iter().filter(|path| !path.exists());
        for path in absent.filter(|path| file_reach(path, reach) == FileReach::Open) {
            plan.exposed.extend(exposure_keys(path));
            plan.absent_secrets.push(path.clone());
        }
        self.add_trusted_paths(&mut plan, reach);
        plan
    }

    /// What other configurations obey, as far as it was ever on record.
    fn add_trusted_paths(&self, plan: &mut ExposurePlan, reach: &WriteReach) {
        let TrustedPaths { configs, files, folders } = self.trusted_paths();
        let own_configs: BTreeSet<&PathBuf> = self.guarded.configs.iter().map(|(path, _)| path).collect();
        let programs = self.guarded.programs.values();
        let own_files = programs.clone().flat_map(|program| &program.files).chain(&self.guarded.files);
        // Those of this configuration that exist are closed, and are not obeyed by what they hold.
        let own_files: BTreeSet<&PathBuf> = own_files.chain(&self.guarded.secrets).collect();
        let own_folders: BTreeSet<&PathBuf> = programs.flat_map(|program| &program.folders).collect();
        let configs = configs.into_iter().filter(|path| !own_configs.contains(path));
        let configs = configs.map(|path| GuardedPath::Content(path, FileLayer::Project));
        let files = files.into_iter().filter(|path| !own_files.contains(path)).map(GuardedPath::File);
        let mut room = MAX_HELD_OF_OTHERS;
        for obeyed in configs.chain(files) {
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

    /// A folder that becomes exposed may be that of other obeyed files too, of which nothing is on record yet.
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

    /// Everything on record before the process exists. What lies there until now is its owner's, unless something could have
    /// written there before: so all baselines come first, and none is taken anew.
    fn record_plan(&self, plan: &ExposurePlan) -> io::Result<Option<holds::HoldGuard>> {
        let held = plan.held.iter().filter(|(_, real)| !self.holds.is_held(real)).map(|(obeyed, _)| obeyed);
        // Read before it is anybody's turn, for it may take long; whether it still counts is decided then.
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
        // In an exposed folder a mark would say nothing more.
        let held =
            plan.held.iter().filter(|(obeyed, real)| self.holds.is_held(real) || !obeyed.is_exposed(&self.store));
        let mut held: Vec<PathBuf> = held.map(|(_, real)| real.clone()).collect();
        held.sort();
        held.dedup();
        (!held.is_empty()).then(|| self.holds.acquire(&held)).transpose()
    }

    /// May this plugin be loaded? Asked with the hash of what was read, so that no other content can take its place.
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

    /// Counts until this process ends, since what an agent wrote there stays. After that, the records of exposed folders say
    /// as much.
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
