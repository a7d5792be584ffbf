"""Runs are found, shown and read, at the command line and over the gateway, also after a crash."""

from __future__ import annotations

import json
import subprocess
import unittest

from gateway_case import GatewayTestCase
from gateway_client import TIMEOUT, eventually
from patchboard_server import binary
from stub_model import Call, Failure, Reply, Text

NOBODY = "00000000-0000-7000-8000-000000000000"


class FindRunsTest(GatewayTestCase):
    def patchboard(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [binary(), *arguments, "--data-dir", str(self.server.data_dir)],
            env=self.server.environment(),
            cwd=self.server.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )

    def listed(self, *arguments: str) -> list[dict]:
        done = self.patchboard("runs", "list", "--json", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def titles(self, *arguments: str) -> list[str]:
        return [run["title"] for run in self.listed(*arguments)]

    def test_runs_are_listed_shown_and_read(self) -> None:
        gateway = self.connect(Reply(Text("one")), Failure(400), Reply(Text("th"), Text("ree")))
        for content in ("the first\nquestion", "the second", "the third"):
            gateway.chat(content)
        self.assertEqual(self.titles(), ["the third", "the second", "the first question"])
        self.assertEqual(self.titles("--state", "failed"), ["the second"])
        self.assertEqual(self.titles("--text", "FIRST"), ["the first question"])
        self.assertEqual(self.titles("--limit", "2"), ["the third", "the second"])
        for nothing in (["--agent", "nobody"], ["--state", "waiting"], ["--until", "2020-01-01"], ["--owner", "bob"]):
            self.assertEqual(self.titles(*nothing), [], nothing)
        newest = self.listed()[0]
        self.assertEqual(self.titles("--session", newest["session"], "--agent", "default")[0], "the third")
        self.assertEqual((newest["state"], newest["model"], newest["model_calls"]), ("completed", "main/stub-model", 1))

        shown = self.patchboard("runs", "show", newest["run"])
        self.assertIn("the third", shown.stdout)
        self.assertEqual(self.patchboard("runs", "show", newest["id"]).stdout, shown.stdout, "by the client's id")
        read = self.patchboard("runs", "show", newest["run"], "--events", "--json")
        events = [json.loads(line) for line in read.stdout.splitlines()]
        self.assertEqual((events[0]["event"], events[-1]["event"]), ("run_started", "done"))
        pieces = [piece for event in events if event["event"] == "answer_text" for piece in event["data"]["pieces"]]
        self.assertEqual("".join(pieces), "three")
        self.assertEqual(events[-1]["seq"], newest["last_seq"])

        for unknown in (NOBODY, "nobody"):
            refused = self.patchboard("runs", "show", unknown)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("patchboard runs list", refused.stderr)
        self.assertEqual(self.patchboard("runs", "list", "--state", "asleep").returncode, 2)

    def test_a_run_that_waits_says_what_for(self) -> None:
        gateway = self.connect(
            Reply(Call("read", {"path": "a.txt"})), Reply(Text("done")), more='[tools.approval]\nread = "ask"\n'
        )
        request = gateway.start("read it", approvals=True)
        asked = gateway.until(request, "approval")[-1]["data"]
        (run,) = self.listed("--state", "waiting")
        (wait,) = run["waits_for"]
        self.assertEqual((run["state"], wait["kind"], wait["name"]), ("waiting", "approval", "read"))
        self.assertEqual(wait["approval_id"], asked["approval_id"])
        self.assertEqual(self.titles("--state", "running"), [])
        self.assertIn(wait["approval_id"], self.patchboard("runs", "show", run["run"]).stdout)
        self.assertEqual(self.patchboard("approvals", "answer", wait["approval_id"], "--refuse").returncode, 0)
        gateway.turn(request)
        eventually(lambda: self.titles("--state", "completed") == ["read it"], "the run has ended")

    def test_runs_are_found_after_a_crash(self) -> None:
        gateway = self.connect(Reply(Text("one")))
        gateway.chat("before the crash")
        before = self.listed()
        self.server.kill()
        self.server.restart()
        self.assertEqual(self.listed(), before)


if __name__ == "__main__":
    unittest.main()
