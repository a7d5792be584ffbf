"""Apps that misbehave: too large, too deep, too many, not text at all. The others must notice nothing."""

from __future__ import annotations

import json
import struct
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

import raw_client
from gateway_client import eventually
from hub_case import NOTEBOOK, Bystander, HubTestCase
from hub_client import TIMEOUT, App, registration, side, upgrade
from raw_client import BINARY, CLOSE, PING, TEXT, close_code, frame, is_closed_within, peak_memory

MEBIBYTE = 1_048_576


def padded(size: int, name: str = "notebook") -> str:
    """A registration of exactly so many bytes."""
    bare = len(json.dumps(registration(name, padding="")))
    return json.dumps(registration(name, padding="x" * (size - bare)))


class BadInputTestCase(HubTestCase):
    hub = ""

    def setUp(self) -> None:
        self.serve(self.hub)
        bystander = Bystander(self)
        # Left before the test case's own cleaning up.
        bystander.__enter__()
        self.addCleanup(self.see_off, bystander)
        self.bystander = bystander

    def see_off(self, bystander: Bystander) -> None:
        """The bystander's messages have all been delivered and still are, and the server is the one it was."""
        try:
            bystander.more_rounds()
        finally:
            bystander.__exit__(None)
        self.assertTrue(self.server.is_running)

    def plug(self):
        plug = upgrade(self.server)
        self.addCleanup(plug.close)
        return plug


class SizeTest(BadInputTestCase):
    def test_a_mebibyte_passes(self) -> None:
        for as_bytes in (False, True):
            with self.subTest(as_bytes=as_bytes):
                name = f"notebook{as_bytes}"
                text = padded(MEBIBYTE, name)
                self.assertEqual(len(text.encode()), MEBIBYTE)
                app = self.app()
                app.send_raw(text.encode() if as_bytes else text)
                self.assertIs(app.take("registration_response")["payload"]["success"], True)

    def test_one_byte_more_closes_with_1009(self) -> None:
        for name in (None, "registered"):
            with self.subTest(registered=name is not None):
                app = self.app(name)
                app.send_raw(padded(MEBIBYTE + 1))
                self.assertEqual(app.closed_with(), 1009)

    def test_in_pieces_as_well(self) -> None:
        plug = self.plug()
        piece = b"x" * 300_000
        plug.sendall(frame(b'{"a":"' + piece, TEXT, final=False))
        for _ in range(2):
            plug.sendall(frame(piece, 0, final=False))
        try:
            plug.sendall(frame(piece, 0))
        except OSError:
            pass  # It may have been closed already.
        self.assertEqual(close_code(plug), 1009)

    def test_in_pieces_a_mebibyte_passes(self) -> None:
        plug = self.plug()
        text = padded(MEBIBYTE).encode()
        plug.sendall(frame(text[:500_000], TEXT, final=False))
        plug.sendall(frame(text[500_000:700_000], 0, final=False))
        plug.sendall(frame(b"in between", PING))
        plug.sendall(frame(text[700_000:], 0))
        eventually(lambda: not self.is_free("notebook"), "it registered")

    def test_a_promise_of_too_much_is_not_waited_for(self) -> None:
        for length in (MEBIBYTE + 1, 1 << 40, (1 << 63) - 1):
            with self.subTest(length):
                plug = self.plug()
                plug.sendall(struct.pack("!BBQ", 0x81, 0x80 | 127, length) + b"\0\0\0\0" + b"x" * 100)
                self.assertIn(close_code(plug), (1009, 1002))

    def test_memory_is_bounded(self) -> None:
        before = peak_memory(self.server)
        plugs = [self.plug() for _ in range(50)]
        with ThreadPoolExecutor(10) as pool:
            list(pool.map(lambda plug: plug.sendall(frame(b"x" * (MEBIBYTE - 10), TEXT, final=False)), plugs))
        self.bystander.more_rounds(5)
        self.assertLess(peak_memory(self.server) - before, 250, "fifty unfinished mebibytes")


class FrameTest(BadInputTestCase):
    def test_text_that_is_not_utf_8_closes_with_1007(self) -> None:
        for payload in (b"\xff\xfe", b'{"type":"\xc3("}', b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"ok \xe2\x82"):
            with self.subTest(payload):
                plug = self.plug()
                plug.sendall(frame(payload))
                self.assertEqual(close_code(plug), 1007)

    def test_bytes_that_are_not_utf_8_are_a_malformed_frame(self) -> None:
        app = self.app()
        app.send_raw(b"\xff\xfe")
        self.assertEqual(app.take("registration_response")["payload"]["code"], "VALIDATION_ERROR")
        self.assertIs(app.register("notebook", NOTEBOOK)["success"], True)

    def test_frames_against_the_protocol_close_with_1002(self) -> None:
        broken = {
            "unmasked": frame(b"{}", masked=False),
            "a reserved opcode": frame(b"{}", 0x3),
            "a reserved bit": frame(b"{}", reserved=4),
            "a continuation of nothing": frame(b"{}", 0),
            "a long ping": frame(b"x" * 126, PING),
            "a ping in pieces": frame(b"x", PING, final=False),
            "a text inside a text": frame(b"{", final=False) + frame(b"{}"),
            "a close of one byte": frame(b"x", CLOSE),
        }
        for what, data in broken.items():
            with self.subTest(what):
                plug = self.plug()
                plug.sendall(data)
                self.assertEqual(close_code(plug), 1002)

    def test_a_connection_that_breaks_in_the_middle_of_a_frame(self) -> None:
        for _ in range(20):
            plug = self.plug()
            plug.sendall(frame(b"x" * 1000)[:500])
            plug.close()

    def test_an_empty_binary_frame(self) -> None:
        plug = self.plug()
        plug.sendall(frame(b"", BINARY) + frame(b"", TEXT))
        self.assertFalse(is_closed_within(plug, 0.3))


class ContentTest(BadInputTestCase):
    def test_deep_nesting(self) -> None:
        app = self.app("notebook")
        depth = 150_000
        for text in (
            "[" * depth,
            "[" * depth + "]" * depth,
            '{"type":"response","payload":' + '{"a":' * depth + "1" + "}" * depth + "}",
            '{"type":"registration","payload":{"name":"x","description":"y","z":' + "[" * depth + "]" * depth + "}}",
        ):
            app.send_raw(text)
            self.assertLess(len(text), MEBIBYTE)
        app.ping()
        self.delivered(app, "notebook: still there")

    def test_odd_json(self) -> None:
        app = self.app("notebook")
        for text in (
            '{"type":"response","type":"registration","payload":{},"payload":null}',
            '{"type":"response","payload":{"messageId":"\\ud800","type":"ack","payload":{}}}',
            '{"type":"response","payload":{"messageId":1e999,"type":"ack","payload":{}}}',
            '{"type":"response","payload":{"messageId":"a\\u0000b","type":"ack","payload":{}}}',
            '{"type":"' + "x" * 500_000 + '","payload":{}}',
            '{"type":"response","payload":{' + ",".join(f'"k{at}":{at}' for at in range(50_000)) + "}}",
            "\ufeff{}",
            "\0",
        ):
            app.send_raw(text)
        app.ping()
        self.delivered(app, "notebook: still there")

    def test_many_long_capabilities(self) -> None:
        app = self.app()
        app.register("greedy", NOTEBOOK, capabilities=["x" * 1000] * 1000)
        app.ping()

    def test_null_payloads_from_many(self) -> None:
        for kind in ("registration", "response"):
            for _ in range(20):
                plug = self.plug()
                plug.sendall(frame(json.dumps({"type": kind, "payload": None}).encode()))
        self.bystander.more_rounds(5)


class FloodTest(BadInputTestCase):
    def test_registrations_without_end_from_one_who_does_not_read(self) -> None:
        plug = self.plug()
        plug.settimeout(1.0)
        bad = frame(json.dumps(registration("no good")).encode()) * 200
        self.flood(plug, bad, 100)
        self.bystander.more_rounds(5)

    def test_malformed_frames_without_end(self) -> None:
        plug = self.plug()
        plug.sendall(frame(json.dumps(registration("flooder")).encode()))
        plug.settimeout(1.0)
        self.flood(plug, frame(b"{") * 2000, 50)
        self.bystander.more_rounds(5)

    def test_pings_without_end(self) -> None:
        plug = self.plug()
        plug.settimeout(1.0)
        self.flood(plug, frame(b"x" * 100, PING) * 500, 50)
        self.bystander.more_rounds(5)

    def flood(self, plug, data: bytes, times: int) -> None:
        """Sends until it is done, or the hub takes no more."""
        try:
            for _ in range(times):
                plug.sendall(data)
        except OSError:
            pass  # It stopped reading, or closed: both protect the others.

    def test_apps_that_come_and_go(self) -> None:
        def come_and_go(who: int) -> None:
            for _ in range(30):
                with App(self.server, f"visitor{who}", NOTEBOOK):
                    pass
                self.wait_for_name(f"visitor{who}")

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(come_and_go, range(4)))

    def wait_for_name(self, name: str) -> None:
        """Until the hub has noticed that the app is gone."""

        def is_free() -> bool:
            with App(self.server) as probe:
                return probe.register(name, NOTEBOOK)["success"]

        eventually(is_free, f"`{name}` is still taken")

    def test_many_who_want_one_name(self) -> None:
        started = threading.Barrier(20)

        def want(_: int) -> bool:
            app = self.app()
            started.wait(TIMEOUT)
            return app.register("popular", NOTEBOOK)["success"]

        with ThreadPoolExecutor(20) as pool:
            self.assertEqual(sorted(pool.map(want, range(20))), [False] * 19 + [True])

    def test_half_open_handshakes(self) -> None:
        plugs = [raw_client.connect(side(self.server)) for _ in range(50)]
        for plug in plugs:
            self.addCleanup(plug.close)
            plug.sendall(b"GET / HTTP/1.1\r\nHost: local")
        self.bystander.more_rounds(5)


class SpongeTest(BadInputTestCase):
    # What it does not take must not go to the bystander.
    hub = "reroute_direct = false\n"

    def test_an_app_that_takes_messages_and_never_reads(self) -> None:
        self.deaf("sponge")
        text = "x" * 60_000
        ids = [self.say(f"sponge: {text}")["id"] for _ in range(100)]
        self.bystander.more_rounds(5)
        for identity in ids[::20]:
            self.assertNotEqual(self.state(identity), "delivered")


if __name__ == "__main__":
    unittest.main()
