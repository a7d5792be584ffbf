"""A client of the bridge for tests, on plain `grpcio`, made from the protocol's document and the contract's tables.

    with Bridge(server.address("bridge")) as bridge:
        bridge.open("s1")
        assert bridge.value("add", {"a": 1, "b": 2}) == 3

Arguments are sent as JSON bytes unless they are an `Any` already.
"""

from __future__ import annotations

import itertools
import json
import queue
import threading
import time
from dataclasses import dataclass

from packages import load

grpc = load("grpc")
any_pb2 = load("google.protobuf.any_pb2")
wrappers = load("google.protobuf.wrappers_pb2")
wire = load("bridge_workers.bridge_wire")

TIMEOUT = 120.0
JSON_URL = "type.snakepit.bridge/json"
WRAPPER_URL = "type.googleapis.com/google.protobuf."
MESSAGE_LIMIT = 100 * 1024 * 1024
# More than a message may have, so that it is the server who refuses.
SIZES = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1), ("grpc.enable_retries", 0)]
Code = grpc.StatusCode


# Values.


def json_any(value: object, url: str = JSON_URL) -> any_pb2.Any:
    """JSON bytes, not packed, under any type URL."""
    return raw_any(json.dumps(value).encode(), url)


def raw_any(data: bytes, url: str = JSON_URL) -> any_pb2.Any:
    return any_pb2.Any(type_url=url, value=data)


def packed(message) -> any_pb2.Any:
    made = any_pb2.Any()
    made.Pack(message)
    return made


def packed_text(text: str) -> any_pb2.Any:
    return packed(wrappers.StringValue(value=text))


def as_any(value: object) -> any_pb2.Any:
    return value if isinstance(value, any_pb2.Any) else json_any(value)


def value_of(result: any_pb2.Any):
    """What a result holds, which must be JSON and say so."""
    assert result.type_url == JSON_URL, f"not JSON: {result}"
    return json.loads(result.value, parse_constant=no_constant)


def no_constant(name: str):
    raise AssertionError(f"{name} is not JSON")


@dataclass(frozen=True)
class Refused:
    """A call that ended with a status other than OK."""

    code: grpc.StatusCode
    text: str


class Bridge:
    """One channel. `session` is the session calls are made in when they name none."""

    def __init__(
        self, address: str, *, token: str | None = None, credentials=None, options=SIZES, session: str = "s1"
    ) -> None:
        # Channels with the same options would share a connection.
        options = [*options, ("grpc.use_local_subchannel_pool", 1)]
        if credentials is not None:
            self.channel = grpc.secure_channel(address, credentials, options)
        else:
            self.channel = grpc.insecure_channel(address, options)
        self.stub = wire.Stub(self.channel)
        self.headers = [("authorization", f"Bearer {token}")] if token is not None else []
        self.session = session

    def rpc(self, name: str, request, *, timeout: float = TIMEOUT, headers: list | None = None):
        return getattr(self.stub, name)(request, timeout=timeout, metadata=[*self.headers, *(headers or [])])

    def refused(self, name: str, request, **options) -> Refused:
        """The status of a call that must not succeed."""
        try:
            answer = self.rpc(name, request, **options)
            if wire.METHODS[name][3] == "stream":
                answer = list(answer)
        except grpc.RpcError as error:
            return Refused(error.code(), error.details())
        raise AssertionError(f"{name} was not refused: {str(answer)[:2000]}")

    # Sessions.

    def ping(self, message: str = "hello", **options) -> str:
        return self.rpc("Ping", wire.PingRequest(message=message), **options).message

    def open(self, session: str | None = None, metadata: dict | None = None, config: dict | None = None):
        """Initialises a session, which must succeed."""
        answer = self.rpc("InitializeSession", opening(session or self.session, metadata, config))
        assert answer.success and not answer.error_message, answer
        return answer

    def tools(self, session: str | None = None) -> dict:
        return dict(self.open(session).available_tools)

    def cleanup(self, session: str | None = None, *, force: bool = False):
        return self.rpc("CleanupSession", wire.CleanupSessionRequest(session_id=session or self.session, force=force))

    def get(self, session: str | None = None):
        return self.rpc("GetSession", wire.GetSessionRequest(session_id=session or self.session))

    def is_there(self, session: str) -> bool:
        """Whether a session can be looked at, which keeps it alive."""
        try:
            self.get(session)
        except grpc.RpcError as error:
            assert error.code() == Code.NOT_FOUND, error
            return False
        return True

    def beat(self, session: str | None = None):
        request = wire.HeartbeatRequest(session_id=session or self.session)
        request.client_time.GetCurrentTime()
        return self.rpc("Heartbeat", request)

    def register(self, session: str, *tools, worker: str = "outsider"):
        return self.rpc("RegisterTools", wire.RegisterToolsRequest(session_id=session, tools=tools, worker_id=worker))

    # Calls.

    def call(
        self,
        tool: str,
        arguments: dict | None = None,
        *,
        session: str | None = None,
        timeout: float = TIMEOUT,
        headers: list | None = None,
        **more,
    ):
        """The whole answer to an ExecuteTool; `more` are `metadata` and `binary`."""
        return self.rpc(
            "ExecuteTool", execution(session or self.session, tool, arguments, **more), timeout=timeout, headers=headers
        )

    def value(self, tool: str, arguments: dict | None = None, **options):
        """What a call that succeeds gives."""
        answer = self.call(tool, arguments, **options)
        assert answer.success and not answer.error_message, f"{tool} failed: {answer.error_message[:2000]}"
        return value_of(answer.result)

    def failure(self, tool: str, arguments: dict | None = None, **options) -> str:
        """The text of a call that fails without the transport's failing; it has no result then."""
        answer = self.call(tool, arguments, **options)
        assert not answer.success and answer.error_message, f"{tool} did not fail: {answer}"
        assert not answer.HasField("result") and not answer.binary_result, answer
        return answer.error_message

    def refused_call(
        self,
        tool: str,
        arguments: dict | None = None,
        *,
        session: str | None = None,
        timeout: float = TIMEOUT,
        headers: list | None = None,
        **more,
    ) -> Refused:
        request = execution(session or self.session, tool, arguments, **more)
        return self.refused("ExecuteTool", request, timeout=timeout, headers=headers)

    def outcome(self, tool: str, arguments: dict | None = None, **options):
        """An answer or a refusal, whichever it is."""
        try:
            return self.call(tool, arguments, **options)
        except grpc.RpcError as error:
            return Refused(error.code(), error.details())

    def stream(
        self,
        tool: str,
        arguments: dict | None = None,
        *,
        session: str | None = None,
        timeout: float = TIMEOUT,
        headers: list | None = None,
        **more,
    ):
        """Chunks as they come; the call can be cancelled."""
        request = execution(session or self.session, tool, arguments, **more)
        return self.rpc("ExecuteStreamingTool", request, timeout=timeout, headers=headers)

    def refused_stream(
        self, tool: str, arguments: dict | None = None, *, session: str | None = None, timeout: float = TIMEOUT, **more
    ) -> Refused:
        request = execution(session or self.session, tool, arguments, **more)
        return self.refused("ExecuteStreamingTool", request, timeout=timeout)

    # The server's own tools.

    def host_tools(self, session: str | None = None) -> dict:
        request = wire.GetExposedElixirToolsRequest(session_id=session or self.session)
        tools = self.rpc("GetExposedElixirTools", request).tools
        assert len({tool.name for tool in tools}) == len(tools), [tool.name for tool in tools]
        return {tool.name: tool for tool in tools}

    def host_call(
        self,
        tool: str,
        arguments: dict | None = None,
        *,
        session: str | None = None,
        metadata: dict | None = None,
        **options,
    ):
        request = wire.ExecuteElixirToolRequest(session_id=session or self.session, tool_name=tool, metadata=metadata)
        for name, value in (arguments or {}).items():
            request.parameters[name].CopyFrom(as_any(value))
        return self.rpc("ExecuteElixirTool", request, **options)

    def host_value(self, tool: str, arguments: dict | None = None, **options):
        answer = self.host_call(tool, arguments, **options)
        assert answer.success and not answer.error_message, f"{tool} failed: {answer.error_message[:2000]}"
        return value_of(answer.result)

    def host_failure(self, tool: str, arguments: dict | None = None, **options) -> str:
        answer = self.host_call(tool, arguments, **options)
        assert not answer.success and answer.error_message and not answer.HasField("result"), f"did not fail: {answer}"
        return answer.error_message

    def listen(self, *controls) -> Listener:
        return Listener(self, *controls)

    def close(self) -> None:
        self.channel.close()

    def __enter__(self) -> Bridge:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Listener:
    """One telemetry stream, with what came so far."""

    def __init__(self, bridge: Bridge, *controls) -> None:
        self._controls: queue.SimpleQueue = queue.SimpleQueue()
        self.seen: list = []
        self._news = threading.Condition()
        self.ending: Refused | None = None
        for control in controls:
            self.say(control)
        self.call = bridge.stub.StreamTelemetry(
            iter(self._controls.get, None), timeout=600, metadata=list(bridge.headers)
        )
        # Headers come at once, before any event.
        self.headers = dict(self.call.initial_metadata())
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def say(self, control) -> None:
        self._controls.put(control)

    def _read(self) -> None:
        try:
            for event in self.call:
                with self._news:
                    self.seen.append(event)
                    self._news.notify_all()
        except grpc.RpcError as error:
            with self._news:
                self.ending = Refused(error.code(), error.details())
                self._news.notify_all()

    def until(self, wanted, what: str, timeout: float = TIMEOUT):
        """The first event, of those seen and those to come, that is wanted."""
        deadline = time.monotonic() + timeout
        at = 0
        with self._news:
            while True:
                for event in itertools.islice(self.seen, at, None):
                    at += 1
                    if wanted(event):
                        return event
                left = deadline - time.monotonic()
                assert left > 0 and self.ending is None, f"{what} did not come: {self.ending}, {self.names()[-30:]}"
                self._news.wait(left)

    def names(self) -> list[str]:
        return [".".join(event.event_parts) for event in self.seen]

    def close(self) -> None:
        self.call.cancel()
        self._controls.put(None)
        self._thread.join(TIMEOUT)


# Requests.


def opening(session: str, metadata: dict | None = None, config: dict | None = None):
    config = wire.SessionConfig(**config) if config is not None else None
    return wire.InitializeSessionRequest(session_id=session, metadata=metadata, config=config)


def execution(
    session: str,
    tool: str,
    arguments: dict | None = None,
    *,
    metadata: dict | None = None,
    binary: dict | None = None,
    stream: bool = False,
):
    request = wire.ExecuteToolRequest(
        session_id=session, tool_name=tool, metadata=metadata, binary_parameters=binary, stream=stream
    )
    for name, value in (arguments or {}).items():
        request.parameters[name].CopyFrom(as_any(value))
    return request


def registration(
    name: str, *, streams: bool = False, description: str = "A tool", metadata: dict | None = None, **parameters: str
):
    """A tool to register; `parameters` are names and types."""
    made = wire.ToolRegistration(name=name, description=description, supports_streaming=streams, metadata=metadata)
    for parameter, kind in parameters.items():
        made.parameters.add(name=parameter, type=kind, required=True)
    return made


def toggle(is_on: bool):
    return wire.TelemetryControl(toggle=wire.TelemetryToggle(enabled=is_on))


def sampling(rate: float, *patterns: str):
    return wire.TelemetryControl(sampling=wire.TelemetrySamplingUpdate(sampling_rate=rate, event_patterns=patterns))


def event_filter(allow: tuple = (), deny: tuple = ()):
    return wire.TelemetryControl(filter=wire.TelemetryEventFilter(allow=allow, deny=deny))


def measurements_of(event) -> dict:
    return {name: getattr(value, value.WhichOneof("value")) for name, value in event.measurements.items()}


def together(count: int, work) -> list:
    """Runs `work(0)` … `work(count - 1)` at the same moment; gives their results in order."""
    gate = threading.Barrier(count)
    results: list = [None] * count
    troubles: list = []

    def one(at: int) -> None:
        try:
            gate.wait(TIMEOUT)
            results[at] = work(at)
        except BaseException as trouble:  # noqa: BLE001 - told to the test
            troubles.append(trouble)

    threads = [threading.Thread(target=one, args=(at,), daemon=True) for at in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(4 * TIMEOUT)
        assert not thread.is_alive(), "a call hangs"
    if troubles:
        raise troubles[0]
    return results
