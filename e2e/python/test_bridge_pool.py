"""Pools of workers: their start, the queue, sessions that stick, and replacing workers while calls go on."""

# begins early: waits for times fixed in the server
from __future__ import annotations

import itertools
import os
import signal
import threading
import time
import unittest

from ahead_case import ahead, ahead_last
from bridge_case import LONG, BridgeTestCase, Pool, is_alive
from bridge_client import TIMEOUT, Bridge, Code, Refused, execution, together, value_of, wire
from gateway_client import eventually
from runs_client import processes_with

# A worker that does not answer is replaced after three waits of ten seconds, one that is too large not before it is
# thirty seconds old. Tests of that wait as long, and somewhat longer on a busy machine.
REPLACED_WITHIN = 120.0
# The least time between one failed start of a worker and the next; the first comes at once.
PAUSES = (0.0, 0.2, 0.4, 0.8)
# A call that must not be ended by the queue's limit.
PATIENT = 'queue_timeout = "10m"\n'


def setUpModule() -> None:
    for case in (StartTest, DeathTest, RecyclingTest):
        case.begin_ahead()


load_tests = ahead_last


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
        calls = [self.hold(f"seen-{session}", session=session) for session in sessions]
        for session in sessions:
            self.notes.release(f"seen-{session}")
        pids = {call.result(TIMEOUT)["pid"] for call in calls}
        for session in sessions:
            self.bridge.cleanup(session)
        return pids

    def later(self, name: str, **options):
        """A call that will have to wait for its turn."""
        return self.in_background(lambda: self.bridge.value("nap", {"seconds": 0, "name": name}, **options))


class StartTest(PoolCase):
    def test_as_many_as_configured(self) -> None:
        self.start(count=3, capacity=1)
        self.assertEqual(len(self.py.pids()), 3)
        self.assertEqual(self.seen_pids(3), self.py.pids())

    @ahead
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
        self.bridge.session = self.session()
        self.assertEqual(self.bridge.value("whatever", {"x": 1}), {"called": "whatever", "with": {"x": 1}})

    def test_a_tool_registered_without_parameters_takes_any(self) -> None:
        self.serve("", self.pool(adapter="adapters.Bare"))
        self.bridge.session = self.session()
        self.assertEqual(list(self.bridge.tools()["bare"].parameters), [])
        self.assertEqual(self.bridge.value("bare", {"x": [1], "y": "z"}), {"x": [1], "y": "z"})
        self.assertEqual(self.bridge.value("bare"), {})

    @ahead
    def test_a_slow_start_keeps_nobody_waiting(self) -> None:
        slow = self.pool("slow", adapter="adapters.Clashing", env={"FIXTURE_IMPORT_RELEASE": "import"})
        self.py = self.pool()
        config = f"[bridge]\n{slow.config}{self.py.config}"
        self.server = self.start_server(config=config, bridge="127.0.0.1:0")
        self.bridge = self.client()
        # A new session waits for a few seconds for pools that are starting, and not for as long as they do.
        eventually(lambda: "add" in self.bridge.tools(), "the quick pool's tools")
        self.assertEqual(self.bridge.value("add", {"a": 1, "b": 2}), 3)
        self.assertEqual(self.report("slow")["ready"], 0, "all that was while it was starting")
        self.notes.release("import")
        eventually(lambda: "unique" in self.bridge.tools(), "the slow pool's tools", TIMEOUT)
        self.assertEqual(self.bridge.value("unique"), "unique")

    @ahead
    def test_one_that_never_gets_ready_is_given_up_and_tried_again(self) -> None:
        # Enough for a worker on a busy machine to come so far that it is known to have been started.
        never = self.pool("never", env={"FIXTURE_IMPORT_SECONDS": "600"}, start_timeout="5s")
        self.server = self.start_server(config=never.config, bridge="127.0.0.1:0")
        eventually(lambda: len(set(self.notes.lines("starts"))) >= 2, "a second try", 2 * TIMEOUT)
        first = int(self.notes.lines("starts")[0])
        eventually(lambda: not is_alive(first), "the first one is ended")


class QueueTest(PoolCase):
    def test_counts_add_up_and_what_timed_out_never_ran(self) -> None:
        # Long enough for nine calls to be there before the first of them has waited for so long.
        bridge = self.start('queue_timeout = "2s"\nmax_queue = 5\n', capacity=1)
        bridge.open()
        first = self.hold("first")
        refused = together(9, lambda at: bridge.refused_call("nap", {"seconds": 0, "name": str(at)}))
        saturated = [one for one in refused if "pool_saturated" in one.text]
        timed_out = [one for one in refused if "queue_timeout" in one.text]
        self.assertEqual((len(timed_out), len(saturated)), (5, 4), refused)
        self.assertEqual({one.code for one in saturated}, {Code.RESOURCE_EXHAUSTED})
        self.assertEqual({one.code for one in timed_out}, {Code.DEADLINE_EXCEEDED})
        self.notes.release("first")
        self.assertEqual(first.result(TIMEOUT)["name"], "first")
        # Whatever was still to come of it would have come by now.
        bridge.value("nap", {"seconds": 0, "name": "last"})
        self.assertEqual((self.notes.lines("hold"), self.notes.lines("nap")), (["first"], ["last"]))

    def test_one_that_waits_long_enough_runs(self) -> None:
        bridge = self.start(PATIENT, capacity=1)
        bridge.open()
        first = self.hold("first")
        others = [self.later(str(at)) for at in range(5)]
        self.wait_until_queued(5)
        self.notes.release("first")
        self.assertEqual(first.result(TIMEOUT)["name"], "first")
        self.assertEqual([one.result(TIMEOUT) for one in others], [str(at) for at in range(5)])
        self.assertEqual(len(self.notes.lines("nap")), 5)

    def test_first_come_first_served(self) -> None:
        bridge = self.start(PATIENT, capacity=1)
        bridge.open()
        self.hold("first")
        calls = []
        for at in range(4):
            calls.append(self.later(str(at)))
            # The next one comes when this one has its place.
            self.wait_until_queued(at + 1)
        self.notes.release("first")
        for one in calls:
            one.result(TIMEOUT)
        self.assertEqual(self.notes.lines("nap"), [str(at) for at in range(4)])

    def test_one_that_is_cancelled_while_it_waits_never_runs_and_leaves_its_place(self) -> None:
        bridge = self.start(PATIENT + "max_queue = 1\n", capacity=1)
        bridge.open()
        first = self.hold("first")
        late = bridge.refused_call("nap", {"seconds": 0, "name": "late"}, timeout=0.3)
        self.assertEqual(late.code, Code.DEADLINE_EXCEEDED)
        self.wait_until_queued(0)
        gone = bridge.stub.ExecuteTool.future(
            execution(bridge.session, "nap", {"seconds": 0, "name": "gone"}), timeout=LONG
        )
        self.wait_until_queued(1)
        gone.cancel()
        self.wait_until_queued(0)
        second = self.later("second")
        self.wait_until_queued(1)
        self.notes.release("first")
        self.assertEqual(first.result(TIMEOUT)["name"], "first")
        self.assertEqual(second.result(TIMEOUT), "second", "there was room again")
        self.assertEqual(self.notes.lines("nap"), ["second"])

    def test_the_deadline_counts_from_the_start_and_not_from_the_turn(self) -> None:
        bridge = self.start(PATIENT, capacity=1)
        bridge.open()
        first = self.hold("first")
        late = {"seconds": 0, "name": "late"}
        refused = self.limited(
            lambda: bridge.refused_call("nap", late, metadata={"timeout_ms": "500"}, timeout=LONG)
        )
        self.assertEqual(refused.code, Code.DEADLINE_EXCEEDED)
        self.assertFalse(first.done())
        self.notes.release("first")
        first.result(TIMEOUT)
        bridge.value("nap", {"seconds": 0, "name": "last"})
        self.assertEqual(self.notes.lines("nap"), ["last"])

    def test_a_pool_s_own_limits_win(self) -> None:
        # Long enough for four calls to be there before the first of them has waited for so long.
        bridge = self.start(PATIENT, capacity=1, queue_timeout="1s", max_queue=2)
        bridge.open()
        first = self.hold("first")
        refused = together(4, lambda at: bridge.refused_call("nap", {"seconds": 0, "name": str(at)}))
        texts = sorted(
            next(word for word in ("queue_timeout", "pool_saturated") if word in one.text) for one in refused
        )
        self.assertEqual(texts, ["pool_saturated"] * 2 + ["queue_timeout"] * 2)
        self.notes.release("first")
        self.assertEqual(first.result(TIMEOUT)["name"], "first")

    def test_one_full_pool_is_not_another(self) -> None:
        self.py = self.pool(capacity=1, queue_timeout="100ms")
        other = self.pool("other", adapter="adapters.Clashing")
        bridge = self.serve("", self.py, other)
        eventually(lambda: "unique" in bridge.tools(), "the other pool's tools")
        first = self.hold("first")
        self.assertIn("queue_timeout", bridge.refused_call("add", {"a": 1, "b": 2}).text)
        self.assertEqual(bridge.value("unique"), "unique")
        self.assertFalse(first.done())
        self.notes.release("first")
        first.result(TIMEOUT)

    def test_capacity_by_default_is_what_an_unmodified_worker_can_do(self) -> None:
        bridge = self.start('queue_timeout = "100ms"\n')
        bridge.open()
        capacity = min(32, (os.cpu_count() or 1) + 4)
        calls = [self.hold(str(at)) for at in range(capacity)]
        for _ in range(2):
            self.assertIn("queue_timeout", bridge.refused_call("nap", {"seconds": 0, "name": "one more"}).text)
        for at in range(capacity):
            self.notes.release(str(at))
        self.assertEqual([call.result(TIMEOUT)["name"] for call in calls], [str(at) for at in range(capacity)])
        self.assertEqual((len(self.notes.lines("hold")), self.notes.lines("nap")), (capacity, []))


class AffinityTest(PoolCase):
    def test_a_hint_is_followed_while_its_worker_is_free(self) -> None:
        self.start(count=3, capacity=1)
        for session in [self.session() for _ in range(3)]:
            first = self.where(session)
            self.assertEqual([self.where(session) for _ in range(5)], [first] * 5)

    def test_and_not_when_it_is_busy(self) -> None:
        self.start(count=2, capacity=1)
        session = self.session()
        busy = self.hold("busy", session=session)
        pid = self.where(session)
        self.notes.release("busy")
        self.assertNotEqual(busy.result(TIMEOUT)["pid"], pid)

    def test_a_strict_session_waits_for_its_worker(self) -> None:
        self.start(PATIENT, count=2, capacity=1, affinity="strict-queue")
        session, other = self.session(), self.session()
        pid = self.where(session)
        busy = self.hold("busy", session=session)
        waiting = [self.in_background(lambda: self.where(session)) for _ in range(3)]
        self.wait_until_queued(3)
        self.assertNotEqual(self.where(other), pid, "others overtake")
        self.assertEqual([one.done() for one in (busy, *waiting)], [False] * 4)
        self.notes.release("busy")
        self.assertEqual(busy.result(TIMEOUT)["pid"], pid)
        self.assertEqual([one.result(TIMEOUT) for one in waiting], [pid] * 3)

    def test_a_strict_session_that_does_not_wait(self) -> None:
        self.start(count=2, capacity=1, affinity="strict-fail-fast")
        session = self.session()
        pid = self.where(session)
        busy = self.hold("busy", session=session)
        refused = self.bridge.refused_call("where", session=session)
        self.assertEqual(refused.code, Code.RESOURCE_EXHAUSTED)
        self.assertIn("worker_busy", refused.text)
        self.assertFalse(busy.done(), "it did not wait for that")
        self.notes.release("busy")
        self.assertEqual(busy.result(TIMEOUT)["pid"], pid)
        self.assertEqual(self.where(session), pid)

    def test_a_strict_session_whose_worker_is_gone_is_told(self) -> None:
        for affinity in ("strict-queue", "strict-fail-fast"):
            with self.subTest(affinity):
                self.start(count=2, capacity=1, affinity=affinity)
                session = self.session()
                pid = self.where(session)
                os.kill(pid, signal.SIGKILL)
                eventually(lambda: not is_alive(pid), "it is gone")  # noqa: B023 - called at once
                eventually(lambda: len(self.py.ready_pids()) == 2, "the pool is whole", TIMEOUT)
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
            os.kill(victim, signal.SIGKILL)
            goal = finished + 100
            eventually(lambda: finished > goal, "calls go on", TIMEOUT)
            eventually(lambda: len(self.py.ready_pids() - {victim}) == 3, "the pool is whole", TIMEOUT)
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
        os.kill(victim, signal.SIGKILL)
        eventually(lambda: len(self.py.ready_pids() - {victim}) == 2, "the pool is whole", TIMEOUT)
        self.assertEqual(self.seen_pids(2), self.py.pids())
        self.assertIn(other, self.py.pids())

    @ahead
    def test_a_call_that_crashes_its_worker(self) -> None:
        bridge = self.start(capacity=2)
        bridge.open()
        for tool, arguments in (("crash", {"code": 139}), ("crash", {"code": 0}), ("segfault", {})):
            with self.subTest(tool):
                before = self.py.pids()
                refused = bridge.refused_call(tool, arguments)
                self.assertEqual(refused.code, Code.UNAVAILABLE)
                eventually(lambda: self.py.ready_pids() - before, "another one", TIMEOUT)  # noqa: B023 - called at once
                eventually(
                    lambda: isinstance(bridge.outcome("add", {"a": 1, "b": 2}), wire.ExecuteToolResponse), "calls"
                )

    @ahead
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
            eventually(lambda: self.py.ready_pids() - {pid}, "another one", TIMEOUT)  # noqa: B023 - called at once

    def test_what_it_started_dies_with_it(self) -> None:
        bridge = self.start()
        bridge.open()
        child = bridge.value("spawn")
        eventually(lambda: len(processes_with(child)) == 1, "its child has begun")
        (pid,) = self.py.pids()
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not processes_with(child), "its child is gone too")

    @ahead
    def test_one_that_stops_answering_is_replaced(self) -> None:
        """Three missed heartbeats; the call that it had is told, and the other worker does not notice."""
        bridge = self.start(count=2, capacity=1)
        session, other = self.session(), self.session()
        pid = self.where(session)
        hanging = self.in_background(
            lambda: bridge.outcome("nap", {"seconds": 300, "name": "h"}, session=session, timeout=LONG)
        )
        self.notes.wait_for("nap", "h")
        os.kill(pid, signal.SIGSTOP)
        try:
            stopped = time.monotonic()
            while pid in self.py.pids():
                self.assertLess(time.monotonic() - stopped, REPLACED_WITHIN, "it is still there")
                self.assertNotEqual(self.where(other, 0.2), pid)
            taken = time.monotonic() - stopped
            self.assertGreater(taken, 4, "three real misses, not one")
        finally:
            if is_alive(pid):
                os.kill(pid, signal.SIGCONT)
        refused = hanging.result(TIMEOUT)
        self.assertIsInstance(refused, Refused)
        self.assertEqual(refused.code, Code.UNAVAILABLE)
        eventually(lambda: len(self.py.ready_pids()) == 2, "the pool is whole", TIMEOUT)

    @ahead
    def test_one_that_answers_heartbeats_with_errors_is_replaced(self) -> None:
        self.py = self.pool(env={"FIXTURE_HEARTBEATS": "fail"})
        self.server = self.start_server(config=self.py.config, bridge="127.0.0.1:0")
        self.bridge = self.client()
        starts = lambda: self.notes.lines("starts")  # noqa: E731 - read again and again
        eventually(lambda: len(starts()) >= 2, "another one is started", REPLACED_WITHIN)
        eventually(lambda: self.report()["restarts"] >= 1, "the first one is counted", TIMEOUT)
        self.assertGreaterEqual(self.heartbeats(int(starts()[0])), 3)
        self.assertIn("did not answer 3 heartbeats", self.report()["trouble"] or self.server.log())

    @ahead
    def test_one_that_pauses_for_a_moment_is_not(self) -> None:
        self.start(count=1)
        (pid,) = self.py.pids()
        os.kill(pid, signal.SIGSTOP)
        # It cannot tell that it is being asked: the server asks every two seconds, and waits for ten.
        time.sleep(3)
        os.kill(pid, signal.SIGCONT)
        session = self.session()
        self.assertEqual(self.where(session), pid)
        heard = self.heartbeats(pid)
        eventually(lambda: self.heartbeats(pid) >= heard + 2, "it is asked again", TIMEOUT)
        self.assertEqual(self.where(session), pid)

    def heartbeats(self, pid: int) -> int:
        return sum(line.startswith("Heartbeat") for line in self.notes.lines(f"rpcs-{pid}"))

    @ahead
    def test_one_that_cannot_start_is_tried_less_and_less(self) -> None:
        broken = self.pool("broken", adapter="broken.Tools")
        self.py = self.pool()
        self.server = self.start_server(config=broken.config + self.py.config, bridge="127.0.0.1:0")
        self.bridge = self.client()
        eventually(lambda: "add" in self.bridge.tools(), "the good pool's tools")
        eventually(lambda: len(self.notes.lines("broken")) > len(PAUSES), "it is tried again", 2 * TIMEOUT)
        self.assertIn("this adapter is broken on purpose", self.server.log(), "why is in the log")
        tried = [float(at) for at in self.notes.lines("broken")]
        for earlier, later, pause in zip(tried, tried[1:], PAUSES):
            self.assertGreaterEqual(later - earlier, pause, "it does not spin")
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
    def without_a_failure(self, until, seconds: float = 0.01, timeout: float = REPLACED_WITHIN) -> list[int]:
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
        eventually(lambda: len(self.py.pids()) == 2, "the old ones are ended", TIMEOUT)

    def test_after_some_time(self) -> None:
        self.start(count=1, capacity=4, max_age="1s")
        self.without_a_failure(lambda seen: len(set(seen)) >= 3)
        eventually(lambda: len(self.py.pids()) <= 2, "the old ones are ended")

    @ahead
    def test_when_it_has_grown(self) -> None:
        bridge = self.start(count=1, capacity=4, max_memory="200MiB")
        bridge.open()
        fat = bridge.value("hog", {"mebibytes": 300})
        # Longer calls: some run at any time, and half a minute of them does not keep the machine busy.
        self.without_a_failure(lambda seen: seen and seen[-1] != fat, seconds=0.1)
        eventually(lambda: not is_alive(int(fat)), "the fat one is ended", TIMEOUT)

    def test_a_long_call_is_waited_for(self) -> None:
        bridge = self.start(count=1, capacity=2, max_requests=3)
        bridge.open()
        long = self.hold("long")
        before = self.py.pids()
        for _ in range(5):
            bridge.value("add", {"a": 1, "b": 2})
        eventually(lambda: self.py.ready_pids() - before, "the next one starts", TIMEOUT)
        # It has taken over, and the old one is there for the call alone.
        eventually(lambda: bridge.value("where")["pid"] not in before, "the next one is called", TIMEOUT)
        self.assertEqual((self.py.pids() & before, long.done()), (before, False))
        self.notes.release("long")
        self.assertEqual({long.result(TIMEOUT)["pid"]}, before)
        eventually(lambda: not (self.py.pids() & before), "then the old one ends", TIMEOUT)

    def test_by_default_they_stay(self) -> None:
        self.start(count=1)
        before = self.py.pids()
        self.bridge.open()
        for _ in range(100):
            self.bridge.value("add", {"a": 1, "b": 2})
        self.assertEqual(self.py.pids(), before)


if __name__ == "__main__":
    unittest.main()
