//! What a command may access, and its resource limits.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `PATH` unless the caller sets one.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const GIBIBYTE: u64 = 1024 * 1024 * 1024;

/// What a command may access.
#[derive(Debug)]
pub struct Jail {
    /// The working folder: an open directory, so that it cannot be swapped.
    pub folder: OwnedFd,
    pub view: FilesystemView,
    /// Open directories beneath which everything may be read, executed and changed.
    pub writable: Vec<OwnedFd>,
    /// Paths beneath which everything may be read and executed. Missing paths are ignored.
    pub readable: Vec<PathBuf>,
    /// Absolute paths that stay closed even beneath the paths above. They need not exist. Landlock can only grant, so
    /// the entries beside such a path are granted one by one, and the directories on the way to it can be traversed but
    /// neither listed nor added to. The wide views use mounts instead where the kernel allows them.
    pub protected: Vec<PathBuf>,
    /// Existing folders of this program only, readable and writable although they lie beneath protected paths.
    pub private: Vec<PathBuf>,
    /// All variables of the command, besides `TMPDIR` and, unless named, `HOME`, which lie in its private folder.
    pub environment: BTreeMap<String, String>,
    /// Parent of the command's private folder.
    pub scratch: PathBuf,
    pub network: NetworkAccess,
    pub limits: ResourceLimits,
}

/// What a jail shows of the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FilesystemView {
    /// The system's programs and libraries, to read and execute, and what the jail names.
    Named,
    /// Everything, to read, execute and change, except protected paths: for programs that the operator chose and that
    /// belong on this machine. Where the kernel allows a mount namespace, protected paths are masked and everything
    /// around them is unaffected; paths that do not exist when the command starts are not masked. Elsewhere Landlock
    /// grants the entries beside them.
    Everything,
    /// Everything, to read and execute, except protected paths, which are masked as above. Writable is only what the
    /// jail names, the private folder, shared memory and compute devices. For programs that the operator chose and that
    /// may lie, with their dependencies, anywhere on this machine.
    ReadEverything,
}

impl FilesystemView {
    /// Returns true if the view shows more than the jail names, so that protected paths have to be taken out of it.
    pub(super) fn is_wide(self) -> bool {
        match self {
            Self::Named => false,
            Self::Everything | Self::ReadEverything => true,
        }
    }
}

#[derive(Debug)]
pub struct CommandSpec {
    /// A path if it contains a slash; otherwise looked up in the jail's `PATH`.
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub stdin: StdinMode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdinMode {
    /// `/dev/null`.
    Null,
    /// A pipe; see `JailedCommand::take_stdin`.
    Piped,
}

/// Restricts TCP ports; enforced from Landlock ABI 4 on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkAccess {
    pub connect: TcpAccess,
    /// Binding a port, and listening at all.
    pub listen: TcpAccess,
    /// Unix sockets, which reach other programs of the same user. A connected pair (`socketpair`) is always allowed.
    pub unix_sockets: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TcpAccess {
    Open,
    Closed,
    Ports(Vec<u16>),
    /// Any port but these. Landlock can only grant, so every other port needs a rule of its own, which takes some 50
    /// ms: only for long-running programs.
    AllBut(Vec<u16>),
}

/// Limits of each process of the jail; `None` inherits the server's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// A process that uses more CPU time is killed.
    pub cpu_seconds: Option<u64>,
    /// A process that writes a longer file is killed.
    pub file_bytes: Option<u64>,
    pub open_files: Option<u64>,
    /// Allocations beyond this fail. Reserved address space does not count.
    pub memory_bytes: Option<u64>,
    /// Must be generous: many runtimes reserve far more than they use.
    pub address_space_bytes: Option<u64>,
}

impl Jail {
    /// A jail in which only `folder` may be changed. Commands may connect, because builds download things, but not
    /// listen.
    pub fn for_folder(folder: OwnedFd) -> std::io::Result<Self> {
        Ok(Self {
            view: FilesystemView::Named,
            writable: vec![folder.try_clone()?],
            folder,
            readable: Vec::new(),
            protected: Vec::new(),
            private: Vec::new(),
            environment: default_environment(),
            scratch: std::env::temp_dir(),
            network: NetworkAccess::default(),
            limits: ResourceLimits::default(),
        })
    }
}

impl Default for NetworkAccess {
    fn default() -> Self {
        Self { connect: TcpAccess::Open, listen: TcpAccess::Closed, unix_sockets: false }
    }
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self {
            cpu_seconds: Some(60 * 60),
            file_bytes: Some(8 * GIBIBYTE),
            open_files: Some(4096),
            memory_bytes: Some(16 * GIBIBYTE),
            address_space_bytes: Some(1024 * GIBIBYTE),
        }
    }
}

/// Default variables of a jail. Nothing of the server's own environment is included.
pub fn default_environment() -> BTreeMap<String, String> {
    [("PATH", DEFAULT_PATH), ("LANG", "C.UTF-8"), ("TERM", "dumb")]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}
