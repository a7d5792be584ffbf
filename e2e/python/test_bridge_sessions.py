"""Sessions of the bridge: how they begin, what they keep, how long they live, and what is left when they end."""

from __future__ import annotations

import json
import time
import unittest

from ahead_case import ahead, ahead_last
from bridge_case import BridgeTestCase, SharedBridgeCase
from bridge_client import TIMEOUT, Code, grpc, opening, registration, together, wire
from gateway_client import eventually
from patchboard_server import NotReady


def setUpModule() -> None:
    LifetimeTest.begin_ahead()


load_tests = ahead_last


class PingTest(SharedBridgeCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.serve_all()

    def test_it_answers_with_the_message_and_the_time(self) -> None:
        for message in ("hello", "", "ü☃", "x" * 100_000):
            with self.subTest(message[:10]):
                answer = self.bridge.rpc("Ping", wire.PingRequest(message=message))
                self.assertEqual(answer.message, f"pong: {message}")
                self.assertAlmostEqual(answer.server_time.seconds, time.time(), delta=5)

    def test_the_ready_file_names_the_address(self) -> None:
        self.assertRegex(self.server.ready["bridge"], r"^127\.0\.0\.1:\d+$")


class InitializeTest(SharedBridgeCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.serve_all()

    def test_a_session_is_what_it_was_made_with(self) -> None:
        before = time.time()
        self.bridge.open("plain", {"user": "alice", "empty": ""}, {"enable_caching": True, "cache_ttl_seconds": 5})
        got = self.bridge.get("plain")
        self.assertEqual((got.session_id, dict(got.metadata)), ("plain", {"user": "alice", "empty": ""}))
        self.assertEqual(got.tool_count, 0)
        created = got.created_at.seconds + got.created_at.nanos / 1e9
        self.assertLessEqual(before - 1, created)
        self.assertLessEqual(created, time.time() + 1)

    def test_a_bare_repetition_keeps_everything(self) -> None:
        self.bridge.open("kept", {"user": "alice"}, {"enable_caching": True, "cache_ttl_seconds": 5})
        first = self.bridge.get("kept")
        for _ in range(3):
            self.bridge.open("kept")
        self.assertEqual(self.bridge.get("kept"), first)

    def test_new_metadata_takes_the_place_of_the_old_and_the_age_stays(self) -> None:
        self.bridge.open("renewed", {"user": "alice"})
        first = self.bridge.get("renewed")
        self.bridge.open("renewed", {"user": "bob"})
        second = self.bridge.get("renewed")
        self.assertEqual(second.metadata["user"], "bob")
        self.assertEqual(second.created_at, first.created_at)

    def test_sessions_do_not_share(self) -> None:
        self.bridge.open("one", {"user": "alice"})
        self.bridge.open("two", {"user": "bob"})
        self.assertEqual(self.bridge.get("one").metadata["user"], "alice")
        self.assertEqual(self.bridge.get("two").metadata["user"], "bob")

    def test_an_empty_id_is_refused(self) -> None:
        refused = self.bridge.refused("InitializeSession", opening(""))
        self.assertEqual(refused.code, Code.INVALID_ARGUMENT)
        self.assertIn("invalid_id", refused.text)

    def test_ids_are_any_text_within_reason(self) -> None:
        for session in ("a b", "ü☃", "session_1_1763246", "../../etc/passwd", "x" * 128, "a:b%c", "\u202e", "'; drop"):
            with self.subTest(session):
                self.bridge.open(session, {"is": session})
                self.assertEqual(self.bridge.get(session).session_id, session)
                self.assertEqual(dict(self.bridge.get(session).metadata), {"is": session})

    def test_an_id_out_of_all_reason_is_refused(self) -> None:
        refused = self.bridge.refused("InitializeSession", opening("x" * (1 << 20)))
        self.assertEqual(refused.code, Code.INVALID_ARGUMENT)
        self.assertIn("invalid_id", refused.text)
        self.bridge.ping()

    def test_metadata_out_of_all_reason_is_refused(self) -> None:
        for metadata in ({"x": "y" * (8 << 20)}, {f"key{at}": "v" for at in range(100_000)}):
            refused = self.bridge.refused("InitializeSession", opening("stuffed", metadata))
            self.assertIn(refused.code, (Code.INVALID_ARGUMENT, Code.RESOURCE_EXHAUSTED))
        self.assertFalse(self.bridge.is_there("stuffed"))

    def test_the_same_one_a_hundred_times_at_once(self) -> None:
        answers = together(50, lambda at: self.bridge.open("crowded", {"user": "alice"}))
        self.assertTrue(all(answer.success for answer in answers))
        self.assertEqual(dict(self.bridge.get("crowded").metadata), {"user": "alice"})


class HeartbeatTest(SharedBridgeCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.serve_all()

    def test_it_says_whether_the_session_is_there_and_what_time_it_is(self) -> None:
        answer = self.bridge.beat()
        self.assertTrue(answer.session_valid)
        self.assertAlmostEqual(answer.server_time.seconds, time.time(), delta=5)
        answer = self.bridge.beat("nobody")
        self.assertFalse(answer.session_valid)
        self.assertAlmostEqual(answer.server_time.seconds, time.time(), delta=5)
        self.assertFalse(self.bridge.rpc("Heartbeat", wire.HeartbeatRequest()).session_valid)

    def test_it_makes_no_session(self) -> None:
        self.bridge.beat("never made")
        self.assertFalse(self.bridge.is_there("never made"))


class CleanupTest(SharedBridgeCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.serve_all()

    def test_it_is_gone(self) -> None:
        self.bridge.open("gone", {"user": "alice"})
        answer = self.bridge.cleanup("gone")
        self.assertTrue(answer.success)
        self.assertGreaterEqual(answer.resources_cleaned, 1)
        refused = self.bridge.refused("GetSession", wire.GetSessionRequest(session_id="gone"))
        self.assertEqual((refused.code, refused.text), (Code.NOT_FOUND, "Session not found: gone"))
        self.assertFalse(self.bridge.beat("gone").session_valid)
        self.assertEqual(self.bridge.failure("anything", session="gone"), "Session not found: gone")
        self.assertEqual(self.bridge.host_failure("variable_list", session="gone"), "Session not found: gone")
        refused = self.bridge.refused_stream("anything", session="gone")
        self.assertEqual((refused.code, refused.text), (Code.NOT_FOUND, "Session not found: gone"))

    def test_twice_is_no_trouble(self) -> None:
        self.bridge.open("gone twice")
        self.assertTrue(self.bridge.cleanup("gone twice").success)
        self.assertTrue(self.bridge.cleanup("gone twice", force=True).success)
        self.assertTrue(self.bridge.cleanup("never was").success)

    def test_it_takes_everything_along(self) -> None:
        self.bridge.open("back", {"user": "alice"})
        self.assertTrue(self.bridge.register("back", registration("mine")).success)
        self.bridge.host_value("variable_set", {"name": "x", "value": 1}, session="back")
        self.assertEqual(self.bridge.get("back").tool_count, 1)
        self.bridge.cleanup("back")
        self.assertEqual(dict(self.bridge.open("back").available_tools), {})
        got = self.bridge.get("back")
        self.assertEqual((dict(got.metadata), got.tool_count), ({}, 0))
        self.assertEqual(self.bridge.host_value("variable_list", session="back"), {"variables": []})
        answer = self.bridge.register("back", registration("mine"))
        self.assertTrue(answer.success, answer.error_message)


class QuotaTest(BridgeTestCase):
    def test_a_further_session_is_refused_and_those_that_are_there_are_not(self) -> None:
        bridge = self.serve("max_sessions = 3\n")
        for name in ("a", "b", "c"):
            bridge.open(name)
        for _ in range(2):
            refused = bridge.refused("InitializeSession", opening("d"))
            self.assertEqual(refused.code, Code.RESOURCE_EXHAUSTED)
            self.assertIn("session_quota_exceeded", refused.text)
        self.assertFalse(bridge.is_there("d"))
        bridge.open("a")
        bridge.open("c", {"user": "alice"})
        self.assertEqual(bridge.host_value("variable_list", session="b"), {"variables": []})
        bridge.cleanup("b")
        bridge.open("d")
        self.assertIn("session_quota_exceeded", bridge.refused("InitializeSession", opening("b")).text)

    def test_at_once_no_more_than_allowed_come_in(self) -> None:
        bridges = [self.serve("max_sessions = 5\n"), self.client()]

        def one(at: int) -> bool:
            try:
                return bridges[at % 2].open(f"s{at}").success
            except grpc.RpcError as error:
                self.assertEqual(error.code(), Code.RESOURCE_EXHAUSTED)
                return False

        self.assertEqual(sum(together(20, one)), 5)

    def test_workers_do_not_take_places(self) -> None:
        bridge = self.serve("max_sessions = 1\n", self.pool(count=2))
        bridge.open("mine")
        self.assertEqual(bridge.value("add", {"a": 1, "b": 2}, session="mine"), 3)
        self.assertIn("session_quota_exceeded", bridge.refused("InitializeSession", opening("yours")).text)


class LifetimeTest(BridgeTestCase):
    def test_a_session_that_nobody_uses_ends(self) -> None:
        bridge = self.serve('session_ttl = "500ms"\n')
        bridge.open("short")
        # Looking at it would keep it alive, so the time itself has to pass.
        time.sleep(0.8)
        refused = bridge.refused("GetSession", wire.GetSessionRequest(session_id="short"))
        self.assertEqual((refused.code, refused.text), (Code.NOT_FOUND, "Session not found: short"))
        self.assertFalse(bridge.beat("short").session_valid)
        self.assertFalse(bridge.beat("short").session_valid, "and is not revived by being asked for")

    @ahead
    def test_every_use_keeps_it(self) -> None:
        # Longer than a busy machine keeps any of the uses waiting.
        bridge = self.serve('session_ttl = "4s"\n')
        uses = {
            "beaten": lambda: self.assertTrue(bridge.beat("beaten").session_valid),
            "looked-at": lambda: bridge.get("looked-at"),
            "called": lambda: bridge.host_value("variable_list", session="called"),
            "executed": lambda: bridge.value("variable_list", session="executed"),
            "opened": lambda: bridge.open("opened"),
        }
        for name in uses:
            bridge.open(name, {"name": name})
        ages = time.monotonic() + 5
        while time.monotonic() < ages:
            for use in uses.values():
                use()
            time.sleep(0.2)
        for name in uses:
            self.assertEqual(bridge.get(name).metadata["name"], name)

    @ahead
    def test_a_call_that_takes_longer_does_not_lose_its_session(self) -> None:
        bridge = self.serve('session_ttl = "2s"\n', self.pool())
        bridge.open("slow")
        self.assertEqual(bridge.value("nap", {"seconds": 3, "name": "long"}, session="slow"), "long")
        self.assertTrue(bridge.is_there("slow"))

    @ahead
    def test_the_workers_that_saw_it_are_told_and_their_heartbeats_do_not_keep_it(self) -> None:
        # Several heartbeats in the lifetime of a session.
        pool = self.pool(env={"SNAKEPIT_HEARTBEAT_CONFIG": json.dumps({"interval_ms": 100})})
        bridge = self.serve('session_ttl = "2s"\n', pool)
        bridge.open("seen")
        bridge.value("echo", {"value": 1}, session="seen")
        eventually(lambda: "CleanupSession seen" in self.notes.all("rpcs-"), "the worker is told", TIMEOUT)
        self.assertGreater(self.notes.lines("beats").count("seen"), 3)
        self.assertFalse(bridge.is_there("seen"))

    def test_a_place_is_free_again(self) -> None:
        bridge = self.serve('session_ttl = "1s"\nmax_sessions = 1\n')
        bridge.open("first")

        def has_room() -> bool:
            try:
                return bridge.open("second").success
            except grpc.RpcError as error:
                self.assertIn("session_quota_exceeded", error.details())
                return False

        eventually(has_room, "there is room", TIMEOUT)


class RestartTest(BridgeTestCase):
    def test_sessions_and_variables_outlive_the_server(self) -> None:
        bridge = self.serve()
        bridge.open("durable", {"user": "alice"})
        bridge.host_value("variable_set", {"name": "x", "value": [1, None]}, session="durable")
        created = bridge.get("durable").created_at
        self.server.kill()
        self.server.start()
        bridge = self.client()
        bridge.open("durable")
        self.assertEqual(bridge.host_value("variable_get", {"name": "x"}, session="durable")["value"], [1, None])
        self.assertGreaterEqual(bridge.get("durable").created_at.seconds, created.seconds)

    def test_a_zero_lifetime_or_no_sessions_at_all_is_a_start_error(self) -> None:
        for line in ("max_sessions = 0\n", 'session_ttl = "soon"\n', "max_sesions = 5\n"):
            with self.subTest(line), self.assertRaises(NotReady) as refused:
                self.serve(line)
            self.assertIn("ended with 2", str(refused.exception))


if __name__ == "__main__":
    unittest.main()
