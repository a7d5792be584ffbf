//! Applies the restrictions of a jail to the calling thread. What the thread starts afterwards inherits them; the rest
//! of the process stays unconfined, so that jailed processes can neither signal nor trace it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use landlock::{
    Access, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, make_bitflags,
};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::jail::{FilesystemView, ResourceLimits, TcpAccess};
use super::kernel::{LandlockSupport, NEWEST_ABI};
use super::landlock_rules::{ClosedPaths, GrantSummary, GrantTarget};
use super::mount_mask::MaskState;
use super::namespace::{Namespaces, SHARED_MEMORY};
use super::protect::PathProtection;
use super::protocol::{Confinement, SpawnRequest};
use super::seccomp::{self, FilterOptions};

/// What every program needs to start, to find its libraries and to resolve names. Landlock itself closes those parts of
/// `/proc` that show other processes' memory, files and environment.
const SYSTEM_PATHS: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix",
    "/gnu",
    "/snap",
    "/run/current-system",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager/resolv.conf",
    "/var/lib/ca-certificates",
    "/proc",
    "/sys/devices/system",
    "/sys/fs/cgroup",
];

const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// GPUs, other accelerators and terminals.
const COMPUTE_DEVICES: &[&str] = &["/dev/dri", "/dev/kfd", "/dev/accel", "/dev/pts", "/dev/ptmx", "/dev/tty"];
/// Prefix of NVIDIA's device files: one per card, and a few more.
const NVIDIA_PREFIX: &str = "nvidia";

/// Folder of the root that holds devices.
const DEVICE_FOLDER: &str = "dev";
/// Folders of the root that hold kernel settings.
const KERNEL_SETTINGS: &[&str] = &["proc", "sys"];

/// System secrets that only root can read; closed if the server runs as root.
const ROOT_SECRETS: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/krb5.keytab",
    "/etc/NetworkManager/system-connections",
    "/etc/wireguard",
];

const READ_EXECUTE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{Execute | ReadFile | ReadDir});
const DEVICE_ACCESS: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | WriteFile | IoctlDev | Truncate});
/// Rights that nothing in a working folder needs.
const NO_DEVICES: BitFlags<AccessFs> = make_bitflags!(AccessFs::{MakeChar | MakeBlock | IoctlDev});

/// Needed by ordinary installers and builds that run as root. All other capabilities, such as raw device access,
/// mounting, tracing and loading kernel modules, are dropped permanently.
const KEPT_CAPABILITIES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// Confines the calling thread. What the kernel cannot enforce is left out and reported in the result; any other
/// failure is an error message.
pub(super) fn confine(
    request: &SpawnRequest,
    protection: &PathProtection,
    namespaces: Namespaces,
    writable: Vec<OwnedFd>,
) -> Result<Confinement, String> {
    let (rules, summary) = build_rules(request, &protection.closed, namespaces, writable)?;
    drop_capabilities().map_err(|error| format!("cannot drop capabilities: {error}"))?;
    rustix::thread::set_no_new_privs(true).map_err(|error| format!("cannot give up new privileges: {error}"))?;
    let status = rules.restrict_self().map_err(|error| landlock_error(&error))?;
    let landlock_abi = match status.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => LandlockSupport::from(status.landlock).abi(),
        RulesetStatus::NotEnforced => 0,
    };
    if landlock_abi == 0 && protection.needs_landlock {
        return Err("protected files lie in folders that the program may change, and this system has neither mount \
                    namespaces nor Landlock to keep them closed: name other folders in its `writable`"
            .to_owned());
    }
    // Last, because the filter applies to this thread too.
    let system_calls = seccomp::apply(FilterOptions {
        unix_sockets: request.network.unix_sockets,
        listening: request.network.listen != TcpAccess::Closed,
        outside_pids_visible: !namespaces.processes,
        deny_ptrace: landlock_abi == 0,
    })?;
    let GrantSummary { has_closed_parts, skipped_entries: left_out, .. } = summary;
    let covers = protection.mask == MaskState::Applied;
    Ok(Confinement { landlock_abi, namespaces, covers, system_calls, has_closed_parts, left_out })
}

/// Sets the limits of the whole process; the supervisor itself needs far less than any of them.
pub(super) fn set_limits(limits: &ResourceLimits) -> io::Result<()> {
    let resource_limits = [
        (Resource::Cpu, limits.cpu_seconds),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Nofile, limits.open_files),
        (Resource::Data, limits.memory_bytes),
        (Resource::As, limits.address_space_bytes),
        // A core dump could expose what a command had in memory.
        (Resource::Core, Some(0)),
    ];
    for (resource, limit) in resource_limits {
        let Some(limit) = limit else { continue };
        let allowed = getrlimit(resource).maximum.map_or(limit, |hard_limit| hard_limit.min(limit));
        setrlimit(resource, Rlimit { current: Some(allowed), maximum: Some(allowed) })?;
    }
    Ok(())
}

/// Builds the ruleset and reports how much of the writable folders it could grant.
fn build_rules(
    request: &SpawnRequest,
    closed: &ClosedPaths,
    namespaces: Namespaces,
    writable: Vec<OwnedFd>,
) -> Result<(RulesetCreated, GrantSummary), String> {
    let mut rules = empty_rules(request).map_err(|error| landlock_error(&error))?;
    let mut summary = GrantSummary::default();
    for folder in writable {
        let everything = AccessFs::from_all(NEWEST_ABI) & !NO_DEVICES;
        summary.add(closed.grant_tree(folder, &mut |target| grant(&mut rules, target, everything))?);
    }
    for path in &request.private {
        let Some(descriptor) = open(Path::new(path)) else { continue };
        let everything = AccessFs::from_all(NEWEST_ABI) & !NO_DEVICES;
        grant(&mut rules, GrantTarget { descriptor, is_directory: true }, everything)?;
    }
    if request.view.is_wide() {
        grant_wide(&mut rules, request.view, closed, &mut summary)?;
        return Ok((rules, summary));
    }
    let readable = SYSTEM_PATHS.iter().map(Path::new).chain(request.readable.iter().map(Path::new));
    for path in readable {
        let Some(descriptor) = open(path) else { continue };
        closed.grant_tree(descriptor, &mut |target| grant(&mut rules, target, READ_EXECUTE))?;
    }
    for path in DEVICES {
        let Some(descriptor) = open(Path::new(path)) else { continue };
        grant(&mut rules, GrantTarget { descriptor, is_directory: false }, DEVICE_ACCESS)?;
    }
    if namespaces.own_shared_memory
        && let Some(descriptor) = open(Path::new(SHARED_MEMORY))
    {
        grant(
            &mut rules,
            GrantTarget { descriptor, is_directory: true },
            AccessFs::from_all(NEWEST_ABI) & !NO_DEVICES,
        )?;
    }
    Ok((rules, summary))
}

/// Grants the whole file system, with two exceptions. `/proc` and `/sys` are read-only: as root, writing `core_pattern` would
/// start a program outside any jail, and writing control groups could stop the server. As root, `/dev` is limited to a list,
/// because reading a block device would bypass the protection of files.
fn grant_wide(
    rules: &mut RulesetCreated,
    view: FilesystemView,
    closed: &ClosedPaths,
    summary: &mut GrantSummary,
) -> Result<(), String> {
    let entries =
        std::fs::read_dir("/").map_err(|error| format!("cannot list the root of the file system: {error}"))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let rights = match view {
            FilesystemView::Everything if !KERNEL_SETTINGS.iter().any(|one| name == *one) => {
                AccessFs::from_all(NEWEST_ABI)
            }
            FilesystemView::Everything | FilesystemView::ReadEverything | FilesystemView::Named => READ_EXECUTE,
        };
        let Some(descriptor) = open_unfollowed(&entry.path()) else { continue };
        if name != DEVICE_FOLDER || !geteuid().is_root() {
            summary.add(closed.grant_tree(descriptor, &mut |target| grant(rules, target, rights))?);
        }
    }
    if closed.is_empty() {
        let root = open(Path::new("/")).ok_or("cannot open the root of the file system")?;
        grant(rules, GrantTarget { descriptor: root, is_directory: true }, AccessFs::ReadDir.into())?;
    }
    grant_devices(rules)
}

/// Grants access to devices that programs need to write to.
fn grant_devices(rules: &mut RulesetCreated) -> Result<(), String> {
    let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    let nvidia_devices = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(NVIDIA_PREFIX));
    let nvidia_devices: Vec<_> = nvidia_devices.map(|entry| entry.path()).collect();
    let devices = DEVICES
        .iter()
        .chain(COMPUTE_DEVICES)
        .map(Path::new)
        .chain(nvidia_devices.iter().map(|device| device.as_path()));
    for path in devices {
        let Some(descriptor) = open(path) else { continue };
        grant(rules, GrantTarget { descriptor, is_directory: path.is_dir() }, DEVICE_ACCESS)?;
    }
    match open(Path::new(SHARED_MEMORY)) {
        Some(descriptor) => {
            grant(rules, GrantTarget { descriptor, is_directory: true }, AccessFs::from_all(NEWEST_ABI) & !NO_DEVICES)
        }
        None => Ok(()),
    }
}

fn empty_rules(request: &SpawnRequest) -> Result<RulesetCreated, RulesetError> {
    // A jailed process that can signal its supervisor could escape its control.
    let scope = match request.view {
        FilesystemView::Named => Scope::from_all(NEWEST_ABI),
        FilesystemView::Everything | FilesystemView::ReadEverything => Scope::Signal.into(),
    };
    let mut ruleset = Ruleset::default().handle_access(AccessFs::from_all(NEWEST_ABI))?.scope(scope)?;
    let network = [(&request.network.connect, AccessNet::ConnectTcp), (&request.network.listen, AccessNet::BindTcp)];
    for (_, access) in network.iter().filter(|(tcp, _)| **tcp != TcpAccess::Open) {
        ruleset = ruleset.handle_access(*access)?;
    }
    let mut rules = ruleset.create()?;
    for (port, access) in (0..=u16::MAX).zip(granted_ports(network)).filter(|(_, access)| !access.is_empty()) {
        rules = rules.add_rule(NetPort::new(port, access))?;
    }
    Ok(rules)
}

/// The rights per port, combined, because each rule is a system call and there may be one for every port.
fn granted_ports(network: [(&TcpAccess, AccessNet); 2]) -> Vec<BitFlags<AccessNet>> {
    let mut granted = vec![BitFlags::EMPTY; usize::from(u16::MAX) + 1];
    for (tcp, access) in network {
        match tcp {
            TcpAccess::Open | TcpAccess::Closed => {}
            TcpAccess::Ports(ports) => {
                for port in ports {
                    granted.get_mut(usize::from(*port)).into_iter().for_each(|one| one.insert(access));
                }
            }
            TcpAccess::AllBut(closed) => {
                granted.iter_mut().for_each(|one| one.insert(access));
                for port in closed {
                    granted.get_mut(usize::from(*port)).into_iter().for_each(|one| one.remove(access));
                }
            }
        }
    }
    granted
}

fn grant(rules: &mut RulesetCreated, target: GrantTarget, rights: BitFlags<AccessFs>) -> Result<(), String> {
    let rights = if target.is_directory { rights } else { rights & AccessFs::from_file(NEWEST_ABI) };
    match rules.add_rule(PathBeneath::new(target.descriptor, rights)) {
        Ok(_) => Ok(()),
        Err(error) => Err(landlock_error(&error)),
    }
}

/// The paths that Landlock has to keep closed. Must be collected before mounts mask them, which hides their inodes.
pub(super) fn closed_paths<'a>(
    request: &'a SpawnRequest,
    links: impl IntoIterator<Item = &'a Path>,
) -> Result<ClosedPaths, String> {
    let hides_root_secrets = geteuid().is_root() && request.view == FilesystemView::Named;
    let root_secrets: &[&str] = if hides_root_secrets { ROOT_SECRETS } else { &[] };
    let protected = request.protected.iter().map(Path::new);
    let closed = ClosedPaths::from_paths(protected.chain(root_secrets.iter().map(Path::new)).chain(links));
    closed.map_err(|error| format!("cannot inspect a protected path: {error}"))
}

/// `None` for symlinks: their targets are granted by their own path.
fn open_unfollowed(path: &Path) -> Option<OwnedFd> {
    let is_symlink = path.symlink_metadata().is_ok_and(|found| found.is_symlink());
    if is_symlink { None } else { open(path) }
}

fn open(path: &Path) -> Option<OwnedFd> {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Without privileges, as most servers run, there is nothing to drop.
fn drop_capabilities() -> io::Result<()> {
    let current = rustix::thread::capabilities(None)?;
    if current.permitted.is_empty() && current.inheritable.is_empty() {
        return Ok(());
    }
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if !KEPT_CAPABILITIES.contains(capability) && current.effective.contains(CapabilitySet::SETPCAP) {
            // `EINVAL` from the first capability unknown to this kernel.
            if rustix::thread::remove_capability_from_bounding_set(capability).is_err() {
                break;
            }
        }
    }
    rustix::thread::clear_ambient_capability_set()?;
    let retained = CapabilitySets {
        effective: current.effective & KEPT_CAPABILITIES,
        permitted: current.permitted & KEPT_CAPABILITIES,
        inheritable: current.inheritable & KEPT_CAPABILITIES,
    };
    Ok(rustix::thread::set_capabilities(None, retained)?)
}

fn landlock_error(error: &RulesetError) -> String {
    format!("cannot confine the command with Landlock: {error}")
}
