"""The right token never waits, whatever others try; wrong ones are answered one a second for each address."""

from __future__ import annotations

import contextlib
import itertools
import json
import select
import socket
import threading
import time
import unittest

from ahead_case import AheadTestCase, ahead, ahead_last
from bridge_client import Bridge, Code, wire
from gateway_client import TIMEOUT, Gateway, eventually
from hub_client import App, registration
from patchboard_server import Server
from raw_client import UPGRADE, frame
from runs_client import Runs
from users_case import UsersTestCase, operator_token, refused_start, request, split

TOKEN = "0123456789abcdef0123456789abcdef"
SECRET = "webhook-secret-canary"
ENVIRONMENT = {"TOKEN": TOKEN, "CHANNEL_SECRET": SECRET}
EVERYWHERE = {"gateway": "127.0.0.1:0", "runs": "127.0.0.1:0", "hub": "127.0.0.1:0", "bridge": "127.0.0.1:0"}
CONFIG = (
    '[gateway]\ntoken = "env:TOKEN"\n[bridge]\ntoken = "env:TOKEN"\n[hub]\npairing = "token"\n'
    '[channels.hook]\nverify = "token"\nsecret = "env:CHANNEL_SECRET"\nplugin = "not-there"\n'
    '[channels.signed]\nverify = "hmac-sha256"\nsecret = "env:CHANNEL_SECRET"\nplugin = "not-there"\n'
)
# Of one address, so many wrong tokens are kept waiting.
WAITING = 30
# The clock of the server and that of the test may be read in different ways.
SLACK = 0.05
# How a call ends that is not answered.
CUT = {Code.UNAVAILABLE, Code.INTERNAL, Code.CANCELLED, Code.UNKNOWN}
_numbers = itertools.count(1)


def setUpModule() -> None:
    PaceTest.begin_ahead()
    RightTokenTest.begin_ahead()


load_tests = ahead_last


class Guess:
    """A wrong token on a connection of its own. `upgrades`: it is shown on a WebSocket."""

    def __init__(self, address: str, data: bytes, *, upgrades: bool = False, source: str = "") -> None:
        host, port = split(address)
        self.plug = socket.create_connection((host, port), TIMEOUT, source_address=(source, 0) if source else None)
        self.upgrades = upgrades
        self._read = b""
        self.is_closed = False
        self.answered_at: float | None = None
        # The server may close it while this is sent.
        with contextlib.suppress(ConnectionError):
            self.plug.sendall(data)
        self.plug.setblocking(False)

    @property
    def answer(self) -> bytes:
        """What came in answer to the token."""
        return self._read.partition(b"\r\n\r\n")[2] if self.upgrades else self._read

    def look(self) -> None:
        while not self.is_closed:
            try:
                piece = self.plug.recv(65536)
            except BlockingIOError:
                return
            except ConnectionError:
                piece = b""
            if not piece:
                self.is_closed = True
                self.plug.close()
                return
            self._read += piece
            if self.answer and self.answered_at is None:
                self.answered_at = time.monotonic()

    @property
    def is_pending(self) -> bool:
        return not self.is_closed and not self.answer

    @property
    def is_cut(self) -> bool:
        return self.is_closed and not self.answer

    @property
    def is_told_so(self) -> bool:
        return b" 401 " in self.answer or b"auth_failed" in self.answer or b'"success":false' in self.answer

    def close(self) -> None:
        self.is_closed = True
        self.plug.close()


class CallGuess:
    """The same with a call on the bridge."""

    def __init__(self, address: str) -> None:
        self._bridge = Bridge(address, token=f"wrong {next(_numbers)}")
        self.answered_at: float | None = None
        self._call = self._bridge.stub.Ping.future(
            wire.PingRequest(message="x"), timeout=TIMEOUT, metadata=self._bridge.headers
        )
        self._call.add_done_callback(self._ended)

    def _ended(self, _: object) -> None:
        self.answered_at = time.monotonic()

    def look(self) -> None:
        pass

    @property
    def is_pending(self) -> bool:
        return self.answered_at is None

    @property
    def is_told_so(self) -> bool:
        return not self.is_pending and self._call.code() == Code.UNAUTHENTICATED

    @property
    def is_cut(self) -> bool:
        return not self.is_pending and self._call.code() in CUT

    @property
    def answer(self) -> bytes:
        return b"" if self.is_pending or self.is_cut else str(self._call.code()).encode()

    def close(self) -> None:
        self._call.cancel()
        self._bridge.close()


def look(guesses: list, seconds: float = 0.05) -> None:
    """Takes in what has come for these guesses, and waits for more when nothing has."""
    plugs = [one.plug for one in guesses if isinstance(one, Guess) and not one.is_closed]
    # Those with calls are told by threads of their own.
    poll = select.poll()
    for plug in plugs:
        poll.register(plug, select.POLLIN)
    poll.poll(seconds * 1000)
    for one in guesses:
        one.look()


class GuessingTestCase(AheadTestCase, UsersTestCase):
    def serve(self) -> Server:
        self.server = self.start_server(config=CONFIG, env=ENVIRONMENT, **EVERYWHERE)
        return self.server

    def kinds(self) -> dict:
        """By name, what shows a wrong token where one can be shown."""
        server = self.server
        gateway, runs, hub = (server.address(surface) for surface in ("gateway", "runs", "hub"))

        def wrong() -> str:
            return f"wrong-{next(_numbers)}"

        def http(address: str, method: str, path: str, body: bytes = b"", **headers: str):
            return lambda **how: Guess(address, request(address, method, path, body, **headers), **how)

        def bearer(address: str, method: str, path: str, body: bytes = b"", **headers: str):
            return lambda **how: http(address, method, path, body, Authorization=f"Bearer {wrong()}", **headers)(**how)

        def message(address: str, path: str, words: object):
            data = request(address, "GET", path, **UPGRADE) + frame(json.dumps(words).encode())
            return lambda **how: Guess(address, data, upgrades=True, **how)

        return {
            "gateway, bearer": bearer(gateway, "GET", "/metrics"),
            "gateway, upgrade": bearer(gateway, "GET", "/ws", **UPGRADE),
            "gateway, first frame": message(gateway, "/ws", {"token": "wrong"}),
            "mcp": bearer(gateway, "POST", "/mcp", b"{}"),
            "runs, header": bearer(runs, "GET", "/", **UPGRADE),
            "runs, subprotocol": http(runs, "GET", "/", Sec_WebSocket_Protocol="bearer.wrong", **UPGRADE),
            "hub, HTTP": bearer(hub, "GET", "/v1/messages"),
            "hub, app": message(hub, "/", registration("notebook", token="wrong")),
            "webhook, token": http(gateway, "POST", "/webhook/hook", b"{}", X_Webhook_Token="wrong"),
            "webhook, signature": http(
                gateway, "POST", "/webhook/signed", b"{}", X_Hub_Signature_256="sha256=" + 64 * "0"
            ),
            "bridge": lambda **how: CallGuess(server.address("bridge")),
        }

    def guess(self, kind: str, **how: object):
        made = self.kinds()[kind](**how)
        self.addCleanup(made.close)
        return made

    def wait_until(self, guesses: list, condition, what: str) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            look(guesses)

    def pair(self, name: str) -> str:
        """The token of an app."""
        address = self.server.address("hub")
        headers = {"Authorization": f"Bearer {operator_token(self.server)}"}
        host, port = split(address)
        with socket.create_connection((host, port), TIMEOUT) as plug:
            plug.sendall(request(address, "POST", f"/v1/clients/{name}/pair", b"{}", **headers))
            answer = plug.makefile("rb").read()
        return json.loads(answer.partition(b"\r\n\r\n")[2])["token"]


class PaceTest(GuessingTestCase):
    def assert_paced(self, guesses: list, started: float) -> None:
        """After N answers at least N - 1 seconds have passed."""
        times = sorted(one.answered_at - started for one in guesses if one.answered_at is not None)
        for number, passed in enumerate(times):
            self.assertGreaterEqual(passed, number - SLACK, f"{number + 1} answers in {passed} s: {times}")

    @ahead
    def test_wrong_ones_are_answered_one_a_second_over_all_listeners_together(self) -> None:
        self.serve()
        started = time.monotonic()
        guesses = {kind: self.guess(kind) for kind in self.kinds()}
        waiting = list(guesses.values())
        self.wait_until(waiting, lambda: not any(one.is_pending for one in waiting), "all are answered")
        for kind, one in guesses.items():
            with self.subTest(kind):
                self.assertTrue(one.is_told_so, one.answer)
        self.assert_paced(waiting, started)

    @ahead
    def test_all_of_loopback_is_one_address(self) -> None:
        self.serve()
        started = time.monotonic()
        guesses = [self.guess("gateway, bearer", source=f"127.0.0.{at}") for at in (1, 2, 3, 200)]
        hub = f"[::1]:{self.server.address('hub').rsplit(':', 1)[1]}"
        with contextlib.suppress(OSError):  # A system without IPv6.
            data = request(hub, "GET", "/v1/messages", Authorization="Bearer wrong")
            guesses += [Guess(hub, data), Guess(hub, data)]
        for one in guesses[4:]:
            self.addCleanup(one.close)
        self.wait_until(guesses, lambda: not any(one.is_pending for one in guesses), "all are answered")
        self.assertTrue(all(one.is_told_so for one in guesses))
        self.assert_paced(guesses, started)

    @ahead
    def test_who_guesses_beyond_thirty_waiting_is_not_answered_at_all(self) -> None:
        self.serve()
        several = ["gateway, bearer", "runs, header", "hub, HTTP", "webhook, token", "gateway, upgrade"]
        started = time.monotonic()
        guesses = [self.guess(kind) for _ in range(20) for kind in several]
        self.wait_until(guesses, lambda: sum(one.is_pending for one in guesses) <= WAITING, "the others are cut off")
        passed = time.monotonic() - started
        cut = [one for one in guesses if one.is_cut]
        answered = [one for one in guesses if one.answer]
        self.assertTrue(all(one.is_told_so for one in answered))
        # The first thirty found a place.
        self.assertLessEqual(len(cut), len(guesses) - WAITING)
        self.assertLessEqual(len(answered), passed + 1 + SLACK)
        self.assert_paced(guesses, started)
        # Whoever comes now finds none, wherever it is.
        for kind in self.kinds():
            with self.subTest(kind):
                more = [self.guess("gateway, bearer") for _ in range(5)] + [self.guess(kind) for _ in range(5)]
                late = more[5:]
                # In this time a place may have become free, for whom it is.
                self.wait_until(more, lambda late=late: sum(one.is_cut for one in late) >= 2, "they are cut off")

    @ahead
    def test_an_answer_makes_room_for_another(self) -> None:
        self.serve()
        guesses = [self.guess("gateway, bearer") for _ in range(WAITING + 10)]
        self.wait_until(guesses, lambda: sum(one.is_pending for one in guesses) <= WAITING, "some are cut off")
        before = sum(bool(one.answer) for one in guesses)
        self.wait_until(guesses, lambda: sum(bool(one.answer) for one in guesses) >= before + 2, "two are answered")
        more = [self.guess("runs, header") for _ in range(5)]
        self.wait_until(more, lambda: sum(one.is_pending for one in more) <= 4, "some of these are cut off too")
        self.assertTrue(any(one.is_pending for one in more), "and not all")


class Flood:
    """Wrong tokens all the time, hundreds of them, on every listener."""

    def __init__(self, case: GuessingTestCase, at_once: int = 200) -> None:
        self._kinds = [make for name, make in case.kinds().items() if name != "bridge"]
        self._at_once = at_once
        self._guesses: list[Guess] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.tried = 0
        self.trouble: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)

    def _work(self) -> None:
        kinds = itertools.cycle(self._kinds)
        try:
            while not self._stop.is_set():
                with self._lock:
                    self._guesses = [one for one in self._guesses if not one.is_closed and not one.answer]
                    missing = min(20, self._at_once - len(self._guesses))
                    self._guesses += [next(kinds)() for _ in range(missing)]
                    self.tried += missing
                    look(self._guesses, 0.005)
                # Others want the lock too.
                self._stop.wait(0.001)
        except BaseException as trouble:  # noqa: BLE001 - told to the test when it ends
            self.trouble = trouble

    def pending(self) -> set[Guess]:
        with self._lock:
            for one in self._guesses:
                one.look()
            return {one for one in self._guesses if one.is_pending}

    def __enter__(self) -> Flood:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(TIMEOUT)
        for one in self._guesses:
            one.close()


class RightTokenTest(GuessingTestCase):
    def right_ones(self) -> dict:
        """By name, what shows a right token and succeeds."""
        server = self.server
        gateway, hub = server.gateway, server.address("hub")
        app_token = self.pair("notebook")
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        operators = {"Authorization": f"Bearer {operator_token(server)}"}

        def status(address: str, method: str, path: str, body: bytes = b"", **headers: str) -> int:
            host, port = split(address)
            with socket.create_connection((host, port), TIMEOUT) as plug:
                plug.sendall(request(address, method, path, body, **headers))
                return int(plug.makefile("rb").readline().split()[1])

        def signs_in(**how: object) -> None:
            with Gateway(server, **how) as client:
                self.assertEqual(client.result("ping"), "pong")

        def runs(**how: object) -> None:
            with Runs(server, **how) as client:
                self.assertEqual(client.ask("ping", id="p")["type"], "pong")

        def app() -> None:
            with App(server) as client:
                self.assertTrue(client.register("notebook", "Keeps notes and lists.", token=app_token)["success"])

        def call(token: str) -> None:
            with Bridge(server.address("bridge"), token=token) as bridge:
                self.assertEqual(bridge.ping("hi"), "pong: hi")

        initialize = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        begin = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize}).encode()
        return {
            "gateway, bearer": lambda: self.assertEqual(status(gateway, "GET", "/metrics", **bearer), 200),
            "gateway, upgrade": lambda: signs_in(additional_headers=bearer),
            "gateway, first frame": lambda: signs_in(token=TOKEN),
            "gateway, operator": lambda: signs_in(additional_headers=operators),
            "mcp": lambda: self.assertEqual(status(gateway, "POST", "/mcp", begin, **bearer), 200),
            "runs, header": lambda: runs(token=TOKEN),
            "runs, subprotocol": lambda: runs(subprotocols=[f"bearer.{TOKEN}"]),
            "hub, HTTP": lambda: self.assertEqual(status(hub, "GET", "/v1/messages", **operators), 200),
            "hub, app": app,
            # Its adapter is not there, which only those are told who have the secret.
            "webhook": lambda: self.assertEqual(
                status(gateway, "POST", "/webhook/hook", b"{}", X_Webhook_Token=SECRET), 503
            ),
            "bridge": lambda: call(TOKEN),
            "bridge, operator": lambda: call(operator_token(server)),
        }

    @ahead
    def test_the_right_one_never_waits_while_hundreds_of_wrong_ones_do(self) -> None:
        self.serve()
        right = self.right_ones()
        with Flood(self) as flood:
            eventually(lambda: flood.tried >= 300 or flood.trouble, "hundreds are under way", TIMEOUT)
            for _ in range(3):
                for name, succeed in right.items():
                    with self.subTest(name):
                        before = flood.pending()
                        succeed()
                        # Each of these came earlier, and the last of them has all the others before it.
                        self.assertTrue(before & flood.pending(), "all wrong ones were answered meanwhile")
            self.assertIsNone(flood.trouble)
            self.assertGreaterEqual(flood.tried, 300)

    @ahead
    def test_also_on_a_connection_that_has_shown_a_wrong_one(self) -> None:
        """On the bridge each call shows its own."""
        self.serve()
        address = self.server.address("bridge")
        with Bridge(address) as bridge:
            wrong = [
                bridge.stub.Ping.future(
                    wire.PingRequest(message="x"), timeout=TIMEOUT, metadata=[("authorization", f"Bearer wrong {at}")]
                )
                for at in range(10)
            ]
            self.addCleanup(lambda: [call.cancel() for call in wrong])
            right = [("authorization", f"Bearer {TOKEN}")]
            for _ in range(10):
                self.assertEqual(bridge.rpc("Ping", wire.PingRequest(message="hi"), headers=right).message, "pong: hi")
            self.assertFalse(all(call.done() for call in wrong), "the right one has waited for the wrong ones")


class LengthTest(UsersTestCase):
    """Off loopback anybody may guess."""

    SHORT, LONG = TOKEN[:15], TOKEN[:16]

    def server(self, config: str, token: str, **where: str) -> Server:
        server = Server(config=config, env={"TOKEN": token}, **{"gateway": "off", **where})
        self.addCleanup(server.close)
        return server

    def test_short_ones_are_refused_off_loopback(self) -> None:
        everywhere = "0.0.0.0:0"
        cases = {
            "gateway": '[gateway]\ntoken = "env:TOKEN"\ninsecure = true\n',
            "runs": '[runs]\ntoken = "env:TOKEN"\ninsecure = true\n',
            "bridge": '[bridge]\ntoken = "env:TOKEN"\ninsecure = true\n',
        }
        for surface, config in cases.items():
            for token in (self.SHORT, TOKEN[:8]):
                with self.subTest(surface, token=token):
                    said = refused_start(self.server(config, token, **{surface: everywhere}))
                    self.assertIn("16", said)
                    self.assertIn("token", said)
                    self.assertNotIn(token, said)
            with self.subTest(surface, token=self.LONG):
                server = self.server(config, self.LONG, **{surface: everywhere})
                self.assertTrue(server.start().address(surface))

    def test_also_by_the_key_in_the_file(self) -> None:
        config = '[gateway]\nlisten = "0.0.0.0:0"\ninsecure = true\ntoken = "env:TOKEN"\n'
        server = self.server(config, self.SHORT)
        del server.listen["gateway"]
        self.assertIn("16", refused_start(server))

    def test_also_the_gateway_s_where_runs_use_it(self) -> None:
        config = '[gateway]\ntoken = "env:TOKEN"\n[runs]\ninsecure = true\n'
        where = {"gateway": "127.0.0.1:0", "runs": "0.0.0.0:0"}
        self.assertIn("16", refused_start(self.server(config, self.SHORT, **where)))

    def test_on_loopback_they_are_taken(self) -> None:
        server = self.server('[gateway]\ntoken = "env:TOKEN"\n', self.SHORT, gateway="127.0.0.1:0").start()
        self.assertEqual(self.gateway_of(server, self.SHORT).result("ping"), "pong")


if __name__ == "__main__":
    unittest.main()
