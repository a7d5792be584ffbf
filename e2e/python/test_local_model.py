"""A real model in the loop: `serve --local-model` on a fresh data directory, and a chat through the gateway."""

# begins early: fetches and starts a model
from __future__ import annotations

import re
import unittest

from gateway_client import Gateway
from patchboard_server import NotReady, Server, ServerTestCase

# The likeliest words only: what a model says by chance may be a single one. A few of them show as much as many, but
# `carol` needs an answer that is not over before it is cancelled.
LONGEST_ANSWER = 16
CONFIG = f"""
[agents.default]
max_tokens = {LONGEST_ANSWER}
temperature = 0.0
[agents.talker]
max_tokens = 48
temperature = 0.0
[[bindings]]
agent = "talker"
account = "carol"
"""
# Fetching and installing 127 MB on a slow line, then loading the weights.
READY_TIMEOUT = 360.0
ANSWER_TIMEOUT = 120.0
# Only what is not Patchboard's fault: no network, no wheel for this machine, no Python, no room.
CANNOT_BE_HAD = [
    r"installing packages with pip failed",
    r"no Python 3\.1\d or newer found",
    r"has neither the venv nor the pip module",
    r"no space left for the local model",
]


def is_nobody_s_fault(server: Server, line: str) -> bool:
    # A package that is not the one that was pinned is somebody's fault.
    right_code = server.process is not None and server.process.returncode == 2
    return right_code and "HASH" not in line.upper() and any(re.search(reason, line) for reason in CANNOT_BE_HAD)


class LocalModelTest(ServerTestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server(arguments=("--local-model",), config=CONFIG)
        cls.addClassCleanup(cls.server.close)
        try:
            cls.server.start(READY_TIMEOUT)
        except NotReady as why:
            for line in str(why).splitlines():
                if is_nobody_s_fault(cls.server, line):
                    raise unittest.SkipTest(f"the local model's packages cannot be had here: {line}") from None
            raise

    def setUp(self) -> None:
        # Its log is shown when this test fails.
        self._own_servers.append(self.server)

    def test_a_chat_is_streamed_by_a_real_model(self) -> None:
        with Gateway(self.server) as gateway:
            turn = gateway.turn(gateway.start("Tell me a story about a fox and a crow."), ANSWER_TIMEOUT)
            self.assertEqual(turn.outline, ["text", "usage", "done"])
            self.assertGreater(turn.events.count("text"), 1, "it is streamed in several pieces")
            self.assertRegex(turn.text, r"\w{2,}", "it says something")
            self.assertNotIn("No language model is configured", turn.text)
            given, written = turn.usage
            self.assertGreater(given, 5)
            self.assertTrue(1 < written <= LONGEST_ANSWER, written)

    def test_what_was_said_before_is_part_of_the_next_prompt(self) -> None:
        with Gateway(self.server) as gateway:
            where = {"account": "bob"}
            first = gateway.turn(gateway.start("Hello there", **where), ANSWER_TIMEOUT)
            second = gateway.turn(gateway.start("Hello there", **where), ANSWER_TIMEOUT)
            self.assertGreater(second.usage[0], first.usage[0])
            rows = gateway.result("usage.report", group_by="session")["items"]
            (row,) = [row for row in rows if ":bob:" in row["key"]]
            self.assertEqual((row["calls"], row["estimated_calls"]), (2, 0), "the figures are the model's own")

    def test_several_chats_at_once_are_all_answered(self) -> None:
        with Gateway(self.server) as gateway:
            requests = [gateway.start(f"Count to {n}.", account=f"a{n}") for n in (3, 4, 5)]
            for request in requests:
                turn = gateway.turn(request, ANSWER_TIMEOUT)
                self.assertEqual((turn.errors, turn.events[-1]), ([], "done"))

    def test_cancelling_frees_the_model(self) -> None:
        with Gateway(self.server) as gateway:
            request = gateway.start("Tell me a long story.", account="carol")
            gateway.until(request, "text", ANSWER_TIMEOUT)
            gateway.result("chat.cancel", id=request)
            self.assertEqual(gateway.turn(request).events[-1], "done")
            self.assertEqual(gateway.turn(gateway.start("Hi", account="carol"), ANSWER_TIMEOUT).events[-1], "done")


if __name__ == "__main__":
    unittest.main()
