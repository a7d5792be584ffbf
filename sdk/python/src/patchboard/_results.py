"""What a call sends back: results, chunks and errors, in the words of the wire."""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from . import _binary, _json, _proto, _values
from .errors import SerializationError, ToolError

# Longer texts are cut. The status text of a stream travels in a header, where all of it must fit 8 KiB.
_MAX_TRACEBACK = 32 * 1024
_MAX_MESSAGE = 16 * 1024
_MAX_FRAMES = 64
_MAX_STATUS = 4 * 1024

_TEXT = "text/plain"
_JSON = "application/json"

# Arguments that say what a call was about and are therefore repeated in its errors.
_CONTEXT_ARGUMENTS = ("library", "python_module", "function", "call_type", "payload_version")


@dataclass(frozen=True)
class Chunk:
    """A piece of a stream with metadata of its own. A final one ends the stream."""

    data: Any = None
    is_final: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Progress:
    """Yielded by a streaming tool to say how far it is: a piece without data, `progress` and `message` beside it."""

    fraction: float | None = None
    message: str = ""


def response(value: Any, milliseconds: int) -> Any:
    """The answer for a tool's result; SerializationError when it cannot travel."""
    message = _proto.ExecuteToolResponse(success=True, execution_time_ms=milliseconds)
    if isinstance(value, (str, dict, list, int, float)) or value is None:
        _values.put(message.result, value)
        return message
    binary = _binary.encode(value)
    if binary is None:
        _values.put(message.result, value)
    else:
        data, content_type, metadata = binary
        _check_size(len(data))
        message.binary_result = data
        message.metadata.update(_texts(metadata))
        message.metadata["content_type"] = content_type
    return message


def chunk(item: Any, chunk_id: str) -> Any:
    """One piece of a stream; SerializationError when it cannot travel."""
    message = _proto.ToolChunk(chunk_id=chunk_id)
    if isinstance(item, Chunk):
        message.is_final = item.is_final
        _fill(message, item.data)
        message.metadata.update(_texts(item.metadata))
    elif isinstance(item, Progress):
        if item.fraction is not None:
            message.metadata["progress"] = repr(float(item.fraction))
        if item.message:
            message.metadata["message"] = item.message
    else:
        _fill(message, item)
    return message


def _fill(message: Any, item: Any) -> None:
    if item is None:
        return
    if isinstance(item, str):
        try:
            message.data = item.encode()
        except UnicodeEncodeError as error:
            raise SerializationError(str(error)) from None
        message.metadata["content_type"] = _TEXT
        return
    binary = _binary.encode(item)
    if binary is None:
        message.data = _json.dumps(item)
        message.metadata["content_type"] = _JSON
    else:
        message.data, content_type, metadata = binary
        message.metadata.update(_texts(metadata))
        message.metadata["content_type"] = content_type
    _check_size(len(message.data))


def _check_size(size: int) -> None:
    # A little is left for what stands around the data.
    if size > _proto.MAX_MESSAGE_BYTES - 65536:
        raise SerializationError(f"the result has {size} bytes, more than the 100 MiB one message may have")


def _texts(metadata: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in metadata.items()}


def failure(error: BaseException, tool_name: str, session_id: str, arguments: Mapping[str, Any]) -> str:
    """The JSON that describes an error: type, message, stacktrace, traceback, context."""
    context: dict[str, Any] = {"tool_name": tool_name, "session_id": session_id}
    for name in _CONTEXT_ARGUMENTS:
        if isinstance(value := arguments.get(name), (str, int)):
            context[name] = value
    kind = type(error).__name__
    message = str(error)
    if isinstance(error, ToolError):
        kind, message = error.type or kind, error.message
        context.update(error.context)
    frames, text = _trace(error)
    payload = {
        "type": kind,
        "message": _cut(message, _MAX_MESSAGE),
        "stacktrace": frames,
        "traceback": _cut(text, _MAX_TRACEBACK),
        "context": context,
    }
    try:
        return _json.dumps(payload).decode()
    except SerializationError:
        payload["context"] = {"tool_name": tool_name, "session_id": session_id}
        payload["message"] = ascii(payload["message"])
        payload["stacktrace"], payload["traceback"] = [], ""
        return _json.dumps(payload).decode()


def short_failure(error: BaseException, tool_name: str, session_id: str, arguments: Mapping[str, Any]) -> str:
    """The same for a stream, short enough for a status: the traceback gives way first."""
    text = failure(error, tool_name, session_id, arguments)
    if len(text.encode()) <= _MAX_STATUS:
        return text
    payload = _json.loads(text.encode())
    payload["message"] = _cut(payload["message"], 500)
    payload["stacktrace"] = [_cut(frame, 200) for frame in payload["stacktrace"][-3:]]
    payload["traceback"] = payload["traceback"][-500:]
    text = _json.dumps(payload).decode()
    if len(text.encode()) > _MAX_STATUS:
        payload.update(stacktrace=[], traceback="", context={"tool_name": tool_name, "session_id": session_id[:100]})
        text = _json.dumps(payload).decode()
    return text


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 4] + " ..."


_OWN_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _trace(error: BaseException) -> tuple[list[str], str]:
    """The frames from the tool's own code on; errors about the call itself have none."""
    first: TracebackType | None = error.__traceback__
    while first is not None and first.tb_frame.f_code.co_filename.startswith(_OWN_FOLDER):
        first = first.tb_next
    if first is None:
        return [], ""
    frames = [line.rstrip("\n") for line in traceback.format_tb(first, limit=-_MAX_FRAMES)]
    lines = traceback.format_exception(type(error), error, first, limit=-_MAX_FRAMES)
    return frames, "".join(lines)
