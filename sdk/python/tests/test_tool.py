"""Functions as tools: their description, and how requests become arguments."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Annotated, Any, Optional

import numpy
import pytest

from patchboard import Context, InvalidArgument, SchemaError, Toolbox, _docstring
from patchboard._requests import execute_request, tools_of
from patchboard._tool import Tool


def declared(box: Toolbox) -> Tool:
    (only,) = box.tools.values()
    return only


def test_spec() -> None:
    box = Toolbox()

    @box.tool(read_only=True, cacheable=True, timeout=1.5, thread_sensitive=True, metadata={"area": "text"})
    def find(context: Context, text: str, limit: Annotated[int, "at most"] = 10, flag: Optional[bool] = None) -> str:
        """Finds text.

        Everywhere.

        Args:
            text (str): what to
                look for
            limit: not used, the annotation wins

        Returns:
            nothing: much
        """
        return text

    spec = declared(box).spec
    assert (spec.name, spec.description, spec.supports_streaming) == ("find", "Finds text.\n\nEverywhere.", False)
    assert dict(spec.metadata) == {
        "read_only": "true",
        "cacheable": "true",
        "timeout_ms": "1500",
        "thread_sensitive": "true",
        "area": "text",
    }
    (info,) = tools_of([spec])
    assert [(one.name, one.type, one.description, one.required, one.default) for one in info.parameters] == [
        ("text", "string", "what to look for", True, None),
        ("limit", "integer", "at most", False, 10),
        ("flag", "boolean", "", False, None),
    ]
    assert json.loads(spec.parameters[1].validation_json) == {"type": "integer"}
    # The function itself is untouched.
    assert find(Context(), "x") == "x"


def test_bare_decorator_and_names() -> None:
    box = Toolbox()

    @box.tool
    def stream() -> Iterator[int]:
        yield 1

    @box.tool(name="other.name", description="Said here.")
    async def first() -> None:
        """Not said."""

    assert [(one.name, one.spec.description, one.streams) for one in box.tools.values()] == [
        ("stream", "", True),
        ("other.name", "Said here.", False),
    ]


def test_methods_belong_to_their_object() -> None:
    box = Toolbox()

    class Adapter:
        def __init__(self) -> None:
            self.calls = 0

        @box.tool
        def bump(self, by: int) -> int:
            self.calls += by
            return self.calls

    assert not box.tools
    box.add_methods(Adapter())
    assert list(declared(box).parameters) == ["by"]
    assert (declared(box).function(by=2), declared(box).function(by=3)) == (2, 5)
    with pytest.raises(SchemaError, match="has no method marked"):
        box.add_methods(object())


def refused(function: Any, **options: Any) -> str:
    with pytest.raises(SchemaError) as caught:
        Toolbox().tool(**options)(function)
    return str(caught.value)


def test_what_cannot_be_a_tool() -> None:
    def positional(a: int, /) -> None: ...

    def many(*a: int) -> None: ...

    def odd(a: complex) -> None: ...

    async def coroutine() -> None: ...

    assert refused(positional) == "`positional`: arguments come by name, so `a` cannot be given"
    assert refused(many) == "`many`: arguments come by name, so `a` cannot be given"
    assert refused(odd).startswith("`odd`, parameter `a`: complex is not")
    assert "inline is for plain functions" in refused(coroutine, inline=True)
    assert "is not a tool's name" in refused(coroutine, name="no spaces")
    box = Toolbox()
    box.tool(coroutine)
    with pytest.raises(SchemaError, match="two tools named `coroutine`"):
        box.tool(coroutine)


def arguments(function: Any, given: dict[str, Any]) -> dict[str, Any]:
    box = Toolbox()
    box.tool(function)
    return declared(box).arguments(execute_request("s", "t", given, {}))


def takes(number: int, text: str = "", data: Optional[bytes] = None, free: Any = None) -> None: ...


def takes_array(array: numpy.ndarray) -> None: ...


def takes_view(view: memoryview) -> None: ...


def takes_all(first: int, **others: Any) -> None: ...


def test_arguments() -> None:
    assert arguments(takes, {"number": 5.0, "data": b"\x00"}) == {"number": 5, "data": b"\x00"}
    assert arguments(takes, {"number": 1, "data": None, "free": b"x"}) == {"number": 1, "data": None, "free": b"x"}
    assert arguments(takes_all, {"first": 1, "a": [1], "b": b"z"}) == {"first": 1, "a": [1], "b": b"z"}
    view = arguments(takes_view, {"view": b"abc"})["view"]
    assert isinstance(view, memoryview) and bytes(view) == b"abc"


@pytest.mark.parametrize(
    "array",
    [
        numpy.arange(6, dtype=">i2").reshape(2, 3),
        numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3)),
        numpy.zeros((0, 3)),
        numpy.array(5),
        numpy.array([("a", 1)], dtype=[("name", "U3"), ("n", "i8")]),
        numpy.arange(10)[::2],
    ],
)
def test_arrays(array: Any) -> None:
    got = arguments(takes_array, {"array": array})["array"]
    assert got.dtype == array.dtype and numpy.array_equal(got, array)
    free = arguments(takes, {"number": 1, "free": array})["free"]
    assert numpy.array_equal(free, array)


REFUSED: list[tuple[Any, dict[str, Any], dict[str, str], str]] = [
    (takes, {}, {}, "Invalid parameter number: it is required"),
    (takes, {"number": "x"}, {}, "Invalid parameter number: expected an integer, got a string ('x')"),
    (takes, {"number": 1, "data": "AP8="}, {}, "Invalid parameter data: it is binary: send it in binary_parameters"),
    (takes, {"number": b"1"}, {}, "Invalid parameter number: it is not binary"),
    (takes, {"number": 1, "other": 1}, {}, "Invalid parameter other: the tool `takes` has no such parameter; it has"),
    (takes, {"number": 1, "other": b""}, {}, "Invalid parameter other: the tool `takes` has no such parameter"),
    (takes_array, {"array": [1]}, {}, "Invalid parameter array: it is binary"),
    (takes_array, {"array": b"raw"}, {}, "Invalid parameter array: expected an array in numpy's npy container"),
    (takes_array, {"array": b"\x93NUMPY\x01\x00\x00"}, {"!": "npy"}, "Invalid parameter array: "),
    (takes, {"number": 1, "data": b"x"}, {"!": "pickle"}, "Invalid parameter data: pickled data is never read"),
    (takes, {"number": 1, "data": b"x"}, {"!": "zip"}, "Invalid parameter data: the binary format `zip` is not known"),
]


@pytest.mark.parametrize(("function", "given", "form", "reason"), REFUSED)
def test_refused_arguments(function: Any, given: dict[str, Any], form: dict[str, str], reason: str) -> None:
    box = Toolbox()
    box.tool(function)
    request = execute_request("s", "t", given, {})
    for name in request.binary_parameters:
        if "!" in form:
            request.metadata[f"binary_format:{name}"] = form["!"]
    with pytest.raises(InvalidArgument) as caught:
        declared(box).arguments(request)
    assert caught.value.message.startswith(reason)


def test_an_array_of_objects_is_never_unpickled() -> None:
    out = io.BytesIO()
    numpy.save(out, numpy.array([{"a": 1}], dtype=object), allow_pickle=True)
    request = execute_request("s", "t", {"array": out.getvalue()}, {})
    request.metadata["binary_format:array"] = "npy"
    box = Toolbox()
    box.tool(takes_array)
    with pytest.raises(InvalidArgument, match="would have to be unpickled"):
        declared(box).arguments(request)


def test_only_keywords_means_anything() -> None:
    def free(**kwargs: Any) -> None: ...

    box = Toolbox()
    box.tool(free)
    (parameter,) = declared(box).spec.parameters
    assert (parameter.name, parameter.type, parameter.required) == ("kwargs", "any", True)
    box = Toolbox()
    box.tool(takes_all)
    assert [(one.name, one.type) for one in declared(box).spec.parameters] == [("first", "integer"), ("kwargs", "any")]


DOCSTRINGS: list[tuple[str, str, dict[str, str]]] = [
    ("Only this.", "Only this.", {}),
    (
        "Does.\n\n:param int a: the a\n:param b: the b\n    goes on\n:returns: c",
        "Does.",
        {"a": "the a", "b": "the b goes on"},
    ),
    (
        "Does.\n\nParameters\n---\na : int\n    the a\n    goes on\nb\n    the b\n\nReturns\n---\nint\n    x",
        "Does.",
        {"a": "the a goes on", "b": "the b"},
    ),
    (
        "Does.\n\nNote that this is no heading.\n\nReturns: x",
        "Does.\n\nNote that this is no heading.\n\nReturns: x",
        {},
    ),
    (
        "Does.\n\nArgs:\n    a: the a\n\n    **kw: the rest\n\nRaises:\n    ValueError: never",
        "Does.",
        {"a": "the a", "kw": "the rest"},
    ),
]


@pytest.mark.parametrize(("text", "description", "parameters"), DOCSTRINGS)
def test_docstring(text: str, description: str, parameters: dict[str, str]) -> None:
    assert _docstring.read(text) == (description, parameters)
