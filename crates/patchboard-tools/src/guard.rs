//! What the server executes or obeys must not be changed by what it runs. Before anything that may write is started, a guard is
//! asked: it names the files to mount read-only and records, before the process exists, which folders cannot be kept that way.

use std::any::Any;
use std::fmt;
use std::path::{Path, PathBuf};

/// Knows the files that the server executes or obeys. All methods block on the disk.
pub trait WriteGuard: fmt::Debug + Send + Sync {
    /// Called before a process or tool starts that may write. `Err` is a sentence; nothing may be started then.
    fn before_write(&self, reach: &WriteReach) -> Result<WriteProtection, String>;

    /// May this configured program be started, and with which rights? `Err` says why not and what the operator can do.
    fn admit(&self, program: ProgramKey<'_>) -> Result<ProgramRights, String>;

    /// Could an agent's command or tool change what lies there, or put something there?
    fn is_agent_writable(&self, path: &Path) -> bool;

    /// From now on agents may write to this folder, a real path, although the configuration does not say so. Called before
    /// they can.
    fn mark_agent_writable(&self, folder: &Path);
}

/// A program of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProgramKey<'a> {
    WorkerPool(&'a str),
    McpServer(&'a str),
}

/// The rights of a configured program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramRights {
    /// Those its table grants.
    Full,
    /// Its code lies where agents may write, so it gets what their commands get.
    Reduced(ReducedRights),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReducedRights {
    /// The agents' working folder.
    pub writable: Vec<PathBuf>,
    /// What `bash` may read, and the program's interpreter, packages and script folder.
    pub readable: Vec<PathBuf>,
}

/// Where a process or tool may write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteReach {
    /// Real paths; `/` stands for the whole file system.
    pub roots: Vec<PathBuf>,
    pub sealed_by: FileSealing,
}

/// Which obeyed files beneath the roots cannot be written all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSealing {
    /// None: the process has no mount namespace.
    Nothing,
    /// Those that exist: they are mounted read-only.
    Existing,
    /// Those that file tools refuse by name: configuration.
    Sealed,
}

/// How a process is kept from files that are obeyed.
#[derive(Debug, Default)]
pub struct WriteProtection {
    pub mounts: ReadOnlyMounts,
    /// To be dropped when the process and all it started have ended. Dropping it blocks on the disk.
    pub lease: Option<Box<dyn Any + Send + Sync>>,
}

/// Mounts of a jail that keep files from being written, moved or replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOnlyMounts {
    pub files: Vec<PathBuf>,
    /// Directories on the way to them, outermost first. As mount points they cannot be renamed.
    pub pinned: Vec<PathBuf>,
}

impl WriteReach {
    pub fn contains(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }
}
