//! What a command may touch, and how much of it.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where programs are looked for when nobody says otherwise.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const GIBIBYTE: u64 = 1024 * 1024 * 1024;

/// What a command may touch.
#[derive(Debug)]
pub struct Jail {
    /// Where the command starts: an open directory, so that nobody can swap it.
    pub folder: OwnedFd,
    pub view: FilesystemView,
    /// Open directories beneath which everything may be read, run and changed.
    pub writable: Vec<OwnedFd>,
    /// Paths beneath which everything may be read and run. Those that do not exist are left out.
    pub readable: Vec<PathBuf>,
    /// Absolute paths that stay closed even beneath the above. They need not exist. Landlock can only grant, so what
    /// lies beside such a path is granted entry by entry, and the directories on the way to it can be passed but
    /// neither listed nor added to. The wider views have a better way where the kernel allows it.
    pub protected: Vec<PathBuf>,
    /// Existing folders that only this program uses, to read and change although they lie beneath protected paths.
    pub private: Vec<PathBuf>,
    /// All variables the command gets, besides `TMPDIR` and, unless named, `HOME`, which lie in its private folder.
    pub environment: BTreeMap<String, String>,
    /// Where its private folder is made.
    pub scratch: PathBuf,
    pub network: NetworkAccess,
    pub limits: ResourceLimits,
}

/// What a jail shows of the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FilesystemView {
    /// The system's own programs and libraries, to read and run, and what the jail names.
    Named,
    /// Everything, to read, run and change, except what is protected: for programs that the operator chose and that are
    /// at home on this machine. Where the kernel allows a mount namespace, what is protected is covered by nothing, and
    /// everything around it is as usual; what does not exist when the command starts is not covered. Elsewhere Landlock
    /// grants what lies beside it.
    Everything,
    /// Everything, to read and run, except what is protected, which is covered as above; to change only what the jail
    /// names, the private folder, shared memory and devices that compute. For programs that the operator chose and that
    /// may lie, with all they need, anywhere on this machine.
    ReadEverything,
}

impl FilesystemView {
    /// Is there more to see than is named, so that what is protected has to be taken out of it?
    pub(super) fn is_wide(self) -> bool {
        match self {
            Self::Named => false,
            Self::Everything | Self::ReadEverything => true,
        }
    }
}

#[derive(Debug)]
pub struct CommandSpec {
    /// With a slash in it, a path; without, looked for on the jail's `PATH`.
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub stdin: StdinMode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdinMode {
    /// `/dev/null`.
    Null,
    /// A pipe; see `Jailed::take_stdin`.
    Piped,
}

/// Ports are those of TCP, enforced from Landlock ABI 4 on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkAccess {
    pub connect: TcpAccess,
    /// Binding a port, and listening at all.
    pub listen: TcpAccess,
    /// Sockets of the Unix family, by which other programs of the same user can be reached. A connected pair of them can
    /// always be had.
    pub unix_sockets: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TcpAccess {
    Open,
    Closed,
    Ports(Vec<u16>),
    /// Any port but these. Landlock only grants, so each of the others is granted by itself, which takes some 50 ms:
    /// for programs that run for long.
    AllBut(Vec<u16>),
}

/// Limits of each process of the jail; `None` leaves what the server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// A process that computes longer is killed.
    pub cpu_seconds: Option<u64>,
    /// A process that writes a longer file is killed.
    pub file_bytes: Option<u64>,
    pub open_files: Option<u64>,
    /// Allocations beyond this fail. Address space that is only reserved does not count.
    pub memory_bytes: Option<u64>,
    /// Generous, for many runtimes reserve far more than they use.
    pub address_space_bytes: Option<u64>,
}

impl Jail {
    /// A jail in which only `folder` may be changed. Commands may connect, since builds fetch things, and not listen.
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

/// The variables of a jail unless the caller has better ones. Nothing of the server's own environment is among them.
pub fn default_environment() -> BTreeMap<String, String> {
    [("PATH", DEFAULT_PATH), ("LANG", "C.UTF-8"), ("TERM", "dumb")]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}
