"""The outbox by hand: what expires, what is sent again, routed to an app the user names, or cancelled."""

from __future__ import annotations

import unittest

from gateway_client import eventually
from hub_case import MUSIC, NONSENSE, NOTEBOOK, WAITING, HubTestCase

SHORT = 'expiry = "2s"\n'


class ExpiryTest(HubTestCase):
    def test_a_message_nobody_takes_expires(self) -> None:
        self.serve(SHORT)
        said = self.say("notebook: too late")
        self.assertIn(said["state"], WAITING)
        self.settled(said["id"], "expired")
        notebook = self.app("notebook")
        self.assert_nothing_before(notebook, said["id"])
        self.assertEqual(self.state(said["id"]), "expired")

    def test_a_held_one_expires_too(self) -> None:
        self.serve(SHORT)
        self.app("jukebox", MUSIC)
        # The answer itself tells that it is held, as it may have expired before this test could ask.
        said = self.say(NONSENSE, wait=120)
        self.assertEqual(said["state"], "held")
        self.settled(said["id"], "expired")

    def test_time_goes_on_while_the_server_is_down(self) -> None:
        self.serve(SHORT)
        said = self.say("notebook: too late")
        self.server.kill()
        self.server.start()
        self.settled(said["id"], "expired")

    def test_what_was_delivered_does_not_expire(self) -> None:
        self.serve(SHORT)
        notebook = self.app("notebook")
        message = self.delivered(notebook, "notebook: in time")
        later = self.say("nobody-there: too late")
        self.settled(later["id"], "expired")
        self.assertEqual(self.state(message.id), "delivered")

    def test_an_expired_one_can_be_sent_again(self) -> None:
        self.serve(SHORT)
        said = self.say("notebook: too late")
        self.settled(said["id"], "expired")
        notebook = self.app("notebook")
        self.command("hub", "resend", said["id"])
        message = notebook.next_message()
        self.assertEqual((message.id, message.text), (said["id"], "too late"))
        notebook.ack(message)
        self.settled(said["id"], "delivered")


class ByHandTest(HubTestCase):
    def test_a_refused_one_can_be_sent_again_to_the_same_app(self) -> None:
        self.serve()
        notebook = self.app("notebook")
        said = self.say("notebook: x")
        first = notebook.next_message()
        notebook.reject(first, "not now")
        self.settled(said["id"], "held")
        self.command("hub", "resend", said["id"])
        second = notebook.next_message()
        self.assertEqual((second.id, second.text), (said["id"], "x"))
        self.assertNotEqual(second.timestamp, first.timestamp)
        notebook.ack(second)
        shown = self.settled(said["id"], "delivered")
        self.assertEqual([one["client"] for one in shown["attempts"]], ["notebook", "notebook"])

    def test_a_delivered_one_can_be_sent_again(self) -> None:
        self.serve()
        notebook = self.app("notebook")
        first = self.delivered(notebook, "notebook: x")
        self.command("hub", "resend", first.id)
        second = notebook.next_message()
        self.assertEqual(second.id, first.id)
        self.assertNotEqual(second.timestamp, first.timestamp)

    def test_a_held_one_goes_where_the_user_says(self) -> None:
        self.serve()
        jukebox, notebook = self.app("jukebox", MUSIC), self.app("notebook", NOTEBOOK)
        said = self.say(NONSENSE)
        self.settled(said["id"], "held")
        self.command("hub", "route", said["id"], "notebook")
        message = notebook.next_message()
        self.assertEqual((message.id, message.text), (said["id"], NONSENSE))
        notebook.ack(message)
        self.settled(said["id"], "delivered")
        self.assert_nothing_before(jukebox, said["id"])

    def test_the_name_may_be_written_in_any_case(self) -> None:
        self.serve()
        notebook = self.app("Notebook")
        said = self.say(NONSENSE)
        self.settled(said["id"], "held")
        self.command("hub", "route", said["id"], "NOTEBOOK")
        self.assertEqual(notebook.next_message().id, said["id"])

    def test_what_went_to_the_wrong_one_can_be_given_to_the_right_one(self) -> None:
        self.serve()
        jukebox, notebook = self.app("jukebox", MUSIC), self.app("notebook", NOTEBOOK)
        message = self.delivered(jukebox, "jukebox: remember the milk")
        self.command("hub", "route", message.id, "notebook")
        again = notebook.next_message()
        self.assertEqual(again.id, message.id)
        self.assertIn("remember the milk", again.text)
        notebook.ack(again)
        tried = [one["client"] for one in self.settled(message.id, "delivered")["attempts"]]
        self.assertEqual(tried, ["jukebox", "notebook"])

    def test_routed_to_one_who_is_away_it_waits_or_is_refused_with_a_word(self) -> None:
        self.serve()
        self.app("jukebox", MUSIC)
        said = self.say(NONSENSE)
        self.settled(said["id"], "held")
        done = self.command("hub", "route", said["id"], "nowhere", code=None)
        if done.returncode == 0:
            self.assertEqual(self.app("nowhere").next_message().id, said["id"])
        else:
            self.assertIn("nowhere", done.stderr)
            self.assertEqual(self.state(said["id"]), "held")

    def test_unknown_messages_are_told_on_stderr(self) -> None:
        self.serve()
        self.app("notebook")
        unknown = "msg-00000000-0000-4000-8000-000000000000"
        for arguments in (("resend", unknown), ("route", unknown, "notebook"), ("cancel", unknown), ("resend", "x")):
            with self.subTest(arguments):
                done = self.command("hub", *arguments, code=None)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("error", done.stderr)


class CancelTest(HubTestCase):
    def test_a_cancelled_one_is_given_to_nobody(self) -> None:
        self.serve()
        said = self.say("notebook: never mind")
        self.command("hub", "cancel", said["id"])
        self.settled(said["id"], "cancelled")
        notebook = self.app("notebook")
        self.assert_nothing_before(notebook, said["id"])
        self.assertEqual(self.state(said["id"]), "cancelled")

    def test_a_held_one_can_be_cancelled_and_stays_so(self) -> None:
        self.serve()
        self.app("jukebox", MUSIC)
        said = self.say(NONSENSE)
        self.settled(said["id"], "held")
        self.command("hub", "cancel", said["id"])
        self.server.kill()
        self.server.start()
        self.assertEqual(self.state(said["id"]), "cancelled")

    def test_one_in_flight_goes_to_nobody_else(self) -> None:
        self.serve()
        notebook, jukebox = self.app("notebook"), self.app("jukebox", MUSIC)
        said = self.say("notebook: play some songs from my favourite playlist")
        message = notebook.next_message()
        self.command("hub", "cancel", said["id"])
        self.settled(said["id"], "cancelled")
        notebook.reject(message, "too late anyway")
        notebook.ping()
        self.assert_nothing_before(jukebox, said["id"])
        self.assertEqual(self.state(said["id"]), "cancelled")

    def test_what_was_delivered_cannot_be_cancelled(self) -> None:
        self.serve()
        notebook = self.app("notebook")
        message = self.delivered(notebook, "notebook: x")
        self.command("hub", "cancel", message.id, code=None)
        eventually(lambda: self.state(message.id) == "delivered", "it was delivered, whatever is said afterwards")

    def test_a_cancelled_one_can_be_sent_again(self) -> None:
        self.serve()
        said = self.say("notebook: on second thoughts")
        self.command("hub", "cancel", said["id"])
        notebook = self.app("notebook")
        self.command("hub", "resend", said["id"])
        self.assertEqual(notebook.next_message().id, said["id"])


if __name__ == "__main__":
    unittest.main()
