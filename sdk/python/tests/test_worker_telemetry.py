"""Telemetry over the wire."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from calling import TRACE, execute, result
from running import Worker

from patchboard import _proto


@contextmanager
def listening(worker: Worker, *controls: Any) -> Iterator[Any]:
    """An open stream whose settings are in force."""
    sending: queue.SimpleQueue[Any] = queue.SimpleQueue()
    # A mark that passes every setting of the tests shows that what was sent before has been read.
    for control in controls:
        sending.put(control)
    call = worker.rpc("StreamTelemetry")(iter(sending.get, None), timeout=30)
    call.initial_metadata()
    yield call
    sending.put(None)
    call.cancel()


def until(call: Any, name: str, correlation_id: str) -> list[Any]:
    """The events of one call up to the named one."""
    found = []
    for event in call:
        if event.correlation_id == correlation_id:
            found.append(event)
            if ".".join(event.event_parts) == name:
                return found
    raise AssertionError(f"{name} did not come")


def names(events: list[Any]) -> list[str]:
    return [".".join(event.event_parts) for event in events]


def test_every_call_tells(tools: Worker) -> None:
    with listening(tools, _proto.TelemetryControl(toggle={"enabled": True})) as call:
        headers = {"x-snakepit-correlation-id": "sp-t1", "traceparent": TRACE}
        result(tools, "tell", session_id="ts", headers=headers)
        events = until(call, "tool.execution.stop", "sp-t1")
        assert names(events) == [
            "tool.execution.start",
            "tool.progress",
            "tool.progress",
            "model.loaded",
            "tool.execution.stop",
        ]
        start, quarter, words, loaded, stop = events
        about = {"tool_name": "tell", "session_id": "ts", "traceparent": TRACE}
        assert dict(start.metadata) == about
        assert stop.measurements["duration"].int_value > 0 and dict(stop.metadata) == about
        assert quarter.measurements["fraction"].float_value == 0.25
        assert dict(quarter.metadata) == {**about, "message": "a quarter"}
        assert (dict(words.measurements), words.metadata["message"]) == ({}, "words only")
        assert loaded.measurements["huge"].string_value == str(2**70)
        assert dict(loaded.metadata) == {**about, "kind": "tiny"}
        execute(tools, "fail", headers={"x-snakepit-correlation-id": "sp-t2"})
        start, failed = until(call, "tool.execution.exception", "sp-t2")
        assert failed.metadata["error_type"] == "ValueError"


def test_each_stream_has_its_own_settings(tools: Worker) -> None:
    control = _proto.TelemetryControl
    quiet = [
        control(filter={"allow": ["tool.*"], "deny": ["tool.progress"]}),
        control(sampling={"sampling_rate": 0.0, "event_patterns": ["*.start"]}),
    ]
    with listening(tools) as loud, listening(tools, *quiet) as call:
        # Settings are read while events flow: at some call they are in force, and stay so.
        for number in range(200):
            result(tools, "tell", headers={"x-snakepit-correlation-id": f"sp-q{number}"})
            events = until(call, "tool.execution.stop", f"sp-q{number}")
            if names(events) == ["tool.execution.stop"]:
                break
        else:
            raise AssertionError("the settings never came into force")
        result(tools, "tell", headers={"x-snakepit-correlation-id": "sp-after"})
        assert names(until(call, "tool.execution.stop", "sp-after")) == ["tool.execution.stop"]
        call.cancel()
        assert len(until(loud, "tool.execution.stop", "sp-after")) == 5


def test_a_flood_is_counted(tools: Worker) -> None:
    with listening(tools) as call:
        result(tools, "flood", {"events": 200_000}, headers={"x-snakepit-correlation-id": "sp-f"})
        seen = dropped = 0
        for event in call:
            name = ".".join(event.event_parts)
            if name == "flood.drop":
                seen += 1
            elif name == "telemetry.dropped":
                dropped += event.measurements["count"].int_value
            if seen + dropped >= 200_000:
                break
        assert dropped > 0 and seen > 0
