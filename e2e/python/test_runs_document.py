"""The runs protocol by its document: every request, every answer, and what happens to requests that are none."""

from __future__ import annotations

import json
import re
import unittest
import uuid

from raw_client import UPGRADE
from runs_case import RunsTestCase
from runs_client import Runs, status_of
from stub_model import Call, Cut, Failure, Hold, Reply, StreamError, Text

REQUIRED = {
    "apply_patch": {"patchText"},
    "bash": {"command"},
    "batch": {"calls"},
    "create_dir": {"path"},
    "delete_file": {"path"},
    "edit": {"path", "oldString", "newString"},
    "get_recent_messages": set(),
    "glob": {"pattern"},
    "grep": {"pattern"},
    "list_memories": set(),
    "ls": set(),
    "move_file": {"source", "target"},
    "multiedit": {"path", "edits"},
    "read": {"path"},
    "recall": {"key"},
    "remember": {"key", "value"},
    "search_memories": set(),
    "skill": {"name"},
    "todo_read": set(),
    "todo_write": {"todos"},
    "web_fetcher": {"url"},
    "write_file": {"path", "content"},
}


class DocumentTestCase(RunsTestCase):
    def assert_error(self, answer: dict, identity: str | None, text: str = "") -> None:
        """Keys in order, no `id` where none is known, and the text."""
        self.assertEqual(list(answer), ["type", "error"] if identity is None else ["type", "id", "error"], answer)
        self.assertEqual((answer["type"], answer.get("id")), ("error", identity))
        self.assertIn(text, answer["error"])

    def assert_alive(self, runs: Runs) -> None:
        self.assertEqual(runs.ask("ping", id="alive"), {"type": "pong", "id": "alive"})


class RunTest(DocumentTestCase):
    def test_the_document_s_example(self) -> None:
        runs = self.connect(Reply(Text("It is "), Text("noon."), input_tokens=12, output_tokens=4))
        runs.send({"type": "run", "message": "What time is it?", "agent": "react"})
        run = runs.finish()
        self.assert_whole(run, "react")
        prefix, identity = run.id[:4], uuid.UUID(run.id[4:])
        self.assertEqual((prefix, str(identity)), ("run-", run.id[4:]))
        start = run.events[0]
        self.assertEqual(
            start,
            {
                "session_id": run.id,
                "node_id": "run-0",
                "event_id": 1,
                "type": "run_start",
                "run_id": run.id,
                "message": "What time is it?",
                "agent": "react",
            },
        )
        usage = {"prompt_tokens": 12, "completion_tokens": 4, "total_tokens": 16}
        self.assertEqual(
            run.ending,
            {
                "type": "run_end",
                "id": run.id,
                "reply": "It is noon.",
                "usage": usage,
                "total_usage": usage,
                "session_id": run.id,
                "node_id": "run-think-0",
                "event_id": len(run.events) + 1,
            },
        )
        self.assertEqual(run.text, "It is noon.")
        self.assert_alive(runs)

    def test_the_client_s_own_id_is_the_run_s(self) -> None:
        runs = self.connect()
        run = runs.run("hi", id="my own id")
        self.assertEqual((run.id, run.reply), ("my own id", "echo: hi"))
        self.assert_whole(run, "react")

    def test_an_id_is_free_again_after_its_run_and_taken_while_it_lives(self) -> None:
        release = self.held()
        runs = self.connect(Reply(Text("a"), Hold(release), Text("b")))
        runs.start("one", id="same")
        runs.until("message_chunk")
        with self.another() as other:
            refused = other.run("two", id="same")
            self.assertEqual(refused.frames, [])
            self.assert_error(refused.ending, "same")
            self.assert_alive(other)
            release.set()
            self.assertEqual(runs.finish().reply, "ab")
            self.assertEqual(other.run("three", id="same").reply, "echo: three")

    def test_ids_the_server_makes_are_different(self) -> None:
        runs = self.connect()
        self.assertEqual(len({runs.run("hi").id for _ in range(5)}), 5)

    def test_optional_fields_may_be_null(self) -> None:
        runs = self.connect()
        nothing = dict.fromkeys(["id", "thread_id", "working_folder", "got_adaptive", "verbose"])
        run = runs.run("hi", **nothing)
        self.assert_whole(run, "react")
        self.assertEqual(run.of("checkpoint"), [])

    def test_all_fields_and_unknown_ones_are_accepted(self) -> None:
        runs = self.connect()
        run = runs.run(
            "hi",
            id="r",
            thread_id="t",
            working_folder=str(self.work),
            got_adaptive=True,
            verbose=True,
            workspace_id="w",
            whatever={"a": [1]},
        )
        self.assertEqual(run.reply, "echo: hi")

    def test_an_empty_message_is_accepted(self) -> None:
        runs = self.connect(Reply(Text("You said nothing.")))
        self.assertEqual(runs.run("").reply, "You said nothing.")

    def test_any_text_comes_through_as_it_is(self) -> None:
        said = 'quotes " and \\ back, tab\t, line\n, é, 漢字, 🦀, \u2028, nul \u0001 and </script>'
        runs = self.connect(Reply(Text(said)))
        run = runs.run(said)
        self.assertEqual((run.reply, run.text), (said, said))
        self.assertEqual(run.events[0]["message"], said)
        self.assertEqual(self.model.requests[0].last_user_text, said)

    def test_runs_one_after_the_other_on_one_connection(self) -> None:
        runs = self.connect()
        for number in range(5):
            run = runs.run(f"number {number}")
            self.assert_whole(run, "react")
            self.assertEqual(run.reply, f"echo: number {number}")

    def test_the_other_dialect_too(self) -> None:
        runs = self.connect(Reply(Text("Bon"), Text("jour"), input_tokens=3, output_tokens=2), kind="anthropic")
        run = runs.run("hi")
        self.assert_whole(run, "react")
        self.assertEqual(run.reply, "Bonjour")
        self.assertEqual(run.ending["total_usage"], {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5})


class FailedRunTest(DocumentTestCase):
    # What the provider answered with; its own words may hold what is nobody's business.
    WHY = "400"

    def connect_to_failure(self, **options) -> Runs:
        return self.connect(fallback=lambda request: Failure(400), **options)

    def test_it_ends_in_one_error_with_the_cause_and_the_connection_stays(self) -> None:
        runs = self.connect_to_failure()
        run = runs.run("hi")
        self.assert_error(run.ending, run.id, self.WHY)
        self.assertEqual(run.event_ids, list(range(1, len(run.frames) + 1)))
        self.assertEqual(run.types, ["run_start", "node_enter", "node_exit"])
        self.assertEqual(list(run.events[-1]["result"]), ["Err"])
        self.assertIn(self.WHY, run.events[-1]["result"]["Err"])
        self.assert_alive(runs)
        self.assertEqual([frame for frame in runs.seen if frame["type"] in ("run_end", "error")], [run.ending])

    def test_the_error_carries_the_client_s_id(self) -> None:
        runs = self.connect_to_failure()
        self.assert_error(runs.run("hi", id="mine").ending, "mine", self.WHY)

    def test_every_strategy_says_so(self) -> None:
        runs = self.connect_to_failure()
        for agent in ("react", "dup", "tot", "got"):
            with self.subTest(agent):
                run = runs.run("hi", agent)
                self.assert_error(run.ending, run.id, self.WHY)
                self.assert_alive(runs)

    def test_a_failure_after_a_finished_node_is_an_error_too(self) -> None:
        runs = self.connect(Reply(Call("ls", {})), Failure(400))
        run = runs.run("hi", working_folder=str(self.work))
        self.assertEqual(run.nodes, ["think", "act", "observe", "compress", "think"])
        self.assert_error(run.ending, run.id, self.WHY)

    def test_a_model_that_breaks_off(self) -> None:
        for last in (StreamError("boom"), Cut()):
            with self.subTest(last):
                runs = self.connect(Reply(Text("half "), last))
                run = runs.run("hi")
                self.assert_error(run.ending, run.id, "provider error: ")
                self.assertEqual((run.text, run.types[-1]), ("half ", "node_exit"))
                self.assertEqual(list(run.events[-1]["result"]), ["Err"])
                again = runs.attached(run.id)
                self.assertEqual((again.frames, again.ending), (run.frames, run.ending))
                self.assertEqual(runs.run("again").reply, "echo: again")

    def test_with_close_on_error_the_connection_closes_after_the_error(self) -> None:
        runs = self.connect_to_failure(runs="close_on_error = true")
        # A parse error is no failed run.
        self.assert_error(self.sent(runs, "{"), None, "parse error: ")
        run = runs.run("hi")
        self.assert_error(run.ending, run.id, self.WHY)
        self.assertIsNotNone(runs.closed_with())
        self.assertEqual(runs.seen[-1], run.ending)

    def sent(self, runs: Runs, text: str) -> dict:
        runs.send_raw(text)
        return runs.next_frame()

    def test_an_agent_nobody_knows(self) -> None:
        runs = self.connect()
        for agent in ("nobody", "React", "", "REACT"):
            with self.subTest(agent):
                run = runs.run("hi", agent, id="r")
                self.assert_error(run.ending, "r")
                self.assertEqual(run.frames, [])
        self.assert_alive(runs)
        self.assertEqual(self.model.requests, [])


class ToolsTest(DocumentTestCase):
    def test_the_list_is_sorted_and_complete(self) -> None:
        runs = self.connect()
        answer = runs.ask("tools_list", id="t1")
        self.assertEqual(list(answer), ["type", "id", "tools"])
        self.assertEqual((answer["type"], answer["id"]), ("tools_list", "t1"))
        names = [tool["name"] for tool in answer["tools"]]
        self.assertEqual(names, sorted(names))
        self.assertEqual(set(REQUIRED) - set(names), set(), "missing")
        self.assertEqual({"lsp", "twitter_search"} & set(names), set())
        for tool in answer["tools"]:
            with self.subTest(tool["name"]):
                self.assertEqual(list(tool), ["name", "description", "input_schema"])
                self.assertEqual(tool["input_schema"]["type"], "object")
                required = set(tool["input_schema"].get("required", []))
                self.assertEqual(required, REQUIRED.get(tool["name"], required))
                self.assertLessEqual(required, set(tool["input_schema"].get("properties", {})))

    def test_the_list_is_always_the_same(self) -> None:
        runs = self.connect()
        first = runs.ask("tools_list", id="t")
        folder = str(self.work)
        for fields in ({}, {"working_folder": None, "thread_id": None}, {"working_folder": folder, "thread_id": "x"}):
            self.assertEqual(runs.ask("tools_list", id="t", **fields), first)

    def test_one_tool_as_json(self) -> None:
        runs = self.connect()
        for tool in runs.ask("tools_list")["tools"]:
            answer = runs.ask("tool_show", id="s", name=tool["name"], output="json")
            self.assertEqual(list(answer), ["type", "id", "tool"])
            self.assertEqual(answer, {"type": "tool_show", "id": "s", "tool": tool})
            self.assertEqual(list(answer["tool"]), ["name", "description", "input_schema"])

    def test_one_tool_as_yaml_which_is_the_default(self) -> None:
        runs = self.connect()
        for name in REQUIRED:
            asked = runs.ask("tool_show", id="s", name=name, output="yaml")
            self.assertEqual(list(asked), ["type", "id", "tool_yaml"])
            self.assertEqual((asked["type"], asked["id"]), ("tool_show", "s"))
            keys = re.findall(r"^(\w+):", asked["tool_yaml"], re.MULTILINE)
            self.assertEqual(keys, ["name", "description", "input_schema"], asked["tool_yaml"])
            self.assertTrue(asked["tool_yaml"].startswith(f"name: {name}\n"), asked["tool_yaml"])
            self.assertEqual(runs.ask("tool_show", id="s", name=name), asked)
            self.assertEqual(runs.ask("tool_show", id="s", name=name, output=None, working_folder=None), asked)

    def test_a_tool_nobody_knows(self) -> None:
        runs = self.connect()
        for output in ("yaml", "json", None):
            answer = runs.ask("tool_show", id="s", name="hammer", output=output)
            self.assert_error(answer, "s", "tool not found: hammer")
        self.assert_alive(runs)

    def test_a_working_folder_that_is_none(self) -> None:
        runs = self.connect()
        (self.work / "file").write_text("x")
        for folder in (str(self.work / "absent"), str(self.work / "file"), "/", "/etc"):
            with self.subTest(folder):
                self.assert_error(runs.ask("tools_list", id="t", working_folder=folder), "t")
                self.assert_error(runs.ask("tool_show", id="s", name="read", working_folder=folder), "s")
                run = runs.run("hi", id="r", working_folder=folder)
                self.assert_error(run.ending, "r")
        self.assert_alive(runs)
        self.assertEqual(self.model.requests, [])

    def test_an_empty_working_folder_means_the_same_everywhere(self) -> None:
        runs = self.connect()
        kinds = {
            "tools_list": runs.ask("tools_list", id="t", working_folder="")["type"] == "error",
            "tool_show": runs.ask("tool_show", id="s", name="read", working_folder="")["type"] == "error",
            "run": runs.run("hi", id="r", working_folder="").ending["type"] == "error",
        }
        self.assertEqual(len(set(kinds.values())), 1, f"refused: {kinds}")

    def test_the_agents(self) -> None:
        runs = self.connect(more='\n[agents.poet]\nprovider = "main"\nmodel = "stub-model"\nsystem_prompt = "Rhyme."\n')
        answer = runs.ask("agent_list", id="a")
        self.assertEqual(list(answer), ["type", "id", "agents"])
        self.assertEqual((answer["type"], answer["id"]), ("agent_list", "a"))
        for agent in answer["agents"]:
            self.assertTrue({"name", "source"} <= set(agent) <= {"name", "description", "source"}, agent)
        names = [agent["name"] for agent in answer["agents"]]
        self.assertLessEqual({"default", "poet"}, set(names))
        # A configured agent's name is as good as a strategy's.
        self.assertEqual(runs.run("hi", "poet").reply, "echo: hi")
        self.assertIn("Rhyme.", self.model.requests[0].system_text)


class UserMessagesTest(DocumentTestCase):
    def fill(self, runs: Runs, turns: int, thread: str = "t") -> None:
        for number in range(turns):
            runs.run(f"number {number}", thread_id=thread)

    def test_each_message_once_and_in_order(self) -> None:
        runs = self.connect()
        self.fill(runs, 3)
        answer = runs.ask("user_messages", id="u", thread_id="t")
        self.assertEqual(list(answer), ["type", "id", "thread_id", "messages", "has_more"])
        self.assertEqual(
            (answer["type"], answer["id"], answer["thread_id"], answer["has_more"]),
            ("user_messages", "u", "t", False),
        )
        expected = []
        for number in range(3):
            expected += [("user", f"number {number}"), ("assistant", f"echo: number {number}")]
        self.assertEqual([(one["role"], one["content"]) for one in answer["messages"]], expected)
        for one in answer["messages"]:
            self.assertEqual(set(one), {"role", "content", "seq"})
            self.assertIs(type(one["seq"]), int)
        numbers = [one["seq"] for one in answer["messages"]]
        self.assertEqual(numbers, sorted(set(numbers)))

    def test_an_unknown_thread_has_none(self) -> None:
        runs = self.connect()
        self.assertEqual(
            runs.ask("user_messages", id="u", thread_id="nobody"),
            {"type": "user_messages", "id": "u", "thread_id": "nobody", "messages": [], "has_more": False},
        )

    def test_paging_from_the_newest_to_the_oldest(self) -> None:
        runs = self.connect()
        self.fill(runs, 5)
        whole = runs.ask("user_messages", thread_id="t")["messages"]
        self.assertEqual(len(whole), 10)
        for limit in (1, 3, 4, 10, 11):
            with self.subTest(limit=limit):
                pages: list[list[dict]] = []
                before, more = None, True
                while more:
                    fields = {} if before is None else {"before": before}
                    answer = runs.ask("user_messages", thread_id="t", limit=limit, **fields)
                    pages.insert(0, answer["messages"])
                    more, before = answer["has_more"], answer["messages"][0]["seq"]
                    self.assertEqual(more, sum(map(len, pages)) < 10)
                self.assertEqual([one for page in pages for one in page], whole)
                self.assertEqual({len(page) for page in pages[1:]} - {limit}, set())

    def test_edges_of_paging(self) -> None:
        runs = self.connect()
        self.fill(runs, 2)
        whole = runs.ask("user_messages", thread_id="t")["messages"]

        def page(**fields: object) -> tuple[list[dict], bool]:
            answer = runs.ask("user_messages", thread_id="t", **fields)
            return answer["messages"], answer["has_more"]

        self.assertEqual(page(limit=None, before=None), (whole, False))
        self.assertEqual(page(limit=1_000_000), (whole, False))
        self.assertEqual(page(limit=0)[0], [])
        self.assertEqual(page(before=0), ([], False))
        self.assertEqual(page(before=whole[0]["seq"]), ([], False))
        self.assertEqual(page(before=whole[2]["seq"]), (whole[:2], False))
        self.assertEqual(page(before=2**53), (whole, False))

    def test_100_by_default(self) -> None:
        runs = self.connect()
        self.fill(runs, 51)
        answer = runs.ask("user_messages", thread_id="t")
        self.assertEqual((len(answer["messages"]), answer["has_more"]), (100, True))
        self.assertEqual(answer["messages"][-1]["content"], "echo: number 50")
        self.assertEqual(answer["messages"][0]["content"], "number 1")

    def test_1000_at_most(self) -> None:
        runs = self.connect()
        self.fill(runs, 501)
        answer = runs.ask("user_messages", thread_id="t", limit=5_000)
        self.assertEqual((len(answer["messages"]), answer["has_more"]), (1000, True))
        self.assertEqual(answer["messages"][-1]["content"], "echo: number 500")

    def test_threads_are_apart(self) -> None:
        runs = self.connect()
        self.fill(runs, 1, "a")
        self.fill(runs, 2, "b")
        runs.run("without a thread")
        self.assertEqual(len(runs.ask("user_messages", thread_id="a")["messages"]), 2)
        self.assertEqual(len(runs.ask("user_messages", thread_id="b")["messages"]), 4)

    def test_an_empty_thread_id(self) -> None:
        runs = self.connect()
        answer = runs.ask("user_messages", id="u", thread_id="")
        self.assertEqual(answer, {"type": "error", "id": "u", "error": "thread_id is required"})
        self.assert_alive(runs)


class PingTest(DocumentTestCase):
    def test_the_id_comes_back_as_it_is(self) -> None:
        runs = self.connect()
        for identity in ("1", "", " ", "é漢🦀", 'quote " back \\', "x" * 1_000_000):
            runs.send({"type": "ping", "id": identity})
            answer = runs.next_frame()
            self.assertEqual(list(answer), ["type", "id"])
            self.assertEqual(answer, {"type": "pong", "id": identity})

    def test_binary_messages_are_requests_too_and_answers_are_text(self) -> None:
        runs = self.connect()
        runs.send_raw(json.dumps({"type": "ping", "id": "é"}, ensure_ascii=False).encode())
        self.assertEqual(runs.next_frame(), {"type": "pong", "id": "é"})
        runs.send_raw(json.dumps({"type": "run", "message": "hi", "agent": "react"}).encode())
        self.assertEqual(runs.finish().reply, "echo: hi")

    def test_many_at_once_are_answered_in_order(self) -> None:
        runs = self.connect()
        for number in range(200):
            runs.send({"type": "ping", "id": str(number)})
        self.assertEqual([runs.next_frame()["id"] for _ in range(200)], [str(number) for number in range(200)])

    def test_a_websocket_ping_is_answered(self) -> None:
        runs = self.connect()
        self.assertTrue(runs.socket.ping().wait(10))


class ParseErrorTest(DocumentTestCase):
    def check(self, message: str | bytes, identity: str | None, text: str = "") -> None:
        with self.subTest(message[:80]):
            self.runs.send_raw(message)
            answer = self.runs.next_frame()
            self.assert_error(answer, identity, text)
            self.assertTrue(answer["error"].startswith("parse error: "), answer)
            self.assert_alive(self.runs)

    def test_what_is_no_json_object(self) -> None:
        self.runs = self.connect()
        for text in ("", " ", "hello", "{", "[", "[]", "5", "null", '"ping"', "true", "{}{}", "\0", "{'type':'ping'}"):
            self.check(text, None)
        self.check(b"", None)
        self.check(b"\xff\xfe\x00", None)
        self.check(b'{"type":"ping","id":"\xff\xff', None)

    def test_what_is_no_request(self) -> None:
        self.runs = self.connect()
        self.check("{}", None, "type")
        self.check('{"type":null}', None)
        self.check('{"type":5}', None)
        self.check('{"type":"nope"}', None, "nope")
        self.check('{"type":"PING"}', None, "PING")

    def test_the_id_is_given_back_whenever_it_can_be_read(self) -> None:
        self.runs = self.connect()
        self.check('{"id":"salvaged"}', "salvaged", "type")
        self.check('{"type":"nope","id":"salvaged"}', "salvaged", "nope")
        self.check('{"id":"salvaged","type":["ping"]}', "salvaged")
        self.check('{"type":"run","id":"salvaged","agent":"react"}', "salvaged", "message")
        self.check('{"type":"run","id":"salvaged","message":"hi"}', "salvaged", "agent")
        self.check('{"type":"run","id":"salvaged","message":5,"agent":"react"}', "salvaged")
        self.check('{"type":"run","id":"salvaged","message":"hi","agent":"react","thread_id":7}', "salvaged")
        self.check('{"type":"run","id":"salvaged","message":"hi","agent":"react","got_adaptive":"yes"}', "salvaged")
        self.check('{"type":"run","id":"salvaged","message":"hi","agent":"react","verbose":1}', "salvaged")
        self.check('{"type":"tool_show","id":"salvaged"}', "salvaged", "name")
        self.check('{"type":"tool_show","id":"salvaged","name":"read","output":"YAML"}', "salvaged", "YAML")
        self.check('{"type":"tool_show","id":"salvaged","name":"read","output":"xml"}', "salvaged", "xml")
        self.check('{"type":"user_messages","id":"salvaged"}', "salvaged", "thread_id")
        self.check('{"type":"user_messages","id":"salvaged","thread_id":"t","limit":-1}', "salvaged")
        self.check('{"type":"user_messages","id":"salvaged","thread_id":"t","limit":1.5}', "salvaged")
        self.check('{"type":"user_messages","id":"salvaged","thread_id":"t","before":"x"}', "salvaged")
        self.check('{"type":"user_messages","id":"salvaged","thread_id":"t","before":-3}', "salvaged")
        self.check('{"type":"ping","id":"salvaged","type":"ping"}', "salvaged", "type")
        self.check('{"type":"ping","id":"salvaged"} and more', "salvaged")
        self.check('{"type":"attach","id":"salvaged","after":-1}', "salvaged")
        self.check('{"type":"tool_approve","id":"salvaged","call_id":"c","approve":"yes"}', "salvaged")

    def test_a_required_id_that_is_missing_or_no_text(self) -> None:
        self.runs = self.connect()
        for kind in ("ping", "tools_list", "tool_show", "user_messages", "cancel", "attach"):
            self.check(json.dumps({"type": kind, "name": "read", "thread_id": "t", "after": 0}), None, "id")
        for identity in ("5", "null", "{}", "[]", "true"):
            self.check('{"type":"ping","id":%s}' % identity, None)
        self.check('{"type":"run","id":5,"message":"hi","agent":"react"}', None)

    def test_deep_nesting_is_an_error_like_any_other(self) -> None:
        self.runs = self.connect()
        self.runs.send_raw('{"type":"ping","id":"deep","x":' + "[" * 100_000 + "]" * 100_000 + "}")
        answer = self.runs.next_frame()
        self.assertIn(answer["type"], ("pong", "error"))
        self.assert_alive(self.runs)

    def test_nothing_of_it_reaches_the_model(self) -> None:
        self.runs = self.connect()
        self.check('{"type":"run","message":"hi","agent":5}', None)
        self.assertEqual(self.model.requests, [])


class HttpTest(DocumentTestCase):
    def test_what_is_no_upgrade(self) -> None:
        self.connect()
        host = {"Host": self.server.address("runs")}
        self.assertIn(status_of(self.server, host), (400, 426))
        self.assertEqual(status_of(self.server, {**host, **UPGRADE}, "/nowhere"), 404)
        self.assertEqual(status_of(self.server, {**host, "Content-Length": "0"}, "/", "POST"), 405)
        self.assertEqual(status_of(self.server, {**host, **UPGRADE}), 101)

    def test_a_message_beyond_the_limit_closes_with_1009(self) -> None:
        runs = self.connect(more='\n[limits]\nmessage = "64KiB"\n')
        self.assertEqual(runs.ask("ping", id="x" * 60_000)["type"], "pong")
        runs.send({"type": "ping", "id": "x" * 70_000})
        self.assertEqual(runs.closed_with(), 1009)
        self.assert_alive(self.another())


if __name__ == "__main__":
    unittest.main()
