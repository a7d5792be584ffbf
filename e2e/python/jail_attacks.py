"""Run inside a jail: tries every way out that the kernel offers and prints as JSON what each came to.

Its arguments are the server's process number, its TCP port and the path of a Unix socket, or `ports` and the numbers of
some to connect to and to bind. A value is the name of the error, or `done` where nothing was refused.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import socket
import sys
import tempfile

LIBC = ctypes.CDLL(None, use_errno=True)
IPPROTO_MPTCP = 262
AF_SMC = 43
MSG_FASTOPEN = 0x20000000
PTRACE_ATTACH = 16
PRIO_PROCESS, PRIO_USER = 0, 2
IOPRIO_WHO_PROCESS = 1
# Of x86-64 and of 64-bit ARM.
ARM = os.uname().machine == "aarch64"
IOPRIO_SET = 30 if ARM else 251
PTRACE = 117 if ARM else 101
IO_URING_SETUP = 425
PIDFD_OPEN, PIDFD_SEND_SIGNAL, PIDFD_GETFD = 434, 424, 438
PROCESS_VM_READV = 270 if ARM else 310


def call(number: int, *arguments: int) -> None:
    if LIBC.syscall(number, *[ctypes.c_long(argument) for argument in arguments]) < 0:
        raise OSError(ctypes.get_errno(), "refused")


def connect(family: int, protocol: int, address: tuple) -> None:
    with socket.socket(family, socket.SOCK_STREAM, protocol) as made:
        made.settimeout(5)
        made.connect(address)


def fast_open(address: tuple) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as made:
        made.settimeout(5)
        made.sendto(b"GET / HTTP/1.1\r\n\r\n", MSG_FASTOPEN, address)


def fast_open_message(address: tuple) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as made:
        made.settimeout(5)
        made.sendmsg([b"GET / HTTP/1.1\r\n\r\n"], [], MSG_FASTOPEN, address)


def listen_unbound() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as made:
        made.listen()


def unix(address: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        made.connect(address)


def limits(server: int) -> None:
    import resource

    resource.prlimit(server, resource.RLIMIT_NOFILE, resource.prlimit(server, resource.RLIMIT_NOFILE))


class Piece(ctypes.Structure):
    """Where to read or write how much."""

    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def read_memory(server: int) -> None:
    own = ctypes.create_string_buffer(1)
    into = Piece(ctypes.cast(own, ctypes.c_void_p), 1)
    # Where programs lie: a process whose memory may be read says EFAULT for an address that it does not have.
    there = Piece(0x400000, 1)
    call(PROCESS_VM_READV, server, ctypes.addressof(into), 1, ctypes.addressof(there), 1, 0)


def write_back(path: str) -> None:
    """As it was, should nothing keep it from being written."""
    with open(path) as file:
        value = file.read()
    with open(path, "w") as file:
        file.write(value)


def handle(server: int) -> int:
    made = LIBC.syscall(PIDFD_OPEN, server, 0)
    if made < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return made


def owner_bits() -> None:
    """Anybody could run it as this user."""
    with tempfile.NamedTemporaryFile() as made:
        os.chmod(made.name, 0o4755)


def attacks(server: int, port: int, path: str) -> dict:
    here = ("127.0.0.1", port)
    return {
        "prlimit": lambda: limits(server),
        "renice": lambda: os.setpriority(PRIO_PROCESS, server, 19),
        "renice of the user": lambda: os.setpriority(PRIO_USER, os.getuid(), 19),
        "taskset": lambda: os.sched_setaffinity(server, {0}),
        "chrt": lambda: os.sched_setscheduler(server, os.SCHED_IDLE, os.sched_param(0)),
        "ionice": lambda: call(IOPRIO_SET, IOPRIO_WHO_PROCESS, server, 3 << 13),
        "kill": lambda: os.kill(server, 0),
        # Its supervisor, under whatever number.
        "kill of the first": lambda: os.kill(1, 0),
        "limits of the first": lambda: limits(1),
        "signal by handle": lambda: call(PIDFD_SEND_SIGNAL, handle(server), 0, 0, 0),
        "descriptor by handle": lambda: call(PIDFD_GETFD, handle(server), 0, 0),
        "ptrace": lambda: call(PTRACE, PTRACE_ATTACH, server, 0, 0),
        "memory": lambda: read_memory(server),
        "environment": lambda: open(f"/proc/{server}/environ", "rb").read(),
        "badness": lambda: write_back(f"/proc/{server}/oom_score_adj"),
        "steering the kernel": lambda: write_back("/proc/sys/kernel/core_pattern"),
        "control groups": lambda: open("/sys/fs/cgroup/cgroup.procs", "a").close(),
        "tcp": lambda: connect(socket.AF_INET, 0, here),
        "tcp 6": lambda: connect(socket.AF_INET6, 0, ("::ffff:127.0.0.1", port)),
        "mptcp": lambda: connect(socket.AF_INET, IPPROTO_MPTCP, here),
        "mptcp 6": lambda: connect(socket.AF_INET6, IPPROTO_MPTCP, ("::ffff:127.0.0.1", port)),
        "smc": lambda: connect(AF_SMC, 0, here),
        "fast open": lambda: fast_open(here),
        "fast open, message": lambda: fast_open_message(here),
        "listen without bind": listen_unbound,
        "a file that runs as its owner": owner_bits,
        "io_uring": lambda: call(IO_URING_SETUP, 1, 0),
        "path socket": lambda: unix(path),
        "abstract socket": lambda: unix(f"\0{path}"),
        "datagrams to others": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM),
        "raw datagrams to others": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW),
    }


def outcome(attack) -> str:
    try:
        attack()
    except OSError as refused:
        return errno.errorcode.get(refused.errno, str(refused))
    return "done"


def outcomes(server: int, port: int, path: str) -> dict[str, str]:
    return {name: outcome(attack) for name, attack in attacks(server, port, path).items()}


def bind(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("127.0.0.1", port))
        made.listen()


def reach(ports: list[int]) -> dict[str, dict[str, str]]:
    """What comes of connecting to and of taking each."""
    return {
        str(port): {
            "connect": outcome(lambda: connect(socket.AF_INET, 0, ("127.0.0.1", port))),  # noqa: B023 - called at once
            "bind": outcome(lambda: bind(port)),  # noqa: B023
        }
        for port in ports
    }


def knock(address: str) -> dict[str, str]:
    """The status with which somebody who has no secret is answered there, for each of these methods."""
    import grpc

    with grpc.insecure_channel(address) as channel:
        statuses = {}
        for method in ("Ping", "InitializeSession", "Heartbeat", "ExecuteTool"):
            ask = channel.unary_unary(f"/snakepit.bridge.BridgeService/{method}")
            try:
                ask(b"", timeout=30)
                statuses[method] = "OK"
            except grpc.RpcError as error:
                statuses[method] = error.code().name
        return statuses


def one_thread():
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(1)


if __name__ == "__main__" and sys.argv[1] == "ports":
    print(json.dumps(reach([int(port) for port in sys.argv[2:]])))
elif __name__ == "__main__":
    print(json.dumps(outcomes(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])))
