"""Other users of this machine: servers that belong to them, and their programs, which connect to ours.

    stranger = self.program_of(STRANGER)
    stranger.get(server.gateway, "/health").status

Only root can be somebody else, so tests that need another user are skipped for everybody else. `run_again` runs tests a
second time as an ordinary user.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from gateway_client import Gateway
from patchboard_server import NotReady, Server, ServerTestCase, binary
from raw_client import UPGRADE

HERE = Path(__file__).resolve().parent
NOBODY = 65534
# Nobody has these numbers.
OWNER, STRANGER = 54321, 54322
PACKAGES = [path for path in sys.path if path.endswith("site-packages")]
# Only to end a test that hangs.
TIMEOUT = 120
RESET, CLOSE, HALF = "reset", "close", "half"

# What a program of another user does, told a line of JSON at a time. It needs nothing but its standard library, and no
# file that its user would have to be able to read.
PROGRAM = r"""
import base64, json, os, socket, struct, sys

def connect(to):
    host, port = to["address"]
    plug = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    plug.settimeout(100)
    if to.get("source"):
        plug.bind((to["source"], 0))
    plug.connect((host, port))
    return plug

def end(plug, how):
    if how == "reset":
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if how == "half":
        plug.shutdown(socket.SHUT_WR)
    else:
        plug.close()

def exchange(told):
    plug = connect(told)
    answer = b""
    try:
        plug.sendall(base64.b64decode(told["data"]))
        # To the end, or, of what stays open, to the end of the head.
        while told["whole"] or b"\r\n\r\n" not in answer:
            piece = plug.recv(65536)
            if not piece:
                break
            answer += piece
    except ConnectionError:
        pass
    plug.close()
    return base64.b64encode(answer).decode()

def dash(told):
    data, gone, half = base64.b64decode(told["data"]), 0, []
    for at in range(told["times"]):
        plug = connect(told)
        try:
            plug.sendall(data.replace(b"NUMBER", b"%06d" % at))
            end(plug, told["how"])
        except ConnectionError:
            gone += 1
        if told["how"] == "half":
            half.append(plug)
    for plug in half:
        try:
            while plug.recv(65536):
                pass
        except ConnectionError:
            pass
        plug.close()
    return gone

def hold(told):
    plugs = [connect(told) for _ in range(told["times"])]
    for plug in plugs:
        plug.sendall(base64.b64decode(told["data"]))
    answered = sum(bool(plug.recv(65536)) for plug in plugs)
    for plug in plugs:
        plug.close()
    return answered

DOES = {"exchange": exchange, "dash": dash, "hold": hold, "who": lambda told: os.getuid()}
for line in sys.stdin:
    told = json.loads(line)
    try:
        said = {"result": DOES[told["do"]](told)}
    except Exception as error:
        said = {"error": "%s: %s" % (type(error).__name__, error)}
    print(json.dumps(said), flush=True)
"""


def needs_root() -> None:
    """Skips a test for those who cannot be somebody else."""
    if os.geteuid() != 0:
        raise unittest.SkipTest("only root can be another user")
    if shutil.which("setpriv") is None:
        raise unittest.SkipTest("setpriv is not installed")
    trial = subprocess.run([*as_user(NOBODY), "true"], capture_output=True)
    if trial.returncode != 0:
        raise unittest.SkipTest(f"root cannot be another user here: {trial.stderr.decode()[-200:]}")


def as_user(user: int) -> list[str]:
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]


def a_users_name() -> str:
    """Some user that `/etc/passwd` lists and that is not root."""
    with open("/etc/passwd") as users:
        for line in users:
            name, _, number, *_ = line.split(":")
            if number.isdigit() and int(number) not in (0, OWNER, STRANGER):
                return name
    raise unittest.SkipTest("/etc/passwd has nobody but root")


def number_of(name: str) -> int:
    return pwd.getpwnam(name).pw_uid


@lru_cache(maxsize=None)
def python_for(user: int, packages: str = "") -> str:
    """A Python that this user can run, with these packages: the one of the tests may lie in somebody's home."""
    said = []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(PACKAGES), "HOME": "/"}
    for python in ("/usr/bin/python3", os.path.realpath(sys.executable)):
        tried = [*as_user(user), python, "-c", f"import socket, encodings{packages}"]
        try:
            trial = subprocess.run(tried, env=environment, cwd="/", capture_output=True, timeout=TIMEOUT)
        except OSError as error:
            said.append(f"{python}: {error}")
            continue
        if trial.returncode == 0:
            return python
        said.append(f"{python}: {trial.stderr.decode()[-200:]}")
    raise unittest.SkipTest(f"another user cannot run Python{packages and f' with {packages[2:]}'}: {said}")


@lru_cache(maxsize=None)
def readable_binary() -> str:
    """The program under test where every user can run it."""
    program = binary()
    # Not by `setpriv` itself, which still may do what root may when it looks.
    if subprocess.run([*as_user(OWNER), "sh", "-c", f"test -x '{program}'"]).returncode == 0:
        return program
    folder = Path(tempfile.mkdtemp(prefix="pb-users-"))
    unittest.addModuleCleanup(shutil.rmtree, folder, True)
    os.chmod(folder, 0o755)
    copied = folder / "patchboard"
    shutil.copy(program, copied)
    os.chmod(copied, 0o755)
    return str(copied)


@dataclass(frozen=True)
class Answer:
    """What came on a connection: nothing at all has the status 0."""

    data: bytes

    @property
    def status(self) -> int:
        return int(self.data.split(b" ", 2)[1]) if self.data.startswith(b"HTTP/1.") else 0

    @property
    def text(self) -> str:
        return self.data.partition(b"\r\n\r\n")[2].decode("utf-8", "backslashreplace")


class Program:
    """A program of another user; `before` is put before it on the command line."""

    def __init__(self, user: int, *before: str) -> None:
        self.user = user
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [*as_user(user), *before, python_for(user), "-c", PROGRAM],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def tell(self, do: str, **what: object):
        with self._lock:
            assert self._process.stdin is not None and self._process.stdout is not None
            try:
                self._process.stdin.write(json.dumps({"do": do, **what}) + "\n")
                self._process.stdin.flush()
                line = self._process.stdout.readline()
            except BrokenPipeError:
                line = ""
        assert line, f"the program of user {self.user} ended: {self._process.communicate()[1][-2000:]}"
        said = json.loads(line)
        assert "result" in said, f"user {self.user}: {said}"
        return said["result"]

    def send(self, address: str, data: bytes, *, source: str = "", whole: bool = True) -> Answer:
        """Sends this and reads to the end, or to the end of the head when not `whole`."""
        told = {"address": split(address), "data": encoded(data), "whole": whole, "source": source}
        return Answer(base64.b64decode(self.tell("exchange", **told)))

    def ask(self, address: str, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        return self.send(address, request(address, method, path, body, **headers))

    def get(self, address: str, path: str, **headers: str) -> Answer:
        return self.ask(address, "GET", path, **headers)

    def upgrade(self, address: str, path: str = "/", **headers: str) -> Answer:
        """The answer to an attempt to open a WebSocket."""
        return self.send(address, request(address, "GET", path, **UPGRADE, **headers), whole=False)

    def dash(self, address: str, data: bytes, how: str, times: int) -> None:
        """Connects, sends this and is gone, so many times; `NUMBER` in it counts them."""
        self.tell("dash", address=split(address), data=encoded(data), how=how, times=times)

    def hold(self, address: str, times: int) -> int:
        """Has so many connections at once, and asks for `/` on each; gives how many were answered."""
        return self.tell("hold", address=split(address), data=encoded(request(address, "GET", "/")), times=times)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._process.kill()
        self._process.communicate()


class UsersServer(Server):
    """A server that runs as another user, to whom its folder belongs."""

    def __init__(self, user: int, **options) -> None:
        super().__init__(**options)
        self.user = user
        os.chown(self.folder, user, user)

    def command(self) -> list[str]:
        return [*as_user(self.user), readable_binary(), *super().command()[1:]]

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "HOME": str(self.folder)}


class UsersTestCase(ServerTestCase):
    def program_of(self, user: int, *before: str) -> Program:
        program = Program(user, *before)
        self.addCleanup(program.close)
        return program

    def start_as(self, user: int, **options) -> UsersServer:
        server = UsersServer(user, **options)
        self._own_servers.append(server)
        self.addCleanup(server.close)
        server.start()
        return server

    def gateway_of(self, server: Server, token: str | None = None) -> Gateway:
        """A client with this token, in the head of the upgrade."""
        headers = {} if token is None else {"additional_headers": {"Authorization": f"Bearer {token}"}}
        gateway = Gateway(server, **headers)
        self.addCleanup(gateway.close)
        return gateway

    def operator_of(self, server: Server) -> Gateway:
        return self.gateway_of(server, operator_token(server))


def operator_token(server: Server) -> str:
    return (server.data_dir / "operator.token").read_text().strip()


def split(address: str) -> tuple[str, int]:
    host, port = address.rsplit(":", 1)
    return host.strip("[]"), int(port)


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def request(address: str, method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """A whole request as it is on the wire; `Host` is the address unless it is among the headers."""
    given = {"Host": address, **{name.replace("_", "-"): value for name, value in headers.items()}}
    if body:
        given = {"Content-Type": "application/json", **given, "Content-Length": str(len(body))}
    if "Upgrade" not in given:
        given["Connection"] = "close"
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


def refused_start(server: Server, code: int | None = 2) -> str:
    """Starts a server that must not come up; gives what it says."""
    before = len(server.log())
    try:
        server.start()
    except NotReady:
        pass
    else:
        server.kill()
        raise AssertionError(f"it came up: {server.log()[before:]}")
    assert server.process is not None
    said = server.log()[before:]
    assert "panicked" not in said, said
    assert server.process.returncode != 0 and code in (None, server.process.returncode), said
    return said


def run_again(*cases: str) -> None:
    """Runs these tests once more as an ordinary user."""
    needs_root()
    program = readable_binary()
    python = python_for(NOBODY, ", grpc, websockets")
    home = Path(tempfile.mkdtemp(prefix="pb-users-home-"))
    try:
        os.chown(home, NOBODY, NOBODY)
        environment = {
            **os.environ,
            "PATCHBOARD_BIN": program,
            "PYTHONPATH": os.pathsep.join(PACKAGES),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(home),
            "TMPDIR": str(home),
        }
        trial = subprocess.run([*as_user(NOBODY), "cat", str(Path(__file__).resolve())], capture_output=True)
        if trial.returncode != 0:
            raise unittest.SkipTest(f"another user cannot read the tests: {trial.stderr.decode()[-200:]}")
        run = subprocess.run(
            [*as_user(NOBODY), python, "-m", "unittest", "-v", *cases],
            cwd=HERE,
            env=environment,
            capture_output=True,
            timeout=600,
        )
        assert run.returncode == 0, run.stderr.decode()[-8000:]
    finally:
        shutil.rmtree(home, True)
