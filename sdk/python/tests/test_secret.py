"""Only the server that started a worker may call it, and it is shown the same secret in return."""

from __future__ import annotations

import json
from collections.abc import Iterator

import grpc
import pytest
from parent import Parent
from running import Worker, eventually, worker

from patchboard import _options, _proto
from patchboard._requests import execute_request

SECRET = "0123456789abcdef" * 4
HEADER = _proto.SECRET_HEADER
RIGHT = [(HEADER, SECRET)]
WRONG = [[], [(HEADER, "")], [(HEADER, SECRET[:-1] + "0")], [(HEADER, SECRET.upper())], [*RIGHT, *RIGHT]]


@pytest.fixture(scope="module", params=[True, False], ids=["unix", "tcp"])
def guarded(request: pytest.FixtureRequest, parent: Parent) -> Iterator[Worker]:
    env = {_options.SECRET_VARIABLE: SECRET}
    with worker(parent=parent.address, env=env, unix=request.param) as started:
        yield started


def requests() -> dict[str, object]:
    return {
        "Ping": _proto.PingRequest(message="x"),
        "InitializeSession": _proto.InitializeSessionRequest(session_id="s"),
        "CleanupSession": _proto.CleanupSessionRequest(session_id="s"),
        "GetSession": _proto.GetSessionRequest(session_id="s"),
        "Heartbeat": _proto.HeartbeatRequest(session_id="s"),
        "ExecuteTool": execute_request("s", "echo", {"value": 1}, {}),
        "ExecuteStreamingTool": execute_request("s", "count", {"to": 1}, {}, stream=True),
        "StreamTelemetry": iter(()),
        # A method that workers do not have.
        "RegisterTools": _proto.RegisterToolsRequest(session_id="s"),
    }


@pytest.mark.parametrize("metadata", WRONG)
def test_a_caller_without_the_secret_gets_nothing(guarded: Worker, metadata: list[tuple[str, str]]) -> None:
    for rpc, request in requests().items():
        with pytest.raises(grpc.RpcError) as refused:
            answer = guarded.rpc(rpc)(request, metadata=metadata, timeout=30)
            list(answer)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED, rpc


def test_the_server_is_answered(guarded: Worker) -> None:
    assert guarded.rpc("Ping")(_proto.PingRequest(message="x"), metadata=RIGHT).message == "Pong from Python: x"
    request = execute_request("s", "add", {"a": 1, "b": 2}, {})
    assert json.loads(guarded.rpc("ExecuteTool")(request, metadata=RIGHT).result.value) == 3


def test_every_call_back_shows_the_secret(guarded: Worker, parent: Parent) -> None:
    parent.forget()
    guarded.rpc("InitializeSession")(_proto.InitializeSessionRequest(session_id="own"), metadata=RIGHT)
    request = execute_request("s", "call_back", {"tool": "double", "arguments": {"x": 21}}, {})
    assert json.loads(guarded.rpc("ExecuteTool")(request, metadata=RIGHT).result.value) == 42
    guarded.rpc("GetSession")(_proto.GetSessionRequest(session_id="s"), metadata=RIGHT)
    for rpc in ("ExecuteElixirTool", "GetSession", "Heartbeat"):
        assert parent.wait_for(rpc)[1][HEADER] == SECRET, rpc


def test_what_the_tools_start_does_not_inherit_it(guarded: Worker) -> None:
    request = execute_request("s", "variables_of_a_child", {}, {})
    answer = json.loads(guarded.rpc("ExecuteTool")(request, metadata=RIGHT).result.value)
    assert "PATCHBOARD_WORKER_SECRET" not in answer and "PATH" in answer


def test_it_says_so_where_it_says_that_it_is_ready(guarded: Worker, tools: Worker) -> None:
    assert (guarded.announced, tools.announced) == (["secret=shown"], [])


def test_it_is_taken_from_the_environment() -> None:
    environment = {_options.SECRET_VARIABLE: SECRET}
    options = _options.read([], environment, with_target=False)
    assert (options.secret, environment) == (SECRET, {})
    assert SECRET not in repr(options)
    assert _options.read([], {}, with_target=False).secret is None


def test_without_one_everybody_is_answered(tools: Worker) -> None:
    assert eventually(lambda: tools.rpc("Ping")(_proto.PingRequest(message="x")).message)
