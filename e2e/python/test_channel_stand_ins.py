"""The stand-ins are as strict as what they stand for, and fail as they are told."""

from __future__ import annotations

import http.client
import json
import threading
import unittest

from channel_stand_ins import (
    Fail,
    Late,
    Page,
    Redirect,
    Reset,
    Slack,
    StandIn,
    Telegram,
    hub_signature,
    slack_signature,
)
from plugin_support import another_version, with_text


def ask(place: StandIn, path: str, body: dict | None = None, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=30)
    try:
        data = None if body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("GET" if body is None else "POST", path, data, named)
        answer = connection.getresponse()
        return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


class TelegramTest(unittest.TestCase):
    def test_it_takes_what_the_bot_api_takes(self) -> None:
        with Telegram("7:secret") as api:
            status, body, _ = ask(api, "/bot7:secret/sendMessage", {"chat_id": 5, "text": "hi"})
            self.assertEqual((status, json.loads(body)["result"]["text"]), (200, "hi"))
            for path, sent, expected in (
                ("/bot7:wrong/sendMessage", {"chat_id": 5, "text": "hi"}, 401),
                ("/bot7:secret/sendNothing", {"chat_id": 5, "text": "hi"}, 404),
                ("/bot7:secret/sendMessage", {"text": "hi"}, 400),
                ("/bot7:secret/sendMessage", {"chat_id": 5, "text": ""}, 400),
                ("/bot7:secret/sendMessage", {"chat_id": 5, "text": "\U0001f600" * 2049}, 400),
            ):
                status, body, _ = ask(api, path, sent)
                self.assertEqual((status, json.loads(body)["error_code"]), (expected, expected))
            self.assertEqual(api.texts(), ["hi"])
            self.assertEqual(len(api.requests), 6)

    def test_it_fails_as_told_and_then_no_more(self) -> None:
        with Telegram("t") as api:
            api.next(Fail(429, retry_after=3), Reset(), Redirect("http://elsewhere/"), Page(b"x"))
            status, body, headers = ask(api, "/bott/sendMessage", {"chat_id": 1, "text": "a"})
            self.assertEqual((status, headers["retry-after"]), (429, "3"))
            self.assertEqual(json.loads(body)["parameters"], {"retry_after": 3})
            with self.assertRaises(ConnectionError):
                ask(api, "/bott/sendMessage", {"chat_id": 1, "text": "a"})
            status, _, headers = ask(api, "/bott/sendMessage", {"chat_id": 1, "text": "a"})
            self.assertEqual((status, headers["location"]), (302, "http://elsewhere/"))
            self.assertEqual(ask(api, "/page")[:2], (200, b"x"))
            self.assertEqual(ask(api, "/bott/sendMessage", {"chat_id": 1, "text": "a"})[0], 200)
            self.assertEqual([one.status for one in api.requests], [429, 0, 302, 200, 200])

    def test_it_can_be_late(self) -> None:
        with Telegram("t") as api:
            release = threading.Event()
            api.next(Late(release))
            answers: list[int] = []
            thread = threading.Thread(
                target=lambda: answers.append(ask(api, "/bott/sendMessage", {"chat_id": 1, "text": "a"})[0])
            )
            thread.start()
            api.wait_for_any(1)
            self.assertEqual((answers, api.accepted), ([], []))
            release.set()
            thread.join()
            self.assertEqual((answers, len(api.wait_for(1))), ([200], 1))


class SlackTest(unittest.TestCase):
    def test_it_tells_errors_with_status_200(self) -> None:
        with Slack("xoxb") as api:
            right = {"Authorization": "Bearer xoxb", "Content_Type": "application/json"}
            good = {"channel": "C", "text": "hi"}
            for headers, body, expected in (
                (right, good, None),
                ({**right, "Authorization": "Bearer no"}, good, "invalid_auth"),
                ({**right, "Content_Type": "text/plain"}, good, "invalid_arguments"),
                (right, {"text": "hi"}, "channel_not_found"),
                (right, {"channel": "C"}, "no_text"),
            ):
                status, answer, _ = ask(api, "/api/chat.postMessage", body, **headers)
                self.assertEqual((status, json.loads(answer).get("error")), (200, expected))

    def test_signatures_are_those_of_the_public_examples(self) -> None:
        body = (
            b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&"
            b"channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&"
            b"response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F"
            b"96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
        )
        signed = slack_signature("8f742231b10e8888abcd99yyyzzz85a5", body, 1531420618)
        self.assertEqual(
            signed["X-Slack-Signature"], "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
        )
        self.assertEqual(
            hub_signature("It's a Secret to Everybody", b"Hello, World!"),
            "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        )


class VersionTest(unittest.TestCase):
    def test_versions_differ_in_one_thing(self) -> None:
        self.assertEqual(another_version(b"\0asm", "v2"), b"\0asm" + b"\0\x04\x02v2\x01")
        self.assertEqual(with_text(b"a good tool", "good", "evil"), b"a evil tool")


if __name__ == "__main__":
    unittest.main()
