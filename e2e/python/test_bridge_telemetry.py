"""Events: what workers tell is joined and served to any client, each stream with its own wishes."""

from __future__ import annotations

import itertools
import time
import unittest

from bridge_case import BridgeTestCase, Pool, SharedBridgeCase
from bridge_client import Listener, event_filter, measurements_of, sampling, toggle, wire
from gateway_client import eventually

START, STOP, MEMORY = "tool.execution.start", "tool.execution.stop", "python.memory.sampled"


def is_called(event, name: str, mark: str | None = None) -> bool:
    return ".".join(event.event_parts) == name and (mark is None or event.metadata.get("mark") == mark)


class TelemetryCase(BridgeTestCase):
    def listen(self, *controls) -> Listener:
        listener = self.bridge.listen(*controls)
        self.addCleanup(listener.close)
        return listener

    def telling(self) -> str:
        """A session whose events are wanted."""
        return self.session(config={"enable_telemetry": True})

    def emit(self, name: str, mark: str, **options) -> None:
        self.bridge.value(
            "emit",
            {"name": name, "measurements": {"duration_ms": 1.5, "count": 2}, "metadata": {"mark": mark}},
            session=options.pop("session", self.teller),
            **options,
        )

    def expect(self, listener: Listener, name: str, mark: str):
        return listener.until(lambda event: is_called(event, name, mark), f"{name} {mark}")

    def came(self, listener: Listener, name: str, mark: str) -> bool:
        return any(is_called(event, name, mark) for event in listener.seen)


class ServedTest(SharedBridgeCase, TelemetryCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.serve_all("", Pool(cls.make_notes()))

    def setUp(self) -> None:
        super().setUp()
        self.teller = self.telling()

    def test_what_a_worker_tells(self) -> None:
        listener = self.listen(toggle(True))
        before = time.time_ns()
        self.emit(START, "a", headers=[(wire.CORRELATION, "my-id")])
        event = self.expect(listener, START, "a")
        self.assertEqual(measurements_of(event), {"duration_ms": 1.5, "count": 2})
        self.assertEqual(event.correlation_id, "my-id")
        self.assertTrue(before <= event.timestamp_ns <= time.time_ns(), event.timestamp_ns)
        self.assertEqual(event.metadata["pool_name"], "py")
        self.assertTrue(event.metadata["worker_id"])

    def test_what_the_server_tells_of_a_call(self) -> None:
        listener = self.listen(toggle(True))
        self.bridge.value("add", {"a": 1, "b": 2}, session=self.teller, headers=[(wire.CORRELATION, "call-1")])
        event = listener.until(lambda one: one.correlation_id == "call-1", "an event of the call")
        self.assertTrue(all(event.event_parts))

    def test_on_and_off(self) -> None:
        listener, other = self.listen(toggle(True)), self.listen(toggle(True))
        self.until_heard(other, "other")
        self.emit(START, "on")
        self.expect(listener, START, "on")
        listener.say(toggle(False))
        self.settle(listener, other)
        self.emit(START, "off")
        # What has come to the one has been told to all.
        self.expect(other, START, "off")
        listener.say(toggle(True))
        self.until_heard(listener, "again")
        self.assertFalse(self.came(listener, START, "off"))

    def until_heard(self, listener: Listener, mark: str) -> None:
        """Tells again and again until the listener hears it: controls take their time."""

        def heard() -> bool:
            self.emit(START, mark)
            return self.came(listener, START, mark)

        eventually(heard, f"{mark} is heard")

    def settle(self, listener: Listener, other: Listener) -> None:
        """Until the listener hears nothing more of what the other one hears, so that a control is known to work."""
        numbers = itertools.count()

        def is_silent() -> bool:
            mark = f"settle-{next(numbers)}"
            self.emit(START, mark)
            self.expect(other, START, mark)
            # What is on its way to the one may be a little later than it was to the other.
            time.sleep(0.2)
            return not self.came(listener, START, mark)

        eventually(is_silent, "it is no longer told")

    def test_filters(self) -> None:
        for at, (allow, deny, heard, unheard) in enumerate(
            (
                (("tool.*",), (), [START, STOP], [MEMORY]),
                ((), ("tool.execution.*",), [MEMORY], [START, STOP]),
                (("tool.*", "python.*"), ("*.stop",), [START, MEMORY], [STOP]),
                ((START,), (), [START], [STOP, MEMORY]),
            )
        ):
            with self.subTest(f"{allow} {deny}"):
                listener = self.listen(event_filter(allow, deny), toggle(True))
                mark = f"filter-{at}"
                self.until_any(listener, heard[0])
                for name in (*unheard, *heard):
                    self.emit(name, mark)
                for name in heard:
                    self.expect(listener, name, mark)
                for name in unheard:
                    self.assertFalse(self.came(listener, name, mark), name)
                listener.close()

    def until_any(self, listener: Listener, name: str) -> None:
        def heard() -> bool:
            self.emit(name, "warm")
            return self.came(listener, name, "warm")

        eventually(heard, f"{name} is heard")

    def test_sampling_by_pattern(self) -> None:
        listener = self.listen(toggle(True), sampling(0.0, "tool.*"))
        self.until_any(listener, MEMORY)
        for at in range(20):
            self.emit(START, f"sampled-{at}")
        self.emit(MEMORY, "after")
        self.expect(listener, MEMORY, "after")
        self.assertEqual([at for at in range(20) if self.came(listener, START, f"sampled-{at}")], [])

    def test_sampling_takes_a_part(self) -> None:
        listener = self.listen(toggle(True), sampling(0.5, "tool.*"))
        self.until_any(listener, MEMORY)
        for at in range(100):
            self.emit(START, f"half-{at}")
        self.emit(MEMORY, "after")
        self.expect(listener, MEMORY, "after")
        part = sum(self.came(listener, START, f"half-{at}") for at in range(100))
        self.assertTrue(20 <= part <= 80, part)

    def test_sampling_of_all(self) -> None:
        listener = self.listen(toggle(True), sampling(7.0))
        self.until_heard(listener, "all")
        for at in range(20):
            self.emit(START, f"all-{at}")
        for at in range(20):
            self.expect(listener, START, f"all-{at}")

    def test_streams_do_not_disturb_each_other(self) -> None:
        first = self.listen(toggle(True))
        self.until_heard(first, "first")
        second = self.listen(event_filter(("python.*",)), toggle(True))
        self.until_any(second, MEMORY)
        for at in range(10):
            self.emit(START, f"both-{at}")
            self.emit(MEMORY, f"both-{at}")
        for at in range(10):
            self.expect(first, START, f"both-{at}")
            self.expect(first, MEMORY, f"both-{at}")
            self.expect(second, MEMORY, f"both-{at}")
        self.assertFalse(any(is_called(event, START) for event in second.seen))
        second.say(toggle(False))
        second.say(sampling(0.0))
        second.close()
        for at in range(10):
            self.emit(START, f"alone-{at}")
            self.expect(first, START, f"alone-{at}")

    def test_a_stream_without_a_word_is_let_be(self) -> None:
        silent = self.listen()
        other = self.listen(toggle(True))
        self.until_heard(other, "heard")
        self.assertIsNone(silent.ending)

    def test_one_that_does_not_read_keeps_nobody_waiting(self) -> None:
        deaf = self.bridge.stub.StreamTelemetry(iter([toggle(True)]), timeout=120)
        deaf.initial_metadata()
        listener = self.listen(toggle(True))
        self.until_heard(listener, "warm")
        for at in range(300):
            self.emit(START, f"much-{at}")
        self.expect(listener, START, "much-299")
        deaf.cancel()

    def test_a_session_that_does_not_want_it_is_not_told_of(self) -> None:
        quiet = self.session(config={"enable_telemetry": False})
        listener = self.listen(toggle(True))
        self.until_heard(listener, "warm")
        self.bridge.value("add", {"a": 1, "b": 2}, session=quiet, headers=[(wire.CORRELATION, "quiet-1")])
        self.bridge.value("add", {"a": 1, "b": 2}, session=self.teller, headers=[(wire.CORRELATION, "loud-1")])
        listener.until(lambda one: one.correlation_id == "loud-1", "the loud one")
        self.assertFalse(any(one.correlation_id == "quiet-1" for one in listener.seen))

    def test_the_worker_s_stream_comes_back_when_it_breaks(self) -> None:
        listener = self.listen(toggle(True))
        self.until_heard(listener, "before")
        self.bridge.value("drop_telemetry", session=self.teller)
        self.until_heard(listener, "after")


class ManyTest(TelemetryCase):
    def test_all_workers_are_joined(self) -> None:
        pool = self.pool(count=2, capacity=1)
        self.serve("", pool)
        sessions = [self.telling() for _ in range(2)]
        self.teller = sessions[0]
        listener = self.listen(toggle(True))
        busy = self.in_background(lambda: [self.emit(START, f"one-{at}", session=sessions[0]) for at in range(30)])
        for at in range(30):
            self.emit(START, f"two-{at}", session=sessions[1])
        busy.result()
        self.expect(listener, START, "one-29")
        self.expect(listener, START, "two-29")

    def test_of_a_worker_that_is_replaced(self) -> None:
        pool = self.pool(capacity=1)
        self.serve("", pool)
        self.teller = self.telling()
        listener = self.listen(toggle(True))
        before = pool.pids()
        self.bridge.outcome("crash", session=self.teller)
        eventually(lambda: pool.ready_pids() - before, "another one")

        def heard() -> bool:
            self.bridge.outcome(
                "emit", {"name": START, "measurements": {}, "metadata": {"mark": "new"}}, session=self.teller
            )
            return self.came(listener, START, "new")

        eventually(heard, "the new worker is heard")


if __name__ == "__main__":
    unittest.main()
