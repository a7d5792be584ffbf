"""Submitting and looking over HTTP: shapes, states, waiting, pages, and clear words for bad requests."""

from __future__ import annotations

import json
import socket
import time
import unittest

from hub_case import NONSENSE, WAITING, Answer, HubTestCase
from hub_client import NEVER, TIMEOUT

UNKNOWN = "msg-00000000-0000-4000-8000-000000000000"


class HttpTestCase(HubTestCase):
    def setUp(self) -> None:
        # Whoever waits for an app that does not answer is not answered because of that.
        self.serve(f'response_timeout = "{NEVER}"\n')

    def post(self, body: object = None, *, raw: bytes | None = None, query: str = "", **options) -> Answer:
        return self.request("POST", f"/v1/messages{query}", body, raw=raw, **options)

    def assert_bad(self, answer: Answer, *statuses: int) -> None:
        self.assertIn(answer.status, statuses or (400,), answer)
        self.assertIsInstance(answer.body, dict)
        error = answer.body.get("error")
        told = error.get("message") if isinstance(error, dict) else error
        self.assertTrue(isinstance(told, str) and told, answer)


class SubmitTest(HttpTestCase):
    def test_a_good_one_is_accepted_at_once(self) -> None:
        self.app("notebook")
        answer = self.post({"text": "notebook: x"})
        self.assertEqual((answer.status, answer.kind), (202, "application/json"))
        self.assertLessEqual({"id", "state"}, set(answer.body))
        self.assertIn(answer.body["state"], ("queued", "sent"))

    def test_without_an_app_it_is_accepted_as_well(self) -> None:
        answer = self.post({"text": "anything"})
        self.assertEqual(answer.status, 202)
        self.assertIn(answer.body["state"], WAITING)

    def test_all_fields(self) -> None:
        notebook = self.app("notebook")
        for body in (
            {"text": "notebook: a", "inputMethod": "text"},
            {"text": "notebook: a", "inputMethod": "voice"},
            {"text": "notebook: a", "inputMethod": "voice", "confidence": 0.25},
            {"text": "notebook: a", "inputMethod": "voice", "confidence": 1},
        ):
            with self.subTest(body):
                self.assertEqual(self.post(body).status, 202)
                message = notebook.next_message()
                self.assertEqual(message.metadata["inputMethod"], body["inputMethod"])
                self.assertEqual(message.metadata.get("confidence"), body.get("confidence"))
                notebook.ack(message)

    def test_bodies_that_are_no_request(self) -> None:
        for raw in (
            b"",
            b" ",
            b"x",
            b"{",
            b'{"text":"x"',
            b'{"text":"x"} trailing',
            b"null",
            b"true",
            b"5",
            b'"text"',
            b"[]",
            b'[{"text":"x"}]',
            b'{"text":"\xff\xfe"}',
            b"\xff\xfe{\x00}\x00",
            b"text=hello",
            b'{"text":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
            b"[" * 500_000,
        ):
            with self.subTest(raw[:30]):
                self.assert_bad(self.post(raw=raw), 400, 422)

    def test_bodies_with_wrong_fields(self) -> None:
        for body in (
            {},
            {"Text": "x"},
            {"text": None},
            {"text": 5},
            {"text": True},
            {"text": ["x"]},
            {"text": {"text": "x"}},
            {"text": ""},
            {"text": "   \n\t "},
            {"text": "x", "inputMethod": "telepathy"},
            {"text": "x", "inputMethod": "Voice"},
            {"text": "x", "inputMethod": 5},
            {"text": "x", "inputMethod": ""},
            {"text": "x", "inputMethod": "voice", "confidence": -0.1},
            {"text": "x", "inputMethod": "voice", "confidence": 1.1},
            {"text": "x", "inputMethod": "voice", "confidence": 95},
            {"text": "x", "inputMethod": "voice", "confidence": "0.9"},
            {"text": "x", "inputMethod": "voice", "confidence": [0.9]},
        ):
            with self.subTest(body):
                self.assert_bad(self.post(body), 400, 422)
        for figure in (b"NaN", b"1e999", b"Infinity"):
            with self.subTest(figure):
                self.assert_bad(self.post(raw=b'{"text":"x","inputMethod":"voice","confidence":%s}' % figure), 400, 422)
        self.assertEqual(self.page()["items"], [], "what was refused is not kept")

    def test_a_body_that_is_too_large(self) -> None:
        self.assert_bad(self.post({"text": "x" * (2 * 1024 * 1024)}), 400, 413)
        self.assertEqual(self.page()["items"], [])

    def test_wrong_methods(self) -> None:
        for method, path in (
            ("PUT", "/v1/messages"),
            ("DELETE", "/v1/messages"),
            ("PATCH", "/v1/messages"),
            ("PUT", f"/v1/messages/{UNKNOWN}"),
        ):
            with self.subTest(method=method, path=path):
                self.assertEqual(self.request(method, path, {"text": "x"}).status, 405)

    def test_a_plain_request_elsewhere_is_no_upgrade(self) -> None:
        for path in ("/", "/ws", "/v2/messages", "/v1", "/v1/messages/"):
            with self.subTest(path):
                self.assertIn(self.request("GET", path).status, (400, 404, 426))
        self.assertIn(self.request("POST", "/", {"text": "x"}).status, (404, 405))


class WaitTest(HttpTestCase):
    def test_it_waits_for_the_notification_in_whatever_order_it_comes(self) -> None:
        notebook = self.app("notebook")
        orders = (("ack", "notify"), ("notify", "ack"), ("notify",))
        for order in orders:
            with self.subTest(order):
                answer = self.say_and_wait("notebook: x")
                message = notebook.next_message()
                self.assertFalse(answer.done())
                for what in order:
                    if what == "ack":
                        notebook.ack(message)
                        # Recorded before the next one is sent.
                        self.settled(message.id, "delivered")
                        self.assertTrue(order[0] == "notify" or not answer.done(), "an ack alone is no answer")
                    else:
                        notebook.notify(message, body="Saved.")
                said = answer.result(timeout=TIMEOUT / 2)
                self.assertEqual((said["id"], said["state"]), (message.id, "delivered"))
                self.assertEqual([one["body"] for one in said["notifications"]], ["Saved."])
                self.assertEqual([one["client"] for one in said["attempts"]], ["notebook"])

    def test_after_an_acknowledgement_it_waits_as_long_as_an_app_has_to_answer(self) -> None:
        self.serve('response_timeout = "1s"\n')
        notebook = self.app("notebook")
        started = time.monotonic()
        answer = self.say_and_wait("notebook: x")
        notebook.ack(notebook.next_message())
        said = answer.result(timeout=TIMEOUT / 2)
        self.assertGreater(time.monotonic() - started, 0.9)
        self.assertEqual((said["state"], said["notifications"]), ("delivered", []))
        # Whoever asks afterwards is answered at once.
        looked = self.request("GET", f"/v1/messages/{said['id']}?wait=120")
        self.assertEqual(looked.body["state"], "delivered")

    def test_it_waits_for_refusals_and_tells_every_reason(self) -> None:
        notebook = self.app("notebook")
        answer = self.say_and_wait("notebook: x")
        notebook.reject(notebook.next_message(), "I would rather not")
        said = answer.result(timeout=TIMEOUT)
        self.assertEqual((said["state"], said["attempts"][0]["reason"]), ("held", "I would rather not"))

    def test_it_waits_no_longer_than_told(self) -> None:
        notebook = self.app("notebook")
        started = time.monotonic()
        said = self.say("notebook: x", wait=1)
        self.assertGreater(time.monotonic() - started, 0.8)
        self.assertEqual(said["state"], "sent")
        notebook.ack(notebook.next_message())
        self.settled(said["id"], "delivered")

    def test_not_at_all_when_it_is_zero(self) -> None:
        notebook = self.app("notebook")
        said = self.say("notebook: x", wait=0)
        self.assertIn(said["state"], ("queued", "sent"))
        # It is answered although the app has not answered yet.
        notebook.ack(notebook.next_message())
        self.settled(said["id"], "delivered")

    def test_not_when_there_is_nobody_to_wait_for(self) -> None:
        self.app("notebook")
        said = self.say(NONSENSE, wait=120)
        self.assertEqual(said["state"], "held")

    def test_a_caller_that_hangs_up_takes_nothing_with_it(self) -> None:
        notebook = self.app("notebook")
        body = json.dumps({"text": "notebook: x"}).encode()
        host, port = self.server.address("hub").rsplit(":", 1)
        with socket.create_connection((host, int(port))) as plug:
            head = f"POST /v1/messages?wait=60 HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
            plug.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            message = notebook.next_message()
        notebook.ack(message)
        self.settled(message.id, "delivered")

    def test_bad_times(self) -> None:
        for wait in ("abc", "-1", "1s", "NaN", "1e400", "--"):
            with self.subTest(wait):
                self.assert_bad(self.post({"text": "x"}, query=f"?wait={wait}"), 400, 422)
        self.assertEqual(self.page()["items"], [])


class LookTest(HttpTestCase):
    def test_a_message_is_shown_with_its_attempts_and_notifications(self) -> None:
        notebook = self.app("notebook")
        said = self.say("notebook: x")
        (attempt,) = self.settled(said["id"], "sent")["attempts"]
        self.assertEqual(attempt["client"], "notebook")
        self.assertIsInstance(attempt["state"], str)
        self.assertNotIn("reason", {key for key, value in attempt.items() if value is not None})
        in_flight = attempt["state"]
        notebook.ack(notebook.next_message())
        shown = self.settled(said["id"], "delivered")
        self.assertEqual((shown["text"], shown["notifications"]), ("notebook: x", []))
        self.assertNotEqual(shown["attempts"][0]["state"], in_flight)

    def test_an_unknown_one_is_not_found(self) -> None:
        for identity in (UNKNOWN, "msg-x", "x", "%00", "..%2f", "é".encode().hex(), "x" * 2000):
            with self.subTest(identity[:20]):
                self.assert_bad(self.request("GET", f"/v1/messages/{identity}"), 404, 400)

    def test_the_list_is_empty_at_first(self) -> None:
        page = self.page()
        self.assertEqual((page["items"], page["next_cursor"]), ([], None))

    def test_the_list_has_the_same_shape_as_a_single_message(self) -> None:
        notebook = self.app("notebook")
        message = self.delivered(notebook, "notebook: x")
        (item,) = self.page()["items"]
        self.assertEqual((item["id"], item["text"], item["state"]), (message.id, "notebook: x", "delivered"))

    def test_pages_give_every_message_once(self) -> None:
        ids = [self.say(f"notebook: number {at}")["id"] for at in range(25)]
        for limit in (1, 7, 25, 100):
            with self.subTest(limit):
                seen, cursor = [], {}
                while True:
                    page = self.page(limit=limit, **cursor)
                    self.assertLessEqual(len(page["items"]), limit)
                    seen += [item["id"] for item in page["items"]]
                    self.assertLessEqual(len(seen), 25)
                    if page["next_cursor"] is None:
                        break
                    cursor = {"cursor": page["next_cursor"]}
                self.assertEqual(sorted(seen), sorted(ids))
                self.assertIn(seen, (ids, ids[::-1]), "in the order of time, one way or the other")

    def test_pages_stay_whole_while_messages_come_in(self) -> None:
        ids = [self.say(f"notebook: number {at}")["id"] for at in range(6)]
        first = self.page(limit=3)
        self.say("notebook: one more")
        second = self.page(limit=10, cursor=first["next_cursor"])
        seen = [item["id"] for item in first["items"] + second["items"]]
        self.assertEqual(len(seen), len(set(seen)))
        self.assertLessEqual(set(ids), set(seen))

    def test_one_state_only(self) -> None:
        notebook = self.app("notebook")
        delivered = self.delivered(notebook, "notebook: x").id
        held = self.say(NONSENSE)["id"]
        self.settled(held, "held")
        self.assertEqual([item["id"] for item in self.page(state="delivered")["items"]], [delivered])
        self.assertEqual([item["id"] for item in self.page(state="held")["items"]], [held])
        self.assertEqual(self.page(state="cancelled")["items"], [])

    def test_bad_queries(self) -> None:
        for query in ("limit=-1", "limit=x", "limit=" + "9" * 20, "cursor=nonsense", "state=nonsense"):
            with self.subTest(query):
                self.assert_bad(self.request("GET", f"/v1/messages?{query}"), 400, 422)


if __name__ == "__main__":
    unittest.main()
