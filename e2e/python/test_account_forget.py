"""What a user said can be corrected, taken along and forgotten: afterwards no file of the server holds a word of it."""

from __future__ import annotations

import json
import subprocess
import time
import unittest
from pathlib import Path

from channel_case import ChannelTestCase
from channel_stand_ins import Fail
from gateway_case import GatewayTestCase
from gateway_client import Gateway, eventually
from patchboard_server import Server, binary
from stub_model import Call, Hold, Reply, Text

CANARY = "Zanzibarcanary"
KILLS = 12
COMMAND_TIMEOUT = 120
APPROVALS_OFF = '[tools.approval]\n"*" = "allow"\n'


def files_with(folder: Path, words: str) -> list[str]:
    """Files that contain the words, in any spelling that a search index could have."""
    wanted = [words.encode(), words.lower().encode(), words.encode("utf-16-le")]
    found = []
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            if any(word in data for word in wanted):
                found.append(path.name)
    return found


def command(server: Server, *arguments: str, code: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run(
        [binary(), *arguments, "--data-dir", str(server.data_dir)],
        cwd=server.folder,
        env={**server.environment(), "HOME": str(server.folder / "home")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT,
    )
    assert done.returncode == code, f"{arguments}: {done.stdout}{done.stderr}"
    return done


class ForgetTest(GatewayTestCase):
    def test_nothing_is_left_of_a_forgotten_account(self) -> None:
        def tool_turn(name: str, **arguments) -> list[Reply]:
            return [Reply(Call(name, arguments)), Reply(Text(f"done with {CANARY}answer"))]

        alice = {"account": "alice"}
        gateway = self.connect(
            Reply(Text("hello")),
            *tool_turn("remember", key=f"{CANARY}key", value=f"{CANARY}value"),
            *tool_turn("read_file", path=f"{CANARY}file.txt"),
            *tool_turn("todo_write", todos=[{"content": f"{CANARY}todo", "status": "pending"}]),
            before=APPROVALS_OFF,
        )
        self.model.fallback = lambda request: Reply(Text("I see"))
        gateway.chat(f"my name is {CANARY}name and I live in {CANARY}town", **alice)
        for number in range(3):
            gateway.chat(f"{CANARY}ask {number}", **alice)
        gateway.chat("my name is Bob", account="bob")
        # Interleaved, so that both share pages of the database.
        for number in range(40):
            account = ("alice", "bob")[number % 2]
            long = (f"{CANARY} and more " if account == "alice" else "roses and tulips ") * (number * 7 + 1)
            gateway.chat(long, account=account, peer=f"peer-{number % 6}")
        gateway.chat(f"I live in {CANARY}city", **alice)
        gateway.result("session.rename", channel="websocket", account="alice", title=f"{CANARY}title")
        found = gateway.result("session.search", query=CANARY, limit=500)["items"]
        self.assertGreater(len(found), 20)

        # Her run is active when she is forgotten, and another one waits behind it.
        held = self.held()
        self.model.script(Reply(Text("a "), Hold(held)))
        running = gateway.start(f"{CANARY}running", **alice)
        gateway.until(running, "text")

        export = self.server.folder / "export.json"
        command(self.server, "memory", "export", "websocket/alice", "--out", str(export))
        exported = json.loads(export.read_text())
        self.assertEqual(set(exported), {"channel", "account", "facts", "sessions", "turns", "runs"})
        for section in ("facts", "sessions", "turns", "runs"):
            self.assertIn(CANARY, json.dumps(exported[section]), section)
        self.assertNotIn("roses", export.read_text())

        self.assertTrue(files_with(self.server.data_dir, CANARY), "otherwise this shows nothing")
        before = self.what_bob_has(gateway)
        cost = gateway.result("usage.report", group_by="model")["items"][0]
        refused = command(self.server, "account", "forget", "websocket/alice", code=2)
        self.assertIn("--yes", refused.stderr)
        done = command(self.server, "account", "forget", "websocket/alice", "--yes")
        self.assertIn("1 run is active and will be cancelled", done.stderr)
        self.assertIn("forgot websocket/alice: ", done.stdout)

        self.assertEqual(files_with(self.server.data_dir, CANARY), [])
        self.assertEqual(self.what_bob_has(gateway), before)
        self.assertEqual(gateway.result("session.search", query=CANARY)["items"], [])
        self.assertEqual(gateway.result("session.list", account="alice")["items"], [])
        accounts = gateway.result("memory.accounts")["items"]
        self.assertEqual([one["account"] for one in accounts], ["bob"])
        after = gateway.result("usage.report", group_by="model")["items"][0]
        self.assertGreaterEqual(after["input_tokens"], cost["input_tokens"], "the cost stays")
        usage = command(self.server, "usage", "--by", "session", "--limit", "100").stdout
        self.assertIn("forgotten", usage)
        self.assertNotIn("alice", usage)
        # Neither at the end of the process, nor after the next start.
        self.server.terminate()
        self.assertEqual(files_with(self.server.data_dir, CANARY), [])
        self.server.start()
        gateway = self.another()
        self.assertEqual(self.what_bob_has(gateway), before)
        self.model.fallback = lambda request: Reply(Text("who are you?"))
        self.assertEqual(gateway.chat("hello", **alice).text, "who are you?")
        self.assertEqual(len(gateway.result("chat.history", channel="websocket", account="alice")["items"]), 2)

    def test_a_deletion_that_is_cut_off_is_completed_by_the_next(self) -> None:
        gateway = self.connect()
        self.model.fallback = lambda request: Reply(Text("I see"))
        gateway.chat("my name is Bob", account="bob")
        self.fill_alice(gateway)
        began = time.monotonic()
        gateway.result("account.forget", channel="websocket", account="alice")
        whole = time.monotonic() - began
        cut = 0
        for attempt in range(KILLS):
            with self.subTest(attempt):
                self.fill_alice(gateway)
                bob = self.what_bob_has(gateway)
                gateway.send(
                    {"id": "f", "method": "account.forget", "params": {"channel": "websocket", "account": "alice"}}
                )
                # Kills are spread over the time that a deletion takes on this machine, however fast it is.
                time.sleep(whole * attempt / KILLS)
                self.server.kill()
                self.server.start()
                gateway = self.another()
                self.assertEqual(self.what_bob_has(gateway), bob)
                again = gateway.answer("account.forget", channel="websocket", account="alice")
                if "error" in again:
                    # All of it was deleted, and what is left in the file is erased by the start.
                    self.assertIn("nothing of yours is stored", again["error"])
                else:
                    cut += 1
                eventually(lambda: not files_with(self.server.data_dir, CANARY), "all of it is erased")
                self.assertEqual(self.what_bob_has(gateway), bob)
        self.assertGreater(cut, 0, "some were cut off before the end")

    def fill_alice(self, gateway: Gateway) -> None:
        for number in range(12):
            gateway.chat(f"{CANARY} {number} " * 900, account="alice", peer=f"p{number % 3}")
        gateway.chat(f"my name is {CANARY}", account="alice")
        gateway.result("session.search", query=CANARY)

    def test_facts_are_corrected_and_forgotten(self) -> None:
        gateway = self.connect()
        self.model.fallback = lambda request: Reply(Text("I see"))
        alice = {"channel": "websocket", "account": "alice"}
        gateway.chat(f"I live in {CANARY}", account="alice")
        (fact,) = gateway.result("memory.list", **alice)["items"]
        self.assertEqual((fact["object"], fact["session"]), (CANARY, "default:websocket:alice:main"))
        self.assertRegex(fact["run"], r"^[0-9a-f-]{36}$")
        command(self.server, "memory", "correct", "websocket/alice", str(fact["fact"]), "Bergen")
        gateway.chat("where do I live?", account="alice")
        self.assertIn("Bergen", json.dumps(self.model.requests[-1].body))
        facts = gateway.result("memory.list", superseded=True, **alice)["items"]
        self.assertEqual([one["object"] for one in facts], ["Bergen", CANARY])
        self.assertEqual(facts[0]["supersedes"], facts[1]["fact"])
        self.assertEqual(facts[1]["superseded_by"], facts[0]["fact"])
        shown = command(self.server, "memory", "list", "websocket/alice", "--superseded").stdout
        self.assertIn(f"replaced by fact {facts[0]['fact']}", shown)
        command(self.server, "memory", "forget", "websocket/alice", str(facts[0]["fact"]))
        self.assertEqual(gateway.result("memory.list", superseded=True, **alice)["items"], [])
        self.assertEqual(gateway.result("memory.search", query="Bergen", **alice)["items"], [])

    def what_bob_has(self, gateway: Gateway) -> dict:
        bob = {"channel": "websocket", "account": "bob"}
        return {
            "sessions": gateway.result("session.list", **bob)["items"],
            "history": gateway.result("chat.history", limit=500, **bob)["items"],
            "facts": gateway.result("memory.list", **bob)["items"],
            "found": gateway.result("session.search", query="roses", limit=500)["items"],
        }


class DeliveryTest(ChannelTestCase):
    def test_deliveries_of_a_forgotten_account_are_dropped(self) -> None:
        place = self.hook(Reply(Text(f"{CANARY} answer")))
        # The service is down, so that the answer stays in the database.
        for _ in range(50):
            place.next(Fail(500))
        sent = {"content": f"{CANARY} question", "account": "ada", "peer": "room", "reply_url": place.url}
        self.accepted(self.deliver_json(sent))
        place.wait_for_any(1)
        self.assertTrue(files_with(self.server.data_dir, CANARY))
        done = self.command("account", "forget", "hook/ada", "--yes")
        self.assertIn("forgot hook/ada: ", done.stdout)
        self.assertEqual(files_with(self.server.data_dir, CANARY), [])
        self.server.restart()
        self.assertEqual(files_with(self.server.data_dir, CANARY), [])


class ConversationTest(GatewayTestCase):
    def test_conversations_are_named_hidden_searched_and_forked(self) -> None:
        gateway = self.connect()
        self.model.fallback = lambda request: Reply(Text("I see"))
        gateway.chat("plan the  garden\nfor spring", account="alice")
        gateway.chat("and the roses", account="alice")
        (session,) = gateway.result("session.list")["items"]
        self.assertEqual(session["title"], "plan the garden for spring")
        key = session["session"]
        command(self.server, "sessions", "rename", key, "my garden")
        listed = command(self.server, "sessions", "list").stdout
        self.assertIn("my garden", listed)
        command(self.server, "sessions", "hide", key)
        self.assertEqual(gateway.result("session.list")["items"], [])
        self.assertEqual(gateway.result("session.list", hidden="only")["items"][0]["hidden"], True)
        command(self.server, "sessions", "hide", key, "--show")
        found = command(self.server, "sessions", "search", "roses").stdout
        self.assertIn("and the roses", found)
        forked = command(self.server, "sessions", "fork", key, "--turn", "1").stdout.strip()
        history = gateway.result("chat.history", session=key)["items"]
        operator = command(self.server, "sessions", "show", forked).stdout
        self.assertEqual((operator.count("user: "), len(history)), (1, 4))
        mine = gateway.result("session.fork", session=key)["session"]
        peer = mine.rsplit(":", 1)[1]
        gateway.chat("go on", account="alice", peer=peer)
        self.assertEqual(len(gateway.result("chat.history", session=mine)["items"]), 6)
        self.assertEqual(len(gateway.result("chat.history", session=key)["items"]), 4)


if __name__ == "__main__":
    unittest.main()
