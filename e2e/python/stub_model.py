"""A model server for tests: OpenAI Chat Completions and Anthropic Messages, streamed or whole, by script.

    with StubModel() as model:
        model.script(Reply(Text("Hel"), Text("lo")), Failure(429, "slow down"))
        server = Server(config=model.provider_config("openai"))
        ...
        assert model.requests[0].last_user_text == "hi"

Each request takes the next entry of the script; with the script at its end, `fallback` answers. What arrives is
recorded. Only the standard library is used; every request has a thread of its own.
"""

from __future__ import annotations

import http.server
import json
import select
import socket
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Callable, Union

import stub_model_wire as wire

WAIT_TIMEOUT = 120.0
POLL = 0.01
MAX_BODY = 64 * 1024 * 1024


# What a stub can be told to do.


@dataclass(frozen=True)
class Text:
    """A piece of the answer, sent as one event."""

    text: str


@dataclass(frozen=True)
class Call:
    """A tool call; its arguments are sent in several pieces. A string of arguments is sent as it is, valid or not."""

    name: str
    arguments: Union[dict, str] = field(default_factory=dict)
    id: str = ""

    @property
    def arguments_text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True)
class Hold:
    """Waits until the event is set, or until the client hangs up."""

    released: threading.Event


@dataclass(frozen=True)
class StreamError:
    """An error in the middle of the stream, in the API's own form; the stream ends there."""

    message: str
    kind: str = "overloaded_error"


@dataclass(frozen=True)
class Raw:
    """Bytes put on the wire as they are."""

    data: bytes


@dataclass(frozen=True)
class Cut:
    """Breaks the connection off here."""


Step = Union[Text, Call, Hold, StreamError, Raw, Cut]


@dataclass(frozen=True)
class Reply:
    """A streamed answer: steps in order, then the API's proper ending with these usage figures."""

    steps: tuple[Step, ...]
    input_tokens: int = 10
    output_tokens: int = 5
    # "stop", "length" or "tool_calls"; told by the steps when left out.
    finish: Union[str, None] = None

    def __init__(
        self, *steps: Step, input_tokens: int = 10, output_tokens: int = 5, finish: Union[str, None] = None
    ) -> None:
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "input_tokens", input_tokens)
        object.__setattr__(self, "output_tokens", output_tokens)
        object.__setattr__(self, "finish", finish)

    @property
    def finish_reason(self) -> str:
        return self.finish or ("tool_calls" if any(isinstance(step, Call) for step in self.steps) else "stop")


@dataclass(frozen=True)
class Failure:
    """An HTTP error instead of an answer."""

    status: int
    message: str = "made to fail"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Drop:
    """Closes the connection without a word."""


Behaviour = Union[Reply, Failure, Drop]


# What a stub has seen.


@dataclass
class Request:
    api: str  # "openai" or "anthropic"
    path: str
    headers: dict[str, str]  # names in lower case
    body: dict
    arrived_at: float
    # Set when the client hung up before the answer was complete, and when all is over.
    gone: threading.Event = field(default_factory=threading.Event)
    finished: threading.Event = field(default_factory=threading.Event)

    @property
    def messages(self) -> list[dict]:
        return self.body.get("messages", [])

    @property
    def system_text(self) -> str:
        """All system text, wherever the API puts it."""
        parts = [wire.plain_text(self.body.get("system"))]
        parts += [wire.plain_text(one.get("content")) for one in self.messages if one.get("role") == "system"]
        return "\n".join(part for part in parts if part)

    @property
    def last_user_text(self) -> str:
        texts = [wire.plain_text(one.get("content")) for one in self.messages if one.get("role") == "user"]
        return texts[-1] if texts else ""

    @property
    def tool_names(self) -> list[str]:
        return [(tool.get("function") or tool).get("name", "") for tool in self.body.get("tools") or []]


def echo(request: Request) -> Behaviour:
    """The fallback of fallbacks: gives back what the user said, word by word."""
    words = f"echo: {request.last_user_text}".split(" ")
    return Reply(*[Text(word if at == 0 else f" {word}") for at, word in enumerate(words)], output_tokens=len(words))


class StubModel:
    def __init__(self, *behaviours: Behaviour, fallback: Callable[[Request], Behaviour] = echo) -> None:
        self.fallback = fallback
        # What `GET /v1/models` answers: names, a status, or nothing until the event is set.
        self.listing: list[str] | int | threading.Event = ["stub-model"]
        self.asked_for_models = 0
        self.closing = threading.Event()
        self._script: deque[Behaviour] = deque(behaviours)
        self._requests: list[Request] = []
        self._connections: set[socket.socket] = set()
        self._changed = threading.Condition()
        self._server = _Listener(("127.0.0.1", 0), _Handler, self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(POLL,), daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return "127.0.0.1:%d" % self._server.server_address[1]

    @property
    def base_url(self) -> str:
        return f"http://{self.address}/v1"

    def provider_config(self, kind: str, name: str = "main", model: str = "stub-model") -> str:
        """The part of a patchboard.toml that makes this stub the default agent's provider."""
        return (
            f'[providers.{name}]\nkind = "{kind}"\nbase_url = "{self.base_url}"\napi_key = "env:STUB_MODEL_KEY"\n'
            f'\n[agents.default]\nprovider = "{name}"\nmodel = "{model}"\n'
        )

    def script(self, *behaviours: Behaviour) -> None:
        with self._changed:
            self._script.extend(behaviours)

    @property
    def requests(self) -> list[Request]:
        with self._changed:
            return list(self._requests)

    def wait_for_requests(self, count: int, timeout: float = WAIT_TIMEOUT) -> list[Request]:
        """Waits until so many requests have arrived in all."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._requests) >= count, timeout):
                raise AssertionError(f"{len(self._requests)} of {count} requests reached the model in {timeout} s")
            return list(self._requests)

    def close(self) -> None:
        """Stops listening and breaks off every open connection."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        with self._changed:
            open_connections = list(self._connections)
        for connection in open_connections:
            hang_up(connection)
        self._thread.join(WAIT_TIMEOUT)

    def __enter__(self) -> StubModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # For the handler.

    def take(self, request: Request) -> Behaviour:
        with self._changed:
            self._requests.append(request)
            behaviour = self._script.popleft() if self._script else None
            self._changed.notify_all()
        return behaviour if behaviour is not None else self.fallback(request)

    def listed(self) -> None:
        with self._changed:
            self.asked_for_models += 1

    def opened(self, connection: socket.socket) -> None:
        with self._changed:
            self._connections.add(connection)

    def closed(self, connection: socket.socket) -> None:
        with self._changed:
            self._connections.discard(connection)


class _Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, address: tuple[str, int], handler: type, model: StubModel) -> None:
        self.model = model
        super().__init__(address, handler)

    def handle_error(self, request: object, client_address: object) -> None:
        # A client that hangs up is part of many tests, and nothing to print.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _ClientGone(Exception):
    pass


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.model: StubModel = self.server.model
        self.model.opened(self.connection)

    def finish(self) -> None:
        self.model.closed(self.connection)
        super().finish()

    def log_message(self, *_: object) -> None:
        """Tests look at `requests` instead."""

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if path == "/v1/models":
            self.list_models(self.model.listing)
        elif path == "/api/tags":
            self.send_whole(200, {"models": [{"name": "stub-model"}]})
        else:
            self.send_whole(404, wire.error_body("openai", 404, "no such page"))

    def list_models(self, listing: list | int | threading.Event) -> None:
        self.model.listed()
        if isinstance(listing, threading.Event):
            listing.wait(WAIT_TIMEOUT)
            self.break_off()
        elif isinstance(listing, int):
            self.send_whole(listing, wire.error_body("openai", listing, "models are not listed here"))
        else:
            self.send_whole(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in listing]})

    def do_POST(self) -> None:
        api = {"/v1/chat/completions": "openai", "/v1/messages": "anthropic"}.get(self.path.split("?")[0])
        length = int(self.headers.get("Content-Length") or -1)
        if not 0 <= length <= MAX_BODY:
            self.close_connection = True
            why = wire.error_body(api or "openai", 411, "a body of known and sane length is needed")
            self.send_whole(411, why, {"Connection": "close"})
            return
        content = self.rfile.read(length)
        if api is None:
            self.send_whole(404, wire.error_body("openai", 404, "no such page"))
            return
        try:
            body = json.loads(content)
        except ValueError:
            self.send_whole(400, wire.error_body(api, 400, "the body is not JSON"))
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(api, self.path, headers, body, time.monotonic())
        try:
            self.behave(request, self.model.take(request))
        except (_ClientGone, ConnectionError):
            request.gone.set()
            self.close_connection = True
        finally:
            request.finished.set()

    def behave(self, request: Request, behaviour: Behaviour) -> None:
        if isinstance(behaviour, Drop):
            self.break_off()
        elif isinstance(behaviour, Failure):
            body = wire.error_body(request.api, behaviour.status, behaviour.message)
            self.send_whole(behaviour.status, body, behaviour.headers)
        elif request.body.get("stream"):
            self.stream(request, behaviour)
        else:
            self.answer_whole(request, behaviour)

    def stream(self, request: Request, reply: Reply) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        writer = wire.STREAMS[request.api](request.body, reply)
        self.send_chunk(writer.opening())
        for step in reply.steps:
            if isinstance(step, Hold):
                self.hold(step)
            elif isinstance(step, Raw):
                self.send_chunk(step.data)
            elif isinstance(step, Cut):
                self.break_off()
                return
            elif isinstance(step, StreamError):
                self.send_chunk(writer.error(step.kind, step.message))
                self.wfile.write(b"0\r\n\r\n")
                return
            elif isinstance(step, Text):
                self.send_chunk(writer.text(step.text))
            else:
                for event in writer.call(step.id, step.name, step.arguments_text):
                    self.send_chunk(event)
        self.send_chunk(writer.ending())
        self.wfile.write(b"0\r\n\r\n")

    def answer_whole(self, request: Request, reply: Reply) -> None:
        for step in reply.steps:
            if isinstance(step, Hold):
                self.hold(step)
            elif isinstance(step, Cut):
                self.break_off()
                return
            elif isinstance(step, StreamError):
                self.send_whole(500, wire.error_body(request.api, 500, step.message))
                return
        text = "".join(step.text for step in reply.steps if isinstance(step, Text))
        calls = [step for step in reply.steps if isinstance(step, Call)]
        self.send_whole(200, wire.WHOLE[request.api](request.body, reply, text, calls))

    def hold(self, step: Hold) -> None:
        while not step.released.wait(POLL):
            if self.model.closing.is_set() or has_hung_up(self.connection):
                raise _ClientGone

    def send_chunk(self, data: bytes) -> None:
        # An empty chunk would be the end of the body.
        if data:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def send_whole(self, status: int, body: dict, headers: Union[dict[str, str], None] = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def break_off(self) -> None:
        self.close_connection = True
        hang_up(self.connection)


def hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # It was gone already.


def has_hung_up(connection: socket.socket) -> bool:
    try:
        readable, _, _ = select.select([connection], [], [], 0)
        return bool(readable) and connection.recv(1, socket.MSG_PEEK) == b""
    except (OSError, ValueError):
        return True
