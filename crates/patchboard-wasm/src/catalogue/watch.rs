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
    looked: Option<FilesSnapshot>,
    now: FilesSnapshot,
) -> WatchAction {
    if tried == Some(now) || looked != Some(now) {
        return WatchAction::Nothing;
    }
    let was_there = tried.is_none_or(|tried| tried.file.is_some());
    match (now.file, was_there) {
        (Some(_), _) => WatchAction::Load,
        (None, true) => WatchAction::FileMissing,
        (None, false) => WatchAction::Nothing,
    }
}

impl Catalogue {
    pub(super) async fn watch(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let looking = async {
            loop {
                ticks.tick().await;
                // The loads run in tasks of their own, so that a slow plugin does not delay the others.
                drop(self.poll_files().await);
            }
        };
        self.stop.run_until_cancelled(looking).await;
    }

    /// Polls all files once. Returns the loads that were started.
    pub(super) async fn poll_files(self: &Arc<Self>) -> Vec<JoinHandle<Result<PluginReport, PluginError>>> {
        self.scan_folder().await;
        let entries = self.entries();
        let places: Vec<_> = entries.iter().map(|entry| entry.files.clone()).collect();
        let looking =
            tokio::task::spawn_blocking(move || places.iter().map(|place| place.snapshot()).collect::<Vec<_>>());
        let Ok(looks) = looking.await else { return Vec::new() };
        let mut begun = Vec::new();
        for (entry, now) in entries.into_iter().zip(looks) {
            let step = {
                let mut state = entry.state();
                state.drop_drained();
                let looked = state.last_snapshot.replace(now);
                if state.is_loading || state.is_unloaded {
                    continue;
                }
                let step = watch_action(state.last_tried, looked, now);
                if step != WatchAction::Nothing {
                    // Prevents the next poll from repeating the action.
                    state.last_tried = Some(now);
                }
                step
            };
            match step {
                WatchAction::Nothing => {}
                WatchAction::Load => begun.push(self.spawn_load(entry, LoadCause::Changed, CancellationToken::new())),
                WatchAction::FileMissing => self.file_missing(&entry),
            }
        }
        begun
    }
}

#[cfg(test)]
mod tests;
