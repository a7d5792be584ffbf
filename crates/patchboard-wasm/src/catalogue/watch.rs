//! Looks at the plugins' files from time to time and says what has to be done about them.

use std::sync::Arc;
use std::time::Duration;

use patchboard_core::plugin::{PluginError, PluginReport};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::Catalogue;
use super::file::Look;
use super::loading::Cause;

const BETWEEN_LOOKS: Duration = Duration::from_secs(2);

/// What a look asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Nothing,
    Load,
    Lose,
}

/// A difference counts when two looks in a row show it: until then somebody may still be writing, or putting another
/// file in the place of the one that is gone.
pub(super) fn step(tried: Option<Look>, looked: Option<Look>, now: Look) -> Step {
    if tried == Some(now) || looked != Some(now) {
        return Step::Nothing;
    }
    let was_there = tried.is_none_or(|tried| tried.file.is_some());
    match (now.file, was_there) {
        (Some(_), _) => Step::Load,
        (None, true) => Step::Lose,
        (None, false) => Step::Nothing,
    }
}

impl Catalogue {
    pub(super) async fn watch(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(BETWEEN_LOOKS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let looking = async {
            loop {
                ticks.tick().await;
                // What a look began goes on by itself: one slow plugin does not keep the others waiting.
                drop(self.look().await);
            }
        };
        self.stop.run_until_cancelled(looking).await;
    }

    /// The loads it began.
    pub(super) async fn look(self: &Arc<Self>) -> Vec<JoinHandle<Result<PluginReport, PluginError>>> {
        self.scan_folder().await;
        let entries = self.entries();
        let places: Vec<_> = entries.iter().map(|entry| entry.place.clone()).collect();
        let looking = tokio::task::spawn_blocking(move || places.iter().map(|place| place.look()).collect::<Vec<_>>());
        let Ok(looks) = looking.await else { return Vec::new() };
        let mut begun = Vec::new();
        for (entry, now) in entries.into_iter().zip(looks) {
            let step = {
                let mut state = entry.state();
                state.let_go();
                let looked = state.looked.replace(now);
                if state.is_loading || state.is_unloaded {
                    continue;
                }
                let step = step(state.tried, looked, now);
                if step != Step::Nothing {
                    // Not again with the next look.
                    state.tried = Some(now);
                }
                step
            };
            match step {
                Step::Nothing => {}
                Step::Load => begun.push(self.begin(entry, Cause::Changed, CancellationToken::new())),
                Step::Lose => self.lose(&entry),
            }
        }
        begun
    }
}

#[cfg(test)]
mod tests;
