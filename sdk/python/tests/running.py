"""Worker processes for the tests, started the way the server starts them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from patchboard import _proto

HERE = Path(__file__).parent
TOOLS = HERE / "worker_tools.py"
_tick = threading.Event()


def eventually(what: Callable[[], Any], timeout: float = 120.0) -> Any:
    """What becomes true sooner or later."""
    end = time.monotonic() + timeout
    while not (value := what()):
        assert time.monotonic() < end, "it did not happen in time"
        _tick.wait(0.005)
    return value


def environment(ready: Path, **more: str) -> dict[str, str]:
    paths = os.pathsep.join(path for path in sys.path if path)
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("SNAKEPIT_", "PATCHBOARD_"))}
    return {**plain, "PYTHONPATH": paths, "SNAKEPIT_READY_FILE": str(ready), "PYTHONUNBUFFERED": "1", **more}


class Worker:
    """A started worker, its address and a channel to it."""

    def __init__(self, process: subprocess.Popen[str], ready: Path) -> None:
        self.process = process
        text: str = eventually(lambda: _complete(ready, process))
        self.where, pid, *self.announced = text.splitlines()
        assert pid.startswith("pid=")
        self.pid = int(pid[4:])
        self.address = self.where if self.where.startswith("unix:") else f"127.0.0.1:{self.where}"
        self.channel = grpc.insecure_channel(self.address, options=_proto.MESSAGE_SIZE_OPTIONS)

    def rpc(self, name: str) -> Any:
        return _proto.stub(self.channel, name)


def _complete(ready: Path, process: subprocess.Popen[str]) -> str:
    if ready.exists():
        return ready.read_text()
    assert process.poll() is None, f"the worker ended: {process.stderr.read() if process.stderr else ''}"
    return ""


@contextmanager
def worker(
    tools: Path = TOOLS,
    *flags: str,
    parent: str | None = None,
    unix: bool = True,
    env: Mapping[str, str] | None = None,
    command: list[str] | None = None,
) -> Iterator[Worker]:
    # Not pytest's own folders, whose paths are too long for a socket.
    with tempfile.TemporaryDirectory(prefix="pb") as folder:
        ready = Path(folder, "ready")
        extra = {"PATCHBOARD_WORKER_SOCKET": f"{folder}/s"} if unix else {}
        line = [*(command or [sys.executable, "-m", "patchboard.worker", str(tools)]), "--port", "0", *flags]
        if parent is not None:
            line += ["--elixir-address", parent]
        process = subprocess.Popen(
            [*line, "--snakepit-run-id", "abc1234"],
            env=environment(ready, SNAKEPIT_PROCESS_GROUP="1", **extra, **(env or {})),
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            started = Worker(process, ready)
            yield started
            started.channel.close()
        finally:
            process.kill()
            process.communicate()
