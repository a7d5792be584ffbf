//! The real clock, real ids and souls from files: the ports that need nothing but the operating system.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use patchboard_core::port::{Clock, Ids, SoulSource};
use uuid::Uuid;

/// Keeps other processes of the same user out of this one's memory and environment, where keys are: programs that tools
/// start are such processes. There are no core dumps either.
#[cfg(target_os = "linux")]
pub(crate) fn close_to_others() -> std::io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Elsewhere debuggers need a privilege of their own.
#[cfg(not(target_os = "linux"))]
pub(crate) fn close_to_others() -> std::io::Result<()> {
    Ok(())
}

#[derive(Debug)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock everything else is given")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Time-ordered, so that newer rows sort later.
#[derive(Debug)]
pub(crate) struct SystemIds;

impl Ids for SystemIds {
    fn next(&self) -> Uuid {
        Uuid::now_v7()
    }
}

/// How often a soul's file is looked at, at most.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// A soul is a character, not a library.
const MAX_SOUL: u64 = 256 * 1024;

/// Souls read from files, and again when a file changes.
#[derive(Debug)]
pub(crate) struct SoulFiles {
    paths: HashMap<String, PathBuf>,
    read: Mutex<HashMap<String, Remembered>>,
}

#[derive(Debug, Clone)]
struct Remembered {
    text: Option<Arc<str>>,
    modified: Option<SystemTime>,
    looked_at: Instant,
}

impl SoulFiles {
    pub(crate) fn new(paths: HashMap<String, PathBuf>) -> Self {
        Self { paths, read: Mutex::new(HashMap::new()) }
    }
}

impl SoulSource for SoulFiles {
    fn soul(&self, agent: &str) -> Option<Arc<str>> {
        let path = self.paths.get(agent)?;
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let known = read.get(agent).cloned();
        if let Some(known) = &known
            && known.looked_at.elapsed() < LOOK_AGAIN
        {
            return known.text.clone();
        }
        let modified = std::fs::metadata(path).and_then(|file| file.modified()).ok();
        let text = match known {
            Some(known) if modified.is_some() && known.modified == modified => known.text,
            _ => read_soul(agent, path),
        };
        let remembered = Remembered { text: text.clone(), modified, looked_at: Instant::now() };
        read.insert(agent.to_owned(), remembered);
        text
    }
}

fn read_soul(agent: &str, path: &std::path::Path) -> Option<Arc<str>> {
    let text = std::fs::metadata(path).and_then(|file| match file.len() {
        0..=MAX_SOUL => std::fs::read_to_string(path),
        size => Err(std::io::Error::other(format!("{size} bytes are more than a soul may have ({MAX_SOUL})"))),
    });
    match text {
        Ok(text) => Some(text.into()),
        Err(error) => {
            tracing::warn!(agent, path = %path.display(), %error, "soul cannot be read; the agent speaks without it");
            None
        }
    }
}

#[cfg(test)]
mod tests;
