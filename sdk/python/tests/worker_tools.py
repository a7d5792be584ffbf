"""The tools the tests call."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy

from patchboard import (
    Binary,
    Chunk,
    Context,
    Progress,
    ToolError,
    current_context,
    on_session_end,
    on_start,
    on_stop,
    tool,
)

started: list[str] = []
ended_sessions: list[str] = []
heard: list[str] = []


@on_start
async def begin() -> None:
    started.append("start")


@on_stop
def finish() -> None:
    path = os.environ.get("TEST_STOP_FILE")
    if path:
        with open(path, "w", encoding="utf-8") as file:
            file.write("stopped")


@on_session_end
def forget(session_id: str) -> None:
    ended_sessions.append(session_id)


@tool
def echo(value: Any) -> Any:
    """Gives back what it gets."""
    return value


# As a tool's module does it that looks at the machine before it serves.
_of_a_child = subprocess.run(["env"], capture_output=True, text=True, check=True).stdout


@tool
def variables_of_a_child() -> list[str]:
    """What a program that was started at import, and one that is started now, are told."""
    now = subprocess.run(["env"], capture_output=True, text=True, check=True).stdout
    return [line.split("=", 1)[0] for line in (_of_a_child + now).splitlines()]


@tool(inline=True)
def echo_inline(text: str) -> str:
    return text


@tool
async def echo_async(text: str) -> str:
    await asyncio.sleep(0)
    return text


@tool(read_only=True, cacheable=True, timeout=2.5, metadata={"area": "sums"})
def add(a: int, b: int = 1) -> int:
    """Adds two numbers.

    Args:
        a: the first one
        b: the second one,
            if there is one
    """
    return a + b


@dataclass
class Point:
    x: float
    y: float = 0.0


@tool
def shift(point: Point, by: float) -> Point:
    return Point(point.x + by, point.y + by)


@tool
def anything(**kwargs: Any) -> dict[str, Any]:
    return {name: len(value) if isinstance(value, bytes) else value for name, value in kwargs.items()}


@tool
def fail(kind: str = "value") -> None:
    if kind == "tool":
        raise ToolError("not today", type="Busy", context={"until": "tomorrow"})
    if kind == "exit":
        sys.exit(3)
    if kind == "long":
        raise ValueError("ä" * 20_000)
    raise ValueError("no good")


@tool
def size(data: bytes) -> int:
    return len(data)


@tool
def reverse(data: bytes) -> bytes:
    return data[::-1]


@tool
def invert(image: numpy.ndarray) -> numpy.ndarray:
    return 255 - image


@tool
def picture() -> Binary:
    return Binary(b"\x89PNG", "image/png", {"width": "1"})


@tool
def unserialisable() -> Any:
    return {"lock": threading.Lock()}


@tool
def context_of(context: Context) -> dict[str, Any]:
    assert current_context() is context
    return {
        "session_id": context.session_id,
        "correlation_id": context.correlation_id,
        "metadata": dict(context.metadata),
        "remaining": context.time_remaining(),
        "traceparent": context.traceparent,
        "thread": threading.current_thread().name,
    }


@tool(thread_sensitive=True)
def on_one_thread() -> str:
    return threading.current_thread().name


@tool
def remember(context: Context, text: str) -> list[str]:
    texts: list[str] = context.session.data.setdefault("texts", [])
    texts.append(text)
    return texts


@tool
def sessions_ended() -> list[str]:
    return ended_sessions


@tool
def news() -> list[str]:
    return heard


@tool
def wait_blocking(context: Context) -> None:
    heard.append("blocking began")
    try:
        while True:
            context.wait(60)
    finally:
        heard.append("blocking ended")


@tool
async def wait_async() -> None:
    heard.append("async began")
    try:
        await asyncio.sleep(60)
    finally:
        heard.append("async ended")


@tool(timeout=0.05)
async def too_slow() -> None:
    await asyncio.sleep(60)


@tool(timeout=0.05)
async def too_slow_stream() -> AsyncIterator[int]:
    yield 1
    await asyncio.sleep(60)


gate = threading.Barrier(4)


@tool
def meet() -> bool:
    """Returns only when four calls are there at the same time."""
    gate.wait(10)
    return True


@tool
def count(to: int, bad_at: int = -1) -> Iterator[Any]:
    heard.append("count began")
    try:
        for number in range(to):
            yield threading.Lock() if number == bad_at else {"n": number}
    finally:
        heard.append("count ended")


made = 0


@tool
def heavy(pieces: int) -> Iterator[bytes]:
    """Pieces that do not fit into any buffer together."""
    global made
    for _ in range(pieces):
        made += 1
        yield b"x" * 200_000


@tool
def made_so_far() -> int:
    return made


@tool
async def count_async(to: int, bad_at: int = -1) -> AsyncIterator[Any]:
    try:
        for number in range(to):
            yield threading.Lock() if number == bad_at else {"n": number}
    finally:
        heard.append("count_async ended")


@tool
def mixed() -> Iterator[Any]:
    yield None
    yield "text"
    yield b"\x00\xff"
    yield numpy.arange(3)
    yield Progress(0.5, "half")
    yield Chunk({"last": True}, is_final=True, metadata={"mood": "good"})
    yield "never seen"


@tool
def breaks() -> Iterator[int]:
    yield 1
    raise RuntimeError("half way")


@tool
def tell(context: Context) -> None:
    context.progress(0.25, "a quarter")
    context.progress("words only")
    context.telemetry.emit("model.loaded", {"count": 2, "ratio": 0.5, "flag": True, "huge": 2**70}, {"kind": "tiny"})
    context.log.warning("something to say")


@tool
def flood(context: Context, events: int) -> None:
    for number in range(events):
        context.telemetry.emit("flood.drop", {"count": number})


@tool
def call_back(context: Context, tool: str, arguments: dict[str, Any]) -> Any:
    return context.call(tool, **arguments)


@tool
async def call_back_async(context: Context, tool: str, arguments: dict[str, Any]) -> Any:
    return await context.acall(tool, **arguments)


@tool
async def call_back_wrongly(context: Context) -> Any:
    return context.call("double", x=1)


@tool
def host_tools(context: Context) -> list[str]:
    return [f"{one.name}({', '.join(parameter.name for parameter in one.parameters)})" for one in context.tools()]


@tool
async def ask(context: Context, agent: str, message: str) -> Any:
    return [await context.aagent(agent)(message), await context.aagent(agent)(message, thread_id="t1")]


@tool
def variables(context: Context) -> dict[str, Any]:
    known = context.session.variables
    first = known.set("speed", 3)
    known.set("time", [1, 2], depends_on=["speed"])
    second = known.set("speed", 4, if_version=first.version)
    known["extra"] = None
    listed = [(one.name, one.version, one.stale) for one in known.list()]
    del known["extra"]
    return {
        "speed": known["speed"],
        "stale": second.stale,
        "listed": listed,
        "missing": known.get("nothing", "default"),
        "depends_on": known.read("time").depends_on,
    }


@tool
async def watch(context: Context, names: list[str], changes: int, since: int) -> list[Any]:
    seen = []
    async for change in context.session.avariables.watch(*names, since=since):
        seen.append([change.name, change.version, change.value, change.deleted])
        if len(seen) == changes:
            break
    return seen


@tool
def pids() -> list[int]:
    return [os.getpid(), os.getpgrp(), os.getppid()]


@tool
def random_numbers() -> list[float]:
    return [float(numpy.random.random()), time.time()]
