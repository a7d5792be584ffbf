//! The system clock, ids, and souls from files: ports that need only the operating system.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use patchboard_core::port::{Clock, IdGenerator, SoulSource};
use uuid::Uuid;

use crate::config::files::ConfigFileReader;
use crate::trust::guarded_files::content_file;

/// Denies other processes of the same user access to this one's memory and environment, which contain keys: programs
/// started by tools are such processes. Also disables core dumps.
#[cfg(target_os = "linux")]
pub(crate) fn disable_process_dumps() -> std::io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Other systems require a privilege for debugging.
#[cfg(not(target_os = "linux"))]
pub(crate) fn disable_process_dumps() -> std::io::Result<()> {
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

impl IdGenerator for SystemIds {
    fn next(&self) -> Uuid {
        Uuid::now_v7()
    }
}

/// Minimum interval between checks of a soul's file.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum size of a soul in bytes.
const MAX_SOUL: usize = 256 * 1024;

/// Souls read from files, again after a change. Agents may be able to write there, so only trusted content is used.
#[derive(Debug)]
pub(crate) struct SoulFiles {
    paths: HashMap<String, PathBuf>,
    reader: Arc<dyn ConfigFileReader>,
    cache: Mutex<HashMap<String, CachedSoul>>,
}

#[derive(Debug, Clone)]
struct CachedSoul {
    text: Option<Arc<str>>,
    checked_at: Instant,
}

impl SoulFiles {
    pub(crate) fn new(paths: HashMap<String, PathBuf>, reader: Arc<dyn ConfigFileReader>) -> Self {
        Self { paths, reader, cache: Mutex::new(HashMap::new()) }
    }

    fn read_soul(&self, agent: &str, path: &Path) -> Option<Arc<str>> {
        let reason = match self.reader.read(&content_file(path)) {
            Ok(Some(text)) if text.len() <= MAX_SOUL => return Some(text.into()),
            Ok(Some(text)) => format!("{} bytes are more than a soul may have ({MAX_SOUL})", text.len()),
            Ok(None) => "there is no such file, or it is not trusted".to_owned(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(agent, path = %path.display(), reason, "soul cannot be read; the agent speaks without it");
        None
    }
}

impl SoulSource for SoulFiles {
    fn soul(&self, agent: &str) -> Option<Arc<str>> {
        let path = self.paths.get(agent)?;
        let mut read = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let known = read.get(agent).cloned();
        if let Some(known) = &known
            && known.checked_at.elapsed() < RECHECK_INTERVAL
        {
            return known.text.clone();
        }
        let text = self.read_soul(agent, path);
        let remembered = CachedSoul { text: text.clone(), checked_at: Instant::now() };
        read.insert(agent.to_owned(), remembered);
        text
    }
}

#[cfg(test)]
mod tests;
