"""A test case with a server whose commands may read this Python and the attacks of `jail_attacks.py`."""

from __future__ import annotations

import errno
import json
import shutil
import socket
import sys
import tempfile
from pathlib import Path

import jail_attacks
from runs_case import RunsTestCase
from stub_model import Call, Reply, Text

HERE = Path(__file__).resolve().parent
SDK = HERE.parents[1] / "sdk" / "python" / "src"
# Also for a Python that is not the one they were installed for.
PACKAGES = [path for path in sys.path if path.endswith("site-packages")]
LANDLOCK_CREATE_RULESET = 444
# From which version on Landlock keeps a process from something.
PORTS, SIGNALS = 4, 6
# Programs that are allowed these are not attacking by using them.
FOR_SERVERS = {
    "listen without bind",
    "path socket",
    "abstract socket",
    "datagrams to others",
    "raw datagrams to others",
}
# It has two names, of which one is told.
NOT_SUPPORTED = errno.errorcode[errno.EOPNOTSUPP]
# What the filter of system calls says, whatever else this kernel would.
ERRORS = {
    "mptcp": "EPROTONOSUPPORT",
    "mptcp 6": "EPROTONOSUPPORT",
    "smc": "EAFNOSUPPORT",
    "fast open": NOT_SUPPORTED,
    "fast open, message": NOT_SUPPORTED,
    "listen without bind": "EACCES",
    "a file that runs as its owner": "EPERM",
    "io_uring": "EPERM",
    "path socket": "EACCES",
    "abstract socket": "EACCES",
    "datagrams to others": "EACCES",
    "raw datagrams to others": "EACCES",
    "renice of the user": "EPERM",
}
# Refused by Landlock alone.
NEEDS = {
    "tcp": PORTS,
    "tcp 6": PORTS,
    "kill": SIGNALS,
    "kill of the first": SIGNALS,
    "signal by handle": SIGNALS,
}


def landlock() -> int:
    """The version of Landlock, or 0."""
    version = jail_attacks.LIBC.syscall(LANDLOCK_CREATE_RULESET, None, 0, 1)
    return max(version, 0)


def quoted(value) -> str:
    return json.dumps(value)


class JailTestCase(RunsTestCase):
    def start(self, more: str = "", **options) -> None:
        """A server whose commands may read this Python and the attacks."""
        readable = [sys.base_prefix, sys.prefix, str(HERE)]
        bash = f"[tools.bash]\nreadable = {quoted(readable)}\n"
        self.runs = self.connect(more=f"{bash}{more}", **options)
        folder = Path(tempfile.mkdtemp(prefix="pb-jail-"))
        self.addCleanup(shutil.rmtree, folder, True)
        self.path = folder / "other.sock"
        # Somebody else's, one with a path and one with a name.
        for address in (str(self.path), f"\0{self.path}"):
            other = socket.socket(socket.AF_UNIX)
            self.addCleanup(other.close)
            other.bind(address)
            other.listen()

    def call(self, tool: str, arguments: dict) -> dict:
        self.model.script(Reply(Call(tool, arguments)), Reply(Text("done")))
        run = self.runs.run("go", working_folder=str(self.work), timeout=240)
        self.assertEqual(run.reply, "done", run.ending)
        (end,) = run.of("tool_end")
        return end

    def bash(self, command: str) -> dict:
        return self.call("bash", {"command": command})

    def targets(self) -> dict:
        port = int(self.server.address("runs").rsplit(":", 1)[1])
        return {"server": self.server.pid, "port": port, "path": str(self.path)}

    def check(self, outcomes: dict[str, str], allowed: frozenset[str] | set[str] = frozenset()) -> None:
        version = landlock()
        self.assertEqual(set(outcomes), set(jail_attacks.attacks(0, 0, "")))
        for name, outcome in outcomes.items():
            with self.subTest(name):
                if name in allowed:
                    continue
                if version < NEEDS.get(name, 0):
                    self.skipTest(f"{name} takes Landlock {NEEDS[name]}, and this kernel has {version}")
                self.assertNotIn(outcome, ("done", "EFAULT"), f"{name} was not refused")
                self.assertEqual(outcome, ERRORS.get(name, outcome))
        # The server never noticed.
        self.assertEqual(self.runs.ask("ping", id="still-there")["type"], "pong")
