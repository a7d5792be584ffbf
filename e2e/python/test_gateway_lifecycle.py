"""The gateway document's lifecycle with the `websockets` client: greeting, token, requests and their answers."""

from __future__ import annotations

import json
import subprocess
import threading
import unittest

from gateway_client import TIMEOUT, Gateway
from patchboard_server import ServerTestCase, binary
from stub_model import Hold, Reply, StubModel, Text

TOKEN = "canary-0123456789abcdef0123456789abcdef"
# No token within this time closes the connection; longer than any test takes.
PATIENT = '[limits]\nauth_timeout = "10m"\n'
WITH_TOKEN = '[gateway]\ntoken = "env:GATEWAY_TOKEN"\n' + PATIENT
AUTH_FAILED = {"error": "auth_failed", "code": 4001}
# How long the document's browser client waits for a greeting before it asks its user for a token.
GREETING_WITHIN = 0.8


class GreetingTest(ServerTestCase):
    def test_without_a_token_the_greeting_comes_at_once_with_the_real_version(self) -> None:
        server = self.start_server(config=PATIENT)
        version = subprocess.run([binary(), "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
        # The client has sent nothing yet, and nothing else is due within the life of this test.
        with Gateway(server) as gateway:
            self.assertEqual(gateway.greeting, {"ok": True, "version": version})
            self.assertEqual(gateway.result("status")["version"], version)

    def test_a_closing_handshake_is_answered(self) -> None:
        gateway = Gateway(self.start_server())
        gateway.close()
        self.assertEqual(gateway.socket.close_code, 1000)

    def test_a_websocket_ping_gets_a_pong(self) -> None:
        with Gateway(self.start_server()) as gateway:
            self.assertTrue(gateway.socket.ping(b"are you there").wait(TIMEOUT))

    def test_a_query_in_the_address_is_ignored(self) -> None:
        with Gateway(f"{self.start_server().ws_url}?a=1&b=%20") as gateway:
            self.assertEqual(gateway.result("ping"), "pong")

    def test_a_request_in_fragments_is_understood(self) -> None:
        with Gateway(self.start_server()) as gateway:
            gateway.socket.send(iter(['{"id":"f",', '"method":', '"ping"}']))
            self.assertEqual(gateway.next_frame(), {"id": "f", "result": "pong"})


class TokenTest(ServerTestCase):
    def setUp(self) -> None:
        self.server = self.start_server(config=WITH_TOKEN, env={"GATEWAY_TOKEN": TOKEN})

    def test_the_server_is_silent_until_the_token_and_greets_after_it(self) -> None:
        with Gateway(self.server, greet=False) as gateway:
            # The browser client takes this silence for "a token is needed".
            with self.assertRaises(TimeoutError):
                gateway.next_frame(GREETING_WITHIN)
            gateway.send({"token": TOKEN})
            self.assertEqual(gateway.next_frame(), {"ok": True, "version": self.server.ready["version"]})
            self.assertEqual(gateway.result("ping"), "pong")

    def test_token_and_requests_may_be_sent_in_one_go(self) -> None:
        with Gateway(self.server, greet=False) as gateway:
            gateway.send({"token": TOKEN, "client": "extra fields are fine"})
            gateway.send({"id": "1", "method": "ping"})
            self.assertEqual(gateway.next_frame()["ok"], True)
            self.assertEqual(gateway.next_frame(), {"id": "1", "result": "pong"})

    def test_a_token_in_the_address_is_worth_nothing(self) -> None:
        with Gateway(f"{self.server.ws_url}?token={TOKEN}", greet=False) as gateway:
            gateway.send({"id": "1", "method": "ping"})
            self.assertEqual(gateway.closed_with(), 4001)

    def test_anything_but_the_token_is_refused_in_the_document_s_words_and_closed_with_4001(self) -> None:
        firsts = {
            "wrong token": json.dumps({"token": "wrong"}),
            "longer": json.dumps({"token": TOKEN + "x"}),
            "beginning of the token": json.dumps({"token": TOKEN[:-1]}),
            "empty": json.dumps({"token": ""}),
            "not text": json.dumps({"token": 5}),
            "null": json.dumps({"token": None}),
            "a request": json.dumps({"id": "1", "method": "ping"}),
            "not JSON": TOKEN,
            "binary": json.dumps({"token": TOKEN}).encode(),
        }
        for name, first in firsts.items():
            with self.subTest(name), Gateway(self.server, greet=False) as gateway:
                gateway.socket.send(first)
                self.assertEqual(gateway.closed_with(), 4001)
                self.assertEqual(gateway.seen, [AUTH_FAILED])

    def test_a_second_token_is_a_malformed_request(self) -> None:
        with Gateway(self.server, token=TOKEN) as gateway:
            gateway.send({"token": TOKEN})
            self.assertEqual(gateway.next_frame()["id"], "0")
            self.assertEqual(gateway.result("ping"), "pong")


class RequestTest(ServerTestCase):
    def setUp(self) -> None:
        self.gateway = Gateway(self.start_server())
        self.addCleanup(self.gateway.close)

    def test_ping_ignores_its_params(self) -> None:
        for params in ({}, {"deep": {"er": 1}}, [], "text", 5, None):
            with self.subTest(params=params):
                self.gateway.send({"id": "p", "method": "ping", "params": params})
                self.assertEqual(self.gateway.next_frame(), {"id": "p", "result": "pong"})

    def test_status_counts_plugins_and_stored_sessions(self) -> None:
        status = self.gateway.result("status")
        self.assertEqual(set(status), {"version", "plugins", "sessions"})
        self.assertEqual((status["plugins"], status["sessions"]), (0, 0))
        self.gateway.chat("one", account="alice")
        self.gateway.chat("two", account="alice")
        self.gateway.chat("three", account="bob")
        self.assertEqual(self.gateway.result("status")["sessions"], 2)
        self.gateway.result("session.clear", channel="websocket", account="bob")
        self.assertEqual(self.gateway.result("status")["sessions"], 1)

    def test_plugin_list_is_a_bare_array(self) -> None:
        self.assertEqual(self.gateway.result("plugin.list"), [])

    def test_ids_are_echoed_as_strings(self) -> None:
        for sent, echoed in [('"abc"', "abc"), ("1", "1"), ("1.5", "1.5"), ("-3", "-3"), ('""', ""), ('"é☃"', "é☃")]:
            with self.subTest(id=sent):
                self.gateway.socket.send('{"id":%s,"method":"ping"}' % sent)
                self.assertEqual(self.gateway.next_frame(), {"id": echoed, "result": "pong"})

    def test_fields_nobody_asked_for_are_ignored(self) -> None:
        self.gateway.send({"jsonrpc": "2.0", "id": "1", "method": "ping", "extra": [1]})
        self.assertEqual(self.gateway.next_frame(), {"id": "1", "result": "pong"})

    def test_an_unknown_method_is_an_error_with_the_request_s_id(self) -> None:
        for method in ("nope", "Ping", "chat.sendx", ""):
            with self.subTest(method=method):
                self.gateway.send({"id": "7", "method": method})
                self.assertEqual(self.gateway.next_frame(), {"id": "7", "error": f"unknown method: {method}"})

    def test_a_malformed_request_is_an_error_with_id_0_and_the_connection_stays(self) -> None:
        malformed = [
            "{",
            "",
            "hello",
            '{"method":"ping"}',
            '{"id":null,"method":"ping"}',
            '{"id":true,"method":"ping"}',
            '{"id":{},"method":"ping"}',
            '{"id":"1"}',
            '{"id":"1","method":5}',
            '{"id":"1","id":"2","method":"ping"}',
            '[{"id":"1","method":"ping"}]',
            '{"id":"1","method":"ping"} trailing',
            "null",
        ]
        for text in malformed:
            with self.subTest(text):
                self.gateway.socket.send(text)
                frame = self.gateway.next_frame()
                self.assertEqual(set(frame), {"id", "error"})
                self.assertEqual(frame["id"], "0")
                self.assertTrue(frame["error"].startswith("parse error: "), frame)
        self.assertEqual(self.gateway.result("ping"), "pong")

    def test_wrong_params_of_chat_send_name_what_is_wrong(self) -> None:
        good = {"channel": "websocket", "account": "alice", "content": "hi"}
        for missing in good:
            with self.subTest(missing=missing):
                params = {name: value for name, value in good.items() if name != missing}
                self.assertEqual(
                    self.gateway.error("chat.send", params), f"invalid chat.send params: missing field `{missing}`"
                )
        for field, value in [
            ("content", 5),
            ("account", None),
            ("channel", []),
            ("peer", 5),
            ("guild", {}),
            ("team", 1),
        ]:
            with self.subTest(field=field, value=value):
                error = self.gateway.error("chat.send", {**good, field: value})
                self.assertTrue(error.startswith("invalid chat.send params: "), error)
        for params in (None, [], "text", 5):
            with self.subTest(params=params):
                self.gateway.send({"id": "c", "method": "chat.send", "params": params})
                frame = self.gateway.next_frame()
                self.assertEqual((frame["id"], set(frame)), ("c", {"id", "error"}))

    def test_peer_guild_and_team_may_be_null_or_absent(self) -> None:
        for more in ({}, {"peer": None}, {"peer": "main"}, {"guild": None, "team": None, "peer": None}):
            with self.subTest(more):
                self.assertEqual(self.gateway.chat("hi", **more).events[-1], "done")
        sessions = self.gateway.result("session.list")["items"]
        self.assertEqual([one["session"] for one in sessions], ["default:websocket:alice:main"])
        self.assertEqual(sessions[0]["turns"], 4)

    def test_colons_and_percents_in_names_do_not_make_sessions_collide(self) -> None:
        self.gateway.chat("hi", account="a:b", peer="c")
        self.gateway.chat("hi", account="a", peer="b:c")
        self.gateway.chat("hi", account="a%3Ab", peer="c")
        keys = {one["session"] for one in self.gateway.result("session.list")["items"]}
        expected = {"default:websocket:a%3Ab:c", "default:websocket:a:b%3Ac", "default:websocket:a%253Ab:c"}
        self.assertEqual(keys, expected)


class FirstChatTest(ServerTestCase):
    def test_a_fresh_server_without_file_or_key_streams_an_answer_and_calls_a_tool(self) -> None:
        server = self.start_server()
        with Gateway(server) as gateway:
            turn = gateway.chat("hello")
            self.assertGreater(turn.events.count("text"), 1)
            self.assertEqual(turn.outline, ["text", "usage", "done"])
            self.assertTrue(all(figure > 0 for figure in turn.usage), turn.usage)
            called = gateway.chat('/call ls {"path": "."}')
            self.assertEqual(called.data("tool_use")[0]["name"], "ls")
            self.assertEqual(called.data("tool_result")[0]["is_error"], False)
            self.assertIn("stderr.log", called.data("tool_result")[0]["content"])
        self.assertIn("offline", server.log())

    def test_text_arrives_as_the_model_produces_it(self) -> None:
        release = threading.Event()
        with StubModel(Reply(Text("Hel"), Hold(release), Text("lo"))) as model:
            with Gateway(self.start_server(config=model.provider_config("openai"))) as gateway:
                request = gateway.start("hi")
                first = gateway.next_of(request)
                self.assertEqual((first["event"], first["data"]), ("text", "Hel"))
                release.set()
                rest = gateway.turn(request)
                self.assertEqual((rest.text, rest.outline), ("lo", ["text", "usage", "done"]))
                self.assertEqual(model.requests[0].last_user_text, "hi")


if __name__ == "__main__":
    unittest.main()
