"""The caller's side of the wire: requests from Python values and Python values from responses.

Shared by the clients and by a worker that calls its server back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _binary, _json, _proto, _values
from ._results import Progress
from .errors import ProtocolError, SerializationError, from_message, from_status


@dataclass(frozen=True)
class ParameterInfo:
    """A parameter of a tool, as its owner describes it."""

    name: str
    type: str
    description: str = ""
    required: bool = False
    default: Any = None
    schema: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ToolInfo:
    """A tool, as its owner describes it."""

    name: str
    description: str = ""
    parameters: tuple[ParameterInfo, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    supports_streaming: bool = False


@dataclass(frozen=True)
class Result:
    """A tool's result with what came beside it."""

    value: Any
    metadata: Mapping[str, str]
    execution_time_ms: int


def execute_request(
    session_id: str, tool: str, arguments: Mapping[str, Any], metadata: Mapping[str, str], *, stream: bool = False
) -> Any:
    """An ExecuteToolRequest; bytes and arrays travel as binary parameters."""
    request = _proto.ExecuteToolRequest(session_id=session_id, tool_name=tool, metadata=metadata, stream=stream)
    for name, value in arguments.items():
        binary = _binary.encode(value)
        if binary is None:
            _values.put(request.parameters[name], value)
        else:
            request.binary_parameters[name] = binary[0]
            request.metadata[f"binary_format:{name}"] = "npy" if binary[1] == _binary.NPY else "raw"
    return request


def host_request(session_id: str, tool: str, arguments: Mapping[str, Any], metadata: Mapping[str, str]) -> Any:
    """An ExecuteElixirToolRequest, which has no room for binary."""
    request = _proto.ExecuteElixirToolRequest(session_id=session_id, tool_name=tool, metadata=metadata)
    for name, value in arguments.items():
        if _binary.encode(value) is not None:
            raise SerializationError(f"`{name}` is binary, and the server's own tools take only JSON")
        _values.put(request.parameters[name], value)
    return request


def result_of(response: Any) -> Result:
    """What a response to either of them holds; raises what it reports."""
    if not response.success:
        raise from_message(response.error_message)
    metadata = dict(response.metadata)
    if response.binary_result or (not response.HasField("result") and "content_type" in metadata):
        content_type = metadata.get("content_type", "")
        value = _binary.decode(response.binary_result, content_type, metadata)
    elif response.HasField("result"):
        value = value_of(response.result)
    else:
        value = None
    return Result(value, metadata, response.execution_time_ms)


def value_of(message: Any) -> Any:
    try:
        return _values.get(message)
    except ValueError as error:
        raise ProtocolError(f"the result cannot be read: {error}") from None


def item_of(chunk: Any) -> Any:
    """What a piece of a stream means: a value, a `Progress`, or None for one without data."""
    metadata = chunk.metadata
    content_type = metadata.get("content_type", "")
    data: bytes = chunk.data
    if not data and not content_type:
        if not chunk.is_final and ("progress" in metadata or "message" in metadata):
            return Progress(_fraction(metadata.get("progress", "")), metadata.get("message", ""))
        return None
    if content_type == "application/json":
        try:
            return _json.loads(data)
        except ValueError as error:
            raise ProtocolError(f"a piece of the stream is not JSON: {error}") from None
    if content_type.startswith("text/"):
        return data.decode(errors="replace")
    if content_type:
        return _binary.decode(data, content_type, dict(metadata))
    return _unlabelled(data)


def _unlabelled(data: bytes) -> Any:
    """A piece from a worker that does not say what its pieces are: JSON, else text, else bytes."""
    try:
        return _json.loads(data)
    except ValueError:
        pass
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _fraction(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def tools_of(specs: Sequence[Any]) -> list[ToolInfo]:
    return [
        ToolInfo(
            spec.name,
            spec.description,
            tuple(_parameter_of(parameter) for parameter in spec.parameters),
            dict(spec.metadata),
            spec.supports_streaming,
        )
        for spec in specs
    ]


def _parameter_of(spec: Any) -> ParameterInfo:
    try:
        schema = json.loads(spec.validation_json or "{}")
    except ValueError:
        schema = {}
    try:
        default = _values.get(spec.default_value) if spec.HasField("default_value") else None
    except ValueError:
        default = None
    return ParameterInfo(
        spec.name, spec.type, spec.description, spec.required, default, schema if isinstance(schema, dict) else {}
    )


def error_of(error: Any) -> Exception:
    """The exception for a failed rpc."""
    code = error.code()
    return from_status(code.name if code is not None else "UNKNOWN", error.details() or "")
