"""`chat.cancel` and `chat.attach`: leaving a stream, and coming back to it without a gap or a duplicate."""

from __future__ import annotations

import unittest

from gateway_case import GatewayTestCase
from gateway_client import TIMEOUT, Gateway, Turn
from stub_model import Hold, Reply, Text

SESSION = "default:websocket:alice:main"


class StreamTestCase(GatewayTestCase):
    def history(self, gateway: Gateway) -> list[str]:
        return [one["content"] for one in gateway.result("chat.history", session=SESSION)["items"]]


def contents(turn: Turn) -> list[tuple]:
    return [(frame.get("seq"), frame["event"], frame.get("data")) for frame in turn.frames]


class CancelTest(StreamTestCase):
    def test_a_stream_ends_with_done_and_the_model_is_hung_up_on(self) -> None:
        gateway = self.connect(Reply(Text("on and "), Hold(self.held()), Text("on")))
        request = gateway.start("talk")
        gateway.until(request, "text")
        gateway.result("chat.cancel", id=request)
        rest = gateway.turn(request)
        self.assertEqual((rest.events.count("done"), rest.events[-1]), (1, "done"))
        self.assertTrue(self.model.requests[0].gone.wait(TIMEOUT), "the call goes on upstream")
        self.assertEqual(gateway.result("ping"), "pong")
        self.assertTrue(gateway.nothing_kept(request))

    def test_a_cancelled_turn_is_not_history_but_counts_as_estimated_usage(self) -> None:
        gateway = self.connect(Reply(Text("word " * 100), Hold(self.held())), Reply(Text("fresh")))
        request = gateway.start("talk")
        gateway.until(request, "text")
        gateway.result("chat.cancel", id=request)
        gateway.turn(request)
        self.assertEqual(self.history(gateway), [])
        (row,) = gateway.result("usage.report")["items"]
        self.assertEqual((row["calls"], row["estimated_calls"]), (1, 1))
        self.assertTrue(row["input_tokens"] > 0 and row["output_tokens"] > 50, row)
        status = gateway.result("budget.status", session=SESSION)
        used = row["input_tokens"] + row["output_tokens"]
        self.assertEqual(status["session"], {"used": used, "reserved": 0, "limit": None})
        self.assertEqual(gateway.chat("again").text, "fresh")
        self.assertEqual(self.history(gateway), ["again", "fresh"])

    def test_a_turn_that_waits_for_its_session_is_cancelled_before_it_reaches_the_model(self) -> None:
        release = self.held()
        gateway = self.connect(Reply(Text("first"), Hold(release)))
        running = gateway.start("one")
        gateway.until(running, "text")
        waiting = gateway.start("two")
        gateway.result("chat.cancel", id=waiting)
        self.assertEqual(gateway.turn(waiting).events[-1], "done")
        release.set()
        self.assertEqual(gateway.turn(running).events[-1], "done")
        self.assertEqual(gateway.chat("three").text, "echo: three")
        self.assertEqual([one.last_user_text for one in self.model.requests], ["one", "three"])
        self.assertEqual(self.history(gateway), ["one", "first", "three", "echo: three"])

    def test_a_turn_whose_model_has_not_answered_yet_is_cancelled(self) -> None:
        gateway = self.connect(Reply(Hold(self.held())))
        request = gateway.start("talk")
        self.model.wait_for_requests(1)
        gateway.result("chat.cancel", id=request)
        self.assertEqual(gateway.turn(request).events[-1], "done")
        self.assertTrue(self.model.requests[0].gone.wait(TIMEOUT))

    def test_only_the_connection_that_asked_can_cancel_and_only_while_it_runs(self) -> None:
        release = self.held()
        gateway = self.connect(Reply(Text("a"), Hold(release), Text("b")))
        request = gateway.start("talk")
        gateway.until(request, "text")
        self.assertTrue(self.another().error("chat.cancel", id=request))
        for params in (None, {}, {"id": None}, {"id": "unknown"}):
            with self.subTest(params):
                self.assertTrue(gateway.error("chat.cancel", params))
        release.set()
        self.assertEqual(gateway.turn(request).text, "b")
        self.assertTrue(gateway.error("chat.cancel", id=request), "it is over")

    def test_a_number_cancels_the_request_with_that_number(self) -> None:
        gateway = self.connect(Reply(Text("a"), Hold(self.held())))
        gateway.send({"id": 7, "method": "chat.send", "params": {"channel": "c", "account": "a", "content": "hi"}})
        gateway.until("7", "text")
        gateway.result("chat.cancel", id=7)
        self.assertEqual(gateway.turn("7").events[-1], "done")


class AttachTest(StreamTestCase):
    def test_seq_grows_with_every_frame(self) -> None:
        gateway = self.connect(Reply(*[Text(f"{n} ") for n in range(20)]))
        numbers = [frame["seq"] for frame in gateway.chat("count").frames]
        self.assertEqual(numbers, sorted(set(numbers)))

    def test_after_a_lost_connection_the_rest_comes_by_session_or_by_id(self) -> None:
        for by in ("session", "id"):
            with self.subTest(by):
                pause, release = self.held(), self.held()
                words = [f"w{n} " for n in range(12)]
                steps = [
                    *map(Text, words[:6]),
                    Hold(pause),
                    *map(Text, words[6:9]),
                    Hold(release),
                    *map(Text, words[9:]),
                ]
                leaving = self.connect(Reply(*steps))
                leaving.send(
                    {
                        "id": "mine",
                        "method": "chat.send",
                        "params": {"channel": "websocket", "account": "alice", "content": "go"},
                    }
                )
                before = [leaving.next_of("mine") for _ in range(4)]
                leaving.abort()
                back = self.another()
                which = {"session": SESSION} if by == "session" else {"id": "mine"}
                request = back.ask("chat.attach", after=before[-1]["seq"], **which)
                first = back.next_of(request)
                pause.set()
                release.set()
                rest = [first, *back.turn(request).frames]
                text = "".join(frame["data"] for frame in [*before, *rest] if frame["event"] == "text")
                self.assertEqual(text, "".join(words))
                numbers = [frame["seq"] for frame in [*before, *rest]]
                self.assertEqual(numbers, sorted(set(numbers)))
                self.assertEqual(rest[-1]["event"], "done")
                self.assertEqual(self.history(back), ["go", "".join(words)])

    def test_attaching_at_every_number_gives_exactly_what_follows(self) -> None:
        gateway = self.connect(Reply(*[Text(f"{n} ") for n in range(5)]))
        whole = contents(gateway.chat("count"))
        for number in [0, *(seq for seq, _, _ in whole[:-1])]:
            with self.subTest(after=number):
                again = gateway.turn(gateway.ask("chat.attach", session=SESSION, after=number))
                self.assertEqual(contents(again), [one for one in whole if one[0] > number])

    def test_watchers_that_join_at_any_time_see_the_same_stream(self) -> None:
        pauses = [self.held() for _ in range(4)]
        steps = [step for n, pause in enumerate(pauses) for step in (Text(f"{n} "), Hold(pause))]
        gateway = self.connect(Reply(*steps, Text("end")))
        request = gateway.start("go")
        begun = gateway.until(request, "text")
        watchers: list[tuple[Gateway, str]] = []
        for number, pause in enumerate(pauses):
            watcher = self.another()
            watchers.append((watcher, watcher.ask("chat.attach", session=SESSION, after=0)))
            # Each one has caught up before the model goes on.
            while watcher.next_of(watchers[-1][1])["data"] != f"{number} ":
                pass
            pause.set()
        whole = contents(Turn(request, begun + gateway.turn(request).frames))
        for watcher, attached in watchers:
            watcher.turn(attached)
            seen = [(one["seq"], one["event"], one.get("data")) for one in watcher.seen if one.get("id") == attached]
            self.assertEqual(seen, whole)

    def test_the_connection_that_runs_a_turn_may_attach_to_it_too(self) -> None:
        release = self.held()
        gateway = self.connect(Reply(Text("a"), Hold(release), Text("b")))
        request = gateway.start("go")
        gateway.until(request, "text")
        attached = gateway.ask("chat.attach", id=request, after=0)
        gateway.until(attached, "text")
        release.set()
        self.assertEqual((gateway.turn(request).text, gateway.turn(attached).text), ("b", "b"))

    def test_an_id_used_again_means_its_newest_run(self) -> None:
        gateway = self.connect(Reply(Text("old")), Reply(Text("new")))
        for content in ("one", "two"):
            gateway.send(
                {
                    "id": "x",
                    "method": "chat.send",
                    "params": {"channel": "websocket", "account": "alice", "content": content},
                }
            )
            gateway.turn("x")
        self.assertEqual(self.attached_text("x"), "new")

    def attached_text(self, identity: str) -> str:
        back = self.another()
        return back.turn(back.ask("chat.attach", id=identity, after=0)).text

    def test_after_a_restart_a_finished_turn_can_still_be_replayed(self) -> None:
        gateway = self.connect(Reply(Text("kept "), Text("well")))
        whole = contents(gateway.chat("go"))
        self.server.kill()
        self.server.restart()
        back = self.another()
        self.assertEqual(contents(back.turn(back.ask("chat.attach", session=SESSION, after=0))), whole)

    def test_unknown_streams_and_wrong_numbers_are_errors(self) -> None:
        gateway = self.connect()
        gateway.chat("hi")
        wrong = [
            None,
            {},
            {"after": 0},
            {"id": "unknown", "after": 0},
            {"session": "default:websocket:nobody:main", "after": 0},
            {"session": "no key", "after": 0},
            {"session": SESSION, "after": -1},
            {"session": SESSION, "after": "1"},
        ]
        for params in wrong:
            with self.subTest(params):
                self.assertTrue(gateway.error("chat.attach", params))

    def test_a_session_and_an_id_must_fit_each_other(self) -> None:
        gateway = self.connect()
        gateway.chat("alice's words")
        request = gateway.start("bob's words", account="bob")
        gateway.turn(request)
        frame = gateway.next_of(gateway.ask("chat.attach", session=SESSION, id=request, after=0))
        self.assertIn("error", frame, "that run is another session's")

    def test_attaching_after_the_end_says_that_it_is_over(self) -> None:
        gateway = self.connect()
        last = gateway.chat("hi").frames[-1]["seq"]
        for number in (last, last + 1, 1_000_000):
            with self.subTest(after=number):
                frame = gateway.next_of(gateway.ask("chat.attach", session=SESSION, after=number))
                self.assertTrue("error" in frame or frame.get("event") == "done", frame)


class OrphanTest(StreamTestCase):
    def test_a_turn_nobody_comes_back_to_is_cancelled_and_settled(self) -> None:
        gateway = self.connect(Reply(Text("on and on"), Hold(self.held())), more='[gateway]\norphan_grace = "200ms"\n')
        gateway.until(gateway.start("talk"), "text")
        gateway.abort()
        # Half of what the grace is by default.
        self.assertTrue(self.model.requests[0].gone.wait(30), "the call goes on upstream")
        back = self.another()
        turn = back.turn(back.ask("chat.attach", session=SESSION, after=0))
        self.assertEqual((turn.text, turn.events[-1]), ("on and on", "done"))
        (row,) = back.result("usage.report")["items"]
        self.assertEqual((row["calls"], row["estimated_calls"]), (1, 1))
        self.assertEqual(back.result("budget.status")["daily"]["reserved"], 0)
        self.assertEqual(self.history(back), [])

    def test_a_turn_that_ends_within_the_grace_is_kept(self) -> None:
        release = self.held()
        gateway = self.connect(Reply(Text("a"), Hold(release), Text("b")))
        gateway.until(gateway.start("talk"), "text")
        gateway.abort()
        release.set()
        back = self.another()
        self.assertEqual(back.turn(back.ask("chat.attach", session=SESSION, after=0)).text, "ab")
        self.assertEqual(self.history(back), ["talk", "ab"])


if __name__ == "__main__":
    unittest.main()
