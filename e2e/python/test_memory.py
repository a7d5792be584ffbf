"""What a prompt is made of: the soul, facts of this account and no other, recent turns; all under a cap that holds."""

from __future__ import annotations

import json
import unittest

from gateway_client import Gateway, eventually
from patchboard_server import Server, ServerTestCase
from stub_model import Failure, Reply, Request, StubModel, Text

KINDS = ("openai", "anthropic")


class MemoryTestCase(ServerTestCase):
    def connect(self, *behaviours, kind: str = "openai", more: str = "") -> Gateway:
        self.model = StubModel(*behaviours)
        self.addCleanup(self.model.close)
        self.server = self.start_server(config=self.model.provider_config(kind) + more)
        gateway = Gateway(self.server)
        self.addCleanup(gateway.close)
        return gateway

    @property
    def last_prompt(self) -> Request:
        return self.model.requests[-1]


def everything(request: Request) -> str:
    return json.dumps(request.body, ensure_ascii=False)


def tokens(request: Request) -> int:
    """A rough count of all that is said in a prompt, without the tools' schemas."""
    said = request.system_text + "".join(
        json.dumps(one, ensure_ascii=False) for one in request.messages if one["role"] != "system"
    )
    return len(said.encode()) // 4


class IsolationTest(MemoryTestCase):
    def test_a_fact_told_by_one_account_never_appears_in_another_account_s_prompt(self) -> None:
        for kind in KINDS:
            with self.subTest(kind):
                gateway = self.connect(kind=kind)
                gateway.chat(
                    "My name is Canarina. I live in Canaryville. My password is canary-tweet.", account="alice"
                )
                strangers = [
                    {"account": "bob"},
                    {"account": "alice", "channel": "telegram"},
                    {"account": "Alice"},
                    {"account": "alice "},
                    {"account": "bob", "peer": "alice"},
                    {"account": "alice:main"},
                    {"account": "ali%", "peer": "main"},
                ]
                for stranger in strangers:
                    gateway.chat("What is my name, where do I live, what is my password, alice?", **stranger)
                    self.assertNotIn("canar", everything(self.last_prompt).lower(), stranger)
                    where = {"channel": "websocket", **stranger}
                    where.pop("peer", None)
                    for query in ("name", "Canarina password live", "canary"):
                        self.assertEqual(gateway.result("memory.search", query=query, **where)["items"], [], stranger)

    def test_an_account_s_facts_follow_it_into_its_other_conversations(self) -> None:
        gateway = self.connect()
        gateway.chat("My name is Ada.", peer="one")
        gateway.chat("What is my name?", peer="two")
        self.assertIn("Ada", everything(self.last_prompt))

    def test_turns_stay_in_their_session(self) -> None:
        gateway = self.connect()
        gateway.chat("the eagle has landed", peer="one")
        gateway.chat("what has landed?", peer="two")
        self.assertNotIn("eagle", everything(self.last_prompt))


class FactTest(MemoryTestCase):
    def test_a_fact_told_long_ago_is_recalled_and_the_prompt_stays_small(self) -> None:
        for kind in KINDS:
            with self.subTest(kind):
                long = "All work and no play makes a dull day. " * 40
                gateway = self.connect(kind=kind)
                self.model.fallback = lambda request: Reply(Text(long), output_tokens=400)
                gateway.chat("By the way, my favourite instrument is the theremin.")
                for turn in range(48):
                    gateway.chat(f"{turn}: {long}")
                    self.assertLess(tokens(self.last_prompt), 5000 + tokens_of(long), f"turn {turn}")
                gateway.chat("Which instrument is my favourite?")
                self.assertIn("theremin", everything(self.last_prompt))
                self.assertLess(tokens(self.last_prompt), 5000)
                self.assertEqual(self.last_prompt.last_user_text, "Which instrument is my favourite?")

    def test_the_cap_holds_whatever_the_window_and_the_length_of_turns(self) -> None:
        huge = "Lorem ipsum dolor sit amet. " * 1500
        gateway = self.connect(more="context_window = 200000\n[memory]\nepisodic_window = 1000\n")
        self.model.fallback = lambda request: Reply(Text(huge), output_tokens=400)
        for turn in range(6):
            gateway.chat(f"{turn} {huge}")
            self.assertLess(tokens(self.last_prompt), 5000 + tokens_of(huge) + 100)
        gateway.chat("and now something short")
        self.assertLess(tokens(self.last_prompt), 5000)

    def test_a_newer_fact_takes_the_place_of_the_older(self) -> None:
        gateway = self.connect(more="[memory]\nepisodic_window = 0\n")
        gateway.chat("I live in Paris.")
        gateway.chat("I live in Berlin now, actually. Or rather: I live in Berlin.")
        gateway.chat("Where do I live?")
        self.assertIn("Berlin", everything(self.last_prompt))
        self.assertNotIn("Paris", everything(self.last_prompt))

    def test_any_unicode_text_is_safe_to_learn_from(self) -> None:
        gateway = self.connect(more="[memory]\nepisodic_window = 0\n")
        names = [
            "İİ my name is Ægir",
            "ẞẞ ŉ ǰ my name is Þórr",
            "my name is 山田太郎",
            "My name is \U0001f600\u200d\U0001f600",
            "my name is ",
        ]
        for said in names:
            with self.subTest(said):
                self.assertEqual(gateway.chat(said).events[-1], "done")
        gateway.chat("my name is 山田太郎")
        found = gateway.result("memory.search", query="name", channel="websocket", account="alice")["items"]
        self.assertEqual([one["object"] for one in found], ["山田太郎"])

    def test_facts_survive_a_kill(self) -> None:
        gateway = self.connect(more="[memory]\nepisodic_window = 0\n")
        gateway.chat("My name is Ada.")
        self.server.kill()
        with Gateway(self.server.restart()) as again:
            again.chat("What is my name?")
            self.assertIn("Ada", everything(self.last_prompt))

    def test_switched_off_nothing_is_learnt(self) -> None:
        gateway = self.connect(more="[memory]\nepisodic_window = 0\nsemantic = false\n")
        gateway.chat("My name is Ada.")
        gateway.chat("What is my name?")
        self.assertNotIn("Ada", everything(self.last_prompt))

    def test_a_failed_turn_teaches_nothing(self) -> None:
        gateway = self.connect(Failure(400))
        gateway.chat("My name is Ada.")
        found = gateway.result("memory.search", query="name Ada", channel="websocket", account="alice")["items"]
        self.assertEqual(found, [])


class TurnsTest(MemoryTestCase):
    def test_the_window_is_counted_in_turns(self) -> None:
        gateway = self.connect(more="[memory]\nepisodic_window = 2\n")
        for turn in range(4):
            gateway.chat(f"question {turn}")
        spoken = [one["content"] for one in self.last_prompt.messages if one["role"] != "system"]
        expected = ["question 1", "echo: question 1", "question 2", "echo: question 2", "question 3"]
        self.assertEqual(spoken, expected)


class SoulTest(MemoryTestCase):
    def test_the_soul_comes_first_in_every_prompt_and_is_read_again_when_it_changes(self) -> None:
        for kind in KINDS:
            with self.subTest(kind):
                self.model = StubModel()
                self.addCleanup(self.model.close)
                self.server = self.start_server_with_soul(kind, "I am Bartleby. I would prefer not to.")
                with Gateway(self.server) as gateway:
                    gateway.chat("My name is Ada.")
                    gateway.chat("What is my name?")
                    for request in self.model.requests:
                        self.assertTrue(request.system_text.startswith("I am Bartleby."), request.system_text)
                    self.assertLess(
                        self.last_prompt.system_text.index("Bartleby"), self.last_prompt.system_text.index("Ada")
                    )
                    (self.server.folder / "SOUL.md").write_text("I am Ishmael, and this text is longer.")
                    eventually(lambda: self.new_soul_is_used(gateway), "the changed soul is used")

    def new_soul_is_used(self, gateway: Gateway) -> bool:
        gateway.chat("Who are you?")
        return self.last_prompt.system_text.startswith("I am Ishmael")

    def start_server_with_soul(self, kind: str, soul: str) -> Server:
        server = Server(config=self.model.provider_config(kind) + 'soul = "SOUL.md"\n')
        self._own_servers.append(server)
        self.addCleanup(server.close)
        (server.folder / "SOUL.md").write_text(soul)
        return server.start()


def tokens_of(text: str) -> int:
    return len(text.encode()) // 4


if __name__ == "__main__":
    unittest.main()
