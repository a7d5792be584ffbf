"""A client of the runs surface for tests, on the `websockets` package: one JSON object a message, answers by id.

    with Runs(server) as runs:
        runs.ask("ping", id="1")
        run = runs.run("What time is it?", agent="react")
        assert run.reply == "Noon."

Objects keep the order of their keys, and an object with a key twice is an error. It has no thread of its own: frames
of other requests are kept aside while one is waited for.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Callable

import raw_client
from packages import load

client = load("websockets.sync.client")
exceptions = load("websockets.exceptions")

# It only ends a test that hangs.
TIMEOUT = 120.0
POLL = 0.01
STREAM = "run_stream_event"
ENDINGS = ("run_end", "error")


@dataclass
class Run:
    """What came for one run: the stream's frames in order and, once it is there, the frame that ends it."""

    id: str
    frames: list[dict] = field(default_factory=list)
    ending: dict | None = None

    @property
    def events(self) -> list[dict]:
        return [frame["event"] for frame in self.frames]

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    @property
    def outline(self) -> list[str]:
        """The types of events, with neighbours of the same type as one: pieces of text come in any number."""
        return [kind for kind, _ in itertools.groupby(self.types)]

    @property
    def event_ids(self) -> list[int]:
        return [event["event_id"] for event in self.events]

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes in the order of their entering."""
        return [event["id"] for event in self.of("node_enter")]

    @property
    def text(self) -> str:
        return "".join(event["content"] for event in self.of("message_chunk"))

    @property
    def reply(self) -> str:
        assert self.ending is not None and self.ending["type"] == "run_end", f"not a reply: {self.ending}"
        return self.ending["reply"]

    @property
    def error(self) -> str:
        assert self.ending is not None and self.ending["type"] == "error", f"not an error: {self.ending}"
        return self.ending["error"]

    def of(self, *kinds: str) -> list[dict]:
        return [event for event in self.events if event["type"] in kinds]

    def tool_results(self) -> dict[str, dict]:
        """`tool_end` by tool name; for runs that call a tool once."""
        return {event["name"]: event for event in self.of("tool_end")}


class Runs:
    """One connection. `token` goes into the `Authorization` header."""

    def __init__(self, server, *, token: str | None = None, **options) -> None:
        url = server if isinstance(server, str) else url_of(server)
        if token is not None:
            options["additional_headers"] = {"Authorization": f"Bearer {token}"}
        # A client that has not read everything does not notice that its server is gone, and would wait for its goodbye.
        options = {"open_timeout": TIMEOUT, "close_timeout": 1, "max_size": None, "proxy": None, **options}
        self.socket = client.connect(url, **options)
        # Every frame, in the order of arrival.
        self.seen: list[dict] = []
        self._kept: deque[dict] = deque()
        self._ids = itertools.count(1)

    # Frames.

    def send(self, request: dict) -> None:
        self.send_raw(json.dumps(request))

    def send_raw(self, message: str | bytes) -> None:
        """Any text, or bytes as a binary message."""
        self.socket.send(message)

    def next_frame(self, timeout: float = TIMEOUT) -> dict:
        """The next frame from the wire, whosever it is."""
        text = self.socket.recv(max(0.0, timeout))
        assert isinstance(text, str), "answers are text"
        frame = json.loads(text, object_pairs_hook=without_doubles)
        assert isinstance(frame, dict) and isinstance(frame.get("type"), str), frame
        self.seen.append(frame)
        return frame

    def take(self, wanted: Callable[[dict], bool], timeout: float = TIMEOUT) -> dict:
        """The first frame that is wanted, among those kept aside and those to come."""
        for at, frame in enumerate(self._kept):
            if wanted(frame):
                del self._kept[at]
                return frame
        deadline = time.monotonic() + timeout
        while True:
            frame = self.next_frame(deadline - time.monotonic())
            if wanted(frame):
                return frame
            self._kept.append(frame)

    # Requests with one answer.

    def ask(self, kind: str, timeout: float = TIMEOUT, **fields: object) -> dict:
        """Sends a request and gives its answer, which may be an `error`."""
        identity = fields.setdefault("id", f"q{next(self._ids)}")
        self.send({"type": kind, **fields})
        return self.take(lambda frame: frame.get("id") == identity and frame["type"] != STREAM, timeout)

    # Runs.

    def start(self, message: str, agent: str = "react", **fields: object) -> None:
        self.send({"type": "run", "message": message, "agent": agent, **fields})

    def attach(self, run_id: str, after: int = 0) -> Run:
        """Asks for a run from the event after that number; what comes is read with `until` and `finish`."""
        self.send({"type": "attach", "id": run_id, "after": after})
        return Run(run_id)

    def read(self, run: Run | None = None, timeout: float = TIMEOUT) -> Run:
        """One more frame of a run; without one, the first frame of whichever run comes next."""

        def is_meant(frame: dict) -> bool:
            return frame["type"] in (STREAM, *ENDINGS) and (run is None or frame.get("id") == run.id)

        frame = self.take(is_meant, timeout)
        run = run if run is not None else Run(frame.get("id"))
        if frame["type"] == STREAM:
            run.frames.append(frame)
        else:
            run.ending = frame
        return run

    def until(self, kind: str, run: Run | None = None, timeout: float = TIMEOUT, **fields: object) -> Run:
        """Reads on to the next event of this type whose fields are as given."""
        deadline = time.monotonic() + timeout
        while True:
            run = self.read(run, deadline - time.monotonic())
            assert run.ending is None, f"ended without `{kind}` {fields}: {run.ending}, after {run.types[-30:]}"
            event = run.frames[-1]["event"] if run.frames else {}
            if event.get("type") == kind and all(event.get(name) == value for name, value in fields.items()):
                return run

    def finish(self, run: Run | None = None, timeout: float = TIMEOUT) -> Run:
        """Reads the rest of a run, its end included."""
        deadline = time.monotonic() + timeout
        while run is None or run.ending is None:
            run = self.read(run, deadline - time.monotonic())
        return run

    def run(self, message: str, agent: str = "react", timeout: float = TIMEOUT, **fields: object) -> Run:
        self.start(message, agent, **fields)
        return self.finish(timeout=timeout)

    def attached(self, run_id: str, after: int = 0, timeout: float = TIMEOUT) -> Run:
        return self.finish(self.attach(run_id, after), timeout)

    # The end.

    def closed_with(self, timeout: float = TIMEOUT) -> int | None:
        """Reads until the server closes; gives the close code, or None without a close frame."""
        deadline = time.monotonic() + timeout
        try:
            while True:
                self.next_frame(deadline - time.monotonic())
        except exceptions.ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else None

    def close(self) -> None:
        self.socket.close()

    def abort(self) -> None:
        """Goes away without a closing handshake, as a client does that crashes."""
        self.socket.socket.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Runs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def without_doubles(pairs: list[tuple[str, object]]) -> dict:
    made = dict(pairs)
    assert len(made) == len(pairs), f"a key is there twice: {[key for key, _ in pairs]}"
    return made


def url_of(server) -> str:
    return f"ws://{server.address('runs')}/"


# Clients that misbehave, and one who must not notice.


def side(server) -> SimpleNamespace:
    """The runs listener in the place where `raw_client` looks for the gateway's."""
    return SimpleNamespace(gateway=server.address("runs"), pid=server.pid)


def status_of(server, headers: dict[str, str], path: str = "/", method: str = "GET") -> int:
    return raw_client.status_of(side(server), headers, path, method)


def upgrade(server, receive_buffer: int | None = None) -> socket.socket:
    """A WebSocket connection on which anything can be sent."""
    plug = raw_client.connect(side(server), receive_buffer)
    plug.sendall(raw_client.head("/", {"Host": server.address("runs"), **raw_client.UPGRADE}))
    status = raw_client.read_status(plug)
    assert status == 101, status
    return plug


class Bystander:
    """Another client of the same server, which pings all the time; leaving its block fails if one is not answered."""

    def __init__(self, server, token: str | None = None) -> None:
        self.runs = Runs(server, token=token)
        self.pings = 0
        self.trouble: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ping, daemon=True)

    def _ping(self) -> None:
        try:
            while not self._stop.is_set():
                identity = f"b{self.pings}"
                answer = self.runs.ask("ping", id=identity)
                assert answer == {"type": "pong", "id": identity}, answer
                self.pings += 1
                # A load generator would be a disturbance of its own.
                self._stop.wait(0.005)
        except BaseException as trouble:  # noqa: BLE001 - told to the test when it ends
            self.trouble = trouble

    def __enter__(self) -> Bystander:
        self._thread.start()
        return self

    def is_served(self) -> None:
        """Waits until a ping that is sent from now on is answered: what goes on at this moment does not hold it up."""
        # The one that is on its way may have been sent before.
        wanted = self.pings + 2
        deadline = time.monotonic() + TIMEOUT
        while self.pings < wanted:
            assert self._thread.is_alive() and time.monotonic() < deadline, f"no answer to a ping: {self.trouble}"
            time.sleep(POLL)

    def __exit__(self, kind: object, *_: object) -> None:
        self._stop.set()
        self._thread.join(2 * TIMEOUT)
        self.runs.close()
        if kind is None:
            assert not self._thread.is_alive(), "a ping is not answered"
            if self.trouble is not None:
                raise self.trouble


# What the machine knows.


def seconds_mark() -> str:
    """A number of seconds, more than a thousand, that is in no other command line of this machine."""
    return f"1000.{os.getpid()}{time.monotonic_ns()}"


def processes_with(mark: str) -> list[int]:
    """The processes whose command line has this text."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as line:
                    command = line.read()
            except OSError:
                continue  # Gone in the meantime.
            if mark.encode() in command:
                found.append(int(entry))
    return found


def is_established(server, client_port: int) -> bool:
    """Whether the server's end of a connection is still open."""
    port = int(server.address("runs").rsplit(":", 1)[1])
    with open("/proc/net/tcp") as table:
        for line in list(table)[1:]:
            _, local, remote, state = line.split()[:4]
            if int(local.split(":")[1], 16) == port and int(remote.split(":")[1], 16) == client_port:
                return state == "01"
    return False
