"""Stand-ins for the services that channels talk to: real HTTP servers on loopback that answer in the public formats
of the Telegram Bot API and the Slack Web API, write down what they are sent, and fail when told to.

    with Telegram("TOKEN") as telegram:
        telegram.next(Fail(429, retry_after=1), Reset())
        ...
        assert telegram.wait_for(1)[0].json["text"] == "hello"

Every request takes the next of what was told; when nothing is left, it is answered properly.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import http.server
import itertools
import json
import socket
import struct
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Union

WAIT_TIMEOUT = 120.0


# What a stand-in can be told to do with one request.


@dataclass(frozen=True)
class Fail:
    """A status in place of the answer, in the service's own form."""

    status: int
    retry_after: int | None = None


@dataclass(frozen=True)
class Reset:
    """Breaks the connection off without an answer; the request is written down, and did not arrive."""


@dataclass(frozen=True)
class Late:
    """Answers properly once the event is set."""

    released: threading.Event


@dataclass(frozen=True)
class Redirect:
    location: str


@dataclass(frozen=True)
class Page:
    """A page instead of an answer."""

    body: bytes
    content_type: str = "text/html"


Behaviour = Union[Fail, Reset, Late, Redirect, Page]


@dataclass
class Sent:
    """One request that arrived, and what it was answered with; 0 is no answer at all."""

    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes
    at: float
    status: int = 0

    @property
    def json(self) -> dict:
        return json.loads(self.body)


class StandIn:
    """A web server. `requests` is everything that came, `accepted` what was answered with 2xx."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._script: deque[Behaviour] = deque()
        self._requests: list[Sent] = []
        self._server = _Listener(("127.0.0.1", 0), _Handler, self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def grant(self) -> str:
        return f"http:127.0.0.1:{self.port}"

    def next(self, *behaviours: Behaviour) -> None:
        with self._changed:
            self._script.extend(behaviours)

    @property
    def requests(self) -> list[Sent]:
        with self._changed:
            return list(self._requests)

    @property
    def accepted(self) -> list[Sent]:
        return [one for one in self.requests if 200 <= one.status < 300]

    def wait_for(self, count: int, timeout: float = WAIT_TIMEOUT) -> list[Sent]:
        """Waits until so many requests were answered well in all."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._accepted()) >= count, timeout):
                seen = [(one.status, one.path, one.body[:200]) for one in self._requests]
                raise AssertionError(f"{len(self._accepted())} of {count} were accepted in {timeout} s: {seen}")
            return self._accepted()

    def wait_for_any(self, count: int, timeout: float = WAIT_TIMEOUT) -> list[Sent]:
        """Waits until so many requests have come, however they were answered."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._requests) >= count, timeout):
                raise AssertionError(f"{len(self._requests)} of {count} requests came in {timeout} s")
            return list(self._requests)

    def _accepted(self) -> list[Sent]:
        return [one for one in self._requests if 200 <= one.status < 300]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(WAIT_TIMEOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What the service itself says; overridden.

    def proper(self, sent: Sent) -> tuple[int, dict | bytes]:
        return 200, b"<html><head><title>A page</title></head></html>"

    def failure(self, told: Fail) -> dict | bytes:
        return b"made to fail"

    # For the handler.

    def take(self, sent: Sent) -> Behaviour | None:
        with self._changed:
            self._requests.append(sent)
            self._changed.notify_all()
            return self._script.popleft() if self._script else None

    def answered(self, sent: Sent, status: int) -> None:
        with self._changed:
            sent.status = status
            self._changed.notify_all()


class Telegram(StandIn):
    """`sendMessage` of the Bot API, as strict as the real one about what it takes."""

    def __init__(self, token: str) -> None:
        self.token = token
        self._numbers = itertools.count(1000)
        super().__init__()

    def proper(self, sent: Sent) -> tuple[int, dict | bytes]:
        if sent.path != f"/bot{self.token}/sendMessage":
            known = sent.path.startswith(f"/bot{self.token}/")
            return (404, error(404, "Not Found")) if known else (401, error(401, "Unauthorized"))
        try:
            asked = sent.json
        except ValueError:
            return 400, error(400, "Bad Request: can't parse JSON")
        if "chat_id" not in asked:
            return 400, error(400, "Bad Request: chat_id is empty")
        text = asked.get("text")
        if not isinstance(text, str) or not text.strip():
            return 400, error(400, "Bad Request: message text is empty")
        if len(text.encode("utf-16-le")) // 2 > 4096:
            return 400, error(400, "Bad Request: message is too long")
        message = {
            "message_id": next(self._numbers),
            "from": {"id": 1, "is_bot": True, "first_name": "Bot"},
            "chat": {"id": asked["chat_id"], "type": "private"},
            "date": int(time.time()),
            "text": text,
        }
        return 200, {"ok": True, "result": message}

    def failure(self, told: Fail) -> dict | bytes:
        answer = error(told.status, "Too Many Requests" if told.status == 429 else "Internal Server Error")
        if told.retry_after is not None:
            answer["parameters"] = {"retry_after": told.retry_after}
        return answer

    def texts(self, chat: int | None = None) -> list[str]:
        """What was said, in all or in one chat, in the order of arrival."""
        said = [one.json for one in self.accepted]
        return [one["text"] for one in said if chat is None or str(one["chat_id"]) == str(chat)]


class Slack(StandIn):
    """`chat.postMessage` of the Web API; errors are told with status 200, as the real one does."""

    def __init__(self, token: str) -> None:
        self.token = token
        self._numbers = itertools.count(1)
        super().__init__()

    def proper(self, sent: Sent) -> tuple[int, dict | bytes]:
        if sent.path != "/api/chat.postMessage":
            return 200, {"ok": False, "error": "unknown_method"}
        if sent.headers.get("authorization") != f"Bearer {self.token}":
            return 200, {"ok": False, "error": "invalid_auth"}
        if not sent.headers.get("content-type", "").startswith("application/json"):
            return 200, {"ok": False, "error": "invalid_arguments"}
        asked = sent.json
        if not asked.get("channel"):
            return 200, {"ok": False, "error": "channel_not_found"}
        if not asked.get("text"):
            return 200, {"ok": False, "error": "no_text"}
        ts = f"1700000000.{next(self._numbers):06d}"
        return 200, {"ok": True, "channel": asked["channel"], "ts": ts, "message": {"text": asked["text"], "ts": ts}}

    def failure(self, told: Fail) -> dict | bytes:
        return {"ok": False, "error": "ratelimited" if told.status == 429 else "fatal_error"}

    @property
    def messages(self) -> list[dict]:
        """What was posted with the right token."""
        right = f"Bearer {self.token}"
        return [one.json for one in self.accepted if one.headers.get("authorization") == right]


def error(code: int, description: str) -> dict:
    return {"ok": False, "error_code": code, "description": description}


# What the services send.


def update(
    number: int, text: str | None = "hello", *, chat: int = 77, user: int = 7, kind: str = "message", **more
) -> dict:
    """An Update of the Bot API with a text message; `more` are further keys of the message."""
    message: dict = {
        "message_id": number * 10,
        "from": {"id": user, "is_bot": False, "first_name": "Ada", "username": "ada"},
        "chat": {"id": chat, "type": "private" if chat > 0 else "group", "first_name": "Ada"},
        "date": 1_700_000_000 + number,
    }
    if text is not None:
        message["text"] = text
    return {"update_id": number, kind: {**message, **more}}


def slack_event(
    ts: str, text: str = "hello", *, kind: str = "message", channel: str = "C1", user: str = "U1", **more
) -> dict:
    """An `event_callback` of the Events API; `more` are further keys of the event."""
    return {
        "token": "legacy",
        "team_id": "T1",
        "api_app_id": "A1",
        "type": "event_callback",
        "event_id": f"Ev{kind}{ts}",
        "event_time": int(float(ts)),
        "event": {"type": kind, "channel": channel, "user": user, "text": text, "ts": ts, "event_ts": ts, **more},
    }


def slack_signature(secret: str, body: bytes, timestamp: int | None = None) -> dict[str, str]:
    at = str(int(time.time()) if timestamp is None else timestamp)
    digest = hmac.new(secret.encode(), f"v0:{at}:".encode() + body, hashlib.sha256).hexdigest()
    return {"X-Slack-Request-Timestamp": at, "X-Slack-Signature": f"v0={digest}"}


def hub_signature(secret: str, body: bytes) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class Answer:
    """What a webhook was answered with."""

    status: int
    headers: dict[str, str] = field(repr=False)  # names in lower case
    text: str

    @property
    def json(self) -> dict:
        return json.loads(self.text)

    @property
    def kind(self) -> str:
        return self.headers.get("content-type", "").split(";")[0]


def post(
    server,
    channel: str,
    body: bytes | dict,
    headers: dict[str, str] | None = None,
    *,
    method: str = "POST",
    query: str = "",
    timeout: float = WAIT_TIMEOUT,
) -> Answer:
    """Delivers a webhook to a server."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    address = server if isinstance(server, str) else server.gateway
    connection = http.client.HTTPConnection(address, timeout=timeout)
    try:
        every = {"Content-Type": "application/json", **(headers or {})}
        connection.request(method, f"/webhook/{channel}{query}", data, every)
        answer = connection.getresponse()
        return Answer(
            answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()
        )
    finally:
        connection.close()


class _Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, address: tuple[str, int], handler: type, stand_in: StandIn) -> None:
        self.stand_in = stand_in
        super().__init__(address, handler)

    def handle_error(self, request: object, client_address: object) -> None:
        # A client that hangs up is part of many tests, and nothing to print.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        """Tests look at `requests` instead."""

    def handle_any(self) -> None:
        stand_in: StandIn = self.server.stand_in
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        sent = Sent(self.command, self.path, headers, body, time.monotonic())
        told = stand_in.take(sent)
        if isinstance(told, Reset):
            # A reset, and not the orderly end of a connection.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
            return
        more: dict[str, str] = {}
        if isinstance(told, Fail):
            status, content = told.status, stand_in.failure(told)
            if told.retry_after is not None:
                more["Retry-After"] = str(told.retry_after)
        elif isinstance(told, Redirect):
            status, content = 302, b""
            more["Location"] = told.location
        elif isinstance(told, Page):
            status, content = 200, told.body
            more["Content-Type"] = told.content_type
        else:
            if isinstance(told, Late):
                told.released.wait(WAIT_TIMEOUT)
            status, content = stand_in.proper(sent)
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        # Before the answer goes out: whoever has it may look at once.
        stand_in.answered(sent, status)
        self.send_response(status)
        if "Content-Type" not in more:
            more["Content-Type"] = "text/html" if isinstance(content, bytes) else "application/json"
        for name, value in more.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
        self.wfile.flush()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = handle_any
