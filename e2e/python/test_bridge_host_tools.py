"""The server's own tools over the bridge: which are shown, how they are called, and session variables."""

from __future__ import annotations

import json
import sys
import time
import unittest
from pathlib import Path

from bridge_case import ALLOW, OFFLINE, BridgeTestCase, SharedBridgeCase
from bridge_client import Code, json_any, packed, packed_text, raw_any, registration, together, wrappers
from gateway_client import eventually

VARIABLES = {"variable_set", "variable_get", "variable_delete", "variable_list", "variable_watch"}
READ_ONLY = {"read", "ls", "glob", "grep"}
MEMORY = {"remember", "recall", "search_memories", "list_memories"}
WRITING = {"bash", "write_file", "edit", "multiedit", "apply_patch", "move_file", "delete_file", "create_dir"}


class ExposedTest(BridgeTestCase):
    def test_what_is_shown_by_default(self) -> None:
        bridge = self.serve(hub="127.0.0.1:0")
        bridge.open()
        tools = bridge.host_tools()
        self.assertLessEqual(VARIABLES | READ_ONLY | MEMORY | {"hub_send"}, set(tools))
        self.assertEqual(set(tools) & WRITING, set())
        self.assertEqual([name for name in tools if name.startswith("agent.")], [])
        read = tools["read"]
        self.assertTrue(read.description)
        self.assertEqual({(one.name, one.required) for one in read.parameters} >= {("path", True)}, True)
        self.assertFalse(read.supports_streaming)

    def test_they_are_not_among_the_available_ones_nor_counted(self) -> None:
        bridge = self.serve()
        self.assertEqual(dict(bridge.open().available_tools), {})
        self.assertEqual(bridge.get().tool_count, 0)

    def test_more_are_shown_where_the_operator_says_so(self) -> None:
        bridge = self.serve('expose = ["write_file", "create_*", "agent.*"]\n', more=ALLOW)
        bridge.open()
        tools = bridge.host_tools()
        self.assertLessEqual({"write_file", "create_dir", "agent.default"}, set(tools))
        self.assertNotIn("bash", tools)
        bridge.host_call("write_file", {"path": "made.txt", "content": "by the bridge"})
        self.assertEqual((self.server.folder / "made.txt").read_text(), "by the bridge")

    def test_what_is_not_shown_cannot_be_called(self) -> None:
        bridge = self.serve(more=ALLOW)
        bridge.open()
        target = self.server.folder / "made.txt"
        for name, arguments in (
            ("write_file", {"path": "made.txt", "content": "x"}),
            ("bash", {"command": f"touch {target}"}),
            ("agent.default", {"message": "hi"}),
        ):
            with self.subTest(name):
                self.assertIn(name, bridge.host_failure(name, arguments))
                self.assertIn(name, bridge.failure(name, arguments))
                self.assertFalse(target.exists())

    def test_policy_decides_over_what_is_shown(self) -> None:
        denied = '[tools.approval]\n"read" = "deny"\n"write_file" = "deny"\n'
        bridge = self.serve('expose = ["write_file"]\n', more=denied)
        bridge.open()
        (self.server.folder / "note.txt").write_text("a secret")
        for name, arguments in (("read", {"path": "note.txt"}), ("write_file", {"path": "x.txt", "content": "x"})):
            for answer in (bridge.host_call(name, arguments), bridge.call(name, arguments)):
                self.assertFalse(answer.success)
                self.assertNotIn("a secret", str(answer))
        self.assertFalse((self.server.folder / "x.txt").exists())

    def test_an_mcp_server_s_tools_when_exposed(self) -> None:
        (self.notes.folder / "description").write_text("Adds numbers")
        command = json.dumps([sys.executable, str(Path(__file__).parent / "mcp_fixture.py")])
        folder = json.dumps(str(self.notes.folder))
        more = f"[mcp.numbers]\ncommand = {command}\n[mcp.numbers.env]\nFIXTURE_FOLDER = {folder}\n"
        bridge = self.serve('expose = ["numbers.*"]\n', more=more + ALLOW)
        bridge.open()
        eventually(lambda: "numbers.add" in bridge.host_tools(), "the tool is shown")
        self.assertIn("the sum is 5", str(bridge.host_value("numbers.add", {"a": 2, "b": 3})))

    def test_an_agent_as_a_tool(self) -> None:
        bridge = self.serve('expose = ["agent.default"]\n', before=OFFLINE, more=ALLOW)
        bridge.open()
        answer = bridge.host_call("agent.default", {"message": "/call variable_list {}"})
        self.assertTrue(answer.success, answer.error_message)


class CallTest(SharedBridgeCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.serve_all()
        (cls.server.folder / "note.txt").write_text("remember the milk\n")

    def test_it_runs_in_the_working_folder(self) -> None:
        answer = self.bridge.host_call("read", {"path": "note.txt"})
        self.assertTrue(answer.success, answer.error_message)
        self.assertIn("remember the milk", answer.result.value.decode())
        self.assertGreaterEqual(answer.execution_time_ms, 0)

    def test_execute_tool_reaches_them_too_and_says_that_they_are_local(self) -> None:
        answer = self.bridge.call("read", {"path": "note.txt"})
        self.assertTrue(answer.success, answer.error_message)
        self.assertIn("remember the milk", answer.result.value.decode())
        self.assertEqual(answer.metadata["tool_type"], "local")
        self.assertRegex(answer.metadata["execution_time"], r"^\d+(\.\d+)?$")

    def test_python_s_way_of_packing_arguments(self) -> None:
        """Text really packed, numbers and truth values as JSON under the name of a `Value`."""
        value_url = "type.googleapis.com/google.protobuf.Value"
        answer = self.bridge.host_call("read", {"path": packed_text("note.txt"), "limit": raw_any(b"1", value_url)})
        self.assertTrue(answer.success, answer.error_message)

    def test_the_document_s_ways_of_packing_arguments(self) -> None:
        answer = self.bridge.host_call(
            "read", {"path": packed_text("note.txt"), "limit": packed(wrappers.Int32Value(value=1))}
        )
        self.assertTrue(answer.success, answer.error_message)

    def test_failures_are_answers(self) -> None:
        text = self.bridge.host_failure("read", {"path": "no-such-file.txt"})
        self.assertTrue(text.startswith("Tool execution failed: "), text)
        text = self.bridge.failure("read", {"path": "no-such-file.txt"})
        self.assertTrue(text.startswith("Tool execution failed: "), text)
        for arguments in ({}, {"path": 5}, {"path": "note.txt", "limit": "many"}):
            with self.subTest(arguments):
                self.assertTrue(self.bridge.host_failure("read", arguments))

    def test_unknown_names_and_sessions(self) -> None:
        session = self.bridge.session
        self.assertEqual(self.bridge.failure("nosuch"), f"Tool nosuch not found for session {session}")
        self.assertEqual(self.bridge.host_failure("nosuch"), f"Tool nosuch not found for session {session}")
        self.assertEqual(self.bridge.host_failure("read", session="nobody"), "Session not found: nobody")
        self.assertTrue(self.bridge.failure(""))

    def test_they_do_not_stream(self) -> None:
        refused = self.bridge.refused_stream("read", {"path": "note.txt"})
        self.assertEqual(refused.code, Code.UNIMPLEMENTED)
        self.assertIn("Streaming execution is not enabled", refused.text)

    def test_a_parameter_that_is_nothing_runs_nothing(self) -> None:
        answer = self.bridge.host_call("variable_set", {"name": "x", "value": raw_any(b"{oops")})
        self.assertFalse(answer.success)
        self.assertTrue(answer.error_message.startswith("Invalid parameter value: "), answer.error_message)
        self.assertFalse(answer.HasField("result"))
        self.assertEqual(self.bridge.host_value("variable_list"), {"variables": []})

    def test_memory_is_the_session_s_own(self) -> None:
        self.bridge.host_value("remember", {"key": "colour", "value": "green"})
        self.assertIn("green", json.dumps(self.bridge.host_value("recall", {"key": "colour"})))
        other = self.session()
        self.assertNotIn("green", str(self.bridge.host_call("recall", {"key": "colour"}, session=other)))


class VariableTest(SharedBridgeCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.serve_all()

    def set(self, name: str, value: object, **more: object) -> dict:
        return self.bridge.host_value("variable_set", {"name": name, "value": value, **more})

    def get(self, name: str) -> dict:
        return self.bridge.host_value("variable_get", {"name": name})

    def names(self, **how: object) -> list[str]:
        return [one["name"] for one in self.bridge.host_value("variable_list", how)["variables"]]

    def stale(self) -> set[str]:
        return {one["name"] for one in self.bridge.host_value("variable_list")["variables"] if one["stale"]}

    def watch(self, **how: object) -> dict:
        return self.bridge.host_value("variable_watch", how)

    def test_values_come_back_as_they_were(self) -> None:
        numbers = (0, -1, 5, 1.5, 2**53 + 1, -(2**63), 2**64 - 1)
        for value in (None, True, *numbers, "", "text", "ü☃", [], {}, [1, None, {"a": [2**60]}]):
            with self.subTest(value):
                made = self.set("x", value)
                self.assertEqual(made["name"], "x")
                got = self.get("x")
                self.assertEqual((got["value"], type(got["value"])), (value, type(value)))
                self.assertEqual(got["version"], made["version"])

    def test_versions_count_up_and_guard(self) -> None:
        first = self.set("x", 1)["version"]
        second = self.set("x", 2, if_version=first)["version"]
        self.assertGreater(second, first)
        self.bridge.host_failure("variable_set", {"name": "x", "value": 3, "if_version": first})
        self.assertEqual(self.get("x")["value"], 2)

    def test_at_once_one_of_all_with_the_same_version_wins(self) -> None:
        version = self.set("x", 0)["version"]
        arguments = {"name": "x", "if_version": version}
        answers = together(10, lambda at: self.bridge.host_call("variable_set", {**arguments, "value": at}))
        self.assertEqual(sum(answer.success for answer in answers), 1)

    def test_what_is_not_there(self) -> None:
        self.assertIn("no variable is named missing", self.bridge.host_failure("variable_get", {"name": "missing"}))
        self.set("x", 1)
        self.bridge.host_value("variable_delete", {"name": "x"})
        self.assertIn("no variable is named x", self.bridge.host_failure("variable_get", {"name": "x"}))
        self.assertEqual(self.names(), [])

    def test_lists_by_prefix(self) -> None:
        for name in ("model.rate", "model.depth", "data"):
            self.set(name, 1)
        self.assertEqual(sorted(self.names()), ["data", "model.depth", "model.rate"])
        self.assertEqual(sorted(self.names(prefix="model.")), ["model.depth", "model.rate"])

    def test_what_depends_becomes_stale_until_it_is_set_again(self) -> None:
        self.set("a", 1)
        self.set("b", 2, depends_on=["a"])
        self.set("c", 3, depends_on=["b"])
        self.assertEqual(self.stale(), set())
        self.assertEqual(sorted(self.set("a", 10)["stale"]), ["b", "c"])
        self.assertEqual(self.stale(), {"b", "c"})
        self.assertTrue(self.get("c")["stale"])
        self.assertEqual(self.get("c")["depends_on"], ["b"])
        self.set("b", 20, depends_on=["a"])
        self.assertNotIn("b", self.stale())
        self.set("c", 30, depends_on=["b"])
        self.assertEqual(self.stale(), set())
        self.bridge.host_value("variable_delete", {"name": "a"})
        self.assertEqual(self.stale(), {"b", "c"})

    def test_a_circle_is_refused(self) -> None:
        self.set("a", 1)
        self.set("b", 2, depends_on=["a"])
        for name, needs in (("a", ["b"]), ("a", ["a"]), ("self", ["self"])):
            with self.subTest(name):
                self.bridge.host_failure("variable_set", {"name": name, "value": 1, "depends_on": needs})
        self.assertEqual(self.get("a")["value"], 1)

    def test_watching_waits_for_the_next_change(self) -> None:
        self.set("x", 1)
        watching = self.in_background(lambda: self.watch(timeout_ms=25_000))
        other = self.session()
        # Set until it is seen: the watcher may not have begun.
        number = 1
        while not watching.done():
            number += 1
            self.bridge.host_value("variable_set", {"name": "x", "value": "not mine"}, session=other)
            self.set("x", number)
            time.sleep(0.02)
        changes = watching.result()["changes"]
        self.assertEqual({one["name"] for one in changes}, {"x"})
        self.assertTrue(all(isinstance(one["value"], int) and not one["deleted"] for one in changes), changes)

    def test_watching_from_a_cursor_misses_nothing(self) -> None:
        cursor = self.watch(timeout_ms=1)["cursor"]
        self.assertIs(type(cursor), int)
        self.set("x", 1)
        self.set("y", 2)
        self.bridge.host_value("variable_delete", {"name": "x"})
        got: dict = {}
        while not ({"x", "y"} <= set(got) and got["x"]["deleted"]):
            # What is there already is told at once: the call would not last for as long as this wait.
            seen = self.watch(since=cursor, timeout_ms=60_000)
            self.assertGreater(seen["cursor"], cursor)
            cursor = seen["cursor"]
            got.update({one["name"]: one for one in seen["changes"]})
        self.assertEqual((got["y"]["value"], got["y"]["deleted"]), (2, False))

    def test_watching_by_name_and_giving_up(self) -> None:
        cursor = self.watch(timeout_ms=1)["cursor"]
        self.set("model.rate", 1)
        self.assertEqual(self.watch(names=["data.*"], since=cursor, timeout_ms=100)["changes"], [])
        seen = self.watch(names=["model.*"], since=cursor, timeout_ms=25_000)
        self.assertEqual([one["name"] for one in seen["changes"]], ["model.rate"])

    def test_limits(self) -> None:
        for name in ("", "1x", "a b", "x" * 129, "-x", "ü"):
            with self.subTest(name):
                self.bridge.host_failure("variable_set", {"name": name, "value": 1})
        self.set("x" * 128, 1)
        self.set("big", "x" * (255 << 10))
        self.bridge.host_failure("variable_set", {"name": "bigger", "value": "x" * (257 << 10)})
        self.bridge.host_failure("variable_watch", {"timeout_ms": -1})

    def test_a_thousand_and_no_more(self) -> None:
        together(8, lambda part: [self.set(f"v{at}", at) for at in range(part * 125, part * 125 + 125)])
        self.bridge.host_failure("variable_set", {"name": "one.more", "value": 1})
        self.set("v5", "an old one can change")
        self.assertEqual(len(self.names()), 1000)

    def test_sessions_have_their_own(self) -> None:
        self.set("x", 1)
        other = self.session()
        self.assertIn("no variable", self.bridge.host_failure("variable_get", {"name": "x"}, session=other))

    def test_by_execute_tool_as_well(self) -> None:
        self.bridge.value("variable_set", {"name": "x", "value": {"a": 2**60}})
        self.assertEqual(self.bridge.value("variable_get", {"name": "x"})["value"], {"a": 2**60})


class RegisteredNameTest(SharedBridgeCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.serve_all()

    def test_a_tool_of_the_session_is_not_a_host_tool(self) -> None:
        self.bridge.register(self.bridge.session, registration("mine", value="any"))
        self.assertEqual(self.bridge.host_failure("mine", {"value": json_any(1)}), "Tool mine is not an Elixir tool")


if __name__ == "__main__":
    unittest.main()
