"""JSON as the bridge speaks it: exact integers of any size, null for null, and no NaN.

`orjson` is used where it is installed, for speed only: what comes out means the same with and without it.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import math
import pathlib
import uuid
from collections.abc import Mapping, Sequence, Set
from typing import Any

from .errors import SerializationError

_orjson: Any = None
try:
    import orjson

    _orjson = orjson
except ImportError:
    pass

# An array inside a JSON value is written as lists; above this it must travel as binary.
MAX_ARRAY_ELEMENTS = 1_000_000


def dumps(value: Any) -> bytes:
    """The JSON text of a value. NaN and the infinities become null, since JSON has no word for them."""
    if _orjson is not None:
        try:
            text: bytes = _orjson.dumps(value, default=_plain, option=_ORJSON_OPTIONS)
            return text
        except TypeError:
            # Integers beyond 64 bits and keys that are numbers: the standard library knows them. What really has no
            # JSON form fails there again, in the same words as without orjson.
            pass
    try:
        return _ENCODER.encode(value).encode()
    except ValueError as error:
        if "Circular" in str(error):
            raise SerializationError("the value contains itself") from None
        return _encode_without_nan(value)
    except TypeError as error:
        raise SerializationError(str(error)) from None
    except RecursionError:
        raise SerializationError("the value is nested too deeply") from None


def loads(text: bytes) -> Any:
    """The value of a JSON text; ValueError when it is none."""
    if _orjson is not None and len(text) < _ORJSON_READS_BELOW:
        try:
            value = _orjson.loads(text)
        except ValueError:
            return _loads(text)
        # It reads integers beyond 64 bits as floats; a float that big may have been one.
        return _loads(text) if _has_huge_float(value) else value
    return _loads(text)


def _loads(text: bytes) -> Any:
    try:
        return _DECODER.decode(text.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"`{name}` is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)

# Looking through a big value for floats that were integers costs more than orjson gains.
_ORJSON_READS_BELOW = 4096


def _has_huge_float(value: Any) -> bool:
    if isinstance(value, float):
        return abs(value) >= 2**63
    if isinstance(value, dict):
        return any(map(_has_huge_float, value.values()))
    return isinstance(value, list) and any(map(_has_huge_float, value))


def _plain(value: Any) -> Any:
    """A value JSON knows that stands for one it does not know."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (uuid.UUID, decimal.Decimal, pathlib.PurePath)):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError("bytes have no JSON form: return them alone, or in a `Binary`, not inside another value")
    # In this order: a pydantic model is iterable too, and numpy's scalars have `tolist`.
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json")
    if callable(to_list := getattr(value, "tolist", None)):
        if getattr(value, "size", 0) > MAX_ARRAY_ELEMENTS:
            raise TypeError(
                f"an array of {value.size} elements is too big for JSON: return it alone, so that it travels as binary"
            )
        return to_list()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (Set, Sequence)):
        return list(value)
    raise TypeError(f"a value of type {_type_name(value)} has no JSON form")


def _type_name(value: Any) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
_ORJSON_OPTIONS = 0 if _orjson is None else _orjson.OPT_PASSTHROUGH_DATACLASS | _orjson.OPT_PASSTHROUGH_DATETIME


def _encode_without_nan(value: Any) -> bytes:
    try:
        return _ENCODER.encode(_without_nan(value)).encode()
    except (TypeError, ValueError) as error:
        raise SerializationError(str(error)) from None
    except RecursionError:
        raise SerializationError("the value is nested too deeply") from None


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    if value is None or isinstance(value, (str, int)):
        return value
    return _without_nan(_plain(value))
