"""Apps as tools: in the registry, on the command line, and in the hands of an agent."""

from __future__ import annotations

import json
import unittest

from gateway_client import Gateway, eventually
from hub_case import MUSIC, NONSENSE, NOTEBOOK, HubTestCase
from hub_client import BEFORE_DEFAULTS, NEVER, TIMEOUT
from stub_model import Call, Reply, StubModel, Text

# Two minutes, in milliseconds: the most a call may wait.
LONGEST_CALL = 120_000
ALLOW = '\n[tools.approval]\n"*" = "allow"\n'


class ToolTestCase(HubTestCase):
    def setUp(self) -> None:
        self.model = StubModel()
        self.addCleanup(self.model.close)
        self.serve_tools(NEVER)

    def serve_tools(self, response_timeout: str) -> None:
        provider = self.model.provider_config("openai")
        self.serve(f'response_timeout = "{response_timeout}"\n', before=provider, more=ALLOW, gateway="127.0.0.1:0")

    def tools(self) -> list[str]:
        return self.command("tools", "list").stdout.split()

    def call(self, name: str, arguments: dict, code: int | None = 0):
        """Calls a tool on a thread of its own, as the app has to answer meanwhile."""
        return self.in_background(lambda: self.command("tools", "call", name, json.dumps(arguments), code=code))


class RegistryTest(ToolTestCase):
    def test_an_app_is_a_tool_while_it_is_there(self) -> None:
        self.assertIn("hub_send", self.tools())
        self.assertNotIn("app.notebook", self.tools())
        notebook = self.app("notebook", NOTEBOOK)
        eventually(lambda: "app.notebook" in self.tools(), "the app is a tool")
        shown = json.loads(self.command("tools", "show", "app.notebook").stdout)
        self.assertEqual(shown["name"], "app.notebook")
        self.assertIn(NOTEBOOK, json.dumps(shown, ensure_ascii=False))
        notebook.close()
        eventually(lambda: "app.notebook" not in self.tools(), "the app is gone, and the tool with it")

    def test_a_call_is_a_direct_delivery_and_gives_the_outcome(self) -> None:
        notebook = self.app("notebook")
        called = self.call("app.notebook", {"text": "jukebox: buy milk"})
        message = notebook.next_message()
        self.assertEqual(message.text, "jukebox: buy milk", "its text is no address")
        notebook.notify(message, title="Saved", body="In the list.")
        eventually(lambda: self.message(message.id)["notifications"], "the notification is stored")
        notebook.ack(message)
        done = called.result(timeout=TIMEOUT)
        outcome = json.loads(done.stdout)
        self.assertEqual((outcome["message_id"], outcome["state"]), (message.id, "delivered"))
        self.assertEqual([one["body"] for one in outcome["notifications"]], ["In the list."])

    def test_a_rejection_is_a_tool_error_and_goes_to_nobody_else(self) -> None:
        notebook, jukebox = self.app("notebook"), self.app("jukebox", MUSIC)
        called = self.call("app.notebook", {"text": "play some songs from my favourite playlist"}, code=None)
        message = notebook.next_message()
        notebook.reject(message, "I cannot sing")
        done = called.result(timeout=TIMEOUT)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("I cannot sing", done.stdout + done.stderr)
        self.assert_nothing_before(jukebox, message.id)

    def test_silence_is_a_tool_error(self) -> None:
        self.serve_tools("1s")
        self.app("notebook")
        # The call itself would wait for longer than this test does.
        arguments = {"text": "x", "wait_ms": LONGEST_CALL}
        done = self.call("app.notebook", arguments, code=None).result(timeout=BEFORE_DEFAULTS)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn("Response timeout", done.stdout + done.stderr)

    def test_a_call_waits_no_longer_than_told(self) -> None:
        notebook = self.app("notebook")
        patient = self.call("app.notebook", {"text": "the first", "wait_ms": LONGEST_CALL})
        first = notebook.next_message()
        done = self.call("app.notebook", {"text": "x", "wait_ms": 200}, code=None).result(timeout=TIMEOUT)
        self.assertIn(notebook.next_message().id, done.stdout + done.stderr)
        self.assertFalse(patient.done(), "the one that was called before waits still")
        notebook.ack(first)
        self.assertIn(first.id, patient.result(timeout=TIMEOUT).stdout)

    def test_bad_arguments_are_refused(self) -> None:
        self.app("notebook")
        for arguments in ({}, {"text": 5}, {"text": ""}, {"text": "x", "wait_ms": "a"}, {"text": "x", "wait_ms": -1}):
            with self.subTest(arguments):
                done = self.call("app.notebook", arguments, code=None).result(timeout=TIMEOUT)
                self.assertNotEqual(done.returncode, 0)
        self.assertEqual(self.page()["items"], [])

    def test_an_app_that_is_not_there_is_no_tool(self) -> None:
        done = self.call("app.nobody", {"text": "x"}, code=None).result(timeout=TIMEOUT)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("app.nobody", done.stderr)

    def test_sending_to_whoever_fits(self) -> None:
        jukebox = self.app("jukebox", MUSIC)
        self.app("notebook", NOTEBOOK)
        text = "play some songs from my favourite playlist"
        called = self.call("hub_send", {"text": text})
        message = jukebox.next_message()
        self.assertEqual((message.text, message.is_direct), (text, False))
        jukebox.ack(message)
        self.assertIn(message.id, called.result(timeout=TIMEOUT).stdout)

    def test_sending_what_fits_nobody_is_held_and_told(self) -> None:
        self.app("jukebox", MUSIC)
        done = self.call("hub_send", {"text": NONSENSE}).result(timeout=TIMEOUT)
        self.assertIn("held", done.stdout)


class AgentTest(ToolTestCase):
    def test_an_agent_calls_an_app(self) -> None:
        notebook = self.app("notebook", NOTEBOOK)
        eventually(lambda: "app.notebook" in self.tools(), "the app is a tool")
        self.model.script(Reply(Call("app__notebook", {"text": "buy milk"})), Reply(Text("It is noted.")))
        with Gateway(self.server) as gateway:
            request = gateway.start("please note that I need milk")
            message = notebook.next_message()
            self.assertEqual((message.text, message.metadata["inputMethod"]), ("buy milk", "text"))
            notebook.notify(message, body="On the list now.")
            eventually(lambda: self.message(message.id)["notifications"], "the notification is stored")
            notebook.ack(message)
            turn = gateway.turn(request)
        self.assertEqual((turn.text, turn.errors), ("It is noted.", []))
        (use,), (result,) = turn.data("tool_use"), turn.data("tool_result")
        self.assertEqual((use["name"], result["is_error"]), ("app.notebook", False))
        self.assertIn(message.id, str(result["content"]))
        self.assertIn("On the list now.", str(result["content"]))
        self.assertIn("app__notebook", self.model.requests[0].tool_names)

    def test_an_agent_sends_to_whoever_fits(self) -> None:
        jukebox = self.app("jukebox", MUSIC)
        self.app("notebook", NOTEBOOK)
        text = "play some songs from my favourite playlist"
        self.model.script(Reply(Call("hub_send", {"text": text})), Reply(Text("Enjoy.")))
        with Gateway(self.server) as gateway:
            request = gateway.start("music please")
            message = jukebox.next_message()
            self.assertEqual(message.text, text)
            jukebox.ack(message)
            turn = gateway.turn(request)
        (result,) = turn.data("tool_result")
        self.assertEqual((turn.text, result["is_error"]), ("Enjoy.", False))
        self.assertIn(message.id, str(result["content"]))

    def test_an_agent_is_told_of_a_rejection(self) -> None:
        notebook = self.app("notebook", NOTEBOOK)
        eventually(lambda: "app.notebook" in self.tools(), "the app is a tool")
        self.model.script(Reply(Call("app__notebook", {"text": "buy milk"})), Reply(Text("It would not.")))
        with Gateway(self.server) as gateway:
            request = gateway.start("please note that I need milk")
            notebook.reject(notebook.next_message(), "the book is full")
            turn = gateway.turn(request)
        (result,) = turn.data("tool_result")
        self.assertEqual((turn.text, result["is_error"]), ("It would not.", True))
        self.assertIn("the book is full", str(result["content"]))

    def test_an_app_that_comes_later_is_a_tool_of_the_next_turn(self) -> None:
        with Gateway(self.server) as gateway:
            gateway.chat("hello")
            self.assertNotIn("app__notebook", self.model.requests[-1].tool_names)
            notebook = self.app("notebook", NOTEBOOK)
            eventually(lambda: "app.notebook" in self.tools(), "the app is a tool")
            gateway.chat("hello again")
            self.assertIn("app__notebook", self.model.requests[-1].tool_names)
            notebook.close()
            eventually(lambda: "app.notebook" not in self.tools(), "the tool is gone")
            gateway.chat("and again")
            self.assertNotIn("app__notebook", self.model.requests[-1].tool_names)


if __name__ == "__main__":
    unittest.main()
