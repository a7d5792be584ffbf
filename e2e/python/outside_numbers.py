"""Tells processes by which number the test knows them.

In a PID namespace a process counts anew, so what it calls itself means nothing to the test. The kernel tells whoever listens
on a Unix socket the number, as the listener sees it, of the process at the other end; the listener passes it on.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from pathlib import Path

NAME = "which-process"
CREDENTIALS = struct.Struct("3i")
# More than any test starts at the same moment.
BACKLOG = 64


class OutsideNumbers:
    """Answers every connection to a socket in `folder` with the caller's process number."""

    def __init__(self, folder: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(folder / NAME))
        self._socket.listen(BACKLOG)
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        with contextlib.suppress(OSError):  # Closed with the test.
            while True:
                caller, _ = self._socket.accept()
                with caller, contextlib.suppress(OSError):
                    told = caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
                    caller.sendall(str(CREDENTIALS.unpack(told)[0]).encode())

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


_known: tuple[int, int] | None = None


def own_number(folder: str | None) -> int:
    """For the process that is to be known: its number as the listener in `folder` sees it; its own where none listens."""
    global _known
    inside, known = os.getpid(), _known
    if folder is None or not (Path(folder) / NAME).exists():
        return inside
    # A fork has another one.
    if known is None or known[0] != inside:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(Path(folder) / NAME))
            known = _known = (inside, int(asking.recv(32)))
    return known[1]
