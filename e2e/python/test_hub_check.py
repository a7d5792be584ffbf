"""`patchboard hub check`: it stands in for a hub and tells an author what their client did wrong."""

from __future__ import annotations

import json
import subprocess
import tempfile
import unittest
from types import SimpleNamespace
from typing import Callable

from hub_client import App, exceptions
from patchboard_server import binary

DESCRIPTION = "Keeps notes and shopping lists, and finds them again when they are asked for."


class CheckTest(unittest.TestCase):
    def check(self, client: Callable[[App], None]) -> tuple[int, list[dict]]:
        """Lets a client run against the check; gives the exit code and what was said of each frame."""
        folder = tempfile.TemporaryDirectory(prefix="patchboard-e2e-")
        self.addCleanup(folder.cleanup)
        command = [binary(), "hub", "check", "ws://127.0.0.1:0", "--once", "--timeout", "30", "--json"]
        with subprocess.Popen(
            [*command, "--data-dir", folder.name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            self.addCleanup(process.kill)
            address = json.loads(process.stdout.readline())["listening"].removeprefix("ws://").rstrip("/")
            with App(SimpleNamespace(address=lambda _: address)) as app:
                try:
                    client(app)
                except exceptions.ConnectionClosed:
                    pass  # That is how it ends when all went well.
            lines = [json.loads(line) for line in process.stdout]
            code = process.wait(60)
        self.assertEqual(lines[-1]["conforms"], code == 0)
        return code, lines[:-1]

    def assert_wrong(self, client: Callable[[App], None], *words: str) -> None:
        code, verdicts = self.check(client)
        wrong = [one for one in verdicts if one["verdict"] == "wrong"]
        self.assertNotEqual(code, 0)
        for word in words:
            self.assertIn(word, json.dumps(wrong))
        for one in wrong:
            self.assertTrue(one["rule"] and one["mend"], "a fault comes with its rule and what to do")

    def test_a_good_client_conforms(self) -> None:
        def good(app: App) -> None:
            self.assertIs(app.register("notebook", DESCRIPTION, version="1.0.0")["success"], True)
            while True:
                message = app.next_message()
                app.ack(message)
                app.notify(message, body="Saved.", priority="normal")

        code, verdicts = self.check(good)
        self.assertEqual([one for one in verdicts if one["verdict"] == "wrong"], [])
        self.assertEqual(code, 0)

    def test_a_bad_name_is_named(self) -> None:
        self.assert_wrong(lambda app: app.register("no good", DESCRIPTION), "no good", "INVALID_NAME")

    def test_a_missing_description_is_named(self) -> None:
        self.assert_wrong(lambda app: app.ask_in({"name": "notebook"}), "INVALID_DESCRIPTION")

    def test_a_response_before_the_registration_is_wrong(self) -> None:
        self.assert_wrong(lambda app: app.ack("msg-x"))

    def test_frames_that_are_no_json_are_wrong(self) -> None:
        def talks_xml(app: App) -> None:
            app.send_raw("<registration/>")

        self.assert_wrong(talks_xml, "JSON")

    def test_an_unknown_response_is_wrong(self) -> None:
        def unsure(app: App) -> None:
            app.register("notebook", DESCRIPTION)
            app.respond(app.next_message(), "maybe", {})

        self.assert_wrong(unsure, "maybe")

    def test_an_answer_to_another_message_is_wrong(self) -> None:
        def confused(app: App) -> None:
            app.register("notebook", DESCRIPTION)
            app.next_message()
            app.ack("msg-00000000-0000-4000-8000-000000000000")

        self.assert_wrong(confused, "msg-00000000")

    def test_addresses_that_are_none(self) -> None:
        for url in ("http://127.0.0.1:0", "ws://", "ws://192.0.2.1:1", "nonsense"):
            with self.subTest(url):
                done = subprocess.run(
                    [binary(), "hub", "check", url, "--once", "--timeout", "1"],
                    capture_output=True,
                    text=True,
                    timeout=60,
                )
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("error", done.stderr)


if __name__ == "__main__":
    unittest.main()
