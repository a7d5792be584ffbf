"""`patchboard onboard` at a terminal and without one: the server is asked for its models, the key is typed without echo and kept
apart from the configuration, and nothing is stored that was not checked."""

from __future__ import annotations

import http.server
import json
import os
import pty
import select
import shutil
import socket
import subprocess
import tempfile
import termios
import threading
import time
import unittest
from pathlib import Path

from gateway_client import eventually
from patchboard_server import FOREIGN_SETTINGS, binary

TIMEOUT = 60
KEY = "canary-key-0123456789"
ENTER = ""
MODELS = ["text-embedding-1", "small-model", "large-model"]


class ModelServer:
    """Speaks as much of the OpenAI API as `onboard` asks for, and wants `KEY` for it."""

    def __init__(self, *, models: list[str] | None = MODELS, page: str | None = None) -> None:
        self.asked: list[str] = []
        stub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer(200, {"object": "list", "data": [{"id": model} for model in models or []]}, models is None)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                known = body["model"] in (models or ["typed-model"])
                self.answer(200 if known else 404, "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: [DONE]\n\n")

            def answer(self, status: int, body: object, is_missing: bool = False) -> None:
                stub.asked.append(f"{self.command} {self.path}")
                content, kind = body if isinstance(body, str) else json.dumps(body), "application/json"
                if isinstance(body, str):
                    kind = "text/event-stream"
                if page is not None:
                    content, kind = page, "text/html"
                elif self.headers["Authorization"] != f"Bearer {KEY}":
                    status, content, kind = 401, "{}", "application/json"
                elif is_missing or status != 200:
                    status, content, kind = 404, "{}", "application/json"
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content.encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def echoes(terminal: int) -> bool:
    return bool(termios.tcgetattr(terminal)[3] & termios.ECHO)


class OnboardCase(unittest.TestCase):
    def setUp(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="patchboard-e2e-"))
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.config = self.home / "patchboard.toml"

    def model_server(self, **options: object) -> ModelServer:
        server = ModelServer(**options)
        self.addCleanup(server.close)
        return server

    def environment(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if name not in FOREIGN_SETTINGS}
        user = {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / ".config")}
        return own | user | {"NO_COLOR": "1", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}

    def files(self) -> list[Path]:
        return [file for file in self.home.rglob("*") if file.is_file()]

    def assert_key_is_stored(self) -> None:
        (holder,) = [file for file in self.files() if KEY in file.read_text()]
        self.assertEqual(holder.suffix, ".key")
        self.assertEqual(holder.stat().st_mode & 0o777, 0o600)
        self.assertEqual(holder.parent.stat().st_mode & 0o777, 0o700)


class TerminalTest(OnboardCase):
    def onboard(self, *answers: tuple[str, str], arguments: tuple[str, ...] = ()) -> tuple[int, str]:
        """Answers each prompt that ends with the given text; gives the exit code and what was on the screen."""
        child, terminal = pty.fork()
        if child == 0:
            os.execve(binary(), ["patchboard", "onboard", "--config", str(self.config), *arguments], self.environment())
        screen, answered, waiting = "", 0, list(answers)
        deadline = time.monotonic() + TIMEOUT
        while select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
            try:
                piece = os.read(terminal, 4096)
            except OSError:
                break  # The other side is gone.
            screen += piece.decode()
            if waiting and waiting[0][0] in screen[answered:] and screen.endswith(": "):
                answered = len(screen)
                prompt, answer = waiting.pop(0)
                if prompt == "key":
                    eventually(lambda: not echoes(terminal), "the terminal stops echoing")
                os.write(terminal, answer.encode() + b"\n")
        else:
            os.kill(child, 9)
            os.waitpid(child, 0)
            self.fail(f"it asks for something unexpected: {screen!r}")
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), screen

    def test_the_models_are_offered_and_the_key_is_not_echoed(self) -> None:
        server = self.model_server()
        code, screen = self.onboard(("Provider", server.url), ("key", KEY), ("Model", "2"))
        self.assertEqual(code, 0, screen)
        self.assertNotIn(KEY, screen)
        self.assertIn("The server offers 2 models:", screen, "one that answers no chat is not offered")
        self.assertIn("   1  small-model  (default)", screen)
        self.assertIn("   2  large-model\r\n", screen)
        self.assert_key_is_stored()
        text = self.config.read_text()
        for said in (f"[providers.server-{server.port}]", server.url, 'model = "large-model"'):
            self.assertIn(said, text)
        self.assertNotIn("ollama", text)
        self.assertEqual(server.asked, ["GET /v1/models", "POST /v1/chat/completions"])

    def test_enter_takes_what_stands_in_brackets(self) -> None:
        server = self.model_server()
        code, screen = self.onboard(("key", KEY), ("Model", ENTER), arguments=("--base-url", server.url))
        self.assertEqual(code, 0, screen)
        self.assertIn('model = "small-model"', self.config.read_text())

    def test_an_empty_key_is_refused_before_any_file_is_written(self) -> None:
        code, screen = self.onboard(("Provider", "openai"), ("key", ENTER))
        self.assertNotEqual(code, 0)
        self.assertIn("empty", screen)
        self.assertEqual(self.files(), [])

    def test_an_unknown_provider_is_refused_before_any_file_is_written(self) -> None:
        code, screen = self.onboard(("Provider", "../../etc/passwd"))
        self.assertNotEqual(code, 0)
        self.assertEqual(self.files(), [])

    def test_a_wrong_key_is_told_and_stored_by_nobody_s_wish(self) -> None:
        server = self.model_server()
        where = ("--base-url", server.url)
        code, screen = self.onboard(("key", "wrong"), ("again", ENTER), arguments=where)
        self.assertNotEqual(code, 0)
        self.assertIn(f"127.0.0.1:{server.port} does not accept this key (401 Unauthorized)", screen)
        self.assertIn("What to do: check that the whole key was copied", screen)
        self.assertEqual(self.files(), [])

        again = (("Provider", server.url), ("key", "wrong"), ("again", "again"), ("key", KEY), ("Model", ENTER))
        code, screen = self.onboard(*again)
        self.assertEqual(code, 0, screen)
        self.assert_key_is_stored()

    def test_unchecked_it_is_stored_only_when_the_user_says_so(self) -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            where = ("--base-url", f"http://127.0.0.1:{closed.getsockname()[1]}/v1")
            answers = (("key", KEY), ("again", "store"), ("key", KEY), ("Model", "some-model"))
            code, screen = self.onboard(*answers, arguments=where)
        self.assertEqual(code, 0, screen)
        self.assertIn("cannot be reached: connection refused", screen)
        self.assertIn('model = "some-model"', self.config.read_text())

    def test_a_second_time_it_changes_the_model_and_keeps_everything_else(self) -> None:
        server = self.model_server()
        kept = '# my own words\n[budgets]\ndaily = 12345 # enough\n\n[[bindings]]\nagent = "default"\nchannel = "t"\n'
        self.config.write_text(kept)
        where = ("--provider", "mine", "--base-url", server.url)
        for model in ("small-model", "large-model"):
            code, screen = self.onboard(("key", KEY), ("Model", model), arguments=where)
            self.assertEqual(code, 0, screen)
            text = self.config.read_text()
            self.assertIn(model, text)
            for line in kept.splitlines():
                self.assertIn(line, text)
        self.assertIn("[providers.mine]", text)
        self.assertNotIn("small-model", text)


class PipedTest(OnboardCase):
    def onboard(self, *arguments: str, said: str = "") -> subprocess.CompletedProcess:
        command = [binary(), "onboard", *arguments]
        return subprocess.run(
            command, input=said, cwd=self.home, env=self.environment(), capture_output=True, text=True, timeout=TIMEOUT
        )

    def refused(self, *arguments: str, said: str = KEY) -> str:
        done = self.onboard("--key-stdin", *arguments, said=f"{said}\n")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(self.files(), [])
        self.assertIn("hint: ", done.stderr)
        return done.stderr

    def test_flags_say_everything_and_the_user_s_own_file_is_written(self) -> None:
        server = self.model_server()
        (self.home / "patchboard.toml").write_text("# a project's\n")
        done = self.onboard("--base-url", server.url, "--model", "large-model", "--key-stdin", said=f"{KEY}\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn(KEY, done.stdout + done.stderr)
        self.assertIn(f"provider server-{server.port} with model large-model", done.stdout)
        self.assert_key_is_stored()
        self.assertIn("large-model", (self.home / ".config/patchboard/patchboard.toml").read_text())
        self.assertEqual((self.home / "patchboard.toml").read_text(), "# a project's\n")

    def test_what_is_not_said_is_what_is_offered(self) -> None:
        server = self.model_server()
        done = self.onboard("--base-url", server.url, "--key-stdin", said=KEY)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("with model small-model", done.stdout)

    def test_each_trouble_says_what_happened_and_what_to_do(self) -> None:
        server = self.model_server()
        where = ("--base-url", server.url)
        self.assertRegex(self.refused(*where, said="wrong"), r"does not accept this key \(401 Unauthorized\)\nhint: check that")
        wrong = self.refused(*where, "--model", "larg-model")
        self.assertIn("offers no model `larg-model`\nhint: did you mean `large-model`?", wrong)
        page = self.model_server(page="<html>Welcome</html>")
        self.assertRegex(
            self.refused("--base-url", page.url), r"is not a model server\nhint: name the root of its API, such as https://"
        )
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            away = self.refused("--base-url", f"http://127.0.0.1:{closed.getsockname()[1]}")
        self.assertRegex(away, r"cannot be reached: connection refused .*\nhint: check that the server runs")
        self.assertIn("--no-check stores it without asking the server", away)

    def test_a_server_without_a_list_is_tried_with_one_call(self) -> None:
        server = self.model_server(models=None)
        told = self.refused("--base-url", server.url, "--model", "other-model")
        self.assertIn("knows no model `other-model` at " + server.url, told)
        done = self.onboard("--base-url", server.url, "--model", "typed-model", "--key-stdin", said=KEY)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("offers no list of models", done.stderr)
        self.assertEqual(server.asked[-2:], ["GET /v1/models", "POST /v1/chat/completions"])

    def test_without_a_terminal_and_without_flags_it_says_which_there_are(self) -> None:
        done = self.onboard()
        self.assertEqual(done.returncode, 1)
        self.assertIn("--key-stdin", done.stderr)
        self.assertEqual(self.files(), [])


if __name__ == "__main__":
    unittest.main()
