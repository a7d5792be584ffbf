"""Bad input gets a clear error or a close code, costs bounded memory, and other clients notice nothing."""

from __future__ import annotations

import json
import unittest

from gateway_client import Gateway
from patchboard_server import ServerTestCase
from raw_client import BINARY, CLOSE, PING, TEXT, Bystander, close_code, frame, peak_memory, upgrade

MIB = 1024 * 1024
MAX_MEMORY = 150


class BadInputTestCase(ServerTestCase):
    def setUp(self) -> None:
        self.server = self.start_server()
        self.gateway = Gateway(self.server)
        self.addCleanup(self.gateway.close)

    def assert_alive(self) -> None:
        self.assertEqual(self.gateway.result("ping"), "pong")

    def closes_with(self, *frames: bytes) -> int | None:
        """The code with which a connection ends on which these frames are sent."""
        with upgrade(self.server) as plug:
            try:
                plug.sendall(b"".join(frames))
            except (BrokenPipeError, ConnectionResetError):
                pass  # It was closed before all was sent; the reason is there to be read.
            return close_code(plug)


class BadJsonTest(BadInputTestCase):
    def error_of(self, text: str) -> dict:
        self.gateway.socket.send(text)
        answer = self.gateway.next_frame()
        self.assertIn("error", answer, text[:100])
        self.assertLess(len(answer["error"]), 2000, "an error does not repeat its whole cause")
        self.assert_alive()
        return answer

    def test_deep_nesting(self) -> None:
        for depth in (200, 100_000):
            for opening, closing in (("[", "]"), ('{"a":', "}")):
                with self.subTest(depth=depth, opening=opening):
                    nest = opening * depth + "1" + closing * depth
                    self.assertIn(self.error_of('{"id":"1","method":"chat.send","params":%s}' % nest)["id"], ("0", "1"))
                    self.assertEqual(self.error_of(nest)["id"], "0")
                    self.assertEqual(self.error_of(opening * depth)["id"], "0")

    def test_duplicate_keys(self) -> None:
        chat = '"channel":"c","account":"a"'
        duplicates = [
            '{"id":"1","id":"1","method":"ping"}',
            '{"id":"1","method":"ping","method":"status"}',
            '{"id":"1","method":"ping","params":{},"params":{}}',
            '{"id":"1","method":"chat.send","params":{%s,"content":"x","content":"y"}}' % chat,
            '{"id":"1","method":"chat.send","params":{%s,"account":"b","content":"y"}}' % chat,
        ]
        for text in duplicates:
            with self.subTest(text):
                self.error_of(text)
        self.assertEqual(self.gateway.result("session.list")["items"], [])

    def test_huge_ids(self) -> None:
        for size in (10_000, 1_000_000):
            with self.subTest(size):
                self.gateway.send({"id": "x" * size, "method": "nope"})
                answer = self.gateway.next_frame()
                self.assertIn("error", answer)
                self.assertIn(answer["id"], ("0", "x" * size))
        for number in ("1e400", "123456789012345678901234567890", "-0", "1E5"):
            with self.subTest(number):
                self.gateway.socket.send('{"id":%s,"method":"ping"}' % number)
                self.assertIsInstance(self.gateway.next_frame()["id"], str)
        self.assert_alive()

    def test_huge_names(self) -> None:
        for field in ("channel", "account", "peer"):
            with self.subTest(field):
                params = {"channel": "c", "account": "a", "content": "hi", field: "x" * 1_000_000}
                self.assertTrue(self.gateway.error("chat.send", params))
        self.assertEqual(self.gateway.result("session.list")["items"], [])

    def test_broken_escapes_and_odd_characters(self) -> None:
        for text in (
            '{"id":"\\ud800","method":"ping"}',
            '{"id":"\\x","method":"ping"}',
            '{"id":"\t","method":"ping"}',
            "\ufeff{}",
            "NaN",
        ):
            with self.subTest(text):
                self.assertEqual(self.error_of(text)["id"], "0")

    def test_wrong_types_everywhere(self) -> None:
        methods = {
            "chat.history": ["session", "channel", "account", "peer", "limit", "cursor"],
            "session.list": ["channel", "account", "limit", "cursor"],
            "session.clear": ["session", "channel", "account", "purge"],
            "memory.search": ["query", "channel", "account", "limit"],
            "budget.status": ["session"],
            "usage.report": ["since", "group_by", "limit"],
            "approval.answer": ["approval_id", "approve"],
            "chat.cancel": ["id"],
            "chat.attach": ["session", "id", "after"],
            "chat.send": ["channel", "account", "content", "peer", "guild", "team"],
        }
        good = {
            "channel": "c",
            "account": "a",
            "content": "hi",
            "query": "q",
            "id": "x",
            "after": 0,
            "approval_id": "x",
            "approve": True,
        }
        for method, fields in methods.items():
            for field in fields:
                for value in ([], {}, [[]], {"a": {"b": []}}):
                    with self.subTest(method=method, field=field, value=value):
                        params = {name: one for name, one in good.items() if name in fields}
                        self.assertTrue(self.gateway.error(method, {**params, field: value}))

    def test_params_of_the_wrong_shape(self) -> None:
        for method in (
            "chat.send",
            "chat.history",
            "session.clear",
            "memory.search",
            "approval.answer",
            "chat.cancel",
            "chat.attach",
        ):
            for params in ([], ["a", "b"], "text", 5, True):
                with self.subTest(method=method, params=params):
                    self.gateway.send({"id": "1", "method": method, "params": params})
                    answer = self.gateway.next_frame()
                    self.assertEqual((answer["id"], set(answer)), ("1", {"id", "error"}))


class BadFrameTest(BadInputTestCase):
    def test_text_that_is_not_utf_8_is_closed_with_1007(self) -> None:
        for bad in (b'{"id":"\xff","method":"ping"}', b"\xc3\x28", b"\xed\xa0\x80", b"\xf0\x9f\x98"):
            with self.subTest(bad):
                self.assertEqual(self.closes_with(frame(bad)), 1007)
        self.assert_alive()

    def test_a_message_of_17_mib_is_closed_with_1009_and_one_of_15_is_answered(self) -> None:
        with Gateway(self.server) as gateway:
            gateway.send({"id": "1", "method": "ping", "params": "x" * (15 * MIB)})
            self.assertEqual(gateway.next_frame(), {"id": "1", "result": "pong"})
        self.assertEqual(self.closes_with(frame(b"x" * (17 * MIB))), 1009)
        pieces = [frame(b"x" * MIB, TEXT if n == 0 else 0, final=False) for n in range(20)]
        self.assertEqual(self.closes_with(*pieces), 1009)
        # Only the length is told: it must not be waited for.
        self.assertEqual(
            self.closes_with(frame(b"x" * (1 << 16))[:2] + (1 << 40).to_bytes(8, "big") + b"\0\0\0\0"), 1009
        )
        self.assert_alive()
        self.assertLess(peak_memory(self.server), MAX_MEMORY)

    def test_frames_against_the_protocol_are_closed_with_1002(self) -> None:
        ping = b'{"id":"1","method":"ping"}'
        bad = {
            "not masked": frame(ping, masked=False),
            "reserved bit": frame(ping, reserved=4),
            "reserved opcode": frame(ping, 0x3),
            "reserved control opcode": frame(b"", 0xB),
            "continuation of nothing": frame(ping, 0),
            "text within a text": frame(b"{", final=False) + frame(ping),
            "a control frame in pieces": frame(b"", PING, final=False),
            "a control frame of 126 bytes": frame(b"x" * 126, PING),
            "a close frame of one byte": frame(b"x", CLOSE),
            "a close code that may not be sent": frame((1005).to_bytes(2, "big"), CLOSE),
        }
        for name, bytes_ in bad.items():
            with self.subTest(name):
                self.assertEqual(self.closes_with(bytes_), 1002)
        self.assert_alive()

    def test_binary_frames_are_ignored(self) -> None:
        for payload in (b"", b"\0" * 1000, b'{"id":"1","method":"ping"}', b"x" * MIB):
            self.gateway.socket.send(payload)
        self.gateway.send({"id": "after", "method": "ping"})
        self.assertEqual(self.gateway.next_frame(), {"id": "after", "result": "pong"})

    def test_a_flood_of_bad_frames_is_not_noticed_by_others(self) -> None:
        nest = ('{"id":"1","method":"ping","params":' + "[" * 50_000).encode()
        with Bystander(self.server) as bystander:
            for _ in range(20):
                with upgrade(self.server) as plug:
                    plug.sendall(b"".join([frame(nest), frame(b"{"), frame(b"x" * MIB, BINARY), frame(b"null")] * 5))
                    plug.sendall(frame(b"\xff"))
                    self.assertEqual(close_code(plug), 1007)
            bystander.wait_for_pings(5)
        self.assertLess(peak_memory(self.server), MAX_MEMORY)

    def test_a_message_that_stops_half_way_costs_no_more_than_what_was_sent(self) -> None:
        plugs = [upgrade(self.server) for _ in range(100)]
        start = frame(b"x" * (15 * MIB))[: MIB // 2]
        for plug in plugs:
            self.addCleanup(plug.close)
            plug.sendall(start)
        self.assert_alive()
        self.assertLess(peak_memory(self.server), MAX_MEMORY)

    def test_content_that_fills_a_message_is_an_error_or_an_answer(self) -> None:
        params = {"channel": "c", "account": "a", "content": "words " * (2 * MIB)}
        request = self.gateway.ask("chat.send", params)
        first = self.gateway.next_of(request, 60)
        self.assertTrue({"error", "event"} & set(first), json.dumps(first)[:500])
        self.assert_alive()


if __name__ == "__main__":
    unittest.main()
