"""Clients that connect and say nothing, and clients that ask and do not read: nobody else may notice."""

from __future__ import annotations

import json
import socket
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

from ahead_case import AheadTestCase, ahead, ahead_last
from gateway_client import Gateway, eventually
from patchboard_server import ServerTestCase
from raw_client import UPGRADE, Bystander, connect, frame, head, is_closed_within, memory, peak_memory, upgrade
from stub_model import Hold, Reply, StubModel, Text

MAX_MEMORY = 150
# Long enough for any reasonable time-out on a busy machine; the test goes on as soon as they are closed.
CLOSED_WITHIN = 60.0
CHUNKS = 50_000
# Together twice what the server needs without them, in pieces that the allocator does not return by itself.
HALF_MESSAGES = 800
HALF_MESSAGE = 60 * 1024
SESSION = "default:websocket:slow:main"


def setUpModule() -> None:
    HalfOpenTest.begin_ahead()


load_tests = ahead_last


class HalfOpenTest(AheadTestCase):
    def plug(self, server, data: bytes = b"") -> socket.socket:
        plug = connect(server)
        self.addCleanup(plug.close)
        plug.sendall(data)
        return plug

    @ahead
    def test_connections_that_never_finish_their_request_are_closed_and_others_let_in(self) -> None:
        server = self.start_server(config="[gateway]\nmax_connections = 20\n")
        starts = {
            "no byte at all": b"",
            "half a request line": b"GET /w",
            "half a header": head("/ws", {"Host": server.gateway, **UPGRADE})[:-10],
            "half a body": head("/webhook/x", {"Host": server.gateway, "Content-Length": "1000"}, "POST") + b"x",
        }
        plugs = [(name, self.plug(server, data)) for name, data in starts.items() for _ in range(5)]
        with ThreadPoolExecutor(len(plugs)) as pool:
            closed = pool.map(lambda one: is_closed_within(one[1], CLOSED_WITHIN), plugs)
            left = {name for (name, _), is_closed in zip(plugs, closed) if not is_closed}
        self.assertEqual(left, set(), "still open")
        with Gateway(server) as gateway:
            self.assertEqual(gateway.result("ping"), "pong")

    @ahead
    def test_memory_comes_back_when_clients_that_sent_half_a_message_have_left(self) -> None:
        server = self.start_server()
        before = memory(server)
        # All at once, so that what the server keeps of one connection lies between what it has read of others.
        start = head("/ws", {"Host": server.gateway, **UPGRADE}) + frame(b" " * HALF_MESSAGE * 2)[:HALF_MESSAGE]
        plugs = [self.plug(server, start) for _ in range(HALF_MESSAGES)]
        held = before + HALF_MESSAGES * HALF_MESSAGE // 2**20 // 2
        eventually(lambda: memory(server) > held, f"the server holds what was sent ({before} MB before)")
        for plug in plugs:
            plug.close()
        given_back = f"memory is given back ({before} MB before, {memory(server)} MB with the clients)"
        eventually(lambda: memory(server) <= before * 1.5, given_back, 120)

    def test_hundreds_of_them_cost_little_and_nobody_notices(self) -> None:
        server = self.start_server()
        with Bystander(server) as bystander:
            for _ in range(200):
                self.plug(server)
                self.plug(server, b"GET /ws HTTP/1.1\r\nHost: 127")
                self.addCleanup(upgrade(server).close)
            with Gateway(server) as gateway:
                self.assertEqual(gateway.chat("hi").events[-1], "done")
            bystander.wait_for_pings()
        self.assertLess(peak_memory(server), MAX_MEMORY)

    def test_a_silent_websocket_may_stay(self) -> None:
        # The document's server has no idle limit; a client that is only listening is a good client.
        server = self.start_server()
        with Gateway(server) as gateway:
            self.assertRaises(TimeoutError, gateway.next_frame, 1.0)
            self.assertEqual(gateway.result("ping"), "pong")


class SlowReaderTest(ServerTestCase):
    def serve(self, *behaviours) -> None:
        self.model = StubModel(*behaviours)
        self.addCleanup(self.model.close)
        self.server = self.start_server(config=self.model.provider_config("openai"))

    def start_without_reading(self, content: str = "go on") -> socket.socket:
        plug = upgrade(self.server, receive_buffer=4096)
        self.addCleanup(plug.close)
        params = {"channel": "websocket", "account": "slow", "content": content}
        plug.sendall(frame(json.dumps({"id": "slow", "method": "chat.send", "params": params}).encode()))
        return plug

    def test_a_long_stream_nobody_reads_costs_bounded_memory_and_is_whole_for_who_comes_later(self) -> None:
        chunk = "word " * 20
        self.serve(Reply(*[Text(chunk)] * CHUNKS, output_tokens=CHUNKS))
        with Bystander(self.server) as bystander:
            slow = self.start_without_reading()
            self.model.wait_for_requests(1)
            with Gateway(self.server) as gateway:
                for number in range(20):
                    self.assertEqual(gateway.chat(f"number {number}").events[-1], "done")
                slow.close()
                # Without its slow client the turn goes on to its end.
                turn = gateway.turn(gateway.ask("chat.attach", session=SESSION, after=0), 180)
                self.assertEqual(turn.events[-1], "done")
                self.assertEqual(turn.errors, [])
                self.assertEqual(len(turn.text), CHUNKS * len(chunk))
            bystander.wait_for_pings()
        self.assertLess(peak_memory(self.server), MAX_MEMORY)

    def test_requests_whose_answers_nobody_reads_cost_bounded_memory(self) -> None:
        self.serve()
        with Gateway(self.server) as gateway:
            gateway.chat("remember " + "x" * 100_000)
        with Bystander(self.server) as bystander:
            plug = upgrade(self.server, receive_buffer=4096)
            self.addCleanup(plug.close)
            plug.settimeout(1.0)
            request = {"id": "h", "method": "chat.history", "params": {"channel": "websocket", "account": "alice"}}
            try:
                for number in range(3000):
                    plug.sendall(frame(json.dumps({**request, "id": str(number)}).encode()))
            except (TimeoutError, ConnectionError):
                pass  # The server reads no more, or has closed: both bound what it keeps.
            bystander.wait_for_pings()
        self.assertLess(peak_memory(self.server), MAX_MEMORY)

    def test_a_slow_watcher_does_not_slow_the_turn(self) -> None:
        chunk = "word " * 20
        release = threading.Event()
        self.addCleanup(release.set)
        self.serve(Reply(Text("begin"), Hold(release), *[Text(chunk)] * 20_000))
        with Gateway(self.server) as gateway:
            request = gateway.start("go on", account="slow")
            gateway.until(request, "text")
            watcher = upgrade(self.server, receive_buffer=4096)
            self.addCleanup(watcher.close)
            attach = {"id": "w", "method": "chat.attach", "params": {"session": SESSION, "after": 0}}
            watcher.sendall(frame(json.dumps(attach).encode()))
            release.set()
            turn = gateway.turn(request, 180)
            self.assertEqual((turn.errors, len(turn.text)), ([], 20_000 * len(chunk)))
        self.assertLess(peak_memory(self.server), MAX_MEMORY)


if __name__ == "__main__":
    unittest.main()
