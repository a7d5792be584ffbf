"""The base of adapters: methods marked as tools, and how they are registered."""

from __future__ import annotations

import inspect
import json

import bridge_wire as wire
from worker_notes import note


def tool(description: str = "", *, supports_streaming: bool = False, **metadata: str):
    def mark(function):
        function.tool_mark = (description or function.__doc__ or "", supports_streaming, metadata)
        return function

    return mark


class Adapter:
    """Built anew for every call."""

    def __init__(self) -> None:
        self.context = None
        self.telemetry = None

    def set_session_context(self, context) -> None:
        self.context = context

    def initialize(self) -> None:
        note("lifecycle", "initialize")

    def cleanup(self) -> None:
        note("lifecycle", "cleanup")

    def execute_tool(self, tool_name: str, arguments: dict, context):
        method = getattr(self, tool_name, None)
        if method is None:
            raise AttributeError(f"Tool '{tool_name}' not found in {type(self).__name__}")
        return method(**arguments)

    def get_tools(self) -> list:
        found = [
            self._registration(name, method)
            for name, method in inspect.getmembers(self, inspect.ismethod)
            if hasattr(method, "tool_mark")
        ]
        # Never marked, and registered all the same.
        return [*found, wire.ToolRegistration(name="execute_tool", description="Legacy tool execution method")]

    def _registration(self, name: str, method):
        description, streams, metadata = method.tool_mark
        registration = wire.ToolRegistration(name=name, description=description, supports_streaming=streams)
        kind = type(self)
        registration.metadata.update({"adapter_class": kind.__name__, "module": kind.__module__, **metadata})
        for parameter in inspect.signature(method).parameters.values():
            spec = registration.parameters.add(name=parameter.name, type="any")
            if parameter.annotation is not parameter.empty:
                # Python's own names, in small letters: `str`, `int`, `dict`.
                spec.type = getattr(parameter.annotation, "__name__", str(parameter.annotation)).lower()
            # So `**kwargs` is one required parameter of type `any`.
            spec.required = parameter.default is parameter.empty
            if not spec.required:
                spec.validation_json = json.dumps({"default": parameter.default})
        return registration

    def register_with_session(self, session_id: str, stub: wire.Stub) -> list[str]:
        request = wire.RegisterToolsRequest(
            session_id=session_id, tools=self.get_tools(), worker_id=f"python-{id(self)}"
        )
        answer = stub.RegisterTools(request)
        if not answer.success and "duplicate_tool" not in answer.error_message:
            note("trouble", f"RegisterTools of {session_id}: {answer.error_message}")
        return list(answer.tool_ids)
