"""How an app registers: every code, the order of the checks, and what a refused or malformed frame leaves behind."""

from __future__ import annotations

import json
import unittest
import uuid

from hub_case import NOTEBOOK, HubTestCase
from hub_client import App, registration

TWO_UNITS = "\U0001f4d3"
# Frames that are none, whatever the state of the connection.
NOT_FRAMES = (
    "",
    "hello",
    "{",
    '{"type":',
    "null",
    "true",
    "5",
    '"registration"',
    "[]",
    '[{"type":"registration"}]',
    "{}",
    '{"type":"registration"}',
    '{"payload":{"name":"x","description":"y"}}',
    '{"type":null,"payload":{}}',
    '{"type":5,"payload":{}}',
    '{"type":["registration"],"payload":{}}',
    '{"type":"","payload":{}}',
    '{"type":"Registration","payload":{}}',
    '{"type":"unheard-of","payload":{}}',
    '{"type":"message","payload":{"id":"msg-1","text":"x","timestamp":"now","metadata":{}}}',
    '{"type":"registration_response","payload":{"success":true}}',
)


class RegistrationTestCase(HubTestCase):
    def setUp(self) -> None:
        self.serve()

    def assert_refused(self, answer: dict, code: str) -> None:
        self.assertEqual(set(answer), {"success", "code", "message"}, answer)
        self.assertIs(answer["success"], False)
        self.assertEqual(answer["code"], code, answer)
        self.assertTrue(isinstance(answer["message"], str) and answer["message"], answer)

    def assert_let_in(self, answer: dict) -> None:
        self.assertEqual(set(answer), {"success", "clientId", "message"}, answer)
        self.assertIs(answer["success"], True)
        self.assertEqual(str(uuid.UUID(answer["clientId"])), answer["clientId"].lower())
        self.assertTrue(isinstance(answer["message"], str) and answer["message"], answer)

    def assert_works(self, app: App, name: str) -> None:
        app.name = name
        self.delivered(app, f"{name}: are you there?")


class AcceptedTest(RegistrationTestCase):
    def test_the_document_s_example_is_let_in(self) -> None:
        app = self.app()
        answer = app.ask_in(
            {
                "name": "my-client",
                "description": "I handle task management and to-do lists.",
                "version": "1.0.0",
                "capabilities": ["tasks", "reminders"],
            }
        )
        self.assert_let_in(answer)
        self.assert_works(app, "my-client")

    def test_version_and_capabilities_may_be_left_out(self) -> None:
        app = self.app()
        self.assert_let_in(app.register("obsidian", "Works in the vault."))
        self.assert_works(app, "obsidian")

    def test_every_client_has_an_id_of_its_own(self) -> None:
        answers = [self.app().register(f"app{at}", NOTEBOOK) for at in range(5)]
        for answer in answers:
            self.assert_let_in(answer)
        self.assertEqual(len({answer["clientId"] for answer in answers}), 5)

    def test_names_of_every_allowed_kind(self) -> None:
        for name in ("a", "Z", "a1", "a-", "a_", "A-b_C-9", "x" * 64):
            with self.subTest(name):
                app = self.app()
                self.assert_let_in(app.register(name, NOTEBOOK))
                self.assert_works(app, name)

    def test_descriptions_are_measured_in_utf_16_units(self) -> None:
        for at, description in enumerate(("x", "é" * 1024, TWO_UNITS * 512, "  padded  ", "x" * 1024)):
            with self.subTest(description[:8]):
                self.assert_let_in(self.app().register(f"app{at}", description))

    def test_version_and_capabilities_of_any_content(self) -> None:
        for at, more in enumerate(({"version": ""}, {"capabilities": []}, {"capabilities": ["", "é", "a b"]})):
            with self.subTest(more):
                self.assert_let_in(self.app().register(f"app{at}", NOTEBOOK, **more))

    def test_fields_nobody_knows_are_ignored(self) -> None:
        app = self.app()
        payload = {"name": "notebook", "description": NOTEBOOK, "icon": None, "nested": {"name": [1, 2]}}
        app.send("registration", payload, id=7, extra={"type": "response"})
        self.assert_let_in(app.take("registration_response")["payload"])
        self.assert_works(app, "notebook")

    def test_a_binary_frame_is_read_like_a_text_frame(self) -> None:
        app = self.app()
        app.send_raw(json.dumps(registration("notebook")).encode())
        self.assert_let_in(app.take("registration_response")["payload"])
        said = self.say("notebook: x")
        message = app.next_message()
        response = {"messageId": message.id, "type": "ack", "payload": {}}
        app.send_raw(json.dumps({"type": "response", "payload": response}).encode())
        self.settled(said["id"], "delivered")

    def test_any_path_will_do(self) -> None:
        for at, path in enumerate(("/", "/ws", "/a/b/c", "/?token=x&y", "/%20", "/v1/messages", "/smarthole/")):
            with self.subTest(path):
                app = self.app(path=path)
                self.assert_let_in(app.register(f"app{at}", NOTEBOOK))

    def test_a_name_is_free_again_when_its_app_has_left(self) -> None:
        self.leave(self.app("notebook"))
        app = self.app()
        self.assert_let_in(app.register("notebook", NOTEBOOK))
        self.assert_works(app, "notebook")


class RefusedTest(RegistrationTestCase):
    def test_bad_names(self) -> None:
        app = self.app()
        bad = ("", " ", "1a", "-a", "_a", "a b", " a", "a ", "a.b", "a:b", "é", "aé", "a\n", "x" * 65, "a/b", "ａ")
        for name in (*bad, None, 5, True, ["a"], {"a": 1}):
            with self.subTest(name=name):
                self.assert_refused(app.register(name, NOTEBOOK), "INVALID_NAME")
        self.assert_refused(app.ask_in({"description": NOTEBOOK}), "INVALID_NAME")

    def test_bad_descriptions(self) -> None:
        app = self.app()
        bad = ("", " ", " \n\t\r ", "\u00a0\u2003", "x" * 1025, "é" * 1025, TWO_UNITS * 513, TWO_UNITS * 512 + "x")
        for description in (*bad, " " * 1024 + "x", None, 5, True, ["x"], {}):
            with self.subTest(description=str(description)[:8]):
                self.assert_refused(app.register("notebook", description), "INVALID_DESCRIPTION")
        self.assert_refused(app.ask_in({"name": "notebook"}), "INVALID_DESCRIPTION")

    def test_bad_versions_and_capabilities(self) -> None:
        app = self.app()
        wrong = [{"version": value} for value in (None, 1, 1.5, True, ["1"], {})]
        wrong += [{"capabilities": value} for value in (None, "tasks", 1, {}, [1], ["ok", None], [["x"]])]
        for more in wrong:
            with self.subTest(more):
                self.assert_refused(app.register("notebook", NOTEBOOK, **more), "VALIDATION_ERROR")

    def test_payloads_that_are_no_object(self) -> None:
        app = self.app()
        for payload in (None, "notebook", 5, True):
            with self.subTest(payload):
                self.assert_refused(app.ask_in(payload), "VALIDATION_ERROR")
        self.assert_refused(app.ask_in(["notebook"]), "INVALID_NAME")

    def test_a_taken_name_in_any_case(self) -> None:
        holder = self.app("Notebook")
        app = self.app()
        for name in ("Notebook", "notebook", "NOTEBOOK", "nOTEBOOK"):
            with self.subTest(name):
                self.assert_refused(app.register(name, NOTEBOOK), "DUPLICATE_NAME")
        self.assert_works(holder, "Notebook")
        self.assert_let_in(app.register("notebook2", NOTEBOOK))

    def test_a_second_registration_on_one_connection(self) -> None:
        app = self.app("notebook")
        for name, description in (("other", NOTEBOOK), ("notebook", NOTEBOOK), ("", ""), (None, None)):
            with self.subTest(name=name):
                self.assert_refused(app.register(name, description), "ALREADY_REGISTERED")
        self.assert_works(app, "notebook")
        self.assert_let_in(self.app().register("other", NOTEBOOK))

    def test_the_checks_come_in_their_order(self) -> None:
        self.app("taken")
        app = self.app()
        bad_version, bad_capabilities = {"version": 1}, {"capabilities": "x"}
        self.assert_refused(app.register("1", "", **bad_version, **bad_capabilities), "INVALID_NAME")
        self.assert_refused(app.register("taken", "", **bad_version, **bad_capabilities), "INVALID_DESCRIPTION")
        self.assert_refused(app.register("taken", NOTEBOOK, **bad_version), "VALIDATION_ERROR")
        self.assert_refused(app.register("taken", NOTEBOOK, **bad_capabilities), "VALIDATION_ERROR")
        self.assert_refused(app.register("taken", NOTEBOOK), "DUPLICATE_NAME")
        self.assert_let_in(app.register("free", NOTEBOOK))
        self.assert_refused(app.register("1", "", **bad_version, **bad_capabilities), "ALREADY_REGISTERED")

    def test_a_refused_connection_can_try_again_and_again(self) -> None:
        app = self.app()
        for _ in range(20):
            self.assert_refused(app.register("no good", NOTEBOOK), "INVALID_NAME")
        self.assert_let_in(app.register("good", NOTEBOOK))
        self.assert_works(app, "good")

    def test_a_refused_registration_takes_no_name(self) -> None:
        app = self.app()
        self.assert_refused(app.register("notebook", ""), "INVALID_DESCRIPTION")
        self.assert_let_in(self.app().register("notebook", NOTEBOOK))


class MalformedTest(RegistrationTestCase):
    def test_before_registration_it_is_a_validation_error_and_the_socket_stays(self) -> None:
        app = self.app()
        for frame in NOT_FRAMES:
            for sent in (frame, frame.encode()):
                with self.subTest(sent):
                    app.send_raw(sent)
                    answer = app.next_frame()
                    self.assertEqual(answer["type"], "registration_response")
                    self.assert_refused(answer["payload"], "VALIDATION_ERROR")
        self.assert_let_in(app.register("notebook", NOTEBOOK))
        self.assert_works(app, "notebook")

    def test_after_registration_it_is_an_error_frame_and_the_socket_stays(self) -> None:
        app = self.app("notebook")
        for frame in NOT_FRAMES:
            # That one is a registration, which is the second.
            if frame == '{"type":"registration"}':
                continue
            for sent in (frame, frame.encode()):
                with self.subTest(sent):
                    app.send_raw(sent)
                    answer = app.next_frame()
                    self.assertEqual(answer["type"], "error", answer)
                    self.assertEqual(set(answer["payload"]), {"code", "message"})
                    self.assertTrue(all(isinstance(value, str) and value for value in answer["payload"].values()))
        self.assert_works(app, "notebook")

    def test_null_payloads_end_nothing(self) -> None:
        for name in (None, "notebook"):
            with self.subTest(registered=name is not None):
                app = self.app(name)
                for kind in ("registration", "response", "message", "ping", "error"):
                    app.send_raw(json.dumps({"type": kind, "payload": None}))
                app.ping()
                if name is None:
                    self.register_after_refusals(app, "late")
                self.assert_works(app, name or "late")

    def register_after_refusals(self, app: App, name: str) -> None:
        """Lets in, after whatever answers are still on their way."""
        answer = app.register(name, NOTEBOOK)
        while not answer["success"]:
            self.assert_refused(answer, "VALIDATION_ERROR")
            answer = app.take("registration_response")["payload"]
        self.assert_let_in(answer)

    def test_a_response_of_an_unregistered_connection_changes_nothing(self) -> None:
        unknown = self.app("unknown")
        said = self.say("unknown: something")
        message = unknown.next_message()
        stranger = self.app()
        stranger.ack(message)
        stranger.reject(message, "mine now")
        stranger.ping()
        shown = self.message(said["id"])
        self.assertEqual(shown["state"], "sent")
        unknown.ack(message)
        (attempt,) = self.settled(said["id"], "delivered")["attempts"]
        self.assertEqual((attempt["client"], attempt.get("reason")), ("unknown", None))

    def test_a_client_of_ours_is_answered_when_it_pings(self) -> None:
        for name in (None, "notebook"):
            with self.subTest(registered=name is not None):
                self.app(name).ping()


if __name__ == "__main__":
    unittest.main()
