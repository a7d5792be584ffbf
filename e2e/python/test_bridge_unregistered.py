"""Tools that a worker runs and never registered, as the guide, the template and many adapters of the protocol have them."""

from __future__ import annotations

import json
import unittest

from bridge_case import ALLOW, BridgeTestCase, Pool, SharedBridgeCase
from bridge_client import TIMEOUT, Code, value_of
from gateway_client import Gateway, eventually
from test_bridge_sdk import sdk_pool

TEMPLATE = "adapters.Template"


def until_ready(case: BridgeTestCase, *pools: str) -> None:
    """Workers that register nothing are waited for by what the server says of them."""
    for pool in pools:
        eventually(lambda: case.report(pool)["ready"] == 1, f"{pool} is ready", TIMEOUT)  # noqa: B023 - waited for here


class OnePoolTest(SharedBridgeCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.make_notes()
        py = Pool(cls.notes, adapter=TEMPLATE)
        closed = Pool(cls.notes, "closed", adapter=TEMPLATE, unregistered="deny")
        cls.serve_all("", more=py.config + closed.config + '[tools.approval]\nsecret = "deny"\n"py.hidden" = "deny"\n')

    def setUp(self) -> None:
        until_ready(self, "py", "closed")
        super().setUp()

    def called(self) -> list[str]:
        return self.notes.lines("template")

    def test_it_is_called_by_its_name_alone(self) -> None:
        for name in ("add", "py.add"):
            answer = self.bridge.call(name, {"a": 2, "b": 3})
            self.assertEqual((answer.success, value_of(answer.result)), (True, 5), answer.error_message)
            self.assertEqual(answer.metadata["tool_type"], "remote")
            self.assertTrue(answer.metadata["worker_id"].startswith("py_worker"), answer.metadata)
        self.assertEqual(self.called()[-1], "add", "the worker sees its own name of it")

    def test_arguments_of_any_shape_go_along(self) -> None:
        arguments = {"text": "x", "list": [1, {"a": None}], "flag": True}
        self.assertEqual(self.bridge.value("mirror", arguments), arguments)
        self.assertEqual(self.bridge.value("mirror"), {})

    def test_it_streams_and_is_had_as_a_whole(self) -> None:
        pieces = [json.loads(one.data) for one in self.bridge.stream("count", {"n": 3}) if one.data]
        self.assertEqual(pieces, [1, 2, 3])
        self.assertEqual(self.bridge.value("count", {"n": 2}), [1, 2])

    def test_nobody_is_offered_it(self) -> None:
        self.assertEqual(self.bridge.tools(), {})
        self.assertEqual(self.bridge.get().tool_count, 0)
        self.assertNotIn("add", self.bridge.host_tools())
        with Gateway(self.server) as gateway:
            names = [one["name"] for one in gateway.result("tool.list", limit=500)["items"]]
        self.assertFalse([name for name in names if name.endswith("add") or name.endswith("mirror")])
        self.assertEqual(self.report()["tools"], 0)

    def test_an_unknown_one_is_asked_for_once(self) -> None:
        session = self.bridge.session
        for name in ("nosuch", "py.nosuch", "nosuch"):
            self.assertEqual(self.bridge.failure(name), f"Tool {name} not found for session {session}")
        self.assertEqual(self.called().count("nosuch"), 1, "it is remembered")
        refused = self.bridge.refused_stream("nosuch")
        self.assertEqual((refused.code, refused.text), (Code.NOT_FOUND, f"Tool nosuch not found for session {session}"))
        refused = self.bridge.refused_stream("never_heard_of")
        self.assertEqual(refused.code, Code.NOT_FOUND, refused.text)
        self.assertEqual(self.called().count("never_heard_of"), 1)

    def test_a_tool_s_own_failure_is_its_own(self) -> None:
        for _ in range(2):
            error = json.loads(self.bridge.failure("fail"))
            self.assertEqual((error["type"], error["message"]), ("ValueError", "no luck"))
        self.assertGreaterEqual(self.called().count("fail"), 2, "it is not taken for one that is not there")

    def test_a_rule_about_either_name_holds(self) -> None:
        session = self.bridge.session
        for name in ("secret", "py.secret", "hidden", "py.hidden"):
            self.assertEqual(self.bridge.failure(name), f"Tool {name} not found for session {session}")
        self.assertFalse({"secret", "hidden"} & set(self.called()))

    def test_the_server_s_own_names_and_closed_pools_are_not_reached(self) -> None:
        session = self.bridge.session
        for name in ("bash", "write_file", "closed.add", "closed.", ".add", "_private", "py.__init__", "a b"):
            with self.subTest(name):
                self.assertEqual(self.bridge.failure(name), f"Tool {name} not found for session {session}")
        self.assertFalse({"bash", "write_file", "_private", "__init__"} & set(self.called()))
        self.assertEqual(self.bridge.host_failure("add"), f"Tool add not found for session {session}")

    def test_the_log_says_once_how_it_is_with_such_a_pool(self) -> None:
        log = self.server.log()
        told = [line for line in log.splitlines() if "registered no tools" in line]
        self.assertEqual(len(told), 2, told)
        (open_pool,) = [line for line in told if "py.NAME" in line]
        self.assertIn("WARN", open_pool)
        self.assertIn("unregistered", open_pool)

    def test_the_command_line_names_the_pool(self) -> None:
        self.assertIn("no tool is named `add`", self.command("tools", "call", "add", '{"a": 1, "b": 2}', code=1).stderr)
        call = ("tools", "call", "py.add", '{"a": 1, "b": 2}')
        refused = self.command(*call, code=1)
        self.assertIn("[tools.approval]", refused.stderr, "it counts as one that writes")
        self.assertIn("--approvals wait", refused.stderr)
        self.assertIn("3", self.command(*call, "--yes").stdout)


class SeveralPoolsTest(BridgeTestCase):
    def test_several_are_named_and_the_name_chooses(self) -> None:
        one, two = (self.pool(name, adapter=TEMPLATE) for name in ("one", "two"))
        sdk = sdk_pool(self.notes, "sdk")
        self.server = self.start_server(config=one.config + two.config + sdk.config + ALLOW, bridge="127.0.0.1:0")
        self.bridge = self.client()
        until_ready(self, "one", "two", "sdk")
        self.bridge.open()
        told = self.bridge.failure("mirror", {"x": 1})
        self.assertIn("`one.mirror` or `two.mirror`", told)
        self.assertEqual(self.bridge.value("two.mirror", {"x": 1}), {"x": 1})
        # Workers of the SDK register everything they have, so the name is not theirs to guess.
        self.assertEqual(self.bridge.value("echo", {"value": 1}), 1)
        session = self.bridge.session
        self.assertEqual(self.bridge.failure("sdk.nosuch"), f"Tool sdk.nosuch not found for session {session}")
        # What is registered has its pool's name too.
        self.assertEqual(self.bridge.value("sdk.add", {"a": 1, "b": 2}), 3)
        self.assertTrue(self.bridge.failure("sdk.add", {"a": "x", "b": 2}).startswith("Invalid parameter a: "))


if __name__ == "__main__":
    unittest.main()
