"""Traces as a collector gets them: from a client through the server into a worker, in one piece."""

from __future__ import annotations

import json
import os
import threading
import unittest
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ahead_case import ahead, ahead_last
from bridge_case import ALLOW, OFFLINE, BridgeTestCase
from gateway_client import Gateway, eventually
from test_bridge_sdk import sdk_pool

SERVER, CLIENT, INTERNAL = 2, 3, 1


def setUpModule() -> None:
    TraceTest.begin_ahead()


load_tests = ahead_last


class Collector:
    """Takes spans over HTTP, or refuses them with another status."""

    def __init__(self) -> None:
        self.spans: list[dict] = []
        self.resources: list[dict] = []
        self.requests = 0
        self.status = 200
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                assert self.path == "/v1/traces", self.path
                collector.requests += 1
                if collector.status == 200:
                    collector.take(body)
                self.send_response(collector.status)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def take(self, body: dict) -> None:
        for resource in body["resourceSpans"]:
            self.resources.append(attributes(resource["resource"]))
            for scope in resource["scopeSpans"]:
                self.spans.extend(scope["spans"])

    def of(self, trace: str) -> dict[str, dict]:
        """The spans of a trace by their names."""
        return {span["name"]: span for span in list(self.spans) if span["traceId"] == trace}

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()


def attributes(holder: dict) -> dict:
    return {one["key"]: next(iter(one["value"].values())) for one in holder["attributes"]}


def position() -> tuple[str, str, str]:
    """A trace, a span of it, and the header that says so."""
    trace, span = os.urandom(16).hex(), os.urandom(8).hex()
    return trace, span, f"00-{trace}-{span}-01"


class TraceTest(BridgeTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.collector = Collector()
        self.addCleanup(self.collector.close)
        # None is kept but those whose client says so.
        telemetry = f'[telemetry]\notlp_endpoint = "{self.collector.url}"\nsample_ratio = 0.0\n'
        self.py = sdk_pool(self.notes)
        self.serve("", self.py, before=OFFLINE, more=ALLOW + telemetry)
        self.bridge.session = self.session()

    def whole(self, trace: str, names: set[str]) -> dict[str, dict]:
        eventually(lambda: names <= set(self.collector.of(trace)), f"{names}, but {self.collector.of(trace)}")
        spans = self.collector.of(trace)
        self.assertEqual(set(spans), names)
        return spans

    def assert_beneath(self, span: dict, parent: dict | str, kind: int) -> None:
        above = parent if isinstance(parent, str) else parent["spanId"]
        self.assertEqual((span["parentSpanId"], span["kind"]), (above, kind), span["name"])
        self.assertLessEqual(int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"]))

    @ahead
    def test_a_program_calls_a_tool(self) -> None:
        trace, client, header = position()
        self.assertEqual(self.bridge.value("add", {"a": 2, "b": 3}, headers=[("traceparent", header)]), 5)
        spans = self.whole(trace, {"request", "tool_call", "worker add"})
        self.assert_beneath(spans["request"], client, SERVER)
        self.assert_beneath(spans["tool_call"], spans["request"], CLIENT)
        self.assert_beneath(spans["worker add"], spans["tool_call"], SERVER)
        self.assertEqual(attributes(spans["request"])["surface"], "bridge")
        worker = attributes(spans["worker add"])
        (pid,) = self.py.pids()
        self.assertEqual((worker["pool_name"], int(worker["python_pid"])), ("py", pid))
        self.assertTrue(worker["worker_id"])
        self.assertEqual(self.collector.resources[0]["service.name"], "patchboard")

    @ahead
    def test_an_agent_calls_a_tool(self) -> None:
        trace, client, header = position()
        with Gateway(self.server, additional_headers={"traceparent": header}) as gateway:
            turn = gateway.chat('/call add {"a": 20, "b": 3}')
        self.assertEqual(turn.errors, [])
        spans = self.whole(trace, {"request", "run", "model_call", "tool_call", "worker add"})
        self.assert_beneath(spans["request"], client, SERVER)
        self.assert_beneath(spans["run"], spans["request"], INTERNAL)
        self.assert_beneath(spans["model_call"], spans["run"], CLIENT)
        self.assert_beneath(spans["tool_call"], spans["run"], CLIENT)
        self.assert_beneath(spans["worker add"], spans["tool_call"], SERVER)
        self.assertEqual(attributes(spans["run"])["run.outcome"], "completed")
        self.assertNotIn("/call", json.dumps(self.collector.spans))

    @ahead
    def test_a_tool_that_fails(self) -> None:
        trace, _, header = position()
        answer = self.bridge.call("add", {"a": "no", "b": "number"}, headers=[("traceparent", header)])
        self.assertFalse(answer.success)
        trace_of_worker, _, header = position()
        self.bridge.failure("fail", {"message": "a private reason"}, headers=[("traceparent", header)])
        spans = self.whole(trace_of_worker, {"request", "tool_call", "worker fail"})
        for name in ("tool_call", "worker fail"):
            self.assertEqual(spans[name]["status"]["code"], 2, spans[name])
        self.assertNotIn("private", json.dumps(self.collector.spans))

    @ahead
    def test_traces_nobody_keeps_are_not_sent(self) -> None:
        self.bridge.value("add", {"a": 1, "b": 1})
        trace, _, header = position()
        self.bridge.value("add", {"a": 1, "b": 1}, headers=[("traceparent", header[:-1] + "0")])
        last, _, header = position()
        self.bridge.value("add", {"a": 1, "b": 1}, headers=[("traceparent", header)])
        self.whole(last, {"request", "tool_call", "worker add"})
        self.assertEqual(self.collector.of(trace), {})
        self.assertEqual({span["traceId"] for span in self.collector.spans}, {last})

    def test_what_is_left_is_sent_at_the_end(self) -> None:
        trace, _, header = position()
        self.bridge.value("add", {"a": 1, "b": 1}, headers=[("traceparent", header)])
        self.assertEqual(self.server.terminate(), 0)
        self.assertLessEqual({"request", "tool_call"}, set(self.collector.of(trace)))

    @ahead
    def test_a_collector_that_refuses_is_told_of_once(self) -> None:
        self.collector.status = 400
        for count in (1, 2):
            _, _, header = position()
            self.bridge.value("add", {"a": 1, "b": 1}, headers=[("traceparent", header)])
            eventually(lambda: self.collector.requests >= count, f"request {count}")
        self.collector.status = 200
        trace, _, header = position()
        self.bridge.value("add", {"a": 1, "b": 1}, headers=[("traceparent", header)])
        eventually(lambda: self.collector.of(trace), "a trace after the trouble")
        eventually(lambda: "traces are sent again" in self.server.log(), "the end of the trouble")
        self.assertEqual(self.server.log().count("traces cannot be sent"), 1)
        host, port = self.server.address("gateway").rsplit(":", 1)
        with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=60) as answer:
            metrics = answer.read().decode()
        self.assertRegex(metrics, r'patchboard_trace_spans_dropped_total\{reason="refused"\} [1-9]')
        self.assertRegex(metrics, r"patchboard_trace_spans_sent_total [1-9]")
        self.assertRegex(metrics, r'patchboard_telemetry_events_total\{kind="tool.execution"\} [1-9]')


if __name__ == "__main__":
    unittest.main()
