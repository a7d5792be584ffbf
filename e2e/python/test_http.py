"""Plain HTTP on the gateway's address: health, readiness, metrics, the status page and webhooks."""

from __future__ import annotations

import http.client
import re
import unittest
from html.parser import HTMLParser

from gateway_client import TIMEOUT, Gateway
from patchboard_server import ServerTestCase
from stub_model import Reply, StubModel, Text

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABELS = r'\{[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\.)*"(?:,[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\.)*")*,?\}'
SAMPLE = re.compile(rf"^({NAME})({LABELS})? (-?[0-9.eE+-]+|[+-]Inf|NaN)(?: [0-9]+)?$")


def parse(text: str) -> dict[str, float]:
    """Prometheus' text format: samples by name and labels. Fails on a line that is not of this format."""
    kinds: dict[str, str] = {}
    samples: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.removeprefix("# TYPE ").split(" ")
            assert name not in kinds, f"a second type of {name}"
            assert kind in ("counter", "gauge", "histogram", "summary", "untyped"), line
            kinds[name] = kind
        elif line and not line.startswith("#"):
            found = SAMPLE.match(line)
            assert found, f"not a sample: {line!r}"
            name, labels, value = found.groups()
            family = re.sub(r"_(bucket|sum|count)$", "", name)
            assert name in kinds or family in kinds, f"no type of {name}"
            assert name + (labels or "") not in samples, f"twice: {line}"
            samples[name + (labels or "")] = float(value)
    return samples


class Title(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.inside = False
        self.text = ""
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attributes) -> None:
        self.inside = tag == "title"
        self.addresses += [value for name, value in attributes if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.text += data
            self.inside = False


class HttpTest(ServerTestCase):
    def get(self, path: str, method: str = "GET", body: bytes | None = None) -> tuple[int, str, str]:
        """Status, content type and text."""
        connection = http.client.HTTPConnection(self.server.gateway, timeout=TIMEOUT)
        self.addCleanup(connection.close)
        connection.request(method, path, body)
        answer = connection.getresponse()
        return (
            answer.status,
            answer.headers.get_content_type() if "content-type" in answer.headers else "",
            answer.read().decode(),
        )

    def setUp(self) -> None:
        self.model = StubModel()
        self.addCleanup(self.model.close)
        self.server = self.start_server(config=self.model.provider_config("openai"))

    def test_health_is_ok_and_nothing_else(self) -> None:
        self.assertEqual(self.get("/health"), (200, "text/plain", "ok"))
        self.assertEqual(self.get("/healthz")[0], 200)
        self.assertEqual(self.get("/readyz")[0], 200)
        self.assertEqual(self.get("/health", "HEAD"), (200, "text/plain", ""))

    def test_other_methods_and_paths_are_refused(self) -> None:
        for method in ("POST", "PUT", "DELETE"):
            self.assertEqual(self.get("/health", method, b"")[0], 405, method)
        for path in ("/nope", "/ws/", "/health/", "/..", "/%2e%2e/etc/passwd", "/webhook", "/webhook/"):
            self.assertEqual(self.get(path)[0], 404, path)

    def test_the_socket_s_path_without_an_upgrade_is_a_bad_request(self) -> None:
        self.assertIn(self.get("/ws")[0], (400, 426))

    def test_the_front_page_is_a_page(self) -> None:
        status, kind, text = self.get("/")
        self.assertEqual((status, kind), (200, "text/html"))
        page = Title()
        page.feed(text)
        self.assertIn("Patchboard", page.text)
        self.assertIn(self.server.ready["version"], text)
        self.assertEqual([one for one in page.addresses if "//" in one], [], "nothing is loaded from elsewhere")

    def test_a_webhook_of_no_channel_is_not_found(self) -> None:
        status, kind, text = self.get("/webhook/telegram", "POST", b'{"message": "hi"}')
        self.assertEqual((status, kind), (404, "text/plain"))
        self.assertIn("no channel adapter for 'telegram'", text)
        self.assertEqual(self.get("/webhook/telegram")[0], 404)
        self.assertIn(self.get("/webhook/" + "x" * 5000, "POST", b"{}")[0], (404, 414))
        self.assertEqual(self.model.requests, [])

    def test_metrics_are_prometheus_text_and_count_what_happens(self) -> None:
        status, kind, before = self.get("/metrics")
        self.assertEqual((status, kind), (200, "text/plain"))
        parse(before)
        self.model.script(Reply(Text("hi"), input_tokens=120, output_tokens=34))
        with Gateway(self.server) as gateway:
            gateway.chat("hello, my secret-canary account", account="secret-canary")
        text = self.get("/metrics")[2]
        after = parse(text)
        self.assertNotIn("canary", text, "labels come from closed sets")
        self.assertEqual(sorted(value for name, value in after.items() if "tokens" in name and value), [34, 120])
        calls = [value for name, value in after.items() if name.startswith("patchboard_model_calls_total")]
        self.assertEqual(calls, [1])

    def test_metrics_can_be_switched_off(self) -> None:
        self.server = self.start_server(config="[telemetry]\nmetrics = false\n")
        self.assertEqual(self.get("/metrics")[0], 404)
        self.assertEqual(self.get("/health")[0], 200)


class ReadinessTest(ServerTestCase):
    def test_the_first_connection_is_taken_as_soon_as_the_server_says_that_it_is_ready(self) -> None:
        server = self.start_server()
        server.terminate()
        server.start()
        # One attempt, which is not repeated.
        with Gateway(server) as gateway:
            self.assertEqual(gateway.result("ping"), "pong")


if __name__ == "__main__":
    unittest.main()
