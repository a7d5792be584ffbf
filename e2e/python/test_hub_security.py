"""Who may speak to the hub: origins, hosts, addresses, the number of connections, and pairing."""

from __future__ import annotations

import json
import socket
import unittest

from gateway_client import eventually
from hub_case import NOTEBOOK, HubTestCase
from hub_client import TIMEOUT, App, exceptions, status_of, upgrade
from patchboard_server import NotReady
from raw_client import UPGRADE

EVIL = (
    "https://evil.example",
    "null",
    "http://localhost.evil.example",
    "http://127.0.0.1.evil.example",
    "http://localhost:3000@evil.example",
    "file://",
    "chrome-extension://abcdef",
    "app://obsidian.md.evil.example",
    "app://evil.md",
    "https://obsidian.md",
    "",
)
REQUESTS = (("GET", "/v1/messages"), ("POST", "/v1/messages"), ("GET", "/v1/messages/msg-x"))


class OriginTest(HubTestCase):
    def test_a_page_of_another_site_is_refused_before_the_upgrade(self) -> None:
        self.serve()
        for origin in EVIL:
            with self.subTest(origin):
                headers = {"Host": self.server.address("hub"), "Origin": origin}
                self.assertEqual(status_of(self.server, {**headers, **UPGRADE}), 403)
                for method, path in REQUESTS:
                    self.assertEqual(status_of(self.server, {**headers, "Content-Length": "0"}, path, method), 403)

    def test_it_cannot_submit_either(self) -> None:
        self.serve()
        notebook = self.app("notebook")
        answer = self.request("POST", "/v1/messages", {"text": "notebook: x"}, headers={"Origin": EVIL[0]})
        self.assertEqual(answer.status, 403)
        self.assertEqual(self.page()["items"], [])
        self.delivered(notebook, "notebook: from home")

    def test_known_ones_are_let_in(self) -> None:
        self.serve()
        good = ("app://obsidian.md", "http://localhost:3000", "http://127.0.0.1:8080", "http://[::1]:5173")
        for at, origin in enumerate((None, *good)):
            with self.subTest(origin):
                app = self.app(origin=origin)
                self.assertIs(app.register(f"app{at}", NOTEBOOK)["success"], True)
                headers = {"Origin": origin} if origin else {}
                self.assertEqual(self.request("GET", "/v1/messages", headers=headers).status, 200)

    def test_configured_ones_are_let_in(self) -> None:
        self.serve('allowed_origins = ["https://apps.example.com"]\n')
        self.app(origin="https://apps.example.com")
        for origin in ("http://apps.example.com", "https://apps.example.com.evil.example"):
            with self.subTest(origin), self.assertRaises(exceptions.InvalidStatus) as refused:
                App(self.server, origin=origin)
            self.assertEqual(refused.exception.response.status_code, 403)

    def test_a_host_that_is_not_this_machine_is_refused(self) -> None:
        self.serve()
        for host in ("evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "0.0.0.0", ""):
            with self.subTest(host):
                self.assertEqual(status_of(self.server, {"Host": host, **UPGRADE}), 403)
                self.assertEqual(status_of(self.server, {"Host": host}, "/v1/messages"), 403)
        self.assertIn(status_of(self.server, dict(UPGRADE)), (400, 403), "no Host at all")
        both = {"Host": self.server.address("hub"), "host": "evil.example", **UPGRADE}
        self.assertIn(status_of(self.server, both), (400, 403), "two Hosts")

    def test_every_name_of_this_machine_will_do(self) -> None:
        self.serve()
        for host in ("localhost", "127.0.0.1", "[::1]:9473", self.server.address("hub")):
            with self.subTest(host):
                self.assertEqual(status_of(self.server, {"Host": host, **UPGRADE}), 101)


class AddressTest(HubTestCase):
    def test_it_does_not_serve_other_machines(self) -> None:
        """It does not start on such an address, or refuses whoever comes from there."""
        outside = own_address()
        if outside is None:
            self.skipTest("this machine has no address but loopback")
        try:
            self.server = self.start_server(gateway="off", hub="0.0.0.0:0")
        except NotReady as refused:
            self.assertIn("ended with 2", str(refused))
            self.assertIn("hub", str(refused))
            return
        port = int(self.server.address("hub").rsplit(":", 1)[1])
        with socket.create_connection((outside, port), timeout=TIMEOUT) as plug:
            plug.sendall(b"GET /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            self.assertIn(b" 403 ", plug.recv(100))


class CrowdTest(HubTestCase):
    def test_the_hundred_and_first_connection_is_turned_away(self) -> None:
        self.serve()
        notebook = self.app("notebook")
        crowd = [upgrade(self.server) for _ in range(99)]
        for plug in crowd:
            self.addCleanup(plug.close)
        headers = {"Host": self.server.address("hub"), **UPGRADE}
        self.assertEqual(status_of(self.server, headers), 503)
        self.assertEqual(status_of(self.server, headers), 503)
        notebook.ping()
        crowd.pop().close()
        eventually(lambda: status_of(self.server, headers) == 101, "there is room again")
        while crowd:
            crowd.pop().close()
        eventually(lambda: self.request("GET", "/v1/messages").status == 200, "the user is heard again")
        self.delivered(notebook, "notebook: what a crowd")

    def test_a_hundred_apps_can_work(self) -> None:
        self.serve()
        apps = [self.app(f"app{at}", f"Answers to the number {at}.") for at in range(100)]
        for app in apps:
            app.ping()
        listed = self.command("hub", "clients").stdout.split()
        self.assertEqual([app.name for app in apps if app.name not in listed], [])
        for app in apps[::10]:
            self.delivered(app, f"{app.name}: are you there?")

    def test_the_limit_is_a_setting(self) -> None:
        self.serve("max_connections = 3\n")
        for at in range(3):
            self.app(f"app{at}")
        with self.assertRaises(exceptions.InvalidStatus) as refused:
            App(self.server)
        self.assertEqual(refused.exception.response.status_code, 503)


class PairingTest(HubTestCase):
    def test_open_lets_everybody_in(self) -> None:
        self.serve('pairing = "open"\n')
        notebook = self.app("notebook")
        self.delivered(notebook, "notebook: x")

    def test_otherwise_an_unknown_app_is_not_let_in_and_gets_nothing(self) -> None:
        for pairing in ("approve", "token"):
            with self.subTest(pairing):
                self.serve(f'pairing = "{pairing}"\n')
                try:
                    stranger = App(self.server)
                except exceptions.InvalidStatus as refused:
                    self.assertIn(refused.response.status_code, (401, 403))
                    continue
                self.addCleanup(stranger.close)
                answer = stranger.register("stranger", NOTEBOOK)
                self.assertIs(answer["success"], False, answer)
                self.command("hub", "send", "stranger: my secret")
                self.assertRegex(self.command("hub", "messages").stdout, "queued|held")
                stranger.ping()
                self.assertNotIn("my secret", json.dumps(stranger.seen))
                self.assertNotIn("stranger", self.command("hub", "clients").stdout.split())

    def test_an_approved_app_is_let_in_and_no_other(self) -> None:
        self.serve('pairing = "approve"\n')
        app = self.app()
        self.assertIs(app.register("notebook", NOTEBOOK)["success"], False)
        self.command("hub", "approve", "notebook")
        self.assertIs(app.register("notebook", NOTEBOOK)["success"], True)
        self.assertIs(self.app().register("other", NOTEBOOK)["success"], False)
        self.server.kill()
        self.server.start()
        self.assertIs(self.app().register("notebook", NOTEBOOK)["success"], True, "it stays approved")

    def test_a_paired_app_is_let_in_with_its_own_token_only(self) -> None:
        self.serve('pairing = "token"\n')
        token, other = (self.command("hub", "pair", name).stdout.strip() for name in ("notebook", "other"))
        self.assertGreaterEqual(len(token), 32)
        app = self.app()
        for wrong in (None, "", "x", other, token[:-1], token.upper() + "0", 5):
            with self.subTest(wrong):
                self.assertIs(app.register("notebook", NOTEBOOK, token=wrong)["success"], False)
        self.assertIs(app.register("notebook", NOTEBOOK)["success"], False)
        self.assertIs(app.register("notebook", NOTEBOOK, token=token)["success"], True)
        self.assertNotIn(token, self.server.log())
        again = self.command("hub", "pair", "notebook").stdout.strip()
        app.name = "notebook"
        self.leave(app)
        late = self.app()
        self.assertIs(late.register("notebook", NOTEBOOK, token=token)["success"], False, "it stopped working")
        self.assertIs(late.register("notebook", NOTEBOOK, token=again)["success"], True)

    def test_an_unknown_mode_is_a_start_error(self) -> None:
        with self.assertRaises(NotReady) as refused:
            self.serve('pairing = "whatever"\n')
        self.assertIn("pairing", str(refused.exception))


def own_address() -> str | None:
    """An address of this machine that is not loopback; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            address = probe.getsockname()[0]
        except OSError:
            return None
    return None if address.startswith("127.") else address


if __name__ == "__main__":
    unittest.main()
