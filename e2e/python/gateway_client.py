"""A gateway client for tests, on the `websockets` package: frames by request id, in the order they came.

    with Gateway(server) as gateway:
        gateway.result("ping")
        turn = gateway.chat("hello", account="alice")
        assert turn.text == "echo: hello"

It has no thread of its own: frames of other requests are kept aside while one request is waited for.
"""

from __future__ import annotations

import itertools
import json
import socket
import time
from collections import deque
from dataclasses import dataclass
from typing import Callable

from packages import load

client = load("websockets.sync.client")
exceptions = load("websockets.exceptions")

# Only to end a test that hangs. What must come sooner than something else is shown by the order of events, or by
# settings with which the other thing takes longer than this.
TIMEOUT = 120.0
POLL = 0.02
CHANNEL = "websocket"


@dataclass(frozen=True)
class Turn:
    """All frames of one `chat.send` or `chat.attach`, the last one `done`."""

    id: str
    frames: list[dict]

    @property
    def events(self) -> list[str]:
        return [frame["event"] for frame in self.frames]

    @property
    def outline(self) -> list[str]:
        """The kinds of events, with neighbours of the same kind as one: pieces of text come in any number."""
        return [kind for kind, _ in itertools.groupby(self.events)]

    @property
    def text(self) -> str:
        return "".join(self.data("text"))

    @property
    def usage(self) -> tuple[int, int]:
        figures = self.data("usage")
        return sum(one["input_tokens"] for one in figures), sum(one["output_tokens"] for one in figures)

    @property
    def errors(self) -> list[str]:
        return self.data("error")

    def data(self, event: str) -> list:
        return [frame.get("data") for frame in self.frames if frame["event"] == event]


class Gateway:
    """One connection. `token` is presented before anything else; the greeting is taken in unless `greet` is off."""

    def __init__(self, server, *, token: str | None = None, greet: bool = True, **options) -> None:
        url = server if isinstance(server, str) else server.ws_url
        options = {"open_timeout": TIMEOUT, "max_size": None, "proxy": None, **options}
        self.socket = client.connect(url, **options)
        self.greeting: dict | None = None
        # Every frame, in the order of arrival.
        self.seen: list[dict] = []
        self._kept: dict[str | None, deque[dict]] = {}
        self._ids = itertools.count(1)
        if token is not None:
            self.send({"token": token})
        if greet:
            self.greeting = self.next_frame()

    # Frames.

    def send(self, frame: dict) -> None:
        self.socket.send(json.dumps(frame))

    def next_frame(self, timeout: float = TIMEOUT) -> dict:
        """The next frame from the wire, whosever it is."""
        frame = json.loads(self.socket.recv(timeout))
        self.seen.append(frame)
        return frame

    def next_of(self, request: str, timeout: float = TIMEOUT) -> dict:
        """The next frame that answers this request."""
        kept = self._kept.get(request)
        if kept:
            return kept.popleft()
        deadline = time.monotonic() + timeout
        while True:
            frame = self.next_frame(max(0.0, deadline - time.monotonic()))
            if frame.get("id") == request:
                return frame
            self._kept.setdefault(frame.get("id"), deque()).append(frame)

    def nothing_kept(self, request: str) -> bool:
        return not self._kept.get(request)

    # Requests.

    def ask(self, method: str, params: object = None, **more: object) -> str:
        """Sends a request and gives its id."""
        identity = f"r{next(self._ids)}"
        frame: dict = {"id": identity, "method": method}
        if params is not None or more:
            frame["params"] = {**params, **more} if isinstance(params, dict) else (params if more == {} else more)
        self.send(frame)
        return identity

    def answer(self, method: str, params: object = None, **more: object) -> dict:
        """The whole answer: `{"id", "result"}` or `{"id", "error"}`."""
        return self.next_of(self.ask(method, params, **more))

    def result(self, method: str, params: object = None, **more: object):
        answer = self.answer(method, params, **more)
        assert "result" in answer and "error" not in answer, f"{method} failed: {answer}"
        return answer["result"]

    def error(self, method: str, params: object = None, **more: object) -> str:
        answer = self.answer(method, params, **more)
        assert "error" in answer and "result" not in answer, f"{method} did not fail: {answer}"
        assert isinstance(answer["error"], str), answer
        return answer["error"]

    # Chats.

    def start(self, content: str, *, account: str = "alice", channel: str = CHANNEL, **more: object) -> str:
        """Sends a chat message; gives the request's id while the answer streams."""
        return self.ask("chat.send", {"channel": channel, "account": account, "content": content, **more})

    def turn(self, request: str, timeout: float = TIMEOUT) -> Turn:
        """The rest of a stream, up to its `done`."""
        frames: list[dict] = []
        deadline = time.monotonic() + timeout
        while not frames or frames[-1]["event"] != "done":
            frame = self.next_of(request, max(0.0, deadline - time.monotonic()))
            assert "event" in frame, f"not a stream: {frame}"
            frames.append(frame)
        return Turn(request, frames)

    def chat(self, content: str, **where: object) -> Turn:
        return self.turn(self.start(content, **where))

    def until(self, request: str, event: str, timeout: float = TIMEOUT) -> list[dict]:
        """The frames of a stream up to the first one with this event, which is the last given."""
        frames: list[dict] = []
        deadline = time.monotonic() + timeout
        while not frames or frames[-1].get("event") != event:
            frames.append(self.next_of(request, max(0.0, deadline - time.monotonic())))
            assert event == "done" or frames[-1].get("event") != "done", f"ended without `{event}`: {frames}"
        return frames

    # The end.

    def closed_with(self, timeout: float = TIMEOUT) -> int | None:
        """Reads until the server closes; gives the close code, or None without a close frame."""
        deadline = time.monotonic() + timeout
        try:
            while True:
                self.seen.append(json.loads(self.socket.recv(max(0.0, deadline - time.monotonic()))))
        except exceptions.ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else None

    def close(self) -> None:
        self.socket.close()

    def abort(self) -> None:
        """Goes away without a closing handshake, as a client does that crashes."""
        self.socket.socket.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Gateway:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def eventually(condition: Callable[[], object], what: str, timeout: float = TIMEOUT) -> None:
    """For what happens by itself and tells nobody: asks again and again, up to a deadline."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout} s: {what}"
        time.sleep(POLL)


def in_pages(gateway: Gateway, method: str, *, limit: int, **params: object) -> list[list]:
    """Follows the cursors of a list method to its end."""
    pages: list[list] = []
    cursor = None
    while True:
        more = {"cursor": cursor} if cursor is not None else {}
        page = gateway.result(method, {"limit": limit, **params, **more})
        assert set(page) == {"items", "next_cursor"}, page
        pages.append(page["items"])
        cursor = page["next_cursor"]
        if cursor is None:
            return pages
        assert len(pages) < 1000, "the cursors never end"
