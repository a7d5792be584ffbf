"""Starts a program for which the kernel gives no namespaces, as in many containers.

    python3 without_namespaces.py PROGRAM [ARGUMENT…]

A filter of system calls answers `unshare` with EPERM, `clone` for a new namespace too, and says that there is no
`clone3`, whose flags a filter cannot see. It holds for all that the program starts.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, ERROR = 0x7FFF0000, 0x00050000
# unshare, clone and clone3.
NUMBERS = {"x86_64": (272, 56, 435), "aarch64": (97, 220, 435)}
# CLONE_NEW… of mounts, control groups, host names, IPC, users, processes and networks.
NEW = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def instructions(unshare: int, clone: int, clone3: int) -> list[tuple[int, int, int, int]]:
    """Each with where to go on when it holds and when it does not, counted from the next."""
    return [
        (LOAD, 0, 0, 0),  # the number of the call
        (EQUAL, 5, 0, unshare),
        (EQUAL, 5, 0, clone3),
        (EQUAL, 0, 2, clone),
        (LOAD, 0, 0, 16),  # its first argument
        (ANY_BIT, 1, 0, NEW),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, ERROR | errno.EPERM),
        (RETURN, 0, 0, ERROR | errno.ENOSYS),
    ]


def install() -> None:
    numbers = NUMBERS.get(platform.machine())
    if numbers is None:
        sys.exit(f"without_namespaces.py does not know {platform.machine()}")
    code = b"".join(struct.pack("HBBI", *one) for one in instructions(*numbers))
    held = ctypes.create_string_buffer(code, len(code))
    program = Program(len(code) // 8, ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program))):
        padded = [*arguments, *[0] * (5 - len(arguments))]
        if libc.prctl(*padded) != 0:
            sys.exit(f"no filter: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    install()
    os.execv(sys.argv[1], sys.argv[1:])
