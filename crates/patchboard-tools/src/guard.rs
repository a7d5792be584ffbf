//! Files that the server executes or obeys must not be changed by the programs it runs. The guard is called before
//! anything that may write is started: it lists the files to mount read-only and records, before the process exists,
//! which folders cannot be protected that way.

use std::any::Any;
use std::fmt;
use std::path::{Path, PathBuf};

/// Knows the files that the server executes or obeys. All methods block on file system access.
pub trait WriteGuard: fmt::Debug + Send + Sync {
    /// Called before a process or tool starts that may write. On `Err`, a message, nothing may be started.
    fn before_write(&self, reach: &WriteReach) -> Result<WriteProtection, String>;

    /// Decides whether this configured program may be started, and with which rights. `Err` is a message with the
    /// reason and a remedy.
    fn admit(&self, program: ProgramKey<'_>) -> Result<ProgramRights, String>;

    /// Returns true if an agent's command or tool could change or create something at this path.
    fn is_agent_writable(&self, path: &Path) -> bool;

    /// Records that agents may write to this folder, a real path, although the configuration does not say so. Must be
    /// called before they can.
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
    /// The rights that its configuration table grants.
    Full,
    /// Its code lies where agents may write, so it gets only the rights of their commands.
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

/// Which protected files beneath the roots are safe from writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSealing {
    /// None: the process has no mount namespace.
    Nothing,
    /// Existing files: they are mounted read-only.
    Existing,
    /// Files that file tools refuse by name: configuration.
    Sealed,
}

/// How a process is kept from writing protected files.
#[derive(Debug, Default)]
pub struct WriteProtection {
    pub mounts: ReadOnlyMounts,
    /// Must be dropped after the process and all its descendants have ended. Dropping it blocks on file system access.
    pub lease: Option<Box<dyn Any + Send + Sync>>,
}

/// Mounts of a jail that keep files from being written, moved or replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOnlyMounts {
    pub files: Vec<PathBuf>,
    /// Directories on the way to the files, outermost first. As mount points they cannot be renamed.
    pub pinned: Vec<PathBuf>,
}

impl WriteReach {
    pub fn contains(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }
}
