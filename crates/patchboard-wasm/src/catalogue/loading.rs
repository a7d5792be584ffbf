//! The steps from a file to an active version. Each outcome is logged once.

use std::sync::Arc;

use patchboard_core::plugin::{PluginError, PluginGrant, PluginReport};
use patchboard_core::store::StoreError;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Catalogue;
use super::diff::{ApprovalVerdict, PluginChange, PluginOrigin, check_against_pin};
use super::entry::{ActivationOutcome, GrantsAndSettings, PluginEntry, UnapprovedVersion};
use super::file::{PluginContent, ReadFailure};
use super::pins::{self, PinLookup, PluginPin};
use super::version::PluginVersion;
use crate::rights::PluginOptions;

/// Why a plugin is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadCause {
    Start,
    /// Its file has changed.
    Changed,
    /// On the operator's request.
    Requested,
}

/// The result of a load before approval.
enum LoadResult {
    /// The files match the active version.
    Unchanged,
    New(LoadedCandidate),
}

struct LoadedCandidate {
    version: Arc<dyn PluginVersion>,
    config: GrantsAndSettings,
}

/// Why no version was activated.
enum LoadFailure {
    Cancelled,
    FileMissing,
    Changing,
    /// An error text for the operator.
    Refused(String),
    /// An error text for the operator, who may trust the same file at any time.
    NotTrusted(String),
    /// An internal failure: a retry may succeed.
    Failed(String),
}

impl Catalogue {
    /// Runs in its own task, so that it continues if the caller is dropped.
    pub(super) fn spawn_load(
        self: &Arc<Self>,
        entry: Arc<PluginEntry>,
        cause: LoadCause,
        stop: CancellationToken,
    ) -> JoinHandle<Result<PluginReport, PluginError>> {
        if cause == LoadCause::Requested {
            entry.state().is_unloaded = false;
        }
        let catalogue = self.clone();
        self.tasks.spawn(async move { catalogue.load(&entry, cause, &stop).await })
    }

    async fn load(
        &self,
        entry: &Arc<PluginEntry>,
        cause: LoadCause,
        stop: &CancellationToken,
    ) -> Result<PluginReport, PluginError> {
        let started_at = Instant::now();
        let loading = async {
            let change_guard = entry.change_lock.lock().await;
            let loading_guard = entry.loading();
            (self.load_candidate(entry, cause).await, loading_guard, change_guard)
        };
        // Not cancelled past this point, because a pinned version must be activated.
        let (loaded, loading_guard, _change_guard) = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Err(self.fail_load(entry, LoadFailure::Cancelled)),
            () = stop.cancelled() => return Err(self.fail_load(entry, LoadFailure::Cancelled)),
            loaded = loading => loaded,
        };
        let result = match loaded {
            Ok(LoadResult::New(candidate)) => self.approve_or_hold(entry, candidate, started_at).await,
            Ok(LoadResult::Unchanged) => {
                entry.mark_current();
                Ok(())
            }
            Err(failure) => Err(self.fail_load(entry, failure)),
        };
        drop(loading_guard);
        result.map(|()| entry.report())
    }

    async fn load_candidate(&self, entry: &Arc<PluginEntry>, cause: LoadCause) -> Result<LoadResult, LoadFailure> {
        let files = entry.files.clone();
        let admit = (entry.origin == PluginOrigin::Configured).then(|| self.admit_file.clone());
        let read = tokio::task::spawn_blocking(move || {
            let (snapshot, content) = files.read();
            let admitted = match (&content, admit) {
                (Ok(content), Some(admit)) => admit(&files.file, &content.sha256),
                (Ok(_) | Err(_), _) => Ok(()),
            };
            (snapshot, content, admitted)
        });
        let read = read.await;
        let (snapshot, content, admitted) =
            read.map_err(|error| LoadFailure::Failed(format!("failed to read its file: {error}")))?;
        entry.state().last_tried = Some(snapshot);
        let content = content?;
        admitted.map_err(LoadFailure::NotTrusted)?;
        entry.state().last_sha256 = Some(content.sha256.clone());
        for path in &content.world_writable {
            self.warn_once(&format!("every user of this machine may change {}; revoke that right", path.display()));
        }
        let config = self.config_for(entry, &content).map_err(LoadFailure::Refused)?;
        if let Some(only) = entry.options.sha256.map(hex::encode)
            && *only != *content.sha256
        {
            let actual = &content.sha256;
            let problem = format!("the configuration allows only the SHA-256 {only}, and its file has {actual}");
            return Err(LoadFailure::Refused(problem));
        }
        // The files were touched without a change of content.
        if cause == LoadCause::Changed && entry.is_active(&content.sha256, &config) {
            return Ok(LoadResult::Unchanged);
        }
        let options =
            PluginOptions { grants: config.grants.clone(), settings: config.settings.clone(), ..entry.options.clone() };
        let Ok(_permit) = self.compile_permits.acquire().await else { return Err(LoadFailure::Cancelled) };
        let version = self.loader.load(options, content.bytes).await.map_err(LoadFailure::Refused)?;
        Ok(LoadResult::New(LoadedCandidate { version, config }))
    }

    fn config_for(&self, entry: &PluginEntry, content: &PluginContent) -> Result<GrantsAndSettings, String> {
        let Some(folder) = &entry.files.folder else {
            return Ok(GrantsAndSettings {
                grants: entry.options.grants.clone(),
                settings: entry.options.settings.clone(),
            });
        };
        let Some(text) = &content.sidecar else { return Ok(GrantsAndSettings::default()) };
        let (grants, settings) =
            (self.sidecar)(text).map_err(|problem| format!("{}: {problem}", folder.sidecar.display()))?;
        Ok(GrantsAndSettings { grants, settings })
    }

    async fn approve_or_hold(
        &self,
        entry: &PluginEntry,
        candidate: LoadedCandidate,
        started_at: Instant,
    ) -> Result<(), PluginError> {
        let LoadedCandidate { version, config } = candidate;
        let name = entry.name();
        let pin_error = |what: &str, error: &StoreError| {
            LoadFailure::Failed(format!("what was approved of it cannot be {what}: {}", error_chain(error)))
        };
        let pin = PluginPin::of(&*version, &config.grants);
        let stored_pin = match pins::read(&*self.store, name).await {
            Ok(pinned) => pinned,
            Err(error) => return Err(self.fail_load(entry, pin_error("read", &error))),
        };
        let new_grants = match check_against_pin(&stored_pin, &pin, entry.origin) {
            ApprovalVerdict::Accepted(new_grants) => new_grants,
            ApprovalVerdict::NeedsApproval(changes) => {
                return Err(self.hold_for_approval(entry, UnapprovedVersion { version, config, pin, changes }));
            }
        };
        // The pin is written before activation: a version that runs must be the one on record.
        if stored_pin != PinLookup::Known(pin.clone())
            && let Err(error) = pins::write(&*self.store, &*self.clock, name, &pin).await
        {
            return Err(self.fail_load(entry, pin_error("written", &error)));
        }
        let duration_ms = started_at.elapsed().as_millis() as u64;
        if !new_grants.is_empty() {
            tracing::info!(
                plugin = &**name,
                "the configuration gives the plugin more than before: {}",
                join_changes(&new_grants)
            );
        }
        self.activate(entry, version, config, Some(duration_ms))
    }

    /// Activates a version that has been pinned.
    fn activate(
        &self,
        entry: &PluginEntry,
        version: Arc<dyn PluginVersion>,
        config: GrantsAndSettings,
        duration_ms: Option<u64>,
    ) -> Result<(), PluginError> {
        let name = entry.name();
        let sha256 = short_hash(version.sha256());
        let tools = version.tools().iter().map(|tool| &*tool.name).collect::<Vec<_>>().join(" ");
        let grants = config.grants.iter().map(PluginGrant::to_string).collect::<Vec<_>>().join(" ");
        let has_channel = version.has_channel();
        match entry.activate(version.clone(), config, self.clock.now()) {
            ActivationOutcome::AlreadyUnloaded => {
                Err(PluginError::Failed(format!("`{name}` was unloaded in the meantime")))
            }
            ActivationOutcome::Activated { replaced } => {
                self.rebuild_offer();
                let replaced = replaced.as_deref().map(short_hash).filter(|before| *before != sha256);
                tracing::info!(
                    plugin = &**name,
                    sha256,
                    replaced,
                    tools,
                    grants,
                    channel = has_channel,
                    duration_ms,
                    "plugin is ready"
                );
                Ok(())
            }
        }
    }

    fn hold_for_approval(&self, entry: &PluginEntry, held: UnapprovedVersion) -> PluginError {
        let name = entry.name();
        let changes = join_changes(&held.changes);
        let sha256 = held.version.sha256().clone();
        entry.hold_for_approval(held);
        self.rebuild_offer();
        let consequence = match entry.version() {
            Some(version) => format!("version {} goes on working", short_hash(version.sha256())),
            None => "until then it is not offered".to_owned(),
        };
        tracing::warn!(
            plugin = &**name,
            sha256 = short_hash(&sha256),
            "the plugin is not what was approved: {changes}; look at it and run `patchboard plugins approve {name}`; \
             {consequence}"
        );
        PluginError::AwaitingApproval(format!("`{name}` waits for approval: {changes}; {consequence}"))
    }

    fn fail_load(&self, entry: &PluginEntry, failure: LoadFailure) -> PluginError {
        let name = entry.name();
        let file = entry.files.file.display();
        let (problem, error): (_, fn(String) -> PluginError) = match failure {
            LoadFailure::FileMissing => {
                self.file_missing(entry);
                return PluginError::Refused(format!("`{name}` cannot be loaded: its file is gone: {file}"));
            }
            LoadFailure::Refused(problem) => (problem, PluginError::Refused),
            // These are not problems of the file: the next poll tries again.
            LoadFailure::Cancelled => {
                entry.state().last_tried = None;
                return PluginError::Failed(format!("`{name}` was not loaded: cancelled"));
            }
            LoadFailure::Changing => {
                entry.state().last_tried = None;
                ("its file is being written".to_owned(), PluginError::Failed)
            }
            LoadFailure::Failed(problem) => {
                entry.state().last_tried = None;
                (problem, PluginError::Failed)
            }
            LoadFailure::NotTrusted(problem) => {
                entry.state().last_tried = None;
                (problem, PluginError::Refused)
            }
        };
        let is_new_problem = entry.reject_file(&problem);
        let consequence = if entry.version().is_some() { "; the earlier version goes on working" } else { "" };
        // A problem that recurs at every poll is logged once.
        if is_new_problem {
            tracing::warn!(plugin = &**name, "the plugin cannot be loaded: {problem}{consequence}");
        }
        error(format!("`{name}` cannot be loaded: {problem}{consequence}"))
    }

    /// Handles a removed file.
    pub(super) fn file_missing(&self, entry: &PluginEntry) {
        entry.mark_file_missing();
        self.rebuild_offer();
        let consequence =
            if entry.version().is_some() { "the version at work goes on working" } else { "it is unloaded" };
        tracing::warn!(
            plugin = &**entry.name(),
            "the plugin's file is gone: {}; {consequence}",
            entry.files.file.display()
        );
    }

    /// Pins and activates the version that awaits approval.
    pub(super) async fn approve(&self, entry: &PluginEntry) -> Result<PluginReport, PluginError> {
        let _change_guard = entry.change_lock.lock().await;
        let Some(held) = entry.state().pending.clone() else {
            return Err(PluginError::Unknown(format!("nothing waits for approval: `{}`", entry.name())));
        };
        let name = entry.name();
        let written = pins::write(&*self.store, &*self.clock, name, &held.pin).await;
        written.map_err(|error| PluginError::Failed(format!("failed to approve `{name}`: {}", error_chain(&error))))?;
        tracing::info!(plugin = &**name, "the plugin was approved: {}", join_changes(&held.changes));
        self.activate(entry, held.version, held.config, None)?;
        Ok(entry.report())
    }
}

impl From<ReadFailure> for LoadFailure {
    fn from(failure: ReadFailure) -> Self {
        match failure {
            ReadFailure::Missing => Self::FileMissing,
            ReadFailure::Changing => Self::Changing,
            ReadFailure::Unusable(problem) => Self::Refused(problem),
        }
    }
}

/// The prefix of a hash that people compare.
fn short_hash(sha256: &str) -> &str {
    sha256.get(..12).unwrap_or(sha256)
}

fn join_changes(changes: &[PluginChange]) -> String {
    changes.iter().map(PluginChange::to_string).collect::<Vec<_>>().join("; ")
}

/// An error with its causes.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
