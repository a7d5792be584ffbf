"""A test case with a server whose hub listens, apps of it, and a user who speaks to it."""

from __future__ import annotations

import http.client
import json
import subprocess
import threading
import time
import unittest
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlencode

from gateway_client import eventually
from hub_client import TIMEOUT, App, Deaf, Message
from patchboard_server import Server, ServerTestCase, binary

COMMAND_TIMEOUT = 90
# Apps with nothing in common, so that words decide clearly.
NOTEBOOK = "Takes notes and keeps lists: shopping lists, ideas, things to remember."
CALENDAR = "Manages the calendar: meetings, appointments, events and their dates."
MUSIC = "Plays music: songs, albums, artists and playlists."
WEATHER = "Tells the weather forecast: rain, temperature, wind and sunshine."
# What fits none of them.
NONSENSE = "grobnik flarn wizzlethorp"
UNHEARD = "blim zuqqua prontifex"
# A message that waits, whatever for.
WAITING = ("queued", "held")
STATES = ("queued", "sent", "delivered", "held", "refused", "expired", "cancelled")


@dataclass(frozen=True)
class Answer:
    status: int
    kind: str
    text: str

    @property
    def body(self) -> dict:
        assert self.kind == "application/json", f"not JSON: {self}"
        return json.loads(self.text)


class HubTestCase(ServerTestCase):
    @classmethod
    def for_module(cls) -> HubTestCase:
        """A case whose servers and apps live as long as the module's tests, for `setUpModule`: what takes many seconds
        by itself goes on there while other tests run."""
        case = cls()
        case._own_servers = []
        unittest.addModuleCleanup(case.doCleanups)
        return case

    def go_on_with(self, case: HubTestCase) -> None:
        """Takes over the server of such a case; its log is shown when this test fails."""
        self.server = case.server
        self._own_servers.append(case.server)

    def serve(self, hub: str = "", *, before: str = "", more: str = "", **options) -> Server:
        """Starts a server; `hub` are keys of `[hub]`, `before` and `more` what stands around that table."""
        options = {"gateway": "off", "hub": "127.0.0.1:0", **options}
        self.server = self.start_server(config=f"{before}\n[hub]\n{hub}\n{more}", **options)
        return self.server

    # Apps.

    def app(self, name: str | None = None, description: str = NOTEBOOK, **options) -> App:
        app = App(self.server, name, description, **options)
        self.addCleanup(app.close)
        return app

    def deaf(self, name: str | None = None, description: str = NOTEBOOK) -> Deaf:
        deaf = Deaf(self.server, name, description)
        self.addCleanup(deaf.close)
        return deaf

    def leave(self, app: App) -> None:
        """The app goes, and the hub has noticed."""
        app.close()
        eventually(lambda: self.is_free(app.name), f"`{app.name}` is still connected")

    def is_free(self, name: str) -> bool:
        """Whether no connected app has this name, which must not be a word of a description."""
        return name not in self.command("hub", "clients").stdout.split()

    # The user.

    def request(
        self, method: str, path: str, body: object = None, *, raw: bytes | None = None, headers: dict | None = None
    ) -> Answer:
        data = raw if raw is not None else (json.dumps(body).encode() if body is not None else None)
        headers = {"Content-Type": "application/json", **(headers or {})} if data is not None else headers or {}
        connection = http.client.HTTPConnection(self.server.address("hub"), timeout=COMMAND_TIMEOUT)
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            kind = answer.headers.get_content_type() if "content-type" in answer.headers else ""
            return Answer(answer.status, kind, answer.read().decode())
        finally:
            connection.close()

    def say(self, text: str, *, wait: float | None = None, **fields: object) -> dict:
        """Submits an utterance; gives the answer, which must be a good one."""
        query = "" if wait is None else f"?wait={wait:g}"
        answer = self.request("POST", f"/v1/messages{query}", {"text": text, **fields})
        self.assertEqual(answer.status, 202, answer)
        said = answer.body
        self.assertRegex(said["id"], r"^msg-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
        self.assertIn(said["state"], STATES)
        return said

    def say_and_wait(self, text: str, seconds: float = TIMEOUT, **fields: object) -> Future:
        """The same on a thread of its own, with the answer once all responses are there."""
        return self.in_background(lambda: self.say(text, wait=seconds, **fields))

    def in_background(self, work) -> Future:
        pool = ThreadPoolExecutor(max_workers=1)
        self.addCleanup(pool.shutdown)
        return pool.submit(work)

    def message(self, identity: str) -> dict:
        answer = self.request("GET", f"/v1/messages/{identity}")
        self.assertEqual(answer.status, 200, answer)
        shown = answer.body
        self.assertLessEqual({"id", "text", "state", "attempts", "notifications"}, set(shown))
        self.assertEqual(shown["id"], identity)
        self.assertIn(shown["state"], STATES)
        return shown

    def page(self, **query: object) -> dict:
        answer = self.request("GET", "/v1/messages" + (f"?{urlencode(query)}" if query else ""))
        self.assertEqual(answer.status, 200, answer)
        self.assertLessEqual({"items", "next_cursor"}, set(answer.body))
        return answer.body

    def state(self, identity: str) -> str:
        return self.message(identity)["state"]

    def settled(self, identity: str, *states: str, timeout: float = TIMEOUT) -> dict:
        """The message once it is in one of these states."""
        deadline = time.monotonic() + timeout
        while (shown := self.message(identity))["state"] not in states:
            self.assertLess(time.monotonic(), deadline, f"not {states} within {timeout} s: {shown}")
            time.sleep(0.02)
        return shown

    def delivered(self, app: App, text: str, **fields: object) -> Message:
        """Says something, and the app takes it and acknowledges."""
        said = self.say(text, **fields)
        message = app.next_message()
        self.assertEqual(message.id, said["id"])
        app.ack(message)
        self.settled(message.id, "delivered")
        return message

    # What must not happen.

    def assert_nothing_before(self, app: App, unwanted: str) -> None:
        """The next message the app gets is one that was just addressed to it, and not the unwanted one."""
        mark = self.say(f"{app.name}: a mark")["id"]
        got = app.next_message()
        self.assertEqual(got.id, mark, f"{app.name} was given {unwanted}: {got}")
        app.ack(got)
        self.settled(mark, "delivered")

    # The command line.

    def command(self, *arguments: str, text: str = "", code: int | None = 0) -> subprocess.CompletedProcess:
        """Runs `patchboard` against this server; any exit code will do when `code` is None."""
        done = subprocess.run(
            [binary(), *arguments, "--data-dir", str(self.server.data_dir)],
            cwd=self.server.folder,
            env={**self.server.environment(), "HOME": str(self.server.folder / "home")},
            input=text,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT,
        )
        self.assertNotIn("panicked", done.stderr)
        if code is not None:
            self.assertEqual(done.returncode, code, f"{arguments}: {done.stdout}{done.stderr}")
        return done


class Bystander:
    """Another app and its user, who are busy all the time: whatever the others do, each message is delivered."""

    def __init__(self, case: HubTestCase, name: str = "bystander") -> None:
        self.case = case
        self.app = case.app(name, "Stands by and takes what is addressed to it.")
        self.rounds = 0
        self.trouble: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def _work(self) -> None:
        try:
            while not self._stop.is_set():
                said = self.case.say(f"{self.app.name}: round {self.rounds}")
                got = self.app.next_message()
                assert (got.id, got.text) == (said["id"], f"round {self.rounds}"), got
                self.app.ack(got)
                self.rounds += 1
                # A load generator would be a disturbance of its own.
                self._stop.wait(0.01)
        except BaseException as trouble:  # noqa: BLE001 - told to the test when it ends
            self.trouble = trouble

    def more_rounds(self, count: int = 3) -> None:
        """So many more messages go through from now on."""
        goal = self.rounds + count
        eventually(lambda: self.rounds >= goal or self.trouble is not None, "the bystander is stuck")

    def __enter__(self) -> Bystander:
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._stop.set()
        self._thread.join(TIMEOUT)
        self.app.close()
        assert not self._thread.is_alive(), "the bystander is stuck"
        if kind is None and self.trouble is not None:
            raise self.trouble
