"""Bytes and arrays, which travel beside the JSON and not inside it.

Arrays use numpy's own `.npy` container without pickle. numpy is optional and never imported by this module: an array
can only be at hand where somebody imported it already, and a received one is left as bytes where it is missing.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .errors import SerializationError

if TYPE_CHECKING:
    import numpy

OCTETS = "application/octet-stream"
NPY = "application/x-npy"
NPY_MAGIC = b"\x93NUMPY"


@dataclass(frozen=True)
class Binary:
    """A binary result that says what it is: `Binary(png, "image/png", {"width": "640"})`.

    The metadata travels with the result; callers read it as `Result.metadata`.
    """

    data: bytes | bytearray | memoryview
    content_type: str = OCTETS
    metadata: Mapping[str, str] = field(default_factory=dict)


def is_array(value: Any) -> bool:
    numpy_module = sys.modules.get("numpy")
    return numpy_module is not None and isinstance(value, numpy_module.ndarray)


def encode(value: Any) -> tuple[bytes, str, Mapping[str, str]] | None:
    """The bytes of a binary value, their content type and metadata; None when the value is not binary."""
    if isinstance(value, bytes):
        return value, OCTETS, {}
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value), OCTETS, {}
    if isinstance(value, Binary):
        return bytes(value.data), value.content_type, value.metadata
    if is_array(value):
        return array_to_npy(value), NPY, {}
    return None


def array_to_npy(array: numpy.ndarray[Any, Any]) -> bytes:
    """The `.npy` form of an array, with one copy of its data."""
    from numpy.lib import format as npy

    if array.dtype.hasobject:
        raise SerializationError("an array of Python objects cannot travel: give it a numeric, text or bytes dtype")
    out = io.BytesIO()
    npy.write_array(out, array, allow_pickle=False)
    return out.getvalue()


def npy_to_array(data: bytes) -> numpy.ndarray[Any, Any]:
    """The array in a `.npy` container: a read-only view of `data`, nothing is copied. ValueError when it is none."""
    import numpy
    from numpy.lib import format as npy

    stream = io.BytesIO(data)
    version = npy.read_magic(stream)
    if version == (1, 0):
        shape, fortran, dtype = npy.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, fortran, dtype = npy.read_array_header_2_0(stream)
    else:
        raise ValueError(f"version {version[0]}.{version[1]} of the npy container is not known")
    if dtype.hasobject:
        raise ValueError("the array holds Python objects, which would have to be unpickled")
    count = 1
    for extent in shape:
        if extent < 0:
            raise ValueError("the array's shape is negative")
        count *= extent
    if len(data) - stream.tell() != count * dtype.itemsize:
        raise ValueError("the array's data is shorter or longer than its shape says")
    if count == 0 or dtype.itemsize == 0:
        return numpy.zeros(shape, dtype)
    flat = numpy.frombuffer(data, dtype=dtype, count=count, offset=stream.tell())
    return flat.reshape(shape[::-1]).transpose() if fortran else flat.reshape(shape)


def decode(data: bytes, content_type: str, metadata: Mapping[str, str]) -> Any:
    """What a received binary value is to a program: an array, bytes, or a `Binary` of another kind."""
    if content_type == NPY and _numpy_installed():
        try:
            return npy_to_array(data)
        except ValueError as error:
            raise SerializationError(f"the array cannot be read: {error}") from None
    if content_type in (OCTETS, ""):
        return data
    return Binary(data, content_type, metadata)


def _numpy_installed() -> bool:
    try:
        import numpy  # noqa: F401 - whether it is there is the question.
    except ImportError:
        return False
    return True
