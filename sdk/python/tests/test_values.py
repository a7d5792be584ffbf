"""Both conventions of `Any`, in; JSON, out."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import struct_pb2, wrappers_pb2

from patchboard import _proto, _values

GOOGLE = "type.googleapis.com/google.protobuf."


def read(type_url: str, value: bytes, *, wants_text: bool = False) -> Any:
    message = _proto.ParameterSpec().default_value
    message.type_url, message.value = type_url, value
    return _values.get(message, wants_text=wants_text)


def struct() -> struct_pb2.Struct:
    made = struct_pb2.Struct()
    made.update({"z": 1, "a": [1.5, None, {"deep": True}], "m": "text"})
    return made


PACKED: list[tuple[Any, Any]] = [
    (wrappers_pb2.DoubleValue(value=0.7), 0.7),
    (wrappers_pb2.DoubleValue(), 0.0),
    (wrappers_pb2.FloatValue(value=0.5), 0.5),
    (wrappers_pb2.Int32Value(value=-5), -5),
    (wrappers_pb2.Int64Value(value=2**53 + 1), 2**53 + 1),
    (wrappers_pb2.UInt32Value(value=7), 7),
    (wrappers_pb2.UInt64Value(value=2**64 - 1), 2**64 - 1),
    (wrappers_pb2.BoolValue(value=True), True),
    (wrappers_pb2.BoolValue(), False),
    (wrappers_pb2.StringValue(value="plain"), "plain"),
    (wrappers_pb2.StringValue(), ""),
    (wrappers_pb2.StringValue(value='{"a": 1}'), {"a": 1}),
    (wrappers_pb2.StringValue(value="{not json"), "{not json"),
    (wrappers_pb2.BytesValue(value=b"\x00\xff"), "AP8="),
    (struct(), {"z": 1, "a": [1.5, None, {"deep": True}], "m": "text"}),
    (struct_pb2.Struct(), {}),
    (struct_pb2.Value(number_value=3), 3),
    (struct_pb2.Value(null_value=struct_pb2.NULL_VALUE), None),
    (struct_pb2.Value(), None),
    (struct_pb2.Value(string_value="x"), "x"),
    (struct_pb2.ListValue(values=[struct_pb2.Value(bool_value=True)]), [True]),
]


@pytest.mark.parametrize(("packed", "value"), PACKED)
def test_packed(packed: Any, value: Any) -> None:
    got = read(f"type.googleapis.com/{packed.DESCRIPTOR.full_name}", packed.SerializeToString())
    assert (got, type(got)) == (value, type(value))


def test_a_struct_in_any_order_is_a_struct() -> None:
    one = struct_pb2.Struct()
    one.update({"b": 1})
    two = struct_pb2.Struct()
    two.update({"a": 2})
    data = one.SerializeToString() + two.SerializeToString()
    assert read(f"{GOOGLE}Struct", data) == {"b": 1, "a": 2}


@pytest.mark.parametrize(
    ("type_name", "text", "value"),
    [
        ("StringValue", b'"plain"', "plain"),
        ("StringValue", b'{"a": [1]}', {"a": [1]}),
        ("Value", b"123456789", 123456789),
        ("Value", b"true", True),
        ("Int64Value", b"1180591620717411303424", 2**70),
        ("DoubleValue", b"null", None),
        ("Whatever", b"[1.5]", [1.5]),
    ],
)
def test_json_under_any_type(type_name: str, text: bytes, value: Any) -> None:
    assert read(GOOGLE + type_name, text) == value


def test_text_stays_text_where_it_is_wanted() -> None:
    packed = wrappers_pb2.StringValue(value='{"a": 1}').SerializeToString()
    assert read(f"{GOOGLE}StringValue", packed, wants_text=True) == '{"a": 1}'


@pytest.mark.parametrize("data", [b"", b"{", b"NaN", b"\xff\xfe", b"[" * 100_000])
def test_nonsense(data: bytes) -> None:
    with pytest.raises(ValueError, match="it is"):
        read("type.snakepit.bridge/json", data)


@pytest.mark.parametrize("value", [None, 5, 2**70, -0.5, "ä", [1, [2]], {"k": {"l": None}}, True])
def test_round_trip(value: Any) -> None:
    message = _proto.ParameterSpec().default_value
    _values.put(message, value)
    assert message.type_url == "type.snakepit.bridge/json"
    got = _values.get(message)
    assert (got, type(got)) == (value, type(value))
