//! Souls from files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use patchboard_config::files::ConfigFileReader;
use patchboard_core::port::SoulSource;

use crate::trust::guarded_files::content_file;

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
