"""Starts the `patchboard` binary for a test and takes it down again.

    with Server(config='[budgets]\\nsession = 100\\n') as server:
        connect(server.ws_url)

`PATCHBOARD_BIN` names the binary. Every server has a data directory of its own, which outlives `kill` and `restart`
and goes away with `close`.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

# Both only end a test that hangs: a busy machine may take long for either.
READY_TIMEOUT = 120.0
# Drain takes ten seconds by default; beyond that the server does not end by itself.
STOP_TIMEOUT = 120.0
POLL = 0.01
LOG_TAIL = 64 * 1024
# A key or setting in the tester's environment must not change what is tested.
FOREIGN_SETTINGS = ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL")
LOOPBACK = "127.0.0.1,localhost,::1"
# What `StubModel.provider_config` refers to.
STUB_KEY = {"STUB_MODEL_KEY": "stub-key"}


class NotReady(AssertionError):
    """The server did not come up; the text has its log."""


class Server:
    """One `patchboard serve` process and its data directory.

    `gateway`, `runs`, `hub` and `bridge` are listen addresses or `off`. `config` is the text of a patchboard.toml,
    `arguments` are added to the command line, `env` to the environment.
    """

    def __init__(
        self,
        *,
        config: str | None = None,
        gateway: str = "127.0.0.1:0",
        runs: str = "off",
        hub: str = "off",
        bridge: str = "off",
        arguments: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="patchboard-e2e-"))
        self.data_dir = self.folder / "data"
        self.config_file = self.folder / "patchboard.toml"
        self.ready_file = self.folder / "ready.json"
        self.log_file = self.folder / "stderr.log"
        self.listen = {"gateway": gateway, "runs": runs, "hub": hub, "bridge": bridge}
        self.arguments = arguments
        self.env = env or {}
        self.process: subprocess.Popen | None = None
        self.ready: dict = {}
        self._kept_log = ""
        if config is not None:
            self.config_file.write_text(config)
        _servers.add(self)

    # Coming up.

    def start(self, timeout: float = READY_TIMEOUT) -> Server:
        """Starts the process and waits until every enabled surface accepts."""
        assert self.process is None or self.process.poll() is not None, "the server is already running"
        self.ready_file.unlink(missing_ok=True)
        # The child keeps its own copy of the log's handle.
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                cwd=self.folder,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._wait_until_ready(timeout)
        return self

    def command(self) -> list[str]:
        command = [binary(), "serve", "--data-dir", str(self.data_dir), "--ready-file", str(self.ready_file)]
        for surface, address in self.listen.items():
            command += [f"--{surface}", address]
        if self.config_file.exists():
            command += ["--config", str(self.config_file)]
        return command + list(self.arguments)

    def environment(self) -> dict[str, str]:
        own = {
            name: value
            for name, value in os.environ.items()
            if name not in FOREIGN_SETTINGS and not name.startswith("PATCHBOARD__")
        }
        # What the server keeps for its user, such as the record of what it trusts, is this test's alone.
        user = {"XDG_CONFIG_HOME": str(self.folder / "user/config"), "XDG_DATA_HOME": str(self.folder / "user/data")}
        # Stub models listen on loopback, where a proxy has no business.
        return {**own, **user, "NO_PROXY": LOOPBACK, "no_proxy": LOOPBACK, "NO_COLOR": "1", **STUB_KEY, **self.env}

    def _wait_until_ready(self, timeout: float) -> None:
        assert self.process is not None
        deadline = time.monotonic() + timeout
        # The file appears by renaming, so once it is there it is complete.
        while not self.ready_file.exists():
            if self.process.poll() is not None:
                raise NotReady(f"the server ended with {self.process.returncode} before it was ready\n{self.log()}")
            if time.monotonic() > deadline:
                self.kill()
                raise NotReady(f"the server was not ready after {timeout} s\n{self.log()}")
            time.sleep(POLL)
        self.ready = json.loads(self.ready_file.read_text())

    # Where it is.

    @property
    def gateway(self) -> str:
        return self._address("gateway")

    @property
    def ws_url(self) -> str:
        return f"ws://{self.gateway}/ws"

    @property
    def http_url(self) -> str:
        return f"http://{self.gateway}"

    @property
    def pid(self) -> int:
        assert self.process is not None, "the server was not started"
        return self.process.pid

    def address(self, surface: str) -> str:
        return self._address(surface)

    def _address(self, surface: str) -> str:
        address = self.ready.get(surface)
        assert address, f"the server does not listen on {surface}: {self.ready}"
        return address

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    # Going down.

    def terminate(self, timeout: float = STOP_TIMEOUT) -> int:
        """SIGTERM, then waits for the drain; gives the exit code."""
        return self._signal(signal.SIGTERM, timeout)

    def interrupt(self, timeout: float = STOP_TIMEOUT) -> int:
        """Ctrl-C, then waits for the drain; gives the exit code."""
        return self._signal(signal.SIGINT, timeout)

    def _signal(self, number: int, timeout: float) -> int:
        assert self.process is not None, "the server was not started"
        self.process.send_signal(number)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the server did not end within {timeout} s\n{self.log()}") from None

    def kill(self) -> None:
        """SIGKILL: no drain, no goodbye."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def restart(self) -> Server:
        """Starts again on the same data directory, draining first if still running. The address may change."""
        if self.is_running:
            self.terminate()
        return self.start()

    def close(self) -> None:
        """Kills what still runs and removes the data directory; the log can still be read."""
        self.kill()
        self._kept_log = self.log()
        shutil.rmtree(self.folder, ignore_errors=True)
        _servers.discard(self)

    def log(self) -> str:
        """The last part of what all processes of this server wrote."""
        try:
            with open(self.log_file, "rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL))
                return log.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return self._kept_log

    def __enter__(self) -> Server:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind: object, *_: object) -> None:
        self.close()
        if kind is not None:
            show_log(self)


class ServerTestCase(unittest.TestCase):
    """A test whose servers are taken down with it, and whose failure shows their logs."""

    def start_server(self, **options) -> Server:
        server = Server(**options)
        self._own_servers.append(server)
        self.addCleanup(server.close)
        return server.start()

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        self._own_servers: list[Server] = []
        result = result if result is not None else self.defaultTestResult()
        before = len(result.failures) + len(result.errors)
        outcome = super().run(result)
        if len(result.failures) + len(result.errors) > before:
            for server in self._own_servers:
                show_log(server)
        return outcome


def binary() -> str:
    path = os.environ.get("PATCHBOARD_BIN")
    assert path, "PATCHBOARD_BIN does not name the patchboard binary"
    # Servers run in a folder of their own.
    return os.path.abspath(path)


def show_log(server: Server) -> None:
    print(f"--- log of the server\n{server.log()}--- end of the log", file=sys.stderr)


# No server outlives the tests, not even one that a test forgot.
_servers: set[Server] = set()


@atexit.register
def _close_forgotten() -> None:
    for server in list(_servers):
        server.close()
