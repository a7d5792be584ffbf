"""The tools of workers made with the SDK.

python -m patchboard.worker sdk_tools.py
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy
from patchboard import Binary, Context, Progress, on_session_end, on_start, on_stop, serve, tool

from worker_notes import note, own_number, wait_for_release

time.sleep(float(os.environ.get("FIXTURE_IMPORT_SECONDS", "0")))
IMPORTED_BY = own_number()
note("imports", str(IMPORTED_BY))
_kept: list[bytes] = []


@on_start
def begin() -> None:
    note("hooks", f"start {own_number()}")


@on_stop
def end() -> None:
    note("hooks", f"stop {own_number()}")


@on_session_end
def forget(session_id: str) -> None:
    note("hooks", f"session {session_id}")


@tool(read_only=True)
def echo(value: Any = None) -> Any:
    """Gives back what it got."""
    note("echo", repr(value)[:200])
    return value


@tool
def add(a: int, b: int) -> int:
    """Adds two whole numbers.

    Args:
        a: the first one
        b: the second one
    """
    note("add", f"{a} {b}")
    return a + b


@tool
def describe(**kwargs: Any) -> dict[str, Any]:
    """Tells what its arguments are."""
    note("describe", " ".join(sorted(kwargs)))
    return {name: {"type": type(value).__name__, "repr": repr(value)[:10_000]} for name, value in kwargs.items()}


@tool
def text(text: str) -> dict[str, str]:
    """Tells what its text is."""
    return {"type": type(text).__name__, "repr": repr(text)}


@tool
def measure(data: bytes) -> dict[str, Any]:
    """Measures bytes."""
    return {"type": type(data).__name__, "length": len(data), "sha256": hashlib.sha256(data).hexdigest()}


@tool
def reverse(data: bytes) -> bytes:
    """Gives the bytes backwards."""
    return data[::-1]


@tool
def picture() -> Binary:
    """Bytes that say what they are."""
    return Binary(b"\x89PNG", "image/png", {"width": "1"})


@tool
def double(array: numpy.ndarray) -> numpy.ndarray:
    """Doubles every element."""
    return array * 2


@tool
def make(kind: str, size: int = 0) -> Any:
    """Makes a result of a kind."""
    return {
        "none": None,
        "int": 5,
        "big": 2**53 + 1,
        "huge": 2**64 - 1,
        "bytes": b"raw",
        "list": [1, None, 2**60],
        "string": "x" * size,
        "blob": b"x" * size,
    }[kind]


@tool
def nap(seconds: float, name: str = "") -> str:
    """Sleeps on a thread."""
    note("nap", name)
    time.sleep(seconds)
    return name


@tool
def hold(context: Context, name: str) -> dict[str, Any]:
    """Runs on a thread until the test lets it end."""
    note("hold", name)
    wait_for_release(name)
    note("hold-done", name)
    return {"pid": own_number(), "session": context.session_id, "name": name}


@tool
async def doze(seconds: float, name: str = "") -> str:
    """Sleeps on the loop, and can be woken."""
    note("doze", name)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        note("doze-cancelled", name)
        raise
    return name


@tool
def patient(context: Context, seconds: float, name: str = "") -> str:
    """Sleeps on a thread, and can be woken all the same."""
    note("patient", name)
    try:
        context.wait(seconds)
    finally:
        note("patient-done", f"{name} {context.cancelled}")
    return name


@tool
def where(context: Context, seconds: float = 0.0) -> dict[str, Any]:
    """Says which process it is, after a while."""
    time.sleep(seconds)
    return {"pid": own_number(), "session": context.session_id, "imported_by": IMPORTED_BY, "parent": os.getppid()}


@tool
def about(context: Context) -> dict[str, Any]:
    """Tells where and how it runs."""
    return {
        "pid": own_number(),
        "leads_its_group": os.getpgid(0) == os.getpid(),
        "argv": sys.argv,
        "environment": dict(os.environ),
        "session": context.session_id,
        "metadata": dict(context.metadata),
        "correlation": context.correlation_id,
        "trace": context.traceparent,
        "time_left": context.time_remaining(),
    }


@tool(cacheable=True)
def cached(key: str = "") -> dict[str, Any]:
    """Remembered by the server when the session wants it."""
    note("cached", key)
    return {"key": key, "made": time.time_ns()}


@tool
def fail(message: str = "made to fail") -> None:
    """Fails."""
    raise ValueError(message)


@tool
def crash(code: int = 139) -> None:
    """Ends the process."""
    os._exit(code)


@tool
def hog(mebibytes: int) -> int:
    """Takes memory and keeps it."""
    _kept.append(b"\1" * (mebibytes * 1024 * 1024))
    return own_number()


@tool
def remember_here(context: Context, value: Any) -> Any:
    """What this process knows of the session."""
    return context.session.data.setdefault("value", value)


@tool
def count_up(context: Context, name: str) -> int:
    """Counts in a variable of the session."""
    variables = context.session.variables
    variables.set(name, variables.get(name, 0) + 1)
    return variables.get(name)


@tool
async def host(context: Context, name: str, arguments: dict[str, Any]) -> Any:
    """Calls a tool of the server."""
    return {"result": await context.acall(name, **arguments)}


@tool
def host_tools(context: Context) -> list[str]:
    """Lists the tools of the server."""
    return sorted(one.name for one in context.tools())


@tool
def emit(context: Context, name: str, measurements: dict[str, Any] = {}, metadata: dict[str, Any] = {}) -> str:  # noqa: B006
    """Tells something to whoever listens."""
    context.telemetry.emit(name, measurements, metadata)
    return name


@tool
def count_to(n: int) -> Iterator[dict[str, int]]:
    """Counts."""
    for at in range(1, n + 1):
        yield {"n": at}


@tool
def pieces() -> Iterator[Any]:
    """Pieces of every kind."""
    yield Progress(0.5, "half way")
    yield b"\x00\xff"
    yield "text"
    yield numpy.arange(3)
    yield [1, None]


@tool
async def wait_stream() -> AsyncIterator[str]:
    """Says one thing and waits."""
    yield "waiting"
    try:
        await asyncio.sleep(3600)
    finally:
        note("wait_stream-stopped", "stopped")


@tool
def bad_stream() -> Iterator[str]:
    """Breaks off."""
    yield "one"
    raise ValueError("no two")


if __name__ == "__main__":
    serve()
