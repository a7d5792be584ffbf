"""The document's "future methods" and the lists beside them: history, sessions, budgets, facts, tools, usage."""

from __future__ import annotations

import threading
import unittest
from datetime import datetime, timedelta, timezone

from gateway_client import Gateway, in_pages
from patchboard_server import ServerTestCase
from stub_model import Call, Hold, Reply, StubModel, Text

ALICE = "default:websocket:alice:main"
PLACE = {"channel": "websocket", "account": "alice"}
LISTS = {
    "session.list": {},
    "chat.history": PLACE,
    "memory.search": {"query": "color fruit city", **PLACE},
    "tool.list": {},
    "approval.list": {},
    "usage.report": {"group_by": "session"},
}


class MethodsTestCase(ServerTestCase):
    def connect(self, *behaviours, more: str = "", **options) -> Gateway:
        self.model = StubModel(*behaviours)
        self.addCleanup(self.model.close)
        self.server = self.start_server(config=self.model.provider_config("openai") + more, **options)
        gateway = Gateway(self.server)
        self.addCleanup(gateway.close)
        return gateway


class HistoryTest(MethodsTestCase):
    def test_it_has_what_was_said_in_order_by_session_or_by_its_parts(self) -> None:
        gateway = self.connect(Reply(Text("Hi "), Text("Ada")), Reply(Text("Bye")))
        gateway.chat("hello")
        gateway.chat("good night")
        said = [("user", "hello"), ("assistant", "Hi Ada"), ("user", "good night"), ("assistant", "Bye")]
        for how in ({"session": ALICE}, PLACE, {**PLACE, "peer": "main"}, {**PLACE, "peer": None}):
            with self.subTest(how):
                items = gateway.result("chat.history", how)["items"]
                self.assertEqual([(one["role"], one["content"]) for one in items], said)
        for at in (one["at"] for one in items):
            datetime.fromisoformat(at.replace("Z", "+00:00"))

    def test_tool_calls_and_their_results_are_remembered(self) -> None:
        gateway = self.connect(
            Reply(Text("looking"), Call("ls", {"path": "."})), Reply(Text("found it")), Reply(Text("yes"))
        )
        (self.server.folder / "treasure.txt").touch()
        gateway.chat("look around")
        items = gateway.result("chat.history", session=ALICE)["items"]
        self.assertEqual([one["role"] for one in items], ["user", "assistant", "tool", "assistant"])
        self.assertIn("treasure.txt", items[2]["content"])
        gateway.chat("was there treasure?")
        self.assertIn("treasure.txt", str(self.model.requests[-1].messages), "the next prompt has the tool's result")

    def test_other_sessions_stay_out_of_it_and_an_unknown_one_is_empty(self) -> None:
        gateway = self.connect()
        gateway.chat("alice's own")
        gateway.chat("to a friend", peer="friend")
        gateway.chat("bob's own", account="bob")
        texts = [one["content"] for one in gateway.result("chat.history", PLACE)["items"]]
        self.assertEqual(texts, ["alice's own", "echo: alice's own"])
        empty = {"items": [], "next_cursor": None}
        self.assertEqual(gateway.result("chat.history", channel="websocket", account="nobody"), empty)

    def test_it_needs_to_be_told_which_session(self) -> None:
        gateway = self.connect()
        for params in (
            None,
            {},
            {"channel": "websocket"},
            {"account": "alice"},
            {"session": 5},
            {"session": "not a key"},
        ):
            with self.subTest(params):
                self.assertTrue(gateway.error("chat.history", params).startswith("invalid chat.history params: "))


class SessionTest(MethodsTestCase):
    def test_the_list_can_be_narrowed_to_a_channel_and_an_account(self) -> None:
        gateway = self.connect()
        for channel, account in [("websocket", "alice"), ("websocket", "bob"), ("telegram", "alice")]:
            gateway.chat("hi", channel=channel, account=account)

        def keys(**params: str) -> set[str]:
            return {one["session"] for one in gateway.result("session.list", params)["items"]}

        everything = {"default:websocket:alice:main", "default:websocket:bob:main", "default:telegram:alice:main"}
        self.assertEqual(keys(), everything)
        self.assertEqual(keys(channel="websocket"), {"default:websocket:alice:main", "default:websocket:bob:main"})
        self.assertEqual(keys(account="alice"), {"default:websocket:alice:main", "default:telegram:alice:main"})
        self.assertEqual(keys(channel="telegram", account="alice"), {"default:telegram:alice:main"})
        self.assertEqual(keys(channel="telegram", account="bob"), set())

    def test_clearing_forgets_the_turns_and_only_of_that_session(self) -> None:
        for more in ({}, {"purge": False}, {"purge": True}):
            with self.subTest(more):
                gateway = self.connect()
                gateway.chat("the password is swordfish")
                gateway.chat("other words", account="bob")
                gateway.result("session.clear", {**PLACE, **more})
                self.assertEqual(gateway.result("chat.history", PLACE)["items"], [])
                left = [one["account"] for one in gateway.result("session.list")["items"]]
                self.assertEqual(left, ["bob"])
                gateway.chat("what did I say?")
                spoken = [one["content"] for one in self.model.requests[-1].messages if one["role"] != "system"]
                self.assertEqual(spoken, ["what did I say?"])
                self.assertEqual(len(gateway.result("chat.history", PLACE)["items"]), 2)

    def test_a_running_turn_is_no_history_yet(self) -> None:
        release = threading.Event()
        self.addCleanup(release.set)
        gateway = self.connect(Reply(Text("half "), Hold(release), Text("whole")))
        request = gateway.start("hi")
        gateway.until(request, "text")
        self.assertEqual(gateway.result("chat.history", PLACE)["items"], [])
        release.set()
        gateway.turn(request)
        self.assertEqual(
            [one["content"] for one in gateway.result("chat.history", PLACE)["items"]], ["hi", "half whole"]
        )

    def test_clearing_in_the_middle_of_a_turn_leaves_no_history_that_is_not_listed(self) -> None:
        for purge in (False, True):
            with self.subTest(purge=purge):
                release = threading.Event()
                self.addCleanup(release.set)
                gateway = self.connect(Reply(Text("old")), Reply(Text("half "), Hold(release), Text("whole")))
                gateway.chat("before")
                request = gateway.start("hi")
                gateway.until(request, "text")
                cleared = gateway.ask("session.clear", {**PLACE, "purge": purge})
                release.set()
                gateway.turn(request)
                self.assertIn("result", gateway.next_of(cleared))
                history = [one["content"] for one in gateway.result("chat.history", PLACE)["items"]]
                self.assertNotIn("before", history)
                listed = [one["session"] for one in gateway.result("session.list")["items"]]
                self.assertEqual(listed, [ALICE] if history else [], f"history: {history}")
                self.assertEqual(gateway.result("status")["sessions"], len(listed))

    def test_clearing_by_session_key_survives_a_restart(self) -> None:
        gateway = self.connect()
        gateway.chat("before")
        gateway.result("session.clear", session=ALICE)
        gateway.chat("after")
        self.server.kill()
        with Gateway(self.server.restart()) as again:
            texts = [one["content"] for one in again.result("chat.history", session=ALICE)["items"]]
            self.assertEqual(texts, ["after", "echo: after"])

    def test_purged_words_cannot_be_attached_to_and_leave_the_disk(self) -> None:
        gateway = self.connect(Reply(Text("purge-me-answer")))
        gateway.chat("purge-me-question")
        gateway.result("session.clear", session=ALICE, purge=True)
        self.assertTrue(gateway.error("chat.attach", session=ALICE, after=0))
        self.assertEqual(self.server.terminate(), 0)
        for file in self.server.data_dir.rglob("*"):
            if file.is_file():
                self.assertNotIn(b"purge-me", file.read_bytes(), file)

    def test_facts_outlive_a_cleared_session(self) -> None:
        gateway = self.connect()
        gateway.chat("My name is Ada.")
        gateway.result("session.clear", session=ALICE)
        found = gateway.result("memory.search", query="name", **PLACE)["items"]
        self.assertEqual([one["object"] for one in found], ["Ada"])


class PluginTest(MethodsTestCase):
    def test_loading_and_unloading_are_the_operator_s_and_name_what_is_not_there(self) -> None:
        gateway = self.connect()
        operator = (self.server.data_dir / "operator.token").read_text().strip()
        requests = {"plugin.load": {"name": "echo"}, "plugin.unload": {"name": "echo"}, "plugin.approve": {"name": "echo"}}
        with Gateway(self.server, additional_headers={"Authorization": f"Bearer {operator}"}) as signed_in:
            for method, params in requests.items():
                with self.subTest(method):
                    self.assertIn("echo", signed_in.error(method, params))
                    self.assertIn("not allowed", gateway.error(method, params))


class BudgetStatusTest(MethodsTestCase):
    def test_it_shows_used_reserved_and_limit_of_each_scope(self) -> None:
        answer = Reply(Text("hi"), input_tokens=30, output_tokens=12)
        gateway = self.connect(answer, answer, more="[budgets]\nsession = 100000\ndaily = 200000\n")
        gateway.chat("one")
        gateway.chat("two", account="bob")
        expected = {
            "session": {"used": 42, "reserved": 0, "limit": 100000},
            "daily": {"used": 84, "reserved": 0, "limit": 200000},
            "monthly": {"used": 84, "reserved": 0, "limit": None},
        }
        status = gateway.result("budget.status", session=ALICE)
        self.assertEqual({scope: status[scope] for scope in expected}, expected)
        (spender,) = status["spenders"]
        self.assertEqual((spender["kind"], spender["name"], spender["daily"]["used"]), ("agent", "default", 84))
        whole = gateway.result("budget.status")
        self.assertEqual((whole["daily"], whole["monthly"]), (expected["daily"], expected["monthly"]))


class MemorySearchTest(MethodsTestCase):
    def test_it_finds_the_account_s_facts_and_only_those_that_still_hold(self) -> None:
        gateway = self.connect()
        gateway.chat("My name is Ada. I live in Paris.")
        gateway.chat("I work at Acme, by the way")
        gateway.chat("I moved to Berlin.")

        def search(query: str, account: str = "alice") -> list[tuple[str, str]]:
            found = gateway.result("memory.search", query=query, channel="websocket", account=account)["items"]
            return sorted((one["predicate"], one["object"]) for one in found)

        self.assertIn(("name", "Ada"), search("what is my name"))
        self.assertIn(("employer", "Acme"), search("Acme"))
        self.assertIn(("location", "Berlin"), search("location"))
        self.assertNotIn(("location", "Paris"), search("location Paris"))
        self.assertEqual(search("name location employer Ada Berlin", account="bob"), [])

    def test_odd_queries_are_harmless(self) -> None:
        gateway = self.connect()
        gateway.chat("My name is Ada.")
        odd = [
            '"',
            "name OR",
            "NEAR(",
            "*",
            "a AND NOT",
            "name:x",
            "'; DROP TABLE facts; --",
            "\u0000",
            "😀",
            "x" * 10_000,
        ]
        for query in odd:
            with self.subTest(query[:20]):
                self.assertIsInstance(gateway.result("memory.search", query=query, **PLACE)["items"], list)
        self.assertEqual(gateway.result("memory.search", query="name", **PLACE)["items"][0]["object"], "Ada")


class ToolListTest(MethodsTestCase):
    def test_each_tool_has_a_name_a_description_and_a_schema(self) -> None:
        gateway = self.connect()
        tools = {tool["name"]: tool for tool in gateway.result("tool.list")["items"]}
        self.assertLessEqual({"read", "ls"}, set(tools))
        for tool in tools.values():
            self.assertTrue(tool["description"])
            self.assertEqual(tool["input_schema"]["type"], "object")
        gateway.chat("hi")
        # Made for programs, or a wait for a person: an agent gets these only if it lists them.
        for_agents = [name for name in tools if not name.startswith("variable_") and name != "ask_user"]
        self.assertLess(len(for_agents), len(tools))
        self.assertEqual(sorted(self.model.requests[0].tool_names), sorted(for_agents))


class UsageReportTest(MethodsTestCase):
    def test_it_adds_up_what_the_provider_reported_by_any_group(self) -> None:
        prices = '[prices."stub-*"]\ninput = 2.0\noutput = 10.0\n'
        figures = [(1000, 100), (2000, 200), (3000, 300)]
        replies = [Reply(Text("x"), input_tokens=into, output_tokens=out) for into, out in figures]
        gateway = self.connect(*replies, more=prices)
        for account in ("alice", "alice", "bob"):
            gateway.chat("hi", account=account)
        today = datetime.now(timezone.utc).strftime("%Y-%m-%d")
        for by, key in [("day", today), ("model", "stub-model"), ("provider", "main"), ("agent", "default")]:
            with self.subTest(by):
                (row,) = gateway.result("usage.report", group_by=by)["items"]
                self.assertEqual((row["key"], row["calls"]), (key, 3))
                self.assertEqual((row["input_tokens"], row["output_tokens"]), (6000, 600))
                self.assertAlmostEqual(row["cost_usd"], 0.018)
        rows = gateway.result("usage.report", group_by="session")["items"]
        by_session = {row["key"]: (row["input_tokens"], row["output_tokens"]) for row in rows}
        self.assertEqual(by_session, {ALICE: (3000, 300), "default:websocket:bob:main": (3000, 300)})

    def test_since_leaves_out_what_was_before(self) -> None:
        gateway = self.connect()
        gateway.chat("hi")
        now = datetime.now(timezone.utc)
        for hours, rows in [(-1, 1), (1, 0)]:
            since = (now + timedelta(hours=hours)).isoformat()
            self.assertEqual(len(gateway.result("usage.report", since=since)["items"]), rows)
        for wrong in ({"since": "yesterday"}, {"since": 5}, {"group_by": "mood"}, {"group_by": 5}):
            with self.subTest(wrong):
                self.assertTrue(gateway.error("usage.report", wrong).startswith("invalid usage.report params: "))


class CursorTest(MethodsTestCase):
    def test_pages_of_any_size_give_everything_once(self) -> None:
        gateway = self.connect()
        for said in ("My color is red.", "My fruit is fig.", "My city is Rome."):
            gateway.chat(said)
        for account in ("bob", "carol", "dave"):
            gateway.chat("hi", account=account)
        for method, params in LISTS.items():
            whole = gateway.result(method, params)
            self.assertEqual(whole["next_cursor"], None)
            for limit in (1, 2, 4, 1000):
                with self.subTest(method=method, limit=limit):
                    pages = in_pages(gateway, method, limit=limit, **params)
                    if method == "chat.history":
                        # A page of history is so many whole turns, the latest page first.
                        for page in pages:
                            self.assertLessEqual(len({one["turn"] for one in page}), limit)
                        pages.reverse()
                    else:
                        self.assertTrue(all(len(page) <= limit for page in pages))
                    self.assertEqual([one for page in pages for one in page], whole["items"])

    def test_a_session_that_is_added_between_pages_neither_repeats_nor_hides_others(self) -> None:
        gateway = self.connect()
        accounts = ["a", "b", "c", "d"]
        for account in accounts:
            gateway.chat("hi", account=account)
        first = gateway.result("session.list", limit=2)
        gateway.chat("hi", account="late")
        second = gateway.result("session.list", limit=10, cursor=first["next_cursor"])
        seen = [one["account"] for one in first["items"] + second["items"]]
        self.assertEqual(sorted(name for name in seen if name != "late"), accounts)

    def test_wrong_limits_and_cursors_are_errors_of_the_request(self) -> None:
        gateway = self.connect()
        gateway.chat("hi")
        wrong = [{"limit": -1}, {"limit": "5"}, {"limit": 1.5}, {"cursor": 5}, {"cursor": "no such cursor"}]
        for method, params in LISTS.items():
            for more in wrong:
                with self.subTest(method=method, more=more):
                    error = gateway.error(method, {**params, **more})
                    self.assertTrue(error.startswith(f"invalid {method} params: "), error)

    def test_an_enormous_limit_is_harmless(self) -> None:
        gateway = self.connect()
        for number in range(3):
            gateway.chat("hi", account=f"a{number}")
        self.assertEqual(len(gateway.result("session.list", limit=2**53)["items"]), 3)


if __name__ == "__main__":
    unittest.main()
