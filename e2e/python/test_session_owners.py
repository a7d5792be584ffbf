"""A conversation belongs to whoever made it: others neither read, list, continue, clear, join nor ask about it."""

from __future__ import annotations

import json
import threading
import unittest

from bridge_client import Bridge
from gateway_client import TIMEOUT, Gateway, eventually
from patchboard_server import Server
from runs_client import Runs
from stub_model import Call, Hold, Reply, StubModel, Text
from users_case import UsersTestCase, operator_token

TOKEN = "0123456789abcdef0123456789abcdef"
SECRET = "webhook-secret-canary"
ENVIRONMENT = {"TOKEN": TOKEN, "CHANNEL_SECRET": SECRET}
WITH_TOKEN = '[gateway]\ntoken = "env:TOKEN"\n'
# A server with a token, and one without.
EACH = (WITH_TOKEN, "")
# No adapter of this name is there; the channel is a channel all the same.
HOOK = '[channels.hook]\nverify = "token"\nsecret = "env:CHANNEL_SECRET"\nplugin = "not-there"\n'
SURFACES = "runs hub bridge mcp webhook console openai responses acp a2a wyoming ag-ui schedule".split()
CLI = {"channel": "cli", "account": "alice"}
CLI_KEY = "default:cli:alice:main"
RUNS_KEY = "default:runs:operator:launch"
WEB = {"channel": "web", "account": "alice"}
WEB_KEY = "default:web:alice:main"
CODE = "heron-canary"


def about(key: str, parts: dict | None) -> list[tuple[str, dict]]:
    """Every request that reads, joins, or changes a conversation that is named by its key or by its parts."""
    named = [{"session": key}] + ([parts] if parts else [])
    asked = [
        (method, {**one, **more})
        for one in named
        for method, more in (
            ("chat.history", {}),
            ("chat.history", {"limit": 1}),
            ("budget.status", {}),
            ("session.clear", {}),
            ("session.clear", {"purge": True}),
        )
    ]
    return [*asked, ("chat.attach", {"session": key}), ("chat.attach", {"session": key, "after": 0})]


class OwnersTestCase(UsersTestCase):
    def serve(self, *behaviours, before: str = WITH_TOKEN, more: str = "", **options) -> Server:
        self.model = StubModel(*behaviours)
        self.addCleanup(self.model.close)
        options = {"runs": "127.0.0.1:0", "env": ENVIRONMENT, **options}
        self.server = self.start_server(config=before + self.model.provider_config("openai") + more, **options)
        self.token = TOKEN if before else None
        return self.server

    def client(self) -> Gateway:
        """Somebody who may use the gateway and is not the operator."""
        return self.gateway_of(self.server, self.token)

    def operator(self) -> Gateway:
        return self.operator_of(self.server)

    def runs_of(self, token: str | None) -> Runs:
        runs = Runs(self.server, token=token)
        self.addCleanup(runs.close)
        return runs

    def said(self, gateway: Gateway, **where: object) -> list[str]:
        return [one["content"] for one in gateway.result("chat.history", where)["items"]]

    def keys(self, gateway: Gateway, **where: object) -> set[str]:
        return {one["session"] for one in gateway.result("session.list", where)["items"]}

    def assert_refused(self, gateway: Gateway, method: str, params: dict) -> None:
        answer = gateway.answer(method, params)
        self.assertIn("error", answer, f"{method} {params} was answered: {answer}")
        self.assertNotIn(CODE, json.dumps(answer))

    def client_of(self, before: str) -> Gateway:
        """Starts a server that begins its configuration so, and gives an ordinary client of it."""
        self.serve(before=before)
        return self.client()


class OperatorsTest(OwnersTestCase):
    """What the operator said on the command line and to runs."""

    def speak(self) -> None:
        self.own = self.operator()
        self.own.chat(f"My name is {CODE}. Keep it.", **CLI)
        runs = self.runs_of(operator_token(self.server))
        runs.run(f"the code is {CODE}", thread_id="launch", id="run-one")

        def is_known() -> bool:
            return CODE in json.dumps(self.own.result("memory.search", query="name", **CLI))

        eventually(is_known, "the fact is known", TIMEOUT)
        self.prompts = len(self.model.requests)

    def assert_untouched(self) -> None:
        said = f"My name is {CODE}. Keep it."
        self.assertEqual(self.said(self.own, **CLI), [said, f"echo: {said}"])
        self.assertEqual(self.said(self.own, session=CLI_KEY), [said, f"echo: {said}"])
        self.assertIn(f"the code is {CODE}", self.said(self.own, session=RUNS_KEY))
        self.assertEqual(len(self.model.requests), self.prompts, "the model was asked")

    def test_others_neither_read_nor_join_nor_clear_nor_ask_about_it(self) -> None:
        for before in EACH:
            with self.subTest(token=bool(before)):
                client = self.client_of(before)
                self.speak()
                parts = {"channel": "runs", "account": "operator", "peer": "launch"}
                for method, params in [*about(CLI_KEY, CLI), *about(RUNS_KEY, parts)]:
                    with self.subTest(method, **params):
                        self.assert_refused(client, method, params)
                # Requests and runs by their own names.
                for name in ("r1", "run-one"):
                    self.assert_refused(client, "chat.attach", {"id": name})
                    self.assert_refused(client, "chat.attach", {"id": name, "session": CLI_KEY})
                self.assert_untouched()

    def test_they_do_not_see_it_in_lists(self) -> None:
        for before in EACH:
            with self.subTest(token=bool(before)):
                client = self.client_of(before)
                self.speak()
                client.chat("hello", **WEB)
                self.assertEqual(self.keys(client), {WEB_KEY})
                for where in (CLI, {"channel": "cli"}, {"channel": "runs"}, {"account": "operator"}):
                    self.assertEqual(self.keys(client, **where), set(), where)
                self.assertEqual(self.keys(self.own), {WEB_KEY, CLI_KEY, RUNS_KEY})
                # A place in the operator's list leads nowhere else.
                cursor = self.own.result("session.list", limit=1)["next_cursor"]
                page = client.result("session.list", limit=10, cursor=cursor)["items"]
                self.assertLessEqual({one["session"] for one in page}, {WEB_KEY})

    def test_nor_in_the_report_of_what_was_used(self) -> None:
        for before in EACH:
            with self.subTest(token=bool(before)):
                client = self.client_of(before)
                self.speak()
                client.chat("hello", **WEB)
                listed = [one["key"] for one in client.result("usage.report", group_by="session")["items"]]
                self.assertEqual(listed, [WEB_KEY])

    def test_they_do_not_find_it_in_the_memory(self) -> None:
        for before in EACH:
            with self.subTest(token=bool(before)):
                client = self.client_of(before)
                self.speak()
                for query in ("name", CODE, ""):
                    self.assert_refused(client, "memory.search", {"query": query, **CLI})
                client.chat("What is my name?", **WEB)
                self.assertNotIn(CODE, json.dumps(self.model.requests[-1].body))

    def test_they_do_not_go_on_with_it(self) -> None:
        for before in EACH:
            with self.subTest(token=bool(before)):
                client = self.client_of(before)
                self.speak()
                for peer in ({}, {"peer": "main"}, {"peer": "other"}):
                    self.assert_refused(client, "chat.send", {**CLI, "content": "What did I say?", **peer})
                for tool in ("todo_read", "memory_search", "no_such_tool"):
                    self.assert_refused(client, "tool.call", {"name": tool, "arguments": {}, **CLI})
                self.assert_untouched()

    def test_no_other_spelling_leads_there(self) -> None:
        self.serve()
        self.speak()
        client = self.client()
        spellings = [
            "default:cli:alice",
            "default:cli:alice:main:",
            "default:cli:alice:main:more",
            ":cli:alice:main",
            "default:%63li:alice:main",
            "default:c%6Ci:alice:main",
            "default:cli%3Aalice:main",
            "default:cli%3Aalice:main:",
            "default:cli:alice:main\0",
            " default:cli:alice:main",
        ]
        for key in spellings:
            for method, params in about(key, None):
                with self.subTest(key, method=method):
                    self.assertNotIn(CODE, json.dumps(client.answer(method, params)))
        for channel in ("CLI", "cli ", " cli", "cli\0", "cli:alice", "default:cli", "cli%3Aalice", "%63li", "ｃｌｉ"):
            with self.subTest(channel=channel):
                where = {"channel": channel, "account": "alice"}
                for method, params in about(CLI_KEY, where)[5:]:
                    self.assertNotIn(CODE, json.dumps(client.answer(method, params)))
                self.assertNotIn(CODE, json.dumps(client.answer("memory.search", query="name", **where)))
                client.chat("What is my name?", **where)
                self.assertNotIn(CODE, json.dumps(self.model.requests[-1].body))
        self.prompts = len(self.model.requests)
        self.assert_untouched()

    def test_runs_are_nobody_else_s_on_their_own_surface_either(self) -> None:
        for before in EACH:
            with self.subTest(token=bool(before)):
                self.client_of(before)
                self.speak()
                runs = self.runs_of(self.token)
                for asked in ("attach", "cancel"):
                    answer = runs.ask(asked, id="run-one")
                    self.assertEqual(answer["type"], "error", answer)
                    self.assertNotIn(CODE, json.dumps(answer))
                messages = runs.ask("user_messages", id="m", thread_id="launch")
                self.assertNotIn(CODE, json.dumps(messages))
                # A thread of this name is another one when somebody else speaks of it.
                runs.run("What is the code?", thread_id="launch")
                self.assertNotIn(CODE, json.dumps(self.model.requests[-1].body))
                own = self.runs_of(operator_token(self.server))
                self.assertIn(CODE, json.dumps(own.ask("user_messages", id="m", thread_id="launch")))
                self.assertIn(CODE, own.attached("run-one").reply)

    def test_the_operator_can_do_all_of_it(self) -> None:
        self.serve()
        self.speak()
        own = self.operator()
        parts = {"channel": "runs", "account": "operator", "peer": "launch"}
        for key, named in ((CLI_KEY, CLI), (RUNS_KEY, parts)):
            for params in ({"session": key}, named):
                with self.subTest(**params):
                    self.assertIn(CODE, json.dumps(own.result("chat.history", params)))
                    self.assertEqual(set(own.result("budget.status", params)), {"session", "daily", "monthly", "spenders"})
            turn = own.turn(own.ask("chat.attach", {"session": key}))
            self.assertIn(CODE, turn.text)
        self.assertIn(CODE, own.chat("and who am I?", **CLI).text + json.dumps(self.model.requests[-1].body))
        self.assertIn("result", own.answer("tool.call", {"name": "todo_read", "arguments": {}, **CLI}))
        for key in (CLI_KEY, RUNS_KEY):
            self.assertEqual(own.result("session.clear", session=key, purge=True), "ok")
            self.assertEqual(self.said(own, session=key), [])
        self.assertEqual(self.keys(own), set())
        # What clients say is the operator's to see and to clear as well.
        self.client().chat("hello", **WEB)
        self.assertEqual(self.said(own, **WEB), ["hello", "echo: hello"])
        self.assertEqual(own.result("session.clear", **WEB), "ok")

    def test_what_the_operator_says_in_a_channel_of_clients_is_the_operator_s_too(self) -> None:
        for before in EACH:
            with self.subTest(token=bool(before)):
                client = self.client_of(before)
                self.own = self.operator()
                self.own.chat(f"the code is {CODE}", **WEB)
                prompts = len(self.model.requests)
                for method, params in [*about(WEB_KEY, WEB), ("chat.send", {**WEB, "content": "What was it?"})]:
                    with self.subTest(method, **params):
                        self.assert_refused(client, method, params)
                self.assert_refused(client, "tool.call", {"name": "todo_read", "arguments": {}, **WEB})
                self.assertEqual(self.keys(client), set())
                self.assertEqual(len(self.model.requests), prompts)
                self.assertEqual(self.said(self.own, **WEB), [f"the code is {CODE}", f"echo: the code is {CODE}"])

    def test_nor_is_its_first_turn_anybody_else_s_while_it_runs(self) -> None:
        self.serve(Reply(Text(f"{CODE} "), Hold(held := self.held()), Text("is it")))
        own, client = self.operator(), self.client()
        # Requests of the two have different names then.
        for _ in range(50):
            own.result("ping")
        request = own.start("what is the code?", **WEB)
        own.until(request, "text")
        # This one waits for the session's turn to end.
        late = client.ask("chat.send", {**WEB, "content": "What was it?"})
        for method, params in about(WEB_KEY, WEB):
            if method != "session.clear":  # That one waits too.
                with self.subTest(method, **params):
                    self.assertNotIn(CODE, json.dumps(client.answer(method, params)))
        self.assertEqual(self.keys(client), set())
        cleared = client.ask("session.clear", {**WEB, "purge": True})
        self.assertIn("error", client.answer("chat.cancel", id=request))
        held.set()
        self.assertEqual(own.turn(request).text, "is it")
        for asked in (late, cleared):
            self.assertIn("error", client.next_of(asked))
        self.assertEqual(self.said(own, **WEB), ["what is the code?", f"{CODE} is it"])

    def test_its_approvals_are_not_theirs_to_see_or_to_give(self) -> None:
        ask = '[tools.approval]\n"bash" = "ask"\n'
        self.serve(Reply(Call("bash", {"command": f"echo {CODE}"})), Reply(Text("done")), more=ask)
        own, client = self.operator(), self.client()
        request = own.start("run it", **WEB)
        approval = own.until(request, "approval")[-1]["data"]["approval_id"]
        self.assertNotIn(CODE, json.dumps(client.result("approval.list")))
        self.assert_refused(client, "approval.answer", {"approval_id": approval, "approve": True})
        self.assertEqual(own.result("approval.answer", approval_id=approval, approve=False), "ok")
        own.turn(request)

    def held(self) -> threading.Event:
        event = threading.Event()
        self.addCleanup(event.set)
        return event


class ChannelsTest(OwnersTestCase):
    """Channels under which surfaces and services file conversations of their own."""

    def test_clients_may_not_name_them_and_the_operator_does_not_talk_there(self) -> None:
        for before in EACH:
            self.serve(before=before, more=HOOK)
            client, own = self.client(), self.operator()
            for channel in (*SURFACES, "hook"):
                with self.subTest(channel=channel, token=bool(before)):
                    where = {"channel": channel, "account": "alice"}
                    self.assert_refused(client, "chat.send", {**where, "content": "hi"})
                    self.assert_refused(client, "chat.send", {**where, "content": "hi", "peer": "room"})
                    self.assert_refused(client, "tool.call", {"name": "todo_read", "arguments": {}, **where})
                    self.assert_refused(own, "chat.send", {**where, "content": "hi"})
            with self.subTest("cli", token=bool(before)):
                self.assert_refused(client, "chat.send", {**CLI, "content": "hi"})
                self.assert_refused(client, "tool.call", {"name": "todo_read", "arguments": {}, **CLI})
            self.assertEqual(self.model.requests, [])
            self.assertEqual(own.chat("hi", **CLI).text, "echo: hi")
            self.assertIn("result", own.answer("tool.call", {"name": "todo_read", "arguments": {}, **CLI}))
            # Others are anybody's.
            self.assertEqual(client.chat("hi", channel="hooks", account="alice").text, "echo: hi")

    def test_they_do_not_read_there_either(self) -> None:
        self.serve(more=HOOK)
        client, own = self.client(), self.operator()
        for channel in (*SURFACES, "hook", "cli"):
            where = {"channel": channel, "account": "alice"}
            asked = [*about(f"default:{channel}:alice:main", where), ("memory.search", {"query": "x", **where})]
            for method, params in asked:
                with self.subTest(method, **params):
                    self.assert_refused(client, method, params)
            self.assertEqual(self.said(own, **where), [])


class LaterTokenTest(OwnersTestCase):
    def test_what_was_said_without_a_token_goes_on_when_there_is_one(self) -> None:
        self.serve(before="")
        without = self.client()
        without.chat("the eagle has landed", **WEB)
        without.chat("by bus", **{**WEB, "account": "bob"})
        own = self.operator()
        own.chat(f"the code is {CODE}", channel="web", account="boss")
        provider = self.server.config_file.read_text()
        self.server.config_file.write_text(WITH_TOKEN + provider)
        self.token = TOKEN
        said = ["the eagle has landed", "echo: the eagle has landed"]
        for words in ("where did it land?", "and when?"):
            with self.subTest(words):
                self.server.restart()
                client = self.client()
                self.assertEqual(self.said(client, **WEB), said)
                self.assertEqual(self.said(client, session=WEB_KEY), said)
                self.assertEqual(self.keys(client), {WEB_KEY, "default:web:bob:main"})
                self.assertIn("session", client.result("budget.status", WEB))
                client.chat(words, **WEB)
                self.assertIn("the eagle has landed", json.dumps(self.model.requests[-1].body))
                said += [words, f"echo: {words}"]
                # The operator's stays the operator's.
                where = {"channel": "web", "account": "boss"}
                for method, params in about("default:web:boss:main", where):
                    self.assert_refused(client, method, params)
                self.assert_refused(client, "chat.send", {**where, "content": "What was it?"})
        self.assertEqual(self.client().result("session.clear", **WEB, purge=True), "ok")
        self.assertEqual(self.keys(self.client()), {"default:web:bob:main"})

    def test_what_was_said_with_a_token_is_not_for_those_without(self) -> None:
        self.serve()
        self.client().chat(f"the code is {CODE}", **WEB)
        config = self.server.config_file.read_text()
        self.server.config_file.write_text(config.removeprefix(WITH_TOKEN))
        self.server.restart()
        client = self.gateway_of(self.server)
        for method, params in [*about(WEB_KEY, WEB), ("chat.send", {**WEB, "content": "What was it?"})]:
            with self.subTest(method, **params):
                self.assert_refused(client, method, params)
        self.assertEqual(self.keys(client), set())


class BridgeSessionsTest(OwnersTestCase):
    def test_those_of_programs_are_neither_read_nor_purged_through_the_gateway(self) -> None:
        for before in EACH:
            with self.subTest(token=bool(before)):
                self.serve(before=before, bridge="127.0.0.1:0")
                with Bridge(self.server.address("bridge")) as bridge:
                    bridge.open("s1")
                    bridge.host_value("variable_set", {"name": "code", "value": CODE})
                    client = self.client()
                    for key in ("bridge:s1", "bridge:s1:", "bridge::s1", "default:bridge:s1:main"):
                        for method, params in about(key, None):
                            with self.subTest(method, **params):
                                self.assert_refused(client, method, params)
                    parts = {"channel": "bridge", "account": "s1"}
                    for method, params in about("bridge:s1", parts):
                        self.assert_refused(client, method, params)
                    read = {"name": "variable_get", "arguments": {"name": "code"}}
                    self.assert_refused(client, "tool.call", {**read, **parts})
                    self.assertNotIn("bridge:s1", json.dumps(client.result("session.list")))
                    self.assertIn(CODE, json.dumps(bridge.host_value("variable_get", {"name": "code"})))


if __name__ == "__main__":
    unittest.main()
