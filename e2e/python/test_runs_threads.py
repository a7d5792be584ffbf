"""What stays from run to run: threads, memory, todo lists, the files that say who the agent is; and approvals."""

from __future__ import annotations

import json
import re
import subprocess
import unittest

from patchboard_server import Server, binary
from runs_case import RunsTestCase, tool_results_in, whole_text
from runs_client import Run, Runs
from runs_model import Thinker, candidate, said
from stub_model import Call, Failure, Hold, Reply, Request, Text

ALL = ["react", "dup", "tot", "got"]
NOTE = "what the note says"


def spoken(request: Request) -> list[tuple[str, str]]:
    """What the model is shown, without the system prompt."""
    shown = []
    for message in request.messages:
        if message["role"] in ("user", "assistant"):
            content = message["content"]
            text = content if isinstance(content, str) else "".join(part["text"] for part in content or [])
            shown.append((message["role"], text))
    return shown


class ThreadTest(RunsTestCase):
    def messages(self, runs: Runs, thread: str) -> list[tuple[str, str]]:
        listed = runs.ask("user_messages", thread_id=thread)["messages"]
        return [(one["role"], one["content"]) for one in listed]

    def test_a_thread_goes_on_where_it_was(self) -> None:
        runs = self.connect(Reply(Text("Hello Ada")), Reply(Text("You are Ada")))
        runs.run("I am Ada", thread_id="t")
        runs.run("Who am I?", thread_id="t")
        self.assertEqual(
            spoken(self.model.requests[1]), [("user", "I am Ada"), ("assistant", "Hello Ada"), ("user", "Who am I?")]
        )

    def test_runs_without_a_thread_know_nothing_of_each_other(self) -> None:
        runs = self.connect()
        runs.run("I am Ada", thread_id="t")
        runs.run("I am Bob")
        for fields in ({}, {"thread_id": "other"}, {"thread_id": None}):
            runs.run("Who am I?", **fields)
            self.assertEqual(spoken(self.model.requests[-1]), [("user", "Who am I?")])

    def test_any_strategy_continues_any_thread(self) -> None:
        runs = self.connect(fallback=Thinker())
        for first in ALL:
            thread = f"begun by {first}"
            told: list[tuple[str, str]] = []
            for at, agent in enumerate([first, *ALL]):
                message = f"message {at} for {agent}"
                run = runs.run(message, agent, thread_id=thread, working_folder=str(self.work))
                with self.subTest(thread=thread, agent=agent):
                    self.assert_whole(run, agent)
                    self.assertEqual(run.reply, "the answer")
                    (checkpoint,) = run.of("checkpoint")
                    self.assertEqual(checkpoint["thread_id"], thread)
                    for _, text in told:
                        self.assertIn(text, whole_text(self.model.requests[-1]), "what was said before is known")
                    told += [("user", message), ("assistant", "the answer")]
                    self.assertEqual(self.messages(runs, thread), told, "each message once, whatever the agent")

    def test_turn_counters_start_anew(self) -> None:
        def always_one_tool(request: Request):
            answered = request.messages[-1]["role"] == "tool"
            return said("done") if answered else Reply(Call("ls", {}))

        runs = self.connect(fallback=always_one_tool)
        for number in range(12):
            run = runs.run(f"number {number}", thread_id="t", working_folder=str(self.work))
            self.assertEqual(run.reply, "done")
            self.assertEqual(run.of("values")[-1]["state"]["turn_count"], 1)

    def test_tool_results_are_no_user_messages(self) -> None:
        runs = self.connect(Reply(Text("I look"), Call("read", {"path": "note.txt"})), Reply(Text("I see")))
        (self.work / "note.txt").write_text(NOTE)
        runs.run("read it", thread_id="t", working_folder=str(self.work))
        messages = self.messages(runs, "t")
        self.assertNotIn(NOTE, str(messages))
        self.assertEqual([text for role, text in messages if role == "user"], ["read it"])
        self.assertEqual(messages[-1], ("assistant", "I see"))

    def test_a_failed_run_leaves_its_thread_usable(self) -> None:
        runs = self.connect(Reply(Text("one")), Failure(400), Reply(Text("three")))
        runs.run("first", thread_id="t")
        self.assertEqual(runs.run("second", thread_id="t").ending["type"], "error")
        self.assertEqual(runs.run("third", thread_id="t").reply, "three")
        messages = self.messages(runs, "t")
        self.assertEqual(
            [message for message in messages if message[1] != "second"],
            [
                ("user", "first"),
                ("assistant", "one"),
                ("user", "third"),
                ("assistant", "three"),
            ],
        )
        self.assertLessEqual(messages.count(("user", "second")), 1)

    def test_two_runs_of_one_thread_do_not_mix(self) -> None:
        release = self.held()
        runs = self.connect(Reply(Text("slow "), Hold(release), Text("answer")))
        runs.start("first", thread_id="t")
        run = runs.until("message_chunk")
        other = self.another()
        other.start("second", thread_id="t")
        other.ask("ping")
        release.set()
        self.assertEqual(runs.finish(run).reply, "slow answer")
        self.assertEqual(other.finish().reply, "echo: second")
        self.assertEqual(
            self.messages(runs, "t"),
            [("user", "first"), ("assistant", "slow answer"), ("user", "second"), ("assistant", "echo: second")],
        )

    def test_a_thread_outlives_the_server(self) -> None:
        runs = self.connect()
        runs.run("I am Ada", thread_id="t")
        kept = self.messages(runs, "t")
        self.server.restart()
        with self.another() as later:
            self.assertEqual(self.messages(later, "t"), kept)
            later.run("Who am I?", thread_id="t")
            self.assertIn(("user", "I am Ada"), spoken(self.model.requests[-1]))


class SoulTest(RunsTestCase):
    def test_soul_and_agents_of_the_working_folder_are_in_every_strategy_s_prompt(self) -> None:
        runs = self.connect(fallback=Thinker())
        (self.work / "SOUL.md").write_text("You are a pirate called Morgan.")
        (self.work / "AGENTS.md").write_text("Tests are run with `make check`.")
        for agent in ALL:
            with self.subTest(agent):
                before = len(self.model.requests)
                runs.run("hi", agent, working_folder=str(self.work))
                for request in self.model.requests[before:]:
                    text = whole_text(request)
                    self.assertIn("You are a pirate called Morgan.", text)
                    self.assertIn("Tests are run with `make check`.", text)
                    self.assertIn(str(self.work), text)

    def test_the_soul_of_the_folder_replaces_the_agent_s_and_that_the_built_in_one(self) -> None:
        runs = self.connect(more='soul = "CONFIGURED.md"\n', **self.with_file("CONFIGURED.md", "You are a gardener."))
        other = self.folder_in(self.server, "other")
        (self.work / "SOUL.md").write_text("You are a pirate.")
        runs.run("hi", working_folder=str(self.work))
        runs.run("hi", working_folder=str(other))
        first, second = (request.system_text for request in self.model.requests)
        self.assertIn("You are a pirate.", first)
        self.assertNotIn("You are a gardener.", first)
        self.assertIn("You are a gardener.", second)
        self.assertNotIn("You are a pirate.", second)

    def with_file(self, name: str, text: str) -> dict:
        """The configured soul must be there when the server starts, and the folder is made by the server's class."""
        self.early = (name, text)
        return {}

    def start_server(self, **options):
        server = Server(**options)
        self._own_servers.append(server)
        self.addCleanup(server.close)
        name, text = getattr(self, "early", (None, None))
        if name:
            (server.folder / name).write_text(text)
        return server.start()

    def test_only_the_working_folder_counts_and_not_the_server_s(self) -> None:
        runs = self.connect()
        (self.server.folder / "SOUL.md").write_text("You are of the server.")
        (self.server.folder / "AGENTS.md").write_text("Rules of the server.")
        (self.work / "SOUL.md").write_text("You are of the folder.")
        runs.run("hi", working_folder=str(self.work))
        text = whole_text(self.model.requests[0])
        self.assertIn("You are of the folder.", text)
        self.assertNotIn("of the server", text)

    def test_a_changed_soul_counts_at_the_next_run_of_the_thread(self) -> None:
        runs = self.connect()
        for soul in ("You are red.", "You are blue."):
            (self.work / "SOUL.md").write_text(soul)
            runs.run("hi", thread_id="t", working_folder=str(self.work))
            self.assertIn(soul, self.model.requests[-1].system_text)
        self.assertNotIn("You are red.", self.model.requests[-1].system_text)

    def test_files_that_are_no_text_or_too_long_do_no_harm(self) -> None:
        runs = self.connect()
        (self.work / "SOUL.md").write_bytes(b"\xff\xfe\0")
        (self.work / "AGENTS.md").write_text("rule " * 1_000_000)
        run = runs.run("hi", working_folder=str(self.work))
        self.assertIn(run.ending["type"], ("run_end", "error"))
        self.assertLess(len(json.dumps(self.model.requests[0].body)) if self.model.requests else 0, 1_000_000)
        for name in ("SOUL.md", "AGENTS.md"):
            (self.work / name).unlink()
            (self.work / name).symlink_to("/etc/passwd")
        runs.run("hi", working_folder=str(self.work))
        self.assertNotIn("root:x:", whole_text(self.model.requests[-1]))


class MemoryTest(RunsTestCase):
    def call(self, runs: Runs, name: str, arguments: dict, **fields: object) -> dict:
        self.model.script(Reply(Call(name, arguments)), Reply(Text("done")))
        run = runs.run("go", working_folder=str(self.work), **fields)
        (end,) = run.of("tool_end")
        return end

    def test_todos_belong_to_their_thread(self) -> None:
        runs = self.connect()
        todos = [{"id": "1", "content": "wash the boat", "status": "pending", "priority": "high"}]
        self.assertFalse(self.call(runs, "todo_write", {"todos": todos}, thread_id="a")["is_error"])
        mine = self.call(runs, "todo_read", {}, thread_id="a")["result"]
        self.assertIn("wash the boat", mine)
        self.assertTrue(mine.startswith("1 todos\n"), mine)
        self.assertEqual(json.loads(mine.split("\n", 1)[1])[0]["content"], "wash the boat")
        for fields in ({"thread_id": "b"}, {}):
            self.assertNotIn("wash the boat", self.call(runs, "todo_read", {}, **fields)["result"])
        self.server.restart()
        with self.another() as later:
            self.assertIn("wash the boat", self.call(later, "todo_read", {}, thread_id="a")["result"])

    def test_what_is_remembered_is_recalled_by_later_runs(self) -> None:
        runs = self.connect()
        said_by_tool = self.call(runs, "remember", {"key": "boat", "value": "the boat is green"}, thread_id="a")
        self.assertFalse(said_by_tool["is_error"], said_by_tool)
        for fields in ({}, {"thread_id": "b"}):
            self.assertIn("the boat is green", self.call(runs, "recall", {"key": "boat"}, **fields)["result"])
        self.call(runs, "remember", {"key": "boat", "value": "the boat is blue"})
        self.assertIn("blue", self.call(runs, "recall", {"key": "boat"})["result"])
        self.assertNotIn("green", self.call(runs, "recall", {"key": "boat"})["result"])
        self.assertIn("boat", self.call(runs, "list_memories", {})["result"])
        self.assertIn("blue", self.call(runs, "search_memories", {"query": "boat"})["result"])
        self.assertTrue(self.call(runs, "recall", {"key": "car"})["is_error"])
        self.server.restart()
        with self.another() as later:
            self.assertIn("blue", self.call(later, "recall", {"key": "boat"})["result"])

    def test_recent_messages_are_those_of_the_thread(self) -> None:
        runs = self.connect()
        runs.run("I am Ada", thread_id="a")
        runs.run("I am Bob", thread_id="b")
        result = self.call(runs, "get_recent_messages", {}, thread_id="a")["result"]
        self.assertIn("I am Ada", result)
        self.assertNotIn("I am Bob", result)


class ApprovalTestCase(RunsTestCase):
    ASK = '\n[tools.approval]\nread = "ask"\n'

    def begin(self, more: str = ASK, agent: str = "react", **fields: object) -> tuple[Runs, Run]:
        """A run whose model wants to read the note, up to where somebody is asked."""
        runs = self.connect(Reply(Call("read", {"path": "note.txt"})), Reply(Text("I see")), more=more)
        (self.work / "note.txt").write_text(NOTE)
        runs.start("read my note", agent, working_folder=str(self.work), **fields)
        return runs, runs.until("tool_approval")

    def answer(self, runs: Runs, run: Run, approve: bool) -> None:
        asked = run.of("tool_approval")[-1]
        runs.send({"type": "tool_approve", "id": run.id, "call_id": asked["call_id"], "approve": approve})

    def assert_refused(self, run: Run) -> None:
        self.assert_whole(run, "react")
        (end,) = run.of("tool_end")
        self.assertTrue(end["is_error"])
        self.assertNotIn(NOTE, str(run.frames) + whole_text(self.model.requests[-1]))
        self.assertEqual(run.reply, "I see")


class ApprovalTest(ApprovalTestCase):
    def test_the_question_names_the_call(self) -> None:
        runs, run = self.begin()
        asked = run.events[-1]
        self.assertEqual(list(asked)[4:], ["call_id", "name", "arguments"])
        (call,) = run.of("tool_call")
        self.assertEqual(
            (asked["call_id"], asked["name"], asked["arguments"]), (call["call_id"], "read", {"path": "note.txt"})
        )
        self.assertEqual(asked["node_id"], "run-act-1")
        self.assertEqual(len(self.model.requests), 1, "the model waits for the tool")
        self.answer(runs, run, False)
        runs.finish(run)

    def test_approved_it_runs(self) -> None:
        runs, run = self.begin()
        self.answer(runs, run, True)
        run = runs.finish(run)
        self.assert_whole(run, "react")
        (end,) = run.of("tool_end")
        self.assertIs(end["is_error"], False)
        self.assertIn(NOTE, end["result"])
        mine = [event["type"] for event in run.events if event.get("call_id") == end["call_id"]]
        self.assertEqual([kind for kind in mine if kind != "tool_call_chunk"][0], "tool_call")
        self.assertLess(mine.index("tool_approval"), mine.index("tool_end"))
        self.assertEqual(run.reply, "I see")
        again = runs.attached(run.id)
        self.assertEqual((again.frames, again.ending), (run.frames, run.ending))

    def test_refused_the_model_is_told_and_goes_on(self) -> None:
        runs, run = self.begin()
        self.answer(runs, run, False)
        self.assert_refused(runs.finish(run))
        self.assertEqual(len(tool_results_in(self.model.requests[1])), 1)

    def test_unanswered_it_expires_into_a_refusal(self) -> None:
        runs, run = self.begin(self.ASK + '[limits]\napproval_timeout = "300ms"\n')
        self.assert_refused(runs.finish(run))
        # Too late.
        asked = run.of("tool_approval")[0]
        answer = runs.ask("tool_approve", id=run.id, call_id=asked["call_id"], approve=True)
        self.assertEqual(answer["type"], "error")

    def test_the_connection_is_alive_while_it_is_asked(self) -> None:
        runs, run = self.begin()
        self.assertEqual(runs.ask("ping", id="p"), {"type": "pong", "id": "p"})
        self.answer(runs, run, True)
        self.assertEqual(runs.finish(run).reply, "I see")

    def test_cancelled_while_it_is_asked(self) -> None:
        runs, run = self.begin()
        runs.send({"type": "cancel", "id": run.id})
        self.assertEqual(runs.finish(run).ending["type"], "error")
        self.assertNotIn(NOTE, str(run.frames))

    def test_in_every_strategy(self) -> None:
        def reading(request: Request):
            return said("I see") if NOTE in whole_text(request) else Reply(Call("read", {"path": "note.txt"}))

        def expand(request: Request):
            if NOTE in whole_text(request):
                return said(candidate(1, "that is it", word="FINAL"))
            return said(candidate(1, "read it", [{"name": "read", "arguments": {"path": "note.txt"}}]))

        runs = self.connect(fallback=Thinker(expand=expand, task=reading, other=reading), more=self.ASK)
        (self.work / "note.txt").write_text(NOTE)
        for agent in ALL:
            with self.subTest(agent):
                runs.start("read my note", agent, working_folder=str(self.work), id=f"run of {agent}")
                run = Run(f"run of {agent}")
                while run.ending is None:
                    runs.read(run)
                    if run.events and run.types[-1] == "tool_approval" and run.ending is None:
                        self.answer(runs, run, True)
                self.assert_whole(run, agent)
                self.assertTrue(run.of("tool_approval"))
                self.assertIn(NOTE, run.of("tool_end")[0]["result"])

    def test_each_call_is_asked_for_by_itself(self) -> None:
        calls = [Call("read", {"path": "note.txt"}, "a"), Call("read", {"path": "other.txt"}, "b"), Call("ls", {}, "c")]
        runs = self.connect(Reply(*calls), Reply(Text("done")), more=self.ASK)
        (self.work / "note.txt").write_text(NOTE)
        (self.work / "other.txt").write_text("what the other says")
        runs.start("go", working_folder=str(self.work), id="r")
        run = Run("r")
        while run.ending is None:
            runs.read(run)
            if run.ending is None and run.types[-1] == "tool_approval":
                asked = run.events[-1]
                approve = asked["arguments"]["path"] == "other.txt"
                runs.send({"type": "tool_approve", "id": "r", "call_id": asked["call_id"], "approve": approve})
        self.assert_whole(run, "react")
        self.assertEqual(len(run.of("tool_approval")), 2)
        ends = {event["call_id"]: event for event in run.of("tool_end")}
        note, other, ls = [ends[call["call_id"]] for call in run.of("tool_call")]
        self.assertEqual((note["is_error"], other["is_error"], ls["is_error"]), (True, False, False))
        self.assertNotIn(NOTE, str(run.frames))

    def test_what_is_no_answer(self) -> None:
        runs, run = self.begin()
        asked = run.of("tool_approval")[0]["call_id"]
        wrong = [
            {"call_id": "unknown", "approve": True},
            {"call_id": asked},
            {"approve": True},
            {"call_id": asked, "approve": "yes"},
            {"call_id": asked, "approve": 1},
            {"call_id": asked, "approve": None},
        ]
        for fields in wrong:
            with self.subTest(fields):
                self.assertEqual(runs.ask("tool_approve", id=run.id, **fields)["type"], "error")
        self.answer(runs, run, False)
        self.assert_refused(runs.finish(run))

    def test_an_answer_names_its_run(self) -> None:
        runs, run = self.begin()
        asked = run.of("tool_approval")[0]["call_id"]
        runs.send({"type": "tool_approve", "id": "no run", "call_id": asked, "approve": True})
        refused = runs.take(lambda frame: frame["type"] == "error")
        self.assertEqual((list(refused), refused["id"]), (["type", "id", "error"], "no run"))
        self.answer(runs, run, False)
        self.assert_refused(runs.finish(run))

    def test_denied_nobody_is_asked(self) -> None:
        runs = self.connect(
            Reply(Call("read", {"path": "note.txt"})), Reply(Text("I see")), more='\n[tools.approval]\nread = "deny"\n'
        )
        (self.work / "note.txt").write_text(NOTE)
        run = runs.run("read my note", working_folder=str(self.work))
        self.assertEqual(run.of("tool_approval"), [])
        self.assert_refused(run)

    def test_the_most_specific_pattern_wins(self) -> None:
        policy = '\n[tools.approval]\n"*" = "deny"\n"re*" = "ask"\nread = "allow"\n'
        runs = self.connect(Reply(Call("read", {"path": "note.txt"}), Call("ls", {})), Reply(Text("ok")), more=policy)
        (self.work / "note.txt").write_text(NOTE)
        run = runs.run("go", working_folder=str(self.work))
        results = run.tool_results()
        self.assertEqual((results["read"]["is_error"], results["ls"]["is_error"]), (False, True))

    def test_without_policy_nobody_is_asked(self) -> None:
        calls = [
            Call("write_file", {"path": "a.txt", "content": "x"}, "a"),
            Call("bash", {"command": "echo hello"}, "b"),
            Call("ls", {}, "c"),
        ]
        runs = self.connect(Reply(*calls), Reply(Text("done")))
        run = runs.run("go", working_folder=str(self.work))
        self.assertEqual(run.of("tool_approval"), [])
        self.assertEqual([event["is_error"] for event in run.of("tool_end")], [False] * 3)


class WhoMayAnswerTest(ApprovalTestCase):
    def test_another_connection_may_not(self) -> None:
        runs, run = self.begin()
        asked = run.of("tool_approval")[0]["call_id"]
        with self.another() as other:
            for approve in (True, False):
                answer = other.ask("tool_approve", id=run.id, call_id=asked, approve=approve)
                self.assertEqual((list(answer), answer["id"]), (["type", "id", "error"], run.id))
            # Not even one that watches.
            other.until("tool_approval", other.attach(run.id))
            other.send({"type": "tool_approve", "id": run.id, "call_id": asked, "approve": True})
            refused = other.take(lambda frame: frame["type"] == "error")
            self.assertEqual(refused["id"], run.id)
        self.assertEqual(run.of("tool_end"), [])
        self.answer(runs, run, True)
        self.assertEqual(runs.finish(run).reply, "I see")

    def test_a_refused_answer_does_not_end_what_is_watched(self) -> None:
        runs, run = self.begin()
        with self.another() as other:
            watched = other.until("tool_approval", other.attach(run.id))
            other.send({"type": "tool_approve", "id": run.id, "call_id": "unknown", "approve": True})
            other.take(lambda frame: frame["type"] == "error")
            self.answer(runs, run, True)
            ended = runs.finish(run)
            watched = other.finish(watched)
            self.assertEqual((watched.frames, watched.ending), (ended.frames, ended.ending))

    def test_the_operator_may_on_the_command_line(self) -> None:
        self.listen_on_the_gateway = True
        runs, run = self.begin()
        listed = self.cli("approvals", "list")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertIn("read", listed.stdout)
        identity = re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}", listed.stdout)
        self.assertIsNotNone(identity, listed.stdout)
        usage = self.cli("approvals", "answer", "--help").stdout
        flags = ["--approve"] if "--approve" in usage else ["yes"]
        done = self.cli("approvals", "answer", identity.group(), *flags)
        self.assertEqual(done.returncode, 0, done.stderr + usage)
        self.assertEqual(runs.finish(run).reply, "I see")
        self.assertIn(NOTE, run.of("tool_end")[0]["result"])

    def connect(self, *behaviours, **options) -> Runs:
        if getattr(self, "listen_on_the_gateway", False):
            options["gateway"] = "127.0.0.1:0"
        return super().connect(*behaviours, **options)

    def cli(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [binary(), *arguments, "--data-dir", str(self.server.data_dir)],
            env=self.server.environment(),
            cwd=self.server.folder,
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )


if __name__ == "__main__":
    unittest.main()
