"""Many requests at once: on one connection, on one session, and more than the limits let through."""

from __future__ import annotations

import threading
import time
import unittest

from gateway_case import GatewayTestCase
from stub_model import Hold, Reply, Text

SESSION = "default:websocket:alice:main"


class Running:
    """Counts the answers that are under way at the model at the same time."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.lock = threading.Lock()

    def reply(self, _request) -> Reply:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        # The stub asks this event just before it ends its answer.
        leaving = threading.Event()
        leaving.wait = self.leave
        return Reply(Text("some"), Text("words"), Hold(leaving))

    def leave(self, _timeout: float) -> bool:
        with self.lock:
            self.now -= 1
        return True


class OneConnectionTest(GatewayTestCase):
    def test_requests_are_answered_while_a_stream_runs(self) -> None:
        release = self.held()
        gateway = self.connect(Reply(Text("a"), Hold(release), Text("b")))
        request = gateway.start("talk")
        gateway.until(request, "text")
        self.assertEqual(gateway.result("ping"), "pong")
        self.assertEqual(gateway.result("status")["sessions"], 1)
        self.assertEqual(gateway.chat("meanwhile", account="bob").text, "echo: meanwhile")
        release.set()
        self.assertEqual(gateway.turn(request).text, "b")

    def test_two_sessions_interleave_on_one_connection(self) -> None:
        turns = [[self.held() for _ in range(3)] for _ in range(2)]
        replies = {
            name: Reply(*[step for n, pause in enumerate(pauses) for step in (Hold(pause), Text(f"{name}{n}"))])
            for name, pauses in zip(("alice", "bob"), turns)
        }
        gateway = self.connect()
        self.model.fallback = lambda request: replies[request.last_user_text]
        requests = {name: gateway.start(name, account=name) for name in replies}
        self.model.wait_for_requests(2)
        for n in range(3):
            for name, pauses in zip(("alice", "bob"), turns):
                pauses[n].set()
                self.assertEqual(gateway.next_of(requests[name])["data"], f"{name}{n}")
        order = [frame["data"] for frame in gateway.seen if frame.get("event") == "text"]
        self.assertEqual(order, ["alice0", "bob0", "alice1", "bob1", "alice2", "bob2"])
        for request in requests.values():
            self.assertEqual(gateway.turn(request).events[-1], "done")

    def test_an_id_in_use_is_refused_and_free_again_after_done(self) -> None:
        release = self.held()
        gateway = self.connect(Reply(Text("a"), Hold(release), Text("b")))
        chat = {"method": "chat.send", "params": {"channel": "websocket", "account": "alice", "content": "hi"}}
        gateway.send({"id": "same", **chat})
        gateway.until("same", "text")
        gateway.send({"id": "same", **chat})
        refusal = gateway.next_of("same")
        self.assertEqual(set(refusal), {"id", "error"})
        other = self.another()
        other.send({"id": "same", "method": "chat.send", "params": {**chat["params"], "account": "bob"}})
        self.assertEqual(other.turn("same").events[-1], "done", "ids belong to their connection")
        release.set()
        self.assertEqual(gateway.turn("same").text, "b")
        gateway.send({"id": "same", **chat})
        self.assertEqual(gateway.turn("same").text, "echo: hi")

    def test_a_number_and_its_text_are_the_same_id(self) -> None:
        release = self.held()
        gateway = self.connect(Reply(Text("a"), Hold(release)))
        chat = {"method": "chat.send", "params": {"channel": "websocket", "account": "alice", "content": "hi"}}
        gateway.send({"id": 1, **chat})
        gateway.until("1", "text")
        gateway.send({"id": "1", **chat})
        self.assertIn("error", gateway.next_of("1"))

    def test_two_hundred_requests_in_one_go_are_all_answered(self) -> None:
        self.connect()
        for method in ("ping", "status", "tool.list", "budget.status"):
            with self.subTest(method), self.another() as gateway:
                for number in range(200):
                    gateway.send({"id": number, "method": method, "params": {}})
                answers = [gateway.next_frame() for _ in range(200)]
                self.assertEqual({answer["id"] for answer in answers}, {str(number) for number in range(200)})
                self.assertEqual([answer for answer in answers if "result" not in answer], [])

    def test_two_hundred_chats_in_one_go_are_all_answered(self) -> None:
        gateway = self.connect()
        requests = {gateway.start(f"number {n}", account=f"a{n}"): n for n in range(200)}
        for request, number in requests.items():
            self.assertEqual(gateway.turn(request).text, f"echo: number {number}")

    def test_the_rate_limit_says_so_and_lets_ping_through(self) -> None:
        gateway = self.connect(more="[gateway.rate_limit]\nper_second = 1\nburst = 5\n")
        started = time.monotonic()
        for number in range(20):
            gateway.send({"id": f"s{number}", "method": "status"})
        answers = [gateway.next_frame() for _ in range(20)]
        took = time.monotonic() - started
        passed = [answer for answer in answers if "result" in answer]
        refused = [answer["error"] for answer in answers if "error" in answer]
        # The burst, and one for each second that the machine took to ask and answer.
        self.assertTrue(5 <= len(passed) <= 5 + took + 1, (len(passed), took))
        self.assertTrue(all("rate limit" in error for error in refused), refused)
        for _ in range(50):
            self.assertEqual(gateway.result("ping"), "pong")
        self.assertEqual(self.another().result("status")["plugins"], 0, "each connection has its own")


class OneSessionTest(GatewayTestCase):
    def test_the_second_request_waits_and_its_prompt_has_the_first_turn(self) -> None:
        release = self.held()
        gateway = self.connect(Reply(Text("the answer "), Hold(release), Text("is 42")))
        first = gateway.start("what is the answer?")
        gateway.until(first, "text")
        other = self.another()
        second = other.start("say it again")
        # The second one is in the queue before anything is released: it was sent, and this comes after it.
        self.assertEqual(other.result("ping"), "pong")
        self.assertEqual(len(self.model.requests), 1)
        release.set()
        gateway.turn(first)
        self.assertEqual(other.turn(second).events[-1], "done")
        spoken = [(one["role"], one["content"]) for one in self.model.requests[1].messages if one["role"] != "system"]
        expected = [("user", "what is the answer?"), ("assistant", "the answer is 42"), ("user", "say it again")]
        self.assertEqual(spoken, expected)

    def test_requests_run_in_the_order_they_arrived(self) -> None:
        release = self.held()
        gateway = self.connect(Reply(Hold(release), Text("first")))
        requests = [gateway.start(f"message {n}") for n in range(9)]
        release.set()
        for request in requests:
            self.assertEqual(gateway.turn(request).events[-1], "done")
        self.assertEqual([one.last_user_text for one in self.model.requests], [f"message {n}" for n in range(9)])
        done = [frame["id"] for frame in gateway.seen if frame.get("event") == "done"]
        self.assertEqual(done, requests)

    def test_one_runs_eight_wait_and_the_tenth_is_told_that_the_session_is_busy(self) -> None:
        release = self.held()
        gateway = self.connect(Reply(Hold(release), Text("first")))
        requests = [gateway.start(f"message {n}") for n in range(9)]
        tenth = gateway.answer("chat.send", channel="websocket", account="alice", content="too many")
        self.assertIn("session busy", tenth["error"])
        # The model is with the first one, and will not take another for it.
        self.model.wait_for_requests(1)
        self.assertEqual(gateway.chat("hi", account="bob").events[-1], "done", "other sessions are not busy")
        release.set()
        for request in requests:
            self.assertEqual(gateway.turn(request).events[-1], "done")
        self.assertEqual(gateway.chat("now it fits").text, "echo: now it fits")
        self.assertNotIn("too many", [one.last_user_text for one in self.model.requests])

    def test_one_session_over_many_connections_stays_one_at_a_time(self) -> None:
        gateway = self.connect()
        running = Running()
        self.model.fallback = running.reply
        others = [self.another() for _ in range(8)]
        requests = [(other, other.start(f"from {n}")) for n, other in enumerate(others)]
        for other, request in requests:
            self.assertEqual(other.turn(request).events[-1], "done")
        self.assertEqual(running.most, 1)
        self.assertEqual(len(gateway.result("chat.history", session=SESSION)["items"]), 16)


class ManyConnectionsTest(GatewayTestCase):
    def test_a_hundred_connections_chat_at_once(self) -> None:
        self.connect()
        gateways = [self.another() for _ in range(100)]
        requests = [(one, one.start(f"I am {n}", account=f"a{n}")) for n, one in enumerate(gateways)]
        for n, (one, request) in enumerate(requests):
            self.assertEqual(one.turn(request).text, f"echo: I am {n}")

    def test_the_same_id_on_many_connections_is_never_mixed_up(self) -> None:
        self.connect()
        gateways = {f"name-{n}": self.another() for n in range(20)}
        for name, gateway in gateways.items():
            params = {"channel": "websocket", "account": name, "content": f"I am {name}"}
            gateway.send({"id": "same", "method": "chat.send", "params": params})
        for name, gateway in gateways.items():
            self.assertEqual(gateway.turn("same").text, f"echo: I am {name}")


if __name__ == "__main__":
    unittest.main()
