"""RegisterTools: what a name may be, all or nothing, and what becomes of tools that a client registers."""

from __future__ import annotations

import unittest

from bridge_case import SharedBridgeCase
from bridge_client import Code, json_any, registration, together, wire


class RegistrationCase(SharedBridgeCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.serve_all()

    def register(self, *tools, worker: str = "outsider"):
        answer = self.bridge.register(self.bridge.session, *tools, worker=worker)
        self.assertEqual(answer.success, not answer.error_message)
        if not answer.success:
            self.assertEqual(dict(answer.tool_ids), {})
        return answer

    def names(self) -> set[str]:
        """The session's tools, by all there is to ask."""
        tools = self.bridge.tools()
        self.assertEqual(self.bridge.get().tool_count, len(tools))
        for name, spec in tools.items():
            self.assertEqual(spec.name, name)
        return set(tools)


class GoodTest(RegistrationCase):
    def test_it_is_listed_as_it_was_given(self) -> None:
        tool = registration("search.web_v2-1", streams=True, description="Looks for things", metadata={"cost": "low"})
        tool.parameters.add(name="query", type="string", description="What for", required=True)
        tool.parameters.add(name="limit", type="integer", default_value=json_any(10), validation_json='{"minimum":1}')
        answer = self.register(tool)
        self.assertTrue(answer.success, answer.error_message)
        self.assertEqual(dict(answer.tool_ids), {tool.name: f"{self.bridge.session}:{tool.name}"})
        (spec,) = self.bridge.tools().values()
        self.assertEqual((spec.name, spec.description, spec.supports_streaming), (tool.name, tool.description, True))
        self.assertEqual(
            [(one.name, one.type, one.description, one.required) for one in spec.parameters],
            [("query", "string", "What for", True), ("limit", "integer", "", False)],
        )
        self.assertEqual(spec.parameters[1].default_value.value, b"10")
        self.assertEqual(spec.parameters[1].validation_json, '{"minimum":1}')
        self.assertEqual(spec.metadata["cost"], "low")

    def test_several_at_once_and_more_later(self) -> None:
        self.assertEqual(set(self.register(registration("a"), registration("b")).tool_ids), {"a", "b"})
        self.assertTrue(self.register(registration("c")).success)
        self.assertEqual(self.names(), {"a", "b", "c"})

    def test_names_are_trimmed(self) -> None:
        answer = self.register(registration("  padded\t"))
        self.assertTrue(answer.success, answer.error_message)
        self.assertEqual(dict(answer.tool_ids), {"padded": f"{self.bridge.session}:padded"})
        self.assertEqual(self.names(), {"padded"})

    def test_names_up_to_64_bytes(self) -> None:
        for name in ("a", "9", "A.b-c_d", "x" * 64):
            with self.subTest(name):
                self.assertTrue(self.register(registration(name)).success)

    def test_sessions_have_their_own(self) -> None:
        self.register(registration("mine"))
        other = self.session()
        self.assertEqual(self.bridge.tools(other), {})
        self.assertTrue(self.bridge.register(other, registration("mine")).success)
        self.assertEqual(self.bridge.failure("mine2", session=other), f"Tool mine2 not found for session {other}")

    def test_none_at_all_is_nothing(self) -> None:
        self.register()
        self.assertEqual(self.names(), set())


class BadTest(RegistrationCase):
    def test_a_name_that_is_there_is_a_duplicate(self) -> None:
        self.register(registration("taken"))
        for name in ("taken", " taken "):
            answer = self.register(registration(name, description="another"))
            self.assertFalse(answer.success)
            self.assertIn("duplicate_tool", answer.error_message)
            self.assertIn("taken", answer.error_message)
        self.assertEqual(self.bridge.tools()["taken"].description, "A tool")

    def test_all_or_nothing(self) -> None:
        self.register(registration("taken"))
        for bad in ("taken", "not good", "", "new"):
            with self.subTest(bad):
                answer = self.register(registration("new"), registration(bad), registration("newer"))
                self.assertFalse(answer.success)
                self.assertEqual(self.names(), {"taken"})
        self.assertIn("duplicate_tool", self.register(registration("new"), registration("new")).error_message)

    def test_bad_names(self) -> None:
        for name in ("", "   ", "a b", "_a", "-a", ".a", "a/b", "ü", "a\0b", "a\nb", "x" * 65, "a:b", "a" * 100_000):
            with self.subTest(name[:80]):
                answer = self.register(registration(name))
                self.assertFalse(answer.success)
                self.assertNotIn("duplicate_tool", answer.error_message)
                self.assertLess(len(answer.error_message), 1000)
        self.assertEqual(self.names(), set())

    def test_metadata_has_limits(self) -> None:
        for name, metadata, is_fine in (
            ("many", {f"k{at}": "v" for at in range(31)}, True),
            ("too-many", {f"k{at}": "v" for at in range(33)}, False),
            ("long", {"k": "v" * 3000}, True),
            ("too-long", {"k": "v" * 4097}, False),
            ("long-key", {"k" * 4097: "v"}, False),
        ):
            with self.subTest(name):
                self.assertIs(self.register(registration(name, metadata=metadata)).success, is_fine)
        self.assertEqual(self.names(), {"many", "long"})

    def test_a_session_must_be_there(self) -> None:
        answer = self.bridge.register("nobody", registration("x"))
        self.assertFalse(answer.success)
        self.assertIn("Session not found: nobody", answer.error_message)
        self.assertFalse(self.bridge.is_there("nobody"), "none is made")

    def test_how_many_a_session_may_have_is_bounded(self) -> None:
        answer = self.register(*(registration(f"t{at}") for at in range(100_000)))
        self.assertFalse(answer.success)
        self.assertEqual(self.names(), set())

    def test_at_once_one_wins(self) -> None:
        answers = together(10, lambda at: self.bridge.register(self.bridge.session, registration("raced")))
        self.assertEqual(sum(answer.success for answer in answers), 1)
        self.assertTrue(all("duplicate_tool" in answer.error_message for answer in answers if not answer.success))


class OutsiderTest(RegistrationCase):
    """Nobody can call back the program that registered these."""

    def test_calling_it_says_that_its_worker_is_not_there(self) -> None:
        self.register(registration("mine", streams=True), worker="my-worker")
        self.assertEqual(self.bridge.failure("mine"), "Remote tool execution failed: Worker not found: my-worker")
        refused = self.bridge.refused_stream("mine")
        self.assertIn(refused.code, (Code.UNAVAILABLE, Code.INTERNAL))
        self.assertIn("Worker not found: my-worker", refused.text)

    def test_it_is_no_host_tool(self) -> None:
        self.register(registration("mine"))
        self.assertEqual(self.bridge.host_failure("mine"), "Tool mine is not an Elixir tool")
        self.assertNotIn("mine", self.bridge.host_tools())

    def test_it_takes_no_other_tool_s_place(self) -> None:
        host = self.bridge.host_tools()
        self.assertIn("variable_list", host)
        answer = self.bridge.register(self.bridge.session, registration("variable_list"))
        self.assertEqual(self.bridge.value("variable_list"), {"variables": []})
        self.assertEqual(self.bridge.host_value("variable_list"), {"variables": []})
        if not answer.success:
            self.assertIn("duplicate_tool", answer.error_message)

    def test_a_worker_s_name_from_outside_is_no_worker(self) -> None:
        for worker in ("", "py_worker_1_1", "x" * 100_000):
            session = self.session()
            answer = self.bridge.register(session, registration("mine"), worker=worker)
            if answer.success:
                self.assertIn("Worker not found", self.bridge.failure("mine", session=session))

    def test_a_registration_with_many_parameters(self) -> None:
        tool = registration("wide", **{f"p{at}": "any" for at in range(50)})
        self.assertTrue(self.register(tool).success)
        self.assertEqual(len(self.bridge.tools()["wide"].parameters), 50)

    def test_odd_parameters_do_no_harm(self) -> None:
        for name, parameter in (
            ("unknown-type", {"name": "x", "type": "frobnicate"}),
            ("no-type", {"name": "x"}),
            ("no-name", {"type": "string"}),
            ("bad-json", {"name": "x", "type": "string", "validation_json": "{not json"}),
            ("big-json", {"name": "x", "type": "string", "validation_json": '{"a":"' + "x" * 1_000_000 + '"}'}),
        ):
            with self.subTest(name):
                tool = wire.ToolRegistration(name=name, parameters=[wire.ParameterSpec(**parameter)])
                self.bridge.register(self.session(), tool)
                self.bridge.ping()


if __name__ == "__main__":
    unittest.main()
