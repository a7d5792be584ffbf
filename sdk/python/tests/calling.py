"""Plain calls to a worker, for tests that look at the messages themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from running import Worker

from patchboard._requests import execute_request

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def execute(
    worker: Worker,
    tool: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    session_id: str = "s1",
    metadata: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float | None = 120,
) -> Any:
    request = execute_request(session_id, tool, arguments or {}, metadata or {})
    return worker.rpc("ExecuteTool")(request, timeout=timeout, metadata=list((headers or {}).items()))


def result(worker: Worker, tool: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> Any:
    """The JSON a tool answered with."""
    response = execute(worker, tool, arguments, **more)
    assert response.success, response.error_message
    assert response.result.type_url == "type.snakepit.bridge/json"
    return json.loads(response.result.value)


def error(worker: Worker, tool: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    response = execute(worker, tool, arguments, **more)
    assert not response.success and not response.HasField("result")
    described: dict[str, Any] = json.loads(response.error_message)
    return described


def stream(worker: Worker, tool: str, arguments: Mapping[str, Any] | None = None, timeout: float = 120) -> Any:
    request = execute_request("s1", tool, arguments or {}, {}, stream=True)
    return worker.rpc("ExecuteStreamingTool")(request, timeout=timeout)
