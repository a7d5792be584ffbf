//! What people say to a machine whether or not there is an app for it: descriptions that compete with those of the apps,
//! so that a message about something else is not brought to whoever comes closest.

use std::sync::{Arc, LazyLock};

use super::profile::Profile;
use super::query::Query;
use super::signals::Likeness;
use crate::app::AppProfile;

/// An app that is so near to a line is about the same, and the line does not count.
const SAME: f32 = 0.5;
/// Lines that are compared word by word: those that are nearest as a whole.
const MOST_COMPARED: usize = 8;

static LINES: LazyLock<Vec<Profile>> = LazyLock::new(|| {
    let lines = include_str!("background.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(profile).collect()
});

fn profile(line: &str) -> Profile {
    let (name, capabilities) = ("".into(), Vec::new());
    Profile::new(&AppProfile { name, description: line.into(), version: None, capabilities })
}

/// How much an utterance is like what none of these apps is about.
pub(super) fn likeness(query: &Query, apps: &[Arc<Profile>]) -> Likeness {
    let mut lines: Vec<(f32, &Profile)> = LINES.iter().map(|line| (line.nearness(query), line)).collect();
    lines.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let free = lines.into_iter().filter(|(_, line)| apps.iter().all(|app| app.similarity(line) < SAME));
    let mut best = Likeness::default();
    for (_, line) in free.take(MOST_COMPARED) {
        let one = Likeness::new(query, line);
        best.common = best.common.max(one.common);
        best.whole = best.whole.max(one.whole);
        best.words = best.words.max(one.words);
    }
    best
}

#[cfg(test)]
mod tests;
