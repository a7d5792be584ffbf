"""Telegram: an update that is posted to the webhook ends in the right message at the Bot API, once."""

from __future__ import annotations

import json
import threading
import time
import unittest

from ahead_case import ahead, ahead_last
from channel_case import BOT_TOKEN, TELEGRAM_HEADER, WEBHOOK_SECRET, ChannelTestCase, said
from channel_stand_ins import post, update
from gateway_client import eventually
from stub_model import Failure, Hold, Reply, Text


def setUpModule() -> None:
    ReplyTest.begin_ahead()


load_tests = ahead_last


class ReplyTest(ChannelTestCase):
    def test_an_update_ends_in_the_reply(self) -> None:
        api = self.telegram(Reply(Text("Hello, "), Text("Ada.")))
        self.accepted(self.deliver(update(1, "good morning", chat=77)))
        (sent,) = api.wait_for(1)
        self.assertEqual((sent.method, sent.path), ("POST", f"/bot{BOT_TOKEN}/sendMessage"))
        self.assertTrue(sent.headers["content-type"].startswith("application/json"), sent.headers)
        self.assertEqual((str(sent.json["chat_id"]), sent.json["text"]), ("77", "Hello, Ada."))
        self.assertEqual(sent.json["reply_parameters"]["message_id"], 10)
        self.assertEqual(self.model.requests[0].last_user_text, "good morning")
        (session,) = self.gateway.result("session.list")["items"]
        self.assertEqual(session["session"], "default:telegram:7:77")

    @ahead
    def test_also_when_the_model_takes_twenty_seconds(self) -> None:
        release = threading.Event()
        self.addCleanup(release.set)
        api = self.telegram(Reply(Text("At "), Hold(release), Text("last.")))
        started = time.monotonic()
        # The webhook's caller does not wait: it is answered while the model is still at work.
        self.accepted(self.deliver(update(1)))
        self.model.wait_for_requests(1)
        clock = threading.Timer(20, release.set)
        clock.start()
        self.addCleanup(clock.cancel)
        (sent,) = api.wait_for(1, timeout=80)
        self.assertGreaterEqual(time.monotonic() - started, 20)
        self.assertEqual(sent.json["text"], "At last.")
        self.assertEqual(len(self.model.requests), 1)

    def test_long_replies_come_in_several_messages_in_order(self) -> None:
        words = " ".join(f"word{number}" for number in range(1500)) + " " + "\U0001f600" * 3000
        api = self.telegram(Reply(Text(words)))
        self.accepted(self.deliver(update(1)))
        whole = "".join(words.split())
        eventually(lambda: "".join("".join(api.texts()).split()) == whole, "all of it")
        # The stand-in refuses what is longer than Telegram takes.
        self.assertEqual([one.status for one in api.requests], [200] * len(api.requests))

    def test_any_text_arrives_as_it_is(self) -> None:
        family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
        for text in (f"ü☃ {family} <b>&amp;</b> *x* _y_ `z`", 'quotes " and \\ and\nlines'):
            with self.subTest(text):
                api = self.telegram()
                self.accepted(self.deliver(update(1, text)))
                api.wait_for(1)
                self.assertEqual(self.model.requests[0].last_user_text, text)
                self.assertEqual(api.texts(), [f"echo: {text}"])

    def test_threads_of_a_group_and_posts_of_a_channel(self) -> None:
        api = self.telegram()
        self.accepted(self.deliver(update(1, "in a thread", chat=-5, message_thread_id=42)))
        api.wait_for(1)
        self.accepted(self.deliver(update(2, "a post", chat=-9, kind="channel_post")))
        first, second = api.wait_for(2)
        self.assertEqual((str(first.json["chat_id"]), first.json.get("message_thread_id")), ("-5", 42))
        self.assertEqual((str(second.json["chat_id"]), second.json["text"]), ("-9", "echo: a post"))
        sessions = {one["session"] for one in self.gateway.result("session.list")["items"]}
        self.assertIn("default:telegram:7:-5%3A42", sessions)

    def test_a_caption_is_text_too(self) -> None:
        api = self.telegram()
        self.accepted(self.deliver(update(1, None, caption="look at this", photo=[{"file_id": "x"}])))
        api.wait_for(1)
        self.assertEqual(api.texts(), ["echo: look at this"])

    def test_what_is_no_message_is_acknowledged_and_nothing_happens(self) -> None:
        api = self.telegram()
        bot = {"id": 8, "is_bot": True, "first_name": "Other"}
        for body in (
            {"update_id": 1, "poll": {"id": "1"}},
            {"update_id": 2, "callback_query": {"id": "1", "from": {"id": 7, "is_bot": False}}},
            update(3, "changed my mind", kind="edited_message"),
            update(4, None, sticker={"file_id": "x"}),
            {"update_id": 5, "message": {**update(5, "beep")["message"], "from": bot}},
        ):
            with self.subTest(body):
                self.assertEqual(self.deliver(body).status, 200)
        # A message behind them all shows that nothing of them was on its way.
        self.accepted(self.deliver(update(6, "last")))
        api.wait_for(1)
        self.assertEqual(api.texts(), ["echo: last"])
        self.assertEqual(len(self.model.requests), 1)

    def test_what_is_no_update_is_refused(self) -> None:
        self.telegram()
        for body in (b"", b"{", b"[]", b"\xff\xfe", b"null", b'{"update_id":' + b"[" * 10_000):
            with self.subTest(body[:20]):
                answer = post(self.server, "telegram", body, {TELEGRAM_HEADER: WEBHOOK_SECRET})
                self.assertEqual(answer.status, 400, answer)
                self.assertTrue(answer.text.startswith("parse_incoming failed: "), answer.text)
        answer = self.deliver(update(1, "  \n "))
        self.assertIn((answer.status, answer.text), [(400, "empty message content"), (200, answer.text)])
        self.assertEqual(self.model.requests, [])


class SecretTest(ChannelTestCase):
    def test_a_wrong_or_missing_secret_is_refused_with_one_text(self) -> None:
        api = self.telegram()
        answers = [self.deliver(update(1), None)]
        for wrong in ("", "x", WEBHOOK_SECRET + "x", WEBHOOK_SECRET[:-1], WEBHOOK_SECRET.upper(), "ü" * 200):
            answers.append(self.deliver(update(1), wrong.encode().decode("latin-1")))
        self.assertEqual({answer.status for answer in answers}, {401}, answers)
        self.assertEqual(len({answer.text for answer in answers}), 1, answers)
        self.assertIn("signature", answers[0].text)
        self.assertEqual((self.model.requests, api.requests), ([], []))
        self.accepted(self.deliver(update(1)))

    def test_neither_secret_is_seen_anywhere_but_on_its_way(self) -> None:
        api = self.telegram(Reply(Text("well")), Failure(400))
        self.accepted(self.deliver(update(1)))
        api.wait_for(1)
        self.accepted(self.deliver(update(2)))
        api.wait_for(2)
        self.deliver(update(3), "wrong")
        shown = self.command("config", "show", "--config", str(self.server.config_file), data=False).stdout
        listed = json.dumps(self.gateway.result("plugin.list")) + self.command("plugins", "list").stdout
        for canary in (BOT_TOKEN, WEBHOOK_SECRET):
            for where in (shown, listed, self.server.log()):
                self.assertNotIn(canary, where)
        self.assertNotIn("canary", json.dumps([one.body for one in self.model.requests]))

    def test_no_token_of_the_gateway_is_needed(self) -> None:
        token = "a-token-of-some-length-for-the-gateway"
        api = self.telegram_behind(token)
        self.accepted(self.deliver(update(1)))
        api.wait_for(1)
        self.assertEqual(self.deliver(update(2), None, headers={"Authorization": f"Bearer {token}"}).status, 401)

    def telegram_behind(self, token: str):
        self.token = token
        return self.telegram(more='[gateway]\ntoken = "env:GATEWAY_TOKEN"\n', env={"GATEWAY_TOKEN": token})

    def another(self, **options):
        return super().another(token=getattr(self, "token", None), **options)


class OnceTest(ChannelTestCase):
    def test_an_update_that_is_delivered_again_is_answered_once(self) -> None:
        release = self.held()
        api = self.telegram(Reply(Hold(release), Text("once")))
        self.accepted(self.deliver(update(1)))
        self.model.wait_for_requests(1)
        for _ in range(3):
            self.assert_duplicate(self.deliver(update(1)))
        release.set()
        api.wait_for(1)
        self.assert_duplicate(self.deliver(update(1)))
        self.accepted(self.deliver(update(2, "and another")))
        api.wait_for(2)
        self.assertEqual(api.texts(), ["once", "echo: and another"])
        self.assertEqual(len(self.model.requests), 2)

    def test_also_after_a_restart(self) -> None:
        api = self.telegram()
        self.accepted(self.deliver(update(1)))
        # Once the next of the chat is answered, what became of the first is known to the server.
        self.accepted(self.deliver(update(2, "second")))
        api.wait_for(2)
        self.server.kill()
        self.again()
        self.assert_duplicate(self.deliver(update(1)))
        self.accepted(self.deliver(update(3, "new")))
        eventually(lambda: "echo: new" in api.texts(), "the new one is answered")
        self.assertEqual(api.texts().count("echo: hello"), 1, api.texts())

    def test_also_when_both_come_at_the_same_time(self) -> None:
        api = self.telegram()
        barrier = threading.Barrier(8)
        answers = []

        def one() -> None:
            barrier.wait()
            answers.append(self.deliver(update(1)))

        threads = [threading.Thread(target=one) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(answer.status for answer in answers), [200] * 7 + [202], answers)
        self.accepted(self.deliver(update(2, "last", chat=77)))
        api.wait_for(2)
        self.assertEqual(api.texts(), ["echo: hello", "echo: last"])

    def assert_duplicate(self, answer) -> None:
        self.assertEqual(answer.status, 200, answer)
        self.assertIs(answer.json.get("duplicate"), True, answer)


class ConversationTest(ChannelTestCase):
    def say(self, api, number: int, text: str, **where) -> None:
        self.accepted(self.deliver(update(number, text, **where)))
        api.wait_for(number)

    def test_each_chat_is_a_conversation_of_its_own(self) -> None:
        api = self.telegram()
        self.say(api, 1, "the eagle has landed", chat=1)
        self.say(api, 2, "what has landed?", chat=1)
        self.assertEqual(
            said(self.model.requests[-1]), ["the eagle has landed", "echo: the eagle has landed", "what has landed?"]
        )
        self.say(api, 3, "what has landed?", chat=2)
        self.assertEqual(said(self.model.requests[-1]), ["what has landed?"])

    def test_facts_belong_to_the_account(self) -> None:
        api = self.telegram()
        self.say(api, 1, "My name is Canarina.", chat=1, user=1)
        self.say(api, 2, "What is my name?", chat=-5, user=1)
        self.assertIn("Canarina", json.dumps(self.model.requests[-1].body), "the same person elsewhere")
        self.say(api, 3, "What is my name?", chat=2, user=2)
        self.assertNotIn("Canarina", json.dumps(self.model.requests[-1].body), "another person")

    def test_a_binding_chooses_the_agent(self) -> None:
        more = (
            '[agents.pirate]\nprovider = "main"\nmodel = "model-of-pirate"\nsystem_prompt = "Arr."\n'
            '[[bindings]]\nagent = "pirate"\nchannel = "telegram"\n'
        )
        api = self.telegram(more=more)
        self.say(api, 1, "ahoy")
        self.assertEqual(self.model.requests[0].body["model"], "model-of-pirate")
        self.assertIn("Arr.", self.model.requests[0].system_text)

    def test_only_some_chats_may_be_allowed(self) -> None:
        api = self.telegram(settings={"allowed_chats": "5, 6"})
        self.assertEqual(self.deliver(update(1, "hi", chat=7)).status, 200)
        self.accepted(self.deliver(update(2, "hi", chat=6)))
        api.wait_for(1)
        self.assertEqual([str(one.json["chat_id"]) for one in api.accepted], ["6"])


if __name__ == "__main__":
    unittest.main()
