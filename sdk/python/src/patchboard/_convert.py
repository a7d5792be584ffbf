"""From JSON values to Python values: the converters that `_schema` puts together.

A converter gets what JSON can hold and returns what a hint promises, or raises `Mismatch`. Nothing is guessed: text
never becomes a number, and `true` is not 1.
"""

from __future__ import annotations

import datetime
import decimal
import math
import pathlib
import re
import uuid
from collections.abc import Callable
from typing import Any

from .errors import SchemaError

Converter = Callable[[Any], Any]


class Mismatch(Exception):
    """A JSON value that does not fit; `path` leads to it from the parameter."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path

    def at(self, step: str) -> Mismatch:
        return Mismatch(self.reason, f"{step}{self.path}")


_NAMES = {str: "a string", bool: "a boolean", int: "an integer", float: "a number", list: "a list", dict: "an object"}


def found(value: Any) -> str:
    """How an error names what was found instead."""
    if value is None:
        return "null"
    name = _NAMES.get(type(value), type(value).__name__)
    if isinstance(value, (list, dict)):
        return name
    text = repr(value)
    return f"{name} ({text if len(text) <= 40 else text[:37] + '...'})"


def _text(value: Any) -> Any:
    if type(value) is str:
        return value
    raise Mismatch(f"expected a string, got {found(value)}")


def _boolean(value: Any) -> Any:
    if value is True or value is False:
        return value
    raise Mismatch(f"expected a boolean, got {found(value)}")


def _integer(value: Any) -> Any:
    if type(value) is int:
        return value
    # JSON makes no difference between 5 and 5.0, and JavaScript none at all.
    if type(value) is float and value.is_integer():
        return int(value)
    raise Mismatch(f"expected an integer, got {found(value)}")


# JSON has no words for these, so a float may come as text.
_SPECIAL_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _float(value: Any) -> Any:
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise Mismatch("expected a number that fits a float, got a bigger one") from None
    if type(value) is str and value in _SPECIAL_FLOATS:
        return _SPECIAL_FLOATS[value]
    raise Mismatch(f"expected a number, got {found(value)}")


def _null(value: Any) -> Any:
    if value is None:
        return None
    raise Mismatch(f"expected null, got {found(value)}")


def _decimal(value: Any) -> Any:
    if type(value) in (int, str):
        try:
            return decimal.Decimal(value)
        except decimal.InvalidOperation:
            pass
    elif type(value) is float:
        return decimal.Decimal(repr(value))
    raise Mismatch(f"expected a decimal number, got {found(value)}")


def _parsed(kind: str, parse: Callable[[str], Any]) -> Converter:
    def convert(value: Any) -> Any:
        if type(value) is str:
            try:
                return parse(value)
            except ValueError:
                pass
        raise Mismatch(f"expected {kind} as a string, got {found(value)}")

    return convert


def _moment(text: str) -> datetime.datetime:
    # Before Python 3.11 the `Z` of RFC 3339 was not understood.
    return datetime.datetime.fromisoformat(f"{text[:-1]}+00:00" if text.endswith(("Z", "z")) else text)


SIMPLE: dict[Any, tuple[dict[str, Any], Converter | None]] = {
    Any: ({}, None),
    object: ({}, None),
    str: ({"type": "string"}, _text),
    bool: ({"type": "boolean"}, _boolean),
    int: ({"type": "integer"}, _integer),
    float: ({"type": "number"}, _float),
    None: ({"type": "null"}, _null),
    type(None): ({"type": "null"}, _null),
    decimal.Decimal: ({"type": ["number", "string"]}, _decimal),
    datetime.datetime: ({"type": "string", "format": "date-time"}, _parsed("a date and time", _moment)),
    datetime.date: ({"type": "string", "format": "date"}, _parsed("a date", datetime.date.fromisoformat)),
    datetime.time: ({"type": "string", "format": "time"}, _parsed("a time", datetime.time.fromisoformat)),
    uuid.UUID: ({"type": "string", "format": "uuid"}, _parsed("a UUID", uuid.UUID)),
    pathlib.Path: ({"type": "string"}, _parsed("a path", pathlib.Path)),
}


def _integer_key(name: str) -> int:
    if not re.fullmatch("-?[0-9]{1,4000}", name):
        raise Mismatch(f"expected an integer as the key, got {name!r}")
    return int(name)


KEYS: dict[Any, Callable[[str], Any]] = {int: _integer_key}


def item_of(convert: Converter | None, step: int | str, value: Any) -> Any:
    if convert is None:
        return value
    try:
        return convert(value)
    except Mismatch as mismatch:
        raise mismatch.at(f"[{step}]" if isinstance(step, int) else f".{step}") from None


def first_of(converters: list[Converter]) -> Converter:
    def convert(value: Any) -> Any:
        reasons: list[Mismatch] = []
        for one in converters:
            try:
                result = one(value)
            except Mismatch as mismatch:
                reasons.append(mismatch)
                continue
            # In `float | int` the integer 5 is an integer, whatever stands first.
            if type(value) is int and type(result) is float and _integer in converters:
                continue
            return result
        # Of several reasons the one that got furthest into the value helps most.
        deepest = max(reasons, key=lambda mismatch: len(mismatch.path))
        if deepest.path:
            raise deepest
        expected = [
            mismatch.reason.removeprefix("expected ").split(", got ")[0]
            for mismatch in reasons
            if mismatch.reason.startswith("expected ")
        ]
        if len(expected) != len(reasons):
            raise next(mismatch for mismatch in reasons if not mismatch.reason.startswith("expected "))
        raise Mismatch(f"expected {' or '.join(dict.fromkeys(expected))}, got {found(value)}")

    return convert


def key_of(value: Any) -> tuple[type, Any]:
    """True and 1 are the same dictionary key; here they are not."""
    return type(value), value


def one_of(values: list[Any], members: dict[tuple[type, Any], Any]) -> tuple[dict[str, Any], Converter | None]:
    if not all(isinstance(value, (str, int, float, bool)) or value is None for value in values):
        raise SchemaError("only strings, numbers, booleans and None can be chosen from in a Literal or an Enum")
    schema: dict[str, Any] = {"enum": values}
    kinds = {str(SIMPLE[type(value)][0]["type"]) for value in values if type(value) in SIMPLE}
    if len(kinds) == 1:
        schema = {"type": kinds.pop(), "enum": values}

    def convert(value: Any) -> Any:
        if isinstance(value, (list, dict)) or key_of(value) not in members:
            raise Mismatch(f"expected one of {listed(values)}, got {found(value)}")
        return members[key_of(value)]

    return schema, convert


def listed(values: list[Any]) -> str:
    shown = [f"`{value}`" for value in values[:20]]
    return ", ".join(shown) + (", ..." if len(values) > 20 else "") if shown else "nothing"


_LIMITS: list[tuple[str, str, str, Callable[[Any, Any], bool]]] = [
    ("ge", "minimum", "at least {}", lambda value, limit: value >= limit),
    ("gt", "exclusiveMinimum", "more than {}", lambda value, limit: value > limit),
    ("le", "maximum", "at most {}", lambda value, limit: value <= limit),
    ("lt", "exclusiveMaximum", "less than {}", lambda value, limit: value < limit),
    ("multiple_of", "multipleOf", "a multiple of {}", lambda value, limit: value % limit == 0),
    ("min_length", "min", "at least {} long", lambda value, limit: len(value) >= limit),
    ("max_length", "max", "at most {} long", lambda value, limit: len(value) <= limit),
    ("pattern", "pattern", "text that matches `{}`", lambda value, limit: re.search(limit, value) is not None),
]
_LENGTHS = {"array": "Items", "object": "Properties", "string": "Length"}


def limit_by(
    schema: dict[str, Any], convert: Converter | None, limits: list[Any]
) -> tuple[dict[str, Any], Converter | None]:
    checks: list[tuple[str, Any, Callable[[Any, Any], bool]]] = []
    for extra in limits:
        for attribute, word, text, fits in _LIMITS:
            limit = getattr(extra, attribute, None)
            if isinstance(limit, (int, float, str)) and not isinstance(limit, bool):
                schema = {**schema, (word if word not in ("min", "max") else word + _length_word(schema)): limit}
                checks.append((text.format(limit), limit, fits))
    if not checks:
        return schema, convert

    def checked(value: Any) -> Any:
        result = value if convert is None else convert(value)
        for text, limit, fits in checks:
            try:
                good = result is None or fits(result, limit)
            except TypeError:
                good = False
            if not good:
                raise Mismatch(f"expected {text}, got {found(value)}")
        return result

    return schema, checked


def _length_word(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    return _LENGTHS.get(kind, "Length") if isinstance(kind, str) else "Length"


def pydantic_reason(error: ValueError) -> str:
    """The first few complaints of a pydantic ValidationError, on one line."""
    try:
        complaints = error.errors()  # type: ignore[attr-defined]
    except AttributeError:
        return str(error)
    parts = [f"{'.'.join(map(str, one['loc'])) or 'value'}: {one['msg']}" for one in complaints[:5]]
    return "; ".join(parts)
