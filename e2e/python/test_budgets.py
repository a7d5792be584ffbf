"""Budgets: reserved before a call, settled after it, never overspent by calls that run at the same time."""

from __future__ import annotations

import itertools
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Iterator

from gateway_case import GatewayTestCase
from stub_model import Call, Failure, Hold, Reply, Request, Text

EXCEEDED = r"^token budget exceeded \(%s: \d+/%d\): this call needs about \d+ tokens and \d+ are left; raise `"


class ParallelTest(GatewayTestCase):
    def race(self, scope: str, limit: int, accounts: list[str]) -> tuple[Iterator[dict], threading.Event]:
        """One chat for each account, each on a connection of its own and all at once. Gives the first frame of each
        as it comes, and what lets the model answer."""
        release = self.held()
        self.connect(more=f"[budgets]\n{scope} = {limit}\n")
        self.model.fallback = lambda request: Reply(
            Hold(release), Text("yes"), input_tokens=limit - 20, output_tokens=10
        )
        gateways = [self.another() for _ in accounts]
        pool = ThreadPoolExecutor(len(accounts))
        self.addCleanup(pool.shutdown)
        requests = [gateway.start("hi", account=account) for gateway, account in zip(gateways, accounts)]
        first_frames = [pool.submit(gateway.next_of, request) for gateway, request in zip(gateways, requests)]
        return (frame.result() for frame in as_completed(first_frames)), release

    def test_six_calls_against_a_day_that_allows_one(self) -> None:
        for scope in ("daily", "monthly"):
            with self.subTest(scope):
                frames, release = self.race(scope, 2000, [f"a{n}" for n in range(6)])
                # Five are refused at once, and not when the one that runs is over.
                for frame in itertools.islice(frames, 5):
                    self.assertRegex(frame["error"], EXCEEDED % (scope, 2000))
                release.set()
                self.assertEqual(next(frames)["event"], "text", "exactly one proceeds")
                self.assertEqual(len(self.model.requests), 1)

    def test_six_calls_against_a_session_that_allows_one(self) -> None:
        frames, release = self.race("session", 2000, ["alice"] * 6)
        self.model.wait_for_requests(1)
        release.set()
        first_frames = list(frames)
        refusals = [frame["error"] for frame in first_frames if "error" in frame]
        self.assertEqual(len(refusals), 5, "exactly one proceeds")
        for refusal in refusals:
            self.assertIn("token budget exceeded (session: 1990/2000): ", refusal)
        self.assertEqual([frame["event"] for frame in first_frames if "event" in frame], ["text"])
        self.assertEqual(len(self.model.requests), 1)
        gateway = self.another()
        self.assertEqual(len(gateway.result("chat.history", channel="websocket", account="alice")["items"]), 2)
        self.assertEqual(gateway.result("budget.status")["daily"]["used"], 1990)

    def test_a_session_s_budget_is_its_own(self) -> None:
        # With room for describing the tools.
        gateway = self.connect(more="[budgets]\nsession = 100000\n")
        self.model.fallback = lambda request: Reply(Text("yes"), input_tokens=99980, output_tokens=10)
        for account in ("alice", "bob"):
            self.assertEqual(gateway.chat("hi", account=account).text, "yes")
        for account in ("alice", "bob"):
            error = gateway.error("chat.send", channel="websocket", account=account, content="more " * 50)
            self.assertIn("token budget exceeded (session: 99990/100000): ", error)
            self.assertTrue(error.endswith("10 are left; raise `budgets.session` or start a new session"), error)


class ReservationTest(GatewayTestCase):
    def test_a_running_call_holds_its_share_and_gives_back_what_it_did_not_use(self) -> None:
        release = self.held()
        gateway = self.connect(
            Reply(Hold(release), Text("yes"), input_tokens=30, output_tokens=12),
            more="max_tokens = 500\n[budgets]\ndaily = 100000\n",
        )
        request = gateway.start("hi")
        self.model.wait_for_requests(1)
        status = gateway.result("budget.status")["daily"]
        self.assertEqual(status["used"], 0)
        self.assertGreater(status["reserved"], 500)
        release.set()
        gateway.turn(request)
        self.assertEqual(gateway.result("budget.status")["daily"], {"used": 42, "reserved": 0, "limit": 100000})

    def test_the_call_s_own_limit_is_no_more_than_what_is_left(self) -> None:
        for kind in ("openai", "anthropic"):
            with self.subTest(kind):
                gateway = self.connect(
                    Reply(Text("yes"), input_tokens=8000, output_tokens=0),
                    kind=kind,
                    more="[budgets]\nsession = 10000\n",
                )
                gateway.chat("hi")
                gateway.chat("again")
                first, second = (self.limit_of(request) for request in self.model.requests)
                self.assertEqual(first, 4096)
                self.assertTrue(0 < second < 2000, second)

    @staticmethod
    def limit_of(request: Request) -> int:
        return request.body.get("max_completion_tokens") or request.body["max_tokens"]

    def test_a_call_that_fails_gives_its_reservation_back(self) -> None:
        gateway = self.connect(Failure(400), more="[budgets]\ndaily = 10000\n")
        self.assertEqual(gateway.chat("hi").events, ["error", "done"])
        status = gateway.result("budget.status")["daily"]
        self.assertEqual((status["reserved"], status["used"]), (0, 0))
        self.assertEqual(gateway.chat("hi").events[-1], "done")

    def test_every_call_of_a_turn_counts_and_a_refusal_in_mid_turn_is_error_then_done(self) -> None:
        gateway = self.connect(
            Reply(Call("ls", {}), input_tokens=9980, output_tokens=15),
            Reply(Text("must not be reached")),
            more="[budgets]\nsession = 10000\n",
        )
        turn = gateway.chat("look")
        self.assertEqual(turn.events[-2:], ["error", "done"])
        (error,) = turn.errors
        self.assertTrue(error.startswith("token budget exceeded (session: 9995/10000): "), error)
        self.assertEqual(len(self.model.requests), 1)

    def test_what_was_used_survives_a_kill(self) -> None:
        gateway = self.connect(
            Reply(Text("yes"), input_tokens=9000, output_tokens=900), more="[budgets]\ndaily = 10000\n"
        )
        gateway.chat("hi")
        self.server.kill()
        self.server.restart()
        again = self.another()
        self.assertEqual(again.result("budget.status")["daily"]["used"], 9900)
        error = again.error("chat.send", channel="websocket", account="bob", content="word " * 500)
        self.assertTrue(error.startswith("token budget exceeded (daily: 9900/10000): "), error)

    def test_an_agent_has_a_budget_of_its_own(self) -> None:
        gateway = self.connect(
            Reply(Text("yes"), input_tokens=900, output_tokens=90),
            more='[agents.default.budget]\ndaily = 1000\n[agents.other]\nprovider = "main"\nmodel = "m"\n'
            '[[bindings]]\nagent = "other"\naccount = "bob"\n',
        )
        gateway.chat("hi")
        error = gateway.error("chat.send", channel="websocket", account="alice", content="word " * 500)
        self.assertRegex(error, r"^token budget exceeded \(daily: 990/1000\): ")
        self.assertIn("raise `agents.default.budget.daily`", error)
        self.assertEqual(gateway.chat("hi", account="bob").events[-1], "done")


class ToolsTest(GatewayTestCase):
    def test_a_budget_without_room_for_tools_is_mentioned_in_the_answer_and_in_the_log(self) -> None:
        gateway = self.connect(Reply(Text("yes"), input_tokens=30, output_tokens=1), more="[budgets]\nsession = 400\n")
        turn = gateway.chat("hi")
        self.assertNotIn("tools", self.model.requests[0].body)
        said = r"^yes\n\n\(answered without tools: describing them takes about \d{3,} tokens besides \d+ for the "
        said += r"conversation, and the session budget has 400 of 400 left; raise `budgets\.session` or start a new "
        self.assertRegex(turn.text, said)
        self.assertEqual(self.server.log().count("answered without tools"), 1)

    def test_with_room_for_tools_nothing_is_said(self) -> None:
        gateway = self.connect(Reply(Text("yes")), more="[budgets]\nsession = 100000\n")
        self.assertEqual(gateway.chat("hi").text, "yes")
        self.assertIn("tools", self.model.requests[0].body)


class MeteringTest(GatewayTestCase):
    def test_usage_is_what_the_provider_reported(self) -> None:
        for kind in ("openai", "anthropic"):
            with self.subTest(kind):
                figures = [(123, 45), (6789, 1), (1, 4000)]
                gateway = self.connect(
                    *[Reply(Text("x"), input_tokens=into, output_tokens=out) for into, out in figures], kind=kind
                )
                for into, out in figures:
                    self.assertEqual(gateway.chat("hi").usage, (into, out))
                (row,) = gateway.result("usage.report")["items"]
                self.assertEqual((row["input_tokens"], row["output_tokens"]), (6913, 4046))
                self.assertEqual((row["calls"], row["estimated_calls"]), (3, 0))


if __name__ == "__main__":
    unittest.main()
