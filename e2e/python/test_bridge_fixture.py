"""The worker that the bridge's tests use is what it says: checked against a parent that only listens and answers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bridge_client import Bridge, Code, Listener, execution, grpc, json_any, packed_text, raw_any, toggle, wire
from gateway_client import eventually

FOLDER = Path(__file__).parent / "bridge_workers"
START_TIMEOUT = 120.0


class Parent:
    """What a worker calls, noted in order, with the least of an answer."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []
        self.headers: list[dict] = []
        self.is_deaf = threading.Event()
        # Set with the first call that it did not listen to.
        self.has_refused = threading.Event()
        self.registered: set[tuple[str, str]] = set()
        self.server = grpc.server(ThreadPoolExecutor(16))
        self.server.add_generic_rpc_handlers((wire.handlers_of(self),))
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def count(self, name: str) -> int:
        return self.names().count(name)

    def _note(self, name: str, request, context) -> None:
        if self.is_deaf.is_set():
            self.has_refused.set()
            context.abort(Code.UNAVAILABLE, "not listening")
        self.headers.append(dict(context.invocation_metadata()))
        self.calls.append((name, request))

    def Ping(self, request, context):
        self._note("Ping", request, context)
        return wire.PingResponse(message=f"pong: {request.message}")

    def InitializeSession(self, request, context):
        self._note("InitializeSession", request, context)
        return wire.InitializeSessionResponse(success=True)

    def CleanupSession(self, request, context):
        self._note("CleanupSession", request, context)
        return wire.CleanupSessionResponse(success=True, resources_cleaned=1)

    def Heartbeat(self, request, context):
        self._note("Heartbeat", request, context)
        return wire.HeartbeatResponse(session_valid=False)

    def RegisterTools(self, request, context):
        self._note("RegisterTools", request, context)
        return wire.RegisterToolsResponse(success=True, tool_ids={one.name: one.name for one in request.tools})

    def GetExposedElixirTools(self, request, context):
        self._note("GetExposedElixirTools", request, context)
        return wire.GetExposedElixirToolsResponse(tools=[wire.ToolSpec(name="host"), wire.ToolSpec(name="big")])

    def ExecuteElixirTool(self, request, context):
        self._note("ExecuteElixirTool", request, context)
        if request.tool_name == "big":
            return wire.ExecuteElixirToolResponse(success=True, result=json_any("x" * (4 << 20)))
        return wire.ExecuteElixirToolResponse(success=True, result=json_any({"got": sorted(request.parameters)}))


class FixtureTest(unittest.TestCase):
    def setUp(self) -> None:
        self.parent = Parent()
        self.addCleanup(lambda: self.parent.server.stop(0).wait())
        self.notes = Path(tempfile.mkdtemp(prefix="patchboard-worker-"))
        self.addCleanup(shutil.rmtree, self.notes, ignore_errors=True)

    def command(self, *arguments: str, adapter: str = "adapters.Tools") -> list[str]:
        return [sys.executable, "grpc_server.py", "--adapter", adapter, *arguments]

    def environment(self, **more: str) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("SNAKEPIT_")}
        return {**own, "FIXTURE_FOLDER": str(self.notes), "SNAKEPIT_READY_FILE": str(self.notes / "ready"), **more}

    def start(self, *arguments: str, adapter: str = "adapters.Tools", **environment: str) -> Bridge:
        address = f"127.0.0.1:{self.parent.port}"
        self.process = subprocess.Popen(
            self.command("--port", "0", "--elixir-address", address, *arguments, adapter=adapter),
            cwd=FOLDER,
            env=self.environment(SNAKEPIT_PROCESS_GROUP="1", **environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.addCleanup(self.process.stdout.close)
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        eventually((self.notes / "ready").exists, "the ready file", START_TIMEOUT)
        bridge = Bridge(f"127.0.0.1:{int((self.notes / 'ready').read_text())}")
        self.addCleanup(bridge.close)
        return bridge

    def result(self, bridge: Bridge, tool: str, **arguments: object):
        answer = bridge.call(tool, arguments)
        self.assertTrue(answer.success, answer.error_message)
        self.assertFalse(answer.binary_result)
        return answer.result.type_url.removeprefix("type.googleapis.com/snakepit."), json.loads(answer.result.value)


class StartTest(FixtureTest):
    def test_it_pings_first_and_does_nothing_else(self) -> None:
        bridge = self.start()
        self.assertEqual(
            [(name, request.message) for name, request in self.parent.calls], [("Ping", "connection_test")]
        )
        self.assertEqual(bridge.ping("x"), "Pong from Python: x")
        self.assertEqual(os.getpgid(self.process.pid), self.process.pid)
        self.assertFalse((self.notes / "ready.tmp").exists())

    def test_it_waits_for_its_parent(self) -> None:
        self.parent.is_deaf.set()

        def listen_after_the_first() -> None:
            self.parent.has_refused.wait(START_TIMEOUT)
            self.parent.is_deaf.clear()

        listening = threading.Thread(target=listen_after_the_first, daemon=True)
        listening.start()
        self.start()
        self.assertTrue(self.parent.has_refused.is_set())
        self.assertEqual(self.parent.count("Ping"), 1)

    def test_wrong_flags_end_it_with_2_and_a_broken_adapter_with_1(self) -> None:
        address = ("--elixir-address", f"127.0.0.1:{self.parent.port}")
        for command, code in (
            (self.command(*address, "--mode", "threaded"), 2),
            (self.command(), 2),
            (self.command(*address, adapter="broken.Tools"), 1),
            (self.command(*address, "--health-check", adapter="broken.Tools"), 1),
            (self.command(*address, "--health-check"), 0),
        ):
            with self.subTest(command[2:]):
                done = subprocess.run(command, cwd=FOLDER, env=self.environment(), capture_output=True, timeout=60)
                self.assertEqual(done.returncode, code, done.stderr)

    def test_it_ends_with_0_when_told(self) -> None:
        self.start()
        self.process.terminate()
        self.assertEqual(self.process.wait(30), 0)


class CallTest(FixtureTest):
    def test_what_one_call_does_and_in_which_order(self) -> None:
        bridge = self.start()
        self.assertEqual(self.result(bridge, "echo", value="x"), ("string", "x"))
        calls = [name for name in self.parent.names() if name != "Heartbeat"]
        self.assertEqual(calls, ["Ping", "InitializeSession", "RegisterTools"])
        ((_, request),) = [call for call in self.parent.calls if call[0] == "RegisterTools"]
        self.assertEqual(request.session_id, "s1")
        self.assertRegex(request.worker_id, r"^python-\d+$")
        tools = {one.name: one for one in request.tools}
        self.assertIn("execute_tool", tools)
        self.assertEqual(
            [(one.name, one.type, one.required) for one in tools["describe"].parameters], [("kwargs", "any", True)]
        )
        self.assertEqual([(one.name, one.type) for one in tools["add"].parameters], [("a", "float"), ("b", "float")])
        self.result(bridge, "echo", value="y")
        calls = [name for name in self.parent.names() if name != "Heartbeat"]
        self.assertEqual(calls[3:], ["InitializeSession"], "it registers once")
        self.assertTrue(all(len(one[wire.CORRELATION]) == 32 for one in self.parent.headers[1:2]))

    def test_a_name_that_is_no_tool_makes_it_register(self) -> None:
        bridge = self.start()
        error = json.loads(bridge.failure("no_such_tool"))
        self.assertEqual(error["type"], "AttributeError")
        self.assertEqual(error["context"], {"tool_name": "no_such_tool", "session_id": "s1"})
        self.assertEqual(self.parent.count("RegisterTools"), 1)

    def test_results_with_their_losses(self) -> None:
        bridge = self.start()
        for kind, expected in {
            "none": ("string", "None"),
            "int": ("float", 5.0),
            "big": ("float", 2.0**53),
            "nan": ("float", "NaN"),
            "bytes": ("string", "b'raw'"),
            "tuple": ("string", "(1, 2)"),
            "true": ("boolean", True),
            "list": ("list", [1, "two", None]),
        }.items():
            with self.subTest(kind):
                self.assertEqual(self.result(bridge, "make", kind=kind), expected)
        kind, made = self.result(bridge, "make", kind="map")
        self.assertEqual((kind, made["int"], made["big"], made["null"], made["nan"]), ("map", 5, 2**53 + 1, None, None))
        self.assertEqual(made["object"], {"__ffi_unserializable__": True, "__type__": "builtins.type"})

    def test_only_json_is_understood(self) -> None:
        bridge = self.start()
        for value in (packed_text("x"), raw_any(b""), raw_any(b"{")):
            with self.subTest(value):
                self.assertEqual(json.loads(bridge.failure("echo", {"value": value}))["type"], "JSONDecodeError")
        url = "type.googleapis.com/google.protobuf.StringValue"
        self.assertEqual(self.result(bridge, "echo", value=json_any({"a": [1]}, url)), ("map", {"a": [1]}))

    def test_streams(self) -> None:
        bridge = self.start()
        chunks = list(bridge.stream("count_to", {"n": 2}))
        told = [(one.chunk_id, one.data, one.is_final) for one in chunks]
        self.assertEqual(
            told,
            [("count_to-1", b'{"n": 1}', False), ("count_to-2", b'{"n": 2}', False), ("count_to-3", b"", True)],
        )
        data = [one.data for one in bridge.stream("pieces")]
        self.assertEqual(data, [b"", b"\x00\xff", b"text", b"[1, null]", b""])
        broken = bridge.refused_stream("bad_stream")
        self.assertEqual((broken.code, json.loads(broken.text)["message"]), (Code.INTERNAL, "no three"))
        self.assertEqual(bridge.refused_stream("hanging_stream", timeout=1).code, Code.DEADLINE_EXCEEDED)
        self.assertIn("non-streaming endpoint", str(self.result(bridge, "count_to", n=2)))

    def test_a_stream_is_read_no_further_than_a_hundred_ahead_and_hears_of_the_end(self) -> None:
        bridge = self.start()
        call = bridge.stream("flood", {"size": 1 << 16})
        next(call)
        call.cancel()
        eventually((self.notes / "flood-stopped").exists, "the tool hears of it")
        call = bridge.stream("wait_stream")
        self.assertEqual(next(call).data, b"waiting")
        eventually((self.notes / "wait_stream").exists, "the tool waits")
        call.cancel()
        eventually((self.notes / "wait_stream-stopped").exists, "the tool hears of it")

    def test_host_tools(self) -> None:
        bridge = self.start()
        self.assertEqual(
            self.result(bridge, "call_host", name="host", arguments={"a": 1, "b": "x"}),
            ("map", {"result": {"got": ["a", "b"]}}),
        )
        ((_, request),) = [call for call in self.parent.calls if call[0] == "ExecuteElixirTool"]
        self.assertEqual(request.parameters["a"].value, b"1")
        self.assertEqual(request.parameters["b"].value, b"\x0a\x01x")
        error = json.loads(bridge.failure("call_host", {"name": "big", "arguments": {}}))
        self.assertIn("RESOURCE_EXHAUSTED", error["message"])

    def test_rpcs_of_a_parent_are_not_there(self) -> None:
        bridge = self.start()
        for name, request in (
            ("RegisterTools", wire.RegisterToolsRequest()),
            ("GetExposedElixirTools", wire.GetExposedElixirToolsRequest()),
            ("ExecuteElixirTool", wire.ExecuteElixirToolRequest()),
        ):
            self.assertEqual(bridge.refused(name, request).code, Code.UNIMPLEMENTED)

    def test_it_has_threads_for_calls_at_once(self) -> None:
        bridge = self.start()
        calls = [bridge.stub.ExecuteTool.future(execution("s1", "hold", {"name": "all"})) for _ in range(4)]
        hold = self.notes / "hold"
        eventually(lambda: hold.exists() and hold.read_text().splitlines() == ["all"] * 4, "all four run")
        self.assertFalse(any(call.done() for call in calls))
        (self.notes / "release-all").touch()
        self.assertTrue(all(call.result(30).success for call in calls))


class HeartbeatTest(FixtureTest):
    def test_it_ends_itself_after_three_misses_but_only_once_it_saw_a_session(self) -> None:
        fast = json.dumps({"interval_ms": 50, "timeout_ms": 500})
        bridge = self.start("--heartbeat-interval-ms", "60000", SNAKEPIT_HEARTBEAT_CONFIG=fast)
        self.assertNotIn("Heartbeat", self.parent.names())
        bridge.open("s1")
        eventually(lambda: self.parent.count("Heartbeat") >= 3, "beats, also when the session is gone")
        self.parent.is_deaf.set()
        self.assertEqual(self.process.wait(30), 0)

    def test_cleaning_up_stops_the_loop(self) -> None:
        bridge = self.start(SNAKEPIT_HEARTBEAT_CONFIG=json.dumps({"interval_ms": 20}))
        bridge.open("s1")
        bridge.open("s2")
        eventually(lambda: self.parent.count("Heartbeat") >= 3, "beats")
        bridge.cleanup("s1")
        self.assertIn("CleanupSession", self.parent.names())
        mark = len(self.parent.calls)
        eventually(lambda: len(self.parent.calls) >= mark + 10, "more beats")
        late = {request.session_id for name, request in self.parent.calls[mark + 2 :] if name == "Heartbeat"}
        self.assertEqual(late, {"s2"})


class TelemetryTest(FixtureTest):
    def test_one_stream_works(self) -> None:
        bridge = self.start()
        listener = Listener(bridge, toggle(True))
        self.result(bridge, "emit", name="tool.execution.start", measurements={"count": 1, "duration": 0.5})
        event = listener.until(lambda one: list(one.event_parts) == ["tool", "execution", "start"], "the event")
        self.assertEqual((event.measurements["count"].int_value, event.measurements["duration"].float_value), (1, 0.5))
        self.assertEqual(len(event.correlation_id), 32)
        listener.close()

    def test_it_can_be_ended_by_the_worker(self) -> None:
        bridge = self.start()
        listener = Listener(bridge, toggle(True))
        self.result(bridge, "drop_telemetry")
        listener._thread.join(30)
        self.assertFalse(listener._thread.is_alive())
        listener.close()


class StopTest(FixtureTest):
    def test_a_tool_on_a_thread_does_not_keep_it(self) -> None:
        bridge = self.start()
        # A call that nobody holds is cancelled.
        call = bridge.stub.ExecuteTool.future(execution("s1", "nap", {"seconds": 60}))
        self.addCleanup(call.cancel)
        eventually((self.notes / "nap").exists, "the tool runs")
        self.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.process.wait(30), 0)


if __name__ == "__main__":
    unittest.main()
