"""An app of the hub for tests, on the `websockets` package: it registers, takes messages and answers them.

    with App(server, "notebook", "Keeps notes and lists.") as notebook:
        message = notebook.next_message()
        notebook.ack(message)
        notebook.notify(message, body="Saved.")

`Deaf` is an app on a bare TCP connection that answers a ping only when told to.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections import deque
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Callable

import raw_client
from packages import load

client = load("websockets.sync.client")
exceptions = load("websockets.exceptions")

# Longer than the hub's own timeouts: where it matters which of the two ends a wait, a test sets the hub's to `NEVER`.
TIMEOUT = 120.0
NEVER = "10m"
# Sooner than any of them is over by default: where a test shows that a shorter one counts.
BEFORE_DEFAULTS = 25.0


@dataclass(frozen=True)
class Message:
    """What an app is given to do."""

    payload: dict

    @property
    def id(self) -> str:
        return self.payload["id"]

    @property
    def text(self) -> str:
        return self.payload["text"]

    @property
    def timestamp(self) -> str:
        return self.payload["timestamp"]

    @property
    def metadata(self) -> dict:
        return self.payload["metadata"]

    @property
    def is_direct(self) -> bool:
        return self.metadata["directRouted"]

    @property
    def reason(self) -> str | None:
        return self.metadata.get("routingReason")


class App:
    """One connection, registered when a name is given."""

    def __init__(
        self, server, name: str | None = None, description: str = "", *, path: str = "/", host: str = "", **options
    ) -> None:
        more = {key: options.pop(key) for key in ("version", "capabilities") if key in options}
        # Messages wait in the client without bound, or it would stop to answer pings.
        options = {"open_timeout": TIMEOUT, "max_size": None, "max_queue": None, "proxy": None, **options}
        self.socket = client.connect(f"ws://{host or server.address('hub')}{path}", ping_interval=None, **options)
        self.name = name
        # Every frame, in the order of arrival.
        self.seen: list[dict] = []
        self._kept: deque[dict] = deque()
        if name is not None:
            answer = self.register(name, description, **more)
            assert answer["success"] is True, f"`{name}` was not let in: {answer}"

    # Frames.

    def send(self, kind: str, payload: object, **more: object) -> None:
        self.send_raw(json.dumps({"type": kind, "payload": payload, **more}))

    def send_raw(self, frame: str | bytes) -> None:
        """Any text, or bytes as a binary frame."""
        self.socket.send(frame)

    def next_frame(self, timeout: float = TIMEOUT) -> dict:
        """The next frame from the wire, of whatever type."""
        text = self.socket.recv(max(0.0, timeout))
        assert isinstance(text, str), "the hub sends text frames"
        frame = json.loads(text)
        assert isinstance(frame, dict) and set(frame) == {"type", "payload"}, frame
        assert isinstance(frame["type"], str) and isinstance(frame["payload"], dict), frame
        self.seen.append(frame)
        return frame

    def take(self, *kinds: str, timeout: float = TIMEOUT) -> dict:
        """The first frame of one of these types; the others are kept aside."""
        for at, frame in enumerate(self._kept):
            if frame["type"] in kinds:
                del self._kept[at]
                return frame
        deadline = time.monotonic() + timeout
        while True:
            frame = self.next_frame(deadline - time.monotonic())
            if frame["type"] in kinds:
                return frame
            self._kept.append(frame)

    def has_nothing_yet(self) -> bool:
        """Whether no frame has come that was not taken yet."""
        try:
            self._kept.append(self.next_frame(0.0))
        except TimeoutError:
            pass
        return not self._kept

    # Registration.

    def register(self, name: object, description: object, **more: object) -> dict:
        """Asks to be let in; gives the answer's payload."""
        return self.ask_in({"name": name, "description": description, **more})

    def ask_in(self, payload: object) -> dict:
        self.send("registration", payload)
        return self.take("registration_response")["payload"]

    # Messages and responses.

    def next_message(self, timeout: float = TIMEOUT) -> Message:
        return Message(self.take("message", timeout=timeout)["payload"])

    def ack(self, message: Message | str) -> None:
        self.respond(message, "ack", {})

    def reject(self, message: Message | str, reason: str | None = None) -> None:
        self.respond(message, "reject", {} if reason is None else {"reason": reason})

    def notify(self, message: Message | str, **fields: object) -> None:
        self.respond(message, "notification", fields)

    def respond(self, message: Message | str, kind: str, payload: object) -> None:
        self.send("response", {"messageId": identity_of(message), "type": kind, "payload": payload})

    # The end.

    def ping(self, timeout: float = TIMEOUT) -> None:
        """A ping of the client's own, which the hub has to answer."""
        assert self.socket.ping().wait(timeout), f"no pong within {timeout} s"

    def closed_with(self, timeout: float = TIMEOUT) -> int | None:
        """Reads until the hub closes; gives the close code, or None without a close frame."""
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

    def __enter__(self) -> App:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def identity_of(message: Message | str) -> str:
    return message.id if isinstance(message, Message) else message


def registration(name: object, description: object = "Keeps notes and lists.", **more: object) -> dict:
    """The whole frame of the document."""
    return {"type": "registration", "payload": {"name": name, "description": description, **more}}


# Clients that misbehave.


def side(server) -> SimpleNamespace:
    """The hub's listener in the place where `raw_client` looks for the gateway's."""
    return SimpleNamespace(gateway=server.address("hub"), pid=server.pid)


def status_of(server, headers: dict[str, str], path: str = "/", method: str = "GET") -> int:
    return raw_client.status_of(side(server), headers, path, method)


def upgrade(server, **headers: str) -> socket.socket:
    """A WebSocket connection on which anything can be sent."""
    plug = raw_client.connect(side(server))
    plug.sendall(raw_client.head("/", {"Host": server.address("hub"), **raw_client.UPGRADE, **headers}))
    status = raw_client.read_status(plug)
    assert status == 101, status
    return plug


class Deaf:
    """An app on a bare TCP connection. It reads only when it is told to, and so does not answer pings."""

    def __init__(self, server, name: str | None = None, description: str = "Keeps notes and lists.") -> None:
        self.plug = upgrade(server)
        self._stream = self.plug.makefile("rb")
        if name is not None:
            self.send(json.dumps(registration(name, description)).encode())
            opcode, answer = self.read()
            assert opcode == raw_client.TEXT and json.loads(answer)["payload"]["success"] is True, answer

    def send(self, payload: bytes, opcode: int = raw_client.TEXT, **options) -> None:
        self.plug.sendall(raw_client.frame(payload, opcode, **options))

    def read(self, timeout: float = TIMEOUT) -> tuple[int, bytes]:
        """The next frame as it is: opcode and payload. `EOFError` at the end of the stream."""
        self.plug.settimeout(timeout)
        start = self._exactly(2)
        length = start[1] & 0x7F
        if length >= 126:
            length = struct.unpack(*(("!H", self._exactly(2)) if length == 126 else ("!Q", self._exactly(8))))[0]
        return start[0] & 0x0F, self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        try:
            data = self._stream.read(count)
        except ConnectionResetError:
            data = b""
        if data is None or len(data) < count:
            raise EOFError
        return data

    def until(self, wanted: Callable[[int, bytes], bool], timeout: float = TIMEOUT) -> bytes:
        deadline = time.monotonic() + timeout
        while True:
            opcode, payload = self.read(max(0.01, deadline - time.monotonic()))
            if wanted(opcode, payload):
                return payload

    def next_ping(self, timeout: float = TIMEOUT) -> bytes:
        return self.until(lambda opcode, _: opcode == raw_client.PING, timeout)

    def next_message(self, timeout: float = TIMEOUT) -> Message:
        def is_message(opcode: int, payload: bytes) -> bool:
            return opcode == raw_client.TEXT and json.loads(payload)["type"] == "message"

        return Message(json.loads(self.until(is_message, timeout))["payload"])

    def pong(self, payload: bytes) -> None:
        self.send(payload, raw_client.PONG)

    def is_dropped_within(self, seconds: float) -> bool:
        return raw_client.is_closed_within(self.plug, seconds)

    def close(self) -> None:
        self._stream.close()
        self.plug.close()
