"""The worker's telemetry: one hub, any number of streams, each with a switch, filters and sampling of its own."""

from __future__ import annotations

import asyncio
import fnmatch
import random
import re
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from . import _proto

# Events nobody reads: the oldest go first, and how many is told to the next stream.
BACKLOG = 1024
# Events a slow reader has not taken yet: further ones are dropped, and how many is told as `telemetry.dropped`.
QUEUE = 1024
# Patterns one stream may set, and names whose verdict it remembers; more are worked out anew each time.
_MAX_PATTERNS = 256
_MAX_VERDICTS = 1024

DROPPED = "telemetry.dropped"


class Event:
    """One event, turned into bytes at most once, however many streams carry it."""

    __slots__ = ("correlation_id", "lot", "measurements", "metadata", "name", "timestamp_ns", "_wire")

    def __init__(
        self,
        name: str,
        measurements: Mapping[str, Any],
        metadata: Mapping[str, Any],
        correlation_id: str = "",
        lot: float | None = None,
    ) -> None:
        self.name = name
        self.measurements = measurements
        self.metadata = metadata
        self.correlation_id = correlation_id
        # Which part of the events it belongs to when they are sampled: all events of a call draw the same.
        self.lot = random.random() if lot is None else lot
        self.timestamp_ns = time.time_ns()
        self._wire: bytes | None = None

    def wire(self) -> bytes:
        if self._wire is None:
            message = _proto.TelemetryEvent(
                event_parts=self.name.split("."),
                metadata={key: str(value) for key, value in self.metadata.items()},
                timestamp_ns=self.timestamp_ns,
                correlation_id=self.correlation_id,
            )
            for key, value in self.measurements.items():
                _measure(message.measurements[key], value)
            self._wire = message.SerializeToString()
        return self._wire


def _measure(slot: Any, value: Any) -> None:
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        slot.int_value = int(value)
    elif isinstance(value, float):
        slot.float_value = value
    else:
        slot.string_value = str(value)


class Hub:
    """Where events come in, from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = threading.get_ident()
        self._streams: tuple[Stream, ...] = ()
        self._backlog: deque[Event] = deque(maxlen=BACKLOG)
        self._lost = 0
        self._closed = False

    def emit(self, event: Event) -> None:
        streams = self._streams
        if streams:
            for stream in streams:
                stream.offer(event)
        elif not self._closed:
            if len(self._backlog) == BACKLOG:
                self._lost += 1
            self._backlog.append(event)

    def attach(self) -> Stream:
        stream = Stream(self)
        if self._closed:
            stream.close()
            return stream
        self._streams = (*self._streams, stream)
        # What happened while nobody listened belongs to the first who does.
        stream.dropped += self._lost
        self._lost = 0
        while self._backlog:
            stream.offer(self._backlog.popleft())
        return stream

    def detach(self, stream: Stream) -> None:
        self._streams = tuple(one for one in self._streams if one is not stream)

    def close(self) -> None:
        """Ends every stream after what it still has."""
        self._closed = True
        for stream in self._streams:
            stream.close()

    def run_soon(self, wake: Any) -> None:
        if threading.get_ident() == self._thread:
            wake()
        else:
            try:
                self._loop.call_soon_threadsafe(wake)
            except RuntimeError:
                # The loop is closed: the process is ending, and nobody reads this any more.
                pass


class Stream:
    """One reader. Starts switched on, unfiltered and unsampled."""

    def __init__(self, hub: Hub) -> None:
        self.dropped = 0
        self._hub = hub
        self._queue: deque[Event] = deque()
        self._ready = asyncio.Event()
        self._closed = False
        self._enabled = True
        self._allow: list[re.Pattern[str]] = []
        self._deny: list[re.Pattern[str]] = []
        self._default_rate = 1.0
        self._rates: dict[str, tuple[re.Pattern[str], float]] = {}
        # What the settings come to for each name: the share that passes.
        self._verdicts: dict[str, float] = {}

    def control(self, message: Any) -> None:
        """Applies what the reader asks for, to this stream alone."""
        kind = message.WhichOneof("control")
        if kind == "toggle":
            self._enabled = message.toggle.enabled
        elif kind == "filter":
            self._allow = _patterns(message.filter.allow)
            self._deny = _patterns(message.filter.deny)
        elif kind == "sampling":
            rate = message.sampling.sampling_rate
            rate = min(1.0, max(0.0, rate)) if rate == rate else 1.0
            if not message.sampling.event_patterns:
                self._default_rate = rate
            for pattern in message.sampling.event_patterns:
                # The newest rule wins, so one that is set again moves to the end.
                self._rates.pop(pattern, None)
                if len(self._rates) < _MAX_PATTERNS:
                    self._rates[pattern] = (_pattern(pattern), rate)
        self._verdicts = {}

    def offer(self, event: Event) -> None:
        if not self._enabled or self._closed:
            return
        rate = self._verdicts.get(event.name)
        if rate is None:
            rate = self._judge(event.name)
        if event.lot >= rate:
            return
        if len(self._queue) >= QUEUE:
            self.dropped += 1
            return
        self._queue.append(event)
        if not self._ready.is_set():
            self._hub.run_soon(self._ready.set)

    def _judge(self, name: str) -> float:
        denied = any(one.match(name) for one in self._deny)
        allowed = not self._allow or any(one.match(name) for one in self._allow)
        rate = self._default_rate
        for pattern, one in self._rates.values():
            if pattern.match(name):
                rate = one
        rate = rate if allowed and not denied else 0.0
        if len(self._verdicts) < _MAX_VERDICTS:
            self._verdicts[name] = rate
        return rate

    async def next(self) -> Event | None:
        """The next event, or None when there will be none."""
        while True:
            if self._queue:
                return self._queue.popleft()
            if self.dropped:
                count, self.dropped = self.dropped, 0
                if self._enabled and self._judge(DROPPED) > 0:
                    return Event(DROPPED, {"count": count}, {})
            if self._closed:
                return None
            self._ready.clear()
            # Another thread may have put something in between looking and clearing.
            if not self._queue and not self._closed:
                await self._ready.wait()

    def close(self) -> None:
        self._closed = True
        self._hub.run_soon(self._ready.set)


def _patterns(globs: Any) -> list[re.Pattern[str]]:
    return [_pattern(glob) for glob in list(globs)[:_MAX_PATTERNS]]


def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(glob))
