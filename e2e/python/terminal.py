"""A person at a terminal: a command under a pseudo-terminal, keys that are typed, text that is waited for.

    terminal = Terminal([binary(), "chat"], env, cwd)
    terminal.wait_for("> ")
    terminal.type("hello\\r")
    terminal.wait_for("echo: hello")
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

# Only ends a test that hangs.
TIMEOUT = 20.0
POLL = 0.05

UP, DOWN, LEFT, RIGHT = "\x1b[A", "\x1b[B", "\x1b[D", "\x1b[C"
TAB, ENTER, CTRL_C, CTRL_D = "\t", "\r", "\x03", "\x04"

# What moves, colours or sets modes; the rest is text.
SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def pasted(text: str) -> str:
    """As terminals send a paste to programs that ask for it."""
    return f"\x1b[200~{text}\x1b[201~"


class Terminal:
    def __init__(self, command: list[str], env: dict[str, str], cwd: object, columns: int = 80, rows: int = 24) -> None:
        self.leader, follower = pty.openpty()
        self.resize(columns, rows)
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env={"TERM": "xterm-256color", **env},
            stdin=follower,
            stdout=follower,
            stderr=follower,
            # Ctrl-C reaches it as a signal.
            preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)),
        )
        os.close(follower)
        self.raw = ""
        self.seen = 0
        self._bytes = b""
        self._open = True

    def resize(self, columns: int, rows: int = 24) -> None:
        fcntl.ioctl(self.leader, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: str) -> None:
        os.write(self.leader, keys.encode())

    @property
    def text(self) -> str:
        """All that was shown, without what moved or coloured it."""
        return SEQUENCE.sub("", self.raw).replace("\r", "")

    def wait_for(self, wanted: str, describe: str = "") -> str:
        """Waits until the text stands in what was shown since the last wait; gives what stood before it."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            found = self.text.find(wanted, self.seen)
            if found >= 0:
                before = self.text[self.seen : found]
                self.seen = found + len(wanted)
                return before
            if time.monotonic() > deadline or not self._read():
                raise AssertionError(f"{describe or wanted!r} was not shown; the terminal:\n{self.text[-4000:]}")

    def wait_for_end(self) -> int:
        """Reads to the end; gives the exit code."""
        while self._read():
            pass
        return self.process.wait(TIMEOUT)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        os.close(self.leader)

    def _read(self) -> bool:
        if not self._open:
            return False
        if select.select([self.leader], [], [], POLL)[0]:
            try:
                piece = os.read(self.leader, 65536)
            except OSError:
                piece = b""
            if not piece:
                self._open = False
            self._bytes += piece
            self.raw = self._bytes.decode("utf-8", "ignore")
        return True
