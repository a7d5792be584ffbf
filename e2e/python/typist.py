"""Types commands as a stranger would: into a shell with an empty home, in a copy of what a fresh clone holds.

    with Typist(binary()) as typist:
        typed = typist.type("patchboard doctor")
        print(typed.status, typed.lines())

Each command has a terminal of its own, so that what a server says in the background stays apart. The shell has a network
of its own where the system gives one: the ports that documents name are free there, no model server of the machine is
found, and nothing reaches a registry.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from node_for_documents import node_for
from screen import TerminalScreen

ROOT = Path(__file__).resolve().parents[2]
# Both only end a command that hangs: a busy machine may take long.
COMMAND_TIMEOUT = 180.0
STOP_TIMEOUT = 30.0
# What programs are told of the terminal's size, and what it really holds: see `TerminalScreen`.
SEEN_COLUMNS = 100
COLUMNS = 4000
ROWS = 1000
# Ports that a server takes unless told otherwise.
DEFAULT_PORTS = (7200, 8080, 9473, 50051)
NOT_IN_A_CLONE = shutil.ignore_patterns("target", "node_modules", ".git", "__pycache__")

# A new network has a loopback device that is down.
ENTER = """
import fcntl, os, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", 0x41))
os.execvp(sys.argv[1], sys.argv[1:])
"""


@dataclass
class Typed:
    """A command and its terminal, which goes on changing where the command went into the background."""

    command: str
    terminal: TerminalScreen
    status: int

    def lines(self) -> list[str]:
        return self.terminal.lines()


class Typist:
    def __init__(
        self,
        patchboard: str,
        *,
        clone: bool = True,
        environment: dict[str, str] | None = None,
    ) -> None:
        self._ports, self._enter = own_network()
        self.folder = Path(tempfile.mkdtemp(prefix="patchboard-typist-"))
        self.home = self.folder / "home"
        # Not in the home, where a person would have it: a home may hold nothing but what the commands put there.
        self.cwd = self.folder / "patchboard"
        self._terminals: list[TerminalScreen] = []
        programs = self.folder / "bin"
        programs.mkdir()
        self.home.mkdir()
        (programs / "patchboard").symlink_to(patchboard)
        node = node_for(programs)
        if clone:
            copy_clone(self.cwd)
        else:
            self.cwd.mkdir()
        places = [programs, Path(sys.base_prefix) / "bin", *map(Path, SYSTEM_PATH)]
        self.environment = {
            "HOME": str(self.home),
            "PATH": os.pathsep.join(map(str, places)),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "TZ": "UTC",
            "USER": "ada",
            **node,
            **(environment or {}),
        }
        self._bash = subprocess.Popen(
            [*self._enter, "bash", "--noprofile", "--norc"],
            cwd=self.cwd,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # All that it starts and that does not leave its process group ends with it.
            start_new_session=True,
        )

    def type(self, command: str, terminal: TerminalScreen | None = None) -> Typed:
        """Types one command and waits for the shell's next prompt."""
        if terminal is None:
            terminal = TerminalScreen(columns=COLUMNS, rows=ROWS, seen_columns=SEEN_COLUMNS)
            self._terminals.append(terminal)
        script = self.folder / "command.sh"
        script.write_text(command + "\n")
        tty = terminal.name
        line = f"source '{script}' <{tty} >{tty} 2>&1; printf '%s %s\\n' $? \"$PWD\"\n"
        self._bash.stdin.write(line.encode())
        self._bash.stdin.flush()
        status, folder = self._prompt(command, terminal).split(" ", 1)
        self.cwd = Path(folder)
        terminal.settle()
        return Typed(command, terminal, int(status))

    def save(self, name: str, text: str) -> None:
        """As an editor would: `~` is the home, and folders that are missing are made."""
        path = self.home / name.removeprefix("~/") if name.startswith("~/") else self.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def _prompt(self, command: str, terminal: TerminalScreen) -> str:
        answer = b""
        deadline = time.monotonic() + COMMAND_TIMEOUT
        while not answer.endswith(b"\n"):
            ready, _, _ = select.select([self._bash.stdout], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self._bash.stdout.fileno(), 4096) if ready else b""
            if not data:
                what = "ended the shell" if ready else f"did not end within {COMMAND_TIMEOUT:.0f} s"
                raise AssertionError(f"`{command}` {what}; it printed\n{terminal.text()}")
            answer += data
        return answer.decode().strip()

    def close(self) -> None:
        # Servers first get the chance to stop in order, and their workers with them.
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self._bash.pid, number)
            except ProcessLookupError:
                break
            if self._is_alone(STOP_TIMEOUT):
                break
        self._bash.stdin.close()
        self._bash.stdout.close()
        self._bash.wait()
        for terminal in self._terminals:
            terminal.close()
        if self._ports is not None:
            self._ports.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _is_alone(self, timeout: float) -> bool:
        """Whether every process of the group is gone in time."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            # Reaps the shell, so that only others keep the group alive.
            self._bash.poll()
            try:
                os.killpg(self._bash.pid, 0)
            except ProcessLookupError:
                return True
            time.sleep(0.05)
        return False

    def __enter__(self) -> Typist:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")


def own_network() -> tuple[IO | None, list[str]]:
    """The command that gives another one a network of its own. Where that cannot be had, nothing, and the hold on the ports
    that documents name, which is let go of by closing it.
    """
    enter = [sys.executable, "-c", ENTER]
    for way in (["unshare", "--net"], ["unshare", "--net", "--user", "--map-root-user"]):
        try:
            done = subprocess.run([*way, *enter, "true"], capture_output=True, check=False)
        except OSError:
            continue
        if done.returncode == 0:
            return None, [*way, *enter]
    ports = open(Path(tempfile.gettempdir()) / "patchboard-default-ports.lock", "w", encoding="utf-8")
    fcntl.flock(ports, fcntl.LOCK_EX)
    for port in DEFAULT_PORTS:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                reason = f"port {port}, which the documents name, is in use, and there is no network namespace"
                ports.close()
                raise unittest.SkipTest(reason) from error
    return ports, []


def copy_clone(target: Path) -> None:
    """What a fresh clone holds: the files under version control, as they are now."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    files = [os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
    if listed.returncode != 0 or not files:
        shutil.copytree(ROOT, target, symlinks=True, ignore=NOT_IN_A_CLONE)
        return
    for name in files:
        source = ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)
