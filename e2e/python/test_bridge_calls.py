"""ExecuteTool to workers: routing, what travels along, deadlines, cancelling, caching and failures."""

from __future__ import annotations

import functools
import json
import unittest

from bridge_case import LONG, BridgeTestCase, Pool, SharedBridgeCase
from bridge_client import TIMEOUT, Code, execution, together, value_of, wire
from gateway_client import eventually

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class CallCase(SharedBridgeCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.serve_all("", Pool(cls.make_notes()))


class RouteTest(CallCase):
    def test_a_new_session_sees_the_tools_before_any_call(self) -> None:
        tools = self.bridge.tools(self.session())
        self.assertLessEqual({"echo", "add", "describe", "count_to", "execute_tool"}, set(tools))
        self.assertEqual(tools["add"].description, "Adds two numbers")
        self.assertEqual([(one.name, one.required) for one in tools["add"].parameters], [("a", True), ("b", True)])
        self.assertLessEqual({one.name for one in tools["describe"].parameters}, {"kwargs"})
        self.assertTrue(tools["count_to"].supports_streaming)
        self.assertFalse(tools["add"].supports_streaming)
        self.assertEqual(tools["cached"].metadata["cacheable"], "true")
        self.assertEqual(self.bridge.get().tool_count, len(tools))
        self.assertNotIn("add", self.bridge.host_tools(), "they are no host tools")

    def test_a_call_gets_there_and_back(self) -> None:
        answer = self.bridge.call("add", {"a": 2, "b": 3})
        self.assertTrue(answer.success)
        self.assertEqual(value_of(answer.result), 5)
        self.assertEqual(answer.metadata["tool_type"], "remote")
        self.assertRegex(answer.metadata["execution_time"], r"^\d+(\.\d+)?$")
        self.assertGreaterEqual(answer.execution_time_ms, 0)

    def test_registering_again_after_a_call_changes_nothing(self) -> None:
        before = self.bridge.tools()
        self.bridge.value("echo", {"value": 1})
        self.assertEqual(self.bridge.tools(), before)
        self.assertEqual(self.notes.lines("trouble"), [])

    def test_unknown_ones(self) -> None:
        session = self.bridge.session
        self.assertEqual(self.bridge.failure("nosuch"), f"Tool nosuch not found for session {session}")
        self.assertEqual(self.bridge.failure("echo", session="nobody"), "Session not found: nobody")
        self.assertEqual(self.bridge.host_failure("echo", {"value": 1}), "Tool echo is not an Elixir tool")
        answer = self.bridge.rpc("ExecuteTool", execution("", "echo"))
        self.assertEqual((answer.success, answer.error_message), (False, "Session not found: "))

    def test_a_tool_s_own_failure_is_told_as_the_worker_tells_it(self) -> None:
        error = json.loads(self.bridge.failure("fail", {"message": "no luck"}))
        self.assertEqual((error["type"], error["message"]), ("ValueError", "no luck"))
        self.assertEqual(error["context"], {"tool_name": "fail", "session_id": self.bridge.session})
        error = json.loads(self.bridge.failure("make", {"kind": "unheard of"}))
        self.assertEqual(error["type"], "KeyError")

    def test_arguments_that_do_not_fit_name_the_parameter(self) -> None:
        before = len(self.notes.lines("add"))
        for arguments, expected in (
            ({"a": "x", "b": 1}, "Invalid parameter a: "),
            ({"a": 1}, "Invalid parameter b: it is required"),
            ({"a": 1, "b": 2, "c": 3}, "Invalid parameter c: "),
        ):
            with self.subTest(arguments):
                told = self.bridge.failure("add", arguments)
                self.assertTrue(told.startswith(expected), told)
        refused = self.bridge.refused_stream("count_to", {"n": "three"})
        self.assertEqual(refused.code, Code.INVALID_ARGUMENT)
        self.assertTrue(refused.text.startswith("Invalid parameter n: "), refused.text)
        told = self.bridge.host_failure("variable_set", {"value": 1})
        self.assertTrue(told.startswith("Invalid parameter name: "), told)
        self.assertEqual(len(self.notes.lines("add")), before, "nothing ran")

    def test_a_streaming_tool_called_this_way(self) -> None:
        """All its pieces at once, or what the worker says to it."""
        value = self.bridge.value("count_to", {"n": 3})
        self.assertIn(
            value, ([{"n": 1}, {"n": 2}, {"n": 3}], {"error": "Streaming tool called on non-streaming endpoint."})
        )

    def test_many_at_once(self) -> None:
        answers = together(20, lambda at: [self.bridge.value("add", {"a": at, "b": one}) for one in range(5)])
        self.assertEqual(answers, [[at + one for one in range(5)] for at in range(20)])


class TravelTest(CallCase):
    def about(self, **options) -> dict:
        return self.bridge.value("about", **options)

    def test_the_session_id(self) -> None:
        for session in (self.session(), "ü ☃"):
            self.bridge.open(session)
            self.assertEqual(self.about(session=session)["session"], session)

    def test_the_metadata(self) -> None:
        given = {"user": "alice", "binary_format:x": "raw", "thread_sensitive": "no", "ü": "☃", "empty": ""}
        self.assertLessEqual(given.items(), self.about(metadata=given)["metadata"].items())

    def test_thread_sensitive_runs_on_the_main_thread(self) -> None:
        self.assertTrue(self.about(metadata={"thread_sensitive": "true"})["is_main_thread"])
        self.assertFalse(self.about()["is_main_thread"])

    def test_the_correlation_id(self) -> None:
        header = [(wire.CORRELATION, "my-id-1")]
        self.assertEqual(self.about(headers=header)["headers"][wire.CORRELATION], "my-id-1")
        seen = self.about(metadata={"correlation_id": "my-id-2"})
        self.assertEqual(seen["headers"][wire.CORRELATION], "my-id-2")
        seen = self.about(headers=header, metadata={"correlation_id": "my-id-2"})
        self.assertEqual(seen["headers"][wire.CORRELATION], "my-id-1", "the header wins")
        made = [self.about()["headers"][wire.CORRELATION] for _ in range(2)]
        for one in made:
            self.assertRegex(one, r"^sp-[0-9a-f]{24}$")
        self.assertNotEqual(made[0], made[1])

    def test_the_correlation_id_comes_back(self) -> None:
        _, call = self.bridge.stub.ExecuteTool.with_call(
            execution(self.bridge.session, "echo", {"value": 1}),
            timeout=30,
            metadata=[(wire.CORRELATION, "my-id-3")],
        )
        told = [*call.initial_metadata(), *call.trailing_metadata()]
        self.assertIn((wire.CORRELATION, "my-id-3"), [(one.key, one.value) for one in told])

    def test_a_correlation_id_that_fits_no_header_does_no_harm(self) -> None:
        for odd in ("ü☃", "a\nb", "x" * 100_000):
            answer = self.bridge.outcome("about", metadata={"correlation_id": odd})
            self.assertEqual(self.bridge.value("add", {"a": 1, "b": 2}), 3, answer)

    def test_the_trace(self) -> None:
        seen = self.about(headers=[("traceparent", TRACE)])["headers"]["traceparent"]
        self.assertEqual(seen.split("-")[1], TRACE.split("-")[1], "the same trace")

    def test_other_headers_do_not(self) -> None:
        seen = self.about(headers=[("cookie", "a=b"), ("x-secret", "mine")])["headers"]
        self.assertNotIn("cookie", seen)
        self.assertNotIn("x-secret", seen)

    def test_the_deadline(self) -> None:
        # The wire rounds up a little.
        self.assertLessEqual(self.about(timeout=50)["time_left"], 50.1)
        left = self.about(timeout=LONG, metadata={"timeout_ms": "100000"})["time_left"]
        self.assertTrue(50 < left <= 100.1, left)
        left = self.about(timeout=50, metadata={"timeout_ms": "100000"})["time_left"]
        self.assertLessEqual(left, 50.1, "the sooner of both")

    def test_without_one_there_is_one_all_the_same(self) -> None:
        answer = self.bridge.stub.ExecuteTool(execution(self.bridge.session, "about"))
        left = value_of(answer.result)["time_left"]
        self.assertTrue(200 < left <= 298.9, left)


class DeadlineTest(CallCase):
    def test_by_timeout_ms(self) -> None:
        for tool, arguments in (("doze", {"seconds": LONG, "name": "ms"}), ("hold", {"name": "ms"})):
            with self.subTest(tool):
                call = functools.partial(self.bridge.refused_call, tool, arguments, timeout=LONG)
                before = self.report()["timed_out"]
                refused = self.ended_while_running(
                    tool,
                    "ms",
                    lambda limit: call(metadata={"timeout_ms": limit}),  # noqa: B023 - called at once
                )
                self.assertEqual(refused.code, Code.DEADLINE_EXCEEDED)
                self.assertNotIn("queue_timeout", refused.text, "it was running")
                eventually(lambda: self.report()["timed_out"] > before, "it is counted", TIMEOUT)  # noqa: B023 - now
        self.assertEqual(self.notes.lines("hold-done"), [], "a tool on a thread goes on and is not waited for")
        self.notes.release("ms")
        self.notes.wait_for("doze-cancelled", "ms")

    def test_by_the_call_s_own(self) -> None:
        call = functools.partial(self.bridge.refused_call, "doze", {"seconds": LONG, "name": "own"})
        refused = self.ended_while_running("doze", "own", lambda limit: call(timeout=int(limit) / 1000))
        self.assertEqual(refused.code, Code.DEADLINE_EXCEEDED)
        self.notes.wait_for("doze-cancelled", "own")

    def test_odd_values_of_timeout_ms_do_no_harm(self) -> None:
        for odd in ("0", "-5", "soon", "", "1e3", "9" * 30, " 5000 "):
            with self.subTest(odd):
                answer = self.bridge.outcome("echo", {"value": 1}, metadata={"timeout_ms": odd})
                if isinstance(answer, wire.ExecuteToolResponse):
                    self.assertTrue(answer.success or "timeout_ms" in answer.error_message, answer)
                else:
                    self.assertEqual(answer.code, Code.INVALID_ARGUMENT)
                    self.assertIn("timeout_ms", answer.text)

    def test_cancelling_reaches_the_worker(self) -> None:
        call = self.bridge.stub.ExecuteTool.future(
            execution(self.bridge.session, "doze", {"seconds": 60, "name": "cancelled"}), timeout=60
        )
        self.notes.wait_for("doze", "cancelled")
        call.cancel()
        self.notes.wait_for("doze-cancelled", "cancelled")

    def test_a_client_that_goes_away_is_a_cancel(self) -> None:
        client = self.client()
        call = client.stub.ExecuteTool.future(
            execution(self.bridge.session, "doze", {"seconds": 60, "name": "gone"}), timeout=60
        )
        self.notes.wait_for("doze", "gone")
        client.close()
        self.notes.wait_for("doze-cancelled", "gone")
        call.cancel()

    def test_the_place_of_a_cancelled_call_is_free_again(self) -> None:
        for at in range(20):
            doze = execution(self.bridge.session, "doze", {"seconds": LONG, "name": f"place-{at}"})
            call = self.bridge.stub.ExecuteTool.future(doze, timeout=LONG)
            self.notes.wait_for("doze", f"place-{at}")
            call.cancel()
        self.assertEqual(self.bridge.value("add", {"a": 1, "b": 2}), 3)


class ConfiguredDeadlineTest(BridgeTestCase):
    def test_the_default_is_a_setting(self) -> None:
        bridge = self.serve('call_timeout = "400ms"\nstream_timeout = "600ms"\n', self.pool())
        bridge.open()
        refused = self.limited(lambda: bridge.refused_call("doze", {"seconds": LONG}, timeout=LONG))
        self.assertEqual(refused.code, Code.DEADLINE_EXCEEDED)
        refused = self.limited(lambda: bridge.refused_stream("wait_stream", timeout=LONG))
        self.assertEqual(refused.code, Code.DEADLINE_EXCEEDED)
        # A busy machine may take longer than this setting allows.
        eventually(
            lambda: isinstance(bridge.outcome("add", {"a": 1, "b": 2}), wire.ExecuteToolResponse), "calls go on"
        )


class CacheTest(CallCase):
    def cached(self, session: str, key: str) -> str:
        return self.bridge.value("cached", {"key": key}, session=session)["made"]

    def ran(self, key: str) -> int:
        return self.notes.lines("cached").count(key)

    def caching(self, seconds: int = 60) -> str:
        return self.session(config={"enable_caching": True, "cache_ttl_seconds": seconds})

    def test_a_result_is_remembered_where_the_session_wants_it(self) -> None:
        session = self.caching()
        first = self.cached(session, "k1")
        self.assertEqual([self.cached(session, "k1") for _ in range(3)], [first] * 3)
        self.assertEqual(self.ran("k1"), 1)
        self.assertNotEqual(self.cached(session, "k2"), first, "other arguments, another call")

    def test_a_bare_repetition_does_not_turn_it_off(self) -> None:
        session = self.caching()
        first = self.cached(session, "k3")
        self.bridge.open(session)
        self.assertEqual(self.cached(session, "k3"), first)

    def test_the_order_and_packing_of_arguments_make_no_difference(self) -> None:
        session = self.caching()
        first = self.bridge.value("cached", {"key": "k4", "fails": False}, session=session)
        self.assertEqual(self.bridge.value("cached", {"fails": False, "key": "k4"}, session=session), first)

    def test_not_where_the_session_does_not(self) -> None:
        for config in (None, {"enable_caching": False, "cache_ttl_seconds": 60}):
            session = self.session(config=config)
            self.assertNotEqual(self.cached(session, "k5"), self.cached(session, "k5"))

    def test_not_for_tools_that_do_not_say_so(self) -> None:
        session = self.caching()
        before = len(self.notes.lines("add"))
        for _ in range(2):
            self.bridge.value("add", {"a": 1, "b": 1}, session=session)
        self.assertEqual(len(self.notes.lines("add")), before + 2)

    def test_not_for_other_sessions(self) -> None:
        one, other = self.caching(), self.caching()
        self.assertNotEqual(self.cached(one, "k6"), self.cached(other, "k6"))

    def test_not_for_failures(self) -> None:
        session = self.caching()
        for _ in range(2):
            self.bridge.failure("cached", {"key": "k7", "fails": True}, session=session)
        self.assertEqual(self.ran("k7"), 2)

    def test_not_for_ever(self) -> None:
        session = self.caching(1)
        first = self.cached(session, "k8")
        eventually(lambda: self.cached(session, "k8") != first, "it is made anew", TIMEOUT)

    def test_not_after_the_session(self) -> None:
        session = self.caching()
        first = self.cached(session, "k9")
        self.bridge.cleanup(session)
        self.bridge.open(session, config={"enable_caching": True, "cache_ttl_seconds": 60})
        self.assertNotEqual(self.cached(session, "k9"), first)


class CleanupTest(BridgeTestCase):
    def test_the_workers_that_saw_a_session_are_told_and_it_can_come_back(self) -> None:
        bridge = self.serve("", self.pool(count=2))
        bridge.open("mine")
        bridge.open("unseen")
        bridge.value("echo", {"value": 1}, session="mine")
        bridge.cleanup("mine")
        bridge.cleanup("unseen")
        eventually(lambda: "CleanupSession mine" in self.notes.all("rpcs-"), "the worker is told")
        self.assertEqual(self.notes.all("rpcs-").count("CleanupSession mine"), 1)
        self.assertFalse(bridge.is_there("mine"))
        self.assertEqual(bridge.failure("echo", session="mine"), "Session not found: mine")
        bridge.open("mine")
        self.assertIn("echo", bridge.tools("mine"))
        for _ in range(4):
            self.assertEqual(bridge.value("echo", {"value": "again"}, session="mine"), "again")

    def test_in_the_middle_of_a_call(self) -> None:
        bridge = self.serve("", self.pool())
        bridge.open("mine")
        call = bridge.stub.ExecuteTool.future(execution("mine", "hold", {"name": "x"}), timeout=LONG)
        self.notes.wait_for("hold", "x")
        bridge.cleanup("mine")
        self.assertEqual(self.notes.lines("hold-done"), [], "it does not wait for the call")
        self.notes.release("x")
        call.exception(TIMEOUT)
        bridge.open("other")
        self.assertEqual(bridge.value("add", {"a": 1, "b": 2}, session="other"), 3)

    def test_a_forgotten_worker_session_is_not_revived_by_late_heartbeats(self) -> None:
        # Every session a worker has seen has a heartbeat of its own.
        bridge = self.serve("", self.pool(env={"SNAKEPIT_HEARTBEAT_CONFIG": json.dumps({"interval_ms": 50})}))
        for session in ("mine", "other"):
            bridge.open(session)
            bridge.value("echo", {"value": 1}, session=session)
        eventually(lambda: self.notes.lines("beats").count("mine") >= 3, "heartbeats")
        bridge.cleanup("mine")
        beats = self.notes.lines("beats").count("other")
        while self.notes.lines("beats").count("other") < beats + 20:
            self.assertFalse(bridge.is_there("mine"))


if __name__ == "__main__":
    unittest.main()
