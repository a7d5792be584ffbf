"""No client of the bridge takes all sessions: a connection has three quarters, all clients together nine tenths."""

from __future__ import annotations

import unittest

from bridge_case import BridgeTestCase
from bridge_client import Bridge, Code, grpc, opening, together
from gateway_client import eventually
from users_case import operator_token

TOKEN = "0123456789abcdef0123456789abcdef"
MOST = 20
OF_ONE, OF_ALL = 15, 18
# A server with a token, and one without.
EACH = ('token = "env:TOKEN"\n', "")


class SharesTest(BridgeTestCase):
    def start(self, keys: str = "", **options) -> Bridge:
        self.token = TOKEN if "token" in keys else None
        self.server = self.start_server(
            config=f"[bridge]\nmax_sessions = {MOST}\n{keys}", bridge="127.0.0.1:0", env={"TOKEN": TOKEN}, **options
        )
        return self.another()

    def another(self) -> Bridge:
        return self.client(token=self.token)

    def operator(self) -> Bridge:
        return self.client(token=operator_token(self.server))

    def opened(self, bridge: Bridge, prefix: str, most: int = 2 * MOST) -> int:
        """Opens sessions until one is refused; gives how many were opened."""
        for number in range(most):
            if not self.opens(bridge, f"{prefix}-{number}"):
                return number
        return most

    def opens(self, bridge: Bridge, session: str) -> bool:
        """Whether one more session can be had; if not, it is told why."""
        try:
            answer = bridge.rpc("InitializeSession", opening(session))
        except grpc.RpcError as error:
            self.assertEqual(error.code(), Code.RESOURCE_EXHAUSTED, error)
            self.assertRegex(error.details(), "quota|sessions")
            return False
        if not answer.success:
            self.assertRegex(answer.error_message, "quota|sessions")
        return answer.success

    def closes(self, bridge: Bridge, *sessions: str) -> None:
        for session in sessions:
            self.assertTrue(bridge.cleanup(session).success)

    def test_one_connection_leaves_some_to_others_and_all_leave_some_to_the_operator(self) -> None:
        for keys in EACH:
            with self.subTest(token=bool(keys)):
                first = self.start(keys)
                self.assertEqual(self.opened(first, "first"), OF_ONE)
                self.assertEqual(self.opened(first, "again"), 0)
                second = self.another()
                self.assertEqual(self.opened(second, "second"), OF_ALL - OF_ONE)
                # However many connections there are.
                for number in range(3):
                    self.assertEqual(self.opened(self.another(), f"more-{number}"), 0)
                operator = self.operator()
                self.assertTrue(self.opens(operator, "operator"))
                # What is open goes on as ever, for those who have it.
                self.assertTrue(first.is_there("first-0"))
                self.assertTrue(second.beat("second-0").session_valid)
                first.open("first-0")
                self.assertTrue(operator.is_there("operator"))
                # The last places are the operator's too; then there are no more.
                self.assertEqual(self.opened(operator, "last"), MOST - OF_ALL - 1)

    def test_closing_gives_places_back(self) -> None:
        for keys in EACH:
            with self.subTest(token=bool(keys)):
                first = self.start(keys)
                self.assertEqual(self.opened(first, "first"), OF_ONE)
                second = self.another()
                self.assertEqual(self.opened(second, "second"), OF_ALL - OF_ONE)
                self.closes(first, "first-0")
                # It was one of both shares.
                self.assertEqual(self.opened(second, "in its place"), 1)
                self.assertEqual(self.opened(first, "too late"), 0)
                self.closes(first, *[f"first-{number}" for number in range(1, OF_ONE)])
                self.closes(second, "in its place-0", *[f"second-{number}" for number in range(OF_ALL - OF_ONE)])
                self.assertEqual(self.opened(second, "anew"), OF_ONE)
                self.assertEqual(self.opened(first, "anew too"), OF_ALL - OF_ONE)

    def test_also_when_somebody_else_closes_them(self) -> None:
        first = self.start()
        self.assertEqual(self.opened(first, "first"), OF_ONE)
        other = self.another()
        self.closes(other, *[f"first-{number}" for number in range(5)])
        self.assertEqual(self.opened(first, "again"), 5)
        self.closes(self.operator(), "first-5")
        self.assertTrue(self.opens(first, "once more"))
        self.assertFalse(self.opens(first, "and not twice"))

    def test_closing_what_is_not_there_gives_nothing(self) -> None:
        first = self.start()
        self.assertEqual(self.opened(first, "first"), OF_ONE)
        self.closes(first, "first-0")
        for session in ("first-0", "first-0", "never"):
            first.cleanup(session)
        self.assertEqual(self.opened(first, "again"), 1)

    def test_opening_one_that_is_there_takes_no_place(self) -> None:
        first = self.start()
        for _ in range(3 * MOST):
            first.open("the same")
            self.another().open("the same")
        self.assertEqual(self.opened(first, "first"), OF_ONE - 1)
        # Who opened it first has it, however often the other one does.
        self.assertEqual(self.opened(self.another(), "second"), OF_ALL - OF_ONE)

    def test_a_connection_that_is_gone_leaves_its_sessions_and_their_places(self) -> None:
        first = self.start()
        self.assertEqual(self.opened(first, "first"), OF_ONE)
        first.close()
        second = self.another()
        self.assertTrue(second.is_there("first-0"))
        self.assertEqual(self.opened(second, "second"), OF_ALL - OF_ONE)
        self.closes(second, "first-0", "first-1")
        self.assertEqual(self.opened(second, "again"), 2)

    def test_places_come_back_when_sessions_have_run_out(self) -> None:
        first = self.start('session_ttl = "3s"\n')
        self.assertLess(self.opened(first, "first"), 2 * MOST)
        eventually(lambda: self.opens(first, "after a while"), "a session has run out", 120)

    def test_the_operator_s_are_not_counted_against_clients(self) -> None:
        client = self.start(EACH[0])
        operator = self.operator()
        self.assertEqual(self.opened(operator, "operator", 10), 10)
        self.assertEqual(self.opened(client, "client"), MOST - 10)

    def test_the_operator_may_have_all(self) -> None:
        self.start(EACH[0])
        self.assertEqual(self.opened(self.operator(), "operator"), MOST)

    def test_nobody_gets_more_by_asking_at_once(self) -> None:
        self.start()
        clients = [self.another() for _ in range(4)]

        def grab(at: int) -> int:
            return sum(self.opens(clients[at % 4], f"s-{at}-{number}") for number in range(4))

        self.assertEqual(sum(together(16, grab)), OF_ALL)
        self.assertTrue(self.opens(self.operator(), "operator"))

    def test_small_numbers_leave_everybody_something(self) -> None:
        for most in (1, 2, 3, 4):
            with self.subTest(most):
                self.server = self.start_server(config=f"[bridge]\nmax_sessions = {most}\n", bridge="127.0.0.1:0")
                self.token = None
                self.assertGreaterEqual(self.opened(self.another(), "first"), 1)


if __name__ == "__main__":
    unittest.main()
