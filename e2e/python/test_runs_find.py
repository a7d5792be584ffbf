"""Runs are found, shown and read, at the command line and over the gateway, also after a crash."""

from __future__ import annotations

import json
import subprocess
import unittest

from gateway_case import GatewayTestCase
from gateway_client import TIMEOUT, eventually
from patchboard_server import binary
from stub_model import Call, Failure, Hold, Reply, Text

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
        events = self.events(newest["run"])
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

    def test_a_run_is_all_there_after_its_text_is_folded(self) -> None:
        held = [self.held() for _ in range(3)]
        steps = [step for number, hold in enumerate(held) for step in (Text(f"piece {number}, "), Hold(hold))]
        gateway = self.connect(Reply(*steps, Text("end")), before='[storage.retention]\nfold_deltas = "1s"\n')
        request = gateway.start("talk")
        for hold in held:
            gateway.next_of(request)
            hold.set()
        whole = gateway.turn(request)
        eventually(lambda: len(self.listed("--state", "completed")) == 1, "the run has ended")
        (run,) = self.listed()
        numbered = self.numbered(run["run"])
        self.assertGreater(self.records(run["run"]), 1, "streamed in several records")

        def is_folded() -> bool:
            # Old events are folded at a start and then once an hour.
            self.server.kill()
            self.server.restart()
            return self.records(run["run"]) == 1

        eventually(is_folded, "the text is folded")
        self.assertEqual(self.numbered(run["run"]), numbered)
        self.assertEqual(self.listed(), [run])
        again = self.another()
        attached = again.turn(again.ask("chat.attach", {"id": run["id"]}))
        self.assertEqual(attached.text, "piece 0, piece 1, piece 2, end")
        self.assertEqual(attached.frames[-1]["seq"], whole.frames[-1]["seq"])

    def events(self, run: str) -> list[dict]:
        read = self.patchboard("runs", "show", run, "--events", "--json")
        return [json.loads(line) for line in read.stdout.splitlines()]

    def records(self, run: str) -> int:
        return sum(event["event"] == "answer_text" for event in self.events(run))

    def numbered(self, run: str) -> dict[int, object]:
        """What each number stands for, whatever record it is in."""
        numbered: dict[int, object] = {}
        for event in self.events(run):
            pieces = event["data"].get("pieces")
            for offset, data in enumerate([event["data"]] if pieces is None else pieces):
                numbered[event["seq"] + offset] = (event["event"], data)
        return numbered


if __name__ == "__main__":
    unittest.main()
