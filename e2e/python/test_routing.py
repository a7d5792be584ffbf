"""Bindings: which agent answers whom, each with its own model, soul, tools and provider."""

from __future__ import annotations

import subprocess
import unittest

from gateway_client import TIMEOUT, Gateway
from patchboard_server import ServerTestCase, binary
from stub_model import Call, Reply, StubModel, Text

AGENTS = ("by_peer", "by_guild", "by_team", "by_account", "by_channel")
ORDER = """
[[bindings]]
agent = "by_channel"
channel = "telegram"
[[bindings]]
agent = "by_account"
account = "alice"
[[bindings]]
agent = "by_team"
team = "red"
[[bindings]]
agent = "by_guild"
guild = "smiths"
[[bindings]]
agent = "by_peer"
peer = "room"
"""


def agents(*names: str) -> str:
    return "".join(f'[agents.{name}]\nprovider = "main"\nmodel = "model-of-{name}"\n' for name in names)


class RoutingTest(ServerTestCase):
    def connect(self, more: str) -> Gateway:
        self.model = StubModel()
        self.addCleanup(self.model.close)
        self.server = self.start_server(config=self.model.provider_config("openai", model="model-of-default") + more)
        gateway = Gateway(self.server)
        self.addCleanup(gateway.close)
        return gateway

    def answered_by(self, gateway: Gateway, **where: str) -> str:
        """The agent whose model was asked; its name is in the session's key too."""
        self.assertEqual(gateway.chat("hi", **{"channel": "c", "account": "a", **where}).events[-1], "done")
        agent = self.model.requests[-1].body["model"].removeprefix("model-of-")
        newest = gateway.result("session.list", limit=1)["items"][0]
        self.assertTrue(newest["session"].startswith(f"{agent}:"), newest)
        return agent

    def test_peer_beats_guild_beats_team_beats_account_beats_channel_beats_default(self) -> None:
        gateway = self.connect(agents(*AGENTS) + ORDER)
        everything = {"peer": "room", "guild": "smiths", "team": "red", "account": "alice", "channel": "telegram"}
        for name, agent in zip(list(everything), AGENTS):
            with self.subTest(agent):
                self.assertEqual(self.answered_by(gateway, **everything), agent)
            del everything[name]
        self.assertEqual(self.answered_by(gateway), "default")

    def test_a_binding_matches_only_when_all_its_fields_do(self) -> None:
        both = '[[bindings]]\nagent = "vip"\nchannel = "whatsapp"\npeer = "x"\n'
        gateway = self.connect(agents("vip") + both)
        self.assertEqual(self.answered_by(gateway, channel="whatsapp", peer="x"), "vip")
        self.assertEqual(self.answered_by(gateway, channel="telegram", peer="x"), "default")
        self.assertEqual(self.answered_by(gateway, channel="whatsapp", peer="y"), "default")
        self.assertEqual(self.answered_by(gateway, channel="whatsapp"), "default")

    def test_agents_have_their_own_soul_prompt_and_tools(self) -> None:
        pirate = (
            '[agents.pirate]\nprovider = "main"\nmodel = "model-of-pirate"\nsystem_prompt = "Arr."\ntools = ["ls"]\n'
        )
        gateway = self.connect(pirate + '[[bindings]]\nagent = "pirate"\nchannel = "sea"\n')
        self.assertEqual(self.answered_by(gateway, channel="sea"), "pirate")
        self.assertIn("Arr.", self.model.requests[-1].system_text)
        self.assertEqual(self.model.requests[-1].tool_names, ["ls"])
        self.assertEqual(self.answered_by(gateway, channel="land"), "default")
        self.assertNotIn("Arr.", self.model.requests[-1].system_text)
        self.assertIn("read", self.model.requests[-1].tool_names)

    def test_a_tool_the_agent_does_not_have_cannot_be_called_all_the_same(self) -> None:
        gateway = self.connect('tools = ["ls"]\n')
        self.model.script(Reply(Call("read", {"path": "patchboard.toml"})), Reply(Text("no")))
        turn = gateway.chat("read it")
        self.assertEqual(turn.data("tool_result")[0]["is_error"], True)
        self.assertNotIn("provider", turn.data("tool_result")[0]["content"])

    def test_a_binding_to_an_unknown_agent_is_a_config_error(self) -> None:
        with StubModel() as model:
            server = self.start_server(config=model.provider_config("openai"))
            bad = server.folder / "bad.toml"
            bad.write_text('[[bindings]]\nagent = "nobody"\nchannel = "c"\n')
            for command in (["config", "check"], ["serve", "--data-dir", str(server.folder / "other")]):
                with self.subTest(command):
                    done = subprocess.run(
                        [binary(), *command, "--config", str(bad)],
                        capture_output=True,
                        text=True,
                        timeout=TIMEOUT,
                        stdin=subprocess.DEVNULL,
                    )
                    self.assertEqual(done.returncode, 2, done)
                    self.assertIn("nobody", done.stdout + done.stderr)
                    self.assertIn("bindings[0].agent", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
