"""What is addressed to an app by name, what only looks so, and the shape of a message on its way."""

from __future__ import annotations

import re
import unittest
from datetime import datetime, timezone

from hub_case import CALENDAR, MUSIC, HubTestCase

TIMESTAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
# What the user says, and what the app `notebook` is given.
ADDRESSED = {
    "notebook:x": "x",
    "notebook,x": "x",
    "notebook: remember to buy milk": "remember to buy milk",
    "notebook, remember to buy milk": "remember to buy milk",
    "NOTEBOOK: x": "x",
    "NoteBook, x": "x",
    "notebook:\nx": "x",
    "notebook:\tx": "x",
    "notebook: \t x": "x",
    "notebook: x  \n": "x",
    "notebook:: x": ": x",
    "notebook:,x": ",x",
    "notebook: a: b": "a: b",
    "notebook, a, b": "a, b",
    "notebook: first\nsecond\n\nthird": "first\nsecond\n\nthird",
    "notebook: notebook: x": "notebook: x",
    "notebook: schön \U0001f4d3": "schön \U0001f4d3",
    "notebook: <b>&amp;\\n\"'": "<b>&amp;\\n\"'",
}
# What falls through to the other ways of routing, whole.
NOT_ADDRESSED = (
    "notebook : x",
    "notebook ,x",
    "notebook; x",
    "notebook，x",
    "notebook：x",
    "notebook. x",
    "notebook x",
    "hey notebook, x",
    "unknown: x",
    "notebookpro: x",
    "noteboo: x",
    "note-book: x",
    "notebook-: x",
    "@notebook: x",
    '"notebook": x',
    "1notebook: x",
    ": x",
    ", x",
    "notebook",
    "notebook:",
    "notebook,",
    "notebook:   ",
    "notebook:\n\t",
)


class PrefixTest(HubTestCase):
    def test_addressed(self) -> None:
        self.serve()
        notebook = self.app("notebook")
        self.app("jukebox", MUSIC)
        for said, given in ADDRESSED.items():
            with self.subTest(said):
                identity = self.say(said)["id"]
                message = notebook.next_message()
                self.assertEqual((message.id, message.text, message.is_direct), (identity, given, True))
                self.assertNotIn("routingReason", message.metadata)
                notebook.ack(message)
                (attempt,) = self.settled(identity, "delivered")["attempts"]
                self.assertEqual(attempt["client"], "notebook")

    def test_not_addressed(self) -> None:
        # The same app takes what fits nobody, so that every utterance arrives and shows how it came.
        self.serve('catch_all = "notebook"\n')
        notebook = self.app("notebook")
        for said in NOT_ADDRESSED:
            with self.subTest(said):
                identity = self.say(said)["id"]
                message = notebook.next_message()
                self.assertEqual((message.id, message.is_direct), (identity, False))
                self.assertEqual(message.text.strip(), said.strip())
                notebook.ack(message)

    def test_a_transcript_with_a_leading_space_is_not_addressed(self) -> None:
        self.serve('catch_all = "notebook"\n')
        notebook = self.app("notebook")
        for said in (" notebook: x", "\nnotebook: x", "\tnotebook, x"):
            with self.subTest(said):
                self.say(said, inputMethod="voice")
                message = notebook.next_message()
                self.assertEqual((message.text.strip(), message.is_direct), (said.strip(), False))
                notebook.ack(message)

    def test_names_of_every_shape_can_be_addressed(self) -> None:
        self.serve()
        for name in ("a", "so", "my-client", "my_client", "A1-b_2", "x" * 64):
            with self.subTest(name):
                app = self.app(name)
                message = self.delivered(app, f"{name}, tomorrow we will see")
                self.assertEqual((message.text, message.is_direct), ("tomorrow we will see", True))

    def test_of_two_apps_only_the_one_addressed_is_given_it(self) -> None:
        self.serve()
        notebook, jukebox = self.app("notebook"), self.app("jukebox", MUSIC)
        message = self.delivered(notebook, "notebook: play the songs of the album")
        self.assertEqual(message.text, "play the songs of the album")
        self.assert_nothing_before(jukebox, message.id)

    def test_one_who_has_left_is_not_addressed(self) -> None:
        self.serve('catch_all = "jukebox"\n')
        jukebox = self.app("jukebox", MUSIC)
        self.leave(self.app("agenda", CALENDAR))
        said = self.say("agenda: what is next?")
        shown = self.message(said["id"])
        # It may wait for the one addressed, or go to another with all its words; it is never lost.
        if shown["attempts"] or shown["state"] == "sent":
            message = jukebox.next_message()
            self.assertEqual((message.text, message.is_direct), ("agenda: what is next?", False))
        else:
            self.assertIn(shown["state"], ("queued", "held"))


class ShapeTest(HubTestCase):
    def test_a_typed_message_has_the_document_s_fields(self) -> None:
        self.serve()
        notebook = self.app("notebook")
        before = datetime.now(timezone.utc)
        message = self.delivered(notebook, "notebook: remember to buy groceries")
        after = datetime.now(timezone.utc)
        self.assertLessEqual({"id", "text", "timestamp", "metadata"}, set(message.payload))
        self.assertRegex(message.timestamp, TIMESTAMP)
        when = datetime.fromisoformat(message.timestamp.replace("Z", "+00:00"))
        self.assertLess(abs((when - before).total_seconds()), (after - before).total_seconds() + 1)
        self.assertEqual((message.metadata["inputMethod"], message.is_direct), ("text", True))
        self.assertNotIn("confidence", message.metadata)
        self.assertNotIn("routingReason", message.metadata)
        self.assertNotIn("source", message.metadata, "real clients take it for a wish to stay silent")
        self.assertNotRegex(message.id, r"[/:\\]", "real clients make a file name of it")

    def test_a_spoken_message_has_its_confidence(self) -> None:
        self.serve()
        notebook = self.app("notebook")
        for confidence in (0.95, 0, 1, 0.123456):
            with self.subTest(confidence):
                message = self.delivered(notebook, "notebook: x", inputMethod="voice", confidence=confidence)
                self.assertEqual(message.metadata["inputMethod"], "voice")
                self.assertAlmostEqual(message.metadata["confidence"], confidence, places=5)
        message = self.delivered(notebook, "notebook: x", inputMethod="voice")
        self.assertEqual(message.metadata["inputMethod"], "voice")
        self.assertNotIn("confidence", message.metadata)

    def test_every_message_has_an_id_of_its_own(self) -> None:
        self.serve()
        notebook = self.app("notebook")
        ids = [self.delivered(notebook, "notebook: the same words").id for _ in range(10)]
        self.assertEqual(len(set(ids)), 10)

    def test_a_long_text_arrives_whole(self) -> None:
        self.serve()
        notebook = self.app("notebook")
        text = "word " * 10_000 + "end"
        self.assertEqual(self.delivered(notebook, f"notebook: {text}").text, text)


if __name__ == "__main__":
    unittest.main()
