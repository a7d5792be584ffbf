"""Pools of workers: their start, the queue, sessions that stick, and replacing workers while calls go on."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
import unittest

from bridge_case import BridgeTestCase, Pool, is_alive
from bridge_client import Bridge, Code, Refused, at_most, together, value_of, wire
from gateway_client import eventually

# How long a pool may take to be whole again, on a machine that does other things too.
WHOLE_WITHIN = 2.0
BUSY_MACHINE = 4.0


class PoolCase(BridgeTestCase):
    def start(self, bridge: str = "", **keys) -> Bridge:
        self.py = self.pool(**keys)
        return self.serve(bridge, self.py)

    def where(self, session: str, seconds: float = 0.0) -> int:
        """The process that takes this session's call."""
        return self.bridge.value("where", {"seconds": seconds}, session=session)["pid"]

    def seen_pids(self, count: int) -> set[int]:
        """The processes that take so many calls at once, each in a session of its own."""
        sessions = [self.session() for _ in range(count)]
        pids = together(count, lambda at: self.where(sessions[at], 0.3))
        for session in sessions:
            self.bridge.cleanup(session)
        return set(pids)


class StartTest(PoolCase):
    def test_as_many_as_configured(self) -> None:
        self.start(count=3, capacity=1)
        self.assertEqual(len(self.py.pids()), 3)
        self.assertEqual(self.seen_pids(3), self.py.pids())

    def test_what_the_server_does_with_a_new_worker(self) -> None:
        self.start()
        (pid,) = self.py.pids()
        eventually(lambda: any("Heartbeat" in one for one in self.notes.lines(f"rpcs-{pid}")), "the first heartbeat")
        told = self.notes.lines(f"rpcs-{pid}")
        self.assertEqual(told[0], "Ping connection_test")
        opened = [one for one in told if one.startswith("InitializeSession")]
        self.assertEqual(len(opened), 1)
        self.assertRegex(opened[0], r"^InitializeSession session_\d+_\d+ \['elixir_node', 'initialized_at'")
        session = opened[0].split()[1]
        self.assertIn("StreamTelemetry no deadline", told)
        self.assertIn(f"Heartbeat {session}", told)

    def test_names_that_are_taken_get_the_pool_s_name(self) -> None:
        self.py = self.pool("py")
        other = self.pool("other", adapter="adapters.Clashing")
        bridge = self.serve("", self.py, other)
        eventually(lambda: "unique" in bridge.tools(), "the other pool's tools")
        tools = bridge.tools()
        self.assertIn("other.recall", tools, "the server's own name is reserved")
        self.assertNotIn("recall", tools)
        self.assertEqual(bridge.value("other.recall", {"key": "x"}), "not recalled: x")
        names = {name for name in tools if name.endswith("echo")}
        self.assertEqual(len(names), 2, names)
        self.assertLess(names & {"py.echo", "other.echo"}, names)
        both = {str(bridge.value(name, {"value": "x"})) for name in names}
        self.assertEqual(both, {"x", "another: x"})

    def test_a_worker_that_registers_nothing_does_no_harm(self) -> None:
        silent = self.pool("silent", adapter="adapters.Unregistered")
        self.server = self.start_server(config=silent.config, bridge="127.0.0.1:0")
        self.bridge = self.client()
        eventually(lambda: silent.pids(), "it starts")
        self.assertEqual(self.bridge.tools(), {})
        self.assertIn("not found", self.bridge.failure("whatever"))

    def test_a_slow_start_keeps_nobody_waiting(self) -> None:
        slow = self.pool("slow", adapter="adapters.Clashing", env={"FIXTURE_IMPORT_SECONDS": "5"})
        self.py = self.pool()
        config = f"[bridge]\n{slow.config}{self.py.config}"
        self.server = self.start_server(config=config, bridge="127.0.0.1:0")
        self.bridge = self.client()
        eventually(lambda: "add" in self.bridge.tools(), "the quick pool's tools", 4)
        self.assertEqual(self.bridge.value("add", {"a": 1, "b": 2}), 3)
        eventually(lambda: "unique" in self.bridge.tools(), "the slow pool's tools")
        self.assertEqual(self.bridge.value("unique"), "unique")

    def test_one_that_never_gets_ready_is_given_up_and_tried_again(self) -> None:
        never = self.pool("never", env={"FIXTURE_IMPORT_SECONDS": "600"}, start_timeout="1s")
        self.server = self.start_server(config=never.config, bridge="127.0.0.1:0")
        eventually(lambda: len(set(self.notes.lines("starts"))) >= 2, "a second try")
        first = int(self.notes.lines("starts")[0])
        eventually(lambda: not is_alive(first), "the first one is ended")


class QueueTest(PoolCase):
    def test_counts_add_up_and_what_timed_out_never_ran(self) -> None:
        bridge = self.start('queue_timeout = "100ms"\nmax_queue = 5\n', capacity=1)
        bridge.open()
        outcomes = together(10, lambda at: bridge.outcome("nap", {"seconds": 0.5, "name": str(at)}))
        done = [one for one in outcomes if not isinstance(one, Refused)]
        refused = [one for one in outcomes if isinstance(one, Refused)]
        saturated = [one for one in refused if "pool_saturated" in one.text]
        timed_out = [one for one in refused if "queue_timeout" in one.text]
        self.assertEqual((len(done), len(timed_out), len(saturated)), (1, 5, 4), refused)
        self.assertEqual({one.code for one in saturated}, {Code.RESOURCE_EXHAUSTED})
        self.assertEqual({one.code for one in timed_out}, {Code.DEADLINE_EXCEEDED})
        # Whatever was still to come of it would have come by now.
        bridge.value("nap", {"seconds": 0, "name": "last"})
        ran = self.notes.lines("nap")
        self.assertEqual(ran, [value_of(done[0].result), "last"])

    def test_one_that_waits_long_enough_runs(self) -> None:
        bridge = self.start('queue_timeout = "20s"\n', capacity=1)
        bridge.open()
        answers = together(6, lambda at: bridge.value("nap", {"seconds": 0.2, "name": str(at)}))
        self.assertEqual(answers, [str(at) for at in range(6)])
        self.assertEqual(len(self.notes.lines("nap")), 6)

    def test_first_come_first_served(self) -> None:
        bridge = self.start(capacity=1)
        bridge.open()
        threads = []
        for at in range(5):
            one = threading.Thread(target=bridge.outcome, args=("nap", {"seconds": 0.4, "name": str(at)}), daemon=True)
            one.start()
            threads.append(one)
            # The next one comes later, by more than the way to the server takes.
            if at == 0:
                self.notes.wait_for("nap", "0")
            time.sleep(0.05)
        for one in threads:
            one.join(30)
        self.assertEqual(self.notes.lines("nap"), [str(at) for at in range(5)])

    def test_one_that_is_cancelled_while_it_waits_never_runs_and_leaves_its_place(self) -> None:
        bridge = self.start("max_queue = 1\n", capacity=1)
        bridge.open()
        first = self.in_background(lambda: bridge.value("nap", {"seconds": 2, "name": "first"}))
        self.notes.wait_for("nap", "first")
        refused = bridge.refused_call("nap", {"seconds": 0, "name": "gone"}, timeout=0.3)
        self.assertEqual(refused.code, Code.DEADLINE_EXCEEDED)
        self.assertEqual(bridge.value("nap", {"seconds": 0, "name": "second"}), "second", "there was room again")
        self.assertEqual(first.result(), "first")
        self.assertEqual(self.notes.lines("nap"), ["first", "second"])

    def test_the_deadline_counts_from_the_start_and_not_from_the_turn(self) -> None:
        bridge = self.start(capacity=1)
        bridge.open()
        first = self.in_background(lambda: bridge.value("nap", {"seconds": 1.5, "name": "first"}))
        self.notes.wait_for("nap", "first")
        with at_most(1.4, "half a second"):
            refused = bridge.refused_call("nap", {"seconds": 0, "name": "late"}, metadata={"timeout_ms": "500"})
        self.assertEqual(refused.code, Code.DEADLINE_EXCEEDED)
        first.result()
        bridge.value("nap", {"seconds": 0, "name": "last"})
        self.assertEqual(self.notes.lines("nap"), ["first", "last"])

    def test_a_pool_s_own_limits_win(self) -> None:
        bridge = self.start('queue_timeout = "20s"\n', capacity=1, queue_timeout="100ms", max_queue=2)
        bridge.open()
        outcomes = together(5, lambda at: bridge.outcome("nap", {"seconds": 1, "name": str(at)}))
        texts = sorted(
            next(word for word in ("queue_timeout", "pool_saturated") if word in one.text)
            for one in outcomes
            if isinstance(one, Refused)
        )
        self.assertEqual(texts, ["pool_saturated"] * 2 + ["queue_timeout"] * 2)

    def test_one_full_pool_is_not_another(self) -> None:
        self.py = self.pool(capacity=1, queue_timeout="100ms")
        other = self.pool("other", adapter="adapters.Clashing")
        bridge = self.serve("", self.py, other)
        eventually(lambda: "unique" in bridge.tools(), "the other pool's tools")
        first = self.in_background(lambda: bridge.value("nap", {"seconds": 1.5, "name": "first"}))
        self.notes.wait_for("nap", "first")
        self.assertIn("queue_timeout", bridge.refused_call("add", {"a": 1, "b": 2}).text)
        with at_most(1, "the other pool"):
            self.assertEqual(bridge.value("unique"), "unique")
        first.result()

    def test_capacity_by_default_is_what_an_unmodified_worker_can_do(self) -> None:
        bridge = self.start('queue_timeout = "100ms"\n')
        bridge.open()
        capacity = min(32, (os.cpu_count() or 1) + 4)
        outcomes = together(capacity + 2, lambda at: bridge.outcome("nap", {"seconds": 1.5, "name": str(at)}))
        self.assertEqual(sum(isinstance(one, Refused) for one in outcomes), 2, outcomes)
        self.assertEqual(len(self.notes.lines("nap")), capacity)


class AffinityTest(PoolCase):
    def test_a_hint_is_followed_while_its_worker_is_free(self) -> None:
        self.start(count=3, capacity=1)
        for session in [self.session() for _ in range(3)]:
            first = self.where(session)
            self.assertEqual([self.where(session) for _ in range(5)], [first] * 5)

    def test_and_not_when_it_is_busy(self) -> None:
        self.start(count=2, capacity=1)
        session = self.session()
        pids = together(2, lambda at: self.where(session, 0.5))
        self.assertEqual(len(set(pids)), 2)

    def test_a_strict_session_waits_for_its_worker(self) -> None:
        self.start(count=2, capacity=1, affinity="strict-queue")
        session, other = self.session(), self.session()
        pid = self.where(session)
        answers = together(4, lambda at: self.where(session, 0.2))
        self.assertEqual(answers, [pid] * 4)
        busy = self.in_background(lambda: self.where(session, 1.5))
        eventually(lambda: self.notes.lines("where").count(f"{pid} {session}") == 6, "it is busy")
        with at_most(1.2, "others overtake"):
            self.assertNotEqual(self.where(other), pid)
        busy.result()

    def test_a_strict_session_that_does_not_wait(self) -> None:
        self.start(count=2, capacity=1, affinity="strict-fail-fast")
        session = self.session()
        pid = self.where(session)
        busy = self.in_background(lambda: self.where(session, 1.0))
        eventually(lambda: len(self.notes.lines("where")) == 2, "it is busy")
        with at_most(0.8, "failing fast"):
            refused = self.bridge.refused_call("where", session=session)
        self.assertEqual(refused.code, Code.RESOURCE_EXHAUSTED)
        self.assertIn("worker_busy", refused.text)
        self.assertEqual(busy.result(), pid)
        self.assertEqual(self.where(session), pid)

    def test_a_strict_session_whose_worker_is_gone_is_told(self) -> None:
        for affinity in ("strict-queue", "strict-fail-fast"):
            with self.subTest(affinity):
                self.start(count=2, capacity=1, affinity=affinity)
                session = self.session()
                pid = self.where(session)
                os.kill(pid, signal.SIGKILL)
                eventually(lambda: not is_alive(pid), "it is gone")  # noqa: B023 - called at once
                eventually(lambda: len(self.py.ready_pids()) == 2, "the pool is whole")
                refused = self.bridge.refused_call("where", session=session)
                self.assertEqual(refused.code, Code.UNAVAILABLE)
                self.assertIn("session_worker_unavailable", refused.text)
                self.bridge.cleanup(session)
                self.bridge.open(session)
                self.assertNotEqual(self.where(session), pid, "a new session finds another")

    def test_a_hinted_session_just_goes_on(self) -> None:
        self.start(count=2, capacity=1)
        session = self.session()
        pid = self.where(session)
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not is_alive(pid), "it is gone")
        eventually(
            lambda: isinstance(self.bridge.outcome("where", session=session), wire.ExecuteToolResponse), "another"
        )

    def test_an_unknown_mode_is_a_start_error(self) -> None:
        with self.assertRaises(AssertionError) as refused:
            self.start(affinity="sticky")
        self.assertIn("ended with 2", str(refused.exception))


class DeathTest(PoolCase):
    def test_a_killed_worker_takes_only_its_own_calls_along(self) -> None:
        bridge = self.start(count=3, capacity=2)
        sessions = [self.session() for _ in range(9)]
        stop = threading.Event()
        ended: dict[int, float] = {}
        refused: list[Refused] = []
        wrong: list[object] = []
        done = itertools.count()
        finished = 0

        def work(session: str) -> None:
            nonlocal finished
            while not stop.is_set():
                one = bridge.outcome("where", {"seconds": 0.02}, session=session)
                if isinstance(one, Refused):
                    refused.append(one)
                elif not one.success:
                    wrong.append(one)
                finished = next(done)

        threads = [threading.Thread(target=work, args=(session,), daemon=True) for session in sessions]
        for one in threads:
            one.start()
        try:
            eventually(lambda: finished > 50, "calls go through")
            before = self.py.pids()
            victim = min(before)
            ended[victim] = time.monotonic()
            os.kill(victim, signal.SIGKILL)
            goal = finished + 100
            eventually(lambda: finished > goal, "calls go on")
            eventually(lambda: len(self.py.ready_pids() - {victim}) == 3, "the pool is whole")
            goal = finished + 50
            eventually(lambda: finished > goal, "calls go on")
        finally:
            stop.set()
            for one in threads:
                one.join(30)
        self.assertEqual(wrong, [])
        self.assertEqual({one.code for one in refused} - {Code.UNAVAILABLE}, set(), refused)
        self.assertLessEqual(len(refused), 2, "no more than were running there")
        self.assertEqual(self.py.pids() & before, before - {victim}, "the others lived on")

    def test_the_pool_is_whole_soon(self) -> None:
        self.start(count=2, capacity=1)
        (victim, other) = sorted(self.py.pids())
        killed = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        eventually(lambda: len(self.py.ready_pids() - {victim}) == 2, "the pool is whole")
        taken = time.monotonic() - killed
        self.assertLess(taken, WHOLE_WITHIN + BUSY_MACHINE)
        self.assertEqual(self.seen_pids(2), self.py.pids())
        self.assertIn(other, self.py.pids())

    def test_a_call_that_crashes_its_worker(self) -> None:
        bridge = self.start(capacity=2)
        bridge.open()
        for tool, arguments in (("crash", {"code": 139}), ("crash", {"code": 0}), ("segfault", {})):
            with self.subTest(tool):
                before = self.py.pids()
                with at_most(5, "telling"):
                    refused = bridge.refused_call(tool, arguments)
                self.assertEqual(refused.code, Code.UNAVAILABLE)
                eventually(lambda: self.py.ready_pids() - before, "another one")  # noqa: B023 - called at once
                eventually(
                    lambda: isinstance(bridge.outcome("add", {"a": 1, "b": 2}), wire.ExecuteToolResponse), "calls"
                )

    def test_while_no_worker_is_there_calls_wait_or_are_told_that_it_is_unavailable(self) -> None:
        bridge = self.start(count=1)
        bridge.open()
        for pause in (0, 0.001, 0.002, 0.005):
            (pid,) = self.py.ready_pids()
            os.kill(pid, signal.SIGKILL)
            # Before, while and after the server notices.
            time.sleep(pause)
            outcome = bridge.outcome("add", {"a": 1, "b": 2})
            if isinstance(outcome, Refused):
                self.assertEqual(outcome.code, Code.UNAVAILABLE, outcome)
            else:
                self.assertEqual(value_of(outcome.result), 3)
            self.assertIn("add", bridge.tools(), "its tools stay known")
            eventually(lambda: len(self.py.ready_pids() - {pid}) == 1, "another one")  # noqa: B023 - called at once

    def test_what_it_started_dies_with_it(self) -> None:
        bridge = self.start()
        bridge.open()
        child = bridge.value("spawn")
        self.assertTrue(is_alive(int(child)))
        (pid,) = self.py.pids()
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not is_alive(int(child)), "its child is gone too")

    def test_one_that_stops_answering_is_replaced(self) -> None:
        """Three missed heartbeats; the call that it had is told, and the other worker does not notice."""
        bridge = self.start(count=2, capacity=1)
        session, other = self.session(), self.session()
        pid = self.where(session)
        hanging = self.in_background(
            lambda: bridge.outcome("nap", {"seconds": 100, "name": "h"}, session=session, timeout=100)
        )
        self.notes.wait_for("nap", "h")
        os.kill(pid, signal.SIGSTOP)
        try:
            stopped = time.monotonic()
            while pid in self.py.pids():
                self.assertLess(time.monotonic() - stopped, 60, "it is still there")
                self.assertNotEqual(self.where(other), pid)
                time.sleep(0.2)
            taken = time.monotonic() - stopped
            self.assertGreater(taken, 4, "three real misses, not one")
        finally:
            if is_alive(pid):
                os.kill(pid, signal.SIGCONT)
        refused = hanging.result(30)
        self.assertIsInstance(refused, Refused)
        self.assertEqual(refused.code, Code.UNAVAILABLE)
        eventually(lambda: len(self.py.ready_pids()) == 2, "the pool is whole")

    def test_one_that_pauses_for_a_moment_is_not(self) -> None:
        self.start(count=1)
        (pid,) = self.py.pids()
        os.kill(pid, signal.SIGSTOP)
        time.sleep(3)
        os.kill(pid, signal.SIGCONT)
        session = self.session()
        self.assertEqual(self.where(session), pid)
        time.sleep(3)
        self.assertEqual(self.where(session), pid)

    def test_one_that_cannot_start_is_tried_less_and_less(self) -> None:
        broken = self.pool("broken", adapter="broken.Tools")
        self.py = self.pool()
        self.server = self.start_server(config=broken.config + self.py.config, bridge="127.0.0.1:0")
        self.bridge = self.client()
        eventually(lambda: "add" in self.bridge.tools(), "the good pool's tools")
        eventually(lambda: len(self.notes.lines("broken")) >= 3, "it is tried again")
        self.assertIn("this adapter is broken on purpose", self.server.log(), "why is in the log")
        first = len(self.notes.lines("broken"))
        time.sleep(5)
        self.assertLessEqual(len(self.notes.lines("broken")) - first, 6, "it does not spin")
        self.assertEqual(self.bridge.value("add", {"a": 1, "b": 2}), 3)

    def test_a_command_that_does_not_exist(self) -> None:
        missing = Pool(self.notes, "missing", command=["/no/such/program"])
        self.py = self.pool()
        try:
            self.server = self.start_server(config=missing.config + self.py.config, bridge="127.0.0.1:0")
        except AssertionError as refused:
            self.assertIn("ended with 2", str(refused))
            self.assertIn("/no/such/program", str(refused))
            return
        self.bridge = self.client()
        eventually(lambda: "add" in self.bridge.tools(), "the good pool's tools")
        self.assertIn("/no/such/program", self.server.log())


class RecyclingTest(PoolCase):
    def without_a_failure(self, until, seconds: float = 0.01, timeout: float = 60) -> list[int]:
        """Calls from four sessions at once until something is so; gives the processes in the order of their calls."""
        sessions = [self.session() for _ in range(4)]
        stop = threading.Event()
        pids: list[int] = []
        failures: list = []

        def work(session: str) -> None:
            while not stop.is_set():
                one = self.bridge.outcome("where", {"seconds": seconds}, session=session)
                if isinstance(one, Refused) or not one.success:
                    failures.append(one)
                else:
                    pids.append(value_of(one.result)["pid"])

        threads = [threading.Thread(target=work, args=(session,), daemon=True) for session in sessions]
        for one in threads:
            one.start()
        try:
            eventually(lambda: failures or until(pids), f"it happens; {len(set(pids))} processes so far", timeout)
        finally:
            stop.set()
            for one in threads:
                one.join(30)
        self.assertEqual(failures, [])
        return pids

    def test_after_so_many_calls(self) -> None:
        self.start(count=2, capacity=2, max_requests=20)
        self.without_a_failure(lambda seen: len(set(seen)) >= 5)
        eventually(lambda: len(self.py.pids()) == 2, "the old ones are ended")

    def test_after_some_time(self) -> None:
        self.start(count=1, capacity=4, max_age="2s")
        self.without_a_failure(lambda seen: len(set(seen)) >= 3)
        eventually(lambda: len(self.py.pids()) <= 2, "the old ones are ended")

    def test_when_it_has_grown(self) -> None:
        bridge = self.start(count=1, capacity=4, max_memory="200MiB")
        bridge.open()
        fat = bridge.value("hog", {"mebibytes": 300})
        self.without_a_failure(lambda seen: seen and seen[-1] != fat, timeout=90)
        eventually(lambda: not is_alive(int(fat)), "the fat one is ended")

    def test_a_long_call_is_waited_for(self) -> None:
        bridge = self.start(count=1, capacity=2, max_requests=3)
        bridge.open()
        long = self.in_background(lambda: bridge.value("nap", {"seconds": 4, "name": "long"}))
        self.notes.wait_for("nap", "long")
        before = self.py.pids()
        for _ in range(5):
            bridge.value("add", {"a": 1, "b": 2})
        eventually(lambda: self.py.pids() - before, "the next one starts")
        self.assertEqual(long.result(), "long")
        eventually(lambda: not (self.py.pids() & before), "then the old one ends")

    def test_by_default_they_stay(self) -> None:
        self.start(count=1)
        before = self.py.pids()
        self.bridge.open()
        for _ in range(100):
            self.bridge.value("add", {"a": 1, "b": 2})
        self.assertEqual(self.py.pids(), before)


if __name__ == "__main__":
    unittest.main()
