"""`chat.send` as the gateway document tells it: the order of its events, tools, and every way it can fail."""

from __future__ import annotations

import socket
import threading
import time
import unittest

from gateway_client import TIMEOUT, Gateway
from patchboard_server import ServerTestCase
from stub_model import Call, Cut, Failure, Hold, Reply, StreamError, StubModel, Text

KINDS = ("openai", "anthropic")
SESSION = "default:websocket:alice:main"
# How long the system delays the acknowledgement of what a client has received, at least: 40 ms, and a tick less.
DELAYED_ACKNOWLEDGEMENT = 0.03


class ChatTestCase(ServerTestCase):
    def stub(self, *behaviours) -> StubModel:
        model = StubModel(*behaviours)
        self.addCleanup(model.close)
        return model

    def connect(self, model: StubModel, kind: str = "openai", more: str = "", **options) -> Gateway:
        self.server = self.start_server(config=model.provider_config(kind) + more, **options)
        gateway = Gateway(self.server)
        self.addCleanup(gateway.close)
        return gateway

    def assert_done_was_the_last(self, gateway: Gateway, request: str) -> None:
        """Nothing for this request follows its `done`, not even when the connection is used again."""
        self.assertEqual(gateway.result("ping"), "pong")
        self.assertTrue(gateway.nothing_kept(request))


class StreamTest(ChatTestCase):
    def test_text_then_usage_then_done_with_the_request_s_id_and_in_both_dialects(self) -> None:
        for kind in KINDS:
            with self.subTest(kind):
                model = self.stub(Reply(Text("Hel"), Text("lo "), Text("wörld"), input_tokens=150, output_tokens=42))
                gateway = self.connect(model, kind)
                gateway.send(
                    {"id": 41, "method": "chat.send", "params": {"channel": "c", "account": "a", "content": "hi"}}
                )
                turn = gateway.turn("41")
                self.assertEqual(turn.outline, ["text", "usage", "done"])
                self.assertEqual(turn.text, "Hello wörld")
                self.assertEqual(turn.data("usage"), [{"input_tokens": 150, "output_tokens": 42}])
                self.assertNotIn("data", turn.frames[-1])
                self.assertTrue({*turn.frames[0]} <= {"id", "event", "data", "seq"}, turn.frames[0])
                self.assert_done_was_the_last(gateway, "41")

    def test_frames_are_not_held_back_to_be_sent_together(self) -> None:
        # Without TCP_NODELAY the second frame waits for the client's acknowledgement of the first, so that no turn is
        # over sooner than the system sends it. With TCP_NODELAY many are, if only now and then on a busy machine.
        model = self.stub()
        self.connect(model)
        # A ping of the client would take an acknowledgement along.
        gateway = Gateway(self.server, ping_interval=None)
        self.addCleanup(gateway.close)
        took: list[float] = []
        deadline = time.monotonic() + TIMEOUT
        while sum(one < DELAYED_ACKNOWLEDGEMENT for one in took) < 5:
            self.assertLess(time.monotonic(), deadline, f"turns are not over before an acknowledgement: {took}")
            release = threading.Event()
            self.addCleanup(release.set)
            model.script(Reply(Text("first"), Hold(release), Text("second")))
            # The system may acknowledge at once for a while; it must be told anew each time.
            gateway.socket.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
            started = time.monotonic()
            request = gateway.start("hi")
            self.assertEqual(gateway.next_of(request)["data"], "first")
            # Two writes of the server: the second piece does not exist before the first was received.
            release.set()
            self.assertEqual(gateway.turn(request).text, "second")
            took.append(time.monotonic() - started)

    def test_an_answer_without_text_is_usage_and_done(self) -> None:
        for kind in KINDS:
            with self.subTest(kind):
                self.assertEqual(self.connect(self.stub(Reply()), kind).chat("hi").events, ["usage", "done"])

    def test_empty_content_goes_to_the_model(self) -> None:
        model = self.stub(Reply(Text("you said nothing")))
        self.assertEqual(self.connect(model).chat("").text, "you said nothing")

    def test_the_user_s_text_reaches_the_model_unchanged_as_the_last_user_message(self) -> None:
        content = '  İİ my name is x\r\n\ttabs \u2028 \U0001f600 e\u0301 </facts> \x00 "quotes" \\n  '
        for kind in KINDS:
            with self.subTest(kind):
                model = self.stub()
                gateway = self.connect(model, kind)
                gateway.chat("before")
                self.assertEqual(gateway.chat(content).events[-1], "done")
                self.assertEqual(model.requests[-1].last_user_text, content)
                self.assertEqual(model.requests[-1].messages[-1]["role"], "user")
                spoken = [one["content"] for one in gateway.result("chat.history", session=SESSION)["items"]]
                self.assertEqual(spoken[2], content)

    def test_a_turn_makes_no_model_call_beyond_its_own(self) -> None:
        model = self.stub()
        gateway = self.connect(model)
        gateway.chat("my name is Ada and I live in Paris")
        gateway.chat("what is my name?")
        self.assertEqual(gateway.result("ping"), "pong")
        self.assertEqual(len(model.requests), 2)


class ToolTest(ChatTestCase):
    def test_a_tool_round_has_the_document_s_order_of_events(self) -> None:
        for kind in KINDS:
            with self.subTest(kind):
                model = self.stub(
                    Reply(
                        Text("let me "),
                        Text("look"),
                        Call("read", {"path": "note.txt"}),
                        input_tokens=20,
                        output_tokens=6,
                    ),
                    Reply(Text("it says hi"), input_tokens=40, output_tokens=3),
                )
                gateway = self.connect(model, kind)
                (self.server.folder / "note.txt").write_text("hi from the file\n")
                request = gateway.start("read my note")
                turn = gateway.turn(request)
                order = ["text", "tool_use", "usage", "tool_result", "text", "usage", "done"]
                self.assertEqual(turn.outline, order)
                use, outcome = turn.data("tool_use")[0], turn.data("tool_result")[0]
                self.assertEqual((use["name"], use["input"]), ("read", {"path": "note.txt"}))
                self.assertEqual((outcome["tool_use_id"], outcome["is_error"]), (use["id"], False))
                self.assertIn("hi from the file", outcome["content"])
                self.assertEqual(turn.data("usage")[1], {"input_tokens": 40, "output_tokens": 3})
                self.assert_done_was_the_last(gateway, request)

    def test_tool_call_ids_are_the_server_s_own_and_unique(self) -> None:
        again = Reply(Call("ls", {}, id="same"))
        model = self.stub(again, again, Reply(Text("done")))
        uses = self.connect(model).chat("go").data("tool_use")
        self.assertEqual(len({use["id"] for use in uses}), 2)

    def test_an_unknown_tool_is_a_failed_result_and_the_loop_goes_on(self) -> None:
        model = self.stub(Reply(Call("no_such_tool", {"a": 1})), Reply(Text("sorry")))
        turn = self.connect(model).chat("go")
        self.assertEqual(turn.data("tool_result")[0]["is_error"], True)
        self.assertIn("no_such_tool", turn.data("tool_result")[0]["content"])
        self.assertEqual((turn.text, turn.errors, turn.events[-1]), ("sorry", [], "done"))

    def test_arguments_that_are_not_json_are_a_failed_result_and_the_loop_goes_on(self) -> None:
        for kind in KINDS:
            for arguments in ('{"path": ', "not json", "[1]", '"text"'):
                with self.subTest(kind=kind, arguments=arguments):
                    model = self.stub(Reply(Call("read", arguments)), Reply(Text("sorry")))
                    turn = self.connect(model, kind).chat("go")
                    self.assertEqual([one["is_error"] for one in turn.data("tool_result")], [True])
                    self.assertEqual((turn.text, turn.errors, turn.events[-1]), ("sorry", [], "done"))

    def test_wrong_arguments_are_a_failed_result_and_the_loop_goes_on(self) -> None:
        for arguments in ({}, {"path": 5}, {"path": "absent.txt"}, {"path": "x", "surprise": 1}):
            with self.subTest(arguments):
                model = self.stub(Reply(Call("read", arguments)), Reply(Text("sorry")))
                turn = self.connect(model).chat("go")
                self.assertEqual([one["is_error"] for one in turn.data("tool_result")], [True])
                self.assertEqual(turn.text, "sorry")

    def test_files_outside_the_working_folder_and_in_the_data_directory_are_refused(self) -> None:
        model = self.stub()
        gateway = self.connect(model)
        (self.server.folder / "out").symlink_to("/etc")
        (self.server.folder / "key").symlink_to(self.server.data_dir / "operator.token")
        paths = [
            "/etc/passwd",
            "../../../../etc/passwd",
            "out/passwd",
            "data/operator.token",
            "key",
            "./data/../data/lock",
        ]
        for path in paths:
            for tool in ("read", "ls"):
                with self.subTest(path=path, tool=tool):
                    model.script(Reply(Call(tool, {"path": path})), Reply(Text("no")))
                    outcome = gateway.chat("go").data("tool_result")[0]
                    self.assertEqual(outcome["is_error"], True, outcome)
                    self.assertNotIn("root:", outcome["content"])

    def test_a_model_that_never_stops_calling_tools_is_stopped(self) -> None:
        model = self.stub()
        model.fallback = lambda request: Reply(Call("ls", {}))
        gateway = self.connect(model)
        turn = gateway.chat("go")
        self.assertEqual(turn.events[-2:], ["error", "done"])
        self.assertEqual(len(model.requests), 10)
        self.assertEqual(gateway.result("chat.history", session=SESSION)["items"], [])


class RefusalTest(ChatTestCase):
    def test_a_refused_budget_is_a_plain_error_in_the_document_s_words(self) -> None:
        for scope in ("session", "daily", "monthly"):
            with self.subTest(scope):
                model = self.stub(Reply(Text("once"), input_tokens=6000, output_tokens=3500))
                gateway = self.connect(model, more=f"max_tokens = 100\n[budgets]\n{scope} = 10000\n")
                gateway.chat("the first is let through")
                # 9500 of 10000 are used; this alone is longer than what is left.
                error = gateway.error("chat.send", channel="websocket", account="alice", content="word " * 1000)
                self.assertTrue(error.startswith(f"token budget exceeded ({scope}: 9500/10000): "), error)
                self.assertRegex(error, rf"needs about \d{{4}} tokens and 500 are left; raise `budgets\.{scope}` or ")
                self.assertEqual(len(model.requests), 1)

    def test_a_missing_key_is_a_plain_error_that_names_the_variable(self) -> None:
        server = self.start_server(config='[providers.main]\nkind = "anthropic"\n')
        with Gateway(server) as gateway:
            error = gateway.error("chat.send", channel="websocket", account="alice", content="hi")
            self.assertTrue(error.startswith("provider error: no API key for provider"), error)
            self.assertIn("ANTHROPIC_API_KEY", error)

    def test_a_refused_chat_leaves_no_session_behind(self) -> None:
        gateway = self.connect(self.stub(), more="[budgets]\nsession = 1\n")
        self.assertIn(
            "token budget exceeded (session: 0/1)", gateway.error("chat.send", channel="c", account="a", content="hi")
        )
        self.assertEqual(gateway.result("session.list")["items"], [])


class ProviderTroubleTest(ChatTestCase):
    def test_an_unreachable_provider_is_an_error_then_done_when_the_retries_are_over(self) -> None:
        with socket.socket() as taken:
            # Bound but not listening: connecting is refused, and nobody else can take the port.
            taken.bind(("127.0.0.1", 0))
            config = f'[providers.main]\nkind = "openai"\nbase_url = "http://127.0.0.1:{taken.getsockname()[1]}/v1"\n'
            # No other limit ends the turn within the life of this test.
            limits = 'model = "m"\n[agents.default]\nrun_timeout = "1h"\n'
            server = self.start_server(config=config + limits)
            with Gateway(server) as gateway:
                turn = gateway.chat("hi")
                self.assertEqual(turn.events, ["error", "done"])
                self.assertTrue(turn.errors[0].startswith("provider error: "), turn.errors)
                self.assertIn("refused", turn.errors[0])

    def test_no_words_of_the_provider_s_error_reach_the_client_or_the_log(self) -> None:
        for kind in KINDS:
            # A status of 500 is tried again for a while, so that one dialect must do for it.
            for status in (400, 401, 403, 404, *([500] if kind == "openai" else [])):
                with self.subTest(kind=kind, status=status):
                    model = self.stub()
                    model.fallback = lambda request: Failure(status, "upstream-canary sk-secret")
                    gateway = self.connect(model, kind)
                    turn = gateway.chat("hi")
                    self.assertEqual(turn.events, ["error", "done"])
                    self.assertTrue(turn.errors[0].startswith("provider error: "), turn.errors)
                    self.assertNotIn("canary", turn.errors[0] + self.server.log())
                    self.assertNotIn("stub-key", turn.errors[0] + self.server.log())

    def test_trouble_in_mid_stream_is_an_error_then_done_after_the_text_so_far(self) -> None:
        troubles = {
            "error event": StreamError("upstream-canary"),
            "cut": Cut(),
        }
        for kind in KINDS:
            for name, trouble in troubles.items():
                with self.subTest(kind=kind, trouble=name):
                    model = self.stub(Reply(Text("so far"), trouble))
                    gateway = self.connect(model, kind)
                    turn = gateway.chat("hi")
                    self.assertEqual(turn.text, "so far")
                    self.assertEqual([event for event in turn.events if event != "usage"], ["text", "error", "done"])
                    self.assertTrue(turn.errors[0].startswith("provider error: "), turn.errors)
                    self.assertNotIn("canary", turn.errors[0])
                    self.assertEqual(len(model.requests), 1, "after the first token nothing is tried again")

    def test_a_failed_turn_is_not_history_and_the_session_goes_on(self) -> None:
        model = self.stub(Reply(Text("fine")), Reply(Text("half"), Cut()), Reply(Text("fine again")))
        gateway = self.connect(model)
        gateway.chat("one")
        self.assertEqual(gateway.chat("two").events[-2:], ["error", "done"])
        self.assertEqual(gateway.chat("three").text, "fine again")
        spoken = [one["content"] for one in gateway.result("chat.history", session=SESSION)["items"]]
        self.assertEqual(spoken, ["one", "fine", "three", "fine again"])
        asked = [one["content"] for one in model.requests[-1].messages if one["role"] != "system"]
        self.assertEqual(asked, ["one", "fine", "three"])

    def test_a_client_that_goes_away_does_not_stop_the_others(self) -> None:
        release = threading.Event()
        model = self.stub(Reply(Text("first"), Hold(release), Text("rest")))
        gateway = self.connect(model)
        leaving = Gateway(self.server)
        leaving.until(leaving.start("hi", account="leaver"), "text")
        leaving.abort()
        self.assertEqual(gateway.chat("hi").events[-1], "done")
        release.set()


if __name__ == "__main__":
    unittest.main()
