"""Where notifications of apps end up: on a real session bus, at webhooks and ntfy, in the log."""

from __future__ import annotations

import json
import threading
import time
import unittest
from dataclasses import dataclass
from email.header import decode_header, make_header
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from desktop_bus import Desktop, Toast
from gateway_client import eventually
from hub_case import HubTestCase

# No bus there, whatever the tester's own desktop is.
NO_BUS = {"DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent/bus"}
SECRET = "tk_0123456789abcdef"


@dataclass(frozen=True)
class Post:
    path: str
    headers: dict[str, str]
    body: str


class Site:
    """A web server that keeps what is posted to it, answering with these codes first."""

    def __init__(self, *codes: int) -> None:
        self.posts: list[Post] = []
        left = list(codes)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(handler) -> None:  # noqa: N805
                body = handler.rfile.read(int(handler.headers["content-length"])).decode()
                headers = {name.lower(): value for name, value in handler.headers.items()}
                self.posts.append(Post(handler.path, headers, body))
                handler.send_response(left.pop(0) if left else 200)
                handler.send_header("content-length", "0")
                handler.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class SinkTestCase(HubTestCase):
    def site(self, *codes: int) -> Site:
        site = Site(*codes)
        self.addCleanup(site.close)
        return site

    def speak(self, settings: str = "", **env: str) -> None:
        """A server with these settings, and an app with something to say."""
        self.serve(more=settings, env={**NO_BUS, **env})
        self.notebook = self.app("notebook")
        self.spoken = self.delivered(self.notebook, "notebook: x")

    def notify(self, **fields: object) -> None:
        self.notebook.notify(self.spoken, **fields)


class DesktopTest(SinkTestCase):
    def desktop(self, *capabilities: str) -> Desktop:
        desktop = Desktop(*([capabilities] if capabilities else []))
        desktop.__enter__()
        self.addCleanup(desktop.__exit__)
        return desktop

    def speak_on(self, desktop: Desktop, settings: str = "") -> None:
        self.speak(settings, DBUS_SESSION_BUS_ADDRESS=desktop.address)

    def test_title_body_and_urgency_arrive(self) -> None:
        desktop = self.desktop()
        self.speak_on(desktop)
        self.notify(title="Gesichert ✓", body="two\nlines", priority="normal")
        self.notify(body="Really delete it?", priority="high")
        self.assertEqual(
            desktop.wait_for(2),
            [Toast("notebook", "Gesichert ✓", "two\nlines", 1), Toast("notebook", "notebook", "Really delete it?", 2)],
        )

    def test_low_priority_comes_along_with_the_next_normal_one(self) -> None:
        desktop = self.desktop()
        self.speak_on(desktop)
        self.notify(body="By the way.", priority="low")
        self.notify(body="Done.", priority="normal")
        toasts = desktop.wait_for(2)
        self.assertEqual([(toast.body, toast.urgency) for toast in toasts], [("Done.", 1), ("By the way.", 0)])

    def test_text_is_no_markup(self) -> None:
        for capabilities, body in (
            (("body", "body-markup"), "1 &lt; 2 &amp; &lt;b&gt;so&lt;/b&gt;"),
            (("body",), "1 < 2 & <b>so</b>"),
        ):
            with self.subTest(capabilities):
                desktop = self.desktop(*capabilities)
                self.speak_on(desktop)
                self.notify(title="a & b", body="\x1b1 < 2 & \u202e<b>so</b>")
                (toast,) = desktop.wait_for(1)
                self.assertEqual((toast.title, toast.body), ("a & b", body))

    def test_the_same_again_is_merged_visibly(self) -> None:
        desktop = self.desktop()
        self.speak_on(desktop)
        for _ in range(4):
            self.notify(body="Saved.")
        self.notify(body="Something else.")
        bodies = [toast.body for toast in desktop.wait_for(3)]
        self.assertEqual(bodies, ["Saved.", "Something else.", "Saved. (3 more times)"])

    def test_a_flood_becomes_a_digest(self) -> None:
        desktop = self.desktop()
        self.speak_on(desktop)
        for number in range(1, 18):
            self.notify(body=f"Number {number}")
        toasts = desktop.wait_for(11)
        self.assertEqual([toast.body for toast in toasts[:10]], [f"Number {number}" for number in range(1, 11)])
        lines = "\n".join(f"Number {number}" for number in range(11, 18))
        self.assertEqual(toasts[10], Toast("notebook", "7 more from notebook", lines, 1))

    def test_what_waits_is_shown_when_the_server_stops(self) -> None:
        desktop = self.desktop()
        self.speak_on(desktop)
        self.notify(body="By the way.", priority="low")
        self.notebook.ping()
        self.assertEqual(desktop.toasts, [])
        self.assertEqual(self.server.terminate(), 0)
        self.assertEqual([toast.body for toast in desktop.wait_for(1)], ["By the way."])

    def test_it_can_be_switched_off(self) -> None:
        desktop = self.desktop()
        self.speak_on(desktop, "[notifications]\ndesktop = false")
        self.notify(body="Nobody looks.")
        eventually(lambda: "Nobody looks." in self.server.log(), "it is in the log")
        self.assertEqual(self.server.terminate(), 0)
        self.assertEqual(desktop.toasts, [])

    def test_without_a_bus_the_log_says_so_and_has_the_notices(self) -> None:
        self.speak()
        self.notify(title="Note", body="two\nlines", priority="high")
        eventually(lambda: r'"body":"two\nlines"' in self.server.log(), "it is in the log")
        self.notify(title="Another", body="one line")
        eventually(lambda: '"title":"Another"' in self.server.log(), "it is in the log")
        log = self.server.log()
        self.assertEqual(log.count("no session bus"), 1, log)
        self.assertNotIn("WARN", log)


class FailingTestCase(SinkTestCase):
    """A webhook where nobody listens and another one, with something on its way to both."""

    def begin(self) -> None:
        self.other = self.site()
        hooks = "".join(
            f'[[notifications.webhooks]]\nurl = "{url}"\ntoken = "env:HOOK"\n'
            for url in ("http://127.0.0.1:9/very-private", f"{self.other.url}/hook")
        )
        self.speak(hooks, HOOK=SECRET)
        self.notify(body="Done.")


def setUpModule() -> None:
    # The last of four attempts comes after twelve seconds.
    global failing
    failing = FailingTestCase.for_module()
    failing.begin()


class HttpTest(SinkTestCase):
    def test_webhooks_get_json(self) -> None:
        site = self.site(503)
        hook = f'[[notifications.webhooks]]\nurl = "{site.url}/hooks/notify"\ntoken = "env:HOOK"'
        self.speak(hook, HOOK=SECRET)
        self.notify(title="Gesichert ✓", body="Done.", priority="high")
        # The first attempt is refused.
        eventually(lambda: len(site.posts) >= 2, "it is posted again")
        post = site.posts[1]
        self.assertEqual((post.path, post.headers["authorization"]), ("/hooks/notify", f"Bearer {SECRET}"))
        said = json.loads(post.body)
        self.assertRegex(said.pop("at"), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")
        self.assertEqual(
            said,
            {
                "app": "notebook",
                "title": "Gesichert ✓",
                "body": "Done.",
                "priority": "high",
                "message": self.spoken.id,
            },
        )
        self.assertNotIn(SECRET, self.server.log())

    def test_ntfy_gets_text_and_headers(self) -> None:
        site = self.site()
        settings = f'[notifications.ntfy]\nserver = "{site.url}"\ntopic = "my-topic"\ntoken = "env:NTFY"'
        self.speak(settings, NTFY=SECRET)
        self.notify(title="Gesichert ✓", body="Döne.", priority="normal")
        eventually(lambda: site.posts, "it is posted")
        (post,) = site.posts
        self.assertEqual((post.path, post.body), ("/my-topic", "Döne."))
        self.assertEqual(str(make_header(decode_header(post.headers["title"]))), "Gesichert ✓")
        self.assertEqual((post.headers["priority"], post.headers["tags"]), ("3", "notebook"))
        self.assertEqual(post.headers["authorization"], f"Bearer {SECRET}")

    def test_a_webhook_that_fails_holds_up_nobody_and_tells_no_secret(self) -> None:
        self.go_on_with(failing)
        eventually(lambda: failing.other.posts, "the other one has it")
        eventually(lambda: "cannot connect to `127.0.0.1`" in self.server.log(), "the log says why")
        log = self.server.log()
        self.assertNotIn("very-private", log)
        self.assertNotIn(SECRET, log)

    def test_a_flood_reaches_a_webhook_in_bearable_amounts(self) -> None:
        site = self.site()
        self.speak(f'[notifications]\nper_minute = 60\n[[notifications.webhooks]]\nurl = "{site.url}"')
        started = time.monotonic()
        for number in range(300):
            self.notify(body=f"Number {number}")

        def told() -> int:
            titles = [json.loads(post.body)["title"] for post in site.posts]
            return sum(int(title.split()[0]) if "more from" in title else 1 for title in titles)

        eventually(lambda: told() == 300, "all of them are accounted for")
        # As many as may come at once, and one for each second since; digests take the place of one each.
        self.assertLess(len(site.posts), 100 + time.monotonic() - started)


if __name__ == "__main__":
    unittest.main()
