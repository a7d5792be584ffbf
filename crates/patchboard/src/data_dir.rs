//! The data directory: its lock, which admits one server at a time, the server's record for clients, and the operator's
//! token.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use patchboard_config::secrets::random_secret;
use patchboard_core::port::Clock;
use patchboard_surfaces::local_users;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use crate::VERSION;
use crate::system::SystemClock;
use process::{LAST_STOP, LastStop, PROCESS_RECORD, ProcessRecord, ProcessRole, ProcessState};

mod owner;
pub(crate) mod process;

pub(crate) use owner::{DirSharing, inspect as inspect_owner, is_own_record, may_hold_records};

impl ServerRecord {
    /// Removes addresses whose port another user listens on now: that user would receive the operator's token.
    fn without_foreign_ports(mut self, owner: u32) -> Self {
        let own = rustix::process::geteuid().as_raw();
        for address in [&mut self.gateway, &mut self.runs, &mut self.hub, &mut self.bridge] {
            let user = address.and_then(local_users::listening_user);
            if user.is_some_and(|user| ![own, owner, ROOT].contains(&user)) {
                *address = None;
            }
        }
        self
    }
}

/// Addresses of a running server; `null` for surfaces that are off. The ready file has the same content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServerRecord {
    pub(crate) pid: u32,
    pub(crate) version: String,
    pub(crate) gateway: Option<SocketAddr>,
    pub(crate) runs: Option<SocketAddr>,
    pub(crate) hub: Option<SocketAddr>,
    pub(crate) bridge: Option<SocketAddr>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum DataDirError {
    #[error("cannot use the data directory `{}`", .path.display())]
    Unusable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("another server uses the data directory `{}` ({who})", .path.display())]
    InUse { path: PathBuf, who: String },
    #[error(transparent)]
    Unsafe(#[from] owner::UnsafeFolder),
    #[error("cannot write `{}`", .path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// A data directory locked by this process until drop.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    sharing: DirSharing,
    process: Mutex<ProcessRecord>,
    _lock: File,
}

impl DataDir {
    /// Creates and locks the directory. It is a kernel lock, so a crash releases it.
    pub(crate) fn acquire(path: &Path, sharing: DirSharing) -> Result<Self, DataDirError> {
        let unusable = |source| DataDirError::Unusable { path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unusable)?;
        owner::close_to_other_users(path, sharing)?;
        let lock = private_open_options().truncate(false).open(path.join("lock")).map_err(unusable)?;
        let mut tries = LOCK_TRIES;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => match find_server(path) {
                    Some(record) => {
                        return Err(DataDirError::InUse { path: path.to_owned(), who: format!("pid {}", record.pid) });
                    }
                    // A client looking for a server holds the lock for a moment; a server keeps it.
                    None if tries > 0 => std::thread::sleep(LOCK_RETRY_DELAY),
                    None => {
                        let pid = find_process(path).map(|process| format!(", pid {}", process.pid));
                        let who = format!("it is starting or stopping{}", pid.unwrap_or_default());
                        return Err(DataDirError::InUse { path: path.to_owned(), who });
                    }
                },
                Err(TryLockError::Error(source)) => return Err(unusable(source)),
            }
            tries -= 1;
        }
        // With the lock held, an existing record belongs to a dead process.
        match fs::remove_file(record_path(path)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(unusable(source)),
        }
        let process = Mutex::new(initial_process_record());
        let taken = Self { path: path.to_owned(), sharing, process, _lock: lock };
        taken.record(|_| {})?;
        Ok(taken)
    }

    /// Updates this process's record for other commands. Skips the write if nothing changed.
    pub(crate) fn record(&self, change: impl FnOnce(&mut ProcessRecord)) -> Result<(), DataDirError> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let before = process.clone();
        change(&mut process);
        let path = self.path.join(PROCESS_RECORD);
        if *process == before && path.exists() {
            return Ok(());
        }
        write_private_file(&path, &encode_json(&*process))
    }

    /// Records the outcome of the shutdown.
    pub(crate) fn record_stop(&self, cancelled: usize, suspended: usize) -> Result<(), DataDirError> {
        let at = SystemClock.now().to_string();
        let stop = LastStop { pid: std::process::id(), at, cancelled, suspended };
        write_private_file(&self.path.join(LAST_STOP), &encode_json(&stop))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The operator's token, generated at the first start: 256 random bits, readable by the owner only.
    pub(crate) fn operator_token(&self) -> Result<SecretString, DataDirError> {
        let file = self.path.join(OPERATOR_TOKEN);
        let found = fs::symlink_metadata(&file);
        if found.as_ref().is_ok_and(|found| found.nlink() > 1) {
            // A copy read through another link must become worthless.
            tracing::warn!("`{OPERATOR_TOKEN}` has other names (hard links): a new operator's token is made");
        } else if found.is_ok_and(|found| !owner::is_private_file(&found, self.sharing)) {
            tracing::warn!("others could read or replace `{OPERATOR_TOKEN}`: a new operator's token is made");
        } else if let Some(token) = operator_token(&self.path) {
            return Ok(token);
        }
        let token = random_secret();
        write_private_file(&file, token.as_bytes())?;
        Ok(token.into())
    }

    /// Called when the server stops: another process may take its ports, and clients must not send the operator's token
    /// there.
    pub(crate) fn remove_server_record(&self) {
        drop(fs::remove_file(record_path(&self.path)));
    }

    pub(crate) fn write_server_record(&self, record: &ServerRecord) -> Result<(), DataDirError> {
        write_private_file(&record_path(&self.path), &encode_json(record))
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        // A stale record is harmless: readers check the lock.
        self.remove_server_record();
        drop(fs::remove_file(self.path.join(PROCESS_RECORD)));
    }
}

fn initial_process_record() -> ProcessRecord {
    let pid = std::process::id();
    ProcessRecord {
        pid,
        started_tick: process::started_tick(pid),
        started_at: SystemClock.now().to_string(),
        version: VERSION.to_owned(),
        role: ProcessRole::Command,
        state: ProcessState::Starting,
        drain_ms: 0,
        runs_left: None,
    }
}

/// The open lock file, if another process holds the lock now.
pub(crate) fn lock_held_elsewhere(path: &Path) -> Option<File> {
    let lock = File::open(path.join("lock")).ok()?;
    match lock.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(lock),
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}

/// The record of the process that holds the data directory, if there is one.
pub(crate) fn find_process(path: &Path) -> Option<ProcessRecord> {
    lock_held_elsewhere(path)?;
    process::read_record(path)
}

/// The server that runs on a data directory, if one does.
pub(crate) fn find_server(path: &Path) -> Option<ServerRecord> {
    let lock = File::open(path.join("lock")).ok()?;
    match lock.try_lock_shared() {
        Ok(()) => None,
        Err(TryLockError::WouldBlock) => {
            let record: ServerRecord = serde_json::from_slice(&fs::read(record_path(path)).ok()?).ok()?;
            let owner = fs::metadata(record_path(path)).ok()?.uid();
            Some(record.without_foreign_ports(owner))
        }
        Err(TryLockError::Error(_)) => None,
    }
}

/// When the server of a data directory wrote its record.
pub(crate) fn server_started_at(path: &Path) -> Option<SystemTime> {
    fs::metadata(record_path(path)).and_then(|found| found.modified()).ok()
}

pub(crate) fn operator_token(path: &Path) -> Option<SecretString> {
    let mut text = String::new();
    File::open(path.join(OPERATOR_TOKEN)).ok()?.take(1024).read_to_string(&mut text).ok()?;
    let token = text.trim();
    // A truncated file must not become a token that is easy to guess.
    (token.len() >= 32).then(|| token.into())
}

/// Files of the data directory that are the server's alone. Listed one by one, so that they are recognised by inode as
/// well.
pub(crate) fn secret_files(path: &Path, database: &Path) -> Vec<PathBuf> {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    vec![path.join(OPERATOR_TOKEN), database.to_owned(), log.into()]
}

/// Written under another name and renamed, so that waiting processes find it complete.
pub(crate) fn write_ready_file(path: &Path, record: &ServerRecord) -> Result<(), DataDirError> {
    write_private_file(path, &encode_json(record))
}

const ROOT: u32 = 0;
const LOCK_TRIES: u32 = 25;
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(20);
const OPERATOR_TOKEN: &str = "operator.token";

fn record_path(path: &Path) -> PathBuf {
    path.join("server.json")
}

fn encode_json(record: &impl Serialize) -> Vec<u8> {
    // Cannot fail: the record has only strings, numbers and addresses.
    serde_json::to_vec(record).unwrap_or_default()
}

fn private_open_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    options
}

fn write_private_file(path: &Path, bytes: &[u8]) -> Result<(), DataDirError> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let write = || {
        let mut file = private_open_options().truncate(true).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|source| {
        drop(fs::remove_file(&temporary));
        DataDirError::Write { path: path.to_owned(), source }
    })
}

#[cfg(test)]
mod tests;
