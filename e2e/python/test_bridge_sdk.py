"""Workers made with the Python SDK, and its client: the same rules, without the losses of unmodified ones."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import io
import json
import os
import signal
import socket
import sys
import unittest
from pathlib import Path

from bridge_case import ALLOW, LONG, OFFLINE, WORKERS, BridgeTestCase, Notes, Pool, SharedBridgeCase, is_alive
from bridge_client import TIMEOUT, Code, Refused, event_filter, packed_text, raw_any, together, toggle, value_of, wire
from gateway_client import Gateway, eventually
from packages import load

grpc = load("grpc")
numpy = load("numpy")
SDK = Path(__file__).resolve().parents[2] / "sdk" / "python" / "src"
if str(SDK) not in sys.path:
    sys.path.insert(0, str(SDK))
patchboard = load("patchboard")


def sdk_pool(notes: Notes, name: str = "py", **keys) -> Pool:
    env = {"PYTHONPATH": os.pathsep.join([str(SDK), str(WORKERS)]), **keys.pop("env", {})}
    command = [sys.executable, "-m", "patchboard.worker", "sdk_tools.py"]
    return Pool(notes, name, command=command, env=env, **keys)


class SdkCase(SharedBridgeCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.py = sdk_pool(cls.make_notes())
        cls.serve_all("", cls.py)


class CallTest(SdkCase):
    def test_the_tools_are_known_with_everything_they_say(self) -> None:
        tools = self.bridge.tools()
        self.assertLessEqual({"echo", "add", "double", "count_to"}, set(tools))
        add = tools["add"]
        self.assertIn("Adds two whole numbers", add.description)
        self.assertEqual(
            [(one.name, one.type, one.required, one.description) for one in add.parameters],
            [("a", "integer", True, "the first one"), ("b", "integer", True, "the second one")],
        )
        self.assertTrue(tools["count_to"].supports_streaming)
        self.assertEqual(tools["cached"].metadata["cacheable"], "true")
        self.assertEqual(self.bridge.get().tool_count, len(tools))

    def test_whole_numbers_stay_whole_and_nothing_stays_nothing(self) -> None:
        for kind, expected in (
            ("int", 5),
            ("big", 2**53 + 1),
            ("huge", 2**64 - 1),
            ("none", None),
            ("list", [1, None, 2**60]),
        ):
            with self.subTest(kind):
                got = self.bridge.value("make", {"kind": kind})
                self.assertEqual((got, type(got)), (expected, type(expected)))
        for value in (None, True, 0, 5, 2**53 + 1, 1.5, "", "text", [], {}, {"a": [None, 2**60]}):
            with self.subTest(value):
                got = self.bridge.value("echo", {"value": value})
                self.assertEqual((got, type(got)), (value, type(value)))

    def test_bytes_both_ways(self) -> None:
        data = os.urandom(16 << 20)
        answer = self.bridge.call("reverse", binary={"data": data}, timeout=120)
        self.assertTrue(answer.success, answer.error_message)
        self.assertEqual(answer.binary_result, data[::-1])
        self.assertEqual(answer.metadata["content_type"], "application/octet-stream")
        measured = self.bridge.value("measure", binary={"data": data}, timeout=120)
        self.assertEqual(measured["sha256"], hashlib.sha256(data).hexdigest())

    def test_bytes_that_say_what_they_are(self) -> None:
        answer = self.bridge.call("picture")
        self.assertEqual((answer.binary_result, answer.metadata["content_type"]), (b"\x89PNG", "image/png"))
        self.assertEqual(answer.metadata["width"], "1")
        self.assertEqual(answer.metadata["tool_type"], "remote")

    def test_arrays_both_ways(self) -> None:
        array = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
        out = io.BytesIO()
        numpy.save(out, array, allow_pickle=False)
        answer = self.bridge.call("double", binary={"array": out.getvalue()}, metadata={"binary_format:array": "npy"})
        self.assertTrue(answer.success, answer.error_message)
        self.assertEqual(answer.metadata["content_type"], "application/x-npy")
        doubled = numpy.load(io.BytesIO(answer.binary_result), allow_pickle=False)
        numpy.testing.assert_array_equal(doubled, array * 2)
        self.assertEqual(doubled.dtype, array.dtype)

    def test_a_text_that_looks_like_json_stays_a_text_where_one_is_wanted(self) -> None:
        self.assertEqual(
            self.bridge.value("text", {"text": packed_text('{"a": 1}')}), {"type": "str", "repr": repr('{"a": 1}')}
        )
        self.assertEqual(self.bridge.value("echo", {"value": packed_text('{"a": 1}')}), {"a": 1})

    def test_bad_arguments_run_nothing(self) -> None:
        before = len(self.notes.lines("add"))
        for arguments in (
            {"a": 1},
            {"a": 1, "b": "two"},
            {"a": 1, "b": 2.5},
            {"a": 1, "b": 2, "c": 3},
            {"a": None, "b": 1},
        ):
            with self.subTest(arguments):
                self.assertRegex(self.bridge.failure("add", arguments), "^Invalid parameter [abc]: ")
        self.assertTrue(self.bridge.failure("add", {"a": raw_any(b"{"), "b": 1}).startswith("Invalid parameter a: "))
        self.assertEqual(len(self.notes.lines("add")), before)

    def test_failures_have_their_shape(self) -> None:
        error = json.loads(self.bridge.failure("fail", {"message": "no luck"}))
        self.assertEqual((error["type"], error["message"]), ("ValueError", "no luck"))

    def test_what_travels_along(self) -> None:
        told = self.bridge.value(
            "about", metadata={"user": "alice", "timeout_ms": "9000"}, headers=[(wire.CORRELATION, "my-id")]
        )
        self.assertEqual((told["session"], told["correlation"]), (self.bridge.session, "my-id"))
        self.assertEqual(told["metadata"]["user"], "alice")
        self.assertTrue(5 < told["time_left"] <= 9, told["time_left"])
        env = told["environment"]
        self.assertEqual(env["PATCHBOARD_POOL"], "py")
        self.assertTrue(env["PATCHBOARD_WORKER_ID"])
        self.assertTrue(os.path.isabs(env["PATCHBOARD_WORKER_SOCKET"]))

    def test_it_listens_on_a_socket_and_on_no_port(self) -> None:
        told = self.bridge.value("about")
        self.assertEqual(listening_ports(told["pid"]), [])
        path = told["environment"]["PATCHBOARD_WORKER_SOCKET"]
        self.assertEqual(os.stat(path).st_mode & 0o077, 0)
        with socket.socket(socket.AF_UNIX) as plug:
            plug.connect(path)

    def test_cancelling(self) -> None:
        for tool in ("doze", "patient"):
            call = functools.partial(self.bridge.refused_call, tool, {"seconds": LONG, "name": "x"}, timeout=LONG)
            refused = self.ended_while_running(
                tool,
                "x",
                lambda limit: call(metadata={"timeout_ms": limit}),  # noqa: B023 - called at once
            )
            self.assertEqual(refused.code, Code.DEADLINE_EXCEEDED)
        self.notes.wait_for("doze-cancelled", "x")
        self.notes.wait_for("patient-done", "x True")

    def test_streams(self) -> None:
        chunks = list(self.bridge.stream("count_to", {"n": 300}))
        self.assertEqual([json.loads(one.data)["n"] for one in chunks if one.data], list(range(1, 301)))
        self.assertEqual([one.is_final for one in chunks].count(True), 1)
        self.assertTrue(chunks[-1].is_final)
        data = [one.data for one in self.bridge.stream("pieces")]
        self.assertIn(b"\x00\xff", data)
        self.assertIn(b"text", data)
        refused = self.bridge.refused_stream("bad_stream")
        self.assertEqual((refused.code, json.loads(refused.text)["message"]), (Code.INTERNAL, "no two"))
        call = self.bridge.stream("wait_stream")
        next(call)
        call.cancel()
        self.notes.wait_for("wait_stream-stopped")

    def test_caching(self) -> None:
        session = self.session(config={"enable_caching": True, "cache_ttl_seconds": 60})
        made = {self.bridge.value("cached", {"key": "k"}, session=session)["made"] for _ in range(3)}
        self.assertEqual(len(made), 1)

    def test_the_server_s_tools(self) -> None:
        self.assertEqual(set(self.bridge.value("host_tools")), set(self.bridge.host_tools()))
        value = {"list": [1, None, 2**60], "text": "x"}
        self.bridge.value("host", {"name": "variable_set", "arguments": {"name": "v", "value": value}})
        self.assertEqual(self.bridge.host_value("variable_get", {"name": "v"})["value"], value)
        got = self.bridge.value("host", {"name": "variable_get", "arguments": {"name": "v"}})
        self.assertEqual(got["result"]["value"], value)

    def test_variables_in_a_tool(self) -> None:
        self.assertEqual([self.bridge.value("count_up", {"name": "n"}) for _ in range(3)], [1, 2, 3])
        self.assertEqual(self.bridge.host_value("variable_get", {"name": "n"})["value"], 3)

    def test_long_answers_from_the_server(self) -> None:
        for at, size in enumerate([262_000] * 15 + [200] * 100):
            self.bridge.host_value("variable_set", {"name": f"variable_with_a_name_{at}", "value": "x" * size})
        watch = {"since": 0, "timeout_ms": 1}
        whole = self.bridge.host_call("variable_watch", watch)
        got = self.bridge.value("host", {"name": "variable_watch", "arguments": watch}, timeout=60)
        self.assertEqual(got["result"], value_of(whole.result))

    def test_what_a_process_keeps_of_a_session_ends_with_it(self) -> None:
        session = self.session()
        for value in ("first", "second"):
            self.assertEqual(self.bridge.value("remember_here", {"value": value}, session=session), "first")
        self.bridge.cleanup(session)
        self.notes.wait_for("hooks", f"session {session}")
        self.bridge.open(session)
        self.assertEqual(self.bridge.value("remember_here", {"value": "new"}, session=session), "new")

    def test_events(self) -> None:
        session = self.session(config={"enable_telemetry": True})
        listener = self.bridge.listen(event_filter(("model.*",)), toggle(True))
        self.addCleanup(listener.close)

        def heard() -> bool:
            arguments = {"name": "model.loaded", "measurements": {"duration_ms": 12}, "metadata": {"mark": "x"}}
            self.bridge.value("emit", arguments, session=session)
            return any(list(one.event_parts) == ["model", "loaded"] for one in listener.seen)

        eventually(heard, "the event is heard")

    def test_many_at_once(self) -> None:
        answers = together(20, lambda at: [self.bridge.value("add", {"a": at, "b": one}) for one in range(10)])
        self.assertEqual(answers, [[at + one for one in range(10)] for at in range(20)])


class ClientTest(SdkCase):
    """The SDK's client against the server, beside other stubs of the same protocol in one process."""

    def client(self, **options):
        client = patchboard.Client(self.server.address("bridge"), timeout=30, **options)
        self.addCleanup(client.close)
        return client

    def test_calls(self) -> None:
        client = self.client()
        self.assertEqual(client.call("add", a=2, b=3), 5)
        self.assertEqual(client.call("make", kind="huge"), 2**64 - 1)
        self.assertIsNone(client.call("make", kind="none"))
        self.assertEqual(client.call("reverse", data=b"abc"), b"cba")
        array = numpy.arange(6).reshape(2, 3)
        numpy.testing.assert_array_equal(client.call("double", array=array), array * 2)
        picture = client.call("picture")
        self.assertEqual((picture.data, picture.content_type), (b"\x89PNG", "image/png"))

    def test_streams(self) -> None:
        client = self.client()
        self.assertEqual([one["n"] for one in client.stream("count_to", n=5)], [1, 2, 3, 4, 5])
        progress = []
        pieces = list(client.stream_tool("pieces", on_progress=progress.append))
        self.assertEqual(pieces[:2], [b"\x00\xff", "text"])
        numpy.testing.assert_array_equal(pieces[2], numpy.arange(3))
        self.assertEqual(pieces[3], [1, None])
        self.assertEqual([(one.fraction, one.message) for one in progress], [(0.5, "half way")])

    def test_errors_have_their_kinds(self) -> None:
        client = self.client()
        with self.assertRaises(patchboard.ToolError) as error:
            client.call("fail", message="no luck")
        self.assertIn("no luck", str(error.exception))
        with self.assertRaises(patchboard.ToolNotFound):
            client.call("no_such_tool")
        with self.assertRaises(patchboard.DeadlineExceeded):
            client.call_tool("doze", {"seconds": LONG}, timeout=0.3)
        with self.assertRaises(patchboard.Unsupported):
            list(client.stream("add", a=1, b=2))
        with self.assertRaises(patchboard.VariableNotFound):
            client.variables.get("missing")
        client.end_session()
        stale = self.client(session_id=client.session_id)
        stale._is_open = True
        with self.assertRaises(patchboard.SessionNotFound):
            stale.call("add", a=1, b=2)

    def test_lists_and_sessions(self) -> None:
        with self.client(metadata={"user": "alice"}) as client:
            self.assertIn("add", {one.name for one in client.tools()})
            self.assertIn("variable_set", {one.name for one in client.host_tools()})
            self.assertTrue(client.heartbeat())
            self.assertEqual(client.ping("x"), "pong: x")
            self.assertTrue(self.bridge.is_there(client.session_id))
            self.assertEqual(self.bridge.get(client.session_id).metadata["user"], "alice")
        self.assertFalse(self.bridge.is_there(client.session_id))

    def test_variables(self) -> None:
        variables = self.client().variables
        variables["a"] = {"x": [1, None]}
        self.assertEqual(variables["a"], {"x": [1, None]})
        variables.set("b", 2, depends_on=["a"])
        written = variables.set("a", 1)
        self.assertEqual(written.stale, ("b",))
        self.assertTrue(variables.read("b").stale)
        self.assertEqual(sorted(one.name for one in variables.list()), ["a", "b"])
        del variables["a"]
        self.assertEqual(variables.get("a", "default"), "default")

    def test_watching_variables(self) -> None:
        client = self.client()
        client.ping()
        client.tools()
        watching = self.in_background(lambda: next(client.variables.watch("w*", timeout=30)))
        other = self.client(session_id=client.session_id)
        number = 0
        while not watching.done():
            number += 1
            other.variables.set("watched", number)
            other.variables.set("unwatched.not", number)
        self.assertEqual(watching.result().name, "watched")

    def test_asyncio(self) -> None:
        async def work():
            async with patchboard.AsyncClient(self.server.address("bridge"), timeout=30) as client:
                sums = await asyncio.gather(*(client.call("add", a=at, b=1) for at in range(10)))
                streamed = [one["n"] async for one in client.stream("count_to", n=3)]
                await client.variables.set("x", 1)
                return sums, streamed, await client.variables.get("x")

        self.assertEqual(asyncio.run(work()), (list(range(1, 11)), [1, 2, 3], 1))


class ConnectionTest(BridgeTestCase):
    def test_over_the_socket(self) -> None:
        self.serve('unix_socket = "bridge.sock"\n', sdk_pool(self.notes))
        path = self.server.data_dir / "bridge.sock"
        for address in (f"unix:{path}", str(path)):
            with self.subTest(address), patchboard.Client(address, timeout=30) as client:
                self.assertEqual(client.call("add", a=2, b=3), 5)

    def test_with_a_token(self) -> None:
        token = "0123456789abcdef0123456789abcdef"
        config = '[bridge]\ntoken = "env:E2E_BRIDGE_TOKEN"\n'
        server = self.start_server(config=config, bridge="127.0.0.1:0", env={"E2E_BRIDGE_TOKEN": token})
        with patchboard.Client(server.address("bridge"), token=token, timeout=30) as client:
            self.assertEqual(client.ping("x"), "pong: x")
        with self.assertRaises(patchboard.PermissionDenied):
            patchboard.Client(server.address("bridge"), token="wrong", timeout=30).ping()

    def test_no_server_at_all(self) -> None:
        with socket.socket() as plug:
            # A port that is nobody else's, where nothing listens.
            plug.bind(("127.0.0.1", 0))
            client = patchboard.Client(f"127.0.0.1:{plug.getsockname()[1]}", timeout=2)
            with self.assertRaises((patchboard.Unavailable, patchboard.DeadlineExceeded)):
                client.ping()


class PoolTest(BridgeTestCase):
    def start(self, bridge: str = "", **keys) -> None:
        self.py = sdk_pool(self.notes, **keys)
        self.serve(bridge, self.py)
        self.bridge.open()

    def where(self, session: str) -> int:
        return self.bridge.value("where", session=session)["pid"]

    def both(self) -> set[int]:
        """The processes that take two calls at once."""
        names = [f"both-{session}" for session in (self.session(), self.session())]
        calls = [self.hold(name, session=name.removeprefix("both-")) for name in names]
        for name in names:
            self.notes.release(name)
        return {call.result(TIMEOUT)["pid"] for call in calls}

    def test_a_killed_worker_is_replaced(self) -> None:
        self.start(count=2, capacity=1)
        before = self.both()
        self.assertEqual(len(before), 2)
        victim = min(before)
        os.kill(victim, signal.SIGKILL)
        for _ in range(20):
            outcome = self.bridge.outcome("add", {"a": 1, "b": 2})
            if isinstance(outcome, Refused):
                self.assertEqual(outcome.code, Code.UNAVAILABLE)
        eventually(lambda: self.report()["ready"] == 2 and len(self.py.pids() - {victim}) == 2, "another one", TIMEOUT)
        self.assertEqual(self.both(), self.py.pids(), "both work")

    def test_none_outlives_the_server(self) -> None:
        self.start(count=2)
        pids = self.py.pids()
        self.server.kill()
        eventually(lambda: not any(is_alive(pid) for pid in pids), "all are gone", TIMEOUT)

    def test_they_end_in_order(self) -> None:
        self.start()
        pid = self.where("s1")
        self.assertIn(f"start {pid}", self.notes.lines("hooks"))
        self.assertEqual(self.server.terminate(), 0)
        self.assertIn(f"stop {pid}", self.notes.lines("hooks"))

    def test_recycled_without_a_failure(self) -> None:
        self.start(count=1, capacity=2, max_requests=10)
        pids: set[int] = set()
        eventually(lambda: pids.add(self.where("s1")) or len(pids) >= 3, "the third one")
        eventually(lambda: len(self.py.pids()) == 1, "the old ones are ended")

    def test_capacity_is_what_both_agree_on(self) -> None:
        self.start('queue_timeout = "100ms"\n', capacity=2)
        calls = [self.hold(str(at)) for at in range(2)]
        for _ in range(2):
            self.assertIn("queue_timeout", self.bridge.refused_call("nap", {"seconds": 0.0}).text)
        for at in range(2):
            self.notes.release(str(at))
        self.assertEqual([call.result(TIMEOUT)["name"] for call in calls], ["0", "1"])

    def test_broken_tools_are_told_in_the_log(self) -> None:
        broken = self.notes.folder / "broken_tools.py"
        broken.write_text("raise RuntimeError('these tools are broken on purpose')\n")
        pool = sdk_pool(self.notes, "broken")
        config = pool.config.replace("sdk_tools.py", str(broken))
        self.server = self.start_server(config=config, bridge="127.0.0.1:0")
        eventually(lambda: "these tools are broken on purpose" in self.server.log(), "why is in the log")

    def test_in_a_chat(self) -> None:
        self.py = sdk_pool(self.notes)
        self.serve("", self.py, before=OFFLINE, more=ALLOW)
        with Gateway(self.server) as gateway:
            turn = gateway.chat('/call add {"a": 2, "b": 40}')
        self.assertIn("42", str(turn.data("tool_result")[0]["content"]))


class WarmTest(BridgeTestCase):
    """One process imports the tools; workers are copies of it."""

    def start(self, **keys) -> None:
        keys = {"count": 2, "capacity": 1, "warm": True, **keys}
        self.py = sdk_pool(self.notes, **keys)
        self.serve("", self.py)
        self.bridge.open()

    def workers(self, count: int = 2) -> list[dict]:
        sessions = [self.session() for _ in range(count)]
        told = together(count, lambda at: self.bridge.value("where", {"seconds": 0.3}, session=sessions[at]))
        for session in sessions:
            self.bridge.cleanup(session)
        return told

    def both(self) -> list[dict]:
        told: list[dict] = []

        def are_two() -> bool:
            try:
                told[:] = self.workers()
            except grpc.RpcError as error:
                # What was sent to one in the moment of its death is lost, and said to be.
                self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)
                return False
            return len({one["pid"] for one in told}) == 2

        eventually(are_two, "both workers")
        return told

    def test_the_tools_are_imported_once(self) -> None:
        self.start(env={"FIXTURE_IMPORT_SECONDS": "1"})
        told = self.both()
        (imported_by,) = {one["imported_by"] for one in told}
        self.assertNotIn(imported_by, {one["pid"] for one in told})
        self.assertEqual(self.notes.lines("imports"), [str(imported_by)])

    def test_a_killed_one_is_back_without_another_import(self) -> None:
        self.start()
        victim = self.both()[0]["pid"]
        os.kill(victim, signal.SIGKILL)
        eventually(lambda: not is_alive(victim), "it is gone")
        eventually(lambda: not isinstance(self.bridge.outcome("where"), Refused), "calls go through", TIMEOUT)
        self.assertNotIn(victim, {one["pid"] for one in self.both()})
        self.assertEqual(len(self.notes.lines("imports")), 1)

    def test_they_work(self) -> None:
        self.start()
        self.assertEqual(self.bridge.value("add", {"a": 2, "b": 3}), 5)
        self.assertEqual(self.bridge.value("count_up", {"name": "n"}), 1)
        self.assertEqual(len(list(self.bridge.stream("count_to", {"n": 3}))), 4)
        answer = self.bridge.call("reverse", binary={"data": b"abc"})
        self.assertEqual(answer.binary_result, b"cba")

    def test_the_parent_s_death_is_survived(self) -> None:
        self.start()
        parent = self.both()[0]["imported_by"]
        os.kill(parent, signal.SIGKILL)
        eventually(lambda: len(self.notes.lines("imports")) == 2, "another parent")
        eventually(
            lambda: not isinstance(self.bridge.outcome("add", {"a": 1, "b": 2}), Refused), "calls go through again"
        )
        told = self.both()
        self.assertNotIn(parent, {one["imported_by"] for one in told})

    def test_none_outlives_the_server(self) -> None:
        self.start()
        told = self.both()
        pids = {one["pid"] for one in told} | {one["imported_by"] for one in told}
        self.server.kill()
        eventually(lambda: not any(is_alive(pid) for pid in pids), "all are gone", TIMEOUT)
        self.server.start()
        self.assertEqual(self.server.terminate(), 0)
        eventually(lambda: not self.py.pids(), "all are gone", TIMEOUT)

    def test_recycling(self) -> None:
        self.start(count=1, capacity=2, max_requests=5)
        pids: set[int] = set()
        eventually(lambda: pids.add(self.bridge.value("where")["pid"]) or len(pids) >= 3, "the third one")
        self.assertEqual(len(self.notes.lines("imports")), 1)


def listening_ports(pid: int) -> list[int]:
    """TCP ports on which this process listens."""
    inodes = set()
    for handle in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{handle}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    ports = []
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}") as lines:
            for line in list(lines)[1:]:
                parts = line.split()
                if parts[3] == "0A" and parts[9] in inodes:
                    ports.append(int(parts[1].rsplit(":", 1)[1], 16))
    return ports


if __name__ == "__main__":
    unittest.main()
