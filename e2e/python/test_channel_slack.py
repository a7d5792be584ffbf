"""Slack: events that are signed and fresh end in messages at the Web API, once each."""

from __future__ import annotations

import json
import time
import unittest
import urllib.parse

from channel_case import BOT_TOKEN, WEBHOOK_SECRET, ChannelTestCase, said
from channel_stand_ins import Fail, post, slack_event, slack_signature
from gateway_client import eventually
from stub_model import Hold, Reply, Text


class EventTest(ChannelTestCase):
    def test_the_challenge_is_given_back(self) -> None:
        self.slack()
        asked = {"token": "legacy", "challenge": "3eZbrw1aBm2rZgRNFdxV2595E9CY3gm", "type": "url_verification"}
        answer = self.deliver_slack(asked)
        self.assertEqual(answer.status, 200, answer)
        self.assertIn(asked["challenge"], answer.text)
        if answer.kind == "application/json":
            self.assertEqual(answer.json, {"challenge": asked["challenge"]})
        else:
            self.assertEqual((answer.kind, answer.text), ("text/plain", asked["challenge"]))
        self.assertEqual(self.model.requests, [])

    def test_a_message_ends_in_chat_post_message(self) -> None:
        api = self.slack(Reply(Text("1 < 2 & "), Text("3 > 2")))
        self.accepted(self.deliver_slack(slack_event("1700000001.000100", "compare", channel="C42")))
        (sent,) = api.wait_for(1)
        self.assertEqual((sent.method, sent.path), ("POST", "/api/chat.postMessage"))
        self.assertEqual(sent.headers["authorization"], f"Bearer {BOT_TOKEN}")
        self.assertEqual((sent.json["channel"], sent.json["text"]), ("C42", "1 &lt; 2 &amp; 3 &gt; 2"))
        self.assertEqual(self.model.requests[0].last_user_text, "compare")
        (session,) = self.gateway.result("session.list")["items"]
        self.assertEqual(session["session"], "default:slack:U1:C42")

    def test_a_thread_is_answered_in_the_thread_and_is_a_conversation(self) -> None:
        api = self.slack()
        top = "1700000001.000100"
        self.accepted(self.deliver_slack(slack_event("1700000002.000100", "in here", thread_ts=top)))
        (sent,) = api.wait_for(1)
        self.assertEqual(sent.json.get("thread_ts"), top)
        self.accepted(self.deliver_slack(slack_event("1700000003.000100", "and here?", thread_ts=top)))
        api.wait_for(2)
        self.assertEqual(said(self.model.requests[-1]), ["in here", "echo: in here", "and here?"])
        self.accepted(self.deliver_slack(slack_event("1700000004.000100", "elsewhere")))
        api.wait_for(3)
        self.assertEqual(said(self.model.requests[-1]), ["elsewhere"])

    def test_a_retry_is_answered_once(self) -> None:
        release = self.held()
        api = self.slack(Reply(Hold(release), Text("once")))
        event = slack_event("1700000001.000100")
        self.accepted(self.deliver_slack(event))
        self.model.wait_for_requests(1)
        for number in (1, 2, 3):
            headers = {"X-Slack-Retry-Num": str(number), "X-Slack-Retry-Reason": "http_timeout"}
            answer = self.deliver_slack(event, headers)
            self.assertEqual(answer.status, 200, answer)
        release.set()
        self.accepted(self.deliver_slack(slack_event("1700000002.000100", "next")))
        api.wait_for(2)
        self.assertEqual([one["text"] for one in api.messages], ["once", "echo: next"])

    def test_a_mention_that_is_a_message_too_is_answered_once(self) -> None:
        api = self.slack()
        ts = "1700000001.000100"
        statuses = [
            self.deliver_slack(slack_event(ts, "<@U99> hi", kind=kind)).status for kind in ("app_mention", "message")
        ]
        self.assertEqual(statuses, [202, 200])
        self.accepted(self.deliver_slack(slack_event("1700000002.000100", "next")))
        api.wait_for(2)
        self.assertEqual(len(api.messages), 2)

    def test_the_bot_does_not_talk_to_itself_nor_to_what_is_no_message(self) -> None:
        api = self.slack()
        for event in (
            slack_event("1700000001.000100", "beep", bot_id="B1"),
            slack_event("1700000002.000100", "", subtype="message_changed"),
            slack_event("1700000003.000100", "joined", subtype="channel_join"),
            slack_event("1700000004.000100", "", kind="reaction_added"),
            {"type": "app_rate_limited", "team_id": "T1"},
        ):
            with self.subTest(event):
                self.assertEqual(self.deliver_slack(event).status, 200)
        self.accepted(self.deliver_slack(slack_event("1700000009.000100", "last")))
        api.wait_for(1)
        self.assertEqual([one["text"] for one in api.messages], ["echo: last"])
        self.assertEqual(len(self.model.requests), 1)

    def test_a_slash_command(self) -> None:
        api = self.slack()
        fields = {
            "token": "legacy", "team_id": "T1", "channel_id": "C7", "user_id": "U1", "command": "/ask",
            "text": "what is new?", "response_url": "https://hooks.slack.example/commands/1", "trigger_id": "1.2",
        }  # fmt: skip
        body = urllib.parse.urlencode(fields).encode()
        answer = self.deliver_slack(body, {"Content-Type": "application/x-www-form-urlencoded"})
        self.accepted(answer)
        (sent,) = api.wait_for(1)
        self.assertEqual(sent.json["channel"], "C7")
        self.assertIn("what is new?", self.model.requests[0].last_user_text)

    def test_slack_asks_to_wait(self) -> None:
        api = self.slack()
        api.next(Fail(429, retry_after=1))
        self.accepted(self.deliver_slack(slack_event("1700000001.000100")))
        api.wait_for(1)
        first, second = api.requests
        self.assertGreaterEqual(second.at - first.at, 0.9)
        self.assertEqual(first.body, second.body)

    def test_long_replies_come_in_several_messages(self) -> None:
        words = " ".join(f"word{number}" for number in range(1500))
        api = self.slack(Reply(Text(words)))
        self.accepted(self.deliver_slack(slack_event("1700000001.000100")))
        eventually(lambda: " ".join(" ".join(one["text"] for one in api.messages).split()) == words, "all of it")
        self.assertTrue(all(len(one["text"]) <= 4000 for one in api.messages))


class SignatureTest(ChannelTestCase):
    def test_only_what_is_signed_is_taken(self) -> None:
        api = self.slack()
        body = json.dumps(slack_event("1700000001.000100")).encode()
        good = slack_signature(WEBHOOK_SECRET, body)
        bad = {
            "none": {},
            "no timestamp": {"X-Slack-Signature": good["X-Slack-Signature"]},
            "no signature": {"X-Slack-Request-Timestamp": good["X-Slack-Request-Timestamp"]},
            "another secret": slack_signature("another", body),
            "another body": slack_signature(WEBHOOK_SECRET, body + b" "),
            "another time": {**good, "X-Slack-Request-Timestamp": str(int(time.time()) - 1)},
            "not a time": {**good, "X-Slack-Request-Timestamp": "soon"},
            "a time beyond all times": {**good, "X-Slack-Request-Timestamp": "9" * 40},
            "another scheme": {**good, "X-Slack-Signature": good["X-Slack-Signature"].replace("v0=", "v1=")},
            "no scheme": {**good, "X-Slack-Signature": good["X-Slack-Signature"].removeprefix("v0=")},
            "half of it": {**good, "X-Slack-Signature": good["X-Slack-Signature"][:35]},
            "not hex": {**good, "X-Slack-Signature": "v0=" + "zz" * 32},
        }
        texts = set()
        for name, headers in bad.items():
            with self.subTest(name):
                answer = post(self.server, "slack", body, headers)
                self.assertEqual(answer.status, 401, answer)
                texts.add(answer.text)
        self.assertLessEqual(len(texts), 2, "not which part was wrong")
        self.assertEqual((self.model.requests, api.requests), ([], []))
        self.accepted(post(self.server, "slack", body, good))

    def test_what_is_old_or_of_the_future_is_refused(self) -> None:
        self.slack()
        body = json.dumps(slack_event("1700000001.000100")).encode()
        now = int(time.time())
        for at in (now - 301 - 5, now - 86_400, 0, now + 301 + 5, now + 86_400):
            with self.subTest(at - now):
                answer = post(self.server, "slack", body, slack_signature(WEBHOOK_SECRET, body, at))
                self.assertEqual(answer.status, 401, answer)
        self.assertEqual(self.model.requests, [])
        self.accepted(post(self.server, "slack", body, slack_signature(WEBHOOK_SECRET, body, now - 200)))

    def test_the_window_is_the_operator_s(self) -> None:
        self.slack(keys='replay_window = "30s"\n')
        body = json.dumps(slack_event("1700000001.000100")).encode()
        now = int(time.time())
        self.assertEqual(post(self.server, "slack", body, slack_signature(WEBHOOK_SECRET, body, now - 60)).status, 401)
        self.accepted(post(self.server, "slack", body, slack_signature(WEBHOOK_SECRET, body, now - 10)))

    def test_the_token_is_seen_by_slack_alone(self) -> None:
        api = self.slack()
        self.accepted(self.deliver_slack(slack_event("1700000001.000100")))
        api.wait_for(1)
        listed = json.dumps(self.gateway.result("plugin.list"))
        for where in (self.server.log(), listed, json.dumps([one.body for one in self.model.requests])):
            self.assertNotIn(BOT_TOKEN, where)
            self.assertNotIn(WEBHOOK_SECRET, where)


if __name__ == "__main__":
    unittest.main()
