"""`patchboard run` and what belongs to it: the reply, events as JSON, cancelling, joining again, approvals, tools."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from gateway_client import Gateway
from patchboard_server import binary
from stub_model import Call, Failure, Hold, Reply, Text
from test_cli import TIMEOUT, CliTestCase

POLL = 0.02


class RunCase(CliTestCase):
    def serve(self, *behaviours, more: str = "", **options) -> None:
        super().serve(*behaviours, more=more, runs="127.0.0.1:0", **options)

    def start_command(self, *arguments: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [binary(), *arguments],
            cwd=self.server.folder,
            env={**self.server.environment(), "HOME": str(self.server.folder / "home")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def wait_for(self, what, describe: str):
        """Asks until there is an answer, with a deadline."""
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            if found := what():
                return found
            time.sleep(POLL)
        self.fail(f"{describe} did not happen in {TIMEOUT} s")

    def approvals(self) -> list[dict]:
        return [json.loads(line) for line in self.good("approvals", "list", "--json", *self.data).splitlines()]

    def run_json(self, *arguments: str, code: int = 0) -> list[dict]:
        done = self.run_command("run", "--json", *arguments, *self.data)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]


class PlainTest(RunCase):
    def test_standard_output_is_the_reply_exactly_once(self) -> None:
        self.serve()
        done = self.run_command("run", "-m", "hi there", *self.data)
        self.assertEqual((done.returncode, done.stdout), (0, "echo: hi there\n"), done.stderr)
        self.assertRegex(done.stderr, r"^\d+ tokens in, \d+ out\n$")

    def test_it_is_no_conversation_of_the_gateway(self) -> None:
        self.serve()
        self.run_command("run", "-m", "hi", "--thread", "t", *self.data)
        with Gateway(self.server) as gateway:
            self.assertEqual(gateway.result("status")["sessions"], 0)
            gateway.chat("hi")
            self.assertEqual(gateway.result("status")["sessions"], 1)

    def test_plain_words_are_a_message_too(self) -> None:
        self.serve()
        self.assertEqual(self.run_command("run", "hi", "there", *self.data).stdout, "echo: hi there\n")

    def test_a_dash_reads_the_message_from_standard_input(self) -> None:
        self.serve()
        self.assertEqual(self.run_command("run", "-m", "-", *self.data, text="from a pipe").stdout, "echo: from a pipe\n")

    def test_tools_work_in_the_named_folder_and_what_is_said_before_them_is_not_the_reply(self) -> None:
        self.serve(Reply(Text("let me look"), Call("read", {"path": "note.txt"})), Reply(Text("it says so")))
        project = self.server.folder / "project"
        project.mkdir()
        (project / "note.txt").write_text("a secret note")
        done = self.run_command("run", "-m", "read it", "--working-folder", "project", *self.data)
        self.assertEqual((done.returncode, done.stdout), (0, "it says so\n"), done.stderr)
        self.assertIn("a secret note", str(self.model.requests[-1].messages))

    def test_a_thread_is_a_conversation(self) -> None:
        self.serve()
        self.run_command("run", "-m", "first", "--thread", "t", *self.data)
        self.run_command("run", "-m", "second", "--thread", "t", "--agent", "dup", *self.data)
        said = [one["content"] for one in self.model.requests[-1].messages]
        self.assertTrue(any("first" in str(one) for one in said), said)
        self.run_command("run", "-m", "alone", *self.data)
        self.assertNotIn("first", str(self.model.requests[-1].messages))

    def test_a_failed_run_says_why_and_exits_1(self) -> None:
        self.serve(Failure(400, "bad request of the model"))
        done = self.run_command("run", "-m", "hi", *self.data)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("error:", done.stderr)

    def test_an_unknown_agent_is_named(self) -> None:
        self.serve()
        done = self.run_command("run", "-m", "hi", "--agent", "nobody", *self.data)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("nobody", done.stderr)

    def test_a_configured_agent_is_run_by_its_name(self) -> None:
        self.serve(more='[agents.terse]\nprovider = "main"\nmodel = "stub-model"\nsystem_prompt = "Be terse."\n')
        self.assertEqual(self.run_command("run", "-m", "hi", "--agent", "terse", *self.data).stdout, "echo: hi\n")
        self.assertIn("Be terse.", self.model.requests[-1].system_text)

    def test_without_a_server_it_starts_one_for_itself(self) -> None:
        self.serve()
        self.server.terminate()
        # Not the folder itself, which holds the data directory.
        (self.server.folder / "work").mkdir()
        done = self.run_command("run", "-m", "hi", "-w", "work", *self.data, *self.config)
        self.assertEqual((done.returncode, done.stdout), (0, "echo: hi\n"), done.stderr)

    def test_a_server_without_runs_says_so(self) -> None:
        CliTestCase.serve(self)
        done = self.run_command("run", "-m", "hi", *self.data)
        self.assertEqual(done.returncode, 3)
        self.assertIn("--runs off", done.stderr)

    def test_it_reaches_a_server_by_address_with_the_token_from_the_environment(self) -> None:
        self.serve(more='[runs]\ntoken = "env:RUNS_TOKEN"\n', env={"RUNS_TOKEN": "t" * 32})
        url = self.server.address("runs")
        for address in (url, f"ws://{url}/", f"http://{url}"):
            done = self.run_command("run", "-m", "hi", "--url", address, env={"PATCHBOARD_TOKEN": "t" * 32})
            self.assertEqual((done.returncode, done.stdout), (0, "echo: hi\n"), done.stderr)
        for env in ({"PATCHBOARD_TOKEN": "wrong"}, {}):
            refused = self.run_command("run", "-m", "hi", "--url", url, env=env)
            # A server answers: it refuses.
            self.assertEqual((refused.returncode, refused.stdout), (1, ""), refused.stderr)
            self.assertIn("PATCHBOARD_TOKEN", refused.stderr)


class ServeTest(RunCase):
    def test_a_taken_port_of_runs_is_told_with_the_way_out(self) -> None:
        self.serve()
        other = ("--data-dir", str(self.server.folder / "other"), "--gateway", "127.0.0.1:0")
        told = self.bad(2, "serve", *other, "--runs", self.server.address("runs"))
        self.assertIn("PB0201", told)
        self.assertIn("--runs off", told)
        self.assertFalse((self.server.folder / "other" / "patchboard.db").exists(), "nothing is half-started")


class JsonTest(RunCase):
    def test_every_line_is_an_event_and_the_last_is_the_reply(self) -> None:
        self.serve(Reply(Text("let me "), Call("ls", {})), Reply(Text("s"), Text("een"), input_tokens=20))
        *events, last = self.run_json("-m", "hi", "--id", "mine")
        self.assertEqual([event["event_id"] for event in events], list(range(1, len(events) + 1)))
        self.assertEqual({event["session_id"] for event in events}, {"mine"})
        kinds = [event["type"] for event in events]
        self.assertEqual((kinds[0], kinds.count("tool_start"), kinds.count("tool_end")), ("run_start", 1, 1))
        self.assertEqual(list(last), ["reply", "session_id", "node_id", "event_id", "usage", "total_usage"])
        self.assertEqual((last["reply"], last["session_id"], last["event_id"]), ("let me \n\nseen", "mine", len(events) + 1))
        self.assertEqual(last["total_usage"], {"prompt_tokens": 30, "completion_tokens": 10, "total_tokens": 40})

    def test_a_failed_run_ends_with_the_error(self) -> None:
        self.serve(Failure(400))
        *_, last = self.run_json("-m", "hi", code=1)
        self.assertEqual(list(last), ["error"])

    def test_a_search_tells_its_thoughts(self) -> None:
        thoughts = "CANDIDATE 1: THOUGHT: look\nCANDIDATE 2: THOUGHT: guess\n"
        self.serve(Reply(Text(thoughts)), more="[agents.default.tot]\nbreadth = 2\ndepth = 1\n")
        *events, last = self.run_json("-m", "hi", "--agent", "tot")
        kinds = [event["type"] for event in events]
        self.assertTrue({"tot_expand", "tot_evaluate"} <= set(kinds), kinds)
        self.assertTrue(last["reply"], last)


class CancelTest(RunCase):
    def interrupted(self, *arguments: str) -> tuple[int, str, str]:
        self.serve(Reply(Text("one moment"), Hold(threading.Event())))
        process = self.start_command("run", "-m", "hi", "--id", "mine", *arguments, *self.data)
        (request,) = self.model.wait_for_requests(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertTrue(request.gone.wait(TIMEOUT), "the model was not let go")
        return process.returncode, out, err

    def test_ctrl_c_cancels_the_run(self) -> None:
        code, out, err = self.interrupted()
        self.assertEqual((code, out), (130, ""), err)
        self.assertIn("run cancelled", err)
        # The server remembers how it ended.
        done = self.run_command("attach", "mine", *self.data)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("run cancelled", done.stderr)

    def test_ctrl_c_is_told_in_json_too(self) -> None:
        code, out, _ = self.interrupted("--json")
        self.assertEqual(code, 130)
        self.assertEqual(json.loads(out.splitlines()[-1]), {"error": "run cancelled"})

    def test_ctrl_c_cancels_in_a_server_of_its_own_too(self) -> None:
        self.serve(Reply(Text("one moment"), Hold(threading.Event())))
        self.server.terminate()
        (self.server.folder / "work").mkdir()
        process = self.start_command("run", "-m", "hi", "-w", "work", *self.data, *self.config)
        (request,) = self.model.wait_for_requests(1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 130)
        self.assertTrue(request.gone.wait(TIMEOUT))


class AttachTest(RunCase):
    def test_a_detached_run_is_joined_from_any_event(self) -> None:
        going_on = threading.Event()
        self.serve(Reply(Text("now"), Hold(going_on), Text(" then")))
        self.assertEqual(self.good("run", "-m", "hi", "--id", "mine", "--detach", *self.data), "mine\n")
        self.model.wait_for_requests(1)
        going_on.set()
        done = self.run_command("attach", "mine", *self.data)
        self.assertEqual((done.returncode, done.stdout), (0, "now then\n"), done.stderr)
        every = self.run_command("attach", "mine", "--json", *self.data).stdout.splitlines()
        for after in range(len(every)):
            rest = self.run_command("attach", "mine", "--json", "--after", str(after), *self.data).stdout.splitlines()
            self.assertEqual(rest, every[after:])

    def test_a_run_without_a_name_is_given_one(self) -> None:
        self.serve()
        name = self.good("run", "-m", "hi", "--detach", *self.data).strip()
        self.assertRegex(name, r"^run-[0-9a-f-]{36}$")
        self.assertEqual(self.run_command("attach", name, *self.data).stdout, "echo: hi\n")

    def test_leaving_a_watched_run_does_not_end_it(self) -> None:
        going_on = threading.Event()
        self.serve(Reply(Text("now"), Hold(going_on), Text(" then")))
        self.good("run", "-m", "hi", "--id", "mine", "--detach", *self.data)
        watcher = self.start_command("attach", "mine", "--json", *self.data)
        self.assertIn("run_start", watcher.stdout.readline())
        watcher.send_signal(signal.SIGINT)
        watcher.communicate(timeout=TIMEOUT)
        self.assertEqual(watcher.returncode, 130)
        going_on.set()
        self.assertEqual(self.run_command("attach", "mine", *self.data).stdout, "now then\n")

    def test_an_unknown_run_is_an_error(self) -> None:
        self.serve()
        self.assertIn("unknown", self.bad(1, "attach", "nothing", *self.data))

    def test_a_detached_run_needs_a_server(self) -> None:
        self.serve()
        self.server.terminate()
        self.assertIn("patchboard serve", self.bad(3, "run", "-m", "hi", "--detach", *self.data, *self.config))


class ApprovalTest(RunCase):
    ASK = '[tools.approval]\nread = "ask"\n'

    def asked(self) -> subprocess.Popen:
        self.serve(Reply(Call("read", {"path": "note.txt"})), Reply(Text("I see")), more=self.ASK)
        (self.server.folder / "note.txt").write_text("what the note says")
        return self.start_command("run", "-m", "read my note", "--approvals", "wait", *self.data)

    def test_without_a_terminal_it_is_refused_at_once(self) -> None:
        for flags in ((), ("--approvals", "refuse"), ("--json",)):
            with self.subTest(flags):
                self.serve(Reply(Call("read", {"path": "note.txt"})), Reply(Text("I see")), more=self.ASK)
                (self.server.folder / "note.txt").write_text("what the note says")
                done = self.run_command("run", "-m", "read my note", *flags, *self.data)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn('needs approval and nobody can be asked here: read {"path":"note.txt"}', done.stderr)
                self.assertIn('"read" = "allow"', done.stderr)
                self.assertIn("--approvals wait", done.stderr)
                self.assertNotIn("what the note says", str(self.model.requests[-1].messages))
                self.assertEqual(self.approvals(), [])

    def test_a_detached_run_waits(self) -> None:
        self.serve(Reply(Call("read", {"path": "note.txt"})), Reply(Text("I see")), more=self.ASK)
        self.assertIn("--approvals", self.bad(2, "run", "-m", "x", "--detach", "--approvals", "refuse", *self.data))
        self.good("run", "-m", "read my note", "--detach", *self.data)
        (asked,) = self.wait_for(self.approvals, "an approval")
        self.good("approvals", "answer", asked["approval_id"], "--refuse", *self.data)

    def test_another_terminal_approves(self) -> None:
        process = self.asked()
        (asked,) = self.wait_for(self.approvals, "an approval")
        self.assertEqual((asked["name"], asked["input"]), ("read", {"path": "note.txt"}))
        self.assertIn(asked["approval_id"], self.good("approvals", "list", *self.data))
        self.assertEqual(self.good("approvals", "answer", asked["approval_id"], "--approve", *self.data), "approved\n")
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual((process.returncode, out), (0, "I see\n"), err)
        self.assertIn("what the note says", str(self.model.requests[-1].messages))

    def test_the_run_says_how_to_answer_and_that_works(self) -> None:
        process = self.asked()
        lines = [process.stderr.readline(), process.stderr.readline()]
        self.assertIn('approval wanted: read {"path":"note.txt"}', lines[0])
        command = lines[1].split("`")[1].split()
        self.assertEqual(command[:3], ["patchboard", "approvals", "answer"])
        self.assertEqual(self.good(*command[1:4], "--refuse", *self.data), "refused\n")
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual((process.returncode, out), (0, "I see\n"), err)
        self.assertNotIn("what the note says", str(self.model.requests[-1].messages))

    def test_nothing_to_answer_is_said(self) -> None:
        self.serve()
        self.assertIn("approvals list", self.bad(1, "approvals", "answer", "nothing", "--approve", *self.data))
        done = self.run_command("approvals", "list", *self.data)
        self.assertEqual((done.returncode, done.stdout), (0, ""))


class TerminalTest(RunCase):
    """With a person at the terminal."""

    def at_a_terminal(self, *arguments: str, answers: dict[str, str] | None = None) -> tuple[int, str]:
        """Gives what was shown; types an answer once its question stands there."""
        leader, follower = pty.openpty()
        self.addCleanup(os.close, leader)
        process = subprocess.Popen(
            [binary(), *arguments],
            cwd=self.server.folder,
            env={**self.server.environment(), "HOME": str(self.server.folder / "home"), "TERM": "xterm"},
            stdin=follower,
            stdout=follower,
            stderr=follower,
            start_new_session=True,
        )
        os.close(follower)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        shown, waiting = b"", dict(answers or {})
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            if select.select([leader], [], [], POLL)[0]:
                try:
                    shown += os.read(leader, 65536)
                except OSError:
                    break  # The other side is closed: it is over.
            for question in [one for one in waiting if one.encode() in shown]:
                os.write(leader, waiting.pop(question).encode())
        return process.wait(TIMEOUT), shown.decode().replace("\r\n", "\n")

    def test_the_reply_is_shown_once_with_what_happens_above(self) -> None:
        self.serve(Reply(Text("let me look"), Call("ls", {})), Reply(Text("se"), Text("en")))
        code, shown = self.at_a_terminal("run", "-m", "hi", *self.data)
        self.assertEqual(code, 0, shown)
        self.assertEqual(shown.count("seen"), 1, shown)
        order = [shown.index(part) for part in ("thinking · 0 s", "let me look\n", "· ls {}", "seen\n", "tokens in")]
        self.assertEqual(order, sorted(order), shown)

    def test_an_approval_is_asked_for(self) -> None:
        for answer, code in (("y\n", 0), ("\n", 0)):
            with self.subTest(answer):
                self.serve(Reply(Call("read", {"path": "note.txt"})), Reply(Text("I see")), more=ApprovalTest.ASK)
                (self.server.folder / "note.txt").write_text("what the note says")
                question = 'Allow read {"path":"note.txt"}? [y/N] '
                found, shown = self.at_a_terminal("run", "-m", "read", *self.data, answers={question: answer})
                self.assertEqual(found, code, shown)
                self.assertIn("I see\n", shown)
                self.assertEqual("what the note says" in str(self.model.requests[-1].messages), answer == "y\n")

    def test_a_graph_is_drawn_and_left_standing(self) -> None:
        plan = '{"nodes":[{"id":"first","description":"do it"},{"id":"second","description":"then this"}],"edges":[["first","second"]]}'
        self.serve(Reply(Text(plan)), Reply(Text("one")), Reply(Text("two")), Reply(Text("both done")))
        code, shown = self.at_a_terminal("run", "-m", "hi", "--agent", "got", *self.data)
        self.assertEqual(code, 0, shown)
        last = shown[shown.rindex("graph of tasks") :]
        self.assertIn("2 of 2 done", last)
        self.assertIn("✓ first", last)
        self.assertRegex(last, r"✓ second ← first")
        self.assertEqual(shown.count("both done"), 1, shown)
        self.assertLess(shown.rindex("2 of 2 done"), shown.index("both done"))


class ToolCallTest(RunCase):
    def test_a_tool_is_called_and_its_answer_printed(self) -> None:
        self.serve()
        (self.server.folder / "note.txt").write_text("one\n")
        self.assertEqual(self.good("tools", "call", "read", '{"path": "note.txt"}', *self.data), "     1\tone\n")
        answer = json.loads(self.good("tools", "call", "read", "-", "--json", *self.data, text='{"path": "note.txt"}'))
        self.assertEqual((list(answer), answer["is_error"]), (["content", "is_error"], False))

    def test_it_works_in_the_named_folder(self) -> None:
        self.serve()
        (self.server.folder / "sub").mkdir()
        (self.server.folder / "sub" / "here.txt").write_text("x")
        self.assertIn("here.txt", self.good("tools", "call", "ls", "--working-folder", "sub", *self.data))

    def test_failures_exit_1_and_wrong_arguments_2(self) -> None:
        self.serve()
        self.assertIn("error", self.bad(1, "tools", "call", "read", '{"path": "nothing"}', *self.data))
        self.assertIn("no tool is named `nope`", self.bad(1, "tools", "call", "nope", *self.data))
        self.assertIn("not JSON", self.bad(2, "tools", "call", "read", "path=x", *self.data))
        self.assertIn("not an object", self.bad(2, "tools", "call", "read", "[]", *self.data))

    def test_a_call_that_must_be_approved_is_approved_by_yes_or_from_elsewhere(self) -> None:
        self.serve(more=ApprovalTest.ASK)
        (self.server.folder / "note.txt").write_text("one\n")
        call = ("tools", "call", "read", '{"path": "note.txt"}', *self.data)
        self.assertEqual(self.good(*call, "--yes"), "     1\tone\n")
        refused = self.bad(1, *call)
        for words in ('"read" = "allow"', "--yes", "--approvals wait"):
            self.assertIn(words, refused)
        process = self.start_command(*call, "--approvals", "wait")
        (asked,) = self.wait_for(self.approvals, "an approval")
        self.good("approvals", "answer", asked["approval_id"], "--refuse", *self.data)
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual((process.returncode, out), (1, ""), err)


# An MCP server on standard input and output that offers what the file beside it names.
MCP_SERVER = """
import json, os, pathlib, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    names = pathlib.Path(os.environ["OFFER"]).read_text().split()
    tools = [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in names]
    result = {
        "initialize": {"protocolVersion": asked.get("params", {}).get("protocolVersion"),
                       "capabilities": {"tools": {}}, "serverInfo": {"name": "offers", "version": "1"}},
        "tools/list": {"tools": tools},
        "tools/call": {"content": [{"type": "text", "text": "called " + asked.get("params", {}).get("name", "")}]},
    }.get(asked["method"], {})
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


class ApproveToolsTest(RunCase):
    def tools(self) -> list[str]:
        listed = self.good("tools", "list", "--json", *self.data).splitlines()
        return [tool["name"] for tool in map(json.loads, listed) if tool["kind"] == "mcp"]

    def test_tools_of_a_changed_mcp_server_are_offered_once_approved(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="patchboard-e2e-")
        self.addCleanup(folder.cleanup)
        # Not beside the script, whose folder counts as its code.
        program, offer = Path(folder.name) / "code/server.py", Path(folder.name) / "offer.txt"
        program.parent.mkdir()
        program.write_text(MCP_SERVER)
        offer.write_text("old")
        env = f'env = {{ OFFER = "{offer}" }}'
        self.serve(more=f"[mcp.offers]\ncommand = {json.dumps([sys.executable, str(program)])}\n{env}\n")
        self.wait_for(lambda: self.tools() == ["offers.old"], "the first offer")
        self.assertEqual(self.good("tools", "call", "offers.old", "--yes", *self.data), "called old\n")
        offer.write_text("old new")
        self.server.restart()
        self.wait_for(lambda: "tools approve offers" in self.server.log(), "the warning")
        self.assertEqual(self.tools(), ["offers.old"])
        self.assertEqual(self.good("tools", "approve", "offers", *self.data), "offers.new\n")
        self.assertEqual(self.tools(), ["offers.new", "offers.old"])

    def test_an_unknown_server_is_named(self) -> None:
        self.serve()
        self.assertIn("nobody", self.bad(1, "tools", "approve", "nobody", *self.data))


if __name__ == "__main__":
    unittest.main()
