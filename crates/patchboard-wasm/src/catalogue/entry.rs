//! One plugin the catalogue knows: which version is at work, which one waits, and what is wrong with its file.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use patchboard_core::plugin::{PluginGrant, PluginReport, PluginState};

use super::diff::{PluginChange, PluginOrigin, covers};
use super::file::{FilesSnapshot, PluginFiles};
use super::pins::PluginPin;
use super::version::PluginVersion;
use crate::rights::PluginOptions;

/// Versions whose last calls are waited for. What is called on an older one is not counted any more.
const MAX_DRAINING: usize = 16;

#[derive(Debug)]
pub(super) struct PluginEntry {
    pub(super) origin: PluginOrigin,
    pub(super) files: PluginFiles,
    /// As the configuration has it; a plugin of the folder gets its grants and settings from the file beside it.
    pub(super) options: PluginOptions,
    /// One load, or approval, at a time.
    pub(super) change_lock: tokio::sync::Mutex<()>,
    state: Mutex<EntryState>,
}

#[derive(Debug, Default)]
pub(super) struct EntryState {
    pub(super) active: Option<ActiveVersion>,
    pub(super) pending: Option<UnapprovedVersion>,
    /// What is wrong with the newest file.
    pub(super) problem: Option<Arc<str>>,
    /// The hash of the newest file that could be read.
    pub(super) last_sha256: Option<Arc<str>>,
    pub(super) is_loading: bool,
    /// By the operator: it stays away whatever becomes of its file.
    pub(super) is_unloaded: bool,
    pub(super) is_file_missing: bool,
    /// What the files looked like when they were last loaded, or found to be of no use.
    pub(super) last_tried: Option<FilesSnapshot>,
    /// What the last look showed.
    pub(super) last_snapshot: Option<FilesSnapshot>,
    retired: RetiredVersions,
}

/// Versions that are no longer at work.
#[derive(Debug, Default)]
struct RetiredVersions {
    /// Those that may still have calls to end.
    draining: Vec<Arc<dyn PluginVersion>>,
    /// Calls of all others, and those that broke.
    calls: u64,
    failures: u64,
}

#[derive(Debug, Clone)]
pub(super) struct ActiveVersion {
    pub(super) version: Arc<dyn PluginVersion>,
    pub(super) config: GrantsAndSettings,
    since: Timestamp,
}

/// A version that wants more than was approved.
#[derive(Debug, Clone)]
pub(super) struct UnapprovedVersion {
    pub(super) version: Arc<dyn PluginVersion>,
    pub(super) config: GrantsAndSettings,
    pub(super) pin: PluginPin,
    pub(super) changes: Vec<PluginChange>,
}

/// What a plugin is given besides its own file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct GrantsAndSettings {
    pub(super) grants: Vec<PluginGrant>,
    pub(super) settings: BTreeMap<String, String>,
}

/// What became of a version that was to go to work.
#[derive(Debug)]
pub(super) enum ActivationOutcome {
    Activated {
        replaced: Option<Arc<str>>,
    },
    /// The operator unloaded the plugin in the meantime.
    AlreadyUnloaded,
}

impl PluginEntry {
    pub(super) fn new(origin: PluginOrigin, place: PluginFiles, options: PluginOptions) -> Arc<Self> {
        Arc::new(Self {
            origin,
            files: place,
            options,
            change_lock: tokio::sync::Mutex::default(),
            state: Mutex::default(),
        })
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.options.name
    }

    pub(super) fn state(&self) -> MutexGuard<'_, EntryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn version(&self) -> Option<Arc<dyn PluginVersion>> {
        self.state().active.as_ref().map(|work| work.version.clone())
    }

    /// Is that very content at work already, given the same?
    pub(super) fn is_active(&self, sha256: &str, given: &GrantsAndSettings) -> bool {
        self.state().active.as_ref().is_some_and(|work| **work.version.sha256() == *sha256 && work.config == *given)
    }

    /// Says that a load is under way, until it is dropped.
    pub(super) fn loading(&self) -> LoadingGuard<'_> {
        self.state().is_loading = true;
        LoadingGuard(self)
    }

    pub(super) fn activate(
        &self,
        version: Arc<dyn PluginVersion>,
        given: GrantsAndSettings,
        since: Timestamp,
    ) -> ActivationOutcome {
        let mut state = self.state();
        if state.is_unloaded {
            return ActivationOutcome::AlreadyUnloaded;
        }
        state.pending = None;
        state.problem = None;
        state.is_file_missing = false;
        let replaced = state.retire();
        state.active = Some(ActiveVersion { version, config: given, since });
        ActivationOutcome::Activated { replaced }
    }

    /// An earlier version goes on working, unless it may reach what the new one was not even given.
    pub(super) fn hold_for_approval(&self, held: UnapprovedVersion) {
        let mut state = self.state();
        if state.is_unloaded {
            return;
        }
        let is_given = |grant: &PluginGrant| held.config.grants.iter().any(|now| covers(now, grant));
        if !state.active.as_ref().is_some_and(|work| work.config.grants.iter().all(is_given)) {
            state.retire();
        }
        state.problem = None;
        state.is_file_missing = false;
        state.pending = Some(held);
    }

    /// The newest file is of no use. A version at work goes on working. Answers whether that was not known before.
    pub(super) fn reject_file(&self, problem: &str) -> bool {
        let mut state = self.state();
        state.pending = None;
        state.is_file_missing = false;
        let known = state.problem.replace(problem.into());
        known.as_deref() != Some(problem)
    }

    /// What the configuration names goes on working without its file; what is in the folder is there by being there.
    pub(super) fn mark_file_missing(&self) {
        let mut state = self.state();
        state.pending = None;
        state.problem = Some("its file is gone".into());
        state.is_file_missing = true;
        if self.origin == PluginOrigin::Folder {
            state.retire();
        }
    }

    /// The file is what is at work.
    pub(super) fn mark_current(&self) {
        let mut state = self.state();
        state.pending = None;
        state.problem = None;
        state.is_file_missing = false;
    }

    pub(super) fn unload(&self) {
        let mut state = self.state();
        state.is_unloaded = true;
        state.retire();
        state.pending = None;
        state.problem = None;
    }

    /// Why nobody can call it now. A fragment that follows its name.
    pub(super) fn unavailable_reason(&self) -> String {
        let report = self.report();
        match (report.state, report.problem) {
            (PluginState::Loading, _) => "is being loaded".to_owned(),
            (PluginState::Ready, _) => "is ready".to_owned(),
            (PluginState::AwaitingApproval, _) => "waits for the operator's approval".to_owned(),
            (PluginState::Unloaded, _) => "is unloaded".to_owned(),
            (PluginState::Refused, Some(problem)) => format!("is not loaded: {problem}"),
            (PluginState::Refused, None) => "is not loaded".to_owned(),
        }
    }

    pub(super) fn report(&self) -> PluginReport {
        let mut state = self.state();
        let (calls, failures) = state.counts();
        let work = state.active.as_ref();
        let shown = work.map(|work| &work.version).or(state.pending.as_ref().map(|held| &held.version));
        let given = work.map(|work| &work.config).or(state.pending.as_ref().map(|held| &held.config));
        PluginReport {
            name: self.name().clone(),
            state: state.report_state(self.origin),
            source: self.files.file.to_string_lossy().into(),
            sha256: work.map(|work| work.version.sha256().clone()).or(state.last_sha256.clone()),
            has_tools: shown.is_some_and(|version| version.has_tools()),
            has_channel: shown.is_some_and(|version| version.has_channel()),
            grants: given.map_or_else(|| self.options.grants.clone(), |given| given.grants.clone()),
            tools: work.iter().flat_map(|work| work.version.tools().iter()).map(|tool| tool.name.clone()).collect(),
            loaded_at: work.map(|work| work.since),
            calls,
            failures,
            problem: state.problem.clone(),
            changes: state
                .pending
                .iter()
                .flat_map(|held| &held.changes)
                .map(|change| change.to_string().into())
                .collect(),
        }
    }
}

impl EntryState {
    /// Nothing is at work now. Answers with the hash of what was.
    fn retire(&mut self) -> Option<Arc<str>> {
        let work = self.active.take()?;
        let sha256 = work.version.sha256().clone();
        self.retired.draining.push(work.version);
        self.retired.drop_drained();
        Some(sha256)
    }

    /// Since the server started.
    fn counts(&mut self) -> (u64, u64) {
        self.retired.drop_drained();
        let versions = self.retired.draining.iter().chain(self.active.iter().map(|work| &work.version));
        versions.map(|version| version.counts()).fold((self.retired.calls, self.retired.failures), |sum, counts| {
            (sum.0.saturating_add(counts.0), sum.1.saturating_add(counts.1))
        })
    }

    /// Versions whose calls have ended are dropped.
    pub(super) fn drop_drained(&mut self) {
        self.retired.drop_drained();
    }

    fn report_state(&self, origin: PluginOrigin) -> PluginState {
        if self.active.is_some() {
            PluginState::Ready
        } else if self.is_unloaded {
            PluginState::Unloaded
        } else if self.is_loading {
            PluginState::Loading
        } else if self.pending.is_some() {
            PluginState::AwaitingApproval
        } else if self.is_file_missing && origin == PluginOrigin::Folder {
            PluginState::Unloaded
        } else if self.problem.is_some() {
            PluginState::Refused
        } else {
            // Known, and about to be read for the first time.
            PluginState::Loading
        }
    }
}

impl RetiredVersions {
    fn drop_drained(&mut self) {
        let surplus = self.draining.len().saturating_sub(MAX_DRAINING);
        let mut at = 0;
        let (calls, failures) = (&mut self.calls, &mut self.failures);
        self.draining.retain(|version| {
            let is_called = Arc::strong_count(version) > 1;
            let stays = is_called && at >= surplus;
            at += 1;
            if !stays {
                let counts = version.counts();
                *calls = calls.saturating_add(counts.0);
                *failures = failures.saturating_add(counts.1);
            }
            stays
        });
    }
}

/// A load under way.
#[derive(Debug)]
pub(super) struct LoadingGuard<'a>(&'a PluginEntry);

impl Drop for LoadingGuard<'_> {
    fn drop(&mut self) {
        self.0.state().is_loading = false;
    }
}
