//! The seccomp filter of jailed processes: it denies what Landlock and namespaces do not cover.
//!
//! A filter sees the number and the register arguments of a system call, not what a pointer points to. So it can deny socket
//! types, flags and process ids; `io_uring`, which it cannot inspect, is denied as a whole. This is a deny list: jailed
//! programs are ordinary programs, and every call that is not listed passes.
//!
//! A process of another architecture than the server's (32-bit code on a 64-bit kernel) is killed at its first system call,
//! because its call numbers differ.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter, sock_filter,
};

/// Which rules the filter needs, given the other layers of the jail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FilterOptions {
    /// Allows `socket(AF_UNIX)`. A connected `socketpair` is always allowed.
    pub(super) unix_sockets: bool,
    pub(super) listening: bool,
    /// Processes outside the jail have visible pids, because there is no PID namespace.
    pub(super) outside_pids_visible: bool,
    /// Landlock is missing, so `ptrace` of processes outside has to be denied here.
    pub(super) deny_ptrace: bool,
}

/// Installs the filter for the calling thread and every process it starts later. `false` if the kernel has no seccomp filters.
pub(super) fn apply(options: FilterOptions) -> Result<bool, String> {
    for (at, program) in programs(options)?.iter().enumerate() {
        match apply_filter(program) {
            Ok(()) => {}
            Err(seccompiler::Error::Seccomp(error)) if at == 0 && is_missing(&error) => return Ok(false),
            Err(error) => return Err(format!("cannot filter the system calls of the command: {error}")),
        }
    }
    Ok(true)
}

/// `ENOSYS`: a kernel without seccomp. `EINVAL`: one without filters.
fn is_missing(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL))
}

/// Denies one system call if all conditions hold, with the given errno.
struct DenyRule {
    call: i64,
    conditions: Vec<Condition>,
    error: i32,
}

/// Argument index, operator and value. Only the lower 32 bits are compared, as the kernel reads these arguments as `int`.
type Condition = (u8, SeccompCmpOp, u64);

const EQUAL: SeccompCmpOp = SeccompCmpOp::Eq;
const OTHER_THAN: SeccompCmpOp = SeccompCmpOp::Ne;

/// The part of a socket's type that is not a flag.
const TYPE_MASK: u64 = 0xf;
/// `SOCK_DCCP`: congestion-controlled, but not TCP.
const DCCP_TYPE: u64 = 6;
/// The first process of a PID namespace.
const SUPERVISOR_PID: u64 = 1;
/// `PRIO_USER`: all processes of a user.
const PRIORITY_OF_USER: u64 = 2;
/// `IOPRIO_WHO_USER`
const IO_PRIORITY_OF_USER: u64 = 3;

fn deny_rules(options: FilterOptions) -> Vec<DenyRule> {
    let mut denied = socket_rules();
    // Requests submitted through the ring would bypass this filter.
    for call in [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register] {
        denied.push(deny(call, [], libc::EPERM));
    }
    // Kernel keyrings are shared by all processes of the user; BPF programs and perf counters see other processes.
    for call in [libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl, libc::SYS_bpf, libc::SYS_perf_event_open] {
        denied.push(deny(call, [], libc::EPERM));
    }
    // TIOCSTI injects input into a terminal.
    denied.push(deny(libc::SYS_ioctl, [(1, EQUAL, libc::TIOCSTI)], libc::EPERM));
    denied.push(deny(libc::SYS_setpriority, [(0, EQUAL, PRIORITY_OF_USER)], libc::EPERM));
    denied.push(deny(libc::SYS_ioprio_set, [(0, EQUAL, IO_PRIORITY_OF_USER)], libc::EPERM));
    denied.extend(process_rules(options.outside_pids_visible));
    denied.extend(setuid_rules());
    // Switches a TCP connection to SMC, which Landlock's port rules do not cover.
    let upper_protocol = [(1, EQUAL, number(libc::IPPROTO_TCP)), (2, EQUAL, number(libc::TCP_ULP))];
    denied.push(deny(libc::SYS_setsockopt, upper_protocol, libc::ENOPROTOOPT));
    if options.deny_ptrace {
        for call in [libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_pidfd_getfd] {
            denied.push(deny(call, [], libc::EPERM));
        }
    }
    if !options.unix_sockets {
        denied.push(deny(libc::SYS_socket, [(0, EQUAL, number(libc::AF_UNIX))], libc::EACCES));
        // A datagram socket can send to any address although it is connected; for AF_UNIX the kernel treats RAW as DGRAM.
        for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
            denied.push(deny(libc::SYS_socketpair, [type_is(1, number(kind))], libc::EACCES));
        }
    }
    if !options.listening {
        // Landlock checks `bind` only; `listen` on an unbound socket gets a port from the kernel.
        denied.push(deny(libc::SYS_listen, [], libc::EACCES));
    }
    denied
}

/// Landlock's port rules cover plain TCP only. Other protocols that can reach a TCP port, and address families that are not
/// known to be harmless, are denied.
fn socket_rules() -> Vec<DenyRule> {
    let internet = [libc::AF_INET, libc::AF_INET6].map(number);
    let [unix, netlink] = [libc::AF_UNIX, libc::AF_NETLINK].map(number);
    let unknown = internet.into_iter().chain([unix, netlink]).map(|family| (0, OTHER_THAN, family));
    let mut denied = vec![
        deny(libc::SYS_socket, unknown, libc::EAFNOSUPPORT),
        // NETLINK_ROUTE (0) is needed by getaddrinfo; the other protocols are not.
        deny(libc::SYS_socket, [(0, EQUAL, netlink), (2, OTHER_THAN, 0)], libc::EPROTONOSUPPORT),
        deny(libc::SYS_socketpair, [(0, OTHER_THAN, unix)], libc::EAFNOSUPPORT),
    ];
    for family in internet {
        let stream = [(0, EQUAL, family), type_is(1, number(libc::SOCK_STREAM))];
        // MPTCP, SCTP, SMC.
        let not_tcp = [(2, OTHER_THAN, 0), (2, OTHER_THAN, number(libc::IPPROTO_TCP))];
        denied.push(deny(libc::SYS_socket, stream.into_iter().chain(not_tcp), libc::EPROTONOSUPPORT));
        for kind in [number(libc::SOCK_SEQPACKET), DCCP_TYPE] {
            denied.push(deny(libc::SYS_socket, [(0, EQUAL, family), type_is(1, kind)], libc::EPROTONOSUPPORT));
        }
    }
    // TCP fast open connects and sends in one call, which Landlock's connect rule does not see.
    for (call, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
        denied.push(deny(call, [has_flag(flags, number(libc::MSG_FASTOPEN))], libc::EOPNOTSUPP));
    }
    denied
}

/// Calls that change another process. With visible outside pids only pid 0, the caller itself, is allowed; in a PID namespace
/// everything but pid 1, which is the supervisor.
fn process_rules(outside_pids_visible: bool) -> Vec<DenyRule> {
    let first = [
        libc::SYS_prlimit64,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setaffinity,
        libc::SYS_migrate_pages,
        libc::SYS_move_pages,
    ];
    let second = [libc::SYS_setpriority, libc::SYS_ioprio_set];
    let pid_condition =
        |position| if outside_pids_visible { (position, OTHER_THAN, 0) } else { (position, EQUAL, SUPERVISOR_PID) };
    let pid_calls = first.map(|call| (call, 0)).into_iter().chain(second.map(|call| (call, 1)));
    let mut denied: Vec<_> =
        pid_calls.map(|(call, position)| deny(call, [pid_condition(position)], libc::EPERM)).collect();
    if outside_pids_visible {
        let by_handle = [libc::SYS_process_madvise, libc::SYS_process_mrelease];
        denied.extend(by_handle.map(|call| deny(call, [], libc::EPERM)));
    }
    denied
}

/// With a set-user-ID file, any other user of the machine could run what a command wrote as the server's user, outside
/// the jail.
fn setuid_rules() -> Vec<DenyRule> {
    // Each with the index of its mode argument.
    let mut calls = vec![
        (libc::SYS_fchmod, 1),
        (libc::SYS_fchmodat, 2),
        (libc::SYS_fchmodat2, 2),
        (libc::SYS_mkdirat, 2),
        (libc::SYS_mknodat, 2),
        (libc::SYS_openat, 3),
    ];
    #[cfg(target_arch = "x86_64")]
    calls.extend([
        (libc::SYS_chmod, 1),
        (libc::SYS_creat, 1),
        (libc::SYS_mkdir, 1),
        (libc::SYS_mknod, 1),
        (libc::SYS_open, 2),
    ]);
    let bits = [u64::from(libc::S_ISUID), u64::from(libc::S_ISGID)];
    let is_open_call = |call| call == libc::SYS_openat || is_plain_open(call);
    let mut denied = Vec::new();
    for (call, mode) in calls {
        for bit in bits {
            if !is_open_call(call) {
                denied.push(deny(call, [has_flag(mode, bit)], libc::EPERM));
                continue;
            }
            // The mode matters only if a file is created; otherwise the argument may hold anything.
            for create_flag in [number(libc::O_CREAT), number(libc::O_TMPFILE & !libc::O_DIRECTORY)] {
                denied.push(deny(call, [has_flag(mode - 1, create_flag), has_flag(mode, bit)], libc::EPERM));
            }
        }
    }
    // The mode of `openat2` is behind a pointer. Programs fall back to `openat`.
    denied.push(deny(libc::SYS_openat2, [], libc::ENOSYS));
    denied
}

#[cfg(target_arch = "x86_64")]
fn is_plain_open(call: i64) -> bool {
    call == libc::SYS_open
}

#[cfg(not(target_arch = "x86_64"))]
fn is_plain_open(_call: i64) -> bool {
    false
}

fn deny(call: i64, conditions: impl IntoIterator<Item = Condition>, error: i32) -> DenyRule {
    DenyRule { call, conditions: conditions.into_iter().collect(), error }
}

fn type_is(position: u8, kind: u64) -> Condition {
    (position, SeccompCmpOp::MaskedEq(TYPE_MASK), kind)
}

fn has_flag(position: u8, flag: u64) -> Condition {
    (position, SeccompCmpOp::MaskedEq(flag), flag)
}

/// The constants used here are small and not negative.
fn number(constant: i32) -> u64 {
    u64::from(constant.unsigned_abs())
}

/// One BPF program per errno, because a filter of `seccompiler` has a single match action.
fn programs(options: FilterOptions) -> Result<Vec<BpfProgram>, String> {
    // `None`: denied without conditions, which `seccompiler` expresses as an empty list of rules.
    let mut by_error: BTreeMap<i32, BTreeMap<i64, Option<Vec<SeccompRule>>>> = BTreeMap::new();
    for DenyRule { call, conditions, error } in deny_rules(options) {
        let rules = by_error.entry(error).or_default().entry(call).or_insert_with(|| Some(Vec::new()));
        match rules {
            _ if conditions.is_empty() => *rules = None,
            Some(rules) => rules.push(rule(conditions).map_err(|error| cannot_build(&error))?),
            None => {}
        }
    }
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| cannot_build(&error))?;
    let mut programs = vec![deny_x32()];
    for (error, rules) in by_error {
        let denied = SeccompAction::Errno(error.unsigned_abs());
        let rules = rules.into_iter().map(|(call, rules)| (call, rules.unwrap_or_default())).collect();
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, arch);
        programs.push(filter.and_then(BpfProgram::try_from).map_err(|error| cannot_build(&error))?);
    }
    programs.retain(|program| !program.is_empty());
    Ok(programs)
}

fn rule(conditions: Vec<Condition>) -> Result<SeccompRule, seccompiler::BackendError> {
    let conditions = conditions
        .into_iter()
        .map(|(position, operator, value)| SeccompCondition::new(position, SeccompCmpArgLen::Dword, operator, value));
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

fn cannot_build(error: &seccompiler::BackendError) -> String {
    format!("cannot make a filter of system calls for this machine: {error}")
}

/// Denies the x32 ABI: it has the architecture of x86-64, but other call numbers, which would match none of the rules.
#[cfg(target_arch = "x86_64")]
fn deny_x32() -> BpfProgram {
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const X32_BIT: u32 = 0x4000_0000;
    let denied = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    let instruction = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    vec![
        instruction(LOAD_NUMBER, 0, 0, 0),
        instruction(JUMP_IF_AT_LEAST, 0, 1, X32_BIT),
        instruction(RETURN, 0, 0, denied),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

#[cfg(not(target_arch = "x86_64"))]
fn deny_x32() -> BpfProgram {
    Vec::new()
}

#[cfg(test)]
mod tests;
