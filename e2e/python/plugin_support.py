"""Test cases with a server that has plugins, the plugins' files, and versions of them that differ in one thing.

    class EchoTest(PluginTestCase):
        def test_it_echoes(self) -> None:
            self.serve(Plugin("echo"))
            self.assertEqual(self.call("echo", text="hi"), ("hi", False))

`PATCHBOARD_PLUGINS` names the folder of the components; without it they are looked for in `target/plugins`, then among
those that are committed. A component that is in neither skips the test.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import raw_client
from bridge_case import ALLOW, OFFLINE, resident_mebibytes
from gateway_client import Gateway
from patchboard_server import READY_TIMEOUT, Server, ServerTestCase, binary

REPOSITORY = Path(__file__).resolve().parents[2]
BUILT = Path(os.environ.get("PATCHBOARD_PLUGINS") or REPOSITORY / "target" / "plugins").resolve()
COMMITTED = REPOSITORY / "plugins" / "built"
COMMAND_TIMEOUT = 120
# For what must happen and tells nobody: it only ends a test that hangs. Compiling is done at low priority, and a
# changed file is loaded when the second look at it, two seconds after the first, shows the same.
TIMEOUT = 120.0
REPORT_KEYS = set("name state sha256 kinds grants tools source calls error waiting_for_approval".split())
# The stand-ins listen here; without this no plugin reaches them, whatever its grants.
OPEN_LOOPBACK = '[tools]\nfetch_private_hosts = ["127.0.0.1", "localhost"]\n'


def component(name: str) -> bytes:
    """The bytes of a plugin of this repository."""
    for folder in (BUILT, COMMITTED):
        if (folder / f"{name}.wasm").exists():
            return (folder / f"{name}.wasm").read_bytes()
    raise unittest.SkipTest(f"{name}.wasm is neither in {BUILT} nor committed: `cargo xtask plugins` builds it")


def another_version(data: bytes, mark: str = "another") -> bytes:
    """The same component with another hash: a custom section at the end, which means nothing to anybody."""
    name = mark.encode()
    assert len(name) < 60
    content = bytes([len(name)]) + name + b"\1"
    return data + bytes([0, len(content)]) + content


def with_text(data: bytes, old: str, new: str) -> bytes:
    """The same component with other words of the same length in its memory."""
    assert len(old.encode()) == len(new.encode()), (old, new)
    assert data.count(old.encode()) >= 1, f"not in the component: {old}"
    return data.replace(old.encode(), new.encode())


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class Plugin:
    """One `[[plugins]]` of the configuration; `data` is the file's content, a component of this repository by name
    when left out."""

    name: str
    grants: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    sha256: str | None = None
    data: bytes | None = None

    @property
    def content(self) -> bytes:
        return self.data if self.data is not None else component(self.name)

    @property
    def config(self) -> str:
        lines = ["[[plugins]]", f'name = "{self.name}"', f'path = "plugins/{self.name}.wasm"']
        lines.append(f"grants = {json.dumps(list(self.grants))}")
        for key, table in (("settings", self.settings), ("secrets", self.secrets)):
            if table:
                lines.append(f"{key} = {{ {', '.join(f'{name} = {json.dumps(one)}' for name, one in table.items())} }}")
        if self.sha256 is not None:
            lines.append(f'sha256 = "{self.sha256}"')
        return "\n".join([*lines, ""])


# The folder of compiled code for all servers of this process, so that each file is compiled once.
SHARED_CACHE = Path(tempfile.mkdtemp(prefix="patchboard-compiled-"))
atexit.register(shutil.rmtree, SHARED_CACHE, ignore_errors=True)


class PluginServer(Server):
    """A server that finds the code which other servers of this process compiled, unless `own_cache` is set. The cache
    is looked up by the hash of the file and of the compiler's settings, and its files are only ever replaced, so
    servers can share it while they run."""

    def __init__(self, *, own_cache: bool = False, **options) -> None:
        super().__init__(**options)
        self.own_cache = own_cache

    def start(self, timeout: float = READY_TIMEOUT) -> Server:
        if not self.own_cache and not (self.data_dir / "cache").exists():
            use_cache(self, SHARED_CACHE)
        return super().start(timeout)


def use_cache(server: Server, folder: Path) -> None:
    """Makes a server that was not started yet keep compiled code in this folder."""
    server.data_dir.mkdir(mode=0o700, exist_ok=True)
    (server.data_dir / "cache").symlink_to(folder)


class PluginTestCase(ServerTestCase):
    server: Server

    def serve(self, *plugins: Plugin, before: str = "", agent: str = OFFLINE, more: str = ALLOW, **options) -> Gateway:
        """Starts a server with these plugins in its configuration, and a first client of it once all are settled.
        `before` are keys of the file itself, `agent` is the provider and the default agent, `more` what comes last."""
        config = before + agent + "".join(plugin.config for plugin in plugins) + more
        self.server = self.prepare(config, *plugins, **options).start()
        gateway = self.another()
        for plugin in plugins:
            self.settled(gateway, plugin.name)
        return gateway

    def prepare(self, config: str, *plugins: Plugin, **options) -> Server:
        """A server that is not started, with the plugins' files in their places."""
        files = {plugin.name: plugin.content for plugin in plugins}
        server = PluginServer(config=config, **options)
        self._own_servers.append(server)
        self.addCleanup(server.close)
        (server.folder / "plugins").mkdir()
        (server.folder / "home").mkdir()
        for name, data in files.items():
            (server.folder / "plugins" / f"{name}.wasm").write_bytes(data)
        return server

    def another(self, **options) -> Gateway:
        gateway = Gateway(self.server, **options)
        self.addCleanup(gateway.close)
        return gateway

    def operator(self) -> Gateway:
        return self.another(additional_headers={"Authorization": f"Bearer {operator_token(self.server)}"})

    # What plugins are there.

    def plugins(self, gateway: Gateway | None = None) -> dict[str, dict]:
        listed = (gateway or self.another()).result("plugin.list")
        self.assertIsInstance(listed, list)
        for one in listed:
            self.assertEqual(set(one), REPORT_KEYS)
        names = [one["name"] for one in listed]
        self.assertEqual(len(names), len(set(names)), names)
        return {one["name"]: one for one in listed}

    def settled(self, gateway: Gateway, name: str, state: str | None = None, timeout: float = TIMEOUT) -> dict:
        """The plugin once it is no longer being loaded, or once it is in this state."""
        found: dict = {}

        def is_settled() -> bool:
            found.update({"now": self.plugins(gateway).get(name)})
            now = found["now"]
            return now is not None and (now["state"] == state if state else now["state"] != "loading")

        try:
            in_time(is_settled, f"{name} is settled", timeout)
        except AssertionError:
            raise AssertionError(f"{name} did not become {state or 'settled'}: {found.get('now')}") from None
        return found["now"]

    def becomes(self, gateway: Gateway, name: str, **expected: object) -> dict:
        """The plugin once these keys have these values."""
        found: dict = {}

        def has_become() -> bool:
            found.update(self.plugins(gateway).get(name) or {})
            return all(found.get(key) == value for key, value in expected.items())

        try:
            in_time(has_become, f"{name} becomes {expected}")
        except AssertionError:
            raise AssertionError(f"{name} did not become {expected}: {found}") from None
        return found

    def file(self, name: str) -> Path:
        return self.server.folder / "plugins" / f"{name}.wasm"

    def put(self, name: str, data: bytes) -> None:
        """A new version of a file, in one step, as an installer does it."""
        put(self.file(name), data)

    def tools(self, gateway: Gateway | None = None) -> dict[str, dict]:
        return {tool["name"]: tool for tool in (gateway or self.another()).result("tool.list", limit=500)["items"]}

    # Calls.

    def call(
        self, tool: str, /, gateway: Gateway | None = None, account: str = "alice", **arguments
    ) -> tuple[str, bool]:
        """Calls a tool in a chat with the built-in model; gives its content and whether it failed."""
        gateway = gateway or self.another()
        return self.answer_of(gateway, self.begin(gateway, tool, account=account, **arguments))

    def begin(self, gateway: Gateway, tool: str, /, account: str = "alice", **arguments) -> str:
        return gateway.start(f"/call {tool} {json.dumps(arguments)}", account=account)

    def answer_of(self, gateway: Gateway, request: str, timeout: float = TIMEOUT) -> tuple[str, bool]:
        turn = gateway.turn(request, timeout)
        results = turn.data("tool_result")
        self.assertEqual(len(results), 1, turn.frames)
        content = results[0]["content"]
        return content if isinstance(content, str) else json.dumps(content), results[0]["is_error"]

    def good(self, tool: str, /, **how) -> str:
        content, is_error = self.call(tool, **how)
        self.assertFalse(is_error, content)
        return content

    def bad(self, tool: str, /, **how) -> str:
        content, is_error = self.call(tool, **how)
        self.assertTrue(is_error, content)
        return content

    # The command line.

    def command(self, *arguments: str, code: int | None = 0, data: bool = True) -> subprocess.CompletedProcess:
        """Runs `patchboard`, against this server unless `data` is off; any exit code will do when `code` is None."""
        where = ["--data-dir", str(self.server.data_dir)] if data else []
        done = subprocess.run(
            [binary(), *arguments, *where],
            cwd=self.server.folder,
            env={**self.server.environment(), "HOME": str(self.server.folder / "home")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT,
        )
        self.assertNotIn("panicked at", done.stderr)
        if code is not None:
            self.assertEqual(done.returncode, code, f"{arguments}: {done.stdout}{done.stderr}")
        return done

    def wait_for_log(self, *words: str) -> str:
        """A line of the log that has all these words."""
        return wait_for_log(self.server, *words)


def in_time(condition: Callable[[], object], what: str, timeout: float = TIMEOUT) -> None:
    """For what may take the server seconds: asks again and again, less often the longer it takes."""
    deadline = time.monotonic() + timeout
    pause = 0.01
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout} s: {what}"
        time.sleep(pause)
        pause = min(2 * pause, 0.2)


def operator_token(server: Server) -> str:
    return (server.data_dir / "operator.token").read_text().strip()


def put(path: Path, data: bytes) -> None:
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_bytes(data)
    os.replace(fresh, path)


def log_line(server: Server, *words: str) -> str | None:
    return next((line for line in server.log().splitlines() if all(word in line for word in words)), None)


def wait_for_log(server: Server, *words: str) -> str:
    in_time(lambda: log_line(server, *words), f"a line of the log with {words}")
    line = log_line(server, *words)
    assert line is not None
    return line


def warnings(server: Server, *words: str) -> list[str]:
    """The warnings of the log that have all these words."""
    lines = [line for line in server.log().splitlines() if "WARN" in line or '"warn"' in line.lower()]
    return [line for line in lines if all(word in line for word in words)]


def json_values(text: str) -> list:
    """One value, a list of values, or one a line."""
    try:
        value = json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    return value if isinstance(value, list) else [value]


# How the server feels meanwhile.


class Pulse:
    """`ping` after `ping` on a connection of its own; times in milliseconds."""

    def __init__(self, server: Server) -> None:
        self.plug = raw_client.upgrade(server)
        self.plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.plug.settimeout(TIMEOUT)
        self.number = 0
        self._receive()

    def beat(self) -> float:
        self.number += 1
        question = json.dumps({"id": str(self.number), "method": "ping"}).encode()
        started = time.perf_counter()
        self.plug.sendall(raw_client.frame(question))
        answer = json.loads(self._receive())
        took = (time.perf_counter() - started) * 1000
        assert answer == {"id": str(self.number), "result": "pong"}, answer
        return took

    def _receive(self) -> bytes:
        start = self._exactly(2)
        length = start[1] & 0x7F
        if length == 126:
            length = struct.unpack("!H", self._exactly(2))[0]
        return self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self.plug.recv(count - len(data))
            assert piece, "the server closed the connection"
            data += piece
        return data

    def close(self) -> None:
        self.plug.close()


class Pinging:
    """Pings from a thread of its own as long as the block runs, and at least once; leaving the block fails if one was
    not answered."""

    def __init__(self, server: Server) -> None:
        self.pulse = Pulse(server)
        self.beats: list[float] = []
        self._trouble: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def _work(self) -> None:
        try:
            self.beats.append(self.pulse.beat())
            # Two hundred a second at most: more would be a load of their own.
            while not self._stop.wait(0.005):
                self.beats.append(self.pulse.beat())
        except BaseException as trouble:  # noqa: BLE001 - told to the test when the block ends
            self._trouble = trouble

    def __enter__(self) -> Pinging:
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._stop.set()
        self._thread.join(2 * TIMEOUT)
        self.pulse.close()
        if kind is None:
            assert not self._thread.is_alive(), "a ping is not answered"
            if self._trouble is not None:
                raise self._trouble


def figures(beats: list[float]) -> str:
    ordered = sorted(beats)
    at = lambda share: ordered[min(len(ordered) - 1, int(len(ordered) * share))]  # noqa: E731
    return f"{len(ordered)} pings: p50 {at(0.5):.2f} ms, p99 {at(0.99):.2f} ms, longest {ordered[-1]:.2f} ms"


def resident(server: Server) -> int:
    """The server's memory now, in MiB."""
    return resident_mebibytes(server.pid)
