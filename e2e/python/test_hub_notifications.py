"""Notifications of apps: shown with the message they belong to, none of them swallowed."""

from __future__ import annotations

import unittest

from gateway_client import eventually
from hub_case import HubTestCase
from hub_client import Message


class NotificationTest(HubTestCase):
    def setUp(self) -> None:
        self.serve()
        self.notebook = self.app("notebook")

    def notified(self, message: Message, count: int) -> list[dict]:
        eventually(lambda: len(self.shown(message)) >= count, f"{count} notifications of {message.id}")
        return self.shown(message)

    def shown(self, message: Message) -> list[dict]:
        return self.message(message.id)["notifications"]

    def fields(self, one: dict) -> tuple:
        return one["client"], one["title"], one["body"], one["priority"]

    def test_several_after_the_ack_are_all_there_in_their_order(self) -> None:
        message = self.delivered(self.notebook, "notebook: x")
        for at in range(5):
            self.notebook.notify(message, title=f"Step {at}", body=f"Part {at} is done.", priority="normal")
        shown = self.notified(message, 5)
        self.assertEqual(
            [self.fields(one) for one in shown],
            [("notebook", f"Step {at}", f"Part {at} is done.", "normal") for at in range(5)],
        )
        self.assertEqual(self.state(message.id), "delivered")

    def test_the_title_defaults_to_the_name_and_the_priority_to_normal(self) -> None:
        message = self.delivered(self.notebook, "notebook: x")
        self.notebook.notify(message, body="Saved.")
        (one,) = self.notified(message, 1)
        self.assertEqual(self.fields(one), ("notebook", "notebook", "Saved.", "normal"))

    def test_a_title_alone_will_do(self) -> None:
        message = self.delivered(self.notebook, "notebook: x")
        self.notebook.notify(message, title="Note saved")
        (one,) = self.notified(message, 1)
        self.assertEqual((one["title"], one["body"] or ""), ("Note saved", ""))

    def test_every_priority(self) -> None:
        message = self.delivered(self.notebook, "notebook: x")
        for priority in ("low", "normal", "high"):
            self.notebook.notify(message, body=f"It is {priority}.", priority=priority)
        shown = self.notified(message, 3)
        self.assertEqual([one["priority"] for one in shown], ["low", "normal", "high"])

    def test_two_without_title_within_seconds_are_both_shown(self) -> None:
        message = self.delivered(self.notebook, "notebook: x")
        self.notebook.notify(message, body="First result.")
        self.notebook.notify(message, body="Second result.")
        bodies = [one["body"] for one in self.notified(message, 2)]
        self.assertEqual(bodies, ["First result.", "Second result."])

    def test_the_same_twice_is_never_swallowed_without_a_trace(self) -> None:
        message = self.delivered(self.notebook, "notebook: x")
        self.notebook.notify(message, body="Again.")
        self.notified(message, 1)
        self.notebook.notify(message, body="Again.")
        unmarked = {"client": "notebook", "title": "notebook", "body": "Again.", "priority": "normal"}
        # Two of them, or one that tells so.
        eventually(lambda: self.shown(message) != [unmarked], "a trace of the second one")

    def test_before_the_ack_they_count_as_well(self) -> None:
        said = self.say("notebook: x")
        message = self.notebook.next_message()
        self.notebook.notify(message, body="Working on it.")
        self.notified(message, 1)
        self.notebook.ack(message)
        self.settled(said["id"], "delivered")
        self.assertEqual([one["body"] for one in self.shown(message)], ["Working on it."])

    def test_they_belong_to_their_message(self) -> None:
        first, second = self.delivered(self.notebook, "notebook: a"), self.delivered(self.notebook, "notebook: b")
        self.notebook.notify(second, body="b is done")
        self.notebook.notify(first, body="a is done")
        self.assertEqual([one["body"] for one in self.notified(first, 1)], ["a is done"])
        self.assertEqual([one["body"] for one in self.notified(second, 1)], ["b is done"])

    def test_after_a_restart_old_messages_can_still_be_spoken_of(self) -> None:
        message = self.delivered(self.notebook, "notebook: x")
        self.notebook.notify(message, body="Before.")
        self.notified(message, 1)
        self.server.kill()
        self.server.start()
        self.app("notebook").notify(message, body="After.")
        self.assertEqual([one["body"] for one in self.notified(message, 2)], ["Before.", "After."])

    def test_a_flood_of_them_is_bounded_and_the_hub_goes_on(self) -> None:
        message = self.delivered(self.notebook, "notebook: x")
        for at in range(2000):
            self.notebook.notify(message, body=f"Number {at}")
        self.delivered(self.notebook, "notebook: and now?")

    def test_long_and_odd_texts_harm_nobody(self) -> None:
        message = self.delivered(self.notebook, "notebook: x")
        for fields in ({"body": "x" * 500_000}, {"title": "\x1b[2J\n\0", "body": "<b>bold</b>"}, {"body": "\u202e"}):
            self.notebook.notify(message, **fields)
        self.delivered(self.notebook, "notebook: and now?")
        self.assertNotIn("\x1b", self.command("hub", "messages").stdout)


if __name__ == "__main__":
    unittest.main()
