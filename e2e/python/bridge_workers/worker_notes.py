"""A folder that the test looks into, so that it is known what really ran."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

import outside_numbers  # noqa: E402 - it lies with the tests

FOLDER = os.environ.get("FIXTURE_FOLDER")
# Longer than any test waits; a worker whose test is gone does not wait for ever.
LONGEST_WAIT = 300.0
POLL = 0.01


def note(name: str, text: str) -> None:
    """Adds a line to a file there, in one piece whoever else does the same."""
    if FOLDER:
        handle = os.open(Path(FOLDER) / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, f"{text}\n".encode())
        finally:
            os.close(handle)


def wait_for_release(name: str) -> None:
    """Until the test has put a file `release-NAME` into the folder."""
    deadline = time.monotonic() + LONGEST_WAIT
    while FOLDER and not (Path(FOLDER) / f"release-{name}").exists() and time.monotonic() < deadline:
        time.sleep(POLL)


def own_number() -> int:
    """The number by which the test knows this process."""
    return outside_numbers.own_number(FOLDER)
