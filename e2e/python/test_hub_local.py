"""Routing without a model: by what apps say of themselves, by what was learned, and what is held or caught."""

from __future__ import annotations

import unittest

from gateway_client import eventually
from hub_case import CALENDAR, MUSIC, NONSENSE, NOTEBOOK, WEATHER, HubTestCase
from hub_client import App

CLEAR = {
    "write it on my shopping list and keep the note": "notebook",
    "add a meeting to my calendar": "agenda",
    "play some songs from my favourite playlist": "jukebox",
    "what is the weather forecast, will there be rain?": "meteo",
}


class LocalTestCase(HubTestCase):
    def four(self, hub: str = "", **options) -> dict[str, App]:
        self.serve(hub, **options)
        self.apps = {
            "notebook": self.app("notebook", NOTEBOOK),
            "agenda": self.app("agenda", CALENDAR),
            "jukebox": self.app("jukebox", MUSIC),
            "meteo": self.app("meteo", WEATHER),
        }
        return self.apps

    def tried(self, identity: str) -> list[str]:
        return [attempt["client"] for attempt in self.message(identity)["attempts"]]

    def correct(self, text: str, name: str) -> None:
        """The user says something, and shows where it belongs when it is not brought there."""
        said = self.say(text)
        self.settled(said["id"], "held", "sent")
        if self.state(said["id"]) == "held":
            self.command("hub", "route", said["id"], name)
        message = self.apps[name].next_message()
        self.assertEqual(message.id, said["id"])
        self.apps[name].ack(message)
        self.settled(said["id"], "delivered")


class MatchTest(LocalTestCase):
    def test_clear_words_find_their_app(self) -> None:
        apps = self.four()
        for text, name in CLEAR.items():
            with self.subTest(text):
                said = self.say(text)
                self.assertEqual(self.settled(said["id"], "sent", "held")["state"], "sent")
                self.assertEqual(self.tried(said["id"]), [name])
                message = apps[name].next_message()
                self.assertEqual((message.id, message.text, message.is_direct), (said["id"], text, False))
                self.assertTrue(message.reason, "the app is told why it was chosen")
                self.assertNotIn("confidence", message.metadata, "that is the transcript's, not the router's")
                apps[name].ack(message)
                self.settled(said["id"], "delivered")

    def test_capabilities_count(self) -> None:
        self.serve()
        self.app("first", "Does one thing.", capabilities=["invoices", "billing"])
        second = self.app("second", "Does another thing.", capabilities=["gardening", "plants", "watering"])
        said = self.say("gardening: watering of the plants")
        self.assertEqual(self.settled(said["id"], "sent", "held")["state"], "sent")
        self.assertEqual(second.next_message().id, said["id"])

    def test_several_get_what_clearly_fits_several(self) -> None:
        apps = self.four()
        said = self.say("play my music playlist songs and tell me the weather forecast with rain and wind")
        first, second = apps["jukebox"].next_message(), apps["meteo"].next_message()
        self.assertEqual({first.id, second.id}, {said["id"]})
        self.assertEqual((first.text, first.is_direct), (second.text, second.is_direct))
        apps["jukebox"].ack(first)
        apps["meteo"].ack(second)
        shown = self.settled(said["id"], "delivered")
        self.assertEqual(sorted(one["client"] for one in shown["attempts"]), ["jukebox", "meteo"])

    def test_of_several_one_may_reject_and_the_other_is_not_asked_twice(self) -> None:
        apps = self.four()
        said = self.say("play my music playlist songs and tell me the weather forecast with rain and wind")
        first, second = apps["jukebox"].next_message(), apps["meteo"].next_message()
        apps["meteo"].reject(second, "no forecast today")
        apps["jukebox"].ack(first)
        self.settled(said["id"], "delivered")
        self.assertEqual(self.tried(said["id"]).count("jukebox"), 1)
        self.assert_nothing_before(apps["jukebox"], said["id"])

    def test_other_languages_and_odd_texts_are_never_lost(self) -> None:
        self.four()
        odd = ("Spiel mir ein Lied", "明日の天気は?", "?!…", "\u200b\u200b x", "a" * 5000, "\u202eplay", "\U0001f3b5")
        for text in odd:
            with self.subTest(text[:20]):
                said = self.say(text)
                shown = self.settled(said["id"], "held", "sent")
                self.assertEqual(shown["text"], text)
                self.assertEqual(bool(shown["attempts"]), shown["state"] == "sent")


class NobodyTest(LocalTestCase):
    def test_what_fits_nobody_is_held_and_nobody_sees_it(self) -> None:
        apps = self.four()
        said = self.say(NONSENSE)
        shown = self.settled(said["id"], "held")
        self.assertEqual(shown["attempts"], [])
        for app in apps.values():
            self.assert_nothing_before(app, said["id"])
        self.assertIn(said["id"], self.command("hub", "messages", "--state", "held").stdout)

    def test_with_one_app_it_is_held_as_well(self) -> None:
        self.serve()
        self.app("jukebox", MUSIC)
        self.settled(self.say(NONSENSE)["id"], "held")

    def test_a_fitting_app_that_comes_later_gets_what_was_held(self) -> None:
        self.serve()
        self.app("jukebox", MUSIC)
        text = "what is the weather forecast, will there be rain?"
        said = self.say(text)
        self.settled(said["id"], "held")
        meteo = self.app("meteo", WEATHER)
        message = meteo.next_message()
        self.assertEqual((message.id, message.text), (said["id"], text))
        meteo.ack(message)
        self.settled(said["id"], "delivered")

    def test_the_catch_all_gets_what_fits_nobody(self) -> None:
        apps = self.four('catch_all = "notebook"\n')
        message = self.delivered(apps["notebook"], NONSENSE)
        self.assertEqual((message.text, message.is_direct), (NONSENSE, False))
        said = self.say("play some songs from my favourite playlist")
        self.assertEqual(apps["jukebox"].next_message().id, said["id"], "what fits another does not go there")

    def test_an_absent_catch_all_gets_it_when_it_comes(self) -> None:
        self.serve('catch_all = "inbox"\n')
        self.app("jukebox", MUSIC)
        said = self.say(NONSENSE)
        self.settled(said["id"], "held", "queued")
        inbox = self.app("inbox", "Collects everything.")
        self.assertEqual(inbox.next_message().id, said["id"])

    def test_what_the_catch_all_rejects_is_not_lost(self) -> None:
        apps = self.four('catch_all = "notebook"\n')
        said = self.say(NONSENSE)
        apps["notebook"].reject(apps["notebook"].next_message(), "that is nothing")
        eventually(lambda: "that is nothing" in str(self.message(said["id"])["attempts"]), "its reason is kept")
        # It is offered to the others, or to the user.
        self.settled(said["id"], "sent", "held", "refused")


class LearningTest(LocalTestCase):
    PHRASES = ("flooble the gnarp", "flooble my gnarp please", "please flooble that gnarp", "gnarp flooble now")

    def test_what_the_user_corrected_is_known_the_next_time(self) -> None:
        self.four()
        for _ in range(2):
            for phrase in self.PHRASES:
                self.correct(phrase, "agenda")
        said = self.say("flooble the gnarp")
        self.assertEqual(self.settled(said["id"], "sent", "held")["state"], "sent", "it was shown eight times")
        self.assertEqual(self.tried(said["id"]), ["agenda"])

    def test_it_is_still_known_after_a_restart(self) -> None:
        self.four()
        for _ in range(2):
            for phrase in self.PHRASES:
                self.correct(phrase, "agenda")
        self.server.kill()
        self.server.start()
        apps = {name: self.app(name, text) for name, text in (("agenda", CALENDAR), ("jukebox", MUSIC))}
        said = self.say("flooble the gnarp")
        self.assertEqual(apps["agenda"].next_message().id, said["id"])

    def test_rejections_teach_as_well(self) -> None:
        self.serve()
        jukebox = self.app("jukebox", MUSIC)
        text = "play songs of the playlist"
        asked = []
        for _ in range(12):
            said = self.say(text)
            shown = self.settled(said["id"], "sent", "held")
            asked.append(shown["state"] == "sent")
            if not asked[-1]:
                break
            jukebox.reject(jukebox.next_message(), "not that again")
            self.settled(said["id"], "refused", "held")
        self.assertTrue(asked[0], "the description fits")
        self.assertFalse(asked[-1], "twelve rejections of the same words taught nothing")


if __name__ == "__main__":
    unittest.main()
