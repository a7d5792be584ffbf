"""What no good client sends: garbage, too much of everything, and half of it. A bystander notices nothing."""

from __future__ import annotations

import os
import socket
import unittest

from bridge_case import Bystander, Pool, SharedBridgeCase, resident_mebibytes
from bridge_client import (
    MESSAGE_LIMIT,
    SIZES,
    Code,
    execution,
    grpc,
    json_any,
    opening,
    raw_any,
    registration,
    together,
    wire,
)
from gateway_client import eventually

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"


class BadInputCase(SharedBridgeCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.serve_all("", Pool(cls.make_notes()))

    def setUp(self) -> None:
        super().setUp()
        bystander = Bystander(self.server.address("bridge"))
        bystander.__enter__()
        self.addCleanup(self.leave, bystander)

    def leave(self, bystander: Bystander) -> None:
        bystander.wait_for_pings()
        bystander.__exit__(None)
        self.assertTrue(self.server.is_running)

    def plug(self) -> socket.socket:
        host, port = self.server.address("bridge").rsplit(":", 1)
        plug = socket.create_connection((host, int(port)), timeout=30)
        self.addCleanup(plug.close)
        return plug

    def raw(self, name: str, data: bytes, **options):
        """The status of an RPC whose message is these bytes."""
        try:
            self.bridge.channel.unary_unary(f"/{wire.SERVICE}/{name}")(data, timeout=30, **options)
            return None
        except grpc.RpcError as error:
            return error.code()


class WireTest(BadInputCase):
    def test_bytes_that_are_no_http(self) -> None:
        for data in (
            b"\x00" * 1000,
            os.urandom(100_000),
            b"\x16\x03\x01\x02\x00\x01\x00",
            b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
            b"POST /snakepit.bridge.BridgeService/Ping HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n\0\0\0\0\0",
            PREFACE + os.urandom(1000),
            PREFACE + SETTINGS + b"\xff\xff\xff\x01\x05\x00\x00\x00\x01" + b"\x00" * 1000,
            # A stream that was never opened.
            PREFACE + SETTINGS + b"\x00\x00\x01\x00\x01\x00\x00\x00\x07\x00",
        ):
            with self.subTest(data[:30]):
                plug = self.plug()
                try:
                    plug.sendall(data)
                    plug.shutdown(socket.SHUT_WR)
                    while plug.recv(65536):
                        pass
                except OSError:
                    pass  # Reset: it was told enough.

    def test_half_open_connections(self) -> None:
        for data in (b"", PREFACE[:10], PREFACE, PREFACE + SETTINGS + b"\x00\x10\x00\x01\x04\x00\x00\x00\x01"):
            for _ in range(10):
                self.plug().sendall(data)
        self.bridge.ping()

    def test_resets_without_end(self) -> None:
        """Streams opened and reset again and again on one connection."""
        client = self.client()
        for _ in range(2000):
            client.stub.Ping.future(wire.PingRequest(message="x"), timeout=30).cancel()
        # That connection may be closed for it; a new one is not.
        self.client().ping()

    def test_a_web_page_cannot_call(self) -> None:
        """A browser speaks HTTP/1.1 to a plain port, whatever the content."""
        plug = self.plug()
        plug.sendall(
            b"POST /snakepit.bridge.BridgeService/InitializeSession HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Origin: https://evil.example\r\nContent-Type: application/grpc-web\r\nContent-Length: 13\r\n\r\n"
            b"\x00\x00\x00\x00\x08\x0a\x06by-web"
        )
        try:
            plug.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := plug.recv(65536):
                answer += piece
        except OSError:
            answer = b""
        self.assertNotIn(b" 200 ", answer)
        self.assertFalse(self.bridge.is_there("by-web"))


class MessageTest(BadInputCase):
    def test_bytes_that_are_no_message(self) -> None:
        for name in wire.METHODS:
            if wire.METHODS[name][2:] != ("unary", "unary"):
                continue
            for data in (b"\xff", b"\x0a\xff", b"\x0a\x05ab", b"\x08" * 100, os.urandom(1000), b"\x0a\x02\xff\xfe"):
                with self.subTest(f"{name} {data[:20]}"):
                    self.assertIsNotNone(self.raw(name, data))
        self.bridge.ping()

    def test_unknown_fields_are_passed_over(self) -> None:
        self.assertIsNone(self.raw("Ping", wire.PingRequest(message="x").SerializeToString() + b"\xa2\x06\x03abc"))

    def test_nothing_at_all(self) -> None:
        self.assertIsNone(self.raw("Ping", b""))
        self.assertEqual(self.raw("InitializeSession", b""), Code.INVALID_ARGUMENT)
        self.assertEqual(self.raw("GetSession", b""), Code.NOT_FOUND)
        for name in ("ExecuteTool", "ExecuteElixirTool", "RegisterTools", "CleanupSession", "Heartbeat"):
            self.raw(name, b"")
        self.bridge.ping()

    def test_odd_headers(self) -> None:
        for headers in (
            [(wire.CORRELATION, "x" * 4000)],
            [(wire.CORRELATION, "")],
            [(wire.CORRELATION, "a"), (wire.CORRELATION, "b")],
            [("traceparent", "nonsense")],
            [("traceparent", "00-" + "0" * 32 + "-" + "0" * 16 + "-00")],
            [("x-odd-bin", b"\x00\xff")],
        ):
            with self.subTest(headers):
                self.bridge.outcome("add", {"a": 1, "b": 2}, headers=headers)
                self.assertEqual(self.bridge.value("add", {"a": 1, "b": 2}), 3)


class SizeTest(BadInputCase):
    def test_a_message_over_the_limit_is_refused(self) -> None:
        data = b"x" * (MESSAGE_LIMIT + 1)
        request = execution(self.bridge.session, "measure", binary={"data": data})
        refused = self.bridge.refused("ExecuteTool", request, timeout=120)
        self.assertIn(refused.code, (Code.RESOURCE_EXHAUSTED, Code.OUT_OF_RANGE))
        self.assertEqual(self.notes.lines("measure").count(str(len(data))), 0)
        self.bridge.ping()

    def test_one_just_under_it_is_not(self) -> None:
        size = MESSAGE_LIMIT - 4096
        measured = self.bridge.value("measure", binary={"data": b"x" * size}, timeout=120)
        self.assertEqual(measured["length"], size)

    def test_many_big_ones_at_once_cost_bounded_memory(self) -> None:
        data = b"x" * (16 << 20)
        before = resident_mebibytes(self.server.pid)
        together(8, lambda at: self.bridge.outcome("measure", binary={"data": data}, timeout=120))
        eventually(lambda: resident_mebibytes(self.server.pid) < before + 300, "the memory is given back", 60)

    def test_very_many_parameters(self) -> None:
        arguments = {f"p{at}": json_any(at) for at in range(50_000)}
        self.bridge.outcome("describe", arguments, timeout=120)
        self.bridge.outcome("variable_list", arguments, timeout=120)
        self.bridge.ping()

    def test_very_much_metadata(self) -> None:
        self.bridge.outcome("echo", {"value": 1}, metadata={f"k{at}": "v" * 100 for at in range(50_000)}, timeout=120)
        self.bridge.outcome("echo", {"value": 1}, metadata={"k": "v" * (20 << 20)}, timeout=120)
        self.bridge.ping()

    def test_duplicate_keys_and_odd_text_in_json(self) -> None:
        for data in (b'{"a":1,"a":2}', b'"\\ud800"', b'"\\u0000"', b'{"__snakepit_zero_copy__":true}', b"1e999", b"-0"):
            with self.subTest(data):
                self.bridge.outcome("describe", {"value": raw_any(data)})
                self.bridge.outcome("variable_set", {"name": "x", "value": raw_any(data)})
                self.assertEqual(self.bridge.value("add", {"a": 1, "b": 2}), 3)

    def test_names_out_of_all_reason(self) -> None:
        for name in ("x" * 1_000_000, "\0", "a\nb", "../../x", "ü"):
            with self.subTest(name[:20]):
                text = self.bridge.failure(name)
                self.assertLess(len(text), 10_000)
                self.assertLess(len(self.bridge.refused_stream(name).text), 10_000)

    def test_a_thousand_sessions_at_once(self) -> None:
        def open_many(at: int) -> None:
            for number in range(50):
                self.bridge.open(f"many-{at}-{number}")

        together(20, open_many)
        self.assertEqual(self.bridge.refused("InitializeSession", opening("")).code, Code.INVALID_ARGUMENT)


class WorkerReplyTest(SharedBridgeCase):
    """A worker cannot read answers over 4 MiB: it is told so instead, and lives."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.serve_all("", Pool(cls.make_notes()))

    def test_a_session_with_more_tools_than_fit(self) -> None:
        """A worker opens the session on every call, and the answer lists the session's tools."""
        tools = [registration(f"wordy{at}", description="x" * 16_000) for at in range(500)]
        for at in range(0, len(tools), 50):
            if not self.bridge.register(self.bridge.session, *tools[at : at + 50]).success:
                break
        listed = sum(spec.ByteSize() for spec in self.bridge.tools().values())
        self.assertGreater(listed, 4 << 20, "others are told all of it")
        self.assertEqual(self.bridge.value("echo", {"value": "still here"}), "still here")
        self.assertEqual(self.notes.lines("trouble"), [], f"the worker could not read {listed} bytes")

    def test_a_host_tool_s_long_answer_gets_to_a_worker(self) -> None:
        for at, size in enumerate([262_000] * 15 + [200] * 100):
            self.bridge.host_value("variable_set", {"name": f"variable{at}", "value": "x" * size})
        pid = self.bridge.value("where")["pid"]
        watch = {"name": "variable_watch", "arguments": {"since": 0, "timeout_ms": 1}}
        changes = self.bridge.value("call_host", watch)["result"]["changes"]
        self.assertEqual(len(changes), 115)
        self.assertEqual(self.bridge.value("where")["pid"], pid)

    def test_a_client_with_default_limits_gets_what_fits(self) -> None:
        small = self.client(options=[one for one in SIZES if one[0] != "grpc.max_receive_message_length"])
        small.session = self.bridge.session
        self.assertEqual(len(small.value("make", {"kind": "string", "size": 3 << 20})), 3 << 20)
        self.assertEqual(small.refused_call("make", {"kind": "string", "size": 5 << 20}).code, Code.RESOURCE_EXHAUSTED)
        self.assertEqual(small.value("add", {"a": 1, "b": 2}), 3)


if __name__ == "__main__":
    unittest.main()
