"""SIGKILL at many moments of a run. After the restart the run goes on: one sequence of events without a gap, the node
that was cut shown as interrupted and entered again, each tool run once, and one end.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
import unittest
from typing import Callable

from gateway_client import eventually
from patchboard_server import binary
from runs_case import RunsTestCase, tool_results_in, whole_text
from runs_client import TIMEOUT, Run, Runs, processes_with
from runs_model import Thinker, candidate, part_of, said, task_of
from stub_model import Call, Hold, Reply, Request, Text

INTERRUPTED = {"Err": "interrupted"}


class Scene:
    """A server with a run that is cut by killing it, and what its client saw until then."""

    def __init__(self, test: CrashTestCase, model: Callable[[Request], Reply], more: str = "", **options) -> None:
        self.test = test
        # The run that shows that life goes on is none of the model's business.
        other = lambda request: said("fine") if "and now?" in request.last_user_text else model(request)  # noqa: E731
        self.runs = test.connect(fallback=other, more=more, **options)
        self.server = test.server
        self.work = test.work
        self.log = self.work / "log.txt"
        self.run = Run("")

    def start(self, agent: str = "react", **fields: object) -> Scene:
        self.agent = agent
        self.runs.start("do your work", agent, working_folder=str(self.work), **fields)
        self.run = self.runs.read()
        return self

    def see(self, kind: str, **fields: object) -> Scene:
        self.runs.until(kind, self.run, **fields)
        return self

    def kill_and_restart(self) -> Runs:
        self.server.kill()
        self.server.start()
        return self.test.another()

    @property
    def lines(self) -> list[str]:
        return self.log.read_text().split() if self.log.exists() else []


class CrashTestCase(RunsTestCase):
    def once(self) -> Callable[[], Hold | Text]:
        """Gives a `Hold` for ever the first time, and nothing to wait for ever after: the run is cut there once."""
        never, passed = self.held(), self.held()
        passed.set()
        lock = threading.Lock()
        used: list[bool] = []

        def step() -> Hold:
            with lock:
                first = not used
                used.append(True)
            return Hold(never if first else passed)

        return step

    def recover(self, scene: Scene, *cut: str, reply: str = "done", lines: list[str] | None = None) -> Run:
        """Kills the server and looks at how the run goes on. `cut` are the nodes that were at work."""
        later = scene.kill_and_restart()
        return self.check(scene, later.attached(scene.run.id), *cut, reply=reply, lines=lines)

    def recover_from_anywhere(self, scene: Scene, **expected) -> Run:
        """Where the kill met the server is not known to its client: at most one node was at work."""
        run = scene.kill_and_restart().attached(scene.run.id)
        cut = [event["id"] for event in run.of("node_exit") if event["result"] == INTERRUPTED]
        self.assertLessEqual(len(cut), 1)
        return self.check(scene, run, *cut, **expected)

    def check(self, scene: Scene, run: Run, *cut: str, reply: str = "done", lines: list[str] | None = None) -> Run:
        self.assertEqual(run.frames[: len(scene.run.frames)], scene.run.frames, "not what was seen before")
        self.assert_whole(run, scene.agent)
        self.assertEqual(run.reply, reply)
        failed = [event for event in run.of("node_exit") if event["result"] != "Ok"]
        self.assertEqual([event["result"] for event in failed], [INTERRUPTED] * len(failed))
        self.assertEqual(sorted(event["id"] for event in failed), sorted(cut))
        for event in failed:
            later = [one["id"] for one in run.events[event["event_id"] :] if one["type"] == "node_enter"]
            self.assertIn(event["id"], later, "cut, and not entered again")
        if len(cut) == 1:
            self.assertEqual(self.next_node(run, failed[0]), cut[0], "the cut node is the next to be entered")
        if lines is not None:
            self.assertEqual(scene.lines, lines, "how often the tools ran")
        self.check_again(scene, run)
        return run

    def next_node(self, run: Run, event: dict) -> str:
        return next(one["id"] for one in run.events[event["event_id"] :] if one["type"] == "node_enter")

    def check_again(self, scene: Scene, run: Run) -> None:
        """Whoever attaches later sees the same, from wherever they left off; and there is one end."""
        with self.another() as later:
            for after in (0, len(scene.run.frames), len(run.frames)):
                again = later.attached(run.id, after)
                self.assertEqual((again.frames, again.ending), (run.frames[after:], run.ending))
            self.assertEqual(later.ask("ping", id="p")["type"], "pong")
            self.assertEqual(later.run("and now?").reply, "fine", "life goes on")


def appending(line: str) -> Call:
    return Call("write_file", {"path": "log.txt", "content": line + "\n", "append": True}, line)


class TextTest(CrashTestCase):
    def test_before_the_first_text(self) -> None:
        stop = self.once()
        scene = Scene(self, lambda request: Reply(stop(), Text("done"))).start()
        self.model.wait_for_requests(1)
        scene.see("node_enter")
        self.recover(scene, "think")

    def test_in_the_middle_of_a_text(self) -> None:
        for seen in (1, 7):
            with self.subTest(seen=seen):
                stop = self.once()
                words = [Text(f"word {n} ") for n in range(seen)]

                def model(request: Request) -> Reply:
                    return Reply(*words, stop(), Text("done"))

                scene = Scene(self, model).start()
                scene.see("message_chunk", content=f"word {seen - 1} ")
                reply = "".join(word.text for word in words) + "done"
                run = self.recover(scene, "think", reply=reply)
                # What the cut node said stays on record; it is said again by the node that was entered anew.
                self.assertEqual(run.text, reply[: -len("done")] + reply)

    def test_in_a_burst_of_text(self) -> None:
        words = [Text(f"{n} ") for n in range(2_000)]
        scene = Scene(self, lambda request: Reply(*words)).start()
        scene.see("message_chunk", content="500 ")
        # The model may have been done before the client had read it all.
        self.recover_from_anywhere(scene, reply="".join(word.text for word in words))

    def test_right_before_the_end(self) -> None:
        for kind in ("usage", "node_exit", "values", "updates"):
            with self.subTest(kind):
                scene = Scene(self, lambda request: said("done")).start().see(kind)
                self.recover_from_anywhere(scene)

    def test_right_after_the_checkpoint(self) -> None:
        scene = Scene(self, lambda request: said("done")).start(thread_id="t").see("checkpoint")
        self.recover_from_anywhere(scene)
        messages = self.another().ask("user_messages", thread_id="t")["messages"]
        self.assertEqual([one["content"] for one in messages], ["do your work", "done"])

    def test_right_after_the_end(self) -> None:
        scene = Scene(self, lambda request: said("done")).start()
        ended = scene.runs.finish(scene.run)
        run = self.recover(scene)
        self.assertEqual((run.frames, run.ending), (ended.frames, ended.ending))


class ToolTest(CrashTestCase):
    def one_after_the_other(self, *calls: Call):
        """A model that makes one call a turn and then is done."""

        def model(request: Request) -> Reply:
            turn = len(tool_results_in(request))
            return Reply(Text(f"turn {turn} "), calls[turn]) if turn < len(calls) else said("done")

        return model

    def test_after_tool_call(self) -> None:
        self.check_appended("tool_call")

    def test_after_tool_start(self) -> None:
        self.check_appended("tool_start")

    def test_after_the_result(self) -> None:
        self.check_appended("tool_end")

    def check_appended(self, kind: str) -> None:
        """Cut between the writing and the noting of it, the outcome is unknown: it is never done twice, and where it
        was not done the model was told."""
        scene = Scene(self, self.one_after_the_other(appending("a"), appending("b"))).start()
        scene.see(kind)
        run = self.recover_from_anywhere(scene, reply="turn 0 \n\nturn 1 \n\ndone")
        self.assertLessEqual(max(map(scene.lines.count, scene.lines)), 1, scene.lines)
        first, second = (call["call_id"] for call in run.of("tool_call"))
        failed = {event["call_id"]: event["is_error"] for event in run.of("tool_end")}
        for identity, line in ((first, "a"), (second, "b")):
            self.assertTrue(line in scene.lines or failed[identity], f"`{line}` is missing and nobody was told")
        if kind == "tool_end":
            self.assertEqual((scene.lines, failed[first]), (["a", "b"], False))

    # A command of unknown outcome is asked about; nobody answers here.
    SOON = '\n[limits]\napproval_timeout = "300ms"\n'

    def test_during_a_tool(self) -> None:
        mark = f"0.03{os.getpid()}{time.monotonic_ns()}"
        command = f"echo ran >> log.txt; while [ ! -e go ]; do sleep {mark}; done; echo finished"
        model = self.one_after_the_other(Call("bash", {"command": command}))
        scene = Scene(self, model, more=self.SOON).start().see("tool_start")
        eventually(lambda: scene.lines == ["ran"], "the command has begun", TIMEOUT)
        scene.server.kill()
        eventually(lambda: not processes_with(mark), "the command ends with its server", TIMEOUT)
        (scene.work / "go").touch()
        run = self.recover(scene, "act", reply="turn 0 \n\ndone", lines=["ran"])
        self.assertIn("it may already have run", run.of("tool_approval")[-1]["reason"])
        # Nobody knows how far it came; the model is told so.
        self.assertTrue(run.of("tool_end")[-1]["is_error"], run.of("tool_end"))
        self.assertEqual(len(tool_results_in(self.model.requests[1])), 1)

    def test_between_tools(self) -> None:
        stop = self.once()

        def model(request: Request) -> Reply:
            done = len(tool_results_in(request))
            if done == 0:
                return Reply(appending("a"))
            return Reply(stop(), appending("b")) if done == 1 else said("done")

        scene = Scene(self, model).start()
        scene.see("node_enter", id="think", node_id="run-think-4")
        self.model.wait_for_requests(2)
        self.recover(scene, "think", lines=["a", "b"])

    def test_one_of_two_tools_at_once_is_done(self) -> None:
        command = "echo b >> log.txt; while [ ! -e go ]; do sleep 0.05; done; echo finished"

        def model(request: Request) -> Reply:
            if tool_results_in(request):
                return said("done")
            return Reply(appending("a"), Call("bash", {"command": command}, "b"))

        scene = Scene(self, model, more=self.SOON).start()
        scene.see("tool_end", name="write_file")
        eventually(lambda: sorted(scene.lines) == ["a", "b"], "both have begun", TIMEOUT)
        scene.server.kill()
        (scene.work / "go").touch()
        run = self.recover(scene, "act")
        self.assertIn("it may already have run", run.of("tool_approval")[-1]["reason"])
        self.assertEqual(sorted(scene.lines), ["a", "b"])
        results = tool_results_in(self.model.requests[1])
        self.assertEqual(len(results), 2)
        last = {event["name"]: event["is_error"] for event in run.of("tool_end")}
        self.assertEqual(last, {"write_file": False, "bash": True})

    def test_a_tool_that_only_reads_may_be_repeated(self) -> None:
        def model(request: Request) -> Reply:
            return said("done") if tool_results_in(request) else Reply(Call("ls", {}))

        scene = Scene(self, model).start().see("tool_start")
        run = self.recover_from_anywhere(scene)
        self.assertFalse(run.of("tool_end")[-1]["is_error"])

    def test_again_and_again(self) -> None:
        """Cut in one turn after the other; every line is there once in the end."""
        names = ["a", "b", "c", "d"]
        stops = [self.once() for _ in names]

        def model(request: Request) -> Reply:
            turn = len(tool_results_in(request))
            return Reply(stops[turn](), appending(names[turn])) if turn < len(names) else said("done")

        scene = Scene(self, model).start()
        later = scene.runs
        for turn in range(len(names)):
            # Asked once in vain and once again in each turn before this one.
            self.model.wait_for_requests(2 * turn + 1)
            self.assertEqual(scene.lines, names[:turn])
            later = scene.kill_and_restart()
        run = later.attached(scene.run.id)
        self.check_again(scene, run)
        self.assert_whole(run, "react")
        self.assertEqual((run.reply, scene.lines), ("done", names))
        cut = [event["id"] for event in run.of("node_exit") if event["result"] == INTERRUPTED]
        self.assertEqual(cut, ["think"] * len(names))


class ApprovalTest(CrashTestCase):
    ASK = '\n[tools.approval]\nwrite_file = "ask"\n'

    def model(self, request: Request) -> Reply:
        return said("done") if tool_results_in(request) else Reply(appending("a"))

    def begin(self, more: str = "") -> Scene:
        scene = Scene(self, self.model, more=self.ASK + more, gateway="127.0.0.1:0").start()
        return scene.see("tool_approval")

    def test_during_an_approval_that_the_operator_then_gives(self) -> None:
        scene = self.begin()
        later = scene.kill_and_restart()
        run = Run(scene.run.id)
        later.attach(run.id)
        while not run.of("tool_approval"):
            later.read(run)
            self.assertIsNone(run.ending)
        self.assertEqual(scene.lines, [])
        self.approve()
        self.check(scene, later.finish(run), "act", lines=["a"])

    def approve(self) -> None:
        # What was stored is asked for again under the same id as soon as the run has been resumed.
        pattern = r"[0-9a-f]{8}-[0-9a-f-]{27}"
        eventually(lambda: re.search(pattern, self.cli("approvals", "list").stdout), "it waits again")
        identity = re.search(pattern, self.cli("approvals", "list").stdout)
        usage = self.cli("approvals", "answer", "--help").stdout
        done = self.cli("approvals", "answer", identity.group(), "--approve" if "--approve" in usage else "yes")
        self.assertEqual(done.returncode, 0, done.stderr + usage)

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

    def test_during_an_approval_that_then_expires(self) -> None:
        # When it expires is stored with the question, so a restart does not lengthen it.
        scene = self.begin('[limits]\napproval_timeout = "6s"\n')
        scene.server.kill()
        run = self.recover(scene, "act", lines=[])
        self.assertTrue(run.of("tool_end")[-1]["is_error"])

    def test_an_answer_that_was_given_is_not_asked_for_again(self) -> None:
        """Approved, done, and killed in the next turn."""
        stop = self.once()

        def model(request: Request) -> Reply:
            return Reply(stop(), Text("done")) if tool_results_in(request) else Reply(appending("a"))

        scene = Scene(self, model, more=self.ASK).start().see("tool_approval")
        asked = scene.run.events[-1]
        scene.runs.send({"type": "tool_approve", "id": scene.run.id, "call_id": asked["call_id"], "approve": True})
        scene.see("node_enter", id="think")
        self.model.wait_for_requests(2)
        run = self.recover(scene, "think", lines=["a"])
        self.assertEqual(len(run.of("tool_approval")), 1)


class StrategyTest(CrashTestCase):
    def test_in_dup_s_understanding(self) -> None:
        stop = self.once()
        parts = Thinker()
        model = Thinker(understand=lambda request: Reply(stop(), *parts.understand(request).steps))
        scene = Scene(self, model).start("dup")
        self.model.wait_for_requests(1)
        scene.see("node_enter")
        self.recover(scene, "understand", reply="the answer")

    def test_in_dup_after_its_understanding(self) -> None:
        stop = self.once()
        model = Thinker(other=lambda request: Reply(stop(), Text("the answer")))
        scene = Scene(self, model).start("dup").see("node_enter", id="plan")
        self.model.wait_for_requests(2)
        self.recover(scene, "plan", reply="the answer")
        understood = [one for one in self.model.requests if part_of(one) == "understand"]
        self.assertEqual(len(understood), 1, "a finished node is not done again")

    def test_in_tot_s_evaluation(self) -> None:
        stop = self.once()
        parts = Thinker()
        model = Thinker(evaluate=lambda request: Reply(stop(), *parts.evaluate(request).steps))
        scene = Scene(self, model).start("tot").see("node_enter", id="think_evaluate")
        self.model.wait_for_requests(2)
        run = self.recover(scene, "think_evaluate", reply="the answer")
        self.assertEqual(run.of("tot_evaluate")[0]["chosen"], 1)
        expanded = [
            one for one in self.model.requests if part_of(one) == "expand" and "do your work" in whole_text(one)
        ]
        self.assertEqual(len(expanded), 1, "a finished node is not done again")

    def test_in_tot_after_its_tools(self) -> None:
        stop = self.once()

        def expand(request: Request) -> Reply:
            if "<result" in request.last_user_text:
                return Reply(stop(), Text(candidate(1, "that is it", word="FINAL")))
            return said(candidate(1, "write it", [{"name": "write_file", "arguments": appending("a").arguments}]))

        scene = Scene(self, Thinker(expand=expand)).start("tot").see("node_enter", node_id="run-think_expand-4")
        self.model.wait_for_requests(2)
        self.recover(scene, "think_expand", reply="the answer", lines=["a"])

    def test_in_got_s_plan(self) -> None:
        stop = self.once()
        parts = Thinker()
        model = Thinker(plan=lambda request: Reply(stop(), *parts.plan(request).steps))
        scene = Scene(self, model).start("got").see("node_enter")
        self.model.wait_for_requests(1)
        self.recover(scene, "plan_graph", reply="the answer")

    def test_in_got_s_parallel_tasks(self) -> None:
        """Two tasks at work, each of which has already written its line."""
        stops = {"a": self.once(), "b": self.once()}

        def task(request: Request) -> Reply:
            name = task_of(request)
            if name not in stops:
                return said(f"result of {name}")
            if not tool_results_in(request):
                return Reply(appending(name))
            return Reply(stops[name](), Text(f"result of {name}"))

        scene = Scene(self, Thinker(task=task)).start("got")
        while len(scene.run.of("tool_end")) < 2:
            scene.see("tool_end")
        self.model.wait_for_requests(5)
        run = self.recover(scene, "execute_graph", "execute_graph", reply="the answer")
        self.assertEqual(sorted(scene.lines), ["a", "b"], "each tool once")
        done = [event["id"] for event in run.of("got_node_complete")]
        self.assertEqual((sorted(done[:2]), done[2:]), (["a", "b"], ["c"]))

    def test_in_got_with_one_task_done(self) -> None:
        stop = self.once()

        def task(request: Request) -> Reply:
            name = task_of(request)
            return Reply(stop(), Text("result of b")) if name == "b" else said(f"result of {name}")

        scene = Scene(self, Thinker(task=task)).start("got").see("got_node_complete", id="a")
        scene.see("updates")
        self.model.wait_for_requests(3)
        run = self.recover(scene, "execute_graph", reply="the answer")
        self.assertEqual([event["id"] for event in run.of("got_node_complete")].count("a"), 1)
        asked = [one for one in self.model.requests if task_of(one) == "a" and "do your work" in whole_text(one)]
        self.assertEqual(len(asked), 1, "a finished task is not done again")

    def test_in_the_last_words_of_each(self) -> None:
        for agent, node in (("dup", "plan"), ("tot", "answer"), ("got", "aggregate")):
            with self.subTest(agent):
                stop = self.once()
                model = Thinker(other=lambda request: Reply(Text("the "), stop(), Text("answer")))
                scene = Scene(self, model).start(agent).see("message_chunk", id=node)
                self.recover(scene, node, reply="the answer")


class AfterwardsTest(CrashTestCase):
    def test_attached_before_it_resumes_or_later_it_is_one_sequence(self) -> None:
        """Several who come back at once see the same."""
        stop = self.once()
        scene = Scene(self, lambda request: Reply(Text("a "), stop(), Text("b"))).start().see("message_chunk")
        first = scene.kill_and_restart()
        others = [self.another() for _ in range(3)]
        seen = len(scene.run.frames)
        attached = [first.attach(scene.run.id), *(one.attach(scene.run.id, seen) for one in others)]
        ended = [one.finish(run) for one, run in zip([first, *others], attached)]
        self.check(scene, ended[0], "think", reply="a b")
        for one in ended[1:]:
            self.assertEqual((one.frames, one.ending), (ended[0].frames[seen:], ended[0].ending))

    def test_a_thread_goes_on_after_it(self) -> None:
        stop = self.once()
        scene = Scene(self, lambda request: Reply(Text("a "), stop(), Text("b"))).start(thread_id="t")
        scene.see("message_chunk")
        self.recover(scene, "think", reply="a b")
        with self.another() as later:
            later.run("and then?", thread_id="t")
            messages = later.ask("user_messages", thread_id="t")["messages"]
        self.assertEqual(
            [(one["role"], one["content"]) for one in messages],
            [("user", "do your work"), ("assistant", "a b"), ("user", "and then?"), ("assistant", "a b")],
        )

    def test_a_drain_is_no_end_either(self) -> None:
        """SIGTERM in the middle: what is not done within the drain is put down and taken up again."""
        stop = self.once()
        model = lambda request: Reply(Text("a "), stop(), Text("b"))  # noqa: E731
        scene = Scene(self, model, before='drain = "500ms"\n').start().see("message_chunk")
        self.assertEqual(self.server.terminate(), 0)
        self.server.start()
        self.check(scene, self.another().attached(scene.run.id), "think", reply="a b")

    def test_a_cancelled_run_stays_cancelled(self) -> None:
        stop = self.once()
        scene = Scene(self, lambda request: Reply(Text("a "), stop(), Text("b"))).start().see("message_chunk")
        scene.runs.send({"type": "cancel", "id": scene.run.id})
        ended = scene.runs.finish(scene.run)
        later = scene.kill_and_restart()
        again = later.attached(ended.id)
        self.assertEqual((again.frames, again.ending), (ended.frames, ended.ending))


if __name__ == "__main__":
    unittest.main()
