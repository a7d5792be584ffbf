//! One plugin of the catalogue: its active version, a version awaiting approval, and problems of its file.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use patchboard_core::plugin::{PluginGrant, PluginReport, PluginState};

use super::diff::{PluginChange, PluginOrigin, covers};
use super::file::{FilesSnapshot, PluginFiles};
use super::pins::PluginPin;
use super::version::PluginVersion;
use crate::rights::PluginOptions;

/// Replaced versions whose running calls are still counted; calls of older ones are no longer counted.
const MAX_DRAINING: usize = 16;

#[derive(Debug)]
pub(super) struct PluginEntry {
    pub(super) origin: PluginOrigin,
    pub(super) files: PluginFiles,
    /// From the configuration; a plugin of the folder takes grants and settings from its sidecar file.
    pub(super) options: PluginOptions,
    /// Serialises loads and approvals.
    pub(super) change_lock: tokio::sync::Mutex<()>,
    state: Mutex<EntryState>,
}

#[derive(Debug, Default)]
pub(super) struct EntryState {
    pub(super) active: Option<ActiveVersion>,
    pub(super) pending: Option<UnapprovedVersion>,
    /// Why the newest file cannot be used.
    pub(super) problem: Option<Arc<str>>,
    /// SHA-256 of the newest readable file.
    pub(super) last_sha256: Option<Arc<str>>,
    pub(super) is_loading: bool,
    /// Set by the operator: the plugin stays unloaded whatever happens to its file.
    pub(super) is_unloaded: bool,
    pub(super) is_file_missing: bool,
    /// State of the files when they were last loaded or rejected.
    pub(super) last_tried: Option<FilesSnapshot>,
    /// State of the files at the latest poll.
    pub(super) last_snapshot: Option<FilesSnapshot>,
    retired: RetiredVersions,
}

/// Replaced versions.
#[derive(Debug, Default)]
struct RetiredVersions {
    /// Versions that may still have running calls.
    draining: Vec<Arc<dyn PluginVersion>>,
    /// Calls and failures of all other replaced versions.
    calls: u64,
    failures: u64,
}

#[derive(Debug, Clone)]
pub(super) struct ActiveVersion {
    pub(super) version: Arc<dyn PluginVersion>,
    pub(super) config: GrantsAndSettings,
    since: Timestamp,
}

/// A version that differs from what was approved.
#[derive(Debug, Clone)]
pub(super) struct UnapprovedVersion {
    pub(super) version: Arc<dyn PluginVersion>,
    pub(super) config: GrantsAndSettings,
    pub(super) pin: PluginPin,
    pub(super) changes: Vec<PluginChange>,
}

/// The configuration of a plugin besides its own file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct GrantsAndSettings {
    pub(super) grants: Vec<PluginGrant>,
    pub(super) settings: BTreeMap<String, String>,
}

/// The result of activating a version.
#[derive(Debug)]
pub(super) enum ActivationOutcome {
    Activated {
        replaced: Option<Arc<str>>,
    },
    /// The operator has unloaded the plugin since.
    AlreadyUnloaded,
}

impl PluginEntry {
    pub(super) fn new(origin: PluginOrigin, files: PluginFiles, options: PluginOptions) -> Arc<Self> {
        Arc::new(Self { origin, files, options, change_lock: tokio::sync::Mutex::default(), state: Mutex::default() })
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.options.name
    }

    pub(super) fn state(&self) -> MutexGuard<'_, EntryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn version(&self) -> Option<Arc<dyn PluginVersion>> {
        self.state().active.as_ref().map(|active| active.version.clone())
    }

    /// Whether this content is active with the same grants and settings.
    pub(super) fn is_active(&self, sha256: &str, config: &GrantsAndSettings) -> bool {
        self.state()
            .active
            .as_ref()
            .is_some_and(|active| **active.version.sha256() == *sha256 && active.config == *config)
    }

    /// Marks the entry as loading until the guard is dropped.
    pub(super) fn loading(&self) -> LoadingGuard<'_> {
        self.state().is_loading = true;
        LoadingGuard(self)
    }

    pub(super) fn activate(
        &self,
        version: Arc<dyn PluginVersion>,
        config: GrantsAndSettings,
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
        state.active = Some(ActiveVersion { version, config, since });
        ActivationOutcome::Activated { replaced }
    }

    /// Keeps an earlier version active, unless it has grants that the new configuration removed.
    pub(super) fn hold_for_approval(&self, held: UnapprovedVersion) {
        let mut state = self.state();
        if state.is_unloaded {
            return;
        }
        let is_still_granted = |grant: &PluginGrant| held.config.grants.iter().any(|granted| covers(granted, grant));
        if !state.active.as_ref().is_some_and(|active| active.config.grants.iter().all(is_still_granted)) {
            state.retire();
        }
        state.problem = None;
        state.is_file_missing = false;
        state.pending = Some(held);
    }

    /// Records that the newest file is unusable; an active version stays active. Returns whether the problem is new.
    pub(super) fn reject_file(&self, problem: &str) -> bool {
        let mut state = self.state();
        state.pending = None;
        state.is_file_missing = false;
        let previous = state.problem.replace(problem.into());
        previous.as_deref() != Some(problem)
    }

    /// A configured plugin stays active without its file; a plugin of the folder is unloaded.
    pub(super) fn mark_file_missing(&self) {
        let mut state = self.state();
        state.pending = None;
        state.problem = Some("its file is gone".into());
        state.is_file_missing = true;
        if self.origin == PluginOrigin::Folder {
            state.retire();
        }
    }

    /// The file matches the active version.
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

    /// Why the plugin cannot be called. A fragment that follows its name.
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
        let active = state.active.as_ref();
        let version = active.map(|active| &active.version).or(state.pending.as_ref().map(|held| &held.version));
        let config = active.map(|active| &active.config).or(state.pending.as_ref().map(|held| &held.config));
        PluginReport {
            name: self.name().clone(),
            state: state.report_state(self.origin),
            source: self.files.file.to_string_lossy().into(),
            sha256: active.map(|active| active.version.sha256().clone()).or(state.last_sha256.clone()),
            has_tools: version.is_some_and(|version| version.has_tools()),
            has_channel: version.is_some_and(|version| version.has_channel()),
            grants: config.map_or_else(|| self.options.grants.clone(), |config| config.grants.clone()),
            tools: active
                .iter()
                .flat_map(|active| active.version.tools().iter())
                .map(|tool| tool.name.clone())
                .collect(),
            loaded_at: active.map(|active| active.since),
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
    /// Deactivates the active version and returns its hash.
    fn retire(&mut self) -> Option<Arc<str>> {
        let active = self.active.take()?;
        let sha256 = active.version.sha256().clone();
        self.retired.draining.push(active.version);
        self.retired.drop_drained();
        Some(sha256)
    }

    /// Calls and failures since server start.
    fn counts(&mut self) -> (u64, u64) {
        self.retired.drop_drained();
        let versions = self.retired.draining.iter().chain(self.active.iter().map(|active| &active.version));
        versions.map(|version| version.counts()).fold((self.retired.calls, self.retired.failures), |sum, counts| {
            (sum.0.saturating_add(counts.0), sum.1.saturating_add(counts.1))
        })
    }

    /// Drops versions whose calls have ended.
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
            // Listed, and about to be read for the first time.
            PluginState::Loading
        }
    }
}

impl RetiredVersions {
    fn drop_drained(&mut self) {
        let excess = self.draining.len().saturating_sub(MAX_DRAINING);
        let mut at = 0;
        let (calls, failures) = (&mut self.calls, &mut self.failures);
        self.draining.retain(|version| {
            // Running calls hold references; this list holds one.
            let has_running_calls = Arc::strong_count(version) > 1;
            let is_retained = has_running_calls && at >= excess;
            at += 1;
            if !is_retained {
                let counts = version.counts();
                *calls = calls.saturating_add(counts.0);
                *failures = failures.saturating_add(counts.1);
            }
            is_retained
        });
    }
}

/// Marks a running load.
#[derive(Debug)]
pub(super) struct LoadingGuard<'a>(&'a PluginEntry);

impl Drop for LoadingGuard<'_> {
    fn drop(&mut self) {
        self.0.state().is_loading = false;
    }
}
