"""Type hints: their JSON Schema, and what fits them."""

from __future__ import annotations

import datetime
import decimal
import enum
import math
import pathlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NewType, Optional, TypedDict, Union

import numpy
import numpy.typing
import pydantic
import pytest

from patchboard import Field, SchemaError
from patchboard._convert import Mismatch
from patchboard._schema import shape_of


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: float
    y: float = 0.5
    tags: list[str] = field(default_factory=list)


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)


class Entry(TypedDict):
    key: str


class Options(Entry, total=False):
    limit: int


class Model(pydantic.BaseModel):
    size: Annotated[int, pydantic.Field(ge=1)]


class Outer(pydantic.BaseModel):
    inner: Model


UserId = NewType("UserId", int)

STRING = {"type": "string"}
POINT = {
    "type": "object",
    "properties": {
        "x": {"type": "number"},
        "y": {"type": "number", "default": 0.5},
        "tags": {"type": "array", "items": STRING},
    },
    "additionalProperties": False,
    "required": ["x"],
}

TREE = {
    "type": "object",
    "properties": {"name": STRING, "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
    "additionalProperties": False,
    "required": ["name"],
}

SCHEMAS: list[tuple[Any, str, dict[str, Any]]] = [
    (Any, "any", {}),
    (str, "string", STRING),
    (int, "integer", {"type": "integer"}),
    (float, "number", {"type": "number"}),
    (bool, "boolean", {"type": "boolean"}),
    (Optional[str], "string", {"type": ["string", "null"]}),
    (Union[int, list[str]], "any", {"anyOf": [{"type": "integer"}, {"type": "array", "items": STRING}]}),
    (int | str, "any", {"type": ["integer", "string"]}),
    (list, "array", {"type": "array"}),
    (Sequence[int], "array", {"type": "array", "items": {"type": "integer"}}),
    (set[str], "array", {"type": "array", "items": STRING, "uniqueItems": True}),
    (tuple[int, ...], "array", {"type": "array", "items": {"type": "integer"}}),
    (
        tuple[int, str],
        "array",
        {"type": "array", "prefixItems": [{"type": "integer"}, STRING], "minItems": 2, "maxItems": 2},
    ),
    (dict, "object", {"type": "object"}),
    (Mapping[str, int], "object", {"type": "object", "additionalProperties": {"type": "integer"}}),
    (Literal["a", "b"], "string", {"type": "string", "enum": ["a", "b"]}),
    (Literal["a", 1], "any", {"enum": ["a", 1]}),
    (Colour, "string", {"type": "string", "enum": ["red", "blue"]}),
    (Point, "object", POINT),
    (
        Options,
        "object",
        {
            "type": "object",
            "properties": {"key": STRING, "limit": {"type": "integer"}},
            "additionalProperties": False,
            "required": ["key"],
        },
    ),
    (Tree, "object", {**TREE, "$defs": {"Tree": TREE}}),
    (UserId, "integer", {"type": "integer"}),
    (datetime.datetime, "string", {"type": "string", "format": "date-time"}),
    (Annotated[int, Field(ge=1, lt=9)], "integer", {"type": "integer", "minimum": 1, "exclusiveMaximum": 9}),
    (
        Annotated[list[int], Field(max_length=2)],
        "array",
        {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
    ),
    (Annotated[str, Field(pattern="^a")], "string", {"type": "string", "pattern": "^a"}),
    (bytes, "binary", {"type": "string", "format": "binary"}),
    (
        numpy.ndarray,
        "binary",
        {"type": "string", "format": "binary", "contentMediaType": "application/x-npy"},
    ),
]


@pytest.mark.parametrize(("hint", "name", "schema"), SCHEMAS)
def test_schema(hint: Any, name: str, schema: dict[str, Any]) -> None:
    shape = shape_of(hint)
    assert (shape.type_name, shape.schema) == (name, schema)


def test_pydantic_schema() -> None:
    shape = shape_of(Model)
    assert (shape.type_name, shape.schema["properties"]["size"]["minimum"]) == ("object", 1)
    # Definitions are put where they are needed.
    assert shape_of(list[Outer]).schema["items"]["properties"]["inner"]["properties"]["size"]["minimum"] == 1
    assert "$defs" not in shape_of(list[Outer]).schema


def test_description() -> None:
    assert shape_of(Annotated[int, "how many"]).description == "how many"
    assert shape_of(Annotated[int, Field("how many", ge=1)]).description == "how many"
    assert shape_of(Annotated[int, pydantic.Field(description="how many")]).description == "how many"


@pytest.mark.parametrize(
    ("hint", "binary", "nullable"),
    [
        (bytes, bytes, False),
        (Optional[memoryview], memoryview, True),
        (numpy.typing.NDArray[numpy.float32], numpy.ndarray, False),
        (Optional[numpy.ndarray], numpy.ndarray, True),
        (Annotated[bytes, "the picture"], bytes, False),
    ],
)
def test_binary(hint: Any, binary: type, nullable: bool) -> None:
    shape = shape_of(hint)
    assert (shape.binary, shape.nullable) == (binary, nullable)


VALUES: list[tuple[Any, Any, Any]] = [
    (str, "x", "x"),
    (int, 2**70, 2**70),
    (int, 5.0, 5),
    (float, 5, 5.0),
    (float, "-Infinity", -math.inf),
    (bool, True, True),
    (Optional[int], None, None),
    (Union[float, int], 5, 5),
    (Union[int, str], "5", "5"),
    (Union[Point, str], {"x": 1}, Point(1.0)),
    (list[Point], [{"x": 1, "y": 2, "tags": ["a"]}], [Point(1.0, 2.0, ["a"])]),
    (Tree, {"name": "a", "children": [{"name": "b"}]}, Tree("a", [Tree("b")])),
    (tuple[int, str], [1, "a"], (1, "a")),
    (tuple[int, ...], [1, 2], (1, 2)),
    (set[int], [1, 2, 1], {1, 2}),
    (frozenset[int], [1], frozenset([1])),
    (dict[int, Colour], {"1": "red"}, {1: Colour.RED}),
    (dict[str, Any], {"a": [None]}, {"a": [None]}),
    (Literal["a", 1], 1, 1),
    (Colour, "blue", Colour.BLUE),
    (Options, {"key": "k", "limit": 3}, {"key": "k", "limit": 3}),
    (Model, {"size": 2}, Model(size=2)),
    (
        datetime.datetime,
        "2030-01-02T03:04:05Z",
        datetime.datetime(2030, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc),
    ),
    (datetime.date, "2030-01-02", datetime.date(2030, 1, 2)),
    (uuid.UUID, "00000000-0000-0000-0000-000000000005", uuid.UUID(int=5)),
    (pathlib.Path, "a/b", pathlib.Path("a/b")),
    (decimal.Decimal, "1.10", decimal.Decimal("1.10")),
    (decimal.Decimal, 0.1, decimal.Decimal("0.1")),
    (Annotated[Optional[int], Field(ge=1)], None, None),
    (object, [1], [1]),
]


@pytest.mark.parametrize(("hint", "value", "expected"), VALUES)
def test_fits(hint: Any, value: Any, expected: Any) -> None:
    convert = shape_of(hint).convert
    got = value if convert is None else convert(value)
    assert (got, type(got)) == (expected, type(expected))


REASONS: list[tuple[Any, Any, str, str]] = [
    (str, 5, "", "expected a string, got an integer (5)"),
    (int, "5", "", "expected an integer, got a string ('5')"),
    (int, True, "", "expected an integer, got a boolean (True)"),
    (int, 5.5, "", "expected an integer, got a number (5.5)"),
    (bool, 1, "", "expected a boolean, got an integer (1)"),
    (float, "1.5", "", "expected a number, got a string ('1.5')"),
    (float, 10**400, "", "expected a number that fits a float, got a bigger one"),
    (str, None, "", "expected a string, got null"),
    (list[int], [1, "x"], "[1]", "expected an integer, got a string ('x')"),
    (list[Point], [{"x": 1}, {"x": "a"}], "[1].x", "expected a number, got a string ('a')"),
    (Point, {"y": 1}, "", "the field `x` is missing"),
    (Point, {"x": 1, "z": 2}, "", "there is no field `z`, only `x`, `y`, `tags`"),
    (Point, [1], "", "expected an object, got a list"),
    (Optional[int], "x", "", "expected an integer or null, got a string ('x')"),
    (Union[Point, str], {"x": "bad"}, ".x", "expected a number, got a string ('bad')"),
    (tuple[int, str], [1], "", "expected 2 items, got 1"),
    (set[Any], [[1]], "", "expected a list of values that can be compared, got lists or objects"),
    (dict[int, int], {"a": 1}, "", "expected an integer as the key, got 'a'"),
    (Literal[1], True, "", "expected one of `1`, got a boolean (True)"),
    (Colour, "green", "", "expected one of `red`, `blue`, got a string ('green')"),
    (Model, {"size": 0}, "", "size: Input should be greater than or equal to 1"),
    (Annotated[int, Field(ge=1)], 0, "", "expected at least 1, got an integer (0)"),
    (Annotated[str, Field(max_length=2)], "abc", "", "expected at most 2 long, got a string ('abc')"),
    (Annotated[str, Field(pattern="^a")], "b", "", "expected text that matches `^a`, got a string ('b')"),
    (list[Annotated[int, Field(le=3)]], [9], "[0]", "expected at most 3, got an integer (9)"),
    (uuid.UUID, "x", "", "expected a UUID as a string, got a string ('x')"),
]


@pytest.mark.parametrize(("hint", "value", "path", "reason"), REASONS)
def test_does_not_fit(hint: Any, value: Any, path: str, reason: str) -> None:
    convert = shape_of(hint).convert
    assert convert is not None
    with pytest.raises(Mismatch) as caught:
        convert(value)
    assert (caught.value.path, caught.value.reason) == (path, reason)


@pytest.mark.parametrize(
    ("hint", "reason"),
    [
        (list[bytes], "bytes cannot stand inside another type"),
        (dict[float, int], "the keys of an object are str or int"),
        (complex, "complex is not a type a parameter can have"),
        (Literal[b"x"], "only strings, numbers, booleans and None"),
        ("Nowhere", "is not known"),
    ],
)
def test_no_meaning(hint: Any, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        shape_of(hint)
