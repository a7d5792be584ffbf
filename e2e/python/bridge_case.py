"""Test cases with a server whose bridge listens, pools of workers, and clients of it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from ahead_case import AheadTestCase
from bridge_client import TIMEOUT, Bridge
from gateway_client import Gateway, eventually
from outside_numbers import OutsideNumbers
from patchboard_server import Server, binary

WORKERS = Path(__file__).parent / "bridge_workers"
COMMAND_TIMEOUT = 120
# For calls that the test itself ends, and for limits of the server that must not be what ended a call.
LONG = 600.0
OFFLINE = '[providers.main]\nkind = "offline"\n[agents.default]\nprovider = "main"\n'
ALLOW = '[tools.approval]\n"*" = "allow"\n'
_names = itertools.count(1)


class Notes:
    """A folder where workers write down what they do, a line at a time."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="patchboard-notes-"))
        self._numbers = OutsideNumbers(self.folder)

    def lines(self, name: str) -> list[str]:
        try:
            return (self.folder / name).read_text().splitlines()
        except FileNotFoundError:
            return []

    def wait_for(self, name: str, line: str | None = None, timeout: float = TIMEOUT) -> None:
        """Until this file has this line, or any."""
        eventually(
            lambda: line in self.lines(name) if line is not None else self.lines(name),
            f"{name}: {line}, but {self.lines(name)[-10:]}",
            timeout,
        )

    def release(self, name: str) -> None:
        """Lets end what waits for this: calls of `hold`, and imports that were told to."""
        with contextlib.suppress(FileNotFoundError):  # The folder goes away with the test.
            (self.folder / f"release-{name}").touch()

    def all(self, prefix: str) -> list[str]:
        """The lines of all files that begin so: of all processes that wrote one each."""
        names = sorted(path.name for path in self.folder.glob(f"{prefix}*"))
        return [line for name in names for line in self.lines(name)]

    def close(self) -> None:
        self._numbers.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Pool:
    """One `[[workers]]` of the configuration, with unmodified workers unless `command` says otherwise."""

    def __init__(
        self,
        notes: Notes,
        name: str = "py",
        *,
        adapter: str = "adapters.Tools",
        command: list[str] | None = None,
        folder: Path = WORKERS,
        env: dict[str, str] | None = None,
        **keys: object,
    ) -> None:
        self.name = name
        self.notes = notes
        self.is_fixture = command is None
        # On every command line of the pool's processes, and on no other.
        self.mark = f"e2e-{uuid.uuid4().hex}"
        command = command or [sys.executable, "grpc_server.py", "--adapter", adapter]
        environment = {"FIXTURE_FOLDER": str(notes.folder), **(env or {})}
        self.keys = {
            "name": name,
            "command": [*command, "--snakepit-instance-name", self.mark],
            "working_folder": str(folder),
            "writable": [str(notes.folder)],
            **keys,
        }
        inline = ", ".join(f"{key} = {json.dumps(value)}" for key, value in environment.items())
        lines = [f"{key} = {json.dumps(value)}" for key, value in self.keys.items()]
        self.config = "\n".join(["[[workers]]", *lines, f"env = {{ {inline} }}", ""])

    def pids(self) -> set[int]:
        """The pool's Python processes that live, those that are only starting included."""
        program = self.keys["command"][0]
        return {pid for pid, command in commands() if command[:1] == [program] and self.mark in command}

    def ready_pids(self) -> set[int]:
        """Those that the server has asked for everything it asks a new worker for; the events come last."""
        if not self.is_fixture:
            return self.pids()
        return {pid for pid in self.pids() if any("StreamTelemetry" in one for one in self.notes.lines(f"rpcs-{pid}"))}

    def described(self) -> str:
        """How far its workers have got, for a test that waited for them in vain."""
        return ", ".join(f"worker {pid}: {self.notes.lines(f'rpcs-{pid}')}" for pid in self.pids()) or "no worker runs"


class BridgeTestCase(AheadTestCase):
    """A server of its own for every test."""

    server: Server
    bridge: Bridge

    def setUp(self) -> None:
        self.notes = Notes()
        self.addCleanup(self.notes.close)

    def pool(self, name: str = "py", **keys) -> Pool:
        return Pool(self.notes, name, **keys)

    def serve(self, bridge: str = "", *pools: Pool, before: str = "", more: str = "", **options) -> Bridge:
        """Starts a server, and a client of it once the pools work; `bridge` are keys of `[bridge]`."""
        self.server = self.start_server(**server_options(bridge, pools, before, more, options))
        self.bridge = self.client()
        for pool in pools:
            wait_for_pool(self.bridge, pool)
        return self.bridge

    def client(self, **options) -> Bridge:
        bridge = Bridge(self.server.address("bridge"), **options)
        self.addCleanup(bridge.close)
        return bridge

    def session(self, **options) -> str:
        """A new session of this server."""
        name = f"session-{next(_names)}"
        self.bridge.open(name, **options)
        return name

    def in_background(self, work) -> Future:
        pool = ThreadPoolExecutor(max_workers=1)
        # What is still running when a test has failed ends with the server, which is closed after this.
        self.addCleanup(pool.shutdown, wait=False)
        return pool.submit(work)

    def limited(self, work):
        """What a call without a limit of its own gives that only a limit of the server's ends."""
        return self.in_background(work).result(2 * TIMEOUT)

    def ended_while_running(self, tool: str, name: str, work):
        """What a call gives that the server ends while the tool runs. `work` is handed one limit in milliseconds after the
        other, until one is long enough for the tool to begin; the tool notes its `name` when it does."""
        for limit in ("400", "2000", "10000", "30000"):
            outcome = self.limited(lambda: work(limit))  # noqa: B023 - called at once
            if name in self.notes.lines(tool):
                return outcome
        raise AssertionError(f"{tool} does not begin")

    def hold(self, name: str, **options) -> Future:
        """A call that runs now, and until `notes.release(name)`; gives what the tool says then."""
        before = self.notes.lines("hold").count(name)
        call = self.in_background(lambda: self.bridge.value("hold", {"name": name}, timeout=LONG, **options))
        self.addCleanup(self.notes.release, name)
        eventually(lambda: call.done() or self.notes.lines("hold").count(name) > before, f"{name} runs", TIMEOUT)
        self.assertFalse(call.done(), "it ended before it was let")
        return call

    def report(self, pool: str = "py") -> dict:
        """What the server says about a pool."""
        with Gateway(self.server) as gateway:
            return next(one for one in gateway.result("worker.list")["items"] if one["name"] == pool)

    def wait_until_queued(self, count: int, pool: str = "py") -> None:
        """Until so many calls, and no more, wait for a worker of the pool."""
        eventually(lambda: self.report(pool)["queued"] == count, f"{count} calls wait", TIMEOUT)

    def command(self, *arguments: str, code: int | None = 0) -> subprocess.CompletedProcess:
        """Runs `patchboard` against this server; any exit code will do when `code` is None."""
        done = subprocess.run(
            [binary(), *arguments, "--data-dir", str(self.server.data_dir)],
            cwd=self.server.folder,
            env={**self.server.environment(), "HOME": str(self.server.folder / "home")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT,
        )
        self.assertNotIn("panicked", done.stderr)
        if code is not None:
            self.assertEqual(done.returncode, code, f"{arguments}: {done.stdout}{done.stderr}")
        return done


class SharedBridgeCase(BridgeTestCase):
    """One server for all tests of the class; each test uses sessions of its own."""

    @classmethod
    def serve_all(cls, bridge: str = "", *pools: Pool, before: str = "", more: str = "", **options) -> None:
        cls.server = Server(**server_options(bridge, pools, before, more, options))
        cls.addClassCleanup(cls.server.close)
        cls.server.start()
        cls.bridge = Bridge(cls.server.address("bridge"))
        cls.addClassCleanup(cls.bridge.close)
        for pool in pools:
            wait_for_pool(cls.bridge, pool)

    @classmethod
    def make_notes(cls) -> Notes:
        cls.notes = Notes()
        cls.addClassCleanup(cls.notes.close)
        return cls.notes

    def setUp(self) -> None:
        # So that its log is shown when a test fails.
        self._own_servers.append(self.server)
        self.bridge.session = self.session()


class Bystander:
    """Another client of the same server, which is busy all the time and must be answered each time."""

    def __init__(self, address: str, **options) -> None:
        self.bridge = Bridge(address, **options)
        self.pings = 0
        self.trouble: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def _work(self) -> None:
        try:
            while not self._stop.is_set():
                text = f"round {self.pings}"
                assert self.bridge.ping(text) == f"pong: {text}"
                self.pings += 1
                # A load generator would be a disturbance of its own.
                self._stop.wait(0.005)
        except BaseException as trouble:  # noqa: BLE001 - told to the test when it ends
            self.trouble = trouble

    def __enter__(self) -> Bystander:
        self._thread.start()
        return self

    def wait_for_pings(self, count: int = 3) -> None:
        """Until so many more are answered."""
        goal = self.pings + count
        eventually(lambda: self.pings >= goal or self.trouble is not None, "the bystander is answered", TIMEOUT)

    def __exit__(self, kind: object, *_: object) -> None:
        self._stop.set()
        self._thread.join(2 * TIMEOUT)
        self.bridge.close()
        if kind is None and self.trouble is not None:
            raise self.trouble


def server_options(bridge: str, pools: tuple[Pool, ...], before: str, more: str, options: dict) -> dict:
    tables = "".join(pool.config for pool in pools)
    config = f"{before}\n[bridge]\n{bridge}\n{tables}\n{more}\n"
    return {"config": config, "bridge": "127.0.0.1:0", **options}


def wait_for_pool(bridge: Bridge, pool: Pool) -> None:
    """Until all its workers have been through everything the server does with a new one, and sessions see the tools."""
    probe = f"probe-{next(_names)}"
    try:
        eventually(lambda: len(pool.ready_pids()) >= pool.keys.get("count", 1), f"the workers of {pool.name}", TIMEOUT)
    except AssertionError as late:
        raise AssertionError(f"{late}; {pool.described()}") from None
    eventually(lambda: bridge.tools(probe), f"the tools of {pool.name}", TIMEOUT)
    bridge.cleanup(probe)


# What the machine knows.


def commands() -> list[tuple[int, list[str]]]:
    """Every process with its command line; those that ended and are not yet reaped have none."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                line = Path(f"/proc/{entry}/cmdline").read_bytes()
            except OSError:
                continue  # Gone in the meantime.
            found.append((int(entry), line.decode("utf-8", "replace").split("\0")[:-1]))
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and is not yet reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def resident_mebibytes(pid: int) -> int:
    return _mebibytes(pid, "VmRSS")


def peak_mebibytes(pid: int) -> int:
    """The most it ever held."""
    return _mebibytes(pid, "VmHWM")


def _mebibytes(pid: int, what: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(what)) // 1024
