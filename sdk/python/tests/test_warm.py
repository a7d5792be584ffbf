"""Warm start: one loaded process, workers by fork."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from calling import execute, result
from running import TOOLS, Worker, environment, eventually


class Warm:
    def __init__(self, folder: Path, **env: str) -> None:
        self.folder = folder
        self.ready = folder / "warm"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "patchboard.worker", str(TOOLS), "--port", "0"],
            env=environment(self.ready, PATCHBOARD_WARM="1", SNAKEPIT_PROCESS_GROUP="1", **env),
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        first, pid = eventually(lambda: self.ready.exists() and self.ready.read_text()).splitlines()
        assert (first, pid) == ("warm", f"pid={self.process.pid}")

    def order(self, order: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write((order if isinstance(order, str) else json.dumps(order)) + "\n")
        self.process.stdin.flush()

    def line(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.readline().rstrip("\n")

    def spawn(self, name: str, *flags: str, **env: str) -> Worker:
        ready = self.folder / f"{name}.ready"
        told = {
            "SNAKEPIT_READY_FILE": str(ready),
            "PATCHBOARD_WORKER_SOCKET": str(self.folder / name),
            "PATCHBOARD_WORKER_ID": name,
        }
        self.order({"spawn": {"args": ["--port", "0", *flags], "env": {**told, **env}}})
        return Worker(self.process, ready)


@pytest.fixture
def warm() -> Iterator[Warm]:
    with tempfile.TemporaryDirectory(prefix="pb") as folder:
        started = Warm(Path(folder))
        yield started
        started.process.kill()
        started.process.communicate()


def test_workers_by_fork(warm: Warm) -> None:
    one, two = warm.spawn("one"), warm.spawn("two", "--capacity", "2")
    assert len({one.pid, two.pid, warm.process.pid}) == 3
    for worker in (one, two):
        assert result(worker, "pids") == [worker.pid, worker.pid, warm.process.pid]
    assert result(one, "random_numbers")[0] != result(two, "random_numbers")[0]
    one.channel.close()
    warm.order({"signal": {"pid": one.pid, "signal": int(signal.SIGTERM)}})
    assert warm.line() == f"patchboard: worker {one.pid} exited with 0"
    assert result(two, "echo", {"value": 1}) == 1
    warm.order({"signal": {"pid": two.pid, "signal": int(signal.SIGKILL)}})
    assert warm.line() == f"patchboard: worker {two.pid} exited with 137"
    assert result(warm.spawn("three"), "echo", {"value": 3}) == 3


def test_the_end_of_standard_input_ends_everything(warm: Warm) -> None:
    workers = [warm.spawn("one"), warm.spawn("two")]
    for worker in workers:
        worker.channel.close()
    assert warm.process.stdin is not None
    warm.process.stdin.close()
    warm.process.stdin = None
    assert warm.process.wait(8) == 0
    assert {warm.line(), warm.line()} == {f"patchboard: worker {one.pid} exited with 0" for one in workers}


def test_children_go_with_a_killed_parent(warm: Warm) -> None:
    worker = warm.spawn("one")
    worker.channel.close()
    warm.process.kill()
    warm.process.wait(5)
    eventually(lambda: not is_running(worker.pid))


def is_running(pid: int) -> bool:
    """Whether a process is more than an entry nobody has collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_orders_that_make_no_sense(warm: Warm) -> None:
    for order, answer in [
        ("nonsense", "patchboard: an order cannot be read: Expecting value: line 1 column 1 (char 0)"),
        ("[]", "patchboard: an order is neither spawn nor signal"),
        ({"signal": {"pid": os.getpid(), "signal": 15}}, f"patchboard: {os.getpid()} is not a worker of this process"),
        ({"signal": {"pid": "x", "signal": 15}}, "patchboard: an order cannot be read: "),
        ({"spawn": 5}, "patchboard: an order cannot be read: "),
    ]:
        warm.order(order)
        assert warm.line().startswith(answer)
    assert execute(warm.spawn("one"), "echo", {"value": 1}).success


def test_a_failed_preload(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("raise RuntimeError('at load')\n")
    done = subprocess.run(
        [sys.executable, "-m", "patchboard.worker", str(tmp_path / "bad.py")],
        env=environment(tmp_path / "ready", PATCHBOARD_WARM="1"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 1 and "RuntimeError: at load" in done.stderr
    assert not (tmp_path / "ready").exists()
