"""A full disk is told in so many words, takes the server out of service, and is over when there is space again.

The same file runs as root and as an ordinary user: `AsAnotherUser` starts it once more as nobody where this is root.
"""

from __future__ import annotations

import contextlib
import errno
import http.client
import json
import os
import shutil
import subprocess
import threading
import unittest
from pathlib import Path

from gateway_client import TIMEOUT, Gateway, eventually
from patchboard_server import Server, ServerTestCase
from runs_client import Runs
from stub_model import Hold, Reply, StubModel, Text
from users_case import run_again

# Room for what the server makes at its start, and little more.
SIZE = 8 * 1024 * 1024
FULL = "storage is full"
# How soon whoever asks for readiness hears of it.
SOON = 10.0


def apart() -> list[str]:
    """Runs a command where it may mount a file system that nobody else sees."""
    how = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    return [*how, "--propagation", "private"]


def needs_mounts() -> None:
    mount = ["sh", "-c", "mount -t tmpfs -o size=1m none /tmp"]
    try:
        trial = subprocess.run([*apart(), *mount], capture_output=True)
    except OSError as error:
        raise unittest.SkipTest(f"unshare cannot be run: {error}") from None
    if trial.returncode != 0:
        raise unittest.SkipTest(f"nothing can be mounted here: {trial.stderr.decode()[-200:]}")


class TinyServer(Server):
    """A server whose data directory is a file system of its own, and a tiny one."""

    def command(self) -> list[str]:
        self.data_dir.mkdir(exist_ok=True)
        script = f'mount -t tmpfs -o size={SIZE},mode=700 none "$0" && exec "$@"'
        return [*apart(), "sh", "-c", script, str(self.data_dir), *super().command()]

    @property
    def inside(self) -> Path:
        """The data directory as the server sees it."""
        return Path(f"/proc/{self.pid}/root{self.data_dir}")

    def fill(self) -> None:
        """Leaves no space at all: what is smaller than a page takes one too."""
        with open(self.inside / "filler", "ab", buffering=0) as file:
            for size in (65536, 4096):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(size))
        space = os.statvfs(self.inside)
        assert space.f_bavail == 0, f"{space.f_bavail} blocks are free"

    def free(self) -> None:
        (self.inside / "filler").unlink()


class FullDiskTest(ServerTestCase):
    def setUp(self) -> None:
        needs_mounts()

    def serve(self, *behaviours) -> TinyServer:
        self.model = StubModel(*behaviours)
        self.addCleanup(self.model.close)
        everywhere = {"gateway": "127.0.0.1:0", "runs": "127.0.0.1:0", "hub": "127.0.0.1:0"}
        self.server = TinyServer(config=self.model.provider_config("openai"), **everywhere)
        self._own_servers.append(self.server)
        self.addCleanup(self.server.close)
        self.server.start()
        try:
            os.listdir(self.server.inside)
        except PermissionError:
            self.skipTest("what a process has mounted for itself cannot be looked at here")
        return self.server

    def client(self) -> Gateway:
        gateway = Gateway(self.server)
        self.addCleanup(gateway.close)
        return gateway

    def ask(self, surface: str, method: str, path: str, body: object = None) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self.server.address(surface), timeout=TIMEOUT)
        with contextlib.closing(connection):
            headers = {"Content-Type": "application/json"} if body is not None else {}
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def is_ready(self) -> bool:
        status, text = self.ask("gateway", "GET", "/readyz")
        self.assertIn(status, (200, 503))
        self.assertEqual(text.startswith("ready"), status == 200, text)
        return status == 200

    def errors(self, gateway: Gateway, request: str) -> str:
        """What goes wrong with a chat, whether it begins or not."""
        first = gateway.next_of(request)
        if "error" in first:
            return first["error"]
        self.assertNotIn("result", first)
        frames = [first]
        while frames[-1].get("event") != "done":
            frames.append(gateway.next_of(request))
        return " ".join(str(frame["data"]) for frame in frames if frame["event"] == "error")

    def assert_told(self, text: str) -> None:
        self.assertIn(FULL, text)
        self.assertNotIn("internal error", text.lower())

    def test_it_is_told_and_over_when_there_is_space(self) -> None:
        server = self.serve()
        gateway = self.client()
        self.assertEqual(gateway.chat("before").text, "echo: before")
        self.assertTrue(self.is_ready())
        server.fill()
        eventually(lambda: not self.is_ready(), "it is not ready", SOON)
        status, text = self.ask("gateway", "GET", "/readyz")
        self.assertEqual(status, 503)
        self.assert_told(text)
        # It lives, and says so.
        self.assertEqual(self.ask("gateway", "GET", "/health"), (200, "ok"))
        for number in range(20):
            self.assert_told(self.errors(gateway, gateway.start(f"lost {number}", account=f"a{number % 3}")))
        self.assert_told(self.errors(gateway, gateway.start("lost")))
        with Runs(server) as runs:
            self.assert_told(runs.run("lost").error)
        status, text = self.ask("hub", "POST", "/v1/messages", {"text": "lost"})
        self.assertGreaterEqual(status, 500)
        self.assert_told(text)
        # What was said can be read all the while.
        said = ["before", "echo: before"]
        where = {"channel": "websocket", "account": "alice"}
        self.assertEqual([one["content"] for one in gateway.result("chat.history", where)["items"]], said)
        server.free()
        eventually(self.is_ready, "it is ready again", TIMEOUT)
        self.assertEqual(gateway.chat("after").text, "echo: after")
        said += ["after", "echo: after"]
        self.assertEqual([one["content"] for one in gateway.result("chat.history", where)["items"]], said)
        with Runs(server) as runs:
            self.assertEqual(runs.run("after").reply, "echo: after")
        self.assertEqual(self.ask("hub", "POST", "/v1/messages", {"text": "after"})[0], 202)
        self.assertTrue(server.is_running)

    def test_an_answer_that_was_under_way_ends_with_an_error(self) -> None:
        held = threading.Event()
        self.addCleanup(held.set)
        long = "word " * 2000
        server = self.serve(Reply(Text("half "), Hold(held), *[Text(long)] * 50))
        gateway = self.client()
        request = gateway.start("hi")
        gateway.until(request, "text")
        server.fill()
        held.set()
        told = self.errors(gateway, request)
        self.assertTrue(told)
        self.assertNotIn("internal error", told.lower())
        server.free()
        eventually(self.is_ready, "it is ready again", TIMEOUT)
        self.assertEqual(gateway.chat("after").text, "echo: after")

    def test_a_server_that_finds_it_full_does_not_come_up_in_silence(self) -> None:
        if shutil.which("nsenter") is None:
            self.skipTest("nsenter is not installed")
        server = self.serve()
        server.fill()
        # Another one, on the same file system.
        enter = ["nsenter", f"--target={server.pid}", "--mount"]
        enter += [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        other = Server()
        self.addCleanup(other.close)
        other.data_dir = server.data_dir / "other"
        done = subprocess.run(
            [*enter, "--", *other.command()],
            env=server.environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn("panicked", done.stderr)
        self.assertIn(os.strerror(errno.ENOSPC).lower(), done.stderr.lower())


class AsAnotherUser(unittest.TestCase):
    def test_the_same_as_an_ordinary_user(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("this is an ordinary user already")
        run_again("test_full_disk.FullDiskTest")


if __name__ == "__main__":
    unittest.main()
