"""SIGKILL at many moments of a chat. After the restart the history has every turn whose `done` was received and no
half turn, usage and budgets add up, and an interrupted stream can be attached to: what was seen, and then either the
rest of the turn, if nothing of the answer that was cut off had been told, or `error` and `done`.
"""

from __future__ import annotations

import threading
import unittest
from collections import deque
from dataclasses import dataclass, field

from gateway_client import CHANNEL, Gateway, eventually
from patchboard_server import ServerTestCase
from stub_model import Call, Hold, Reply, StubModel, Text, echo

ASK = '[tools.approval]\nread = "ask"\n'
BUDGETS = "[budgets]\nsession = 10000000\ndaily = 10000000\n"


@dataclass
class Chat:
    """One `chat.send` as its client saw it until the server died."""

    account: str
    content: str
    request: str
    # What the model says in full, if it ever comes to its end.
    answer: str
    frames: list[dict] = field(default_factory=list)

    @property
    def session(self) -> str:
        return f"default:{CHANNEL}:{self.account}:main"

    @property
    def text(self) -> str:
        return "".join(frame["data"] for frame in self.frames if frame["event"] == "text")

    @property
    def resumed(self) -> str:
        """The whole answer if the next server goes on with the turn: its model call is answered with an echo."""
        calls = [number for number, frame in enumerate(self.frames) if frame["event"] == "tool_use"]
        told = self.frames[: calls[-1]] if calls else []
        return "".join(frame["data"] for frame in told if frame["event"] == "text") + f"echo: {self.content}"

    @property
    def is_done(self) -> bool:
        return bool(self.frames) and self.frames[-1]["event"] == "done"

    @property
    def usage(self) -> list[dict]:
        return [frame["data"] for frame in self.frames if frame["event"] == "usage"]


class Scene:
    """A server, its model and a client that writes down what it sees."""

    def __init__(self, test: KillTestCase) -> None:
        self.script: deque[Reply] = deque()
        self.model = StubModel(fallback=lambda request: self.script.popleft() if self.script else echo(request))
        test.addCleanup(self.model.close)
        self.server = test.start_server(config=self.model.provider_config("openai") + ASK + BUDGETS)
        self.gateway = Gateway(self.server)
        self.chats: list[Chat] = []
        self.never = threading.Event()
        test.addCleanup(self.never.set)

    def begin(self, content: str, *behaviours: Reply, account: str = "alice") -> Chat:
        self.script.extend(behaviours)
        said = [step.text for reply in behaviours for step in reply.steps if isinstance(step, Text)]
        answer = "".join(said) if behaviours else f"echo: {content}"
        chat = Chat(account, content, self.gateway.start(content, account=account), answer)
        self.chats.append(chat)
        return chat

    def see(self, chat: Chat, event: str, times: int = 1) -> Chat:
        """Reads on until so many frames of this kind have come."""
        for _ in range(times):
            while True:
                chat.frames.append(self.gateway.next_of(chat.request))
                if chat.frames[-1].get("event") == event:
                    break
        return chat

    def whole(self, content: str, *behaviours: Reply, account: str = "alice") -> Chat:
        return self.see(self.begin(content, *behaviours, account=account), "done")

    def hold(self) -> Hold:
        return Hold(self.never)


class KillTestCase(ServerTestCase):
    def check(self, drive) -> None:
        """Plays the scene, kills the server where it ends, and looks at what the next one knows."""
        scene = Scene(self)
        scene.whole("before", Reply(Text("all "), Text("well"), input_tokens=100, output_tokens=20))
        drive(scene)
        scene.server.kill()
        # The dead server's part of the script is of no use any more.
        scene.script.clear()
        with Gateway(scene.server.restart()) as gateway:
            self.settle(scene, gateway)
            self.check_history(scene, gateway)
            self.check_streams(scene, gateway)
            self.check_figures(scene, gateway)
            self.check_life_goes_on(scene, gateway)
        self.assertEqual(scene.server.terminate(), 0)

    def settle(self, scene: Scene, gateway: Gateway) -> None:
        """Waits for the turns that the new server goes on with, and allows the tools that they ask for."""
        for chat in scene.chats:
            request = gateway.ask("chat.attach", session=chat.session, id=chat.request, after=0)
            while True:
                frame = gateway.next_of(request)
                # Of another turn than the newest, or of one that was not stored, there is nothing to attach to.
                if "error" in frame or frame["event"] == "done":
                    break
                if frame["event"] == "approval":
                    self.allow(scene, frame["data"]["approval_id"])

    def allow(self, scene: Scene, approval: str) -> None:
        # The connection that might have answered is gone with the server.
        token = (scene.server.data_dir / "operator.token").read_text().strip()
        with Gateway(scene.server, additional_headers={"Authorization": f"Bearer {token}"}) as operator:
            eventually(lambda: operator.result("approval.list")["items"], "it waits again")
            operator.result("approval.answer", approval_id=approval, approve=True)

    def check_history(self, scene: Scene, gateway: Gateway) -> None:
        for account in {chat.account for chat in scene.chats}:
            mine = [chat for chat in scene.chats if chat.account == account]
            turns = self.turns(gateway, account)
            done = [(chat.content, chat.text) for chat in mine if chat.is_done]
            self.assertEqual([turn for turn in turns if turn in done], done, "a turn whose `done` was seen is lost")
            # A turn may have been stored whole just before its `done` could be seen; half a turn never is.
            for content, text in turns[len(done) :]:
                (chat,) = [one for one in mine if one.content == content and not one.is_done]
                self.assertIn(text, (chat.answer, chat.resumed), "half a turn")

    def turns(self, gateway: Gateway, account: str) -> list[tuple[str, str]]:
        """What was said, as pairs of question and answer."""
        items = gateway.result("chat.history", channel=CHANNEL, account=account)["items"]
        turns: dict[int, list[dict]] = {}
        for item in items:
            turns.setdefault(item["turn"], []).append(item)
        for turn in turns.values():
            roles = [item["role"] for item in turn]
            self.assertEqual((roles[0], roles[-1]), ("user", "assistant"), f"half a turn: {turn}")
            calls = [call["id"] for item in turn for call in item.get("tool_calls", [])]
            self.assertEqual(calls, [item["tool_use_id"] for item in turn if item["role"] == "tool"])
        return [
            (turn[0]["content"], "".join(item["content"] for item in turn if item["role"] == "assistant"))
            for turn in turns.values()
        ]

    def check_streams(self, scene: Scene, gateway: Gateway) -> None:
        newest = {chat.account: chat for chat in scene.chats if chat.frames}
        for chat in newest.values():
            turn = gateway.turn(gateway.ask("chat.attach", session=chat.session, id=chat.request, after=0))
            replayed = [(frame["seq"], frame["event"], frame.get("data")) for frame in turn.frames]
            seen = [(frame["seq"], frame["event"], frame.get("data")) for frame in chat.frames]
            self.assertEqual(replayed[: len(seen)], seen, "what a client has seen is not what is replayed")
            if chat.is_done:
                self.assertEqual(len(replayed), len(seen))
            elif (chat.content, turn.text) not in self.turns(gateway, chat.account):
                self.assertEqual(turn.events[-2:], ["error", "done"])

    def check_figures(self, scene: Scene, gateway: Gateway) -> None:
        rows = gateway.result("usage.report", group_by="session")["items"]
        for row in rows:
            chats = [chat for chat in scene.chats if chat.session == row["key"]]
            reported = [usage for chat in chats for usage in chat.usage]
            for figure in ("input_tokens", "output_tokens"):
                known = sum(usage[figure] for usage in reported)
                self.assertGreaterEqual(row[figure], known)
                if row["calls"] == len(reported) and row["estimated_calls"] == 0:
                    self.assertEqual(row[figure], known)
            unfinished = sum(not chat.is_done for chat in chats)
            self.assertLessEqual(row["estimated_calls"], unfinished)
            self.assertTrue(len(reported) <= row["calls"] <= len(reported) + 2 * unfinished, row)
            status = gateway.result("budget.status", session=row["key"])
            used = row["input_tokens"] + row["output_tokens"]
            self.assertEqual((status["session"]["used"], status["session"]["reserved"]), (used, 0))
        total = sum(row["input_tokens"] + row["output_tokens"] for row in rows)
        status = gateway.result("budget.status")
        for scope in ("daily", "monthly"):
            self.assertEqual((status[scope]["used"], status[scope]["reserved"]), (total, 0), scope)

    def check_life_goes_on(self, scene: Scene, gateway: Gateway) -> None:
        before = self.turns(gateway, "alice")
        self.assertEqual(gateway.chat("after").text, "echo: after")
        self.assertEqual(self.turns(gateway, "alice"), [*before, ("after", "echo: after")])
        self.assertEqual(scene.model.requests[-1].last_user_text, "after")
        self.assertEqual(gateway.result("approval.list")["items"], [])


class KillInAChatTest(KillTestCase):
    def test_idle(self) -> None:
        self.check(lambda scene: None)

    def test_right_after_the_request_was_sent(self) -> None:
        self.check(lambda scene: scene.begin("interrupted", Reply(scene.hold())))

    def test_before_the_first_token(self) -> None:
        def drive(scene: Scene) -> None:
            scene.begin("interrupted", Reply(scene.hold()))
            scene.model.wait_for_requests(2)

        self.check(drive)

    def test_in_mid_stream_after_any_number_of_tokens(self) -> None:
        for tokens in (1, 2, 3, 10, 150):
            with self.subTest(tokens=tokens):

                def drive(scene: Scene) -> None:
                    words = [Text(f"{n} ") for n in range(tokens)]
                    scene.see(scene.begin("interrupted", Reply(*words, scene.hold(), Text("never"))), "text")

                self.check(drive)

    def test_in_the_middle_of_a_burst(self) -> None:
        for seen in (1, 40, 299):
            with self.subTest(seen=seen):

                def drive(scene: Scene) -> None:
                    words = [Text(f"{n} ") for n in range(300)]
                    scene.see(
                        scene.begin("interrupted", Reply(*words, input_tokens=7, output_tokens=300)), "text", seen
                    )

                self.check(drive)

    def test_after_usage(self) -> None:
        self.check(lambda scene: scene.see(scene.begin("interrupted", Reply(Text("whole"))), "usage"))

    def test_right_after_done(self) -> None:
        self.check(lambda scene: scene.whole("finished", Reply(Text("the last words"))))

    def test_an_interrupted_call_is_settled_by_estimate(self) -> None:
        scene = Scene(self)
        scene.see(scene.begin("interrupted", Reply(Text("word " * 200), scene.hold())), "text")
        scene.server.kill()
        with Gateway(scene.server.restart()) as gateway:
            (row,) = gateway.result("usage.report")["items"]
            self.assertEqual((row["calls"], row["estimated_calls"]), (1, 1))
            self.assertTrue(row["input_tokens"] > 0 and row["output_tokens"] >= 100, row)


class KillInAToolCallTest(KillTestCase):
    def test_while_the_tool_waits_for_its_approval(self) -> None:
        def drive(scene: Scene) -> None:
            scene.see(scene.begin("interrupted", Reply(Text("hm"), Call("read", {"path": "x"}))), "approval")

        self.check(drive)

    def test_right_after_tool_use(self) -> None:
        def drive(scene: Scene) -> None:
            scene.see(scene.begin("interrupted", Reply(Call("ls", {})), Reply(scene.hold())), "tool_use")

        self.check(drive)

    def test_after_the_tool_s_result(self) -> None:
        def drive(scene: Scene) -> None:
            scene.see(scene.begin("interrupted", Reply(Call("ls", {})), Reply(scene.hold())), "tool_result")
            scene.model.wait_for_requests(3)

        self.check(drive)

    def test_in_the_second_call_s_stream(self) -> None:
        def drive(scene: Scene) -> None:
            replies = (Reply(Text("first "), Call("ls", {})), Reply(Text("second "), scene.hold()))
            chat = scene.see(scene.begin("interrupted", *replies), "tool_result")
            scene.see(chat, "text")

        self.check(drive)

    def test_right_after_the_done_of_a_turn_with_tools(self) -> None:
        self.check(lambda scene: scene.whole("finished", Reply(Text("a "), Call("ls", {})), Reply(Text("b"))))


class KillAmongOthersTest(KillTestCase):
    def test_while_another_request_waits_for_the_session(self) -> None:
        def drive(scene: Scene) -> None:
            scene.see(scene.begin("interrupted", Reply(Text("a"), scene.hold())), "text")
            scene.begin("still waiting")
            scene.gateway.result("ping")

        self.check(drive)

    def test_while_several_sessions_stream(self) -> None:
        def drive(scene: Scene) -> None:
            for account in ("alice", "bob", "carol"):
                scene.see(scene.begin("interrupted", Reply(Text("a"), scene.hold()), account=account), "text")

        self.check(drive)

    def test_in_a_hail_of_short_turns(self) -> None:
        for finished in (1, 5, 9):
            with self.subTest(finished=finished):

                def drive(scene: Scene) -> None:
                    chats = [scene.begin(f"turn {n}", account=f"a{n % 3}") for n in range(12)]
                    for chat in chats[:finished]:
                        scene.see(chat, "done")

                self.check(drive)

    def test_after_a_cancelled_turn(self) -> None:
        scene = Scene(self)
        chat = scene.see(scene.begin("cancelled", Reply(Text("a"), scene.hold())), "text")
        scene.gateway.result("chat.cancel", id=chat.request)
        scene.see(chat, "done")
        before = scene.gateway.result("usage.report")["items"]
        scene.server.kill()
        with Gateway(scene.server.restart()) as gateway:
            self.assertEqual(gateway.result("usage.report")["items"], before)
            self.assertEqual(self.turns(gateway, "alice"), [])

    def test_again_and_again_and_while_recovering(self) -> None:
        scene = Scene(self)
        scene.whole("kept", Reply(Text("well")))
        for round_ in range(3):
            scene.see(scene.begin(f"interrupted {round_}", Reply(Text("a"), scene.hold())), "text")
            scene.server.kill()
            scene.server.start()
            scene.server.kill()
            scene.gateway = Gateway(scene.server.restart())
            self.assertEqual(self.turns(scene.gateway, "alice"), [("kept", "well")])
            calls = scene.gateway.result("usage.report")["items"][0]
            self.assertEqual((calls["calls"], calls["estimated_calls"]), (2 + round_, 1 + round_))


if __name__ == "__main__":
    unittest.main()
