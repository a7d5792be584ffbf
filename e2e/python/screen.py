"""A terminal without a window: programs write to a pty, and `pyte` keeps what a person would see.

    with TerminalScreen(columns=80, rows=24) as terminal:
        subprocess.run(["ls"], stdout=terminal.slave, stderr=terminal.slave)
        print(terminal.text())

`seen_columns` is the width that programs are told. Where it is less than `columns`, lines that are too long for it are
not broken by the terminal, so that the text can be compared line by line.
"""

from __future__ import annotations

import fcntl
import os
import struct
import termios
import threading
import time
from typing import Callable

from packages import load

pyte = load("pyte")

CHUNK = 65536
POLL = 0.02


class TerminalScreen:
    def __init__(self, *, columns: int, rows: int, seen_columns: int | None = None) -> None:
        self.screen = pyte.Screen(columns, rows)
        # Programs end lines with a line feed alone; the pty turns it into both.
        self._stream = pyte.ByteStream(self.screen)
        self._lock = threading.Lock()
        self.master, self.slave = os.openpty()
        size = struct.pack("HHHH", rows, seen_columns or columns, 0, 0)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, size)
        self.name = os.ttyname(self.slave)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        # Ends when the last writer has closed the other side.
        while True:
            try:
                data = os.read(self.master, CHUNK)
            except OSError:
                return
            if not data:
                return
            self.feed(data)

    def feed(self, data: bytes) -> None:
        with self._lock:
            self._stream.feed(data)

    def settle(self) -> None:
        """Until everything written so far is on the screen: a mark goes the same way and comes after it."""
        mark = f"\x1b]2;{os.urandom(8).hex()}\x07"
        os.write(self.slave, mark.encode())
        title = mark[4:-1]
        self.wait_until(lambda: self.screen.title == title, timeout=30.0)

    def wait_until(self, is_so: Callable[[], bool], timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while True:
            with self._lock:
                if is_so():
                    return True
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL)

    def lines(self) -> list[str]:
        """What is on the screen, without blanks at the ends of lines and without empty lines at the end."""
        with self._lock:
            return self.now()

    def now(self) -> list[str]:
        """The same for `wait_until`, which holds the lock."""
        lines = [row_text(self.screen.buffer[row]) for row in range(self.screen.lines)]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def text(self) -> str:
        return "\n".join(self.lines())

    def cells(self) -> list[list]:
        """The characters of each line that is used, with their colours."""
        used = len(self.lines())
        with self._lock:
            return [[self.screen.buffer[row][column] for column in range(self.screen.columns)] for row in range(used)]

    def close(self) -> None:
        os.close(self.slave)
        # Programs that still run get a hangup; the reader then ends by itself.
        os.close(self.master)

    def __enter__(self) -> TerminalScreen:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def row_text(row: dict) -> str:
    # Only what was written to is there; the second half of a wide character holds nothing.
    written = range(max(row) + 1) if row else ()
    return "".join(row[column].data for column in written).rstrip()
