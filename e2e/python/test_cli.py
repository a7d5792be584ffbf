"""The command line: every command's output, exit code, and words when something is wrong."""

from __future__ import annotations

import json
import subprocess
import tomllib
import unittest

from gateway_client import Gateway
from patchboard_server import ServerTestCase, binary
from stub_model import Call, Failure, Reply, StubModel, Text

TIMEOUT = 60
SESSION = "default:cli:local:main"


class CliTestCase(ServerTestCase):
    def serve(self, *behaviours, more: str = "", **options) -> None:
        self.model = StubModel(*behaviours)
        self.addCleanup(self.model.close)
        self.server = self.start_server(config=self.model.provider_config("openai") + more, **options)
        self.data = ("--data-dir", str(self.server.data_dir))
        self.config = ("--config", str(self.server.config_file))

    def run_command(
        self, *arguments: str, text: str = "", env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess:
        return subprocess.run(
            [binary(), *arguments],
            cwd=self.server.folder,
            env={**self.server.environment(), "HOME": str(self.server.folder / "home"), **(env or {})},
            input=text,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )

    def good(self, *arguments: str, **options) -> str:
        done = self.run_command(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def bad(self, code: int, *arguments: str, **options) -> str:
        done = self.run_command(*arguments, **options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertNotIn("panicked", done.stderr)
        return done.stderr


class ChatTest(CliTestCase):
    def test_one_message_prints_the_answer(self) -> None:
        self.serve()
        self.assertEqual(self.good("chat", "-m", "hi", *self.data), "echo: hi\n")

    def test_json_prints_every_event_as_a_line(self) -> None:
        self.serve(Reply(Text("let me "), Call("ls", {})), Reply(Text("see")))
        lines = [json.loads(line) for line in self.good("chat", "-m", "hi", "--json", *self.data).splitlines()]
        events = [line["event"] for line in lines]
        self.assertEqual((events[-1], events.count("done"), events.count("usage")), ("done", 1, 2))
        self.assertLess(events.index("tool_use"), events.index("tool_result"))
        self.assertEqual("".join(line["data"] for line in lines if line["event"] == "text"), "let me see")

    def test_conversations_are_told_apart_by_peer_account_and_channel(self) -> None:
        self.serve()
        self.good("chat", "-m", "my secret is 42", *self.data)
        for where in (("--peer", "other"), ("--account", "bob"), ("--channel", "elsewhere")):
            self.good("chat", "-m", "what did I say?", *where, *self.data)
            said = [one["content"] for one in self.model.requests[-1].messages if one["role"] != "system"]
            self.assertEqual(said, ["what did I say?"], where)
        self.good("chat", "-m", "and here?", *self.data)
        self.assertIn("my secret is 42", [one["content"] for one in self.model.requests[-1].messages])

    def test_without_a_server_it_starts_one_for_itself_on_the_same_data(self) -> None:
        self.serve()
        self.good("chat", "-m", "first", *self.data)
        self.server.terminate()
        # The folder it is typed in holds the data directory, so it is not opened to agents.
        (self.server.folder / "work").mkdir()
        own = ("-w", "work", *self.data, *self.config)
        self.assertEqual(self.good("chat", "-m", "second", *own), "echo: second\n")
        said = [one["content"] for one in self.model.requests[-1].messages if one["role"] != "system"]
        self.assertEqual(said, ["first", "echo: first", "second"])
        self.server.start()
        self.assertIn("second", self.good("sessions", "show", SESSION, *self.data))

    def test_a_failed_turn_is_told_on_stderr_and_by_the_exit_code(self) -> None:
        self.serve(Failure(400))
        self.assertIn("provider error", self.bad(1, "chat", "-m", "hi", *self.data))

    def test_it_reads_messages_from_a_pipe(self) -> None:
        self.serve()
        done = self.run_command("chat", *self.data, text="one\ntwo\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("echo: one", done.stdout)
        self.assertIn("echo: two", done.stdout)

    def test_it_reaches_a_server_by_address_with_the_token_from_the_environment(self) -> None:
        self.serve(more='[gateway]\ntoken = "env:GATEWAY_TOKEN"\n', env={"GATEWAY_TOKEN": "t" * 32})
        self.assertEqual(self.good("chat", "-m", "hi", *self.data), "echo: hi\n")
        for url in (self.server.ws_url, self.server.http_url):
            with self.subTest(url):
                self.assertEqual(
                    self.good("chat", "-m", "hi", "--url", url, env={"PATCHBOARD_TOKEN": "t" * 32}), "echo: hi\n"
                )
                wrong = self.run_command("chat", "-m", "hi", "--url", url, env={"PATCHBOARD_TOKEN": "wrong"})
                self.assertNotEqual(wrong.returncode, 0)
                self.assertNotIn("echo", wrong.stdout)

    def test_nobody_at_the_address_is_an_error(self) -> None:
        self.serve()
        address = self.server.ws_url
        self.server.terminate()
        done = self.run_command("chat", "-m", "hi", "--url", address)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("error", done.stderr)


class LookTest(CliTestCase):
    def test_sessions_are_listed_shown_and_cleared(self) -> None:
        self.serve()
        self.good("chat", "-m", "hello there", *self.data)
        self.assertIn(SESSION, self.good("sessions", "list", *self.data))
        shown = self.good("sessions", "show", SESSION, *self.data)
        self.assertLess(shown.index("hello there"), shown.index("echo: hello there"))
        self.good("sessions", "clear", SESSION, *self.data)
        none = self.run_command("sessions", "list", *self.data)
        self.assertEqual((none.returncode, none.stdout, none.stderr), (0, "", "no sessions yet\n"))
        gone = self.run_command("sessions", "show", SESSION, *self.data)
        self.assertEqual((gone.returncode, gone.stdout), (1, ""), gone.stderr)
        self.assertIn(f"nothing is kept of a session `{SESSION}`", gone.stderr)

    def test_usage_adds_up(self) -> None:
        self.serve(*[Reply(Text("x"), input_tokens=1000, output_tokens=50)] * 2)
        self.good("chat", "-m", "one", *self.data)
        self.good("chat", "-m", "two", "--account", "bob", *self.data)
        for by in ("day", "model", "provider", "agent"):
            (row,) = [json.loads(line) for line in self.good("usage", "--by", by, "--json", *self.data).splitlines()]
            self.assertEqual((row["calls"], row["input_tokens"], row["output_tokens"]), (2, 2000, 100), by)
        self.assertEqual(len(self.good("usage", "--by", "session", "--json", *self.data).splitlines()), 2)
        self.assertIn("2,000", self.good("usage", *self.data))
        self.assertEqual(self.good("usage", "--since", "2999-01-01T00:00:00Z", "--json", *self.data), "")

    def test_tools_are_listed_and_shown(self) -> None:
        self.serve()
        listed = self.good("tools", "list", *self.data)
        self.assertTrue("read" in listed and "ls" in listed, listed)
        self.assertEqual(json.loads(self.good("tools", "show", "read", *self.data))["name"], "read")
        self.assertIn("nope", self.bad(1, "tools", "show", "nope", *self.data))

    def test_without_a_server_it_says_so_with_a_hint(self) -> None:
        self.serve()
        self.server.terminate()
        for command in (
            ["sessions", "list"],
            ["sessions", "show", SESSION],
            ["sessions", "clear", SESSION],
            ["usage"],
            ["tools", "list"],
        ):
            with self.subTest(command):
                done = self.run_command(*command, *self.data)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("hint", done.stderr)
                self.assertIn("serve", done.stderr)

    def test_names_from_other_users_cannot_play_with_the_terminal(self) -> None:
        self.serve(Reply(Text("\x1b]0;owned\x07 and \x1b[2Jgone")))
        with Gateway(self.server) as gateway:
            gateway.chat("\x1b[31mred\x1b[0m", account="evil\x1b[2J", channel="web\nfake")
            session = gateway.result("session.list")["items"][0]["session"]
        for output in (self.good("sessions", "list", *self.data), self.good("sessions", "show", session, *self.data)):
            self.assertNotIn("\x1b", output)
            self.assertNotIn("\nfake", output)


class ConfigTest(CliTestCase):
    def test_check_reports_every_problem_with_its_place_and_a_hint(self) -> None:
        self.serve()
        self.assertIn("no problems", self.good("config", "check", *self.config))
        bad = self.server.folder / "bad.toml"
        bad.write_text(
            '[gateway]\nlissten = "x"\n[agents.default]\nprovider = "nobody"\n[memory]\nepisodic_window = -1\n'
        )
        done = self.run_command("config", "check", "--config", str(bad))
        self.assertEqual(done.returncode, 2)
        report = done.stdout + done.stderr
        for part in (
            "gateway.lissten",
            "did you mean",
            "agents.default.provider",
            "memory.episodic_window",
            "bad.toml:2",
            "bad.toml:6",
        ):
            self.assertIn(part, report)

    def test_show_tells_where_each_value_came_from(self) -> None:
        self.serve(more="[memory]\nepisodic_window = 7\n")
        env = {"PATCHBOARD__LIMITS__SESSION_QUEUE": "3"}
        shown = self.good("config", "show", "--origin", *self.config, env=env)
        lines = {line.split(" = ")[0]: line for line in shown.splitlines() if " = " in line}
        self.assertRegex(lines["episodic_window"], r"7 +# .*patchboard\.toml:\d+")
        self.assertRegex(lines["session_queue"], r"3 +# .*PATCHBOARD__LIMITS__SESSION_QUEUE")
        self.assertRegex(lines["context_tokens"], r"# default")
        plain = tomllib.loads(self.good("config", "show", *self.config, env=env))
        self.assertEqual((plain["memory"]["episodic_window"], plain["limits"]["session_queue"]), (7, 3))

    def test_what_show_prints_can_be_used_as_a_file(self) -> None:
        self.serve()
        again = self.server.folder / "again.toml"
        again.write_text(self.good("config", "show", *self.config))
        self.assertIn("no problems", self.good("config", "check", "--config", str(again)))

    def test_the_schema_is_json_and_knows_the_sample_s_keys(self) -> None:
        self.serve()
        schema = json.loads(self.good("config", "schema"))
        self.assertLessEqual(
            {"gateway", "runs", "providers", "agents", "bindings", "budgets", "memory"}, set(schema["properties"])
        )
        self.assertEqual(schema["additionalProperties"], False)

    def test_the_sample_is_a_good_config_as_it_is_and_with_its_settings_taken_in(self) -> None:
        self.serve()
        sample = self.good("config", "sample")
        tomllib.loads(sample)
        file = self.server.folder / "sample.toml"
        file.write_text(sample)
        self.assertIn("no problems", self.good("config", "check", "--config", str(file)))

    def test_doctor_says_what_is_well_and_what_is_not(self) -> None:
        self.serve()
        self.assertIn("main", self.good("doctor", *self.data, *self.config))
        self.server.terminate()
        self.model.close()
        done = self.run_command("doctor", *self.data, *self.config)
        self.assertNotEqual(done.returncode, 0, "its provider does not answer")
        self.assertIn("main", done.stdout + done.stderr)


class WordsTest(CliTestCase):
    def test_the_version_is_one_line(self) -> None:
        self.serve()
        self.assertEqual(self.good("--version"), f"patchboard {self.server.ready['version']}\n")

    def test_codes_are_explained(self) -> None:
        self.serve()
        self.assertIn("unknown key", self.good("explain", "PB0103"))
        self.assertIn("PB0103", self.good("explain"))
        self.assertIn("PB9999", self.bad(1, "explain", "PB9999"))

    def test_a_wrong_command_line_exits_2_and_help_exits_0(self) -> None:
        self.serve()
        for wrong in (["bogus"], ["serve", "--bogus"], ["chat", "-m"], ["usage", "--by", "mood"], ["sessions"]):
            with self.subTest(wrong):
                self.bad(2, *wrong)
        commands = "serve chat run attach approvals sessions usage tools mcp config doctor explain onboard"
        for command in commands.split():
            with self.subTest(command):
                self.assertIn("Usage:", self.good(command, "--help"))


if __name__ == "__main__":
    unittest.main()
