"""The hub on the command line: say something, see where it went, and set it right."""

from __future__ import annotations

import subprocess
import unittest
from datetime import datetime, timedelta

from gateway_client import eventually
from hub_case import MUSIC, NONSENSE, NOTEBOOK, HubTestCase
from patchboard_server import binary
from terminal import Terminal


class CliTestCase(HubTestCase):
    def setUp(self) -> None:
        self.serve()

    def hub(self, *arguments: str, **options) -> str:
        return self.command("hub", *arguments, **options).stdout


class SendTest(CliTestCase):
    def test_it_is_sent_and_the_answer_names_it(self) -> None:
        notebook = self.app("notebook")
        told = self.hub("send", "notebook: buy milk")
        message = notebook.next_message()
        self.assertEqual((message.text, message.metadata["inputMethod"]), ("buy milk", "text"))
        self.assertIn(message.id, told)

    def test_spoken_with_its_confidence(self) -> None:
        notebook = self.app("notebook")
        self.hub("send", "notebook: buy milk", "--voice", "--confidence", "0.85")
        message = notebook.next_message()
        self.assertEqual((message.metadata["inputMethod"], message.metadata["confidence"]), ("voice", 0.85))
        self.hub("send", "--voice", "notebook: buy bread")
        self.assertEqual(notebook.next_message().metadata["inputMethod"], "voice")

    def test_waiting_it_tells_every_response(self) -> None:
        self.serve("reroute_direct = true\n")
        notebook, jukebox = self.app("notebook"), self.app("jukebox", MUSIC)
        told = self.in_background(lambda: self.hub("send", "notebook: play songs of my playlist", "--wait"))
        message = notebook.next_message()
        notebook.reject(message, "I cannot sing")
        jukebox.ack(jukebox.next_message())
        text = told.result(timeout=60)
        for part in (message.id, "notebook", "I cannot sing", "jukebox"):
            self.assertIn(part, text)

    def test_waiting_it_tells_notifications_before_the_end(self) -> None:
        notebook = self.app("notebook")
        told = self.in_background(lambda: self.hub("send", "notebook: x", "--wait"))
        message = notebook.next_message()
        notebook.notify(message, title="Saved", body="It is in the diary.")
        eventually(lambda: self.message(message.id)["notifications"], "the notification is stored")
        notebook.ack(message)
        self.assertIn("It is in the diary.", told.result(timeout=60))

    def test_without_an_app_it_says_that_it_waits(self) -> None:
        told = self.hub("send", "notebook: buy milk")
        (item,) = self.page()["items"]
        self.assertIn(item["id"], told)
        self.assertIn(item["state"], told)

    def test_refused_it_fails_when_waited_for_and_says_what_to_type(self) -> None:
        notebook = self.app("notebook")
        told = self.in_background(lambda: self.command("hub", "send", "notebook: x", "--wait", code=1))
        message = notebook.next_message()
        notebook.reject(message, "I would rather not")
        done = told.result(timeout=60)
        self.assertIn("I would rather not", done.stdout)
        self.assertEqual(done.stdout.splitlines()[-1], f"next: patchboard hub route {message.id} APP")

    def test_held_it_says_what_to_type_and_that_works(self) -> None:
        notebook, _ = self.app("notebook"), self.app("jukebox", MUSIC)
        told = self.hub("send", NONSENSE, "--wait")
        (item,) = self.page()["items"]
        (step,) = [line for line in told.splitlines() if line.startswith("next: ")]
        self.assertTrue(step.startswith(f"next: patchboard hub route {item['id']} "), told)
        self.assertIn(step, self.hub("show", item["id"]).splitlines())
        self.assertIn(step, self.hub("messages").splitlines())
        self.hub(*step.removeprefix("next: patchboard hub ").split()[:-1], "notebook")
        self.assertEqual(notebook.next_message().id, item["id"])
        self.assertNotIn("next: ", self.hub("show", item["id"]))

    def test_seconds_to_wait_are_also_for_what_an_app_tells_later(self) -> None:
        notebook = self.app("notebook")
        told = self.in_background(lambda: self.hub("send", "notebook: x", "--wait", "60"))
        message = notebook.next_message()
        notebook.ack(message)
        self.settled(message.id, "delivered")
        notebook.notify(message, body="It took a while.")
        self.assertIn("It took a while.", told.result(timeout=60))

    def test_a_slip_in_a_name_is_pointed_out(self) -> None:
        # The matcher understands slips; where something else decides, they are only pointed out.
        self.serve(more='[[hub.rules]]\nwhen = ["*: grobnik"]\napp = "notebook"\n')
        self.app("notebook")
        said = self.say(NONSENSE)
        self.settled(said["id"], "held")
        for arguments in (("route", said["id"], "notebok"), ("forget", "notebok")):
            with self.subTest(arguments):
                done = self.command("hub", *arguments, code=1)
                self.assertIn("no app is called `notebok`", done.stderr)
                self.assertIn("did you mean `notebook`?", done.stderr)
        self.app("agenda", MUSIC)
        done = self.command("hub", "send", "agneda: grobnik")
        self.assertIn("to notebook (by rule)", done.stdout)
        self.assertIn("did you mean `agenda`?", done.stderr)
        self.assertNotIn("did you mean", self.command("hub", "send", "notebook: buy milk").stderr)
        unknown = self.command("hub", "route", said["id"], "telescope", code=1).stderr
        self.assertIn("hub clients --all", unknown)
        missing = self.command("hub", "route", "msg-00000000-0000-4000-8000-000000000000", "notebok", code=1).stderr
        self.assertIn("hub messages", missing)

    def test_wrong_command_lines(self) -> None:
        for arguments in (
            ("send",),
            ("send", ""),
            ("send", "   "),
            ("send", "x", "--confidence", "2", "--voice"),
            ("send", "x", "--confidence", "much", "--voice"),
            ("send", "x", "--bogus"),
            ("messages", "--state", "nonsense"),
            ("route", "msg-x"),
            ("resend",),
            (),
        ):
            with self.subTest(arguments):
                done = self.command("hub", *arguments, code=None)
                self.assertNotEqual(done.returncode, 0)
                self.assertEqual(done.stdout, "")
        self.assertEqual(self.page()["items"], [])

    def test_without_a_server_it_says_so_with_a_hint(self) -> None:
        self.server.terminate()
        for arguments in (("send", "x"), ("clients",), ("messages",), ("resend", "msg-x"), ("route", "msg-x", "y")):
            with self.subTest(arguments):
                done = self.command("hub", *arguments, code=None)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("hint", done.stderr)


class LookTest(CliTestCase):
    def test_clients_are_listed_while_they_are_there(self) -> None:
        self.assertNotIn("notebook", self.hub("clients"))
        notebook = self.app("notebook", NOTEBOOK, version="3.2.1")
        self.app("jukebox", MUSIC)
        listed = self.hub("clients")
        for part in ("notebook", "jukebox"):
            self.assertIn(part, listed.split())
        self.leave(notebook)
        listed = self.hub("clients")
        self.assertNotIn("notebook", listed.split())
        self.assertIn("jukebox", listed.split())

    def test_a_connection_that_did_not_register_is_no_client(self) -> None:
        app = self.app()
        self.assertIs(app.register("no good", NOTEBOOK)["success"], False)
        self.assertNotIn("good", self.hub("clients"))

    def test_messages_are_listed_with_ids_texts_and_states(self) -> None:
        notebook = self.app("notebook")
        delivered = self.delivered(notebook, "notebook: remember the milk")
        held = self.say(NONSENSE)["id"]
        self.settled(held, "held")
        listed = self.hub("messages")
        for part in (delivered.id, "remember the milk", "delivered", held, NONSENSE, "held"):
            self.assertIn(part, listed)
        only = self.hub("messages", "--state", "held")
        self.assertIn(held, only)
        self.assertNotIn(delivered.id, only)
        self.assertNotIn("msg-", self.hub("messages", "--state", "cancelled"))

    def test_lists_fit_a_terminal_and_show_local_times(self) -> None:
        self.serve(env={"TZ": "XYZ-5"})
        notebook = self.app("notebook", NOTEBOOK * 5, version="3.2.1", capabilities=["lists"] * 20)
        message = self.delivered(notebook, "notebook: " + "remember the milk " * 20)
        self.settled(self.say(NONSENSE)["id"], "held")
        messages, clients = self.at_terminal("messages"), self.at_terminal("clients")
        for line in (messages + clients).splitlines():
            self.assertLessEqual(len(line), 80, line)
        said = datetime.fromisoformat(self.message(message.id)["submitted_at"]) + timedelta(hours=5)
        for listed in (messages, self.hub("messages")):
            self.assertIn(said.strftime("%Y-%m-%d %H:%M"), listed)
        self.assertIn(said.strftime("%Y-%m-%d %H:%M:%S"), self.hub("show", message.id))
        # Where nobody looks, nothing is cut.
        self.assertIn("remember the milk " * 19 + "remember the milk", self.hub("messages"))

    def at_terminal(self, *arguments: str) -> str:
        """What a terminal of 80 columns shows."""
        env = {**self.server.environment(), "HOME": str(self.server.folder / "home")}
        command = [binary(), "hub", *arguments, "--data-dir", str(self.server.data_dir)]
        terminal = Terminal(command, env, self.server.folder, columns=80)
        self.addCleanup(terminal.close)
        self.assertEqual(terminal.wait_for_end(), 0, terminal.text)
        return terminal.text

    def test_texts_of_others_cannot_play_with_the_terminal(self) -> None:
        self.app("evil", "\x1b[2J\x1b]0;owned\x07 gone\nfake line")
        self.say("\x1b[31mred\x1b[0m\nmsg-fake held fake")
        for output in (self.hub("clients"), self.hub("messages")):
            self.assertNotIn("\x1b", output)
            self.assertNotIn("\x07", output)
            self.assertNotIn("\nfake", output)
            self.assertNotIn("\nmsg-fake", output)

    def test_every_command_has_help(self) -> None:
        for command in ("send", "clients", "messages", "resend", "route", "check"):
            with self.subTest(command):
                done = subprocess.run(
                    [binary(), "hub", command, "--help"], capture_output=True, text=True, timeout=60, check=True
                )
                self.assertIn("Usage:", done.stdout)


if __name__ == "__main__":
    unittest.main()
