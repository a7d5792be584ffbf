"""Running a tool for one request: plain functions on threads, coroutines on the loop, generators piece by piece."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from . import _results
from ._context import Context, _current
from ._threads import Threads
from ._tool import Kind, Tool
from .errors import SerializationError

# Pieces a generator may be ahead of its reader; then it waits.
AHEAD = 32
# Pieces gathered when a streaming tool is called as if it did not stream.
MAX_GATHERED = 10_000


class Runner:
    """Where the tools of a worker run."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int) -> None:
        self._loop = loop
        self._threads = Threads(threads, loop, "tool")
        # Tools that insist on one thread share this one.
        self._lone_thread = Threads(1, loop, "tool-alone")

    async def call(self, tool: Tool, context: Context, arguments: dict[str, Any], *, alone: bool) -> Any:
        """The tool's result. Being cancelled here reaches the tool."""
        if tool.context_parameter is not None:
            arguments[tool.context_parameter] = context
        if tool.options.inline:
            token = _current.set(context)
            try:
                return tool.function(**arguments)
            finally:
                _current.reset(token)
        if tool.kind is Kind.COROUTINE:
            # The task of this request is its own context, so nothing has to be put back.
            _current.set(context)
            try:
                return await tool.function(**arguments)
            except asyncio.CancelledError:
                context._cancel()
                raise
        if tool.streams:
            return await self._gather(tool, context, arguments, alone=alone)
        return await self._on_thread(context, partial(tool.function, **arguments), alone=alone)

    async def _on_thread(self, context: Context, job: Callable[[], Any], *, alone: bool) -> Any:
        variables = contextvars.copy_context()
        variables.run(_current.set, context)
        try:
            return await (self._lone_thread if alone else self._threads).run(variables, job)
        except asyncio.CancelledError:
            context._cancel()
            raise

    async def _gather(self, tool: Tool, context: Context, arguments: dict[str, Any], *, alone: bool) -> list[Any]:
        items: list[Any] = []
        stream = self.items(tool, context, arguments, alone=alone, convert=lambda item: item)
        try:
            async for item in stream:
                if isinstance(item, _results.Progress):
                    continue
                if len(items) == MAX_GATHERED:
                    raise SerializationError(
                        f"the tool streams more than {MAX_GATHERED} pieces: call it as a streaming tool"
                    )
                items.append(item.data if isinstance(item, _results.Chunk) else item)
                if isinstance(item, _results.Chunk) and item.is_final:
                    break
        finally:
            await stream.aclose()
        return items

    async def items(
        self,
        tool: Tool,
        context: Context,
        arguments: dict[str, Any],
        *,
        alone: bool,
        convert: Callable[[Any], Any],
    ) -> Any:
        """What a streaming tool yields, each piece converted where it was made; a plain tool's result is one piece.

        An async generator. Closing it closes the tool's own.
        """
        if not tool.streams:
            yield convert(await self.call(tool, context, arguments, alone=alone))
            return
        if tool.context_parameter is not None:
            arguments[tool.context_parameter] = context
        if tool.kind is Kind.ASYNC_GENERATOR:
            _current.set(context)
            generator: AsyncIterator[Any] = tool.function(**arguments)
            try:
                async for item in generator:
                    yield convert(item)
            except (asyncio.CancelledError, GeneratorExit):
                context._cancel()
                raise
            finally:
                await generator.aclose()  # type: ignore[attr-defined]
            return
        pump = _Pump(self._loop, partial(tool.function, **arguments), convert)
        thread = asyncio.ensure_future(self._on_thread(context, pump.run, alone=alone))
        thread.add_done_callback(pump.finish)
        try:
            while True:
                batch = await pump.take()
                if batch is None:
                    break
                for item in batch:
                    yield item
                    pump.taken()
            await thread
        except (asyncio.CancelledError, GeneratorExit):
            context._cancel()
            raise
        finally:
            pump.stop()
            if not thread.done():
                thread.cancel()


class _Pump:
    """Carries the pieces of a plain generator from its thread to the loop, never more than `AHEAD` of them."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, start: Callable[[], Any], convert: Callable[[Any], Any]
    ) -> None:
        self._loop = loop
        self._start = start
        self._convert = convert
        self._room = threading.Semaphore(AHEAD)
        self._items: deque[Any] = deque()
        self._ready = asyncio.Event()
        self._stopped = False
        self._finished = False

    def run(self) -> None:
        """The thread's part: the whole generator lives and dies on one thread."""
        generator = self._start()
        try:
            for item in generator:
                converted = self._convert(item)
                self._room.acquire()
                if self._stopped:
                    return
                self._items.append(converted)
                if not self._ready.is_set():
                    self._loop.call_soon_threadsafe(self._ready.set)
        finally:
            generator.close()

    def finish(self, thread: asyncio.Future[Any]) -> None:
        if not thread.cancelled():
            # Looked at here so that asyncio does not complain of it when the reader has already gone.
            thread.exception()
        self._finished = True
        self._ready.set()

    async def take(self) -> list[Any] | None:
        """What has come so far, at least one piece; None at the end."""
        while not self._items:
            if self._finished:
                return None
            self._ready.clear()
            if not self._items and not self._finished:
                await self._ready.wait()
        # One by one, since the thread may add to them meanwhile.
        return [self._items.popleft() for _ in range(len(self._items))]

    def taken(self) -> None:
        self._room.release()

    def stop(self) -> None:
        self._stopped = True
        self._room.release()
