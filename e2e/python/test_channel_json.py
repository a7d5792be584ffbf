"""The generic channel: JSON in, JSON out, at once or later; and the ways a webhook can prove where it comes from."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import socket
import subprocess
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from ahead_case import ahead, ahead_last
from channel_case import WEBHOOK_SECRET, ChannelTestCase, said
from channel_stand_ins import Fail, StandIn, hub_signature, post
from gateway_client import Gateway, eventually
from patchboard_server import ServerTestCase, binary
from plugin_support import wait_for_log
from raw_client import status_of
from stub_model import Call, Failure, Hold, Reply, Text

SYNC = 'reply = "sync"\n'


def setUpModule() -> None:
    AsyncTest.begin_ahead()
    ConversationTest.begin_ahead()


load_tests = ahead_last


class SyncTest(ChannelTestCase):
    def test_the_answer_is_the_reply(self) -> None:
        self.hook(Reply(Text("Four"), Text(".")), keys=SYNC)
        answer = self.deliver_json({"content": "2 + 2?", "account": "ada", "peer": "room"})
        self.assertEqual((answer.status, answer.kind), (200, "application/json"), answer)
        self.assertEqual(answer.json, {"reply": "Four.", "error": False})
        (session,) = self.gateway.result("session.list")["items"]
        self.assertEqual(session["session"], "default:hook:ada:room")

    def test_the_content_has_several_names(self) -> None:
        self.hook(keys=SYNC)
        for name in ("content", "text", "message"):
            with self.subTest(name):
                self.assertEqual(self.deliver_json({name: f"by {name}"}).json["reply"], f"echo: by {name}")

    def test_what_is_wrong_with_a_body_is_told(self) -> None:
        self.hook(keys=SYNC)
        for body in (b"", b"{", b"5", b"[]", b"\xff"):
            with self.subTest(body):
                answer = post(self.server, "hook", body, {"X-Webhook-Token": WEBHOOK_SECRET})
                self.assertEqual(answer.status, 400, answer)
                self.assertTrue(answer.text.startswith("parse_incoming failed: "), answer.text)
        for body in ({"content": ""}, {"content": "  \n\t"}):
            with self.subTest(body):
                answer = self.deliver_json(body)
                self.assertEqual((answer.status, answer.text), (400, "empty message content"))
        self.assertEqual(self.model.requests, [])

    def test_a_provider_s_trouble_is_502_without_its_words(self) -> None:
        self.hook(Failure(400, "internal-canary"), keys=SYNC)
        answer = self.deliver_json({"content": "hi"})
        self.assertEqual(answer.status, 502, answer)
        self.assertIn("provider error: ", answer.text)
        self.assertNotIn("canary", answer.text)

    def test_longer_than_the_wait_it_goes_on_alone(self) -> None:
        release = self.held()
        place = self.hook(Reply(Hold(release), Text("At last.")), keys=SYNC + 'wait = "1s"\n')
        started = time.monotonic()
        answer = self.deliver_json({"content": "hi", "id": "n1", "reply_url": f"{place.url}/answers"})
        self.accepted(answer)
        self.assertGreater(time.monotonic() - started, 0.8)
        # It was answered while the run was still going on.
        release.set()
        (sent,) = place.wait_for(1)
        self.assertEqual((sent.method, sent.path), ("POST", "/answers"))
        self.assertEqual(sent.json, {"id": "n1", "reply": "At last.", "error": False})
        self.assertEqual(len(self.model.requests), 1)

    def test_a_caller_that_hangs_up_does_not_stop_the_run(self) -> None:
        release = self.held()
        self.hook(Reply(Hold(release), Text("done all the same")), keys=SYNC)
        caller = http.client.HTTPConnection(self.server.gateway, timeout=30)
        self.addCleanup(caller.close)
        body = json.dumps({"content": "hi", "account": "ada", "peer": "room"})
        caller.request("POST", "/webhook/hook", body, {"X-Webhook-Token": WEBHOOK_SECRET})
        self.model.wait_for_requests(1)
        caller.close()
        release.set()

        def is_kept() -> bool:
            items = self.gateway.result("chat.history", channel="hook", account="ada", peer="room")["items"]
            return [one["content"] for one in items] == ["hi", "done all the same"]

        eventually(is_kept, "the turn is in the history")

    def test_fifty_at_once(self) -> None:
        self.hook(keys=SYNC + "rate_limit = { per_second = 1000, burst = 1000 }\n")

        def ask(at: int) -> str:
            return self.deliver_json({"content": f"number {at}", "account": f"a{at}"}).json["reply"]

        with ThreadPoolExecutor(25) as pool:
            self.assertEqual(list(pool.map(ask, range(50))), [f"echo: number {at}" for at in range(50)])


class AsyncTest(ChannelTestCase):
    def test_the_reply_is_posted_where_it_is_wanted(self) -> None:
        place = self.hook()
        self.accepted(self.deliver_json({"content": "hi", "id": "n1", "reply_url": f"{place.url}/answers"}))
        (sent,) = place.wait_for(1)
        self.assertEqual((sent.method, sent.path), ("POST", "/answers"))
        self.assertEqual(sent.json, {"id": "n1", "reply": "echo: hi", "error": False})

    def test_a_place_that_is_not_granted_is_never_reached(self) -> None:
        other = StandIn()
        self.addCleanup(other.close)
        place = self.hook()
        self.accepted(self.deliver_json({"content": "hi", "id": "n1", "reply_url": f"{other.url}/steal"}))
        wait_for_log(self.server, "webhook-json", f"127.0.0.1:{other.port}")
        self.accepted(self.deliver_json({"content": "hi", "id": "n2", "reply_url": f"{place.url}/answers"}))
        place.wait_for(1)
        self.assertEqual(other.requests, [])

    def test_trouble_is_told_as_an_error(self) -> None:
        place = self.hook(Failure(400, "internal-canary"))
        self.accepted(self.deliver_json({"content": "hi", "id": "n1", "reply_url": f"{place.url}/answers"}))
        (sent,) = place.wait_for(1)
        self.assertEqual((sent.json["id"], sent.json["error"]), ("n1", True))
        self.assertTrue(sent.json["reply"])
        self.assertNotIn("canary", sent.json["reply"])

    def test_the_same_id_or_the_same_bytes_are_answered_once(self) -> None:
        place = self.hook()
        where = {"reply_url": f"{place.url}/answers"}
        self.accepted(self.deliver_json({"content": "one", "id": "n1", **where}))
        self.assertIs(self.deliver_json({"content": "other words", "id": "n1", **where}).json.get("duplicate"), True)
        self.accepted(self.deliver_json({"content": "no id", **where}))
        again = self.deliver_json({"content": "no id", **where})
        self.assertEqual((again.status, again.json.get("duplicate")), (200, True))
        self.accepted(self.deliver_json({"content": "no id either", **where}))
        place.wait_for(3)
        replies = sorted(one.json["reply"] for one in place.accepted)
        self.assertEqual(replies, ["echo: no id", "echo: no id either", "echo: one"])

    @ahead
    def test_without_an_id_the_same_bytes_after_the_window_are_something_new(self) -> None:
        place = self.hook(keys='replay_window = "1s"\n')
        body = {"content": "good morning", "reply_url": f"{place.url}/answers"}
        self.accepted(self.deliver_json(body))
        place.wait_for(1)
        eventually(lambda: self.deliver_json(body).status == 202, "the window is over", 30)
        place.wait_for(2)


class BudgetTest(ChannelTestCase):
    BUDGET = "[budgets]\ndaily = 2000\n"

    def test_in_a_synchronous_channel_it_is_429(self) -> None:
        self.hook(Reply(Text("yes"), input_tokens=1980, output_tokens=10), keys=SYNC, more=self.BUDGET)
        self.assertEqual(self.deliver_json({"content": "hi"}).status, 200)
        self.assertEqual(self.gateway.result("budget.status")["daily"]["used"], 1990)
        answer = self.deliver_json({"content": "more " * 50})
        self.assertEqual(answer.status, 429, answer)
        self.assertIn("token budget exceeded (daily: 1990/2000)", answer.text)
        self.assertEqual(len(self.model.requests), 1)

    def test_in_an_asynchronous_one_the_person_is_told(self) -> None:
        place = self.hook(Reply(Text("yes"), input_tokens=1980, output_tokens=10), more=self.BUDGET)
        where = {"reply_url": f"{place.url}/answers"}
        self.accepted(self.deliver_json({"content": "hi", "id": "n1", **where}))
        place.wait_for(1)
        self.accepted(self.deliver_json({"content": "more " * 50, "id": "n2", **where}))
        sent = place.wait_for(2)[1]
        self.assertEqual((sent.json["id"], sent.json["error"]), ("n2", True))
        self.assertTrue(sent.json["reply"])
        self.assertEqual(len(self.model.requests), 1)

    def test_what_is_used_is_counted_like_any_other(self) -> None:
        self.hook(Reply(Text("yes"), input_tokens=120, output_tokens=34), keys=SYNC)
        self.deliver_json({"content": "hi"})
        (row,) = self.gateway.result("usage.report")["items"]
        self.assertEqual((row["calls"], row["input_tokens"], row["output_tokens"]), (1, 120, 34))


class ToolTest(ChannelTestCase):
    def test_without_a_list_of_its_own_an_agent_has_no_tools_here(self) -> None:
        for agent in ("", 'tools = ["*"]\n', 'tools = ["r*", "l?"]\n'):
            with self.subTest(agent):
                self.hook(Reply(Call("ls", {})), Reply(Text("pity")), keys=SYNC, agent=agent)
                self.assertEqual(self.deliver_json({"content": "look around"}).json["reply"], "pity")
                self.assertEqual(self.model.requests[0].tool_names, [])
                self.assertNotIn("patchboard.toml", json.dumps(self.model.requests[1].messages))
                # Elsewhere the agent is as it was.
                self.gateway.chat("hi")
                self.assertNotEqual(self.model.requests[-1].tool_names, [])

    def test_tools_that_are_named_are_there(self) -> None:
        self.hook(Reply(Call("ls", {})), Reply(Text("I see")), keys=SYNC, agent='tools = ["ls", "g*"]\n')
        self.assertEqual(self.deliver_json({"content": "look around"}).json["reply"], "I see")
        self.assertEqual(self.model.requests[0].tool_names, ["ls"])
        self.assertIn("patchboard.toml", json.dumps(self.model.requests[1].messages))

    def test_what_writes_is_refused_unless_the_policy_says_otherwise(self) -> None:
        call = Call("write_file", {"path": "made.txt", "content": "by a stranger"})
        for policy, is_made in (("", False), ('[tools.approval]\n"write_file" = "allow"\n', True)):
            with self.subTest(policy):
                self.hook(Reply(call), Reply(Text("well")), keys=SYNC, agent='tools = ["write_file"]\n', more=policy)
                self.assertEqual(self.deliver_json({"content": "write"}).json["reply"], "well")
                self.assertEqual((self.server.folder / "made.txt").exists(), is_made)


class ProofTest(ChannelTestCase):
    BODY = b'{"content": "hi"}'

    def test_a_token_in_a_header(self) -> None:
        self.hook(keys=SYNC)
        self.assertEqual(post(self.server, "hook", self.BODY, {"X-Webhook-Token": WEBHOOK_SECRET}).status, 200)
        for headers in ({}, {"X-Webhook-Token": "x"}, {"X-Signature": WEBHOOK_SECRET}):
            self.assertEqual(post(self.server, "hook", self.BODY, headers).status, 401, headers)
        self.hook(keys=SYNC + 'header = "X-Own-Header"\n')
        self.assertEqual(post(self.server, "hook", self.BODY, {"X-Own-Header": WEBHOOK_SECRET}).status, 200)
        self.assertEqual(post(self.server, "hook", self.BODY, {"X-Webhook-Token": WEBHOOK_SECRET}).status, 401)

    def test_a_signature_of_the_body(self) -> None:
        self.hook(verify="hmac-sha256", keys=SYNC)
        good = hub_signature(WEBHOOK_SECRET, self.BODY)
        self.assertEqual(post(self.server, "hook", self.BODY, {"X-Hub-Signature-256": good}).status, 200)
        wrong = (hub_signature("x", self.BODY), hub_signature(WEBHOOK_SECRET, b"{}"), "sha256=", "")
        for signature in (*wrong, good[:-2], good + "00"):
            self.assertEqual(post(self.server, "hook", self.BODY, {"X-Hub-Signature-256": signature}).status, 401)
        self.assertEqual(post(self.server, "hook", self.BODY).status, 401)

    def test_a_signature_with_a_time(self) -> None:
        self.hook(
            verify="hmac-sha256",
            keys=SYNC + 'header = "X-Signature"\ntimestamp_header = "X-Timestamp"\nreplay_window = "1m"\n',
        )

        def signed(at: int, body: bytes = self.BODY) -> dict[str, str]:
            text = f"{at}.".encode() + body
            digest = hmac.new(WEBHOOK_SECRET.encode(), text, hashlib.sha256).hexdigest()
            return {"X-Timestamp": str(at), "X-Signature": f"sha256={digest}"}

        now = int(time.time())
        self.assertEqual(post(self.server, "hook", self.BODY, signed(now)).status, 200)
        for headers in (
            signed(now - 100),
            signed(now + 100),
            {**signed(now), "X-Timestamp": str(now - 1)},
            {"X-Signature": hub_signature(WEBHOOK_SECRET, self.BODY)},
            {"X-Signature": hub_signature(WEBHOOK_SECRET, self.BODY), "X-Timestamp": str(now)},
        ):
            with self.subTest(headers):
                self.assertEqual(post(self.server, "hook", self.BODY, headers).status, 401)

    def test_none_at_all_is_for_this_machine_only(self) -> None:
        self.hook(verify="none", keys=SYNC)
        self.assertEqual(post(self.server, "hook", self.BODY).status, 200)

    def test_none_at_all_from_elsewhere(self) -> None:
        address = own_address()
        if address is None:
            raise unittest.SkipTest("this machine has no address but loopback")
        self.token = "a-token-of-some-length-for-the-gateway"
        self.hook(
            verify="none",
            keys=SYNC,
            gateway="0.0.0.0:0",
            more='[gateway]\ntoken = "env:GATEWAY_TOKEN"\ninsecure = true\n',
            env={"GATEWAY_TOKEN": self.token},
        )
        port = self.server.gateway.rsplit(":", 1)[1]
        self.assertEqual(post(f"127.0.0.1:{port}", "hook", self.BODY).status, 200)
        answer = post(f"{address}:{port}", "hook", self.BODY, {"Host": f"127.0.0.1:{port}"})
        self.assertIn(answer.status, (401, 403), answer)
        self.assertEqual(len(self.model.requests), 1)

    def another(self, **options) -> Gateway:
        # By the address that the server takes for its own, wherever it listens.
        port = self.server.gateway.rsplit(":", 1)[1]
        gateway = Gateway(f"ws://127.0.0.1:{port}/ws", token=getattr(self, "token", None), **options)
        self.addCleanup(gateway.close)
        return gateway


class DoorTest(ChannelTestCase):
    GOOD = {"X-Webhook-Token": WEBHOOK_SECRET}

    def test_a_channel_that_is_not_there(self) -> None:
        self.hook(keys=SYNC)
        for name in ("nobody", "webhook-json", "Hook", "hook%20"):
            with self.subTest(name):
                answer = post(self.server, name, {"content": "hi"}, self.GOOD)
                self.assertEqual(answer.status, 404, answer)
                self.assertTrue(answer.text.startswith("no channel adapter for '"), answer.text)
        self.assertEqual(post(self.server, "nobody", {}).text, "no channel adapter for 'nobody'")
        self.assertEqual(self.model.requests, [])

    def test_a_body_that_is_too_large(self) -> None:
        self.hook(keys=SYNC)
        at_most = json.dumps({"content": "x" * ((1 << 20) - 15)}).encode()
        self.assertEqual(len(at_most), 1 << 20)
        self.assertNotEqual(post(self.server, "hook", at_most, self.GOOD).status, 413)
        for size in (1 << 20, 2 << 20, 20 << 20):
            with self.subTest(size):
                try:
                    answer = post(self.server, "hook", b"x" * (size + 1), self.GOOD)
                except (ConnectionError, BrokenPipeError):
                    continue  # Refused while the rest was still on its way.
                self.assertEqual(answer.status, 413, answer)

    def test_other_methods(self) -> None:
        self.hook(keys=SYNC)
        for method in ("GET", "PUT", "DELETE"):
            self.assertEqual(post(self.server, "hook", b"", self.GOOD, method=method).status, 405, method)

    def test_pages_of_others_and_names_of_others(self) -> None:
        self.hook(keys=SYNC)
        answer = post(self.server, "hook", {"content": "hi"}, {**self.GOOD, "Origin": "https://evil.example"})
        self.assertEqual(answer.status, 403, answer)
        headers = {**self.GOOD, "Host": "evil.example", "Content-Length": "0"}
        self.assertEqual(status_of(self.server, headers, "/webhook/hook", "POST"), 403)
        self.assertEqual(self.model.requests, [])

    def test_a_content_type_is_not_needed(self) -> None:
        self.hook(keys=SYNC)
        for kind in ("text/plain", "application/octet-stream", "nonsense"):
            answer = post(self.server, "hook", {"content": kind}, {**self.GOOD, "Content-Type": kind})
            self.assertEqual(answer.status, 200, answer)

    def test_what_only_the_host_checks_is_not_kept(self) -> None:
        self.hook(keys=SYNC)
        self.deliver_json({"content": "hi"})
        self.assertNotIn(WEBHOOK_SECRET, json.dumps([one.body for one in self.model.requests]))
        self.assertNotIn(WEBHOOK_SECRET, self.server.log())
        # Nor in the database, where what is remembered of deliveries lies.
        for file in self.server.data_dir.rglob("*"):
            if file.is_file():
                self.assertNotIn(WEBHOOK_SECRET.encode(), file.read_bytes(), file)


class ConversationTest(ChannelTestCase):
    def test_peers_are_conversations_and_accounts_own_facts(self) -> None:
        self.hook(keys=SYNC)
        self.deliver_json({"content": "My name is Canarina.", "account": "ada", "peer": "one"})
        self.deliver_json({"content": "What is my name?", "account": "ada", "peer": "two"})
        self.assertEqual(said(self.model.requests[-1])[-1], "What is my name?")
        self.assertIn("Canarina", json.dumps(self.model.requests[-1].body))
        self.deliver_json({"content": "What is my name?", "account": "bob", "peer": "one"})
        self.assertNotIn("Canarina", json.dumps(self.model.requests[-1].body))

    def test_a_gateway_client_neither_talks_nor_listens_in_the_channel(self) -> None:
        self.hook(keys=SYNC)
        self.deliver_json({"content": "the eagle has landed", "account": "ada", "peer": "one"})
        where = {"channel": "hook", "account": "ada", "peer": "one"}
        with Gateway(self.server) as client:
            for method, more in [("chat.send", {"content": "what has landed?"}), ("chat.history", {})]:
                self.assertIn("reserved", client.error(method, **where, **more))
        # The operator may read, but not pass for the service.
        self.assertIn("reserved", self.gateway.error("chat.send", content="hi", **where))
        self.assertTrue(self.gateway.result("chat.history", **where)["items"])
        self.assertEqual(len(self.model.requests), 1)

    @ahead
    def test_failing_to_post_is_tried_again(self) -> None:
        place = self.hook()
        place.next(Fail(503), Fail(429, retry_after=1))
        self.accepted(self.deliver_json({"content": "hi", "id": "n1", "reply_url": f"{place.url}/answers"}))
        place.wait_for(1)
        self.assertEqual([one.status for one in place.requests], [503, 429, 200])


class ConfigTest(ServerTestCase):
    def problems(self, config: str) -> str:
        server = self.start_server()
        file = server.folder / "other.toml"
        file.write_text(config)
        done = subprocess.run(
            [binary(), "config", "check", "--config", str(file)],
            env=server.environment(),
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
        self.assertEqual(done.returncode, 2, f"{config}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def test_what_is_wrong_with_a_channel_is_found_before_the_start(self) -> None:
        plugin = '[[plugins]]\nname = "p"\npath = "p.wasm"\n'
        for keys, where in (
            ('plugin = "p"\nverify = "telegram"\n', "secret"),
            ('plugin = "p"\n', "secret"),
            ('plugin = "p"\nverify = "magic"\nsecret = "env:HOME"\n', "verify"),
            ('plugin = "p"\nverify = "token"\nsecret = "in the open"\n', "secret"),
            ('plugin = "p"\nverify = "none"\nreply = "later"\n', "reply"),
            ('plugin = "p"\nverify = "none"\nbogus = 1\n', "bogus"),
            ('plugin = "p"\nverify = "none"\nrate_limit = { per_second = 0, burst = 0 }\n', "rate_limit"),
        ):
            with self.subTest(keys):
                self.assertIn(f"channels.c.{where}", self.problems(f"{plugin}[channels.c]\n{keys}"))


def own_address() -> str | None:
    """An address of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plug:
        try:
            plug.connect(("192.0.2.1", 9))
        except OSError:
            return None
        address = plug.getsockname()[0]
    return None if address.startswith("127.") else address


if __name__ == "__main__":
    unittest.main()
