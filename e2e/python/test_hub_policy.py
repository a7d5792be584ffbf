"""How sure the hub has to be is configured, and what is for no app is learned, kept and forgotten."""

from __future__ import annotations

import subprocess
import unittest

from hub_case import CALENDAR, COMMAND_TIMEOUT, MUSIC, NOTEBOOK, WEATHER, HubTestCase
from patchboard_server import binary

# From what an app says of itself to what is only somehow like it.
SENTENCES = (
    "play music by Miles Davis",
    "take a note about the boiler",
    "will there be rain tomorrow",
    "move the appointment with the dentist",
    "songs for a quiet evening",
    "is it going to be stormy",
    "keep in mind that Ada is allergic to nuts",
    "when do I see Paul",
    "something to dance to",
    "do I need an umbrella",
    "the meeting is off",
    "louder",
    "my idea for the garden",
    "sunny in Lisbon?",
    "who sings this",
    "what was on that list",
)
STRICTER_FIRST = ("careful", "balanced", "eager")


class PolicyTest(HubTestCase):
    def apps(self) -> None:
        for name, description in (
            ("notebook", NOTEBOOK),
            ("calendar", CALENDAR),
            ("music", MUSIC),
            ("weather", WEATHER),
        ):
            self.app(name, description)

    def route(self, text: str) -> dict:
        return self.request("POST", "/v1/route", {"text": text}).body

    def test_the_less_careful_the_more_is_delivered(self) -> None:
        delivered: dict[str, set[str]] = {}
        for policy in STRICTER_FIRST:
            self.serve(f'policy = "{policy}"\n')
            self.apps()
            delivered[policy] = {text for text in SENTENCES if self.route(text)["stage"] == "matcher"}
        careful, balanced, eager = (delivered[policy] for policy in STRICTER_FIRST)
        self.assertTrue(careful < balanced < eager, delivered)
        self.assertIn("play music by Miles Davis", careful)

    def test_another_word_is_refused_with_those_there_are(self) -> None:
        self.serve()
        wrong = self.server.folder / "wrong.toml"
        wrong.write_text('[hub]\npolicy = "bold"\n')
        command = [binary(), "config", "check", "--config", str(wrong)]
        done = subprocess.run(
            command, env=self.server.environment(), capture_output=True, text=True, timeout=COMMAND_TIMEOUT
        )
        self.assertEqual(done.returncode, 2, done.stderr)
        for word in ("hub.policy", *STRICTER_FIRST):
            self.assertIn(word, done.stdout + done.stderr)

    def test_what_is_given_up_is_for_no_app_until_it_is_forgotten(self) -> None:
        self.serve('policy = "eager"\n')
        self.apps()
        text = "songs for a quiet evening"

        def share() -> float:
            return next(one["confidence"] for one in self.route(text)["candidates"] if one["client"] == "music")

        before = share()
        self.assertGreater(before, 0.5)
        sent = self.say(text)
        self.request("POST", f"/v1/messages/{sent['id']}/cancel")
        self.assertLess(share(), 0.1)
        self.server.restart()
        self.apps()
        self.assertLess(share(), 0.1, "it outlives the server")
        self.assertIn("is forgotten", self.command("hub", "forget", "*").stdout)
        # What was learned of the app that had it is its own.
        self.command("hub", "forget", "music")
        self.assertEqual(share(), before)


if __name__ == "__main__":
    unittest.main()
