"""Follow-ups: an app that asked something gets the user's next words first."""

from __future__ import annotations

import unittest

from gateway_client import eventually
from hub_case import MUSIC, NONSENSE, NOTEBOOK, UNHEARD, WEATHER, HubTestCase
from hub_client import App

QUESTIONS = (
    {"body": "Tell me more.", "metadata": {"expectsReply": True}},
    {"body": "Urgent.", "priority": "high"},
    {"body": "Which list do you mean?"},
    {"title": "Today or tomorrow? ", "body": "It is about the meeting."},
    {"title": "notebook", "body": "For today or tomorrow? "},
    {"title": "Error", "body": "It failed.", "metadata": {"expectsReply": True}},
)
STATEMENTS = (
    {"body": "Saved."},
    {"title": "Done", "body": "Saved.", "priority": "normal"},
    {"body": "Saved? Yes.", "priority": "low"},
    {"body": "Saved.", "metadata": {"expectsReply": False}},
    # As the Obsidian plugin reports errors.
    {"title": "SmartHole Error", "body": "The model cannot be reached.", "priority": "high"},
    {"title": "Error", "body": "Did you mean something else?", "priority": "high"},
)


class FollowUpTestCase(HubTestCase):
    def two(self, hub: str = "") -> tuple[App, App]:
        self.serve(hub)
        return self.app("notebook", NOTEBOOK), self.app("jukebox", MUSIC)

    def ask(self, app: App, question: dict) -> str:
        """The app was given something, and answers with a question."""
        message = self.delivered(app, f"{app.name}: do something")
        app.notify(message, **question)
        eventually(lambda: self.message(message.id)["notifications"], "the notification is stored")
        return message.id


class QuestionTest(FollowUpTestCase):
    def test_the_next_words_go_to_who_asked(self) -> None:
        notebook, _ = self.two()
        for question in QUESTIONS:
            with self.subTest(question):
                self.ask(notebook, question)
                message = self.delivered(notebook, NONSENSE)
                self.assertEqual((message.text, message.is_direct), (NONSENSE, False))

    def test_an_error_does_not_capture_the_next_words_and_a_question_does(self) -> None:
        """As the Obsidian plugin asks and fails: questions are high and have no title, errors have one."""
        notebook, jukebox = self.two()
        text = "play some songs from my favourite playlist"
        self.ask(notebook, {"title": "SmartHole Error", "body": "It failed.", "priority": "high"})
        self.assertEqual(self.delivered(jukebox, text).text, text)
        self.ask(notebook, {"body": "Tell me which list.", "priority": "high"})
        self.assertEqual(self.delivered(notebook, "the one for the weekend").text, "the one for the weekend")

    def test_even_when_they_fit_another(self) -> None:
        notebook, jukebox = self.two()
        self.ask(notebook, {"body": "What shall I write?"})
        text = "play some songs from my favourite playlist"
        message = self.delivered(notebook, text)
        self.assertEqual(message.text, text)
        self.assert_nothing_before(jukebox, message.id)

    def test_a_statement_opens_no_window(self) -> None:
        notebook, _ = self.two()
        for statement in STATEMENTS:
            with self.subTest(statement):
                self.ask(notebook, statement)
                self.settled(self.say(NONSENSE)["id"], "held")

    def test_only_the_next_words_do(self) -> None:
        notebook, _ = self.two()
        self.ask(notebook, {"body": "Which one?"})
        self.delivered(notebook, NONSENSE)
        # Other words, as those before were learned.
        self.settled(self.say(UNHEARD)["id"], "held")

    def test_a_prefix_comes_first(self) -> None:
        notebook, jukebox = self.two()
        self.ask(notebook, {"body": "Which one?"})
        message = self.delivered(jukebox, "jukebox: louder")
        self.assertTrue(message.is_direct)

    def test_the_last_one_who_asked_is_meant(self) -> None:
        notebook, jukebox = self.two()
        self.ask(notebook, {"body": "Which list?"})
        self.ask(jukebox, {"body": "Which song?"})
        self.delivered(jukebox, NONSENSE)

    def test_who_asked_may_reject_and_it_is_routed_as_usual(self) -> None:
        notebook, jukebox = self.two()
        self.ask(notebook, {"body": "Which list?"})
        said = self.say("play some songs from my favourite playlist")
        notebook.reject(notebook.next_message(), "that was no answer")
        message = jukebox.next_message()
        self.assertEqual(message.id, said["id"])
        jukebox.ack(message)
        self.settled(said["id"], "delivered")

    def test_who_has_left_is_not_waited_for(self) -> None:
        notebook, jukebox = self.two()
        self.ask(notebook, {"body": "Which list?"})
        self.leave(notebook)
        said = self.say("play some songs from my favourite playlist")
        self.assertEqual(jukebox.next_message().id, said["id"])

    def test_a_follow_up_survives_a_reconnection(self) -> None:
        notebook, _ = self.two()
        self.ask(notebook, {"body": "Which list?"})
        self.leave(notebook)
        self.delivered(self.app("notebook"), NONSENSE)

    def test_switched_off_there_are_no_follow_ups(self) -> None:
        notebook, _ = self.two('follow_up = "0s"\n')
        self.ask(notebook, {"body": "Which list?", "metadata": {"expectsReply": True}})
        self.settled(self.say(NONSENSE)["id"], "held")

    def test_after_the_window_it_is_routed_as_usual(self) -> None:
        notebook, _ = self.two('follow_up = "1s"\nresponse_timeout = "1500ms"\n')
        self.app("meteo", WEATHER)
        self.ask(notebook, {"body": "Which list?"})
        # A message that times out takes longer than the window.
        slow = self.say("jukebox: take your time")
        self.settled(slow["id"], "refused", "held", "queued")
        self.settled(self.say(NONSENSE)["id"], "held")


if __name__ == "__main__":
    unittest.main()
