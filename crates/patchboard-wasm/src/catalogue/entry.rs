//! One plugin the catalogue knows: which version is at work, which one waits, and what is wrong with its file.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use patchboard_core::plugin::{PluginGrant, PluginReport, PluginState};

use super::diff::{Change, Origin, covers};
use super::file::{Look, Place};
use super::pins::Pin;
use super::version::Version;
use crate::rights::PluginOptions;

/// Versions whose last calls are waited for. What is called on an older one is not counted any more.
const MAX_ENDING: usize = 16;

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) origin: Origin,
    pub(super) place: Place,
    /// As the configuration has it; a plugin of the folder gets its grants and settings from the file beside it.
    pub(super) options: PluginOptions,
    /// One load, or approval, at a time.
    pub(super) changing: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) at_work: Option<AtWork>,
    pub(super) held: Option<Held>,
    /// What is wrong with the newest file.
    pub(super) problem: Option<Arc<str>>,
    /// The hash of the newest file that could be read.
    pub(super) last_seen: Option<Arc<str>>,
    pub(super) is_loading: bool,
    /// By the operator: it stays away whatever becomes of its file.
    pub(super) is_unloaded: bool,
    pub(super) is_gone: bool,
    /// What the files looked like when they were last loaded, or found to be of no use.
    pub(super) tried: Option<Look>,
    /// What the last look showed.
    pub(super) looked: Option<Look>,
    past: Past,
}

/// Versions that are no longer at work.
#[derive(Debug, Default)]
struct Past {
    /// Those that may still have calls to end.
    ending: Vec<Arc<dyn Version>>,
    /// Calls of all others, and those that broke.
    calls: u64,
    failures: u64,
}

#[derive(Debug, Clone)]
pub(super) struct AtWork {
    pub(super) version: Arc<dyn Version>,
    pub(super) given: Given,
    since: Timestamp,
}

/// A version that wants more than was approved.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) version: Arc<dyn Version>,
    pub(super) given: Given,
    pub(super) pin: Pin,
    pub(super) changes: Vec<Change>,
}

/// What a plugin is given besides its own file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) grants: Vec<PluginGrant>,
    pub(super) settings: BTreeMap<String, String>,
}

/// What became of a version that was to go to work.
#[derive(Debug)]
pub(super) enum TakeOver {
    Done {
        replaced: Option<Arc<str>>,
    },
    /// The operator unloaded the plugin in the meantime.
    Unwanted,
}

impl Entry {
    pub(super) fn new(origin: Origin, place: Place, options: PluginOptions) -> Arc<Self> {
        Arc::new(Self { origin, place, options, changing: tokio::sync::Mutex::default(), state: Mutex::default() })
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.options.name
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn version(&self) -> Option<Arc<dyn Version>> {
        self.state().at_work.as_ref().map(|work| work.version.clone())
    }

    /// Is that very content at work already, given the same?
    pub(super) fn has_at_work(&self, sha256: &str, given: &Given) -> bool {
        self.state().at_work.as_ref().is_some_and(|work| **work.version.sha256() == *sha256 && work.given == *given)
    }

    /// Says that a load is under way, until it is dropped.
    pub(super) fn loading(&self) -> Loading<'_> {
        self.state().is_loading = true;
        Loading(self)
    }

    pub(super) fn take_over(&self, version: Arc<dyn Version>, given: Given, since: Timestamp) -> TakeOver {
        let mut state = self.state();
        if state.is_unloaded {
            return TakeOver::Unwanted;
        }
        state.held = None;
        state.problem = None;
        state.is_gone = false;
        let replaced = state.retire();
        state.at_work = Some(AtWork { version, given, since });
        TakeOver::Done { replaced }
    }

    /// An earlier version goes on working, unless it may reach what the new one was not even given.
    pub(super) fn hold(&self, held: Held) {
        let mut state = self.state();
        if state.is_unloaded {
            return;
        }
        let is_given = |grant: &PluginGrant| held.given.grants.iter().any(|now| covers(now, grant));
        if !state.at_work.as_ref().is_some_and(|work| work.given.grants.iter().all(is_given)) {
            state.retire();
        }
        state.problem = None;
        state.is_gone = false;
        state.held = Some(held);
    }

    /// The newest file is of no use. A version at work goes on working. Answers whether that was not known before.
    pub(super) fn refuse(&self, problem: &str) -> bool {
        let mut state = self.state();
        state.held = None;
        state.is_gone = false;
        let known = state.problem.replace(problem.into());
        known.as_deref() != Some(problem)
    }

    /// What the configuration names goes on working without its file; what is in the folder is there by being there.
    pub(super) fn lose_file(&self) {
        let mut state = self.state();
        state.held = None;
        state.problem = Some("its file is gone".into());
        state.is_gone = true;
        if self.origin == Origin::Folder {
            state.retire();
        }
    }

    /// The file is what is at work.
    pub(super) fn confirm(&self) {
        let mut state = self.state();
        state.held = None;
        state.problem = None;
        state.is_gone = false;
    }

    pub(super) fn unload(&self) {
        let mut state = self.state();
        state.is_unloaded = true;
        state.retire();
        state.held = None;
        state.problem = None;
    }

    /// Why nobody can call it now. A fragment that follows its name.
    pub(super) fn absence(&self) -> String {
        let report = self.report();
        match (report.state, report.problem) {
            (PluginState::Loading, _) => "is being loaded".to_owned(),
            (PluginState::Ready, _) => "is ready".to_owned(),
            (PluginState::Held, _) => "waits for the operator's approval".to_owned(),
            (PluginState::Unloaded, _) => "is unloaded".to_owned(),
            (PluginState::Refused, Some(problem)) => format!("is not loaded: {problem}"),
            (PluginState::Refused, None) => "is not loaded".to_owned(),
        }
    }

    pub(super) fn report(&self) -> PluginReport {
        let mut state = self.state();
        let (calls, failures) = state.counts();
        let work = state.at_work.as_ref();
        let shown = work.map(|work| &work.version).or(state.held.as_ref().map(|held| &held.version));
        let given = work.map(|work| &work.given).or(state.held.as_ref().map(|held| &held.given));
        PluginReport {
            name: self.name().clone(),
            state: state.kind(self.origin),
            source: self.place.file.to_string_lossy().into(),
            sha256: work.map(|work| work.version.sha256().clone()).or(state.last_seen.clone()),
            has_tools: shown.is_some_and(|version| version.has_tools()),
            has_channel: shown.is_some_and(|version| version.has_channel()),
            grants: given.map_or_else(|| self.options.grants.clone(), |given| given.grants.clone()),
            tools: work.iter().flat_map(|work| work.version.tools().iter()).map(|tool| tool.name.clone()).collect(),
            loaded_at: work.map(|work| work.since),
            calls,
            failures,
            problem: state.problem.clone(),
            changes: state.held.iter().flat_map(|held| &held.changes).map(|change| change.to_string().into()).collect(),
        }
    }
}

impl State {
    /// Nothing is at work now. Answers with the hash of what was.
    fn retire(&mut self) -> Option<Arc<str>> {
        let work = self.at_work.take()?;
        let sha256 = work.version.sha256().clone();
        self.past.ending.push(work.version);
        self.past.let_go();
        Some(sha256)
    }

    /// Since the server started.
    fn counts(&mut self) -> (u64, u64) {
        self.past.let_go();
        let versions = self.past.ending.iter().chain(self.at_work.iter().map(|work| &work.version));
        versions.map(|version| version.counts()).fold((self.past.calls, self.past.failures), |sum, counts| {
            (sum.0.saturating_add(counts.0), sum.1.saturating_add(counts.1))
        })
    }

    /// Versions whose calls have ended are dropped.
    pub(super) fn let_go(&mut self) {
        self.past.let_go();
    }

    fn kind(&self, origin: Origin) -> PluginState {
        if self.at_work.is_some() {
            PluginState::Ready
        } else if self.is_unloaded {
            PluginState::Unloaded
        } else if self.is_loading {
            PluginState::Loading
        } else if self.held.is_some() {
            PluginState::Held
        } else if self.is_gone && origin == Origin::Folder {
            PluginState::Unloaded
        } else if self.problem.is_some() {
            PluginState::Refused
        } else {
            // Known, and about to be read for the first time.
            PluginState::Loading
        }
    }
}

impl Past {
    fn let_go(&mut self) {
        let surplus = self.ending.len().saturating_sub(MAX_ENDING);
        let mut at = 0;
        let (calls, failures) = (&mut self.calls, &mut self.failures);
        self.ending.retain(|version| {
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
pub(super) struct Loading<'a>(&'a Entry);

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.0.state().is_loading = false;
    }
}
