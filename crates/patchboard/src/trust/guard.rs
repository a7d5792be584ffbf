//! Asked before everything that may write starts, and before every start of a configured program.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use patchboard_tools::guard::{
    Admission, HeldFiles, Kept, ProgramKey, ReadOnlyMounts, ReducedRights, WriteGuard, WriteReach,
};

use super::TrustStore;
use super::exposure::{exposure_keys, folder_keys, is_exposed};
use super::program::ObeyedProgram;
use super::reach::{FileReach, file_reach, pinned, touches_folder};
use super::store::{Vouched, VouchedPaths};
use super::waiting::waiting;
use crate::config::files::FileLayer;

mod baseline;
mod holds;

use baseline::{Baseline, Obeyed};
use holds::Holds;

/// Differences that a message shows; the rest is counted.
const SHOWN: usize = 5;
/// Of other configurations. What is beyond is exposed instead: each costs a mount in every jail.
const MAX_HELD_OF_OTHERS: usize = 128;

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
    /// The server's own: closed to everything it runs.
    pub(crate) data_dir: PathBuf,
    /// Left out of prints of folders: the data directories and the database.
    pub(crate) own: Vec<PathBuf>,
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
    /// Folders that agents' commands and tools may write to, real paths; grows with what is granted to single runs.
    agent_roots: Mutex<Vec<PathBuf>>,
    /// What commands of agents may reach.
    bash: ReducedRights,
    /// What the store vouches for, of whatever configuration.
    vouched: Mutex<VouchedPaths>,
    holds: Arc<Holds>,
    /// One at a time: a baseline is recorded before its folder is exposed. Nothing is read or compared meanwhile.
    turn: Mutex<()>,
}

/// What comes of a start.
#[derive(Default)]
struct Plan {
    mounts: ReadOnlyMounts,
    /// What is to be on record before: everything that the process could change, were it not held, and could.
    touched: Vec<Obeyed>,
    /// Held, by their real paths.
    held: Vec<(Obeyed, PathBuf)>,
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
    pub(crate) fn new(store: TrustStore, obeyed: ObeyedFiles, agent_roots: Vec<PathBuf>, bash: ReducedRights) -> Self {
        let agent_roots = agent_roots.iter().map(|root| root.canonicalize().unwrap_or_else(|_| root.clone())).collect();
        let holds = Holds::new(store.clone(), &obeyed.data_dir);
        Self {
            store,
            obeyed,
            agent_roots: Mutex::new(agent_roots),
            bash,
            vouched: Mutex::default(),
            holds,
            turn: Mutex::default(),
        }
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn vouched(&self) -> Vouched {
        self.vouched.lock().unwrap_or_else(PoisonError::into_inner).now(&self.store)
    }

    fn plan(&self, reach: &WriteReach) -> Plan {
        let mut plan = Plan::default();
        // File tools refuse these by name.
        let configs = self.obeyed.configs.iter().filter(|_| reach.held != HeldFiles::Sealed);
        for (path, layer) in configs {
            plan.add_file(Obeyed::Content(path.clone(), *layer), reach);
        }
        let programs = self.obeyed.programs.values();
        for path in programs.clone().flat_map(|program| &program.files).chain(&self.obeyed.files) {
            plan.add_file(Obeyed::File(path.clone()), reach);
        }
        for folder in programs.flat_map(|program| &program.folders) {
            plan.add_folder(folder, reach);
        }
        // That it is absent is what is trusted. One that exists is closed to everything that is started.
        let absent = self.obeyed.secrets.iter().filter(|path| !path.exists());
        for path in absent.filter(|path| file_reach(path, reach) == FileReach::Open) {
            plan.exposed.extend(exposure_keys(path));
            plan.absent_secrets.push(path.clone());
        }
        self.add_vouched(&mut plan, reach);
        plan
    }

    /// What other configurations obey, as far as it was ever on record.
    fn add_vouched(&self, plan: &mut Plan, reach: &WriteReach) {
        let Vouched { configs, files, folders } = self.vouched();
        let own_configs: BTreeSet<&PathBuf> = self.obeyed.configs.iter().map(|(path, _)| path).collect();
        let programs = self.obeyed.programs.values();
        let own_files = programs.clone().flat_map(|program| &program.files).chain(&self.obeyed.files);
        // Those of this configuration that exist are closed, and are not obeyed by what they hold.
        let own_files: BTreeSet<&PathBuf> = own_files.chain(&self.obeyed.secrets).collect();
        let own_folders: BTreeSet<&PathBuf> = programs.flat_map(|program| &program.folders).collect();
        let configs = configs.into_iter().filter(|path| !own_configs.contains(path));
        let configs = configs.map(|path| Obeyed::Content(path, FileLayer::Project));
        let files = files.into_iter().filter(|path| !own_files.contains(path)).map(Obeyed::File);
        let mut room = MAX_HELD_OF_OTHERS;
        for obeyed in configs.chain(files) {
            let is_crowded = room == 0 && reach.held == HeldFiles::Existing;
            let reach = if is_crowded { &WriteReach { held: HeldFiles::Nothing, ..reach.clone() } } else { reach };
            if plan.add_file(obeyed, reach) == Added::Held {
                room = room.saturating_sub(1);
            }
        }
        for folder in folders.iter().filter(|folder| !own_folders.contains(folder)) {
            plan.add_folder(folder, reach);
        }
    }

    /// A folder that becomes exposed may be that of other obeyed files too, of which nothing is on record yet.
    fn complete(&self, plan: &mut Plan) {
        let new: BTreeSet<&PathBuf> = plan.exposed.iter().filter(|folder| !self.store.has_exposure(folder)).collect();
        if new.is_empty() {
            return;
        }
        let configs = self.obeyed.configs.iter().map(|(path, layer)| Obeyed::Content(path.clone(), *layer));
        let programs = self.obeyed.programs.values();
        let files = programs.clone().flat_map(|program| &program.files).chain(&self.obeyed.files);
        let files = files.chain(&self.obeyed.secrets).map(|path| Obeyed::File(path.clone()));
        let folders = programs.flat_map(|program| &program.folders).map(|folder| Obeyed::Folder(folder.clone()));
        let beside = configs.chain(files).chain(folders);
        let beside: Vec<Obeyed> = beside.filter(|one| one.keys().iter().any(|key| new.contains(key))).collect();
        for one in beside {
            if !plan.touched.contains(&one) {
                plan.touched.push(one);
            }
        }
    }

    /// Everything on record before the process exists. What lies there until now is its owner's, unless something could have
    /// written there before: so all baselines come first, and none is taken anew.
    fn record(&self, plan: &Plan) -> io::Result<Option<holds::Hold>> {
        let held = plan.held.iter().filter(|(_, real)| !self.holds.has(real)).map(|(obeyed, _)| obeyed);
        // Read before it is anybody's turn, for it may take long; whether it still counts is decided then.
        let baselines = plan.touched.iter().chain(held).filter(|obeyed| !obeyed.is_exposed(&self.store));
        let baselines: Vec<Baseline<'_>> =
            baselines.map(|obeyed| obeyed.baseline(&self.store, &self.obeyed.own)).collect();
        let _turn = self.turn();
        for baseline in baselines.iter().filter(|baseline| !baseline.of.is_exposed(&self.store)) {
            baseline.record(&self.store)?;
        }
        plan.absent_secrets.iter().try_for_each(|path| self.store.forget_file(path))?;
        let mut new = plan.exposed.iter().filter(|folder| !self.store.has_exposure(folder));
        new.try_for_each(|folder| self.store.expose(folder))?;
        // In an exposed folder a mark would say nothing more.
        let held = plan.held.iter().filter(|(obeyed, real)| self.holds.has(real) || !obeyed.is_exposed(&self.store));
        let mut held: Vec<PathBuf> = held.map(|(_, real)| real.clone()).collect();
        held.sort();
        held.dedup();
        (!held.is_empty()).then(|| self.holds.take(&held)).transpose()
    }

    /// May this plugin be loaded? Asked with the hash of what was read, so that no other content can take its place.
    pub(crate) fn admit_file(&self, path: &Path, sha256: &str) -> Result<(), String> {
        if !is_exposed(&self.store, path) {
            return Ok(());
        }
        let trusted = self.store.file(path);
        let is_trusted =
            trusted.is_some_and(|trusted| trusted.has_content(sha256).unwrap_or_else(|| trusted.still_holds(path)));
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
enum Added {
    Nothing,
    Held,
    Exposed,
}

impl Plan {
    fn add_file(&mut self, obeyed: Obeyed, reach: &WriteReach) -> Added {
        match file_reach(obeyed.path(), reach) {
            FileReach::Outside => Added::Nothing,
            FileReach::Holdable(real) => {
                self.mounts.pinned.extend(pinned(&real, reach));
                self.mounts.files.push(real.clone());
                self.held.push((obeyed, real));
                Added::Held
            }
            FileReach::Open => {
                self.exposed.extend(exposure_keys(obeyed.path()));
                self.touched.push(obeyed);
                Added::Exposed
            }
        }
    }

    fn add_folder(&mut self, folder: &Path, reach: &WriteReach) {
        if touches_folder(folder, reach) {
            self.exposed.extend(folder_keys(folder));
            self.touched.push(Obeyed::Folder(folder.to_owned()));
        }
    }
}

impl WriteGuard for TrustGuard {
    fn before_write(&self, reach: &WriteReach) -> Result<Kept, String> {
        let mut plan = self.plan(reach);
        self.complete(&mut plan);
        let hold = self.record(&plan).map_err(|error| not_recorded(&error))?;
        let mut mounts = plan.mounts;
        for path in &self.obeyed.held {
            if let FileReach::Holdable(real) = file_reach(path, reach) {
                mounts.pinned.extend(pinned(&real, reach));
                mounts.files.push(real);
            }
        }
        for list in [&mut mounts.pinned, &mut mounts.files] {
            list.sort();
            list.dedup();
        }
        Ok(Kept { mounts, while_it_runs: hold.map(|hold| Box::new(hold) as _) })
    }

    fn admit(&self, key: ProgramKey<'_>) -> Result<Admission, String> {
        let Some(program) = self.obeyed.programs.get(&ProgramName::of(key)) else { return Ok(Admission::Full) };
        let waiting = waiting(&self.store, program, &self.obeyed.own);
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

    fn is_agent_writable(&self, path: &Path) -> bool {
        let roots = self.agent_roots.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let reach = WriteReach { roots, held: HeldFiles::Nothing };
        file_reach(path, &reach) != FileReach::Outside
    }

    /// Counts until this process ends, since what an agent wrote there stays. After that, the records of exposed folders say
    /// as much.
    fn open_to_agents(&self, folder: &Path) {
        let mut roots = self.agent_roots.lock().unwrap_or_else(PoisonError::into_inner);
        if !roots.iter().any(|root| folder.starts_with(root)) {
            roots.push(folder.to_owned());
        }
    }
}

fn not_recorded(error: &io::Error) -> String {
    format!("not started, because it cannot be recorded which files of the server it could change: {error}")
}

#[cfg(test)]
mod tests;
