"""What a run streams: every type of event, in its order, from inside every strategy."""

from __future__ import annotations

import json
import threading
import time
import unittest
import uuid
from typing import Callable

from gateway_client import eventually
from runs_case import COUNTS, PAYLOADS, RunsTestCase, tool_results_in, whole_text
from runs_client import TIMEOUT, Run, processes_with, seconds_mark
from runs_model import Thinker, candidate, part_of, plan, said, task_of
from stub_model import Call, Failure, Hold, Raw, Reply, Request, Text

ALL = ["react", "dup", "tot", "got"]
STATES = ["node_exit", "values", "updates"]
MAX_CALLS = 200


def reasoning(text: str) -> Raw:
    chunk = {"choices": [{"index": 0, "delta": {"reasoning_content": text}, "finish_reason": None}]}
    return Raw(b"data: " + json.dumps({"id": "x", "object": "chat.completion.chunk", **chunk}).encode() + b"\n\n")


class ReactTest(RunsTestCase):
    def test_without_tools(self) -> None:
        runs = self.connect(Reply(Text("all "), Text("well")))
        run = runs.run("hi")
        self.assert_whole(run, "react")
        self.assertEqual(run.types, ["run_start", "node_enter", "message_chunk", "message_chunk", "usage", *STATES])
        self.assertEqual([event["id"] for event in run.of("message_chunk")], ["think", "think"])

    def test_with_tools(self) -> None:
        (steps, arguments) = (Text("let me see "), {"path": "note.txt"})
        runs = self.connect(Reply(steps, Call("read", arguments), input_tokens=20), Reply(Text("I see")))
        (self.work / "note.txt").write_text("what it says")
        run = runs.run("read my note", working_folder=str(self.work), thread_id="t")
        self.assert_whole(run, "react")
        self.assertEqual(
            run.outline,
            [
                *("run_start", "node_enter", "message_chunk", "tool_call_chunk", "tool_call", "usage", *STATES),
                *("node_enter", "tool_start", "tool_end", *STATES),
                *("node_enter", *STATES),
                *("node_enter", *STATES),
                *("node_enter", "message_chunk", "usage", *STATES),
                "checkpoint",
            ],
        )
        nodes = [event["node_id"] for event in run.of("node_enter")]
        self.assertEqual(nodes, ["run-think-0", "run-act-1", "run-observe-2", "run-compress-3", "run-think-4"])
        self.check_tool_events(run, arguments)
        self.assertEqual((run.reply, run.text), ("let me see \n\nI see",) * 2)
        self.assertEqual(run.ending["usage"], dict(zip(COUNTS, (10, 5, 15))))
        self.assertEqual(run.ending["total_usage"], dict(zip(COUNTS, (30, 10, 40))))

    def check_tool_events(self, run: Run, arguments: dict) -> None:
        first, *others = run.of("tool_call_chunk")
        (call,) = run.of("tool_call")
        (start,) = run.of("tool_start")
        (end,) = run.of("tool_end")
        self.assertEqual((first["call_id"], first["name"]), (call["call_id"], "read"))
        self.assertTrue(others)
        for event in others:
            self.assertEqual((event["call_id"], event["name"]), (call["call_id"], "read"))
        pieces = "".join(event["arguments_delta"] for event in [first, *others])
        self.assertEqual(json.loads(pieces), arguments)
        self.assertEqual((call["name"], call["arguments"]), ("read", arguments))
        for event in (start, end):
            self.assertEqual((event["call_id"], event["name"]), (call["call_id"], "read"))
        self.assertIs(end["is_error"], False)
        self.assertIn("what it says", end["result"])

    def test_the_states(self) -> None:
        runs = self.connect(Reply(Text("hm"), Call("ls", {}), input_tokens=20), Reply(Text("done")))
        run = runs.run("look", working_folder=str(self.work))
        states = [event["state"] for event in run.of("values")]
        self.assertEqual(states, [event["state"] for event in run.of("updates")])
        self.assertEqual([event["id"] for event in run.of("updates")], run.nodes)
        think, act, observe, _, last = states
        (call,) = run.of("tool_call")
        self.assertEqual([list(message) for message in think["messages"]], [["System"], ["User"], ["Assistant"]])
        self.assertEqual(think["messages"][1:], [{"User": "look"}, {"Assistant": "hm"}])
        (kept,) = think["tool_calls"]
        self.assertEqual((kept["name"], json.loads(kept["arguments"]), kept["id"]), ("ls", {}, call["call_id"]))
        self.assertEqual((think["turn_count"], think["tool_results"], think["approval_result"]), (0, [], None))
        self.assertEqual(think["usage"], {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25})
        self.assertEqual(think["message_count_after_last_think"], 3)
        (result,) = act["tool_results"]
        self.assertEqual((result["call_id"], result["name"], result["is_error"]), (call["call_id"], "ls", False))
        self.assertEqual(result["content"], run.of("tool_end")[0]["result"])
        self.assertEqual(observe["turn_count"], 1)
        self.assertEqual(last["messages"][-1], {"Assistant": "done"})
        self.assertEqual(last["total_usage"], {"prompt_tokens": 30, "completion_tokens": 10, "total_tokens": 40})

    def test_tools_of_one_turn_run_side_by_side(self) -> None:
        wait = "while [ ! -e {0} ]; do sleep 0.01; done; echo saw {0}"
        runs = self.connect(
            Reply(
                Call("bash", {"command": "touch b; " + wait.format("a")}, "one"),
                Call("bash", {"command": "touch a; " + wait.format("b")}, "two"),
                Call("ls", {}, "three"),
            ),
            Reply(Text("done")),
        )
        run = runs.run("go", working_folder=str(self.work))
        self.assert_whole(run, "react")
        self.assertEqual(run.reply, "done")
        calls = run.of("tool_call")
        self.assertEqual([call["name"] for call in calls], ["bash", "bash", "ls"], "in the model's order")
        self.assertEqual(len({call["call_id"] for call in calls}), 3)
        results = {event["call_id"]: event for event in run.of("tool_end")}
        self.assertEqual([results[call["call_id"]]["is_error"] for call in calls], [False] * 3)
        self.assertIn("saw a", results[calls[0]["call_id"]]["result"])
        self.assertIn("saw b", results[calls[1]["call_id"]]["result"])
        for call in calls:
            mine = [one["type"] for one in run.events if one.get("call_id") == call["call_id"]]
            self.assertEqual(
                [one for one in mine if one != "tool_output"][-3:], ["tool_call", "tool_start", "tool_end"]
            )
        # The model gets real tool messages, in the order of its calls.
        second = self.model.requests[1]
        assistant = next(message for message in second.messages if message["role"] == "assistant")
        self.assertEqual([call["function"]["name"] for call in assistant["tool_calls"]], ["bash", "bash", "ls"])
        answered = [message["tool_call_id"] for message in second.messages if message["role"] == "tool"]
        self.assertEqual(answered, [call["id"] for call in assistant["tool_calls"]])

    def test_the_model_is_not_forced_to_call_tools(self) -> None:
        runs = self.connect()
        runs.run("hi")
        self.assertIn(self.model.requests[0].body.get("tool_choice", "auto"), ("auto",))

    def test_reasoning_is_told_as_thought_chunks(self) -> None:
        runs = self.connect(Reply(reasoning("first I "), reasoning("think"), Text("then I speak")))
        run = runs.run("hi")
        self.assert_whole(run, "react")
        self.assertEqual([event["content"] for event in run.of("thought_chunk")], ["first I ", "think"])
        self.assertEqual((run.reply, run.text), ("then I speak", "then I speak"))
        self.assertLess(run.types.index("thought_chunk"), run.types.index("message_chunk"))

    def test_what_goes_wrong_in_a_tool_is_told_to_the_model(self) -> None:
        calls = [
            Call("read", {"path": "absent"}, "a"),
            Call("no_such_tool", {}, "b"),
            Call("read", {}, "c"),
            Call("read", {"path": 5}, "d"),
            Call("read", '{"path": "half', "e"),
            Call("bash", {"command": "exit 3"}, "f"),
        ]
        runs = self.connect(Reply(*calls), Reply(Text("sorry")))
        run = runs.run("go", working_folder=str(self.work))
        self.assert_whole(run, "react")
        self.assertEqual(run.reply, "sorry")
        self.assertEqual([call["name"] for call in run.of("tool_call")], [call.name for call in calls])
        self.assertEqual(run.of("tool_call")[4]["arguments"], '{"path": "half', "as it is when it is no JSON")
        results = {event["call_id"]: event for event in run.of("tool_end")}
        ended = [results[call["call_id"]] for call in run.of("tool_call")]
        self.assertEqual([end["is_error"] for end in ended[:5]], [True] * 5)
        self.assertIn("3", ended[5]["result"], "the exit code is told")
        self.assertEqual(len(tool_results_in(self.model.requests[1])), 6)

    def test_what_is_no_text_does_no_harm(self) -> None:
        calls = [
            Call("bash", {"command": "printf 'a\\xff\\xfeb\\0c'"}),
            Call("read", {"path": "long"}),
            Call("read", {"path": "binary"}),
        ]
        runs = self.connect(Reply(*calls), Reply(Text("done")))
        # Lines that are cut in the middle of a character.
        (self.work / "long").write_text("é" * 5_000 + "\nx" + "é" * 5_000)
        (self.work / "binary").write_bytes(bytes(range(256)) * 10)
        run = runs.run("go", working_folder=str(self.work))
        self.assert_whole(run, "react")
        self.assertEqual((run.reply, len(run.of("tool_end"))), ("done", 3))

    def test_results_are_whole_up_to_64_kib(self) -> None:
        command = "i=0; while [ $i -lt 600 ]; do printf '%0100d' $i; i=$((i+1)); done"
        runs = self.connect(Reply(Call("bash", {"command": command})), Reply(Text("done")))
        run = runs.run("go", working_folder=str(self.work))
        (end,) = run.of("tool_end")
        self.assertIn("".join(f"{number:0100d}" for number in range(600)), end["result"])

    def test_longer_results_are_cut_with_a_mark_and_the_full_size(self) -> None:
        runs = self.connect(
            Reply(Call("read", {"path": "big"})), Reply(Text("done")), more='\n[limits]\ntool_output = "2KiB"\n'
        )
        (self.work / "big").write_text("x" * 1000 + "\n" + "y" * 1000 + "\n" + "z" * 1000 + "\n")
        run = runs.run("go", working_folder=str(self.work))
        (end,) = run.of("tool_end")
        self.assertLess(len(end["result"]), 2048 + 200)
        self.assertGreater(len(end["result"]), 1500)
        # Three lines with their numbers are a little more than the three thousand bytes of the file.
        self.assertRegex(end["result"], r"\b30\d\d\b")
        self.assertTrue(end["result"].count("z") < 1000 or end["result"].count("y") < 1000)
        again = runs.attached(run.id)
        self.assertEqual(again.frames, run.frames)

    def test_a_command_s_output_is_told_while_it_runs(self) -> None:
        command = "echo first; while [ ! -e go ]; do sleep 0.01; done; echo second"
        runs = self.connect(Reply(Call("bash", {"command": command})), Reply(Text("done")))
        runs.start("go", working_folder=str(self.work))
        run = runs.until("tool_output")
        self.assertIn("first", run.events[-1]["content"])
        (self.work / "go").touch()
        run = runs.finish(run)
        self.assert_whole(run, "react")
        (end,) = run.of("tool_end")
        for event in run.of("tool_output"):
            self.assertEqual((event["call_id"], event["name"]), (end["call_id"], "bash"))
        self.assertIn("second", end["result"])

    def test_an_empty_answer_is_no_failure(self) -> None:
        runs = self.connect(Reply())
        run = runs.run("hi")
        self.assert_whole(run, "react")
        self.assertIsInstance(run.reply, str)


class CheckpointTest(RunsTestCase):
    def test_one_at_the_end_of_a_run_with_a_thread(self) -> None:
        runs = self.connect(fallback=Thinker())
        for agent in ALL:
            with self.subTest(agent):
                before = time.time() * 1000
                run = runs.run("go", agent, thread_id=f"thread of {agent}", working_folder=str(self.work))
                self.assert_whole(run, agent)
                (event,) = run.of("checkpoint")
                self.assertIs(event, run.events[-1])
                self.assertEqual(
                    list(event)[4:],
                    ["checkpoint_id", "timestamp", "step", "state", "thread_id", "checkpoint_ns"],
                )
                self.assertEqual(uuid.UUID(event["checkpoint_id"]).version, 6)
                self.assertTrue(before - 1000 <= int(event["timestamp"]) <= time.time() * 1000 + 1000)
                self.assertEqual(
                    (event["step"], event["thread_id"], event["checkpoint_ns"]), (0, f"thread of {agent}", None)
                )
                self.assertEqual(event["state"], run.of("values")[-1]["state"])

    def test_none_without_a_thread(self) -> None:
        runs = self.connect(fallback=Thinker())
        for agent in ALL:
            self.assertEqual(runs.run("go", agent).of("checkpoint"), [])


class DupTest(RunsTestCase):
    def test_understand_plan_act_observe(self) -> None:
        def other(request: Request):
            return said("the answer") if tool_results_in(request) else Reply(Text("first "), Call("ls", {}))

        runs = self.connect(fallback=Thinker(other=other))
        run = runs.run("what is the point?", "dup", working_folder=str(self.work))
        self.assert_whole(run, "dup")
        self.assertEqual(run.nodes, ["understand", "plan", "act", "observe", "plan"])
        self.assertEqual(run.reply, "first \n\nthe answer")
        understood = run.of("values")[0]["state"]["understood"]
        self.assertEqual(
            understood,
            {"core_goal": "the goal", "key_constraints": ["one", "two"], "relevant_context": "the context"},
        )
        # It streams from inside its nodes, and its understanding reaches the model that answers.
        self.assertEqual({event["id"] for event in run.of("message_chunk")}, {"plan"})
        self.assertEqual({event["id"] for event in run.of("thought_chunk")}, {"understand"})
        self.assertEqual(len(run.of("usage")), 3)
        self.assertEqual(run.outline.count("tool_start"), 1)
        for word in ("the goal", "two", "the context"):
            self.assertIn(word, whole_text(self.model.requests[1]))

    def test_an_understanding_in_no_known_form_is_taken_as_text(self) -> None:
        runs = self.connect(fallback=Thinker(understand=lambda request: said("It is about boats, I think.")))
        run = runs.run("boats?", "dup")
        self.assert_whole(run, "dup")
        self.assertEqual(run.reply, "the answer")
        understood = run.of("values")[0]["state"]["understood"]
        self.assertIn("It is about boats, I think.", str(understood))


class TotTest(RunsTestCase):
    """Both orders of search are tested; which one is the default is not part of the protocol."""

    def test_expand_evaluate_answer(self) -> None:
        runs = self.connect(fallback=Thinker())
        run = runs.run("which way?", "tot")
        self.assert_whole(run, "tot")
        self.assertEqual(run.nodes[:2], ["think_expand", "think_evaluate"])
        self.assertEqual(run.of("tot_expand")[0]["candidates"], ["a middling way", "the way to the end", "nowhere"])
        evaluated = run.of("tot_evaluate")[0]
        self.assertEqual((evaluated["chosen"], evaluated["scores"]), (1, [0.2, 0.9, 0.1]))
        self.assertEqual(run.reply, "the answer")
        self.assertEqual({event["id"] for event in run.of("message_chunk")}, {"answer"})
        self.assertEqual({event["id"] for event in run.of("thought_chunk")}, {"think_expand", "think_evaluate"})
        state = run.of("values")[1]["state"]["tot"]
        self.assertEqual(state["chosen_index"], 1)
        self.assertEqual([one["thought"] for one in state["candidates"]], run.of("tot_expand")[0]["candidates"])
        self.assertEqual([one["score"] for one in state["candidates"]], [0.2, 0.9, 0.1])

    def test_a_chosen_step_calls_its_tools(self) -> None:
        def expand(request: Request):
            if "what the note says" in request.last_user_text:
                return said(candidate(1, "that is it", word="FINAL"))
            calls = [{"name": "read", "arguments": {"path": "note.txt"}}, {"name": "ls", "arguments": {}}]
            return said(candidate(1, "guess") + "\n" + candidate(2, "look", calls))

        runs = self.connect(fallback=Thinker(expand=expand))
        (self.work / "note.txt").write_text("what the note says")
        run = runs.run("what is in the note?", "tot", working_folder=str(self.work))
        self.assert_whole(run, "tot")
        self.assertEqual(run.nodes[:5], ["think_expand", "think_evaluate", "act", "observe", "think_expand"])
        self.assertEqual({event["name"] for event in run.of("tool_end")}, {"read", "ls"})
        self.assertEqual([event["is_error"] for event in run.of("tool_end")], [False, False])
        self.assertEqual(run.reply, "the answer")
        self.assertIn("what the note says", whole_text(self.model.requests[-1]))

    def test_a_dead_end_is_left_and_another_path_taken(self) -> None:
        def expand(request: Request):
            text = request.last_user_text
            if "the long road" in text:
                return said(candidate(1, "home", word="FINAL") + "\n" + candidate(2, "rest", word="FINAL"))
            if "the short cut" in text:
                return said(candidate(1, "into the swamp") + "\n" + candidate(2, "into the sea"))
            return said(candidate(1, "the long road") + "\n" + candidate(2, "the short cut"))

        def evaluate(request: Request):
            return said('{"scores": [0.0, 0.0]}' if "the swamp" in request.last_user_text else '{"scores": [0.6, 0.9]}')

        runs = self.connect(
            fallback=Thinker(expand=expand, evaluate=evaluate), more='[agents.default.tot]\nsearch = "depth-first"\n'
        )
        run = runs.run("how do I get home?", "tot")
        self.assert_whole(run, "tot")
        (back,) = run.of("tot_backtrack")[:1]
        self.assertTrue(isinstance(back["reason"], str) and back["reason"], back)
        self.assertIs(type(back["to_depth"]), int)
        self.assertIn("backtrack", run.nodes)
        self.assertEqual(run.reply, "the answer")
        self.assertIn("the long road", whole_text(self.model.requests[-1]))

    def test_a_tool_that_fails_is_told_and_the_work_goes_on(self) -> None:
        def expand(request: Request):
            if "what the note says" in request.last_user_text:
                return said(candidate(1, "that is it", word="FINAL"))
            wrong = [{"name": "read", "arguments": {"path": "absent.txt"}}]
            right = [{"name": "read", "arguments": {"path": "note.txt"}}]
            return said(candidate(1, "the right file", right) + "\n" + candidate(2, "the wrong file", wrong))

        runs = self.connect(fallback=Thinker(expand=expand))
        (self.work / "note.txt").write_text("what the note says")
        run = runs.run("what is in the note?", "tot", working_folder=str(self.work))
        self.assert_whole(run, "tot")
        self.assertEqual([event["is_error"] for event in run.of("tool_end")][:2], [True, False])
        self.assertEqual(run.reply, "the answer")

    def test_the_other_form_of_candidates(self) -> None:
        proposal = json.dumps({"candidates": [{"thought": "one way"}, {"thought": "another way"}]})
        runs = self.connect(fallback=Thinker(expand=lambda request: said(proposal)))
        run = runs.run("which way?", "tot")
        self.assert_whole(run, "tot")
        self.assertEqual(run.of("tot_expand")[0]["candidates"], ["one way", "another way"])

    def test_an_answer_in_no_known_form_is_one_candidate_with_a_middling_score(self) -> None:
        runs = self.connect(fallback=lambda request: said("Just go left."))
        run = runs.run("which way?", "tot")
        self.assert_whole(run, "tot")
        self.assertEqual(run.of("tot_expand")[0]["candidates"], ["Just go left."])
        (score,) = run.of("tot_evaluate")[0]["scores"]
        self.assertTrue(0.2 < score < 0.8, score)
        self.assertEqual(run.reply, "Just go left.")


class GotTest(RunsTestCase):
    def test_a_plan_is_worked_off_in_its_order_and_put_together(self) -> None:
        runs = self.connect(fallback=Thinker())
        run = runs.run("do three things", "got")
        self.assert_whole(run, "got")
        (planned,) = run.of("got_plan")
        self.assertEqual(
            {key: planned[key] for key in PAYLOADS["got_plan"]},
            {"node_count": 3, "edge_count": 2, "node_ids": ["a", "b", "c"]},
        )
        self.assertEqual(run.nodes[0], "plan_graph")
        self.assertEqual(run.nodes.count("execute_graph"), 3, "once for each task")
        order = [(one["type"], one["id"]) for one in run.of("got_node_start", "got_node_complete")]
        self.assertEqual({name for _, name in order}, {"a", "b", "c"})
        self.assertLess(order.index(("got_node_complete", "a")), order.index(("got_node_start", "c")))
        self.assertLess(order.index(("got_node_complete", "b")), order.index(("got_node_start", "c")))
        summaries = {event["id"]: event["result_summary"] for event in run.of("got_node_complete")}
        self.assertEqual(summaries, {name: f"result of {name}" for name in "abc"})
        self.assertEqual(run.reply, "the answer")
        (third,) = [one for one in self.model.requests if part_of(one) == "task" and task_of(one) == "c"]
        self.assertIn("result of a", third.last_user_text)
        self.assertIn("result of b", third.last_user_text)
        self.assertEqual({event["id"] for event in run.of("message_chunk")}, {"aggregate"})
        self.assertEqual({event["id"] for event in run.of("thought_chunk")}, {"plan_graph", "execute_graph"})
        state = run.of("values")[-1]["state"]
        self.assertEqual(state["input_message"], "do three things")
        self.assertEqual(
            state["node_states"],
            {name: {"status": "Done", "result": f"result of {name}", "error": None} for name in "abc"},
        )
        self.assertEqual(state["task_graph"]["edges"], [["a", "c"], ["b", "c"]])

    def test_ready_tasks_run_side_by_side(self) -> None:
        both = threading.Barrier(2)

        def task(request: Request):
            if task_of(request) in ("a", "b"):
                both.wait(10)
            return said(f"result of {task_of(request)}")

        runs = self.connect(fallback=Thinker(task=task))
        run = runs.run("do three things", "got")
        self.assertFalse(both.broken, "one after the other")
        self.assert_whole(run, "got")

    def test_tasks_use_tools(self) -> None:
        def task(request: Request):
            if task_of(request) == "a" and not tool_results_in(request):
                return Reply(Call("read", {"path": "note.txt"}))
            return said(f"result of {task_of(request)}: {tool_results_in(request)}")

        runs = self.connect(fallback=Thinker(task=task))
        (self.work / "note.txt").write_text("what the note says")
        run = runs.run("do three things", "got", working_folder=str(self.work))
        self.assert_whole(run, "got")
        (end,) = run.of("tool_end")
        self.assertEqual((end["name"], end["is_error"]), ("read", False))
        (start,) = [one for one in run.of("got_node_start") if one["id"] == "a"]
        self.assertEqual(end["node_id"], start["node_id"], "told from inside its own node")
        (done,) = [one for one in run.of("got_node_complete") if one["id"] == "a"]
        self.assertIn("what the note says", done["result_summary"])

    def test_long_results_are_summarised(self) -> None:
        runs = self.connect(fallback=Thinker(task=lambda request: said("é" * 500)))
        run = runs.run("do three things", "got")
        self.assert_whole(run, "got")
        for event in run.of("got_node_complete"):
            self.assertTrue(event["result_summary"].endswith("..."))
            self.assertLessEqual(len(event["result_summary"].encode()), 203)

    def test_a_failed_task_is_told_and_the_rest_goes_on(self) -> None:
        def task(request: Request):
            return Failure(400, "no") if task_of(request) == "a" else said(f"result of {task_of(request)}")

        graph = plan({"a": "one", "b": "two", "c": "three"}, ("a", "c"))
        runs = self.connect(fallback=Thinker(plan=lambda request: said(graph), task=task))
        run = runs.run("do three things", "got")
        self.assert_whole(run, "got")
        (failed,) = [event for event in run.of("got_node_failed") if event["id"] == "a"]
        self.assertTrue(failed["error"])
        self.assertIn("b", [event["id"] for event in run.of("got_node_complete")])
        self.assertNotIn("c", [event["id"] for event in run.of("got_node_complete")])
        states = run.of("values")[-1]["state"]["node_states"]
        self.assertEqual((states["a"]["status"], states["b"]["status"]), ("Failed", "Done"))
        self.assertTrue(states["a"]["error"])

    def test_a_plan_in_no_known_form_is_one_task(self) -> None:
        runs = self.connect(fallback=Thinker(plan=lambda request: said("I would simply do it.")))
        run = runs.run("do it", "got")
        self.assert_whole(run, "got")
        self.assertEqual((run.of("got_plan")[0]["node_count"], run.of("got_plan")[0]["edge_count"]), (1, 0))
        self.assertEqual(len(run.of("got_node_complete")), 1)

    def test_edges_to_nowhere_are_dropped(self) -> None:
        graph = plan({"a": "one", "b": "two"}, ("a", "b"), ("a", "ghost"), ("ghost", "b"))
        runs = self.connect(fallback=Thinker(plan=lambda request: said(graph)))
        run = runs.run("do it", "got")
        self.assert_whole(run, "got")
        self.assertEqual(run.of("got_plan")[-1]["edge_count"], 1)

    def test_a_cycle_is_refused_and_planned_again(self) -> None:
        plans = iter(
            [plan({"a": "one", "b": "two"}, ("a", "b"), ("b", "a")), plan({"x": "one", "y": "two"}, ("x", "y"))]
        )
        runs = self.connect(fallback=Thinker(plan=lambda request: said(next(plans))))
        run = runs.run("do it", "got")
        self.assert_whole(run, "got")
        self.assertEqual({event["id"] for event in run.of("got_node_complete")}, {"x", "y"})
        self.assertEqual(run.reply, "the answer")


class AdaptiveTest(RunsTestCase):
    GRAPH = plan({"a": "the first thing", "c": "the last thing"}, ("a", "c"))

    def serve(self, **options):
        children = plan({"more": "look closer", "less": "look from afar"}, ("more", "less"))

        def grow(request: Request):
            return said(children if task_of(request) == "a" else '{"nodes": []}')

        return self.connect(fallback=Thinker(plan=lambda request: said(self.GRAPH), grow=grow), **options)

    def test_a_task_is_expanded_and_its_successors_wait_for_the_children(self) -> None:
        runs = self.serve()
        run = runs.run("do it", "got", got_adaptive=True)
        self.assert_whole(run, "got")
        (grown,) = run.of("got_expand")
        self.assertEqual(list(grown), ["session_id", "node_id", "event_id", "type", "nodes_added", "edges_added"])
        self.assertEqual((grown["node_id"], grown["nodes_added"]), ("a", 2))
        self.assertIs(type(grown["edges_added"]), int)
        done = [event["id"] for event in run.of("got_node_complete")]
        self.assertEqual((len(done), done[0], done[-1]), (4, "a", "c"))
        graph = run.of("values")[-1]["state"]["task_graph"]
        self.assertEqual(len(graph["nodes"]), 4)
        # Re-wired: the last thing needs what the children found.
        children = set(done[1:3])
        self.assertTrue({edge[0] for edge in graph["edges"] if edge[1] == "c"} & children, graph["edges"])
        (last,) = [one for one in self.model.requests if part_of(one) == "task" and task_of(one) == "c"]
        self.assertIn(f"result of {done[2]}", last.last_user_text)

    def test_without_the_flag_nothing_is_expanded(self) -> None:
        runs = self.serve()
        for fields in ({}, {"got_adaptive": False}, {"got_adaptive": None}):
            run = runs.run("do it", "got", **fields)
            self.assertEqual(run.of("got_expand"), [])
            self.assertEqual(len(run.of("got_node_complete")), 2)
        self.assertNotIn("grow", [part_of(one) for one in self.model.requests])

    def test_for_other_strategies_the_flag_means_nothing(self) -> None:
        runs = self.serve()
        for agent in ("react", "dup", "tot"):
            self.assert_whole(runs.run("do it", agent, got_adaptive=True), agent)


class StrictClientsTest(AdaptiveTest):
    def test_a_task_is_expanded_and_its_successors_wait_for_the_children(self) -> None:
        """Here the new types come as `custom`, and nothing else is different."""
        runs = self.serve(runs="strict_clients = true")
        run = runs.run("do it", "got", got_adaptive=True)
        self.assertEqual(run.event_ids, list(range(1, len(run.frames) + 1)))
        self.assertEqual(set(run.types) & {"run_start", "got_expand", "thought_chunk"}, set())
        kinds = ("run_start", "got_expand")
        customs = [event for event in run.of("custom") if event["value"]["type"] != "thought_chunk"]
        self.assertEqual(len(customs), len(kinds))
        for event, kind in zip(customs, kinds):
            self.assertEqual(list(event), ["session_id", "node_id", "event_id", "type", "value"])
            self.assertTrue(event["node_id"].startswith("run-"), event)
            self.assertEqual(event["value"]["type"], kind)
        self.assertEqual(customs[0]["event_id"], 1)
        self.assertEqual(customs[0]["value"]["message"], "do it")
        self.assertEqual((customs[1]["value"]["node_id"], customs[1]["value"]["nodes_added"]), ("a", 2))
        self.assertEqual(run.reply, "the answer")
        again = runs.attached(run.id)
        self.assertEqual((again.frames, again.ending), (run.frames, run.ending))

    def test_thoughts_too(self) -> None:
        runs = self.connect(Reply(reasoning("hm"), Text("well")), runs="strict_clients = true")
        run = runs.run("hi")
        thought = run.of("custom")[1]["value"]
        self.assertEqual((thought["type"], thought["content"], thought["id"]), ("thought_chunk", "hm", "think"))
        self.assertEqual(run.reply, "well")


class LimitsTest(RunsTestCase):
    """The limits of an agent end its runs, whatever they are doing."""

    def ended_by(self, more: str, behaviour: Callable[[Request], Reply]) -> Run:
        runs = self.connect(fallback=behaviour, more=more)
        started = time.monotonic()
        run = runs.run("go on", working_folder=str(self.work))
        self.took = time.monotonic() - started
        self.assertEqual((run.ending["id"], bool(run.error)), (run.id, True))
        self.assertEqual(run.event_ids, list(range(1, len(run.frames) + 1)))
        self.assertEqual(run.of("node_enter")[-1]["node_id"], run.of("node_exit")[-1]["node_id"], "never left")
        return run

    def test_time(self) -> None:
        never = self.held()
        self.ended_by('run_timeout = "1s"\n', lambda request: Reply(Text("a"), Hold(never)))
        self.assertGreater(self.took, 0.9)
        self.assertTrue(self.model.requests[0].gone.wait(TIMEOUT))

    def test_time_in_a_tool(self) -> None:
        mark = seconds_mark()
        self.ended_by('run_timeout = "1s"\n', lambda request: Reply(Call("bash", {"command": f"sleep {mark}"})))
        self.assertGreater(self.took, 0.9)
        # The run is over when the process is killed; the kernel takes it away when it likes.
        eventually(lambda: not processes_with(mark), "the tool's process is gone", TIMEOUT)

    def test_calls_turns_and_tokens(self) -> None:
        def more(request: Request) -> Reply:
            return Reply(Call("ls", {}), input_tokens=4_000)

        self.ended_by("max_model_calls = 3\n", more)
        self.assertEqual(len(self.model.requests), 3)
        self.ended_by("max_turns = 2\n", more)
        self.assertLessEqual(len(self.model.requests), 3)
        self.ended_by("max_run_tokens = 20000\n", more)
        self.assertLessEqual(len(self.model.requests), 5)
        run = self.ended_by("\n[budgets]\nsession = 20000\n", more)
        self.assertIn("budget", run.error)
        self.assertLessEqual(len(self.model.requests), 5)


class BadModelTest(RunsTestCase):
    """Models that would keep a run going for ever: each run comes to its end, by a reply or a clear error."""

    def check(self, agent: str, fallback, **fields: object) -> Run:
        runs = self.connect(fallback=fallback)
        (self.work / "note.txt").write_text("something")
        run = runs.run("go on", agent, timeout=100, working_folder=str(self.work), **fields)
        self.assertLessEqual(len(self.model.requests), MAX_CALLS)
        self.assertEqual(run.event_ids, list(range(1, len(run.frames) + 1)))
        if run.ending["type"] == "run_end":
            self.assert_whole(run, agent)
        else:
            self.assertEqual((run.ending["id"], bool(run.error)), (run.id, True))
        self.assertEqual(runs.ask("ping", id="p")["type"], "pong")
        self.assertEqual([one for one in runs.seen if one["type"] in ("run_end", "error")], [run.ending])
        return run

    def test_it_always_calls_another_tool(self) -> None:
        for agent in ALL:
            with self.subTest(agent):
                self.check(agent, lambda request: Reply(Text("more"), Call("ls", {})))

    def test_it_always_calls_another_tool_in_its_own_part(self) -> None:
        def calling(request: Request):
            return Reply(Call("read", {"path": "note.txt"}))

        for agent in ALL:
            with self.subTest(agent):
                self.check(agent, Thinker(task=calling, other=calling))

    def test_it_never_comes_to_an_end_of_its_steps(self) -> None:
        calls = [{"name": "ls", "arguments": {}}]

        def expand(request: Request):
            number = len(self.model.requests)
            return said("\n".join(candidate(n, f"step {number}.{n}", calls) for n in (1, 2, 3)))

        run = self.check("tot", Thinker(expand=expand))
        self.assertLessEqual(len(self.model.requests), 100)
        self.assertTrue(run.of("tot_expand"))

    def test_every_path_fails(self) -> None:
        calls = [{"name": "read", "arguments": {"path": "absent"}}]

        def expand(request: Request):
            number = len(self.model.requests)
            return said("\n".join(candidate(n, f"step {number}.{n}", calls) for n in (1, 2, 3)))

        self.check("tot", Thinker(expand=expand))

    def test_every_score_is_nothing(self) -> None:
        for scores in ("[0, 0, 0]", "[9e99, -1, null]", "[]", '"high"', "[0.1]"):
            with self.subTest(scores):
                self.check("tot", Thinker(evaluate=lambda request: said('{"scores": %s}' % scores)))

    def test_every_plan_is_a_cycle(self) -> None:
        self.check("got", Thinker(plan=lambda request: said(plan({"a": "x", "b": "y"}, ("a", "b"), ("b", "a")))))
        self.check("got", Thinker(plan=lambda request: said(plan({"a": "x"}, ("a", "a")))))

    def test_every_plan_is_huge(self) -> None:
        tasks = {f"t{number}": f"thing {number}" for number in range(500)}
        self.check("got", Thinker(plan=lambda request: said(plan(tasks))))
        chain = [(f"t{number}", f"t{number + 1}") for number in range(499)]
        self.check("got", Thinker(plan=lambda request: said(plan(tasks, *chain))))

    def test_plans_of_nonsense(self) -> None:
        nonsense = [
            "{}",
            "[]",
            '{"nodes": [], "edges": []}',
            '{"nodes": "many", "edges": 5}',
            '{"nodes": [{"id": "a"}, {"description": "b"}, 7, null], "edges": [["a"], ["a", "b", "c"], "x"]}',
            plan({"": "nothing"}),
            '{"nodes": [{"id": "a", "description": "x"}, {"id": "a", "description": "y"}], "edges": []}',
            '{"nodes": ' + "[" * 10_000,
            "\0\ufffd\u202e" * 100,
        ]
        for text in nonsense:
            with self.subTest(text[:60]):
                self.check("got", Thinker(plan=lambda request: said(text)))

    def test_it_always_expands(self) -> None:
        def grow(request: Request):
            return said(plan({f"n{number}": "more of it" for number in range(6)}))

        run = self.check("got", Thinker(grow=grow), got_adaptive=True)
        self.assertTrue(run.of("got_expand"))

    def test_it_expands_into_a_cycle(self) -> None:
        growth = plan({"x": "x", "y": "y"}, ("x", "y"), ("y", "x"))
        self.check("got", Thinker(grow=lambda request: said(growth)), got_adaptive=True)

    def test_it_says_nothing_or_garbage(self) -> None:
        garbage = ["", " \n\t", "\0\x01\ufffd", "{" * 5_000, "CANDIDATE", "CANDIDATE 1: | TOOL_CALLS: [", "x" * 300_000]
        for agent in ALL:
            for text in garbage:
                with self.subTest(agent=agent, text=text[:20]):
                    self.check(agent, lambda request: Reply(Text(text)) if text else Reply())

    def test_candidates_that_call_what_does_not_exist(self) -> None:
        odd = [
            [{"name": "no_such_tool", "arguments": {}}],
            [{"name": 5}],
            [{}],
            ["ls"],
            [{"name": "ls", "arguments": "not an object"}],
            [{"name": "ls", "arguments": {}}] * 200,
        ]
        for calls in odd:
            with self.subTest(str(calls)[:60]):
                self.check("tot", Thinker(expand=lambda request: said(candidate(1, "try this", calls))))

    def test_hundreds_of_calls_in_one_answer(self) -> None:
        def many(request: Request):
            if tool_results_in(request):
                return said("enough")
            return Reply(*[Call("ls", {}, f"c{number}") for number in range(300)])

        self.check("react", many)


if __name__ == "__main__":
    unittest.main()
