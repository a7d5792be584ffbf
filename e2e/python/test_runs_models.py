"""What the newest clients of runs ask for: models, cancelling by request, workspaces, profiles, messages in parts; and
that clients with closed types can read everything."""

from __future__ import annotations

import threading
import unittest

import runs_strict
from patchboard_server import Server
from runs_case import RunsTestCase, tool_results_in
from runs_client import Runs
from runs_model import Thinker, said
from stub_model import Call, Hold, Reply, StubModel, Text

PROFILES = ("dev", "ask", "explore", "orchestrator", "agent-builder", "assistant")


def provider(model: StubModel, name: str, kind: str = "openai") -> str:
    address = f'kind = "{kind}"\nbase_url = "{model.base_url}"\napi_key = "env:STUB_MODEL_KEY"\n'
    return f"[providers.{name}]\n{address}\n"


class StrictRuns(Runs):
    """Reads every frame with closed types."""

    def next_frame(self, *arguments, **options) -> dict:
        return runs_strict.read(super().next_frame(*arguments, **options))


class ReaderTest(unittest.TestCase):
    """The closed types are closed."""

    def test_what_they_refuse(self) -> None:
        good = {"type": "tool_start", "call_id": "c", "name": "n", "session_id": "s", "node_id": "n", "event_id": 1}
        runs_strict.read({"type": "run_stream_event", "id": "r", "event": good})
        for change in (
            {"type": "thought_chunk", "content": "x", "id": "think"},
            {"call_id": None},
            {"more": 1},
            {"event_id": -1},
            {"event_id": True},
        ):
            with self.assertRaises(AssertionError, msg=str(change)):
                runs_strict.read({"type": "run_stream_event", "id": "r", "event": {**good, **change}})
        for frame in ({"type": "models_list", "id": "1", "models": []}, {"type": "pong"}, {"type": "error", "error": None}):
            with self.assertRaises(AssertionError, msg=str(frame)):
                runs_strict.read(frame)


class StrictTest(RunsTestCase):
    def strict(self, **options) -> StrictRuns:
        self.connect(runs="strict_clients = true", **options).close()
        runs = StrictRuns(self.server)
        self.addCleanup(runs.close)
        return runs

    def test_every_frame_of_every_strategy(self) -> None:
        def other(request):
            return said("the answer") if tool_results_in(request) else Reply(Text("first"), Call("ls", {}))

        runs = self.strict(fallback=Thinker(other=other))
        for agent in ("react", "dup", "tot", "got", "dev"):
            with self.subTest(agent):
                run = runs.run("go", agent, working_folder=str(self.work), thread_id="t", got_adaptive=True)
                self.assertEqual(run.text, run.reply)
                self.assertTrue(run.reply.endswith("the answer") or agent in ("tot", "got"), run.reply)
        self.assertEqual(runs.ask("run", message="x", agent="nobody", id="no")["type"], "error")

    def test_every_answer(self) -> None:
        runs = self.strict()
        runs.run("hi", thread_id="t")
        self.assertEqual(runs.ask("ping")["type"], "pong")
        self.assertEqual(runs.ask("tools_list")["type"], "tools_list")
        self.assertEqual(runs.ask("tool_show", name="ls")["type"], "tool_show")
        self.assertEqual(runs.ask("tool_show", name="ls", output="json")["type"], "tool_show")
        self.assertEqual(len(runs.ask("user_messages", thread_id="t")["messages"]), 2)
        self.assertEqual(runs.ask("agent_list")["type"], "agent_list")
        self.assertEqual(runs.ask("list_models")["type"], "list_models")
        self.assertEqual(runs.ask("set_model", id="5", model_id="main/stub-model"), {"type": "set_model", "id": "5", "success": True})
        self.assertIs(runs.ask("set_model", model_id="nobody/x")["success"], False)
        made = runs.ask("workspace_create")
        self.assertEqual(made["type"], "workspace_create")
        workspace = made["workspace_id"]
        for kind in ("workspace_thread_add", "workspace_thread_remove"):
            self.assertEqual(runs.ask(kind, workspace_id=workspace, thread_id="t")["type"], kind)
        for kind in ("workspace_list", "workspace_thread_list"):
            self.assertEqual(runs.ask(kind, workspace_id=workspace)["type"], kind)
        self.assertEqual(runs.ask("nonsense")["type"], "error")

    def test_a_cancelled_run(self) -> None:
        runs = self.strict(fallback=lambda request: Reply(Text("half"), Hold(self.held())))
        runs.start("go", id="r")
        run = runs.until("message_chunk")
        self.assertEqual(runs.ask("cancel_run", id="c", run_id="r"), {"type": "cancel_run", "id": "c", "run_id": "r"})
        self.assertEqual(runs.finish(run).error, "run cancelled")


class AgentsTest(RunsTestCase):
    def test_names_of_profiles_are_the_default_agent(self) -> None:
        runs = self.connect(more='\n[agents.ask]\nstrategy = "dup"\n', fallback=Thinker())
        agents = {agent["name"]: agent["source"] for agent in runs.ask("agent_list")["agents"]}
        # The server of a test has its configuration in its working folder.
        expected = {name: "builtin" for name in ("react", "dup", "tot", "got", *PROFILES)}
        self.assertEqual(agents, {**expected, "ask": "project", "default": "project"})
        for source in ("builtin", "project", "user"):
            names = {agent["name"] for agent in runs.ask("agent_list", source_filter=source)["agents"]}
            self.assertEqual(names, {name for name, of in agents.items() if of == source})
        for name in PROFILES:
            run = runs.run("hi", name)
            self.assertEqual((run.reply, run.of("run_start")[0]["agent"]), ("the answer", name))
            self.assertEqual(run.nodes, ["understand", "plan"] if name == "ask" else ["think"])
        self.assertIn("no agent named `Dev`", runs.run("hi", "Dev").error)

    def test_agents_of_the_users_file_are_the_users(self) -> None:
        self.model = StubModel()
        self.addCleanup(self.model.close)
        server = Server(runs="127.0.0.1:0", gateway="off")
        self._own_servers.append(server)
        self.addCleanup(server.close)
        user = server.folder / "user/config/patchboard"
        user.mkdir(parents=True)
        (user / "patchboard.toml").write_text(self.model.provider_config("openai") + "[agents.mine]\n")
        self.server = server.start()
        agents = {agent["name"]: agent["source"] for agent in self.another().ask("agent_list")["agents"]}
        self.assertEqual((agents["default"], agents["mine"]), ("user", "user"))


class ModelsTest(RunsTestCase):
    """One provider lists its models, one hangs, one refuses."""

    def setUp(self) -> None:
        super().setUp()
        self.hangs, self.refuses, self.other = StubModel(), StubModel(), StubModel()
        for model in (self.hangs, self.refuses, self.other):
            self.addCleanup(model.close)
        self.hangs.listing = never = threading.Event()
        self.addCleanup(never.set)
        self.refuses.listing = 404
        self.other.listing = ["big", "org/small"]
        providers = provider(self.hangs, "hangs") + provider(self.refuses, "refuses")
        self.runs = self.connect(before=providers + provider(self.other, "other", "anthropic"))
        self.model.listing = ["stub-model", "stub-other"]

    def asked(self, model: StubModel) -> list[str]:
        return [request.body["model"] for request in model.requests]

    def test_the_list_comes_from_those_that_can_tell(self) -> None:
        answer = self.runs.ask("list_models", id="m")
        self.assertEqual((answer["type"], answer["id"]), ("models_list", "m"))
        models = {model["id"]: (model["name"], model["provider"]) for model in answer["models"]}
        expected = {
            "main/stub-model": ("stub-model", "main"),
            "main/stub-other": ("stub-other", "main"),
            "other/big": ("big", "other"),
            "other/org/small": ("org/small", "other"),
        }
        self.assertEqual(models, expected)
        # Kept: nobody is asked again, least of all who does not answer.
        self.runs.ask("list_models")
        stubs = (self.model, self.other, self.hangs, self.refuses)
        self.assertEqual([model.asked_for_models for model in stubs], [1, 1, 1, 1])

    def test_a_run_gets_the_model_it_names(self) -> None:
        for named, model, name in (
            ("stub-other", self.model, "stub-other"),
            ("main/stub-other", self.model, "stub-other"),
            ("other/org/small", self.other, "org/small"),
            ("refuses/anything", self.refuses, "anything"),
            ("hangs/any/thing", self.hangs, "any/thing"),
        ):
            with self.subTest(named):
                before = len(model.requests)
                run = self.runs.run("hi", model=named)
                self.assertEqual(run.reply, "echo: hi")
                self.assertEqual(self.asked(model)[before:], [name])

    def test_an_unknown_one_is_an_error_before_anything_starts(self) -> None:
        for named, hint in (
            ("stub-othr", "did you mean `main/stub-other`?"),
            ("other/bigg", "did you mean `other/big`?"),
            ("othr/big", "did you mean `other`?"),
            ("other/", "write `PROVIDER/MODEL`"),
        ):
            with self.subTest(named):
                run = self.runs.run("hi", model=named, id="named", thread_id="t")
                self.assertEqual((run.frames, run.id), ([], "named"))
                self.assertIn(hint, run.error)
        self.assertEqual(self.model.requests + self.other.requests, [])
        self.assertEqual(self.runs.ask("user_messages", thread_id="t")["messages"], [])

    def test_set_model_is_kept_for_the_connection_or_with_the_thread(self) -> None:
        runs = self.runs
        self.assertEqual(runs.ask("set_model", id="1", model_id="other/big"), {"type": "model_set", "id": "1", "success": True})
        runs.run("hi")
        self.assertEqual(self.asked(self.other), ["big"])
        answer = runs.ask("set_model", id="2", model_id="stub-other", session_id="t")
        self.assertEqual(answer, {"type": "model_set", "id": "2", "success": True})
        refused = runs.ask("set_model", id="3", model_id="other/none")
        self.assertEqual((refused["type"], refused["success"]), ("model_set", False))
        self.assertIn("unknown model `none`", refused["error"])
        # The thread's before the connection's, the run's own before both; other connections have none.
        runs.run("hi", thread_id="t")
        runs.run("hi", thread_id="t", model="stub-model")
        self.another().run("hi")
        self.assertEqual(self.asked(self.model), ["stub-other", "stub-model", "stub-model"])
        self.server.restart()
        self.another().run("hi", thread_id="t")
        self.assertEqual(self.asked(self.model)[3:], ["stub-other"])


class ResumeTest(RunsTestCase):
    def test_a_model_holds_when_the_run_resumes(self) -> None:
        stop = self.held()
        runs = self.connect(Reply(Text("half "), Hold(stop)))
        self.model.listing = 404
        runs.start("go", id="r", model="another", detach=True)
        runs.until("message_chunk")
        self.server.kill()
        self.server.start()
        run = self.another().attached("r")
        self.assertEqual(run.reply, "echo: go")
        self.assertEqual([request.body["model"] for request in self.model.requests], ["another"] * 2)


class CancelRunTest(RunsTestCase):
    def test_it_stops_the_run_then_says_so(self) -> None:
        runs = self.connect(fallback=lambda request: Reply(Text("half"), Hold(self.held())))
        runs.start("go", id="r")
        run = runs.until("message_chunk")
        answer = runs.ask("cancel_run", id="c", run_id="r")
        self.assertEqual(answer, {"type": "cancel_run_ack", "id": "c", "run_id": "r"})
        self.assertEqual(runs.finish(run).error, "run cancelled")
        self.assertTrue(self.model.requests[0].gone.wait(60), "the model was left")
        again = runs.ask("cancel_run", id="d", run_id="r")
        self.assertEqual((again["type"], again["id"]), ("error", "d"))

    def test_from_another_connection_and_while_it_waits(self) -> None:
        runs = self.connect(fallback=lambda request: Reply(Text("half"), Hold(self.held())))
        runs.start("go", id="r")
        runs.start("and this", id="waits")
        run = runs.until("message_chunk")
        self.assertEqual(runs.ask("cancel_run", id="c", run_id="waits")["type"], "cancel_run_ack")
        self.assertEqual(self.another().ask("cancel_run", run_id="r")["type"], "cancel_run_ack")
        self.assertEqual(runs.finish(run).error, "run cancelled")
        self.assertEqual(self.another().ask("cancel_run", run_id="nobody")["type"], "error")


class WorkspacesTest(RunsTestCase):
    def test_they_are_made_listed_filled_and_kept(self) -> None:
        runs = self.connect()
        self.assertEqual(runs.ask("workspace_list", id="1"), {"type": "workspace_list", "id": "1", "workspaces": []})
        first, second = runs.ask("workspace_create"), runs.ask("workspace_create", name="Häuser")
        self.assertEqual(first["workspace"]["id"], first["workspace_id"])
        self.assertEqual(set(first["workspace"]), {"id", "name", "created_at_ms"})
        self.assertGreater(first["workspace"]["created_at_ms"], 1_600_000_000_000)
        self.assertEqual(second["workspace"]["name"], "Häuser")
        workspace = first["workspace_id"]
        answer = runs.ask("workspace_thread_add", id="2", workspace_id=workspace, thread_id="t1")
        self.assertEqual(
            answer, {"type": "workspace_thread_add", "id": "2", "workspace_id": workspace, "thread_id": "t1"}
        )
        runs.run("hi", thread_id="t2", workspace_id=workspace)
        self.server.restart()
        runs = self.another()
        listed = runs.ask("workspace_list")["workspaces"]
        self.assertEqual(listed, [first["workspace"], second["workspace"]])
        threads = runs.ask("workspace_thread_list", workspace_id=workspace)
        self.assertEqual(threads["workspace_id"], workspace)
        self.assertEqual([thread["thread_id"] for thread in threads["threads"]], ["t1", "t2"])
        runs.ask("workspace_thread_remove", workspace_id=workspace, thread_id="t1")
        threads = runs.ask("workspace_thread_list", workspace_id=workspace)["threads"]
        self.assertEqual([thread["thread_id"] for thread in threads], ["t2"])
        self.assertEqual(runs.ask("workspace_thread_list", id="3", workspace_id="none")["type"], "error")


class MessageTest(RunsTestCase):
    def test_a_message_may_be_parts(self) -> None:
        runs = self.connect()
        run = runs.run([{"type": "text", "text": "Hello"}, {"type": "text", "text": "you"}])
        self.assertEqual(run.reply, "echo: Hello\nyou")
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        refused = runs.run([{"type": "text", "text": "what is this?"}, picture], id="p")
        self.assertEqual(refused.id, "p")
        self.assertIn("only parts of type `text` can be sent", refused.error)

    def test_an_empty_answer_says_so(self) -> None:
        runs = self.connect(fallback=Thinker(other=lambda request: Reply()))
        for agent in ("react", "dup", "tot", "got"):
            with self.subTest(agent):
                run = runs.run("go", agent)
                self.assert_whole(run, agent)
                self.assertIn("no text", run.reply)
        self.assertEqual(runs.ask("ping")["type"], "pong")

    def test_every_piece_of_a_call_names_it(self) -> None:
        calls = [Call("ls", {"path": "."}, "a"), Call("read", {"path": "x" * 50}, "b")]
        runs = self.connect(Reply(*calls), Reply(Text("done")))
        run = runs.run("go", working_folder=str(self.work))
        ids = {call["call_id"]: call["name"] for call in run.of("tool_call")}
        pieces = run.of("tool_call_chunk")
        self.assertEqual({(piece["call_id"], piece["name"]) for piece in pieces}, set(ids.items()))
        self.assertGreater(len(pieces), 2)


if __name__ == "__main__":
    unittest.main()
