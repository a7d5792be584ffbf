"""A worker as the server sees it."""

from __future__ import annotations

import io
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy
import pytest
from calling import TRACE, error, execute, result
from parent import Parent
from running import Worker, eventually

import patchboard
from patchboard import _proto, _values


def test_ready_file_and_socket(tools: Worker) -> None:
    path = tools.where.removeprefix("unix:")
    assert os.path.isabs(path) and stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert tools.pid == tools.process.pid


def test_ping(tools: Worker) -> None:
    response = tools.rpc("Ping")(_proto.PingRequest(message="connection_test"))
    assert response.message == "Pong from Python: connection_test"
    assert response.server_time.seconds > 1_600_000_000


def test_initialize_session_tells_everything(tools: Worker) -> None:
    request = _proto.InitializeSessionRequest(session_id="session_1_99")
    response, call = tools.rpc("InitializeSession").with_call(request)
    headers = dict(call.initial_metadata())
    assert headers["x-patchboard-capacity"] == str(min(32, (os.cpu_count() or 1) + 4))
    assert headers["x-patchboard-sdk"] == patchboard.__version__
    assert response.success
    spec = response.available_tools["add"]
    assert spec.description == "Adds two numbers."
    assert dict(spec.metadata) == {"read_only": "true", "cacheable": "true", "timeout_ms": "2500", "area": "sums"}
    assert [(one.name, one.type, one.required, one.description) for one in spec.parameters] == [
        ("a", "integer", True, "the first one"),
        ("b", "integer", False, "the second one, if there is one"),
    ]
    assert _values.get(spec.parameters[1].default_value) == 1
    assert response.available_tools["count"].supports_streaming
    assert {"echo", "shift", "anything", "invert"} <= set(response.available_tools)


def test_sessions(tools: Worker) -> None:
    heartbeat, cleanup = tools.rpc("Heartbeat"), tools.rpc("CleanupSession")
    assert not heartbeat(_proto.HeartbeatRequest(session_id="unseen")).session_valid
    assert result(tools, "remember", {"text": "a"}, session_id="mine") == ["a"]
    assert result(tools, "remember", {"text": "b"}, session_id="mine") == ["a", "b"]
    assert result(tools, "remember", {"text": "c"}, session_id="yours") == ["c"]
    assert heartbeat(_proto.HeartbeatRequest(session_id="mine")).session_valid
    response = cleanup(_proto.CleanupSessionRequest(session_id="mine"))
    assert (response.success, response.resources_cleaned) == (True, 1)
    assert result(tools, "sessions_ended") == ["mine"]
    assert not heartbeat(_proto.HeartbeatRequest(session_id="mine")).session_valid
    assert result(tools, "remember", {"text": "d"}, session_id="mine") == ["d"]
    assert cleanup(_proto.CleanupSessionRequest(session_id="unseen")).resources_cleaned == 0
    with pytest.raises(grpc.RpcError) as caught:
        tools.rpc("InitializeSession")(_proto.InitializeSessionRequest())
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT and "invalid_id" in caught.value.details()


def test_get_session_is_the_servers(tools: Worker) -> None:
    response = tools.rpc("GetSession")(_proto.GetSessionRequest(session_id="s1"))
    assert (dict(response.metadata), response.tool_count) == ({"of": "parent"}, 3)
    with pytest.raises(grpc.RpcError) as caught:
        tools.rpc("GetSession")(_proto.GetSessionRequest(session_id="nobody"))
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.NOT_FOUND, "Session not found: nobody")


@pytest.mark.parametrize("rpc", ["RegisterTools", "GetExposedElixirTools", "ExecuteElixirTool"])
def test_what_only_the_server_does(tools: Worker, rpc: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        tools.rpc(rpc)(_proto.METHODS[rpc][0]())
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("value", [None, 5, 2**70, 0.5, True, "ä", [1, None], {"a": {"b": []}}])
def test_values_come_back_as_they_went(tools: Worker, value: Any) -> None:
    got = result(tools, "echo", {"value": value})
    assert (got, type(got)) == (value, type(value))


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("echo_inline", {"text": "x"}, "x"),
        ("echo_async", {"text": "x"}, "x"),
        ("add", {"a": 2**60, "b": 5}, 2**60 + 5),
        ("shift", {"point": {"x": 1}, "by": 0.5}, {"x": 1.5, "y": 0.5}),
        ("anything", {"a": 1, "b": b"xyz"}, {"a": 1, "b": 3}),
        ("size", {"data": b"\x00" * 1_000_000}, 1_000_000),
    ],
)
def test_kinds_of_tools(tools: Worker, tool: str, arguments: dict[str, Any], expected: Any) -> None:
    assert result(tools, tool, arguments) == expected


def test_binary_results(tools: Worker) -> None:
    response = execute(tools, "reverse", {"data": b"\x00\x01\xff"})
    assert (response.binary_result, dict(response.metadata)) == (
        b"\xff\x01\x00",
        {"content_type": "application/octet-stream"},
    )
    assert not response.HasField("result")
    response = execute(tools, "picture")
    assert (response.binary_result, dict(response.metadata)) == (
        b"\x89PNG",
        {"content_type": "image/png", "width": "1"},
    )


def test_arrays(tools: Worker) -> None:
    image = numpy.arange(12, dtype=numpy.uint8).reshape(2, 2, 3)
    response = execute(tools, "invert", {"image": image})
    assert response.metadata["content_type"] == "application/x-npy"
    assert numpy.array_equal(numpy.load(io.BytesIO(response.binary_result), allow_pickle=False), 255 - image)


def test_sixty_megabytes_both_ways(tools: Worker) -> None:
    data = os.urandom(1024) * 60 * 1024
    assert execute(tools, "reverse", {"data": data}).binary_result == data[::-1]


def test_errors(tools: Worker) -> None:
    described = error(tools, "fail", session_id="e1")
    assert (described["type"], described["message"]) == ("ValueError", "no good")
    assert described["context"] == {"tool_name": "fail", "session_id": "e1"}
    # The traceback begins in the tool's own file.
    assert len(described["stacktrace"]) == 1 and "worker_tools.py" in described["stacktrace"][0]
    assert described["traceback"].endswith("ValueError: no good\n") and "_calls.py" not in described["traceback"]
    described = error(tools, "fail", {"kind": "tool"})
    assert (described["type"], described["message"], described["context"]["until"]) == ("Busy", "not today", "tomorrow")
    assert error(tools, "fail", {"kind": "exit"})["type"] == "SystemExit"
    described = error(tools, "add", {"a": "x"})
    assert (described["type"], described["traceback"]) == ("InvalidArgument", "")
    assert described["message"] == "Invalid parameter a: expected an integer, got a string ('x')"
    assert error(tools, "nothing_here")["type"] == "ToolNotFound"
    described = error(tools, "unserialisable")
    assert (described["type"], described["message"]) == (
        "SerializationError",
        "a value of type _thread.lock has no JSON form",
    )


def test_context(tools: Worker) -> None:
    headers = {"x-snakepit-correlation-id": "sp-1", "traceparent": TRACE}
    seen = result(tools, "context_of", {}, metadata={"user": "key"}, headers=headers, timeout=10)
    # gRPC rounds deadlines up a little.
    assert 8 < seen.pop("remaining") < 11
    assert seen.pop("thread").startswith("tool-")
    assert seen == {
        "session_id": "s1",
        "correlation_id": "sp-1",
        "metadata": {"user": "key"},
        "traceparent": TRACE,
    }
    seen = result(tools, "context_of", timeout=None)
    assert len(seen["correlation_id"]) == 32 and 290 < seen["remaining"] <= 298.8


def test_threads(tools: Worker) -> None:
    assert {result(tools, "on_one_thread") for _ in range(5)} == {"tool-alone-1"}
    assert result(tools, "context_of", metadata={"thread_sensitive": "True"})["thread"] == "tool-alone-1"
    with ThreadPoolExecutor(4) as callers:
        assert list(callers.map(lambda _: result(tools, "meet"), range(4))) == [True] * 4


@pytest.mark.parametrize("kind", ["blocking", "async"])
def test_cancellation_reaches_the_tool(tools: Worker, kind: str) -> None:
    request = _proto.ExecuteToolRequest(session_id="s1", tool_name=f"wait_{kind}")
    call = tools.rpc("ExecuteTool").future(request, timeout=30)
    eventually(lambda: f"{kind} began" in result(tools, "news"))
    assert f"{kind} ended" not in result(tools, "news")
    call.cancel()
    eventually(lambda: f"{kind} ended" in result(tools, "news"))


def test_deadlines(tools: Worker) -> None:
    before = result(tools, "news").count("blocking ended")
    with pytest.raises(grpc.RpcError) as caught:
        execute(tools, "wait_blocking", timeout=0.2)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    eventually(lambda: result(tools, "news").count("blocking ended") > before)
    with pytest.raises(grpc.RpcError) as caught:
        execute(tools, "too_slow")
    assert (caught.value.code(), caught.value.details()) == (
        grpc.StatusCode.DEADLINE_EXCEEDED,
        "the tool `too_slow` took longer than 0.05 s",
    )


def test_no_call_asks_the_server(tools: Worker, parent: Parent) -> None:
    result(tools, "echo", {"value": 1}, session_id="brand-new")
    parent.forget()
    for number in range(20):
        result(tools, "echo", {"value": 1}, session_id=f"brand-new-{number}")
    assert [one[0] for one in parent.seen if one[0] != "Heartbeat"] == []
