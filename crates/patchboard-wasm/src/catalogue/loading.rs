//! From a file to a version at work, step by step. Each ends in one line of the log.

use std::sync::Arc;

use patchboard_core::plugin::{PluginError, PluginGrant, PluginReport};
use patchboard_core::port::StoreError;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Catalogue;
use super::diff::{Change, Origin, Verdict, judge};
use super::entry::{Entry, Given, Held, TakeOver};
use super::file::{Content, Unread};
use super::pins::{self, Pin, Pinned, hex};
use super::version::Version;
use crate::rights::PluginOptions;

/// Why a plugin is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    Start,
    /// Its file looks different.
    Changed,
    /// The operator wants it.
    Asked,
}

/// What a load came to before anything was approved.
enum Made {
    /// What is at work is what the files say.
    Same,
    New(Candidate),
}

struct Candidate {
    version: Arc<dyn Version>,
    given: Given,
}

/// Why there is nothing to put to work.
enum Failure {
    Cancelled,
    Gone,
    Changing,
    /// A sentence for the operator.
    Refused(String),
    /// A sentence for the operator, who may let the same file in at any time.
    NotTrusted(String),
    /// The server itself could not: another try may help.
    Failed(String),
}

impl Catalogue {
    /// Goes on although nobody waits for it.
    pub(super) fn begin(
        self: &Arc<Self>,
        entry: Arc<Entry>,
        cause: Cause,
        stop: CancellationToken,
    ) -> JoinHandle<Result<PluginReport, PluginError>> {
        if cause == Cause::Asked {
            entry.state().is_unloaded = false;
        }
        let catalogue = self.clone();
        self.tasks.spawn(async move { catalogue.load(&entry, cause, &stop).await })
    }

    async fn load(
        &self,
        entry: &Arc<Entry>,
        cause: Cause,
        stop: &CancellationToken,
    ) -> Result<PluginReport, PluginError> {
        let began = Instant::now();
        let making = async {
            let turn = entry.changing.lock().await;
            let loading = entry.loading();
            (self.make(entry, cause).await, loading, turn)
        };
        // Once it is made it is seen through: what is pinned is put to work.
        let (made, loading, _turn) = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Err(self.give_up(entry, Failure::Cancelled)),
            () = stop.cancelled() => return Err(self.give_up(entry, Failure::Cancelled)),
            made = making => made,
        };
        let settled = match made {
            Ok(Made::New(candidate)) => self.settle(entry, candidate, began).await,
            Ok(Made::Same) => {
                entry.confirm();
                Ok(())
            }
            Err(failure) => Err(self.give_up(entry, failure)),
        };
        drop(loading);
        settled.map(|()| entry.report())
    }

    async fn make(&self, entry: &Arc<Entry>, cause: Cause) -> Result<Made, Failure> {
        let place = entry.place.clone();
        let admit = (entry.origin == Origin::Configured).then(|| self.admit.clone());
        let read = tokio::task::spawn_blocking(move || {
            let (look, content) = place.read();
            let admitted = match (&content, admit) {
                (Ok(content), Some(admit)) => admit(&place.file, &content.sha256),
                (Ok(_) | Err(_), _) => Ok(()),
            };
            (look, content, admitted)
        });
        let read = read.await;
        let (look, content, admitted) =
            read.map_err(|error| Failure::Failed(format!("failed to read its file: {error}")))?;
        entry.state().tried = Some(look);
        let content = content?;
        admitted.map_err(Failure::NotTrusted)?;
        entry.state().last_seen = Some(content.sha256.clone());
        for path in &content.open_to_all {
            self.warn_once(&format!("anybody on this machine may change {}; take that right away", path.display()));
        }
        let given = self.given(entry, &content).map_err(Failure::Refused)?;
        if let Some(only) = entry.options.sha256.map(|hash| hex(&hash))
            && *only != *content.sha256
        {
            let found = &content.sha256;
            let problem = format!("the configuration allows only the SHA-256 {only}, and its file has {found}");
            return Err(Failure::Refused(problem));
        }
        if cause == Cause::Changed && entry.has_at_work(&content.sha256, &given) {
            return Ok(Made::Same);
        }
        let options =
            PluginOptions { grants: given.grants.clone(), settings: given.settings.clone(), ..entry.options.clone() };
        let Ok(_place) = self.compiling.acquire().await else { return Err(Failure::Cancelled) };
        let version = self.loader.load(options, content.bytes).await.map_err(Failure::Refused)?;
        Ok(Made::New(Candidate { version, given }))
    }

    fn given(&self, entry: &Entry, content: &Content) -> Result<Given, String> {
        let Some(in_folder) = &entry.place.folder else {
            return Ok(Given { grants: entry.options.grants.clone(), settings: entry.options.settings.clone() });
        };
        let Some(text) = &content.sidecar else { return Ok(Given::default()) };
        let (grants, settings) =
            (self.sidecar)(text).map_err(|problem| format!("{}: {problem}", in_folder.sidecar.display()))?;
        Ok(Given { grants, settings })
    }

    async fn settle(&self, entry: &Entry, candidate: Candidate, began: Instant) -> Result<(), PluginError> {
        let Candidate { version, given } = candidate;
        let name = entry.name();
        let failed = |what: &str, error: &StoreError| {
            Failure::Failed(format!("what was approved of it cannot be {what}: {}", chain(error)))
        };
        let now = Pin::of(&*version, &given.grants);
        let pinned = match pins::read(&*self.store, name).await {
            Ok(pinned) => pinned,
            Err(error) => return Err(self.give_up(entry, failed("read", &error))),
        };
        let granted = match judge(&pinned, &now, entry.origin) {
            Verdict::Takes(granted) => granted,
            Verdict::Held(changes) => return Err(self.hold(entry, Held { version, given, pin: now, changes })),
        };
        if pinned != Pinned::Known(now.clone())
            && let Err(error) = pins::write(&*self.store, &*self.clock, name, &now).await
        {
            return Err(self.give_up(entry, failed("written", &error)));
        }
        let duration_ms = began.elapsed().as_millis() as u64;
        if !granted.is_empty() {
            tracing::info!(
                plugin = &**name,
                "the configuration gives the plugin more than before: {}",
                listed(&granted)
            );
        }
        self.put_to_work(entry, version, given, Some(duration_ms))
    }

    /// The version was pinned.
    fn put_to_work(
        &self,
        entry: &Entry,
        version: Arc<dyn Version>,
        given: Given,
        duration_ms: Option<u64>,
    ) -> Result<(), PluginError> {
        let name = entry.name();
        let sha256 = short(version.sha256());
        let tools = version.tools().iter().map(|tool| &*tool.name).collect::<Vec<_>>().join(" ");
        let grants = given.grants.iter().map(PluginGrant::to_string).collect::<Vec<_>>().join(" ");
        let has_channel = version.has_channel();
        match entry.take_over(version.clone(), given, self.clock.now()) {
            TakeOver::Unwanted => Err(PluginError::Failed(format!("`{name}` was unloaded in the meantime"))),
            TakeOver::Done { replaced } => {
                self.refresh();
                let replaced = replaced.as_deref().map(short).filter(|before| *before != sha256);
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

    fn hold(&self, entry: &Entry, held: Held) -> PluginError {
        let name = entry.name();
        let changes = listed(&held.changes);
        let sha256 = held.version.sha256().clone();
        entry.hold(held);
        self.refresh();
        let goes_on = match entry.version() {
            Some(version) => format!("version {} goes on working", short(version.sha256())),
            None => "until then it is not offered".to_owned(),
        };
        tracing::warn!(
            plugin = &**name,
            sha256 = short(&sha256),
            "the plugin is not what was approved: {changes}; look at it and run `patchboard plugins approve {name}`; \
             {goes_on}"
        );
        PluginError::Held(format!("`{name}` waits for approval: {changes}; {goes_on}"))
    }

    fn give_up(&self, entry: &Entry, failure: Failure) -> PluginError {
        let name = entry.name();
        let file = entry.place.file.display();
        let (problem, error): (_, fn(String) -> PluginError) = match failure {
            Failure::Gone => {
                self.lose(entry);
                return PluginError::Refused(format!("`{name}` cannot be loaded: its file is gone: {file}"));
            }
            Failure::Refused(problem) => (problem, PluginError::Refused),
            // The others are no fault of the file: it is tried again with the next look.
            Failure::Cancelled => {
                entry.state().tried = None;
                return PluginError::Failed(format!("`{name}` was not loaded: cancelled"));
            }
            Failure::Changing => {
                entry.state().tried = None;
                ("its file is being written".to_owned(), PluginError::Failed)
            }
            Failure::Failed(problem) => {
                entry.state().tried = None;
                (problem, PluginError::Failed)
            }
            Failure::NotTrusted(problem) => {
                entry.state().tried = None;
                (problem, PluginError::Refused)
            }
        };
        let is_news = entry.refuse(&problem);
        let goes_on = if entry.version().is_some() { "; the earlier version goes on working" } else { "" };
        // What is tried again with every look is told once.
        if is_news {
            tracing::warn!(plugin = &**name, "the plugin cannot be loaded: {problem}{goes_on}");
        }
        error(format!("`{name}` cannot be loaded: {problem}{goes_on}"))
    }

    /// Its file is not there any more.
    pub(super) fn lose(&self, entry: &Entry) {
        entry.lose_file();
        self.refresh();
        let goes_on = if entry.version().is_some() { "the version at work goes on working" } else { "it is unloaded" };
        tracing::warn!(
            plugin = &**entry.name(),
            "the plugin's file is gone: {}; {goes_on}",
            entry.place.file.display()
        );
    }

    /// What waits is pinned and put to work.
    pub(super) async fn approve(&self, entry: &Entry) -> Result<PluginReport, PluginError> {
        let _turn = entry.changing.lock().await;
        let Some(held) = entry.state().held.clone() else {
            return Err(PluginError::Unknown(format!("nothing waits for approval: `{}`", entry.name())));
        };
        let name = entry.name();
        let written = pins::write(&*self.store, &*self.clock, name, &held.pin).await;
        written.map_err(|error| PluginError::Failed(format!("failed to approve `{name}`: {}", chain(&error))))?;
        tracing::info!(plugin = &**name, "the plugin was approved: {}", listed(&held.changes));
        self.put_to_work(entry, held.version, held.given, None)?;
        Ok(entry.report())
    }
}

impl From<Unread> for Failure {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Gone => Self::Gone,
            Unread::Changing => Self::Changing,
            Unread::Unusable(problem) => Self::Refused(problem),
        }
    }
}

/// As much of a hash as people compare.
fn short(sha256: &str) -> &str {
    sha256.get(..12).unwrap_or(sha256)
}

fn listed(changes: &[Change]) -> String {
    changes.iter().map(Change::to_string).collect::<Vec<_>>().join("; ")
}

/// The error with what caused it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
