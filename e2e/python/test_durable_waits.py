"""What runs wait for outlives the server: killed at random moments, the same question stays open and counts once."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from gateway_client import Gateway
from patchboard_server import Server, ServerTestCase, binary
from stub_model import Call, Reply, StubModel, Text

KILLS = 100
ASK = '[tools.approval]\nbash = "ask"\n'
LIGHT = {"name": "light", "description": "Switches the light.", "input_schema": {"type": "object"}}


class WaitingTestCase(ServerTestCase):
    def boot(self, more: str = ASK) -> Server:
        self.model = StubModel()
        self.addCleanup(self.model.close)
        # Files of the server lie in its own folder, where commands can add nothing.
        self.work = Path(tempfile.mkdtemp(prefix="patchboard-e2e-work-"))
        self.addCleanup(shutil.rmtree, self.work, ignore_errors=True)
        folder = json.dumps(str(self.work))
        where = f"[runs]\nworking_folder = {folder}\nallowed_roots = [{folder}]\n"
        self.server = self.start_server(config=self.model.provider_config("openai") + more + where)
        return self.server

    def operator(self) -> Gateway:
        token = (self.server.data_dir / "operator.token").read_text().strip()
        return Gateway(self.server, additional_headers={"Authorization": f"Bearer {token}"})

    def cli(self, *words: str) -> subprocess.CompletedProcess:
        command = [binary(), *words, "--data-dir", str(self.server.data_dir)]
        environment = self.server.environment()
        return subprocess.run(command, cwd=self.server.folder, env=environment, capture_output=True, text=True, timeout=30)

    def open_inputs(self) -> list[dict]:
        with self.operator() as operator:
            return operator.result("input.list")["items"]

    def crash(self) -> None:
        self.server.kill()
        self.server.start()

    def last_words(self, account: str = "alice") -> str:
        """The last message of the conversation, once its turn is recorded."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with self.operator() as operator:
                turns = operator.result("chat.history", channel="websocket", account=account)["items"]
            if turns:
                return json.dumps(turns[-1])
            time.sleep(0.05)
        raise AssertionError(f"the turn of {account} was not recorded\n{self.server.log()}")


class KilledTest(WaitingTestCase):
    def test_a_tool_that_is_approved_runs_once_whenever_the_server_is_killed(self) -> None:
        self.boot()
        luck = random.Random(16)
        kills, trial = 0, 0
        while kills < KILLS:
            trial += 1
            account = f"user{trial}"
            effects = self.work / f"effects-{trial}"
            command = f"echo ran >> {effects.name}"
            # What the model is asked after that, also again after a crash, it answers with an echo.
            self.model.script(Reply(Call("bash", {"command": command})))
            gateway = Gateway(self.server)
            request = gateway.start("do it", account=account)
            asked = gateway.until(request, "approval")[-1]["data"]
            with contextlib.suppress(Exception):
                gateway.close()
            for _ in range(luck.randrange(1, 5)):
                self.crash()
                kills += 1
                (waiting,) = self.open_inputs()
                self.assertEqual(waiting["input_id"], asked["approval_id"], "the same question")
            deadline = time.monotonic() + 60
            while not self.is_over(account):
                self.assertLess(time.monotonic(), deadline, f"trial {trial} does not end\n{self.server.log()}")
                for waiting in self.open_inputs():
                    # A call that may have run already is asked for again: the person looks before it answers.
                    has_run = effects.exists() and effects.read_text() != ""
                    with contextlib.suppress(Exception), self.operator() as operator:
                        operator.ask("input.answer", input_id=waiting["input_id"], approve=not has_run)
                        time.sleep(luck.random() * 0.03)
                if luck.random() < 0.3:
                    self.crash()
                    kills += 1
                time.sleep(0.01)
            # A turn may end as interrupted, when it was killed twice while the model was asked; its tool ran all the same.
            self.assertEqual(effects.read_text(), "ran\n", f"trial {trial} after {kills} kills\n{self.server.log()}")

    def is_over(self, account: str) -> bool:
        with self.operator() as operator:
            runs = operator.result("run.list", session=f"default:websocket:{account}:main")["items"]
        return all(run["state"] not in ("running", "waiting") for run in runs)


class AnsweredTest(WaitingTestCase):
    def wait_for_approval(self, **more: object) -> dict:
        self.model.script(Reply(Call("bash", {"command": "echo ran >> effects"})), Reply(Text("done")))
        gateway = Gateway(self.server)
        asked = gateway.until(gateway.start("do it", **more), "approval")[-1]["data"]
        gateway.close()
        return asked

    def test_after_a_crash_strangers_are_refused_and_one_that_joins_by_the_run_s_id_answers(self) -> None:
        self.boot()
        asked = self.wait_for_approval()
        self.crash()
        with Gateway(self.server) as other:
            self.assertEqual(other.result("input.list")["items"], [])
            error = other.error("approval.answer", approval_id=asked["approval_id"], approve=True)
            self.assertIn("only the connection that started the run", error)
            # To follow it as the session's newest run is not to know its id.
            by_session = other.ask("chat.attach", session="default:websocket:alice:main")
            other.until(by_session, "approval")
            self.assertIn("only the connection", other.error("approval.answer", approval_id=asked["approval_id"], approve=True))
        with Gateway(self.server) as own:
            joined = own.ask("chat.attach", run_id=asked["run_id"])
            own.until(joined, "approval")
            own.result("approval.answer", approval_id=asked["approval_id"], approve=True)
            own.until(joined, "done")
        self.assertEqual((self.work / "effects").read_text(), "ran\n")

    def test_a_call_allowed_for_the_session_is_not_asked_again(self) -> None:
        self.boot()
        self.model.script(
            Reply(Call("bash", {"command": "printf one"})),
            Reply(Text("1")),
            Reply(Call("bash", {"command": "printf two"})),
            Reply(Text("2")),
            Reply(Call("bash", {"command": "printf three; true"})),
            Reply(Text("3")),
        )
        with Gateway(self.server) as gateway:
            first = gateway.start("one")
            asked = gateway.until(first, "approval")[-1]["data"]
            self.assertIs(asked["session_offered"], True)
            gateway.result("approval.answer", approval_id=asked["approval_id"], approve=True, for_session=True)
            gateway.turn(first)
            self.assertNotIn("approval", gateway.chat("two").outline)
            third = gateway.start("three")
            asked = gateway.until(third, "approval")[-1]["data"]
            self.assertNotIn("session_offered", asked, "operators of the shell could hold any command")
            error = gateway.error("approval.answer", approval_id=asked["approval_id"], approve=True, for_session=True)
            self.assertIn("cannot be allowed for the session", error)
            gateway.result("approval.answer", approval_id=asked["approval_id"], approve=False)
            gateway.turn(third)

    def test_the_tool_of_a_client_is_run_by_the_client_across_a_crash(self) -> None:
        self.boot()
        self.model.script(Reply(Call("light", {"on": True})), Reply(Text("bright")))
        gateway = Gateway(self.server)
        request = gateway.start("light, please", tools=[LIGHT])
        wanted = gateway.until(request, "tool_call")[-1]["data"]
        self.assertEqual((wanted["name"], wanted["input"]), ("light", {"on": True}))
        gateway.close()
        self.crash()
        with self.operator() as operator:
            (waiting,) = operator.result("input.list")["items"]
            self.assertEqual((waiting["kind"], waiting["input_id"]), ("tool_call", wanted["input_id"]))
            operator.result("input.answer", input_id=wanted["input_id"], result={"content": "it is on"})
            late = operator.error("input.answer", input_id=wanted["input_id"], result={"content": "off"})
            self.assertIn("no such approval is waiting", late)
        self.assertIn("bright", self.last_words())
        self.assertIn("it is on", str(self.model.requests[-1].messages))

    def test_a_question_is_answered_from_the_command_line_after_a_crash(self) -> None:
        self.boot('tools = ["ask_user"]\n' + ASK)
        schema = {"type": "object", "required": ["colour"]}
        self.model.script(
            Reply(Call("ask_user", {"question": "Which colour?", "schema": schema})), Reply(Text("blue it is"))
        )
        gateway = Gateway(self.server)
        question = gateway.until(gateway.start("paint it"), "question")[-1]["data"]
        self.assertEqual((question["question"], question["schema"]), ("Which colour?", schema))
        gateway.close()
        self.crash()
        answer = ["approvals", "answer", question["input_id"], "--answer"]
        wrong = self.cli(*answer, '{"color": "blue"}')
        self.assertNotEqual(wrong.returncode, 0)
        self.assertIn("does not fit its schema", wrong.stderr)
        right = self.cli(*answer, '{"colour": "blue"}')
        self.assertEqual((right.returncode, right.stdout), (0, "answered\n"), right.stderr)
        self.assertIn("blue it is", self.last_words())

    def test_a_cancel_acknowledged_a_moment_before_the_kill_is_honoured(self) -> None:
        self.boot()
        for number in range(10):
            account = f"cancelled{number}"
            self.model.script(Reply(Call("bash", {"command": "echo ran >> effects"})))
            gateway = Gateway(self.server)
            request = gateway.start("do it", account=account)
            gateway.until(request, "approval")
            gateway.result("chat.cancel", id=request)
            self.crash()
            self.assertEqual(self.open_inputs(), [])
            with self.operator() as operator:
                attached = operator.ask("chat.attach", session=f"default:websocket:{account}:main")
                frames = operator.until(attached, "done")
            self.assertNotIn("error", [frame["event"] for frame in frames], frames)
        self.assertFalse((self.work / "effects").exists())


if __name__ == "__main__":
    unittest.main()
