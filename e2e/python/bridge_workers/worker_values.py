"""How an unmodified worker reads arguments and writes results, with everything that gets lost on the way."""

from __future__ import annotations

import json
import math
import pickle
import traceback

from google.protobuf import any_pb2

RESULT_URL = "type.googleapis.com/snakepit."
# Arguments that the error report repeats when they were given.
REPORTED = ("library", "python_module", "function", "call_type", "payload_version")


def arguments_of(request) -> dict:
    arguments = {name: decode(value) for name, value in request.parameters.items()}
    for name, data in request.binary_parameters.items():
        is_pickled = request.metadata.get(f"binary_format:{name}") == "pickle"
        arguments[name] = pickle.loads(data) if is_pickled else data
    return arguments


def decode(value: any_pb2.Any):
    """Always JSON, whatever the type URL promises; really packed wrappers are a JSONDecodeError."""
    kind = value.type_url.rsplit("/", 1)[-1].rsplit(".", 1)[-1]
    decoded = json.loads(value.value)
    if kind == "float":
        return float(decoded)
    return int(decoded) if kind == "integer" else decoded


def encode(value) -> any_pb2.Any:
    kind, plain = as_typed(value)
    return any_pb2.Any(type_url=RESULT_URL + kind, value=json.dumps(plain, separators=(",", ":")).encode())


def as_typed(value) -> tuple[str, object]:
    if isinstance(value, bool):
        return "boolean", value
    if isinstance(value, (int, float)):
        return "float", float(value) if math.isfinite(value) else str(float(value)).replace("nan", "NaN")
    if isinstance(value, str):
        return "string", value
    if isinstance(value, dict):
        return "map", inner(value)
    if isinstance(value, list):
        return "list", inner(value)
    return "string", str(value)


def inner(value):
    """Inside of maps and lists: not-a-number is null, and objects say at least what they are."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): inner(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [inner(one) for one in value]
    for way in ("model_dump", "to_dict", "_asdict", "tolist", "isoformat"):
        if hasattr(value, way):
            return inner(getattr(value, way)())
    kind = type(value)
    return {"__ffi_unserializable__": True, "__type__": f"{kind.__module__}.{kind.__qualname__}"}


def chunk_data(item) -> bytes:
    if item is None:
        return b""
    if isinstance(item, bytes):
        return item
    return item.encode() if isinstance(item, str) else json.dumps(item).encode()


def error_report(error: BaseException, request, arguments: dict) -> str:
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    context = {"tool_name": request.tool_name, "session_id": request.session_id}
    context.update({name: arguments[name] for name in REPORTED if name in arguments})
    return json.dumps(
        {
            "type": type(error).__name__,
            "message": str(error),
            "stacktrace": lines,
            "traceback": "".join(lines),
            "context": context,
        },
        default=repr,
    )
