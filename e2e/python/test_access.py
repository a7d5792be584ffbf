"""Who is let in: Host and Origin of every request, wrong tokens, and connections that never present one."""

from __future__ import annotations

import subprocess
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from ahead_case import AheadTestCase, ahead, ahead_last
from gateway_client import Gateway, exceptions
from patchboard_server import ServerTestCase, binary
from raw_client import UPGRADE, Bystander, close_code, frame, is_closed_within, peak_memory, status_of, upgrade

TOKEN = "0123456789abcdef0123456789abcdef"
WITH_TOKEN = '[gateway]\ntoken = "env:GATEWAY_TOKEN"\n'
PATHS = ("/", "/health", "/healthz", "/readyz", "/metrics")


def setUpModule() -> None:
    BeforeTheTokenTest.begin_ahead()


load_tests = ahead_last


class OriginTest(ServerTestCase):
    def statuses(self, server, header: str, value: str) -> set[int]:
        """How the upgrade and every page answer to this header."""
        headers = {"Host": server.gateway, header: value}
        answers = {status_of(server, headers, path) for path in PATHS}
        answers.add(status_of(server, headers, "/webhook/x", "POST"))
        return answers | {status_of(server, {**headers, **UPGRADE})}

    def test_a_page_of_another_site_is_refused_before_the_upgrade(self) -> None:
        server = self.start_server()
        evil = [
            "https://evil.example",
            "null",
            "http://localhost.evil.example",
            "http://127.0.0.1.evil.example",
            "http://localhost:3000@evil.example",
            "file://",
            "chrome-extension://abcdef",
            "",
        ]
        for origin in evil:
            with self.subTest(origin):
                self.assertEqual(self.statuses(server, "Origin", origin), {403})
        with self.assertRaises(exceptions.InvalidStatus) as refused:
            Gateway(server, origin="https://evil.example")
        self.assertEqual(refused.exception.response.status_code, 403)

    def test_pages_of_this_machine_and_programs_without_origin_are_let_in(self) -> None:
        server = self.start_server()
        for origin in ("http://localhost:3000", "http://127.0.0.1:8080", "https://localhost", "http://[::1]:5173"):
            with self.subTest(origin), Gateway(server, origin=origin) as gateway:
                self.assertEqual(gateway.result("ping"), "pong")
        with Gateway(server) as gateway:
            self.assertEqual(gateway.result("ping"), "pong")

    def test_configured_origins_are_let_in_and_only_those(self) -> None:
        server = self.start_server(config='[gateway]\nallowed_origins = ["https://console.example.com"]\n')
        with Gateway(server, origin="https://console.example.com") as gateway:
            self.assertEqual(gateway.result("ping"), "pong")
        for origin in ("http://console.example.com", "https://console.example.com.evil.example", "https://example.com"):
            with self.subTest(origin):
                self.assertEqual(status_of(server, {"Host": server.gateway, "Origin": origin, **UPGRADE}), 403)

    def test_a_host_that_is_not_this_machine_is_refused(self) -> None:
        server = self.start_server()
        for host in (
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "localhost@evil.example",
            "0.0.0.0",
            "",
        ):
            with self.subTest(host):
                self.assertEqual(self.statuses(server, "Host", host), {403})
        self.assertIn(status_of(server, dict(UPGRADE)), (400, 403), "no Host at all")
        self.assertIn(
            status_of(server, {"Host": server.gateway, "host": "evil.example", **UPGRADE}), (400, 403), "two Hosts"
        )
        for host in ("localhost", "127.0.0.1", "[::1]:7200", server.gateway):
            with self.subTest(host):
                self.assertEqual(status_of(server, {"Host": host, **UPGRADE}), 101)

    def test_configured_hosts_are_let_in(self) -> None:
        server = self.start_server(config='[gateway]\nallowed_hosts = ["board.example.com"]\n')
        self.assertEqual(status_of(server, {"Host": "board.example.com", **UPGRADE}), 101)
        self.assertEqual(status_of(server, {"Host": "example.com", **UPGRADE}), 403)

    def test_the_token_does_not_replace_the_check(self) -> None:
        server = self.start_server(config=WITH_TOKEN, env={"GATEWAY_TOKEN": TOKEN})
        headers = {
            "Host": server.gateway,
            "Authorization": f"Bearer {TOKEN}",
            "Origin": "https://evil.example",
            **UPGRADE,
        }
        self.assertEqual(status_of(server, headers), 403)


class BeforeTheTokenTest(AheadTestCase):
    def serve(self, more: str = "") -> None:
        self.server = self.start_server(config=WITH_TOKEN + more, env={"GATEWAY_TOKEN": TOKEN})

    @ahead
    def test_a_connection_without_a_token_is_closed_after_5_s(self) -> None:
        self.serve()
        started = time.monotonic()
        with upgrade(self.server) as plug:
            self.assertIsNotNone(close_code(plug))
        self.assertGreater(time.monotonic() - started, 4.5)

    def test_sending_something_now_and_then_does_not_prolong_it(self) -> None:
        self.serve('[limits]\nauth_timeout = "500ms"\n')
        token = frame(('{"token":"%s"}' % TOKEN).encode())
        with upgrade(self.server) as plug:
            is_closed = False
            try:
                # Together these pauses are several times as long as the client has.
                for byte in token[:-1]:
                    plug.sendall(bytes([byte]))
                    if is_closed := is_closed_within(plug, 0.05):
                        break
            except ConnectionError:
                is_closed = True
            self.assertTrue(is_closed, "it was closed while the token was still coming in")

    def test_a_frame_of_more_than_64_kib_is_closed_with_1009(self) -> None:
        self.serve()
        for size in (65 * 1024, 10 * 1024 * 1024):
            with self.subTest(size), upgrade(self.server) as plug:
                try:
                    plug.sendall(frame(b"x" * size))
                except ConnectionError:
                    pass  # Closed before all was sent; the reason is there to be read.
                self.assertEqual(close_code(plug), 1009)

    def test_many_large_frames_before_the_token_cost_next_to_nothing(self) -> None:
        self.serve()
        large = frame(b"x" * 10 * 1024 * 1024)
        for plug in [upgrade(self.server) for _ in range(200)]:
            self.addCleanup(plug.close)
            plug.settimeout(0.01)
            try:
                plug.sendall(large)
            except (TimeoutError, ConnectionError):
                pass  # Not taken, which is the point.
        with Gateway(self.server, token=TOKEN) as gateway:
            self.assertEqual(gateway.result("ping"), "pong")
        self.assertLess(peak_memory(self.server), 100)

    def test_after_the_token_frames_may_be_large_again(self) -> None:
        self.serve()
        with Gateway(self.server, token=TOKEN) as gateway:
            self.assertEqual(gateway.result("ping", "x" * 1_000_000), "pong")

    @ahead
    def test_wrong_tokens_are_slowed_down_and_the_right_one_is_never_refused(self) -> None:
        self.serve()

        def guess(number: int) -> float:
            started = time.monotonic()
            with Gateway(self.server, token=f"wrong {number}", greet=False) as gateway:
                self.assertEqual(gateway.closed_with(), 4001)
            return time.monotonic() - started

        with ThreadPoolExecutor(20) as pool, Bystander(self.server, token=TOKEN) as bystander:
            started = time.monotonic()
            took = list(pool.map(guess, range(60)))
            whole = time.monotonic() - started
            # In the thick of it the right token is never refused.
            with Gateway(self.server, token=TOKEN) as gateway:
                self.assertEqual(gateway.greeting["ok"], True)
            bystander.wait_for_pings()
        self.assertGreater(max(took), 0.5, "a guesser is made to wait")
        self.assertGreater(whole, 1.5, "and guessing at once does not help")


class OffLoopbackTest(ServerTestCase):
    def refused(self, config: str, *arguments: str) -> str:
        server = self.start_server()
        file = server.folder / "off.toml"
        file.write_text(config)
        command = [binary(), "serve", "--config", str(file), "--data-dir", str(server.folder / "other"), *arguments]
        off = ["--runs", "off", "--hub", "off", "--bridge", "off"]
        done = subprocess.run(
            [*command, *off],
            env={**server.environment(), "GATEWAY_TOKEN": TOKEN},
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr

    def test_it_does_not_start_without_a_token(self) -> None:
        self.assertIn("token", self.refused("", "--gateway", "0.0.0.0:0"))
        self.assertIn("token", self.refused('[gateway]\ninsecure = true\nlisten = "0.0.0.0:0"\n'))

    def test_it_does_not_speak_plaintext_unless_told_in_so_many_words(self) -> None:
        self.assertIn("insecure", self.refused(WITH_TOKEN + 'listen = "0.0.0.0:0"\n'))

    def test_a_reference_that_leads_nowhere_never_means_no_token(self) -> None:
        self.assertIn(
            "NO_SUCH_VARIABLE", self.refused('[gateway]\ntoken = "env:NO_SUCH_VARIABLE"\nlisten = "127.0.0.1:0"\n')
        )
        self.assertIn("absent.key", self.refused('[gateway]\ntoken = "file:absent.key"\nlisten = "127.0.0.1:0"\n'))


if __name__ == "__main__":
    unittest.main()
