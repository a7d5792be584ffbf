"""A plugin's tools in everybody's hands: chats, runs, workers, the command line, MCP; a fresh instance every time."""

from __future__ import annotations

import asyncio
import json
import os
import unittest
from concurrent.futures import ThreadPoolExecutor

from bridge_case import ALLOW, Notes, Pool, wait_for_pool
from bridge_client import Bridge
from gateway_client import Gateway
from packages import load
from plugin_support import Plugin, PluginTestCase, component, in_time, json_values, operator_token
from runs_client import Runs
from stub_model import Call, Reply, StubModel, Text

TIMEOUT = 60


class ChatTest(PluginTestCase):
    def with_model(self, *plugins: Plugin, more: str = "", **options) -> Gateway:
        self.model = StubModel()
        self.addCleanup(self.model.close)
        return self.serve(*plugins, agent=self.model.provider_config("openai"), more=more, **options)

    def test_an_agent_calls_it_in_a_chat(self) -> None:
        gateway = self.with_model(Plugin("echo"))
        self.model.script(Reply(Text("Let me see. "), Call("echo", {"text": "ü☃ hi"})), Reply(Text("It said hi.")))
        turn = gateway.chat("use the tool")
        self.assertEqual(turn.text, "Let me see. It said hi.")
        (use,), (result,) = turn.data("tool_use"), turn.data("tool_result")
        self.assertEqual((use["name"], use["input"]), ("echo", {"text": "ü☃ hi"}))
        self.assertEqual((result["content"], result["is_error"]), ("ü☃ hi", False))
        self.assertLessEqual({"echo", "shout", "count_calls"}, set(self.model.requests[0].tool_names))
        self.assertIn("ü☃ hi", json.dumps(self.model.requests[1].messages, ensure_ascii=False))

    def test_an_agent_has_it_only_if_it_lists_it(self) -> None:
        self.model = StubModel()
        self.addCleanup(self.model.close)
        agent = self.model.provider_config("openai") + 'tools = ["shout"]\n'
        gateway = self.serve(Plugin("echo"), agent=agent, more="")
        gateway.chat("hi")
        self.assertEqual(self.model.requests[0].tool_names, ["shout"])

    def test_a_plugin_without_grants_needs_no_approval_and_one_with_grants_does(self) -> None:
        gateway = self.with_model(Plugin("echo"), Plugin("notes", grants=("store:notes",)))
        self.model.script(Reply(Call("echo", {"text": "x"})), Reply(Text("done")))
        self.assertEqual(gateway.chat("go").data("approval"), [])
        self.model.script(Reply(Call("note_add", {"title": "a", "text": "b"})), Reply(Text("done")))
        request = gateway.start("go")
        asked = gateway.until(request, "approval")[-1]["data"]
        self.assertEqual((asked["name"], asked["input"]), ("note_add", {"title": "a", "text": "b"}))
        gateway.result("approval.answer", approval_id=asked["approval_id"], approve=True)
        (result,) = gateway.turn(request).data("tool_result")
        self.assertFalse(result["is_error"], result)

    def test_arguments_that_do_not_fit_the_schema_never_arrive(self) -> None:
        gateway = self.serve(Plugin("echo"))
        for arguments in ({}, {"text": 5}, {"text": None}, {"text": ["x"]}):
            with self.subTest(arguments):
                content, is_error = self.call("echo", gateway, **arguments)
                self.assertTrue(is_error, content)
                self.assertIn("text", content)
        self.assertEqual(self.plugins(gateway)["echo"]["calls"], 0)

    def test_a_name_that_is_taken_becomes_the_plugin_s_own(self) -> None:
        gateway = self.serve(Plugin("echo"), Plugin("second", data=component("echo")))
        tools = self.tools(gateway)
        plain = [name for name in tools if name == "echo"]
        named = [name for name in tools if name in ("second.echo", "echo.echo")]
        self.assertEqual((len(plain), len(named)), (1, 1), sorted(tools))
        for name in (*plain, *named):
            self.assertEqual(self.good(name, gateway=gateway, text=name), name)
        listed = self.plugins(gateway)
        offered = listed["echo"]["tools"] + listed["second"]["tools"]
        self.assertEqual((len(offered), set(offered) - set(tools)), (6, set()), offered)

    def test_the_report(self) -> None:
        gateway = self.serve(Plugin("echo"), Plugin("notes", grants=("store:notes",)))
        self.good("echo", gateway=gateway, text="x")
        listed = self.plugins(gateway)
        echo = listed["echo"]
        self.assertEqual((echo["state"], echo["kinds"], echo["grants"]), ("ready", ["tools"], []))
        self.assertEqual(sorted(echo["tools"]), ["count_calls", "echo", "shout"])
        self.assertEqual((echo["calls"], echo["error"], echo["waiting_for_approval"]), (1, None, None))
        self.assertRegex(echo["sha256"], r"^[0-9a-f]{64}$")
        self.assertTrue(echo["source"].endswith("plugins/echo.wasm"), echo["source"])
        self.assertEqual(listed["notes"]["grants"], ["store:notes"])
        self.assertEqual(gateway.result("status")["plugins"], 2)
        spec = self.tools(gateway)["echo"]
        self.assertEqual((spec["kind"], spec["input_schema"]["type"]), ("wasm", "object"))
        self.assertTrue(spec["description"])


class FreshTest(PluginTestCase):
    def test_nothing_is_carried_over_from_call_to_call(self) -> None:
        gateway = self.serve(Plugin("echo"))
        seen = {self.good("count_calls", gateway=gateway) for _ in range(20)}
        self.assertEqual(len(seen), 1, seen)
        self.assertIn("1", seen.pop())

    def test_nor_between_calls_at_the_same_time(self) -> None:
        gateway = self.serve(Plugin("echo"))
        requests = [self.begin(gateway, "count_calls", account=f"a{number}") for number in range(50)]
        seen = {self.answer_of(gateway, request) for request in requests}
        self.assertEqual(len(seen), 1, seen)
        self.assertEqual(self.plugins(gateway)["echo"]["calls"], 50)

    def test_many_at_once_get_their_own_answers(self) -> None:
        gateway = self.serve(Plugin("echo"))
        requests = {
            number: self.begin(gateway, "echo", account=f"a{number}", text=f"number {number} " * 100)
            for number in range(150)
        }
        for number, request in requests.items():
            self.assertEqual(self.answer_of(gateway, request), (f"number {number} " * 100, False))


class RunTest(PluginTestCase):
    def test_by_a_runs_request(self) -> None:
        model = StubModel(Reply(Call("echo", {"text": "from a run"})), Reply(Text("It said so.")))
        self.addCleanup(model.close)
        self.serve(Plugin("echo"), agent=model.provider_config("openai"), more="", runs="127.0.0.1:0")
        with Runs(self.server) as runs:
            self.assertIn("echo", [tool["name"] for tool in runs.ask("tools_list")["tools"]])
            run = runs.run("use it", agent="react")
            self.assertEqual(run.reply, "It said so.")
            (ended,) = run.of("tool_end")
            self.assertEqual((ended["name"], ended["result"], ended["is_error"]), ("echo", "from a run", False))


class WorkerTest(PluginTestCase):
    def test_by_a_python_worker_through_the_bridge(self) -> None:
        load("grpc")
        notes = Notes()
        self.addCleanup(notes.close)
        pool = Pool(notes)
        self.serve(
            Plugin("echo"),
            Plugin("notes", grants=("store:notes",)),
            before="",
            more=pool.config + '[bridge]\nexpose = ["note_add"]\n' + ALLOW,
            bridge="127.0.0.1:0",
        )
        bridge = Bridge(self.server.address("bridge"))
        self.addCleanup(bridge.close)
        wait_for_pool(bridge, pool)
        bridge.open()
        # Read-only ones are shown to workers as they are; others where the operator says so.
        self.assertIn("shout", bridge.host_tools())
        self.assertNotIn("note_delete", bridge.host_tools())
        answer = bridge.value("call_host", {"name": "shout", "arguments": {"text": "from python"}})
        self.assertIn("FROM PYTHON", json.dumps(answer))
        added = bridge.value("call_host", {"name": "note_add", "arguments": {"title": "t", "text": "by a worker"}})
        self.assertTrue(added)
        self.assertIn("by a worker", self.good("note_get", title="t"))


class CommandTest(PluginTestCase):
    def test_by_tools_call(self) -> None:
        self.serve(Plugin("echo"))
        self.assertEqual(self.command("tools", "call", "echo", '{"text": "typed"}').stdout, "typed\n")
        answer = json.loads(self.command("tools", "call", "echo", '{"text": "typed"}', "--json").stdout)
        self.assertEqual(answer, {"content": "typed", "is_error": False})
        shown = json.loads(self.command("tools", "show", "echo").stdout)
        self.assertEqual((shown["name"], shown["kind"]), ("echo", "wasm"))
        listed = [json.loads(line) for line in self.command("tools", "list", "--json").stdout.splitlines()]
        self.assertEqual([one["kind"] for one in listed if one["name"] == "echo"], ["wasm"])

    def test_many_at_once(self) -> None:
        self.serve(Plugin("echo"))
        with ThreadPoolExecutor(4) as pool:
            outputs = list(
                pool.map(
                    lambda at: self.command("tools", "call", "echo", json.dumps({"text": f"n{at}"})).stdout, range(8)
                )
            )
        self.assertEqual(outputs, [f"n{at}\n" for at in range(8)])


class McpTest(PluginTestCase):
    def test_by_an_mcp_client(self) -> None:
        mcp = load("mcp")
        httpx = load("httpx2")
        streamable_http = load("mcp.client.streamable_http")
        self.serve(Plugin("echo"))

        async def talk() -> None:
            headers = {"Authorization": f"Bearer {operator_token(self.server)}"}
            client = httpx.AsyncClient(headers=headers, timeout=TIMEOUT, trust_env=False)
            transport = streamable_http.streamable_http_client(f"{self.server.http_url}/mcp", http_client=client)
            async with asyncio.timeout(TIMEOUT), mcp.Client(transport) as session:
                listed = {tool.name: tool for tool in (await session.list_tools()).tools}
                self.assertTrue(listed["echo"].annotations.read_only_hint)
                result = await session.call_tool("echo", {"text": "by mcp"})
                self.assertEqual((result.is_error, result.content[0].text), (False, "by mcp"))

        asyncio.run(talk())


class WithoutTest(PluginTestCase):
    def test_a_server_without_plugins_pays_nothing(self) -> None:
        gateway = self.serve()
        self.assertEqual(gateway.result("plugin.list"), [])
        self.assertEqual(gateway.result("status")["plugins"], 0)
        threads = set()
        for entry in os.listdir(f"/proc/{self.server.pid}/task"):
            with open(f"/proc/{self.server.pid}/task/{entry}/comm") as comm:
                threads.add(comm.read().strip())
        self.assertEqual([name for name in threads if name.startswith("wasm")], [])
        self.assertEqual(json_values(self.command("plugins", "list", "--json").stdout or "[]"), [])

    def test_the_first_call_right_after_the_start(self) -> None:
        """Whoever asks while plugins are still being loaded gets the tool or a clear error, and then the tool."""
        self.server = self.prepare(Plugin("echo").config, Plugin("echo")).start()
        gateway = self.another()
        in_time(lambda: "echo" in self.tools(gateway), "the tool is offered")


if __name__ == "__main__":
    unittest.main()
