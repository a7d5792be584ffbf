"""What apps answer and what becomes of the message: rejections, silence, departures, late and foreign answers."""

from __future__ import annotations

import time
import unittest

from gateway_client import eventually
from hub_case import CALENDAR, MUSIC, NONSENSE, NOTEBOOK, WAITING, WEATHER, HubTestCase
from hub_client import BEFORE_DEFAULTS, NEVER, App

SONGS = "play some songs from my favourite playlist"
QUICK = 'response_timeout = "1s"\n'
# Where the second app has to answer in time.
LESS_QUICK = 'response_timeout = "2s"\n'
TIMED_OUT = "Response timeout"
# Where messages that name an app go on to others.
ON = "reroute_direct = true\n"


# What belongs to none of these.
SONGLESS = "the gnarp is flooble again, whatever one may think of it"
FIVE = {
    "notebook": NOTEBOOK,
    "jukebox": MUSIC,
    "meteo": WEATHER,
    "agenda": CALENDAR,
    "lights": "Turns lamps on and off and dims the lights.",
}
OTHERS = {
    "kitchen": "Finds recipes and says how to cook a meal.",
    "bank": "Shows the balance of the account and pays bills.",
    "travel": "Books flights, trains and hotels.",
}


class ResponseTestCase(HubTestCase):
    def two(self, hub: str = ON) -> tuple[App, App]:
        """The one that is addressed, and one that fits the words as well."""
        self.serve(hub)
        return self.app("notebook", NOTEBOOK), self.app("jukebox", MUSIC)

    def held(self, identity: str) -> str:
        """Why it is held; what to type is told with it."""
        reason = self.settled(identity, "held")["reason"]
        self.assertIn(f"patchboard hub route {identity} ", reason)
        return reason

    def attempts(self, identity: str) -> list[tuple[str, str | None]]:
        return [(one["client"], one.get("reason")) for one in self.message(identity)["attempts"]]

    def assert_rerouted(self, first, second) -> None:
        """One message, in two attempts."""
        self.assertEqual(second.id, first.id)
        self.assertNotEqual(second.timestamp, first.timestamp)
        self.assertFalse(second.is_direct)
        self.assertIn(second.text, (SONGS, f"notebook: {SONGS}"))


class RejectTest(ResponseTestCase):
    def test_a_rejected_message_goes_to_another_with_the_same_id(self) -> None:
        notebook, jukebox = self.two()
        said = self.say(f"notebook: {SONGS}")
        first = notebook.next_message()
        notebook.reject(first, "I only handle notes")
        second = jukebox.next_message()
        self.assert_rerouted(first, second)
        jukebox.ack(second)
        self.settled(said["id"], "delivered")
        self.assertEqual(self.attempts(said["id"]), [("notebook", "I only handle notes"), ("jukebox", None)])

    def test_a_rejection_needs_no_reason(self) -> None:
        notebook, jukebox = self.two()
        said = self.say(f"notebook: {SONGS}")
        notebook.reject(notebook.next_message())
        jukebox.ack(jukebox.next_message())
        self.settled(said["id"], "delivered")

    def test_rejected_by_all_it_is_refused_with_every_reason(self) -> None:
        notebook, jukebox = self.two()
        said = self.say(f"notebook: {SONGS}")
        notebook.reject(notebook.next_message(), "not mine")
        jukebox.reject(jukebox.next_message(), "nor mine")
        shown = self.settled(said["id"], "refused")
        self.assertEqual(self.attempts(said["id"]), [("notebook", "not mine"), ("jukebox", "nor mine")])
        self.assertEqual(shown["notifications"], [])
        self.assert_nothing_before(notebook, said["id"])
        self.assert_nothing_before(jukebox, said["id"])

    def test_a_single_app_that_rejects_ends_it(self) -> None:
        self.serve(ON)
        notebook = self.app("notebook")
        said = self.say("notebook: x")
        notebook.reject(notebook.next_message(), "no")
        self.settled(said["id"], "refused")

    def test_refused_by_the_app_it_names_it_is_held_with_the_command(self) -> None:
        notebook, jukebox = self.two("")
        said = self.say(f"notebook: {SONGS}")
        notebook.reject(notebook.next_message(), "I only take notes")
        self.assertIn("I only take notes", self.held(said["id"]))
        self.assertEqual(self.attempts(said["id"]), [("notebook", "I only take notes")])
        self.assert_nothing_before(jukebox, said["id"])
        self.command("hub", "route", said["id"], "jukebox")
        again = jukebox.next_message()
        self.assertEqual((again.id, again.text), (said["id"], SONGS))
        jukebox.ack(again)
        self.settled(said["id"], "delivered")

    def test_direct_ones_stay_where_they_were_sent_when_told_so(self) -> None:
        notebook, jukebox = self.two("reroute_direct = false\n")
        said = self.say(f"notebook: {SONGS}")
        notebook.reject(notebook.next_message(), "no")
        self.held(said["id"])
        self.assertEqual(self.attempts(said["id"]), [("notebook", "no")])
        self.assert_nothing_before(jukebox, said["id"])

    def test_a_refused_one_does_not_go_to_whoever_is_left(self) -> None:
        self.serve(ON)
        notebook, meteo = self.app("notebook", NOTEBOOK), self.app("meteo", WEATHER)
        said = self.say(f"notebook: {NONSENSE}")
        notebook.reject(notebook.next_message(), "what is that?")
        self.assertIn("what is that?", self.held(said["id"]))
        self.assert_nothing_before(meteo, said["id"])

    def test_what_five_apps_refused_is_held_and_no_other_app_gets_it(self) -> None:
        self.serve()
        refusing = {name: self.app(name, text) for name, text in FIVE.items()}
        others = {name: self.app(name, text) for name, text in OTHERS.items()}
        before = self.confidences(SONGLESS)
        said = self.say(SONGLESS)
        self.settled(said["id"], "held", "sent")
        for name, app in refusing.items():
            self.command("hub", "route", said["id"], name)
            message = app.next_message()
            while message.id != said["id"]:
                message = app.next_message()
            app.reject(message, f"not for {name}")
            self.assertIn(f"not for {name}", self.held(said["id"]))
        # The same words once more, from the beginning.
        again = self.say(SONGLESS)
        self.settled(again["id"], "held")
        for name, app in others.items():
            self.assert_nothing_before(app, said["id"])
        after = self.confidences(SONGLESS)
        for name in others:
            self.assertLess(after.get(name, 0), 0.5, f"{name} rose: {before} -> {after}")

    def confidences(self, text: str) -> dict[str, float]:
        decision = self.request("POST", "/v1/route", {"text": text}).body
        return {one["client"]: one["confidence"] for one in decision["candidates"]}

    def test_that_setting_does_not_touch_other_messages(self) -> None:
        self.serve("reroute_direct = false\n")
        jukebox, _ = self.app("jukebox", MUSIC), self.app("notebook", NOTEBOOK)
        said = self.say(SONGS)
        jukebox.reject(jukebox.next_message(), "out of order")
        eventually(lambda: ("jukebox", "out of order") in self.attempts(said["id"]), "the rejection is kept")
        # Another app is asked, or the user.
        self.settled(said["id"], "sent", "held")

    def test_a_rejection_after_the_ack_is_no_loss(self) -> None:
        notebook, _ = self.two()
        said = self.say("notebook: x")
        message = notebook.next_message()
        notebook.ack(message)
        self.settled(said["id"], "delivered")
        notebook.reject(message, "on second thoughts")
        notebook.ping()
        # On its way to another app it is `queued` for a moment.
        self.settled(said["id"], "delivered", "sent", "held", "refused")
        self.delivered(notebook, "notebook: still friends")

    def test_a_second_rejection_of_the_same_message_counts_for_nothing(self) -> None:
        notebook, jukebox = self.two()
        said = self.say(f"notebook: {SONGS}")
        message = notebook.next_message()
        for _ in range(3):
            notebook.reject(message, "no")
        jukebox.ack(jukebox.next_message())
        self.settled(said["id"], "delivered")
        self.assertEqual([name for name, _ in self.attempts(said["id"])], ["notebook", "jukebox"])


class NamedTest(ResponseTestCase):
    """Messages that name an app which does not answer, or is not there."""

    def test_one_that_does_not_answer_is_waited_for(self) -> None:
        notebook, jukebox = self.two(QUICK)
        said = self.say(f"notebook: {SONGS}", wait=60)
        self.assertEqual(said["state"], "queued", "its time is up, and nobody else gets it")
        self.assertIn("notebook", said["reason"])
        first = notebook.next_message()
        self.assert_nothing_before(jukebox, said["id"])
        self.leave(notebook)
        self.assertEqual(self.state(said["id"]), "queued")
        again = self.app("notebook", NOTEBOOK).next_message()
        self.assertEqual((again.id, again.text, again.is_direct), (first.id, SONGS, True))
        self.assertNotEqual(again.timestamp, first.timestamp)

    def test_its_late_answer_counts(self) -> None:
        notebook, _ = self.two(QUICK)
        taken, refused = self.say(f"notebook: {SONGS}"), self.say("notebook: x")
        first, second = notebook.next_message(), notebook.next_message()
        self.settled(first.id, "queued")
        self.settled(second.id, "queued")
        notebook.ack(first)
        notebook.reject(second, "too late for me")
        self.settled(taken["id"], "delivered")
        self.assertIn("too late for me", self.held(refused["id"]))

    def test_one_that_is_away_is_waited_for(self) -> None:
        notebook, jukebox = self.two("")
        self.leave(notebook)
        said = self.say(f"notebook: {SONGS}")
        self.assertEqual(said["state"], "queued")
        self.assert_nothing_before(jukebox, said["id"])
        message = self.app("notebook", NOTEBOOK).next_message()
        self.assertEqual((message.id, message.text, message.is_direct), (said["id"], SONGS, True))

    def test_one_that_leaves_with_it_is_waited_for_also_over_a_restart(self) -> None:
        notebook, jukebox = self.two("")
        said = self.say(f"notebook: {SONGS}")
        notebook.next_message()
        self.leave(notebook)
        self.settled(said["id"], "queued")
        self.assert_nothing_before(jukebox, said["id"])
        self.server.kill()
        self.server.start()
        jukebox = self.app("jukebox", MUSIC)
        self.assert_nothing_before(jukebox, said["id"])
        message = self.app("notebook", NOTEBOOK).next_message()
        self.assertEqual((message.id, message.text), (said["id"], SONGS))


class SilenceTest(ResponseTestCase):
    def test_a_silent_app_is_passed_over_after_the_timeout(self) -> None:
        notebook, jukebox = self.two(ON + LESS_QUICK)
        started = time.monotonic()
        said = self.say(f"notebook: {SONGS}")
        first = notebook.next_message()
        second = jukebox.next_message(BEFORE_DEFAULTS)
        took = time.monotonic() - started
        self.assertGreater(took, 1.9)
        self.assert_rerouted(first, second)
        jukebox.ack(second)
        self.settled(said["id"], "delivered")
        self.assertEqual(self.attempts(said["id"]), [("notebook", TIMED_OUT), ("jukebox", None)])

    def test_silence_of_all_is_a_refusal(self) -> None:
        self.serve(ON + QUICK)
        self.app("notebook")
        said = self.say("notebook: x")
        self.settled(said["id"], "refused")
        self.assertEqual(self.attempts(said["id"]), [("notebook", TIMED_OUT)])

    def test_a_late_ack_is_recorded_and_ends_it(self) -> None:
        self.serve(QUICK)
        notebook = self.app("notebook")
        said = self.say(f"notebook: {SONGS}")
        message = notebook.next_message()
        self.settled(said["id"], "refused", *WAITING)
        notebook.ack(message)
        self.settled(said["id"], "delivered")
        jukebox = self.app("jukebox", MUSIC)
        self.assert_nothing_before(jukebox, said["id"])

    def test_a_late_ack_while_another_has_it_is_recorded_too(self) -> None:
        notebook, jukebox = self.two(ON + QUICK)
        said = self.say(f"notebook: {SONGS}")
        first = notebook.next_message()
        second = jukebox.next_message()
        notebook.ack(first)
        self.settled(said["id"], "delivered")
        jukebox.ack(second)
        jukebox.ping()
        shown = self.settled(said["id"], "delivered")
        self.assertEqual([one["client"] for one in shown["attempts"]], ["notebook", "jukebox"])

    def test_malformed_responses_leave_the_timer_running(self) -> None:
        notebook, jukebox = self.two(ON + LESS_QUICK)
        malformed = (
            lambda identity: {"messageId": identity, "type": "maybe", "payload": {}},
            lambda identity: {"messageId": identity, "type": "ACK", "payload": {}},
            lambda identity: {"messageId": identity, "payload": {}},
            lambda identity: {"messageId": identity, "type": 5, "payload": {}},
            lambda identity: {"messageId": identity, "type": None},
            lambda identity: {"messageId": [identity], "type": "ack", "payload": {}},
            lambda identity: {"messageId": None, "type": "ack", "payload": {}},
            lambda identity: {"id": identity, "type": "ack", "payload": {}},
            lambda identity: {"messageId": identity, "type": "reject", "payload": {"reason": 5}},
            lambda identity: {"messageId": identity, "type": "notification", "payload": {"body": "x", "priority": 1}},
            lambda identity: {"messageId": identity, "type": "notification", "payload": {}},
            lambda identity: {"messageId": identity, "type": "ack", "payload": "yes"},
            lambda identity: [identity, "ack"],
            lambda identity: None,
            lambda identity: identity,
        )
        said = self.say(f"notebook: {SONGS}")
        first = notebook.next_message()
        for make in malformed:
            notebook.send("response", make(first.id))
        second = jukebox.next_message()
        self.assert_rerouted(first, second)
        self.assertEqual(self.attempts(said["id"])[0], ("notebook", TIMED_OUT))
        self.assertEqual(self.message(said["id"])["notifications"], [])
        jukebox.ack(second)
        self.settled(said["id"], "delivered")
        self.delivered(notebook, "notebook: you are still welcome")

    def test_a_good_response_after_a_malformed_one_counts(self) -> None:
        notebook, _ = self.two()
        said = self.say("notebook: x")
        message = notebook.next_message()
        notebook.respond(message, "perhaps", {})
        notebook.ack(message)
        self.settled(said["id"], "delivered")

    def test_extra_fields_of_a_response_are_ignored(self) -> None:
        notebook, _ = self.two()
        said = self.say("notebook: x")
        message = notebook.next_message()
        payload = {"messageId": message.id, "type": "ack", "payload": {}, "note": [1], "client": "jukebox"}
        notebook.send("response", payload, id=9)
        self.settled(said["id"], "delivered")
        self.assertEqual(self.attempts(said["id"]), [("notebook", None)])


class DepartureTest(ResponseTestCase):
    def test_who_leaves_with_a_message_is_passed_over_at_once(self) -> None:
        for leave in (App.close, App.abort):
            with self.subTest(leave.__name__):
                notebook, jukebox = self.two(f'{ON}response_timeout = "{NEVER}"\n')
                said = self.say(f"notebook: {SONGS}")
                first = notebook.next_message()
                leave(notebook)
                second = jukebox.next_message()
                self.assert_rerouted(first, second)
                jukebox.ack(second)
                self.settled(said["id"], "delivered")
                self.assertTrue(self.attempts(said["id"])[0][1], "the reason is recorded")

    def test_with_nobody_else_it_waits_and_is_given_again(self) -> None:
        self.serve()
        notebook = self.app("notebook")
        said = self.say("notebook: x")
        first = notebook.next_message()
        notebook.abort()
        self.settled(said["id"], *WAITING)
        again = self.app("notebook")
        second = again.next_message()
        self.assertEqual((second.id, second.text, second.is_direct), (first.id, "x", True))
        self.assertNotEqual(second.timestamp, first.timestamp)
        again.ack(second)
        self.settled(said["id"], "delivered")

    def test_the_same_name_may_still_answer_after_a_reconnection(self) -> None:
        self.serve()
        notebook = self.app("notebook")
        said = self.say("notebook: x")
        message = notebook.next_message()
        notebook.abort()
        self.settled(said["id"], *WAITING)
        again = self.app("notebook")
        again.ack(message)
        self.settled(said["id"], "delivered")

    def test_and_notify_about_what_it_acknowledged_before(self) -> None:
        self.serve()
        notebook = self.app("notebook")
        message = self.delivered(notebook, "notebook: x")
        self.leave(notebook)
        again = self.app("notebook")
        again.notify(message, body="Done at last.")
        eventually(lambda: self.message(message.id)["notifications"], "the notification is stored")
        self.assert_nothing_before(again, message.id)


class ForeignTest(ResponseTestCase):
    def test_an_answer_of_another_app_is_ignored(self) -> None:
        notebook, jukebox = self.two()
        said = self.say("notebook: x")
        message = notebook.next_message()
        jukebox.ack(message)
        jukebox.reject(message, "I say no")
        jukebox.notify(message, body="I say hello")
        jukebox.ping()
        shown = self.message(said["id"])
        self.assertEqual((shown["state"], shown["notifications"]), ("sent", []))
        notebook.ack(message)
        self.settled(said["id"], "delivered")
        self.assertEqual(self.attempts(said["id"]), [("notebook", None)])

    def test_an_answer_to_nothing_is_ignored(self) -> None:
        notebook, _ = self.two()
        for identity in ("", "msg-0", "msg-00000000-0000-4000-8000-000000000000", "x" * 100_000, "../etc"):
            notebook.ack(identity)
            notebook.reject(identity, "no")
            notebook.notify(identity, body="hello")
        self.delivered(notebook, "notebook: x")


if __name__ == "__main__":
    unittest.main()
