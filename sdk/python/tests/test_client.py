"""Both clients, through the same questions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import numpy
import pytest
from parent import Parent
from running import Worker, eventually

import patchboard
from patchboard import AsyncClient, Client, Progress, errors

T = TypeVar("T")


class Blocking:
    """The asyncio client as a blocking one, so that one set of tests serves both."""

    def __init__(self, address: str, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._client: AsyncClient = self.run(self._make(address, options))

    async def _make(self, address: str, options: dict[str, Any]) -> AsyncClient:
        return AsyncClient(address, **options)

    def run(self, awaitable: Awaitable[T]) -> T:
        async def within() -> T:
            return await asyncio.wait_for(awaitable, 30)

        return self._loop.run_until_complete(within())

    def __enter__(self) -> Blocking:
        self.run(self._client.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.run(self._client.close())
        self._loop.close()

    def stream_tool(self, *arguments: Any, **options: Any) -> list[Any]:
        async def gather() -> list[Any]:
            return [item async for item in self._client.stream_tool(*arguments, **options)]

        return self.run(gather())

    @property
    def variables(self) -> Any:
        return _Blocked(self._client.variables, self.run)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._client, name)
        if asyncio.iscoroutinefunction(value):
            return lambda *arguments, **options: self.run(value(*arguments, **options))
        return value


class _Blocked:
    def __init__(self, inner: Any, run: Callable[[Any], Any]) -> None:
        self._inner, self._run = inner, run

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **options: self._run(getattr(self._inner, name)(*arguments, **options))


@pytest.fixture(params=[Client, Blocking], ids=["Client", "AsyncClient"])
def make(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_calls(make: Any, tools: Worker) -> None:
    with make(tools.address) as client:
        assert client.ping("hi") == "Pong from Python: hi"
        assert client.call("add", a=2**70) == 2**70 + 1
        assert client.call("echo", value=None) is None
        assert client.call("reverse", data=b"\x00\xff") == b"\xff\x00"
        assert client.call("reverse", data=b"") == b""
        assert client.call("size", data=bytearray(3)) == 3
        assert numpy.array_equal(client.call("invert", image=numpy.zeros(2, "u1")), [255, 255])
        assert client.call("picture") == patchboard.Binary(
            b"\x89PNG", "image/png", {"content_type": "image/png", "width": "1"}
        )
        assert client.call("context_of")["session_id"] == client.session_id
        result = client.call_tool("context_of", metadata={"k": "v"}, correlation_id="c1", timeout=9)
        assert (result.value["correlation_id"], result.value["metadata"]) == ("c1", {"k": "v"})
        assert result.execution_time_ms >= 0
        info = {one.name: one for one in client.tools()}["add"]
        assert [(one.name, one.type, one.default, one.schema) for one in info.parameters] == [
            ("a", "integer", None, {"type": "integer"}),
            ("b", "integer", 1, {"type": "integer"}),
        ]
        other = client.session("another")
        assert other.session_id == "another"


def test_errors_of_tools(make: Any, tools: Worker) -> None:
    with make(tools.address) as client:
        with pytest.raises(errors.ToolError) as caught:
            client.call("fail")
        assert (caught.value.type, caught.value.message, str(caught.value)) == (
            "ValueError",
            "no good",
            "ValueError: no good",
        )
        assert "worker_tools.py" in caught.value.traceback
        assert caught.value.context["tool_name"] == "fail"
        with pytest.raises(errors.InvalidArgument, match="Invalid parameter a: expected an integer"):
            client.call("add", a="x")
        with pytest.raises(errors.ToolNotFound):
            client.call("nothing_here")
        with pytest.raises(errors.SerializationError, match="has no JSON form"):
            client.call("echo", value=object())
        with pytest.raises(errors.DeadlineExceeded):
            client.call_tool("wait_async", timeout=0.1)
        with pytest.raises(errors.ToolError, match="half way"):
            list(client.stream_tool("breaks"))


def test_streams(make: Any, tools: Worker) -> None:
    with make(tools.address) as client:
        heard: list[Progress] = []
        text, data, array, last = client.stream_tool("mixed", on_progress=heard.append)
        assert (text, data, array.tolist(), last) == ("text", b"\x00\xff", [0, 1, 2], {"last": True})
        assert heard == [Progress(0.5, "half")]


def test_leaving_a_stream_cancels_the_tool(tools: Worker) -> None:
    with Client(tools.address) as client:
        before = client.call("news").count("count ended")
        for item in client.stream("count", to=10**9):
            assert item == {"n": 0}
            break
        eventually(lambda: client.call("news").count("count ended") > before)


def test_cancelling_a_task_cancels_the_tool(tools: Worker) -> None:
    async def check() -> None:
        async with AsyncClient(tools.address) as client:
            before = (await client.call("news")).count("async ended")
            began = (await client.call("news")).count("async began")
            waiting = asyncio.ensure_future(client.call("wait_async"))
            while (await client.call("news")).count("async began") == began:
                pass
            waiting.cancel()
            while (await client.call("news")).count("async ended") == before:
                pass
            stream = client.stream("count_async", to=10**9)
            async for item in stream:
                assert item == {"n": 0}
                break
            assert isinstance(stream, AsyncIterator)
            closing: Any = stream
            await closing.aclose()

    asyncio.run(asyncio.wait_for(check(), 30))


STATUSES: list[tuple[str, str, type[Exception]]] = [
    ("UNAVAILABLE", "worker died", errors.Unavailable),
    ("UNAVAILABLE", "session_worker_unavailable", errors.Unavailable),
    ("RESOURCE_EXHAUSTED", "pool_saturated", errors.Saturated),
    ("DEADLINE_EXCEEDED", "queue_timeout: it never ran", errors.QueueTimeout),
    ("DEADLINE_EXCEEDED", "too long", errors.DeadlineExceeded),
    ("CANCELLED", "", errors.Cancelled),
    ("PERMISSION_DENIED", "no", errors.PermissionDenied),
    ("INVALID_ARGUMENT", "pickle", errors.InvalidArgument),
    ("NOT_FOUND", "Session not found: s", errors.SessionNotFound),
    ("UNIMPLEMENTED", "Streaming execution is not enabled", errors.Unsupported),
    ("INTERNAL", "what", errors.ProtocolError),
    ("INTERNAL", '{"type": "KeyError", "message": "k"}', errors.ToolError),
    ("", "Session not found: s", errors.SessionNotFound),
    ("", "Tool x not found for session s", errors.ToolNotFound),
    ("", "Invalid parameter a: no", errors.InvalidArgument),
    ("", "Remote tool execution failed: Worker not found: w", errors.ToolError),
]


def test_statuses(make: Any, parent: Parent) -> None:
    with make(parent.address) as client:
        for code, text, kind in STATUSES:
            with pytest.raises(errors.PatchboardError) as caught:
                client.call("status", text=text, **({"code": code} if code else {}))
            assert type(caught.value) is kind, (code, text)
            assert text.startswith("{") or text in str(caught.value)


def test_sessions(make: Any, parent: Parent) -> None:
    parent.forget()
    with make(parent.address, metadata={"who": "test"}, cache_seconds=5) as client:
        request, _ = parent.wait_for("InitializeSession")
        assert (dict(request.metadata), request.config.enable_caching, request.config.cache_ttl_seconds) == (
            {"who": "test"},
            True,
            5,
        )
        info = client.info()
        assert (info.session_id, info.created_at, info.tool_count) == (client.session_id, 1_700_000_000.5, 3)
        assert client.heartbeat()
    request, _ = parent.wait_for("CleanupSession")
    assert request.session_id == client.session_id
    parent.forget()
    with make(parent.address, session_id="kept"):
        pass
    assert [one[0] for one in parent.seen] == ["InitializeSession"]


def test_the_token(make: Any, parent: Parent) -> None:
    with make(parent.address, token="secret", session_id="guarded") as client:
        assert [one.name for one in client.tools()] == ["status"]
    client = make(parent.address, session_id="guarded")
    with pytest.raises(errors.PermissionDenied):
        client.tools()
    client.close()
    with pytest.raises(ValueError, match="in the clear"):
        make("example.org:443", token="secret")
    client = make(parent.address, session_id="over-quota")
    with pytest.raises(errors.Saturated, match="session_quota_exceeded"):
        client.tools()
    client.close()
    client = make("127.0.0.1:1")
    with pytest.raises(errors.Unavailable):
        client.ping()
    client.close()


def test_host_tools_and_variables(make: Any, parent: Parent) -> None:
    with make(parent.address) as client:
        assert client.host_call("double", x=4) == 8
        assert client.host_call("blob") == b"\x00\xff"
        (info,) = client.host_tools()
        assert (info.name, info.parameters[0].default) == ("double", 7)
        with pytest.raises(errors.SerializationError, match="take only JSON"):
            client.host_call("double", x=b"")
        known = client.variables
        known.set("c.one", {"deep": [1]})
        assert known.get("c.one") == {"deep": [1]}
        assert [one.name for one in known.list("c.")] == ["c.one"]
        with pytest.raises(errors.VariableNotFound):
            known.get("c.none")
        with pytest.raises(errors.ToolError, match="has version"):
            known.set("c.one", 1, if_version=9)
        assert (known.delete("c.one"), known.delete("c.one")) == (True, False)
        assert known.get("c.one", 5) == 5


def test_agents_and_watching(parent: Parent) -> None:
    with Client(parent.address) as client:
        assert client.agent("poet")("hi", thread_id="t") == {"said": "hi", "thread": "t"}
        since = len(parent.changes)
        client.variables["w"] = 1
        client.variables["w"] = 2
        watching = client.variables.watch("w", since=since)
        assert [(one.version, one.value) for one in (next(watching), next(watching))] == [(1, 1), (2, 2)]
        assert list(client.variables.watch("w", since=len(parent.changes), timeout=0.05)) == []


def test_telemetry(tools: Worker) -> None:
    with Client(tools.address) as client:
        with client.telemetry(allow=["model.*"], sampling={"none.*": 0.0}) as stream:
            events = iter(stream)
            client.call("tell")
            # Events from before the settings were read may come first.
            event = next(one for one in events if one.name == "model.loaded")
            assert event.measurements == {"count": 2, "ratio": 0.5, "flag": 1, "huge": str(2**70)}
            assert event.metadata["session_id"] == client.session_id
        assert list(events) == []

    async def check() -> None:
        async with AsyncClient(tools.address) as client:
            events: Any = client.telemetry()
            first = asyncio.ensure_future(anext(events))
            while not first.done():
                await client.call("tell")
            assert (await first).name
            await events.aclose()

    asyncio.run(asyncio.wait_for(check(), 30))
