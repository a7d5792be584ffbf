"""Approvals on the gateway: a tool that must be asked for waits, and only the right one may answer."""

from __future__ import annotations

import contextlib
import threading
import unittest
from datetime import datetime, timedelta, timezone

from gateway_client import Gateway, Turn, eventually, exceptions
from patchboard_server import ServerTestCase
from stub_model import Call, Hold, Reply, StubModel, Text

ASK = '[tools.approval]\nread = "ask"\n'
SESSION = "default:websocket:alice:main"
NOTE = "what the note says"


class ApprovalTestCase(ServerTestCase):
    def connect(self, more: str = ASK) -> Gateway:
        self.model = StubModel()
        self.addCleanup(self.model.close)
        self.server = self.start_server(config=self.model.provider_config("openai") + more)
        (self.server.folder / "note.txt").write_text(NOTE)
        gateway = Gateway(self.server)
        self.addCleanup(gateway.close)
        return gateway

    def start_reading(self, gateway: Gateway, **where: str) -> tuple[str, dict]:
        """A chat whose model wants to read the note; gives the request's id and what the approval says."""
        self.model.script(Reply(Call("read", {"path": "note.txt"})), Reply(Text("I see")))
        request = gateway.start("read my note", **where)
        return request, gateway.until(request, "approval")[-1]["data"]

    def assert_refused(self, turn: Turn) -> None:
        """The tool did not run, the model was told so, and the turn went on."""
        (outcome,) = turn.data("tool_result")
        self.assertEqual(outcome["is_error"], True)
        self.assertNotIn(NOTE, str(turn.frames) + str(self.model.requests[-1].messages))
        self.assertEqual((turn.text, turn.events[-1]), ("I see", "done"))


class AskTest(ApprovalTestCase):
    def test_the_question_names_the_call_and_comes_after_tool_use(self) -> None:
        gateway = self.connect()
        self.model.script(Reply(Text("hm"), Call("read", {"path": "note.txt"})), Reply(Text("I see")))
        before = datetime.now(timezone.utc)
        frames = gateway.until(gateway.start("read my note"), "approval")
        use = next(frame["data"] for frame in frames if frame["event"] == "tool_use")
        asked = frames[-1]["data"]
        self.assertEqual(
            set(asked), {"approval_id", "tool_use_id", "name", "input", "expires_at", "run_id", "session_offered"}
        )
        self.assertEqual(
            (asked["tool_use_id"], asked["name"], asked["input"]), (use["id"], "read", {"path": "note.txt"})
        )
        after = datetime.now(timezone.utc)
        # A quarter of an hour after it was asked; parts of a second are left out here.
        expires = datetime.fromisoformat(asked["expires_at"][:19] + "+00:00")
        self.assertTrue(before + timedelta(seconds=899) <= expires <= after + timedelta(seconds=900), expires)
        self.assertEqual(len(self.model.requests), 1, "the model waits for the tool")

    def test_approved_it_runs(self) -> None:
        gateway = self.connect()
        request, asked = self.start_reading(gateway)
        listed = gateway.result("approval.list")["items"]
        self.assertEqual([one["approval_id"] for one in listed], [asked["approval_id"]])
        self.assertEqual((listed[0]["name"], listed[0]["input"]), ("read", {"path": "note.txt"}))
        gateway.result("approval.answer", approval_id=asked["approval_id"], approve=True)
        turn = gateway.turn(request)
        self.assertEqual(turn.outline, ["tool_result", "text", "usage", "done"])
        self.assertEqual(turn.data("tool_result")[0]["is_error"], False)
        self.assertIn(NOTE, turn.data("tool_result")[0]["content"])
        self.assertEqual(gateway.result("approval.list")["items"], [])

    def test_refused_the_model_is_told_and_goes_on(self) -> None:
        gateway = self.connect()
        request, asked = self.start_reading(gateway)
        gateway.result("approval.answer", approval_id=asked["approval_id"], approve=False)
        self.assert_refused(gateway.turn(request))

    def test_unanswered_it_expires_into_a_refusal(self) -> None:
        gateway = self.connect(ASK + '[limits]\napproval_timeout = "300ms"\n')
        request, asked = self.start_reading(gateway)
        self.assert_refused(gateway.turn(request))
        self.assertTrue(gateway.error("approval.answer", approval_id=asked["approval_id"], approve=True))

    def test_an_answer_needs_a_known_approval_and_a_plain_yes_or_no(self) -> None:
        gateway = self.connect()
        request, asked = self.start_reading(gateway)
        known = asked["approval_id"]
        unknown = "00000000-0000-7000-8000-000000000000"
        wrong = [
            None,
            {},
            {"approval_id": known},
            {"approve": True},
            {"approval_id": known, "approve": None},
            {"approval_id": known, "approve": "yes"},
            {"approval_id": known, "approve": 1},
            {"approval_id": unknown, "approve": True},
            {"approval_id": 5, "approve": True},
        ]
        for params in wrong:
            with self.subTest(params):
                self.assertTrue(gateway.error("approval.answer", params))
        self.assertEqual(len(gateway.result("approval.list")["items"]), 1, "none of these was an answer")
        gateway.result("approval.answer", approval_id=known, approve=False)
        self.assertTrue(gateway.error("approval.answer", approval_id=known, approve=True), "the first answer counts")
        self.assert_refused(gateway.turn(request))

    def test_each_call_is_asked_for_by_itself(self) -> None:
        gateway = self.connect()
        (self.server.folder / "other.txt").write_text("another note\n")
        self.model.script(
            Reply(Call("read", {"path": "note.txt"}), Call("read", {"path": "other.txt"})), Reply(Text("I see"))
        )
        request = gateway.start("read both")
        answers = {"note.txt": False, "other.txt": True}
        outcomes: dict[str, bool] = {}
        uses: dict[str, str] = {}
        frame: dict = {}
        while frame.get("event") != "done":
            frame = gateway.next_of(request)
            data = frame.get("data")
            if frame["event"] == "tool_use":
                uses[data["id"]] = data["input"]["path"]
            elif frame["event"] == "approval":
                gateway.result(
                    "approval.answer", approval_id=data["approval_id"], approve=answers[data["input"]["path"]]
                )
            elif frame["event"] == "tool_result":
                outcomes[uses[data["tool_use_id"]]] = data["is_error"]
        self.assertEqual(outcomes, {"note.txt": True, "other.txt": False})


class WhoMayAnswerTest(ApprovalTestCase):
    def test_another_connection_may_not(self) -> None:
        gateway = self.connect()
        request, asked = self.start_reading(gateway)
        with Gateway(self.server) as other:
            for approve in (True, False):
                self.assertIn(
                    "only the connection",
                    other.error("approval.answer", approval_id=asked["approval_id"], approve=approve),
                )
        self.assertEqual(len(gateway.result("approval.list")["items"]), 1, "it still waits")
        gateway.result("approval.answer", approval_id=asked["approval_id"], approve=True)
        self.assertIn(NOTE, gateway.turn(request).data("tool_result")[0]["content"])

    def test_a_connection_that_only_attached_may_not(self) -> None:
        gateway = self.connect()
        request, asked = self.start_reading(gateway)
        with Gateway(self.server) as watcher:
            seen = watcher.until(watcher.ask("chat.attach", session=SESSION, after=0), "approval")
            self.assertEqual(seen[-1]["data"], asked)
            self.assertTrue(watcher.error("approval.answer", approval_id=asked["approval_id"], approve=True))
        gateway.result("approval.answer", approval_id=asked["approval_id"], approve=False)
        self.assert_refused(gateway.turn(request))

    def test_the_operator_may(self) -> None:
        gateway = self.connect()
        request, asked = self.start_reading(gateway)
        token = self.server.data_dir / "operator.token"
        self.assertEqual(token.stat().st_mode & 0o777, 0o600)
        header = {"Authorization": f"Bearer {token.read_text().strip()}"}
        with Gateway(self.server, additional_headers=header) as operator:
            self.assertEqual(
                [one["approval_id"] for one in operator.result("approval.list")["items"]], [asked["approval_id"]]
            )
            operator.result("approval.answer", approval_id=asked["approval_id"], approve=True)
        self.assertIn(NOTE, gateway.turn(request).data("tool_result")[0]["content"])

    def test_a_guessed_operator_token_makes_nobody_the_operator(self) -> None:
        gateway = self.connect()
        request, asked = self.start_reading(gateway)
        # To be refused the connection is as good.
        with contextlib.suppress(exceptions.InvalidStatus):
            with Gateway(self.server, additional_headers={"Authorization": "Bearer " + "0" * 64}) as guesser:
                self.assertTrue(guesser.error("approval.answer", approval_id=asked["approval_id"], approve=True))
        gateway.result("approval.answer", approval_id=asked["approval_id"], approve=False)
        self.assert_refused(gateway.turn(request))


class PolicyTest(ApprovalTestCase):
    def outcome(self, policy: str) -> str:
        """What becomes of a call of `read`: `asked`, `ran` or `refused`."""
        gateway = self.connect(f"[tools.approval]\n{policy}")
        self.model.script(Reply(Call("read", {"path": "note.txt"})), Reply(Text("I see")))
        request = gateway.start("read my note")
        while True:
            frame = gateway.next_of(request)
            if frame["event"] == "approval":
                return "asked"
            if frame["event"] == "tool_result":
                return "refused" if frame["data"]["is_error"] else "ran"

    def test_the_most_specific_pattern_wins(self) -> None:
        policies = {
            "": "ran",
            'read = "deny"\n': "refused",
            '"*" = "deny"\nread = "allow"\n': "ran",
            '"*" = "allow"\nread = "ask"\n': "asked",
            '"*" = "allow"\n"rea*" = "deny"\n"r*" = "ask"\n': "refused",
            '"*" = "ask"\n': "asked",
            'ls = "deny"\n': "ran",
        }
        for policy, expected in policies.items():
            with self.subTest(policy):
                self.assertEqual(self.outcome(policy), expected)


class EndOfWaitingTest(ApprovalTestCase):
    def test_cancelling_ends_the_question(self) -> None:
        gateway = self.connect()
        request, asked = self.start_reading(gateway)
        gateway.result("chat.cancel", id=request)
        self.assertEqual(gateway.turn(request).events[-1], "done")
        self.assertEqual(gateway.result("approval.list")["items"], [])
        self.assertTrue(gateway.error("approval.answer", approval_id=asked["approval_id"], approve=True))

    def test_a_killed_server_asks_again_after_its_restart(self) -> None:
        gateway = self.connect()
        _, asked = self.start_reading(gateway)
        self.server.kill()
        with Gateway(self.server.restart()) as again:
            request = again.ask("chat.attach", session=SESSION, after=0)
            again.until(request, "approval")
            # The connection that asked is gone, and this one only watches.
            self.assertEqual(again.result("approval.list")["items"], [])
            header = {"Authorization": f"Bearer {(self.server.data_dir / 'operator.token').read_text().strip()}"}
            with Gateway(self.server, additional_headers=header) as operator:
                eventually(lambda: operator.result("approval.list")["items"], "it waits again")
                operator.result("approval.answer", approval_id=asked["approval_id"], approve=True)
            turn = again.turn(request)
            self.assertIn(NOTE, turn.data("tool_result")[0]["content"])
            self.assertEqual(turn.events[-1], "done")
            self.assertTrue(again.result("chat.history", session=SESSION)["items"])

    def test_what_breaks_a_silence_of_20_s(self) -> None:
        """Nothing to be seen, or, once, that somebody is waited for; never to a client that shows approvals itself."""
        gateway = self.connect()
        release = threading.Event()
        self.addCleanup(release.set)
        reading = Reply(Call("read", {"path": "note.txt"}))
        self.model.script(reading, reading, Reply(Text("thinking"), Hold(release)), Reply(Text("I see")))
        request = gateway.start("read my note")
        asked = gateway.until(request, "approval")[-1]["data"]
        shown = gateway.start("read my note", account="carol", approvals=True)
        gateway.until(shown, "approval")
        held = gateway.start("take your time", account="bob")
        gateway.until(held, "text")
        words = "(waiting for approval of read: answer with `patchboard approvals`)\n"
        for silent, expected in ((request, [words, ""]), (shown, [""]), (held, [""])):
            for text in expected:
                frame = gateway.next_of(silent)
                self.assertEqual((frame["event"], frame["data"]), ("text", text))
        gateway.result("approval.answer", approval_id=asked["approval_id"], approve=False)
        gateway.turn(request)
        self.assertNotIn("waiting for approval", str(gateway.result("chat.history", session=SESSION)))

    def test_a_question_that_another_request_waits_for_is_open_for_two_more_minutes(self) -> None:
        gateway = self.connect(ASK + '[limits]\napproval_timeout = "1h"\n')
        request, _ = self.start_reading(gateway)

        def left() -> float:
            (open_one,) = gateway.result("approval.list")["items"]
            expires = datetime.fromisoformat(open_one["expires_at"][:19] + "+00:00")
            return (expires - datetime.now(timezone.utc)).total_seconds()

        self.assertGreater(left(), 3000)
        other = gateway.start("hello", account="bob")
        gateway.turn(other)
        self.assertGreater(left(), 3000, "another conversation does not wait for it")
        gateway.start("are you there?")
        self.assertLessEqual(left(), 120)
        gateway.result("chat.cancel", id=request)


if __name__ == "__main__":
    unittest.main()
