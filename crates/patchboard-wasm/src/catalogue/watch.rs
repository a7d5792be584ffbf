//! Polls the plugin files and decides what their changes require.

use std::sync::Arc;
use std::time::Duration;

use patchboard_core::plugin::{PluginError, PluginReport};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::Catalogue;
use super::file::FilesSnapshot;
use super::loading::LoadCause;

const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The action that a poll requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchAction {
    Nothing,
    Load,
    FileMissing,
}

/// A change counts once two consecutive polls agree: until then the file may still be written or replaced.
pub(super) fn watch_action(
    tried: Option<FilesSnapshot>,
    previous: Option<FilesSnapshot>,
    current: FilesSnapshot,
) -> WatchAction {
    if tried == Some(current) || previous != Some(current) {
        return WatchAction::Nothing;
    }
    let existed = tried.is_none_or(|tried| tried.file.is_some());
    match (current.file, existed) {
        (Some(_), _) => WatchAction::Load,
        (None, true) => WatchAction::FileMissing,
        (None, false) => WatchAction::Nothing,
    }
}

impl Catalogue {
    pub(super) async fn watch(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let polling = async {
            loop {
                ticks.tick().await;
                // The loads run in tasks of their own, so that a slow plugin does not delay the others.
                drop(self.poll_files().await);
            }
        };
        self.stop.run_until_cancelled(polling).await;
    }

    /// Polls all files once. Returns the loads that were started.
    pub(super) async fn poll_files(self: &Arc<Self>) -> Vec<JoinHandle<Result<PluginReport, PluginError>>> {
        self.scan_folder().await;
        let entries = self.entries();
        let files: Vec<_> = entries.iter().map(|entry| entry.files.clone()).collect();
        let polling =
            tokio::task::spawn_blocking(move || files.iter().map(|files| files.snapshot()).collect::<Vec<_>>());
        let Ok(snapshots) = polling.await else { return Vec::new() };
        let mut started = Vec::new();
        for (entry, current) in entries.into_iter().zip(snapshots) {
            let action = {
                let mut state = entry.state();
                state.drop_drained();
                let previous = state.last_snapshot.replace(current);
                if state.is_loading || state.is_unloaded {
                    continue;
                }
                let action = watch_action(state.last_tried, previous, current);
                if action != WatchAction::Nothing {
                    // Prevents the next poll from repeating the action.
                    state.last_tried = Some(current);
                }
                action
            };
            match action {
                WatchAction::Nothing => {}
                WatchAction::Load => started.push(self.spawn_load(entry, LoadCause::Changed, CancellationToken::new())),
                WatchAction::FileMissing => self.file_missing(&entry),
            }
        }
        started
    }
}

#[cfg(test)]
mod tests;
