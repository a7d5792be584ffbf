"""What was accepted is answered: through failures of the other service, deaths of the server, and crowds."""

from __future__ import annotations

import http.client
import re
import signal
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from ahead_case import ahead, ahead_last
from channel_case import BOT_TOKEN, TELEGRAM_HEADER, WEBHOOK_SECRET, ChannelTestCase
from channel_stand_ins import Answer, Fail, Late, Redirect, Reset, StandIn, post, update
from gateway_client import eventually
from plugin_support import log_line, wait_for_log
from stub_model import Failure, Hold, Reply, Text

TIMEOUT = 60
FAST = "rate_limit = { per_second = 1000, burst = 1000 }\n"


def setUpModule() -> None:
    RetryTest.begin_ahead()


load_tests = ahead_last


class RetryTest(ChannelTestCase):
    @ahead
    def test_it_is_sent_again_when_that_may_help(self) -> None:
        for trouble in (Fail(500), Fail(503), Fail(502), Reset()):
            with self.subTest(trouble):
                api = self.telegram(Reply(Text("patience")))
                api.next(trouble)
                self.accepted(self.deliver(update(1)))
                api.wait_for(1)
                first, second = api.requests
                self.assertEqual(first.body, second.body)
                self.assertGreater(second.at - first.at, 0.5, "not at once")
                self.assertEqual(len(self.model.requests), 1, "the model is not asked again")

    @ahead
    def test_the_other_side_says_when(self) -> None:
        api = self.telegram()
        # Longer than the server would wait by itself.
        api.next(Fail(429, retry_after=2))
        self.accepted(self.deliver(update(1)))
        api.wait_for(1)
        first, second = api.requests
        self.assertGreaterEqual(second.at - first.at, 1.9)

    @ahead
    def test_the_wait_grows(self) -> None:
        api = self.telegram()
        api.next(Fail(500), Reset(), Fail(503))
        self.accepted(self.deliver(update(1)))
        api.wait_for(1)
        at = [one.at for one in api.requests]
        gaps = [later - earlier for earlier, later in zip(at, at[1:])]
        self.assertEqual(len(gaps), 3)
        for gap, expected in zip(gaps, (1, 2, 4)):
            self.assertGreater(gap, expected * 0.9, gaps)

    def test_what_cannot_help_is_not_tried_and_named_in_the_log(self) -> None:
        for status in (400, 403, 404):
            with self.subTest(status):
                api = self.telegram()
                api.next(Fail(status))
                self.accepted(self.deliver(update(1)))
                line = wait_for_log(self.server, "telegram", str(status))
                self.assertNotIn(BOT_TOKEN, line)
                self.accepted(self.deliver(update(2, "and now")))
                api.wait_for(1)
                self.assertEqual(api.texts(), ["echo: and now"])

    def test_a_redirect_does_not_carry_the_message_elsewhere(self) -> None:
        elsewhere = StandIn()
        self.addCleanup(elsewhere.close)
        api = self.telegram()
        api.next(Redirect(f"{elsewhere.url}/steal"), Redirect(f"http://localhost:{elsewhere.port}/steal"))
        self.accepted(self.deliver(update(1)))
        api.wait_for_any(1)
        self.accepted(self.deliver(update(2, "second", chat=5)))
        api.wait_for_any(2)
        self.accepted(self.deliver(update(3, "third", chat=6)))
        api.wait_for(1)
        self.assertEqual(elsewhere.requests, [])

    def test_messages_of_one_chat_stay_in_order_when_the_first_is_late(self) -> None:
        api = self.telegram()
        api.next(Fail(500))
        for number in (1, 2, 3):
            self.accepted(self.deliver(update(number, f"number {number}")))
        api.wait_for(3)
        self.assertEqual(api.texts(), [f"echo: number {number}" for number in (1, 2, 3)])

    def test_a_chat_in_trouble_does_not_hold_up_others(self) -> None:
        release = self.held()
        api = self.telegram()
        api.next(Late(release))
        self.accepted(self.deliver(update(1, "slow", chat=1)))
        api.wait_for_any(1)
        self.accepted(self.deliver(update(2, "quick", chat=2)))
        api.wait_for(1)
        self.assertEqual(api.texts(), ["echo: quick"])
        release.set()
        api.wait_for(2)

    def test_a_failing_model_is_told_to_the_person_without_internals(self) -> None:
        api = self.telegram(Failure(400, "internal-canary of the provider"))
        self.accepted(self.deliver(update(1)))
        (sent,) = api.wait_for(1)
        self.assertEqual(str(sent.json["chat_id"]), "77")
        for internal in ("canary", "400", "127.0.0.1", "http", "provider_error", "stub"):
            self.assertNotIn(internal, sent.json["text"])
        self.assertLess(len(sent.json["text"]), 300)


class CrashTest(ChannelTestCase):
    def test_killed_before_the_model_answered(self) -> None:
        api = self.telegram(Reply(Text("never "), Hold(self.held())))
        self.accepted(self.deliver(update(1, "are you there?")))
        self.model.wait_for_requests(1)
        self.server.kill()
        self.again()
        api.wait_for(1)
        self.assertEqual(api.texts(), ["echo: are you there?"])
        self.assertEqual([one.last_user_text for one in self.model.requests], ["are you there?"] * 2)
        self.accepted(self.deliver(update(2, "good")))
        api.wait_for(2)
        self.assertEqual(api.texts(), ["echo: are you there?", "echo: good"], "exactly once")

    def test_killed_right_after_it_was_accepted(self) -> None:
        for _ in range(3):
            api = self.telegram()
            self.accepted(self.deliver(update(1)))
            self.server.kill()
            self.again()
            api.wait_for(1)
            self.accepted(self.deliver(update(2, "next")))
            eventually(lambda: "echo: next" in api.texts(), "the next is answered")
            self.assertIn(api.texts()[:-1], [["echo: hello"], ["echo: hello"] * 2], "at least once")
            print(f"killed right after 202: told {len(api.texts()) - 1} time(s)", flush=True)

    def test_killed_before_the_answer_was_taken(self) -> None:
        api = self.telegram(Reply(Text("an answer")))
        api.next(Fail(500))
        self.accepted(self.deliver(update(1)))
        api.wait_for_any(1)
        self.server.kill()
        self.again()
        api.wait_for(1)
        self.assertEqual(api.texts(), ["an answer"])
        self.assertEqual(len(self.model.requests), 1, "the answer was kept")

    def test_killed_while_the_answer_is_on_its_way(self) -> None:
        release = self.held()
        api = self.telegram(Reply(Text("an answer")))
        api.next(Late(release))
        self.accepted(self.deliver(update(1)))
        api.wait_for_any(1)
        self.server.kill()
        self.again()
        api.wait_for(1)
        release.set()
        self.assertLessEqual(len(self.model.requests), 1)
        print(f"killed on the way: told {len(api.requests)} time(s)", flush=True)

    def test_killed_again_it_gives_up_and_says_so(self) -> None:
        api = self.telegram(*[Reply(Text("x"), Hold(self.held())) for _ in range(2)])
        self.accepted(self.deliver(update(1)))
        self.model.wait_for_requests(1)
        self.server.kill()
        self.again()
        self.model.wait_for_requests(2)
        self.server.kill()
        self.again()
        (sent,) = api.wait_for(1)
        self.assertEqual(len(self.model.requests), 2, "asked again once")
        self.assertNotIn("echo", sent.json["text"])

    def test_what_waits_behind_a_run_survives_too_and_in_order(self) -> None:
        api = self.telegram(Reply(Text("x"), Hold(self.held())))
        for number in range(1, 6):
            self.accepted(self.deliver(update(number, f"number {number}")))
        self.model.wait_for_requests(1)
        self.server.kill()
        self.again()
        api.wait_for(5)
        self.assertEqual(api.texts(), [f"echo: number {number}" for number in range(1, 6)])

    def test_usage_of_the_cut_call_is_counted(self) -> None:
        api = self.telegram(Reply(Text("a" * 200), Hold(self.held())))
        self.accepted(self.deliver(update(1)))
        self.model.wait_for_requests(1)
        self.server.kill()
        self.again()
        api.wait_for(1)
        eventually(lambda: self.calls() == 2, "both calls are counted")


class DrainTest(ChannelTestCase):
    def test_new_ones_are_sent_away_and_running_ones_end_well(self) -> None:
        release = self.held()
        api = self.telegram(Reply(Text("first "), Hold(release), Text("last")))
        self.accepted(self.deliver(update(1)))
        self.model.wait_for_requests(1)
        self.server.process.send_signal(signal.SIGTERM)
        number = 1

        def is_refused() -> bool:
            nonlocal number
            number += 1
            try:
                answer = self.deliver(update(number, f"number {number}", chat=5))
            except (OSError, http.client.HTTPException):
                return True
            if answer.status == 202:
                return False
            self.assertEqual(answer.status, 503, answer)
            self.retry_after(answer)
            return True

        eventually(is_refused, "the drain has begun")
        accepted = number - 2
        release.set()
        self.assertEqual(self.server.process.wait(TIMEOUT), 0)
        self.again()
        api.wait_for(1 + accepted)
        self.accepted(self.deliver(update(1000, "after")))
        eventually(lambda: "echo: after" in api.texts(), "the one after")
        self.assertEqual(api.texts(77), ["first last", "echo: after"], "exactly once")


class CrowdTest(ChannelTestCase):
    def test_a_hundred_at_once_in_ten_chats(self) -> None:
        api = self.telegram(keys=FAST)

        def talk(chat: int) -> list[Answer]:
            return [self.deliver(update(chat * 100 + at, f"{chat}: {at}", chat=chat, user=chat)) for at in range(10)]

        with ThreadPoolExecutor(10) as pool:
            answers = [answer for one in pool.map(talk, range(1, 11)) for answer in one]
        self.assertEqual({answer.status for answer in answers}, {202}, answers[:5])
        self.assertEqual(len({answer.json["delivery"] for answer in answers}), 100)
        api.wait_for(100, TIMEOUT)
        for chat in range(1, 11):
            self.assertEqual(api.texts(chat), [f"echo: {chat}: {at}" for at in range(10)])
        self.assertEqual(self.calls(), 100)

    def test_thirty_in_one_chat_while_the_first_is_slow(self) -> None:
        """More than may wait for a session in other ways: what was accepted is answered."""
        release = self.held()
        api = self.telegram(Reply(Hold(release), Text("echo: 0")), keys=FAST)
        for at in range(30):
            self.accepted(self.deliver(update(at + 1, str(at))))
        self.model.wait_for_requests(1)
        release.set()
        api.wait_for(30)
        self.assertEqual(api.texts(), [f"echo: {at}" for at in range(30)])

    def test_many_waiting_then_no_more(self) -> None:
        release = self.held()
        api = self.telegram(
            Reply(Hold(release), Text("one")), Reply(Hold(release), Text("two")), keys=FAST + "max_waiting = 2\n"
        )
        self.accepted(self.deliver(update(1, chat=1)))
        self.accepted(self.deliver(update(2, chat=2)))
        refused = self.deliver(update(3, chat=3))
        self.assertEqual(refused.status, 503, refused)
        self.retry_after(refused)
        self.model.wait_for_requests(2)
        release.set()
        api.wait_for(2)
        # What was refused was not seen: it may come again.
        eventually(lambda: self.deliver(update(3, "again", chat=3)).status == 202, "there is room again")
        api.wait_for(3)
        self.assertEqual(api.texts(3), ["echo: again"])

    def test_too_many_a_second(self) -> None:
        api = self.telegram(keys="rate_limit = { per_second = 1, burst = 3 }\n")
        taken = 0
        started = time.monotonic()
        # Three at once and then one a second, so that a slow machine has more of them taken.
        while (answer := self.deliver(update(taken + 1, f"number {taken + 1}"))).status == 202:
            taken += 1
            self.assertLessEqual(taken, 3 + (time.monotonic() - started) + 1)
        self.assertGreaterEqual(taken, 3)
        self.assertEqual(answer.status, 429, answer)
        self.retry_after(answer)
        # What was refused was not seen: it may come again.
        again = update(taken + 1, "again")
        eventually(lambda: self.deliver(again).status == 202, "it is taken later", TIMEOUT)
        api.wait_for(taken + 1)
        self.assertIn("echo: again", api.texts())

    def test_a_second_channel_has_a_rate_of_its_own(self) -> None:
        api = self.telegram(
            keys="rate_limit = { per_second = 1, burst = 1 }\n",
            more='[channels.second]\nplugin = "telegram"\nverify = "telegram"\nsecret = "env:CHANNEL_SECRET"\n',
        )
        taken = 0
        # The second is too many, unless a slow machine took a second for it.
        while (answer := self.deliver(update(taken + 1))).status == 202:
            taken += 1
        self.assertEqual((answer.status, taken >= 1), (429, True), answer)
        answer = post(self.server, "second", update(1, "elsewhere"), {TELEGRAM_HEADER: WEBHOOK_SECRET})
        self.accepted(answer)
        api.wait_for(taken + 1)
        sessions = {one["session"] for one in self.gateway.result("session.list")["items"]}
        self.assertEqual(sessions, {"default:telegram:7:77", "default:second:7:77"})

    def test_the_gateway_answers_meanwhile(self) -> None:
        api = self.telegram(keys=FAST)
        pings = 0
        done = threading.Event()

        def crowd() -> None:
            for at in range(200):
                self.deliver(update(at + 1, str(at), chat=at % 20 + 1))
            done.set()

        thread = threading.Thread(target=crowd)
        thread.start()
        while not done.is_set():
            self.assertEqual(self.gateway.result("ping"), "pong")
            pings += 1
        thread.join()
        api.wait_for(200, TIMEOUT)
        self.assertGreater(pings, 0)


class UnloadTest(ChannelTestCase):
    def test_an_unloaded_adapter_asks_to_come_again_and_answers_once_it_is_back(self) -> None:
        release = self.held()
        api = self.telegram(Reply(Hold(release), Text("kept")))
        self.accepted(self.deliver(update(1)))
        self.model.wait_for_requests(1)
        operator = self.operator()
        self.assertEqual(operator.result("plugin.unload", name="telegram"), {"unloaded": "telegram"})
        answer = self.deliver(update(2))
        self.assertEqual(answer.status, 503, answer)
        self.retry_after(answer)
        release.set()
        operator.result("plugin.load", name="telegram")
        eventually(lambda: self.deliver(update(2, "second")).status == 202, "it is back")
        api.wait_for(2)
        self.assertEqual(sorted(api.texts()), ["echo: second", "kept"])

    def test_the_log_of_a_good_delivery_is_quiet(self) -> None:
        api = self.telegram()
        self.accepted(self.deliver(update(1, "secret words of a person")))
        api.wait_for(1)
        self.assertIsNone(log_line(self.server, "secret words"))
        self.assertEqual([line for line in self.server.log().splitlines() if re.search(r"\b(WARN|ERROR)\b", line)], [])


if __name__ == "__main__":
    unittest.main()
