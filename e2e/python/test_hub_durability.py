"""Nothing that was accepted is lost: no app, a kill at any moment, a restart, and who gets what afterwards."""

from __future__ import annotations

import http.client
import threading
import unittest

from gateway_client import eventually
from hub_case import MUSIC, NONSENSE, NOTEBOOK, WAITING, WEATHER, HubTestCase
from hub_client import App, Message

FORECAST = "what is the weather forecast, will there be rain?"


class DurabilityTestCase(HubTestCase):
    def setUp(self) -> None:
        self.serve()

    def kill_and_start(self) -> None:
        self.server.kill()
        self.server.start()

    def tried(self, identity: str) -> list[str]:
        return [attempt["client"] for attempt in self.message(identity)["attempts"]]

    def take(self, app: App, identity: str, text: str) -> Message:
        message = app.next_message()
        self.assertEqual((message.id, message.text), (identity, text))
        app.ack(message)
        self.settled(identity, "delivered")
        return message


class NobodyThereTest(DurabilityTestCase):
    def test_a_message_waits_for_its_app(self) -> None:
        said = self.say("notebook: buy milk")
        self.assertIn(said["state"], WAITING)
        self.assertEqual(self.message(said["id"])["attempts"], [])
        message = self.take(self.app("notebook"), said["id"], "buy milk")
        self.assertTrue(message.is_direct)

    def test_through_a_kill_as_well(self) -> None:
        said = self.say("notebook: buy milk")
        self.kill_and_start()
        self.assertIn(self.state(said["id"]), WAITING)
        self.take(self.app("notebook"), said["id"], "buy milk")

    def test_through_an_orderly_stop_as_well(self) -> None:
        said = self.say("notebook: buy milk")
        self.server.restart()
        self.take(self.app("notebook"), said["id"], "buy milk")

    def test_without_a_prefix_it_waits_for_one_that_fits(self) -> None:
        said = self.say(FORECAST)
        self.assertIn(said["state"], WAITING)
        self.kill_and_start()
        jukebox = self.app("jukebox", MUSIC)
        meteo = self.app("meteo", WEATHER)
        self.take(meteo, said["id"], FORECAST)
        self.assert_nothing_before(jukebox, said["id"])

    def test_several_kills_do_not_matter(self) -> None:
        ids = []
        for at in range(3):
            ids.append(self.say(f"notebook: number {at}")["id"])
            self.kill_and_start()
        notebook = self.app("notebook")
        got = []
        for _ in ids:
            message = notebook.next_message()
            got.append((message.id, message.text))
            notebook.ack(message)
        self.assertEqual(sorted(got), sorted((identity, f"number {at}") for at, identity in enumerate(ids)))
        for identity in ids:
            self.settled(identity, "delivered")

    def test_waiting_messages_come_in_the_order_they_were_said(self) -> None:
        ids = [self.say(f"notebook: number {at}")["id"] for at in range(20)]
        notebook = self.app("notebook")
        got = []
        for _ in ids:
            message = notebook.next_message()
            got.append(message.id)
            notebook.ack(message)
        self.assertEqual(got, ids)

    def test_the_input_method_and_confidence_are_kept(self) -> None:
        said = self.say("notebook: spoken", inputMethod="voice", confidence=0.5)
        self.kill_and_start()
        message = self.take(self.app("notebook"), said["id"], "spoken")
        self.assertEqual((message.metadata["inputMethod"], message.metadata["confidence"]), ("voice", 0.5))


class KillTest(DurabilityTestCase):
    def test_in_flight_it_is_given_again_with_a_fresh_timestamp(self) -> None:
        notebook = self.app("notebook")
        said = self.say("notebook: buy milk")
        first = notebook.next_message()
        self.kill_and_start()
        again = self.take(self.app("notebook"), said["id"], "buy milk")
        self.assertEqual(again.id, first.id)
        self.assertNotEqual(again.timestamp, first.timestamp)

    def test_in_flight_it_may_still_be_answered(self) -> None:
        notebook = self.app("notebook")
        said = self.say("notebook: buy milk")
        message = notebook.next_message()
        self.kill_and_start()
        self.app("notebook").ack(message)
        self.settled(said["id"], "delivered")

    def test_acknowledged_it_is_not_given_again(self) -> None:
        notebook = self.app("notebook")
        message = self.delivered(notebook, "notebook: buy milk")
        self.kill_and_start()
        self.assertEqual(self.state(message.id), "delivered")
        again = self.app("notebook")
        self.assert_nothing_before(again, message.id)

    def test_held_it_stays_held_and_can_be_routed(self) -> None:
        self.app("jukebox", MUSIC)
        said = self.say(NONSENSE)
        self.settled(said["id"], "held")
        self.kill_and_start()
        jukebox = self.app("jukebox", MUSIC)
        self.settled(said["id"], "held")
        self.command("hub", "route", said["id"], "jukebox")
        self.take(jukebox, said["id"], NONSENSE)

    def test_refused_it_stays_refused_with_its_reasons(self) -> None:
        notebook = self.app("notebook")
        said = self.say("notebook: x")
        notebook.reject(notebook.next_message(), "not today")
        before = self.settled(said["id"], "held")
        self.kill_and_start()
        after = self.message(said["id"])
        kept = ("state", "reason", "attempts")
        self.assertEqual([after[key] for key in kept], [before[key] for key in kept])

    def test_a_rejection_is_remembered_over_the_kill(self) -> None:
        self.serve("reroute_direct = true\n")
        notebook = self.app("notebook")
        jukebox = self.app("jukebox", MUSIC)
        said = self.say("notebook: play some songs from my favourite playlist")
        notebook.reject(notebook.next_message(), "not mine")
        jukebox.next_message()
        self.kill_and_start()
        notebook, jukebox = self.app("notebook"), self.app("jukebox", MUSIC)
        message = jukebox.next_message()
        self.assertEqual(message.id, said["id"])
        jukebox.ack(message)
        self.settled(said["id"], "delivered")
        self.assert_nothing_before(notebook, said["id"])

    def test_every_message_that_was_answered_is_there_after_a_kill_in_the_middle(self) -> None:
        accepted: list[tuple[str, str]] = []
        stop = threading.Event()

        def speak(who: int) -> None:
            at = 0
            while not stop.is_set():
                try:
                    text = f"speaker {who} number {at}"
                    accepted.append((self.say(f"notebook: {text}")["id"], text))
                except (OSError, http.client.HTTPException, AssertionError):
                    return
                at += 1

        notebook = self.app("notebook")
        speakers = [threading.Thread(target=speak, args=(who,), daemon=True) for who in range(4)]
        for speaker in speakers:
            speaker.start()
        eventually(lambda: len(accepted) >= 100, "a hundred messages")
        self.server.kill()
        stop.set()
        for speaker in speakers:
            speaker.join()
        self.server.start()
        again = self.app("notebook")
        missing = dict(accepted)
        while missing:
            message = again.next_message()
            self.assertEqual(missing.pop(message.id, message.text), message.text)
            again.ack(message)
        for identity, _ in accepted:
            self.settled(identity, "delivered")

    def test_notifications_and_texts_are_there_after_a_kill(self) -> None:
        notebook = self.app("notebook", NOTEBOOK)
        message = self.delivered(notebook, "notebook: schön \U0001f4d3")
        notebook.notify(message, title="Saved", body="In the diary.")
        eventually(lambda: self.message(message.id)["notifications"], "the notification is stored")
        before = self.message(message.id)
        self.kill_and_start()
        self.assertEqual(self.message(message.id), before)


if __name__ == "__main__":
    unittest.main()
