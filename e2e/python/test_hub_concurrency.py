"""Many apps and many speakers at once: everything arrives once, and every outcome is kept."""

from __future__ import annotations

import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

from hub_case import HubTestCase
from hub_client import App, Message, exceptions

APPS, SPEAKERS, EACH = 12, 6, 40


class Worker:
    """An app that answers everything it is given, on a thread of its own, and notes what it was."""

    def __init__(self, case: HubTestCase, name: str, answer) -> None:
        self.app = case.app(name, f"Answers to the name {name}.")
        self.got: list[Message] = []
        self._answer = answer
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            while True:
                message = self.app.next_message(timeout=120)
                self.got.append(message)
                self._answer(self.app, message)
        except (exceptions.ConnectionClosed, TimeoutError):
            pass  # The test is over.


class CrowdTest(HubTestCase):
    def test_everything_arrives_once_where_it_was_sent(self) -> None:
        self.serve()
        workers = {f"app{at}": Worker(self, f"app{at}", App.ack) for at in range(APPS)}

        def speak(who: int) -> list[tuple[str, str, str]]:
            said = []
            for at in range(EACH):
                name, text = f"app{(who + at) % APPS}", f"speaker {who} number {at}"
                said.append((self.say(f"{name}: {text}")["id"], name, text))
            return said

        with ThreadPoolExecutor(SPEAKERS) as pool:
            everything = [one for said in pool.map(speak, range(SPEAKERS)) for one in said]
        for identity, name, _ in everything:
            (attempt,) = self.settled(identity, "delivered")["attempts"]
            self.assertEqual(attempt["client"], name)
        got = [(message.id, name, message.text) for name, worker in workers.items() for message in worker.got]
        self.assertEqual(sorted(got), sorted(everything))

    def test_mixed_outcomes_are_all_kept(self) -> None:
        self.serve("reroute_direct = false\n")

        def answer(app: App, message: Message) -> None:
            if "no" in message.text.split():
                app.reject(message, f"because of {message.text}")
            else:
                app.ack(message)
                app.notify(message, body=f"done: {message.text}")

        for at in range(4):
            Worker(self, f"app{at}", answer)
        said = {}
        with ThreadPoolExecutor(4) as pool:
            texts = [f"app{at % 4}: {'no' if at % 3 else 'yes'} {at}" for at in range(120)]
            for text, answered in zip(texts, pool.map(self.say, texts)):
                said[answered["id"]] = text
        for identity, text in said.items():
            words = text.split(": ")[1]
            if "no" in words.split():
                (attempt,) = self.settled(identity, "held")["attempts"]
                self.assertEqual(attempt["reason"], f"because of {words}")
            else:
                self.settled(identity, "delivered")

    def test_refused_by_everybody_nobody_was_asked_twice(self) -> None:
        self.serve("reroute_direct = true\n")
        workers = [Worker(self, f"app{at}", lambda app, message: app.reject(message, app.name)) for at in range(6)]
        said = self.say("app3: who wants it?")
        # The hub may leave it to the user before the last one was asked.
        attempts = self.settled(said["id"], "refused", "held")["attempts"]
        asked = [one["client"] for one in attempts]
        self.assertEqual((asked[0], len(asked)), ("app3", len(set(asked))))
        self.assertEqual([one["reason"] for one in attempts], asked)
        self.assertEqual([worker.app.name for worker in workers if worker.got], sorted(asked))
        self.assertEqual(sum(len(worker.got) for worker in workers), len(asked))

    def test_waiting_callers_each_get_their_own_answer(self) -> None:
        self.serve()
        def answer(app: App, message: Message) -> None:
            app.ack(message)
            app.notify(message, body="done")

        Worker(self, "notebook", answer)
        with ThreadPoolExecutor(10) as pool:
            answers = list(pool.map(lambda at: self.say(f"notebook: number {at}", wait=20), range(50)))
        self.assertEqual({answer["state"] for answer in answers}, {"delivered"})
        self.assertEqual(len({answer["id"] for answer in answers}), 50)


if __name__ == "__main__":
    unittest.main()
