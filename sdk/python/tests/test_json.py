"""JSON text, the same with and without orjson."""

from __future__ import annotations

import datetime
import decimal
import enum
import pathlib
import threading
import uuid
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy
import pydantic
import pytest

from patchboard import _json
from patchboard.errors import SerializationError

ENCODERS = ["orjson", "standard library"]


@pytest.fixture(params=ENCODERS, autouse=True)
def encoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "standard library":
        monkeypatch.setattr(_json, "_orjson", None)
    else:
        assert _json._orjson is not None, "orjson belongs to the dev extra"


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


@dataclass
class Point:
    x: int
    _hidden: float = 0.5


class Model(pydantic.BaseModel):
    when: datetime.date


Pair = namedtuple("Pair", "a b")

TEXTS: list[tuple[Any, str]] = [
    (2**70, "1180591620717411303424"),
    ({"n": 2**53 + 1}, '{"n":9007199254740993}'),
    (None, "null"),
    ("ä\u2028", '"ä\u2028"'),
    (float("nan"), "null"),
    ({"a": [float("inf"), 1.5, {"b": float("nan")}]}, '{"a":[null,1.5,{"b":null}]}'),
    ([Point(1, float("nan"))], '[{"x":1,"_hidden":null}]'),
    (Point(1), '{"x":1,"_hidden":0.5}'),
    (Colour.RED, '"red"'),
    (Level.LOW, "1"),
    ((1, 2), "[1,2]"),
    (Pair(1, "x"), '[1,"x"]'),
    ({3}, "[3]"),
    ({1: "int key"}, '{"1":"int key"}'),
    (OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
    (datetime.datetime(2030, 1, 2, 3, 4, 5), '"2030-01-02T03:04:05"'),
    (datetime.date(2030, 1, 2), '"2030-01-02"'),
    (uuid.UUID(int=5), '"00000000-0000-0000-0000-000000000005"'),
    (decimal.Decimal("1.10"), '"1.10"'),
    (pathlib.PurePosixPath("a/b"), '"a/b"'),
    (Model(when=datetime.date(2030, 1, 2)), '{"when":"2030-01-02"}'),
    ({"a": numpy.arange(3), "b": numpy.float64(0.5), "c": numpy.int64(7)}, '{"a":[0,1,2],"b":0.5,"c":7}'),
]


@pytest.mark.parametrize(("value", "text"), TEXTS)
def test_text(value: Any, text: str) -> None:
    assert _json.dumps(value).decode() == text


def circular() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


def deep() -> list[Any]:
    made: list[Any] = []
    for _ in range(100_000):
        made = [made]
    return made


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"lock": threading.Lock()}, "type _thread.lock has no JSON form"),
        ([b"bytes"], "bytes have no JSON form"),
        ({(1, 2): 3}, "keys must be"),
        ("\ud800", "surrogates"),
        ({"a": numpy.zeros(1_000_001)}, "too big for JSON"),
    ],
)
def test_no_text(value: Any, reason: str) -> None:
    with pytest.raises(SerializationError, match=reason):
        _json.dumps(value)


@pytest.mark.parametrize("make", [circular, deep])
def test_endless(make: Any) -> None:
    with pytest.raises(SerializationError):
        _json.dumps(make())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"18446744073709551616", 2**64),
        (b'{"a":[-9223372036854775809]}', {"a": [-(2**63) - 1]}),
        (b"1e20", 1e20),
        (b"9007199254740993", 2**53 + 1),
        (b" null ", None),
    ],
)
def test_reading(text: bytes, value: Any) -> None:
    got = _json.loads(text)
    assert (got, type(got)) == (value, type(value))


@pytest.mark.parametrize("text", [b"NaN", b"[Infinity]", b"", b"{'a':1}", b"\xff"])
def test_not_json(text: bytes) -> None:
    with pytest.raises(ValueError):
        _json.loads(text)
