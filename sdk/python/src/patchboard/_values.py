"""`google.protobuf.Any` and back. Both conventions of the protocol come in; JSON bytes go out."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from google.protobuf import struct_pb2, wrappers_pb2
from google.protobuf.message import DecodeError, Message

from . import _json

JSON_TYPE_URL = "type.snakepit.bridge/json"


def put(message: Any, value: Any) -> None:
    """Writes a value into an `Any`."""
    message.type_url = JSON_TYPE_URL
    message.value = _json.dumps(value)


def get(message: Any, *, wants_text: bool = False) -> Any:
    """The value of an `Any`; ValueError with a reason when it has none.

    `wants_text` is said for a parameter that is text: there, a packed string is never looked into for JSON.
    """
    url = message.type_url
    if url != JSON_TYPE_URL:
        name = url.rsplit("/", 1)[-1]
        reader = _READERS.get(name)
        if reader is not None:
            packed = _packed(name, message.value)
            if packed is not None:
                return reader(packed, wants_text)
    data = message.value
    if not data:
        raise ValueError("it is empty")
    try:
        return _json.loads(data)
    except ValueError as error:
        raise ValueError(f"it is neither JSON nor a packed value of a known type: {error}") from None


def _packed(name: str, data: bytes) -> Message | None:
    """The message in the bytes, if they are exactly what packing it gives; they are JSON otherwise."""
    message: Message = _TYPES[name]()
    try:
        message.ParseFromString(data)
    except DecodeError:
        return None
    # Text such as `123456789` parses as a field nobody knows. Only the size is compared: a Struct's keys may come in
    # any order, and what is left after dropping unknown fields is shorter unless there were none.
    message.DiscardUnknownFields()
    return message if message.ByteSize() == len(data) else None


def _text(message: Any, wants_text: bool) -> Any:
    text: str = message.value
    if not wants_text and text[:1] in ("{", "["):
        try:
            return _json.loads(text.encode())
        except ValueError:
            pass
    return text


def _scalar(message: Any, _wants_text: bool) -> Any:
    return message.value


def _bytes(message: Any, _wants_text: bool) -> Any:
    return base64.b64encode(message.value).decode()


def _struct(message: Any, _wants_text: bool = False) -> Any:
    return {key: _value(item) for key, item in message.fields.items()}


def _list(message: Any, _wants_text: bool = False) -> Any:
    return [_value(item) for item in message.values]


def _value(message: Any, _wants_text: bool = False) -> Any:
    kind = message.WhichOneof("kind")
    if kind == "number_value":
        number: float = message.number_value
        # There are only doubles here, so whole numbers that a double holds exactly are taken for integers.
        return int(number) if number.is_integer() and abs(number) <= 2**53 else number
    if kind == "struct_value":
        return _struct(message.struct_value)
    if kind == "list_value":
        return _list(message.list_value)
    return None if kind in (None, "null_value") else getattr(message, kind)


_TYPES: dict[str, Any] = {
    "google.protobuf.DoubleValue": wrappers_pb2.DoubleValue,
    "google.protobuf.FloatValue": wrappers_pb2.FloatValue,
    "google.protobuf.Int32Value": wrappers_pb2.Int32Value,
    "google.protobuf.Int64Value": wrappers_pb2.Int64Value,
    "google.protobuf.UInt32Value": wrappers_pb2.UInt32Value,
    "google.protobuf.UInt64Value": wrappers_pb2.UInt64Value,
    "google.protobuf.BoolValue": wrappers_pb2.BoolValue,
    "google.protobuf.StringValue": wrappers_pb2.StringValue,
    "google.protobuf.BytesValue": wrappers_pb2.BytesValue,
    "google.protobuf.Struct": struct_pb2.Struct,
    "google.protobuf.Value": struct_pb2.Value,
    "google.protobuf.ListValue": struct_pb2.ListValue,
}
_READERS: dict[str, Callable[[Any, bool], Any]] = {
    **dict.fromkeys(_TYPES, _scalar),
    "google.protobuf.StringValue": _text,
    "google.protobuf.BytesValue": _bytes,
    "google.protobuf.Struct": _struct,
    "google.protobuf.Value": _value,
    "google.protobuf.ListValue": _list,
}
