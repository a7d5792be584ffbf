"""A tool that calls its server back."""

from __future__ import annotations

import threading

import pytest
from calling import TRACE, error, result
from parent import Parent
from running import Worker, eventually

from patchboard import _proto
from patchboard._requests import execute_request


@pytest.mark.parametrize("tool", ["call_back", "call_back_async"])
def test_calls(tools: Worker, parent: Parent, tool: str) -> None:
    parent.forget()
    headers = {"x-snakepit-correlation-id": "sp-9", "traceparent": TRACE}
    answer = result(tools, tool, {"tool": "double", "arguments": {"x": 21}}, session_id="mine", headers=headers)
    assert answer == 42
    request, seen = parent.wait_for("ExecuteElixirTool")
    assert (request.session_id, seen["x-snakepit-correlation-id"], seen["traceparent"]) == ("mine", "sp-9", TRACE)
    assert request.parameters["x"].type_url == "type.snakepit.bridge/json"


def test_answers(tools: Worker) -> None:
    def host(tool: str, **arguments: object) -> object:
        return result(tools, "call_back", {"tool": tool, "arguments": arguments})

    assert host("big", size=6 * 1024 * 1024) == "x" * 6 * 1024 * 1024
    assert host("agent.poet", message="hi") == {"said": "hi", "thread": None}
    described = error(tools, "call_back", {"tool": "unknown", "arguments": {}})
    assert described["type"] == "ToolError"
    assert described["message"] == "Tool execution failed: there is no tool unknown"


def test_agents_and_tools(tools: Worker) -> None:
    assert result(tools, "ask", {"agent": "poet", "message": "hi"}) == [
        {"said": "hi", "thread": None},
        {"said": "hi", "thread": "t1"},
    ]
    assert result(tools, "host_tools") == ["double(x)"]


def test_blocking_on_the_loop_is_refused(tools: Worker) -> None:
    described = error(tools, "call_back_wrongly")
    assert described["type"] == "RuntimeError" and "await `acall` instead" in described["message"]


@pytest.mark.parametrize("tool", ["call_back", "call_back_async"])
def test_cancelling_a_call_cancels_what_it_asked_for(tools: Worker, parent: Parent, tool: str) -> None:
    parent.release.clear()
    parent.forget()
    request = execute_request("s1", tool, {"tool": "stuck", "arguments": {}}, {})
    call = tools.rpc("ExecuteTool").future(request, timeout=30)
    parent.wait_for("ExecuteElixirTool")
    call.cancel()
    # The stand-in notices by its own call's end.
    assert parent.release.wait(10)


def test_variables(tools: Worker, parent: Parent) -> None:
    assert result(tools, "variables") == {
        "speed": 4,
        "stale": ["time"],
        "listed": [["extra", 1, False], ["speed", 2, False], ["time", 1, True]],
        "missing": "default",
        "depends_on": ["speed"],
    }


def test_watching(tools: Worker, parent: Parent) -> None:
    since = len(parent.changes)
    seen: list[object] = []

    def watch() -> None:
        seen.extend(result(tools, "watch", {"names": ["w.*"], "changes": 3, "since": since}))

    watching = threading.Thread(target=watch)
    watching.start()
    parent.variable_set({"name": "w.a", "value": 1})
    parent.variable_set({"name": "other", "value": 1})
    eventually(lambda: len([one for one in parent.seen if one[0] == "ExecuteElixirTool"]) >= 2)
    parent.variable_set({"name": "w.a", "value": 2})
    parent.variable_delete({"name": "w.a"})
    watching.join(10)
    assert seen == [["w.a", 1, 1, False], ["w.a", 2, 2, False], ["w.a", 2, None, True]]


def test_the_workers_own_heartbeat(tools: Worker, parent: Parent) -> None:
    tools.rpc("InitializeSession")(_proto.InitializeSessionRequest(session_id="session_1_1"))
    parent.forget()
    request, _ = parent.wait_for("Heartbeat")
    assert request.session_id == "session_1_1"
