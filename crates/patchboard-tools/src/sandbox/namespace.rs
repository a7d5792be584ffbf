//! Linux namespaces of a jail, where the kernel allows them.
//!
//! In a mount namespace protected paths can be covered and `/proc` replaced. In a PID namespace processes outside have no
//! pid, and the kernel kills all processes when the first one exits. An IPC namespace hides System V IPC and message queues.
//! Root can create them directly; other users need a user namespace around them. Some systems forbid that, and some allow
//! `unshare` and then deny everything inside, which cannot be undone. So it is tried once, in a process of its own.

use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::process::{getegid, geteuid};
use rustix::thread::{
    CapabilitySet, UnshareFlags, capabilities, configure_capability_in_ambient_set, set_capabilities,
};
use serde::{Deserialize, Serialize};

/// Where programs share memory.
pub(super) const SHARED_MEMORY: &str = "/dev/shm";

/// Which namespaces and private mounts a jail has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespaces {
    pub mounts: bool,
    /// A PID namespace: processes outside have no pid.
    pub processes: bool,
    /// `/proc` shows only the jail's own processes.
    pub own_proc: bool,
    /// `/dev/shm` is a private mount.
    pub own_shared_memory: bool,
}

/// Moves this process into new namespaces, and its future children into a new PID namespace. The process must be
/// single-threaded. `Err`: the process is in a namespace without any rights, and no command can be started from it.
pub(super) fn enter() -> Result<Namespaces, String> {
    // Read before `unshare`: in a new user namespace the ids are unmapped until the maps are written.
    let (user, group) = (geteuid(), getegid());
    let around = if user.is_root() { UnshareFlags::empty() } else { UnshareFlags::NEWUSER };
    let mounts = Namespaces { mounts: true, ..Namespaces::default() };
    let wanted = [
        (UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC, Namespaces { processes: true, ..mounts }),
        (UnshareFlags::NEWNS, mounts),
    ];
    let Some((_, got)) = wanted.into_iter().find(|(flags, _)| unshare(around | *flags).is_ok()) else {
        return Ok(Namespaces::default());
    };
    if !user.is_root() {
        map_own_ids(user.as_raw(), group.as_raw())?;
    }
    Ok(got)
}

/// Maps the user's own ids to themselves in the user namespace; all other ids appear as nobody.
fn map_own_ids(user: u32, group: u32) -> Result<(), String> {
    let said = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{user} {user} 1")),
        ("gid_map", format!("{group} {group} 1")),
    ];
    for (file, text) in said {
        std::fs::write(Path::new("/proc/self").join(file), text)
            .map_err(|error| format!("the supervisor cannot keep its user in a namespace: {file}: {error}"))?;
    }
    Ok(())
}

fn unshare(namespaces: UnshareFlags) -> Result<(), Errno> {
    #[expect(deprecated, reason = "what its successor is unsafe about is the table of descriptors, which stays shared")]
    rustix::thread::unshare(namespaces)
}

/// Puts `CAP_SYS_ADMIN` of the user namespace into the ambient set, so that the next `exec` keeps it: the first process of the
/// PID namespace needs it to mount. `confine` drops it before the command starts.
pub(super) fn keep_mount_capability() -> Result<(), Errno> {
    if geteuid().is_root() {
        return Ok(());
    }
    let mut sets = capabilities(None)?;
    sets.inheritable |= CapabilitySet::SYS_ADMIN;
    set_capabilities(None, sets)?;
    configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true)
}

/// Mounts a `/proc` of the PID namespace; called by its first process. Fails where the system masks parts of `/proc`.
pub(super) fn mount_own_proc() -> bool {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    keep_mounts_inside().is_ok() && mount("proc", "/proc", "proc", flags, None).is_ok()
}

/// Mounts a private `/dev/shm`, for semaphores and memory shared with child processes. Call after `mount_own_proc`.
pub(super) fn mount_own_shared_memory() -> bool {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", SHARED_MEMORY, "tmpfs", flags, Some(c"mode=1777,size=1g")).is_ok()
}

/// Can a file be mounted onto itself here? Tried in a process of its own.
pub(super) fn can_mount() -> bool {
    keep_mounts_inside().is_ok() && mount_bind("/dev/null", "/dev/null").is_ok()
}

/// Mounts of the outside propagate into the namespace, never the other way round.
pub(super) fn keep_mounts_inside() -> Result<(), Errno> {
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
}
