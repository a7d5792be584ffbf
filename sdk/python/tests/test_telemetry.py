"""The hub: every stream by itself, and nothing without a bound."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from patchboard import _proto, _telemetry
from patchboard._telemetry import Event, Hub, Stream


def within(test: Callable[[Hub], Awaitable[None]]) -> None:
    async def run() -> None:
        await asyncio.wait_for(test(Hub(asyncio.get_running_loop())), 20)

    asyncio.run(run())


def control(**what: Any) -> Any:
    return _proto.TelemetryControl(**what)


async def names(stream: Stream) -> list[str]:
    """What a stream has up to its end."""
    stream.close()
    found = []
    while (event := await stream.next()) is not None:
        found.append(event.name)
    return found


def test_streams_do_not_disturb_each_other() -> None:
    async def check(hub: Hub) -> None:
        everything, some, nothing = hub.attach(), hub.attach(), hub.attach()
        some.control(control(filter={"allow": ["tool.*"], "deny": ["*.stop"]}))
        nothing.control(control(toggle={"enabled": False}))
        for name in ("tool.start", "tool.stop", "other"):
            hub.emit(Event(name, {}, {}))
        hub.detach(nothing)
        hub.emit(Event("tool.late", {}, {}))
        assert await names(everything) == ["tool.start", "tool.stop", "other", "tool.late"]
        assert await names(some) == ["tool.start", "tool.late"]
        assert await names(nothing) == []

    within(check)


def test_sampling_by_pattern() -> None:
    async def check(hub: Hub) -> None:
        stream = hub.attach()
        stream.control(control(sampling={"sampling_rate": 0.0}))
        stream.control(control(sampling={"sampling_rate": 0.5, "event_patterns": ["half.*"]}))
        stream.control(control(sampling={"sampling_rate": 7.0, "event_patterns": ["half.all"]}))
        for lot in range(100):
            for name in ("none", "half.a", "half.b", "half.all"):
                hub.emit(Event(name, {}, {}, lot=lot / 100))
        found = await names(stream)
        # Events of the same lot stay together.
        assert [found.count(name) for name in ("none", "half.a", "half.b", "half.all")] == [0, 50, 50, 100]

    within(check)


def test_a_rule_set_again_is_the_newest() -> None:
    async def check(hub: Hub) -> None:
        stream = hub.attach()
        for rate, pattern in ((0.0, "a*"), (1.0, "ab*"), (0.0, "a*")):
            stream.control(control(sampling={"sampling_rate": rate, "event_patterns": [pattern]}))
        hub.emit(Event("abc", {}, {}))
        assert await names(stream) == []

    within(check)


def test_a_slow_reader_loses_events_and_hears_how_many() -> None:
    async def check(hub: Hub) -> None:
        stream = hub.attach()
        for _ in range(_telemetry.QUEUE + 7):
            hub.emit(Event("x", {}, {}))
        for _ in range(_telemetry.QUEUE):
            event = await stream.next()
            assert event is not None and event.name == "x"
        event = await stream.next()
        assert event is not None and (event.name, event.measurements) == ("telemetry.dropped", {"count": 7})

    within(check)


def test_what_happened_before_goes_to_the_first_reader() -> None:
    async def check(hub: Hub) -> None:
        for number in range(_telemetry.BACKLOG + 2):
            hub.emit(Event(f"early.{number}", {}, {}))
        first, second = hub.attach(), hub.attach()
        found = await names(first)
        assert (found[0], found[-2], found[-1], len(found)) == (
            "early.2",
            f"early.{_telemetry.BACKLOG + 1}",
            "telemetry.dropped",
            _telemetry.BACKLOG + 1,
        )
        assert await names(second) == []

    within(check)


def test_other_threads_wake_the_reader() -> None:
    async def check(hub: Hub) -> None:
        stream = hub.attach()
        for _ in range(200):
            waiting = asyncio.ensure_future(stream.next())
            await asyncio.sleep(0)
            thread = threading.Thread(target=hub.emit, args=(Event("x", {}, {}),))
            thread.start()
            assert await waiting is not None
            thread.join()

    within(check)


def test_closing_ends_every_stream() -> None:
    async def check(hub: Hub) -> None:
        stream = hub.attach()
        waiting = asyncio.ensure_future(stream.next())
        await asyncio.sleep(0)
        hub.close()
        assert await waiting is None
        assert await hub.attach().next() is None

    within(check)


def test_the_wire() -> None:
    event = Event("a.b", {"n": 5, "flag": True, "f": 0.5, "t": "x", "huge": 2**70}, {"k": 1}, "c1")
    message = _proto.TelemetryEvent.FromString(event.wire())
    values = {
        key: (one.WhichOneof("value"), getattr(one, one.WhichOneof("value")))
        for key, one in message.measurements.items()
    }
    assert list(message.event_parts) == ["a", "b"]
    assert dict(message.metadata) == {"k": "1"}
    assert (message.correlation_id, message.timestamp_ns) == ("c1", event.timestamp_ns)
    assert values == {
        "n": ("int_value", 5),
        "flag": ("int_value", 1),
        "f": ("float_value", 0.5),
        "t": ("string_value", "x"),
        "huge": ("string_value", str(2**70)),
    }
