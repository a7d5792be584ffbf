//! What this kernel can enforce, as text.

use std::fmt;

use landlock::{ABI, Access, AccessFs, LandlockStatus, Ruleset, RulesetAttr};

use super::namespace::Namespaces;
use super::protocol::Confinement;

/// The newest ABI whose rights are requested; older kernels enforce those they know.
pub(super) const NEWEST_ABI: ABI = ABI::V9;

/// The ABI that introduced a restriction, and what commands can do on older kernels.
const GAPS: [(u32, &str); 4] = [
    (3, "emptying files outside the folder"),
    (4, "listening on TCP ports and connecting to them, this server's own included"),
    (6, "signals to processes outside and connections to abstract sockets"),
    (9, "connections to sockets that have a path, such as those of other services of the same user"),
];

/// Landlock support of the running kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LandlockSupport {
    Available {
        abi: u32,
    },
    /// Built into the kernel, but not among its active security modules.
    NotEnabled,
    NotImplemented,
}

impl LandlockSupport {
    /// Probes the kernel. Probing restricts the calling thread, so it runs on a thread of its own.
    pub fn probe() -> Self {
        let probe_thread = std::thread::Builder::new().name("landlock-probe".to_owned()).spawn(|| {
            let ruleset = Ruleset::default().handle_access(AccessFs::from_all(ABI::V1))?.create()?;
            ruleset.restrict_self().map(|status| Self::from(status.landlock))
        });
        let result = probe_thread.map(|thread| thread.join());
        if let Ok(Ok(Ok(found))) = result { found } else { Self::NotImplemented }
    }

    /// The ABI, or 0.
    pub fn abi(self) -> u32 {
        match self {
            Self::Available { abi } => abi,
            Self::NotEnabled | Self::NotImplemented => 0,
        }
    }

    /// What commands can do on this kernel although they should not. Empty without Landlock, when commands can do
    /// everything the server's user can; `Display` reports that case.
    pub fn gaps(self) -> Vec<&'static str> {
        match self {
            Self::Available { abi } => GAPS.into_iter().filter(|(since, _)| abi < *since).map(|(_, gap)| gap).collect(),
            Self::NotEnabled | Self::NotImplemented => Vec::new(),
        }
    }
}

impl From<LandlockStatus> for LandlockSupport {
    fn from(status: LandlockStatus) -> Self {
        match status {
            LandlockStatus::NotEnabled => Self::NotEnabled,
            LandlockStatus::NotImplemented => Self::NotImplemented,
            LandlockStatus::Available { effective_abi, kernel_abi } => {
                let abi = kernel_abi.unwrap_or(effective_abi as i32);
                Self::Available { abi: abi.try_into().unwrap_or_default() }
            }
        }
    }
}

impl fmt::Display for LandlockSupport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Available { abi } => {
                write!(f, "commands are confined by Landlock ABI {abi}")?;
                let gaps = self.gaps();
                if gaps.is_empty() { Ok(()) } else { write!(f, ", which does not restrict {}", gaps.join(", nor ")) }
            }
            Self::NotEnabled => f.write_str(
                "commands are not confined to their folder: this kernel was started without Landlock \
                 (add `landlock` to its `lsm=` parameter)",
            ),
            Self::NotImplemented => f.write_str(
                "commands are not confined to their folder: this kernel has no Landlock (Linux 5.13 or newer has)",
            ),
        }
    }
}

/// One layer of a jail and whether this machine enforces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JailLayer {
    pub is_enforced: bool,
    /// One sentence; for a missing layer it names the consequence.
    pub description: String,
}

impl Confinement {
    /// All layers, for `patchboard doctor`.
    pub fn layers(&self) -> Vec<JailLayer> {
        let Namespaces { processes, own_proc, .. } = self.namespaces;
        let namespaces_hint = "this system gives this user no namespaces";
        let landlock = match LandlockSupport::probe() {
            LandlockSupport::Available { .. } => LandlockSupport::Available { abi: self.landlock_abi },
            missing @ (LandlockSupport::NotEnabled | LandlockSupport::NotImplemented) => missing,
        };
        let layer = |is_enforced: bool, yes: &str, no: String| JailLayer {
            is_enforced,
            description: if is_enforced { yes.to_owned() } else { no },
        };
        vec![
            // Below ABI 6, commands can signal outside processes and use abstract sockets, which counts as not
            // enforced.
            JailLayer { is_enforced: self.landlock_abi >= 6, description: landlock.to_string() },
            layer(
                self.system_calls,
                "system calls that bypass Landlock are denied by seccomp",
                "system calls that bypass Landlock are not denied: this kernel has no seccomp filters".to_owned(),
            ),
            layer(
                processes,
                "processes outside the jail have no pid in it (PID namespace)",
                format!(
                    "processes outside the jail have visible pids: {namespaces_hint}; changing their limits and priorities is denied"
                ),
            ),
            layer(
                own_proc,
                "/proc shows only processes of the jail",
                "/proc lists processes outside the jail; their memory and environment stay closed".to_owned(),
            ),
            layer(
                self.covers,
                "protected files are covered by mounts for workers and MCP servers",
                format!(
                    "protected files cannot be covered: {namespaces_hint}; workers and MCP servers cannot list or add to the folders around them"
                ),
            ),
            layer(
                self.covers,
                "configuration, programs and plugins are mounted read-only for everything that runs in a jail",
                format!(
                    "configuration, programs and plugins cannot be mounted read-only: {namespaces_hint}; a change of them where agents may write waits for `patchboard trust`"
                ),
            ),
        ]
    }
}

#[cfg(test)]
mod tests;
