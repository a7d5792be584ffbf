"""Threads for plain functions.

Leaner than `concurrent.futures`: a call costs one queue item one way and one wake-up of the loop the other way. The
threads are daemons, so a tool that never returns cannot keep the process from ending.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context as Variables
from typing import Any


class Threads:
    """At most `count` threads, started when needed. Everything but the threads themselves runs on the loop."""

    def __init__(self, count: int, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._count = count
        self._loop = loop
        self._name = name
        self._started = 0
        self._busy = 0
        self._jobs: queue.SimpleQueue[tuple[asyncio.Future[Any], Variables, Callable[[], Any]]] = queue.SimpleQueue()
        self._done: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._waking = False

    def run(self, variables: Variables, job: Callable[[], Any]) -> asyncio.Future[Any]:
        """Runs a job on the next free thread. Cancelling the future keeps a waiting job from starting."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self._busy += 1
        if self._busy > self._started and self._started < self._count:
            self._started += 1
            threading.Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()
        self._jobs.put((future, variables, job))
        return future

    def _work(self) -> None:
        while True:
            future, variables, job = self._jobs.get()
            result, error = None, None
            if not future.cancelled():
                try:
                    result = variables.run(job)
                except BaseException as raised:  # noqa: BLE001 - it is the caller's to handle, on the loop.
                    error = raised
            self._done.append((future, result, error))
            # Nothing may live on in this frame while it waits for the next job.
            del future, variables, job, result, error
            if not self._waking:
                self._waking = True
                try:
                    self._loop.call_soon_threadsafe(self._settle)
                except RuntimeError:
                    return

    def _settle(self) -> None:
        self._waking = False
        while self._done:
            future, result, error = self._done.popleft()
            self._busy -= 1
            if future.done():
                continue
            if error is None:
                future.set_result(result)
            elif isinstance(error, StopIteration):
                # A future refuses it, and it is a plain error here.
                future.set_exception(RuntimeError("the tool raised StopIteration"))
            else:
                future.set_exception(error)
