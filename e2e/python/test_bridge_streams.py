"""ExecuteStreamingTool: chunks in order, their end, back-pressure, cancelling, and every way to fail."""

from __future__ import annotations

import json
import time
import unittest

from bridge_case import LONG, BridgeTestCase, Bystander, Pool, SharedBridgeCase, resident_mebibytes
from bridge_client import TIMEOUT, Code, grpc, raw_any, registration, together, wire
from gateway_client import eventually


class StreamCase(SharedBridgeCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.serve_all("", Pool(cls.make_notes(), capacity=4))


class GoodTest(StreamCase):
    def test_chunks_come_as_the_worker_sends_them(self) -> None:
        chunks = list(self.bridge.stream("count_to", {"n": 3}))
        self.assertEqual([json.loads(one.data)["n"] for one in chunks[:3]], [1, 2, 3])
        self.assertEqual([one.chunk_id for one in chunks], [f"count_to-{at}" for at in range(1, 5)])
        self.assertEqual([one.is_final for one in chunks], [False] * 3 + [True])
        final = chunks[-1]
        self.assertEqual(final.metadata["tool_type"], "remote")
        self.assertRegex(final.metadata["execution_time_ms"], r"^\d+(\.\d+)?$")
        self.assertTrue(final.metadata["worker_id"])

    def test_data_of_every_kind(self) -> None:
        data = [one.data for one in self.bridge.stream("pieces")]
        self.assertEqual(data, [b"", b"\x00\xff", b"text", b"[1, null]", b""])

    def test_a_thousand_chunks_in_order(self) -> None:
        chunks = list(self.bridge.stream("count_to", {"n": 1000}))
        self.assertEqual([json.loads(one.data)["n"] for one in chunks[:-1]], list(range(1, 1001)))

    def test_nothing_at_all_has_an_end_too(self) -> None:
        chunks = list(self.bridge.stream("count_to", {"n": 0}))
        self.assertEqual([one.is_final for one in chunks], [True])

    def test_the_first_chunk_does_not_wait_for_the_second(self) -> None:
        call = self.bridge.stream("wait_stream")
        # There is no second one for an hour.
        self.assertEqual(next(call).data, b"waiting")
        call.cancel()

    def test_several_at_once(self) -> None:
        counts = together(
            4, lambda at: [json.loads(one.data)["n"] for one in self.bridge.stream("count_to", {"n": 200}) if one.data]
        )
        self.assertEqual(counts, [list(range(1, 201))] * 4)

    def test_the_field_stream_makes_no_difference(self) -> None:
        self.assertEqual(len(list(self.bridge.stream("count_to", {"n": 2}, stream=True))), 3)
        self.assertEqual(self.bridge.value("add", {"a": 1, "b": 2}, stream=True), 3)


class BadTest(StreamCase):
    def test_what_is_not_there(self) -> None:
        refused = self.bridge.refused_stream("count_to", {"n": 1}, session="nobody")
        self.assertEqual((refused.code, refused.text), (Code.NOT_FOUND, "Session not found: nobody"))
        refused = self.bridge.refused_stream("nosuch")
        self.assertEqual(refused.code, Code.NOT_FOUND)
        self.assertEqual(refused.text, f"Tool nosuch not found for session {self.bridge.session}")

    def test_a_tool_that_does_not_stream(self) -> None:
        before = len(self.notes.lines("add"))
        refused = self.bridge.refused_stream("add", {"a": 1, "b": 2})
        self.assertEqual(refused.code, Code.UNIMPLEMENTED)
        self.assertIn("Streaming execution is not enabled", refused.text)
        self.assertEqual(len(self.notes.lines("add")), before)

    def test_a_bad_parameter(self) -> None:
        refused = self.bridge.refused_stream("count_to", {"n": raw_any(b"{")})
        self.assertEqual(refused.code, Code.INVALID_ARGUMENT)
        self.assertTrue(refused.text.startswith("Invalid parameter n: "), refused.text)

    def test_a_tool_that_breaks_off(self) -> None:
        call = self.bridge.stream("bad_stream")
        self.assertEqual([next(call).data, next(call).data], [b"one", b"two"])
        with self.assertRaises(grpc.RpcError) as broken:
            next(call)
        self.assertEqual(broken.exception.code(), Code.INTERNAL)
        error = json.loads(broken.exception.details())
        self.assertEqual((error["type"], error["message"]), ("ValueError", "no three"))

    def test_a_tool_that_hangs_has_a_deadline(self) -> None:
        refused = self.limited(
            lambda: self.bridge.refused_stream("hanging_stream", metadata={"timeout_ms": "500"}, timeout=LONG)
        )
        self.assertEqual(refused.code, Code.DEADLINE_EXCEEDED)

    def test_an_outsider_s_tool(self) -> None:
        self.bridge.register(self.bridge.session, registration("far", streams=True), worker="far-away")
        self.assertIn("far-away", self.bridge.refused_stream("far").text)


class PressureTest(BridgeTestCase):
    def test_a_reader_that_stops_stops_the_worker_and_cancelling_ends_it(self) -> None:
        bridge = self.serve("", self.pool(count=1, capacity=2))
        bridge.open()
        call = bridge.stream("flood", {"size": 1 << 16}, timeout=120)
        for _ in range(5):
            self.assertEqual(len(next(call).data), 1 << 16)
        produced = self.still("flood")
        # A hundred chunks wait in the worker itself; the rest are buffers on the way.
        self.assertLess(produced, 1000, "64 MB on the way to a reader that does not read")
        memory = resident_mebibytes(self.server.pid)
        with Bystander(self.server.address("bridge")) as bystander:
            self.assertEqual(bridge.value("add", {"a": 1, "b": 2}), 3, "others work on")
            bystander.wait_for_pings(20)
        for _ in range(produced + 100):
            next(call)
        eventually(lambda: len(self.notes.lines("flood")) > produced, "it goes on when read")
        self.still("flood")
        self.assertLess(resident_mebibytes(self.server.pid), memory + 64)
        call.cancel()
        self.notes.wait_for("flood-stopped")

    def still(self, name: str) -> int:
        """The number of lines once it no longer grows."""
        deadline = time.monotonic() + 2 * TIMEOUT
        count = -1
        while (now := len(self.notes.lines(name))) != count:
            self.assertLess(time.monotonic(), deadline, f"{name} goes on and on: {now}")
            count = now
            time.sleep(0.5)
        return count

    def test_cancelling_reaches_the_worker_and_so_does_going_away(self) -> None:
        bridge = self.serve("", self.pool())
        bridge.open()
        call = bridge.stream("wait_stream")
        next(call)
        self.notes.wait_for("wait_stream")
        call.cancel()
        self.notes.wait_for("wait_stream-stopped")
        client = self.client()
        call = client.stream("wait_stream")
        next(call)
        eventually(lambda: len(self.notes.lines("wait_stream")) == 2, "the second waits")
        client.close()
        eventually(lambda: len(self.notes.lines("wait_stream-stopped")) == 2, "the second hears of it")

    def test_an_open_stream_takes_a_place(self) -> None:
        bridge = self.serve('queue_timeout = "300ms"\n', self.pool(capacity=1))
        bridge.open()
        call = bridge.stream("wait_stream")
        next(call)
        refused = bridge.refused_call("add", {"a": 1, "b": 2})
        self.assertEqual(refused.code, Code.DEADLINE_EXCEEDED)
        self.assertIn("queue_timeout", refused.text)
        self.assertEqual(self.notes.lines("add"), [])
        call.cancel()
        eventually(
            lambda: isinstance(bridge.outcome("add", {"a": 1, "b": 2}), wire.ExecuteToolResponse), "a free place"
        )

    def test_a_worker_that_dies_ends_its_streams(self) -> None:
        pool = self.pool(count=1, capacity=3)
        bridge = self.serve("", pool)
        bridge.open()
        call = bridge.stream("wait_stream")
        next(call)
        bridge.outcome("crash")
        with self.assertRaises(grpc.RpcError) as ended:
            next(call)
        self.assertEqual(ended.exception.code(), Code.UNAVAILABLE)

    def test_the_server_s_end_ends_it_within_the_drain(self) -> None:
        bridge = self.serve("", self.pool(), before='drain = "1s"\n')
        bridge.open()
        call = bridge.stream("wait_stream", timeout=LONG)
        next(call)
        self.assertEqual(self.server.terminate(2 * TIMEOUT), 0)
        with self.assertRaises(grpc.RpcError):
            next(call)


if __name__ == "__main__":
    unittest.main()
