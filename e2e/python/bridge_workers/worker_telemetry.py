"""The one queue of events that all telemetry streams of a worker share: a second stream takes what the first would get,
and when one closes, all fall silent.
"""

from __future__ import annotations

import asyncio
import random
import time
from fnmatch import fnmatch

import bridge_wire as wire

LIMIT = 1024
END = object()


class Telemetry:
    def __init__(self) -> None:
        self.queue: asyncio.Queue = asyncio.Queue(LIMIT)
        self.loop = asyncio.get_running_loop()
        self.is_on = True
        self.rate = 1.0
        self.allow: list[str] = []
        self.deny: list[str] = []

    def emit(self, name: str, measurements: dict, metadata: dict, correlation: str = "") -> None:
        """From any thread. What does not fit is dropped."""
        if not self._is_wanted(name):
            return
        event = wire.TelemetryEvent(
            event_parts=name.split("."), timestamp_ns=time.time_ns(), correlation_id=correlation
        )
        for key, value in measurements.items():
            kind = (
                "int_value" if isinstance(value, int) else "float_value" if isinstance(value, float) else "string_value"
            )
            setattr(event.measurements[key], kind, str(value) if kind == "string_value" else value)
        for key, value in metadata.items():
            event.metadata[key] = str(value)
        self.loop.call_soon_threadsafe(self._put, event)

    def _put(self, event: object) -> None:
        if not self.queue.full():
            self.queue.put_nowait(event)

    def _is_wanted(self, name: str) -> bool:
        if not self.is_on or random.random() >= self.rate:
            return False
        if any(fnmatch(name, pattern) for pattern in self.deny):
            return False
        return not self.allow or any(fnmatch(name, pattern) for pattern in self.allow)

    def drop(self) -> None:
        """Ends one open stream, as a worker does when it is told to."""
        self.loop.call_soon_threadsafe(self._put, END)

    async def serve(self, controls, context):
        await context.send_initial_metadata(())
        reader = asyncio.get_running_loop().create_task(self._obey(controls))
        try:
            while (event := await self.queue.get()) is not END:
                yield event
        finally:
            reader.cancel()

    async def _obey(self, controls) -> None:
        async for control in controls:
            kind = control.WhichOneof("control")
            if kind == "toggle":
                self.is_on = control.toggle.enabled
            elif kind == "sampling":
                # Patterns are not looked at.
                self.rate = min(1.0, max(0.0, control.sampling.sampling_rate))
            elif kind == "filter":
                self.allow, self.deny = list(control.filter.allow), list(control.filter.deny)
