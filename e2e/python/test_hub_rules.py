"""What the operator decides beforehand: other names for apps, and rules for what belongs to whom."""

from __future__ import annotations

import unittest

from gateway_client import eventually
from hub_case import MUSIC, NONSENSE, NOTEBOOK, WEATHER, HubTestCase
from patchboard_server import NotReady

ALIASES = '[hub.aliases]\nnb = "notebook"\n"tunes" = "jukebox"\n'
RULES = '[[hub.rules]]\nwhen = ["play *", "*gnarp*"]\napp = "jukebox"\n'


class AliasTest(HubTestCase):
    def test_an_alias_addresses_its_app(self) -> None:
        self.serve(more=ALIASES)
        notebook, jukebox = self.app("notebook", NOTEBOOK), self.app("jukebox", MUSIC)
        for said, app, given in (
            ("nb: buy milk", notebook, "buy milk"),
            ("NB, buy milk", notebook, "buy milk"),
            ("tunes: louder", jukebox, "louder"),
        ):
            with self.subTest(said):
                self.assertEqual(self.delivered(app, said).text, given)

    def test_only_as_a_whole_word_at_the_start(self) -> None:
        self.serve(more=ALIASES)
        self.app("notebook", NOTEBOOK)
        for said in ("nbx: grobnik", " nb : grobnik", "grobnik nb: flarn"):
            with self.subTest(said):
                self.settled(self.say(said)["id"], "held")

    def test_an_app_of_that_very_name_comes_first(self) -> None:
        self.serve(more=ALIASES)
        self.app("notebook", NOTEBOOK)
        own = self.app("nb", "Something else.")
        self.delivered(own, "nb: who are you?")


class RuleTest(HubTestCase):
    def test_a_rule_decides_against_the_words(self) -> None:
        self.serve(more=RULES)
        jukebox = self.app("jukebox", MUSIC)
        meteo = self.app("meteo", WEATHER)
        text = "PLAY the weather forecast, will there be rain?"
        message = self.delivered(jukebox, text)
        self.assertEqual((message.text, message.is_direct), (text, False))
        self.assert_nothing_before(meteo, message.id)
        self.delivered(jukebox, "flooble the gnarp now")

    def test_what_no_rule_is_for_is_routed_as_usual(self) -> None:
        self.serve(more=RULES)
        self.app("jukebox", MUSIC)
        meteo = self.app("meteo", WEATHER)
        self.delivered(meteo, "what is the weather forecast, will there be rain?")
        self.settled(self.say(NONSENSE)["id"], "held")

    def test_a_prefix_and_a_question_come_before_rules(self) -> None:
        self.serve(more=RULES)
        self.app("jukebox", MUSIC)
        notebook = self.app("notebook", NOTEBOOK)
        message = self.delivered(notebook, "notebook: play chess")
        self.assertEqual(message.text, "play chess")
        notebook.notify(message, body="With whom?")
        eventually(lambda: self.message(message.id)["notifications"], "the question is stored")
        self.delivered(notebook, "play it with Anna")

    def test_it_waits_for_an_absent_app(self) -> None:
        self.serve(more=RULES)
        notebook = self.app("notebook", NOTEBOOK)
        said = self.say("play something")
        self.settled(said["id"], "queued", "held")
        self.assert_nothing_before(notebook, said["id"])
        jukebox = self.app("jukebox", MUSIC)
        self.assertEqual(jukebox.next_message().id, said["id"])

    def test_wrong_rules_are_start_errors(self) -> None:
        for more in (
            '[[hub.rules]]\nwhen = []\napp = "x"\n',
            '[[hub.rules]]\nwhen = ["a"]\n',
            '[[hub.rules]]\nwhen = ["a"]\napp = "not a name"\n',
            '[hub.aliases]\n"not a name" = "x"\n',
            '[hub.aliases]\nx = ""\n',
        ):
            with self.subTest(more), self.assertRaises(NotReady) as refused:
                self.serve(more=more)
            self.assertIn("hub.", str(refused.exception))


class WhyTest(HubTestCase):
    def test_it_tells_who_would_get_it_and_sends_nothing(self) -> None:
        self.serve(more=RULES)
        jukebox = self.app("jukebox", MUSIC)
        told = self.command("hub", "why", "play something").stdout
        self.assertIn("jukebox", told)
        self.assertIn("jukebox", self.command("hub", "why", "jukebox: louder").stdout)
        self.assertEqual(self.page()["items"], [])
        mark = self.say("jukebox: a mark")
        self.assertEqual(jukebox.next_message().id, mark["id"])


if __name__ == "__main__":
    unittest.main()
