use super::*;

const WALLED: FilterOptions =
    FilterOptions { unix_sockets: false, listening: false, outside_pids_visible: true, deny_ptrace: true };
const NOTHING: [i32; 0] = [];
const OPEN: FilterOptions =
    FilterOptions { unix_sockets: true, listening: true, outside_pids_visible: false, deny_ptrace: false };

/// The errors a call with these arguments may be refused with.
fn refused(options: FilterOptions, call: i64, arguments: &[u64]) -> Vec<i32> {
    let holds = |(position, operator, value): &Condition| {
        let argument = arguments.get(usize::from(*position)).copied().unwrap_or_default();
        match operator {
            SeccompCmpOp::Eq => argument == *value,
            SeccompCmpOp::Ne => argument != *value,
            SeccompCmpOp::MaskedEq(mask) => argument & mask == value & mask,
            SeccompCmpOp::Ge | SeccompCmpOp::Gt | SeccompCmpOp::Le | SeccompCmpOp::Lt => panic!("not used"),
        }
    };
    let denied = deny_rules(options).into_iter().filter(|one| one.call == call && one.conditions.iter().all(holds));
    denied.map(|one| one.error).collect()
}

#[test]
fn sockets_are_plain_tcp_udp_or_routes() {
    let [unix, inet, inet6, netlink, smc, vsock] =
        [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, 43, 40];
    let [stream, datagram, raw, ordered] = [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_SEQPACKET];
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    for (family, kind, protocol, expected) in [
        (inet, stream, 0, None),
        (inet6, stream | flags, libc::IPPROTO_TCP, None),
        (inet, datagram, 0, None),
        (inet, datagram, libc::IPPROTO_ICMP, None),
        (inet6, raw, libc::IPPROTO_ICMPV6, None),
        (netlink, raw | flags, 0, None),
        (inet, stream, libc::IPPROTO_MPTCP, Some(libc::EPROTONOSUPPORT)),
        (inet6, stream | flags, libc::IPPROTO_MPTCP, Some(libc::EPROTONOSUPPORT)),
        (inet, stream, libc::IPPROTO_SCTP, Some(libc::EPROTONOSUPPORT)),
        (inet6, stream, 256, Some(libc::EPROTONOSUPPORT)),
        (inet, ordered | flags, libc::IPPROTO_SCTP, Some(libc::EPROTONOSUPPORT)),
        (inet, 6, 0, Some(libc::EPROTONOSUPPORT)),
        (netlink, raw, libc::NETLINK_SOCK_DIAG, Some(libc::EPROTONOSUPPORT)),
        (smc, stream, 0, Some(libc::EAFNOSUPPORT)),
        (vsock, stream, 0, Some(libc::EAFNOSUPPORT)),
        (unix, stream | flags, 0, Some(libc::EACCES)),
        (unix, datagram, 0, Some(libc::EACCES)),
    ] {
        let arguments = [number(family), number(kind), number(protocol)];
        assert_eq!(
            refused(WALLED, libc::SYS_socket, &arguments),
            Vec::from_iter(expected),
            "{family} {kind} {protocol}"
        );
        if family == unix {
            assert_eq!(refused(OPEN, libc::SYS_socket, &arguments), NOTHING);
        }
    }
    let pair = |gaps, kind: i32| refused(gaps, libc::SYS_socketpair, &[number(unix), number(kind), 0]);
    assert_eq!((pair(WALLED, stream | flags), pair(WALLED, ordered)), (vec![], vec![]));
    for kind in [datagram, raw | flags] {
        assert_eq!((pair(WALLED, kind), pair(OPEN, kind)), (vec![libc::EACCES], vec![]));
    }
}

#[test]
fn no_file_runs_as_its_owner() {
    let [create, unnamed, read] = [libc::O_CREAT | libc::O_WRONLY, libc::O_TMPFILE | libc::O_RDWR, libc::O_RDONLY];
    for (mode, is_refused) in [(0o4755, true), (0o2755, true), (0o6755, true), (0o755, false), (0o1777, false)] {
        let expected = |is_refused: bool| if is_refused { Some(libc::EPERM) } else { None };
        let first = |call, arguments: &[u64]| refused(OPEN, call, arguments).first().copied();
        for (call, position) in
            [(libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (libc::SYS_mkdirat, 2), (libc::SYS_mknodat, 2)]
        {
            let mut arguments = [7; 6];
            arguments[position] = mode;
            assert_eq!(first(call, &arguments), expected(is_refused), "{call} {mode:o}");
        }
        for (flags, makes) in [(create, true), (unnamed, true), (read, false)] {
            let arguments = [7, 7, number(flags), mode];
            assert_eq!(first(libc::SYS_openat, &arguments), expected(is_refused && makes), "{flags:o} {mode:o}");
        }
    }
    assert_eq!(refused(OPEN, libc::SYS_openat2, &[]), [libc::ENOSYS]);
}

#[test]
fn nothing_connects_and_sends_at_once() {
    let [fast, quiet] = [libc::MSG_FASTOPEN, libc::MSG_NOSIGNAL].map(number);
    for (call, position) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
        for (flags, expected) in
            [(fast, vec![libc::EOPNOTSUPP]), (fast | quiet, vec![libc::EOPNOTSUPP]), (quiet, vec![])]
        {
            let mut arguments = [7; 6];
            arguments[position] = flags;
            assert_eq!(refused(OPEN, call, &arguments), expected, "{call} {flags:x}");
        }
    }
}

#[test]
fn others_are_named_by_no_call_that_changes_them() {
    let by_number = [
        (libc::SYS_prlimit64, 0),
        (libc::SYS_sched_setattr, 0),
        (libc::SYS_sched_setscheduler, 0),
        (libc::SYS_sched_setparam, 0),
        (libc::SYS_sched_setaffinity, 0),
        (libc::SYS_setpriority, 1),
        (libc::SYS_ioprio_set, 1),
    ];
    for (call, position) in by_number {
        let mut arguments = [0, 0, 0, 0];
        assert_eq!(refused(WALLED, call, &arguments), NOTHING, "{call} of oneself");
        arguments[position] = 4711;
        assert_eq!(refused(WALLED, call, &arguments), [libc::EPERM], "{call}");
        // In a PID namespace there are no others but the supervisor.
        assert_eq!(refused(OPEN, call, &arguments), NOTHING, "{call}");
        arguments[position] = 1;
        assert_eq!(refused(OPEN, call, &arguments), [libc::EPERM], "{call} of the supervisor");
    }
    // All processes of the user, the server among them.
    assert_eq!(refused(OPEN, libc::SYS_setpriority, &[2, 0]), [libc::EPERM]);
    assert_eq!(refused(OPEN, libc::SYS_ioprio_set, &[3, 0]), [libc::EPERM]);
}

#[test]
fn what_cannot_be_looked_into_is_refused_as_a_whole() {
    for call in [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_bpf, libc::SYS_keyctl] {
        assert_eq!(refused(OPEN, call, &[]), [libc::EPERM], "{call}");
    }
    assert_eq!(
        (refused(WALLED, libc::SYS_listen, &[3]), refused(OPEN, libc::SYS_listen, &[3])),
        (vec![libc::EACCES], vec![])
    );
    assert_eq!(
        (refused(WALLED, libc::SYS_ptrace, &[16]), refused(OPEN, libc::SYS_ptrace, &[16])),
        (vec![libc::EPERM], vec![])
    );
}

#[test]
fn programs_are_made_for_this_machine() {
    for gaps in [WALLED, OPEN] {
        let programs = programs(gaps).unwrap();
        assert!(programs.len() >= 5, "{}", programs.len());
        assert!(programs.iter().all(|program| (4..4096).contains(&program.len())));
    }
}
