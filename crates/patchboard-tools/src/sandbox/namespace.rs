//! Linux namespaces of a jail, where the kernel allows them.
//!
//! In a mount namespace protected paths can be masked and `/proc` replaced. In a PID namespace processes outside have
//! no pid, and the kernel kills all processes when the first one exits. An IPC namespace hides System V IPC and message
//! queues. Root can create them directly; other users need a user namespace around them. Some systems forbid that, and
//! some allow `unshare` and then deny everything inside, which cannot be undone. So it is tried once, in a process of
//! its own.

use std::io;
use std::path::{Path, PathBuf};

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

/// Proof that this process is in a mount namespace of its own. Every mount requires it: as root, a mount in the
/// server's own namespace would affect the whole machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct PrivateMounts(());

/// Identity of a mount namespace, as the kernel names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MountNamespace(String);

/// What `enter` did.
#[derive(Debug, Default)]
pub(super) struct EnteredNamespaces {
    pub(super) namespaces: Namespaces,
    pub(super) own_mounts: Option<PrivateMounts>,
    /// The mount namespace that was left; `None` if unknown.
    pub(super) outer: Option<MountNamespace>,
}

impl MountNamespace {
    pub(super) fn named(name: &str) -> Self {
        Self(name.to_owned())
    }

    pub(super) fn name(&self) -> &str {
        &self.0
    }

    fn of_this_process() -> io::Result<Self> {
        let name = std::fs::read_link("/proc/self/ns/mnt").map(PathBuf::into_os_string)?;
        name.into_string().map(Self).map_err(|_| io::ErrorKind::InvalidData.into())
    }
}

impl PrivateMounts {
    /// `None` if this process is still in `outer`, or if its namespace is unknown.
    pub(super) fn other_than(outer: &MountNamespace) -> Option<Self> {
        let current = MountNamespace::of_this_process().ok()?;
        (current != *outer).then_some(Self(()))
    }
}

/// Moves this process into new namespaces, and its future children into a new PID namespace. The process must be
/// single-threaded. On error the process is in a namespace without any rights, and no command can be started from it.
pub(super) fn enter() -> Result<EnteredNamespaces, String> {
    // Read before `unshare`: in a new user namespace the ids are unmapped until the maps are written.
    let (user, group) = (geteuid(), getegid());
    let user_namespace = if user.is_root() { UnshareFlags::empty() } else { UnshareFlags::NEWUSER };
    let mounts = Namespaces { mounts: true, ..Namespaces::default() };
    let attempts = [
        (UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC, Namespaces { processes: true, ..mounts }),
        (UnshareFlags::NEWNS, mounts),
    ];
    let outer = MountNamespace::of_this_process().ok();
    let Some((_, namespaces)) = attempts.into_iter().find(|(flags, _)| unshare(user_namespace | *flags).is_ok()) else {
        return Ok(EnteredNamespaces::default());
    };
    // Some sandboxes report success without creating the namespaces.
    let Some(own_mounts) = outer.as_ref().and_then(PrivateMounts::other_than) else {
        return Ok(EnteredNamespaces::default());
    };
    if !user.is_root() {
        map_own_ids(user.as_raw(), group.as_raw())?;
    }
    Ok(EnteredNamespaces { namespaces, own_mounts: Some(own_mounts), outer })
}

/// Maps the user's own ids to themselves in the user namespace; all other ids appear as the overflow user.
fn map_own_ids(user: u32, group: u32) -> Result<(), String> {
    let id_maps = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{user} {user} 1")),
        ("gid_map", format!("{group} {group} 1")),
    ];
    for (file, text) in id_maps {
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

/// Mounts a `/proc` of the PID namespace; called by its first process. Fails if the system masks parts of `/proc`.
pub(super) fn mount_own_proc(private_mounts: PrivateMounts) -> bool {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    keep_mounts_inside(private_mounts).is_ok() && mount("proc", "/proc", "proc", flags, None).is_ok()
}

/// Mounts a private `/dev/shm`, for semaphores and memory shared with child processes. Call after `mount_own_proc`.
pub(super) fn mount_own_shared_memory(_: PrivateMounts) -> bool {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", SHARED_MEMORY, "tmpfs", flags, Some(c"mode=1777,size=1g")).is_ok()
}

/// Tests whether a file can be bind-mounted here. Run in a process of its own.
pub(super) fn can_mount(private_mounts: PrivateMounts) -> bool {
    keep_mounts_inside(private_mounts).is_ok() && mount_bind("/dev/null", "/dev/null").is_ok()
}

/// Lets mounts of the outer namespace propagate into this one, never the other way round.
pub(super) fn keep_mounts_inside(_: PrivateMounts) -> Result<(), Errno> {
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
}

#[cfg(test)]
mod tests;
