"""A test case with a stub model, a server with the runs surface, clients of it, and what every stream must obey."""

from __future__ import annotations

import threading
import unittest
from pathlib import Path

from patchboard_server import Server, ServerTestCase
from runs_client import Run, Runs
from stub_model import Request, StubModel, echo

ENVELOPE = ["session_id", "node_id", "event_id", "type"]
# Every type of event and the keys of its payload.
PAYLOADS = {
    "run_start": {"run_id", "message", "agent"},
    "node_enter": {"id"},
    "node_exit": {"id", "result"},
    "message_chunk": {"content", "id"},
    "thought_chunk": {"content", "id"},
    "usage": {"prompt_tokens", "completion_tokens", "total_tokens"},
    "values": {"state"},
    "updates": {"id", "state"},
    "custom": {"value"},
    "checkpoint": {"checkpoint_id", "timestamp", "step", "state", "thread_id", "checkpoint_ns"},
    "tot_expand": {"candidates"},
    "tot_evaluate": {"chosen", "scores"},
    "tot_backtrack": {"reason", "to_depth"},
    "got_plan": {"node_count", "edge_count", "node_ids"},
    "got_node_start": {"id"},
    "got_node_complete": {"id", "result_summary"},
    "got_node_failed": {"id", "error"},
    # Its `node_id` stands where the envelope's would.
    "got_expand": {"nodes_added", "edges_added"},
    "tool_call_chunk": {"call_id", "name", "arguments_delta"},
    "tool_call": {"call_id", "name", "arguments"},
    "tool_start": {"call_id", "name"},
    "tool_output": {"call_id", "name", "content"},
    "tool_end": {"call_id", "name", "result", "is_error"},
    "tool_approval": {"call_id", "name", "arguments"},
}
# Keys that are there at times.
SOMETIMES = {"tool_approval": {"reason"}}
NODES = {
    "react": {"think", "act", "observe", "compress"},
    "dup": {"understand", "plan", "act", "observe"},
    "tot": {"think_expand", "think_evaluate", "act", "observe", "backtrack", "answer"},
    "got": {"plan_graph", "execute_graph", "aggregate"},
}
REACT_STATE = [
    "approval_result",
    "message_count_after_last_think",
    "messages",
    "tool_calls",
    "tool_results",
    "total_usage",
    "turn_count",
    "usage",
]
COUNTS = ["prompt_tokens", "completion_tokens", "total_tokens"]


class RunsTestCase(ServerTestCase):
    def connect(
        self,
        *behaviours,
        kind: str = "openai",
        before: str = "",
        runs: str = "",
        more: str = "",
        fallback=echo,
        **options,
    ) -> Runs:
        """Starts a server whose model behaves as told, and a first client of it. `before` is configuration before all
        else, `runs` are keys of `[runs]`, `more` is what comes after the default agent's first keys. `self.work` is a
        folder where tools may work."""
        self.model = StubModel(*behaviours, fallback=fallback)
        self.addCleanup(self.model.close)
        config = f"{before}[runs]\n{runs}\n" + self.model.provider_config(kind) + more
        options = {"gateway": "off", "runs": "127.0.0.1:0", **options}
        self.server = self.start_server(config=config, **options)
        self.work = self.folder_in(self.server)
        return self.another()

    def folder_in(self, server: Server, name: str = "work") -> Path:
        folder = server.folder / name
        folder.mkdir()
        return folder

    def another(self, **options) -> Runs:
        runs = Runs(self.server, **options)
        self.addCleanup(runs.close)
        return runs

    def held(self) -> threading.Event:
        """An event for `Hold`, set in the end whatever happens."""
        event = threading.Event()
        self.addCleanup(event.set)
        return event

    def assert_whole(self, run: Run, agent: str) -> None:
        """A complete stream by the rules of the protocol: envelopes, payloads, order within nodes, states, the end."""
        check_stream(self, run, agent)
        check_end(self, run)


def check_stream(test: unittest.TestCase, run: Run, agent: str) -> None:
    test.assertEqual(run.event_ids, list(range(1, len(run.frames) + 1)), "event ids have a gap")
    test.assertEqual(run.types[:1], ["run_start"])
    test.assertEqual(run.types.count("run_start"), 1)
    entered = -1
    current = "run-0"
    open_nodes: dict[str, str] = {}
    after_exit: dict[str, list[str]] = {}
    for frame in run.frames:
        event = frame["event"]
        where = f"in {shortened(event)}"
        test.assertEqual(list(frame), ["type", "id", "event"], where)
        test.assertEqual((frame["id"], event["session_id"]), (run.id, run.id), where)
        test.assertEqual(list(event)[:4], ENVELOPE, where)
        test.assertIn(event["type"], PAYLOADS, where)
        sometimes = SOMETIMES.get(event["type"], set())
        test.assertEqual(set(event) - set(ENVELOPE) - sometimes, PAYLOADS[event["type"]], where)
        if event["type"] == "node_enter":
            entered += 1
            current = f"run-{event['id']}-{entered}"
            test.assertIn(event["id"], NODES[agent], where)
            open_nodes[current] = event["id"]
        if event["type"] == "got_expand":
            continue
        if agent == "got":
            test.assertTrue(event["node_id"] == current or event["node_id"] in open_nodes or after_exit, where)
        else:
            test.assertEqual(event["node_id"], current, where)
        check_order(test, event, open_nodes, after_exit)
        check_payload(test, event, agent)
    test.assertEqual(open_nodes, {}, "entered and never left")


def check_order(test: unittest.TestCase, event: dict, open_nodes: dict, after_exit: dict) -> None:
    """`node_enter`, the node's own events, `node_exit`, `values`, `updates`, and nothing between the last three."""
    kind, node, where = event["type"], event["node_id"], f"in {shortened(event)}"
    if kind == "node_exit":
        test.assertEqual(open_nodes.pop(node, None), event["id"], where)
        if event["result"] == "Ok":
            after_exit[node] = ["values", "updates"]
        else:
            test.assertEqual(list(event["result"]), ["Err"], where)
    elif kind in ("values", "updates"):
        test.assertEqual(after_exit.get(node, [None])[0], kind, where)
        after_exit[node].pop(0)
        if not after_exit[node]:
            del after_exit[node]
    elif kind in ("run_start", "checkpoint"):
        test.assertEqual((open_nodes, after_exit), ({}, {}), where)
    elif kind != "custom":
        test.assertIn(node, open_nodes, f"outside of its node: {where}")


def check_payload(test: unittest.TestCase, event: dict, agent: str) -> None:
    kind, where = event["type"], f"in {shortened(event)}"
    if kind in ("message_chunk", "thought_chunk"):
        test.assertIn(event["id"], NODES[agent], where)
        test.assertNotEqual(event["content"], "", where)
    elif kind == "usage":
        check_counts(test, {key: event[key] for key in COUNTS})
    elif kind in ("values", "updates", "checkpoint"):
        check_state(test, event["state"], agent)
    elif kind in ("tool_call", "tool_start", "tool_output", "tool_end", "tool_approval"):
        test.assertTrue(isinstance(event["call_id"], str) and isinstance(event["name"], str), where)


def check_counts(test: unittest.TestCase, counts: dict) -> None:
    test.assertEqual(list(counts), COUNTS)
    test.assertTrue(all(type(value) is int for value in counts.values()), counts)
    test.assertEqual(counts["total_tokens"], counts["prompt_tokens"] + counts["completion_tokens"])


def check_end(test: unittest.TestCase, run: Run) -> None:
    """The one `run_end`, with everything the document names, in the document's order. Its reply is what was streamed,
    unless a node was cut: its words were streamed before they were said again."""
    end = run.ending
    if all(event["result"] != {"Err": "interrupted"} for event in run.of("node_exit")):
        test.assertEqual(run.text, end["reply"])
    test.assertEqual(
        list(end), ["type", "id", "reply", "usage", "total_usage", "session_id", "node_id", "event_id"], end
    )
    test.assertEqual((end["type"], end["id"], end["session_id"]), ("run_end", run.id, run.id))
    test.assertEqual(end["event_id"], run.events[-1]["event_id"] + 1)
    test.assertEqual(end["node_id"], last_node(run))
    check_counts(test, end["usage"])
    check_counts(test, end["total_usage"])
    told = run.of("usage")
    test.assertEqual(end["usage"], {key: told[-1][key] for key in COUNTS})
    test.assertEqual(end["total_usage"], {key: sum(one[key] for one in told) for key in COUNTS})


def last_node(run: Run) -> str:
    return [event["node_id"] for event in run.events if event["type"] != "got_expand"][-1]


# The state objects, whose keys come in alphabetical order.


def check_state(test: unittest.TestCase, state: dict, agent: str) -> None:
    check_sorted(test, state)
    if agent == "react":
        check_react_state(test, state)
    elif agent == "dup":
        test.assertEqual(list(state), ["core", "understood"])
        check_react_state(test, state["core"])
        if state["understood"] is not None:
            test.assertEqual(list(state["understood"]), ["core_goal", "key_constraints", "relevant_context"])
            test.assertIsInstance(state["understood"]["key_constraints"], list)
    elif agent == "tot":
        test.assertEqual(list(state), ["core", "tot"])
        check_react_state(test, state["core"])
        check_tot_state(test, state["tot"])
    else:
        test.assertEqual(list(state), ["input_message", "node_states", "task_graph"])
        check_got_state(test, state)


def check_react_state(test: unittest.TestCase, state: dict) -> None:
    test.assertEqual(list(state), REACT_STATE)
    for message in state["messages"]:
        ((role, text),) = message.items()
        test.assertIn(role, ("System", "User", "Assistant"))
        test.assertIsInstance(text, str)
    for call in state["tool_calls"]:
        test.assertEqual(set(call), {"name", "arguments", "id"})
        test.assertIsInstance(call["arguments"], str)
    for result in state["tool_results"]:
        test.assertEqual(set(result), {"call_id", "name", "content", "is_error"})
    test.assertIs(type(state["turn_count"]), int)
    for key in ("usage", "total_usage"):
        if state[key] is not None:
            check_counts(test, {name: state[key][name] for name in COUNTS})


def check_tot_state(test: unittest.TestCase, state: dict) -> None:
    keys = [
        "candidates",
        "chosen_index",
        "depth",
        "explored_paths",
        "path_failed_reason",
        "suggest_backtrack",
        "tried_indices",
    ]
    test.assertEqual(list(state), keys)
    for candidate in state["candidates"]:
        test.assertEqual(list(candidate), ["score", "thought", "tool_calls"])


def check_got_state(test: unittest.TestCase, state: dict) -> None:
    test.assertIsInstance(state["input_message"], str)
    graph = state["task_graph"]
    if graph is not None:
        test.assertEqual(list(graph), ["edges", "nodes"])
        for node in graph["nodes"]:
            test.assertEqual(list(node), ["description", "id", "tool_calls"])
        test.assertTrue(all(len(edge) == 2 for edge in graph["edges"]), graph["edges"])
    for one in state["node_states"].values():
        test.assertEqual(list(one), ["error", "result", "status"])
        test.assertIn(one["status"], ("Pending", "Running", "Done", "Failed"))


def check_sorted(test: unittest.TestCase, value: object) -> None:
    if isinstance(value, dict):
        test.assertEqual(list(value), sorted(value), "keys inside a state are in alphabetical order")
        for one in value.values():
            check_sorted(test, one)
    elif isinstance(value, list):
        for one in value:
            check_sorted(test, one)


def shortened(event: dict) -> str:
    return str(event)[:400]


# What a model can see of the run it works in.


def tool_results_in(request: Request) -> list[str]:
    """The text of the tool results that the model is shown."""
    return [str(message.get("content")) for message in request.messages if message.get("role") == "tool"]


def whole_text(request: Request) -> str:
    """All the model is shown, as one text."""
    return "\n".join([request.system_text, *(str(message) for message in request.messages)])
