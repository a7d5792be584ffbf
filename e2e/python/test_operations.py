"""Running the server: stopping it in the middle of work, starting it where it cannot start, and keeping its secrets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import unittest
import urllib.request

from gateway_case import GatewayTestCase
from gateway_client import TIMEOUT, Gateway, eventually, exceptions
from patchboard_server import ServerTestCase, binary
from stub_model import Call, Failure, Hold, Reply, StubModel, Text

OTHERS_OFF = ("--runs", "off", "--hub", "off", "--bridge", "off")


class DrainTest(GatewayTestCase):
    def refuses_new_work(self) -> bool:
        try:
            with Gateway(self.server) as late:
                return "error" in late.answer("chat.send", channel="c", account="late", content="hi")
        except (OSError, EOFError, exceptions.WebSocketException):
            return True

    def test_sigterm_lets_a_running_stream_finish_and_exits_0(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number):
                release = self.held()
                gateway = self.connect(Reply(Text("first "), Hold(release), Text("last")))
                request = gateway.start("hi")
                gateway.until(request, "text")
                self.server.process.send_signal(number)
                eventually(self.refuses_new_work, "new work is refused")
                release.set()
                rest = gateway.turn(request)
                self.assertEqual((rest.text, rest.outline), ("last", ["text", "usage", "done"]))
                self.assertEqual(self.server.process.wait(TIMEOUT), 0)
                with Gateway(self.server.restart()) as again:
                    texts = [
                        one["content"]
                        for one in again.result("chat.history", channel="websocket", account="alice")["items"]
                    ]
                    self.assertEqual(texts, ["hi", "first last"])

    def test_a_stream_that_does_not_end_is_cut_when_the_drain_is_over(self) -> None:
        # Another server, which is told to stop before this one and may take longer.
        slow = self.connect(Reply(Text("first "), Hold(self.held())), before='drain = "10m"\n')
        slow.until(slow.start("hi"), "text")
        slow_server = self.server
        gateway = self.connect(Reply(Text("first "), Hold(self.held())), before='drain = "500ms"\n')
        request = gateway.start("hi")
        gateway.until(request, "text")
        slow_server.process.send_signal(signal.SIGTERM)
        started = time.monotonic()
        self.assertEqual(self.server.terminate(), 0)
        self.assertGreater(time.monotonic() - started, 0.4, "it was given the time to end")
        self.assertTrue(slow_server.is_running, "its drain is not over")
        slow_server.kill()
        with Gateway(self.server.restart()) as again:
            self.assertEqual(again.result("chat.history", channel="websocket", account="alice")["items"], [])
            self.assertEqual(again.result("budget.status")["daily"]["reserved"], 0)

    def test_a_second_signal_ends_it_at_once(self) -> None:
        gateway = self.connect(Reply(Text("first "), Hold(self.held())), before='drain = "10m"\n')
        gateway.until(gateway.start("hi"), "text")
        self.server.process.send_signal(signal.SIGTERM)
        eventually(self.refuses_new_work, "the drain has begun")
        self.assertTrue(self.server.is_running)
        self.server.process.send_signal(signal.SIGTERM)
        self.server.process.wait(TIMEOUT)

    def test_an_idle_client_does_not_hold_it_up(self) -> None:
        gateway = self.connect(before='drain = "10m"\n')
        self.assertEqual(gateway.result("ping"), "pong")
        self.assertEqual(self.server.terminate(), 0)
        self.assertIn(gateway.closed_with(), (1001, 1012))


class StartTest(ServerTestCase):
    def serve(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
        """Runs a server that is expected to give up at once."""
        return subprocess.run(
            [binary(), "serve", *arguments],
            env={**os.environ, "NO_COLOR": "1", **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )

    def assert_refused(self, done: subprocess.CompletedProcess, *words: str) -> None:
        self.assertEqual(done.returncode, 2, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertIn("hint", done.stderr)
        self.assertNotIn("panicked", done.stderr)

    def test_a_second_server_on_the_same_data_is_refused_with_the_first_one_s_pid(self) -> None:
        server = self.start_server()
        done = self.serve("--data-dir", str(server.data_dir), "--gateway", "127.0.0.1:0", *OTHERS_OFF)
        self.assert_refused(done, str(server.pid))

    def test_a_stale_record_after_a_crash_is_no_obstacle(self) -> None:
        server = self.start_server()
        server.kill()
        left = {file.name for file in server.data_dir.rglob("*") if file.is_file()}
        server.restart()
        with Gateway(server) as gateway:
            self.assertEqual(gateway.result("ping"), "pong")
        self.assertEqual(server.terminate(), 0)
        records = [file for file in server.data_dir.iterdir() if file.suffix == ".json"]
        self.assertEqual(records, [], f"the record of the running server goes with it; after the crash: {left}")

    def test_a_taken_port_is_refused_by_name_and_nothing_is_half_started(self) -> None:
        server = self.start_server()
        ready = server.folder / "other-ready.json"
        data = ("--data-dir", str(server.folder / "other"), "--ready-file", str(ready))
        self.assert_refused(self.serve(*data, "--gateway", server.gateway, *OTHERS_OFF), server.gateway)
        self.assertFalse(ready.exists())

    def test_every_problem_of_a_config_is_told_at_once_with_its_path_and_line(self) -> None:
        server = self.start_server()
        config = server.folder / "bad.toml"
        config.write_text(
            '[gateway]\nlissten = "x"\nmax_connections = "many"\n[agents.default]\nstrategy = "magic"\ndrain = 5\n'
        )
        done = self.serve("--data-dir", str(server.folder / "other"), "--config", str(config))
        self.assert_refused(
            done,
            "gateway.lissten",
            "gateway.listen",
            "gateway.max_connections",
            "agents.default.strategy",
            "bad.toml:2",
        )
        config.write_text("[gateway\n")
        self.assert_refused(self.serve("--data-dir", str(server.folder / "other"), "--config", str(config)), "bad.toml")
        missing = str(server.folder / "missing.toml")
        self.assert_refused(self.serve("--data-dir", str(server.folder / "other"), "--config", missing), "missing.toml")

    def test_a_bad_variable_is_refused_like_a_bad_key(self) -> None:
        server = self.start_server()
        data = ("--data-dir", str(server.folder / "other"))
        self.assert_refused(self.serve(*data, PATCHBOARD__GATEWAY__LISSTEN=":0"), "PATCHBOARD__GATEWAY__LISSTEN")

    def test_a_data_directory_that_cannot_be_is_refused(self) -> None:
        server = self.start_server()
        file = server.folder / "file"
        file.write_text("not a folder")
        done = self.serve("--data-dir", str(file), "--gateway", "127.0.0.1:0", *OTHERS_OFF)
        self.assert_refused(done, str(file))

    def test_a_damaged_database_is_refused_and_left_as_it_is(self) -> None:
        server = self.start_server()
        server.terminate()
        database = server.data_dir / "patchboard.db"
        database.write_bytes(b"this is no database" * 1000)
        done = self.serve("--data-dir", str(server.data_dir), "--gateway", "127.0.0.1:0", *OTHERS_OFF)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertNotIn("panicked", done.stderr)
        self.assertTrue(database.read_bytes().startswith(b"this is no database"))


class SecretsTest(ServerTestCase):
    def test_tokens_and_keys_never_appear_in_logs_pages_frames_or_the_data(self) -> None:
        token, key = "canary-token-5b1f0c7e2d9a4f63", "canary-key-9e8d7c6b5a493827"
        model = StubModel(
            Reply(Text("hi"), Call("read", {"path": "env.txt"})), Reply(Text("done")), Failure(401, f"bad key {key}")
        )
        self.addCleanup(model.close)
        config = model.provider_config("openai").replace("STUB_MODEL_KEY", "CANARY_KEY")
        server = self.start_server(
            config=config
            + '[gateway]\ntoken = "env:CANARY_TOKEN"\n[log]\nlevel = "trace"\nfilter = "trace"\n',
            env={"CANARY_TOKEN": token, "CANARY_KEY": key},
        )
        with Gateway(server, token=token) as gateway:
            for content in ("hello", "again"):
                gateway.chat(content)
            with Gateway(server, token=f"{token}x", greet=False) as wrong:
                wrong.closed_with()
            gateway.send({"token": token})
            gateway.next_frame()
            frames = json.dumps(gateway.seen)
        self.assertEqual(model.requests[0].headers["authorization"], f"Bearer {key}", "the key is really in use")
        pages = "".join(self.page(server, path, token) for path in ("/", "/metrics", "/readyz"))
        shown = self.command(server, "config", "show", "--config", str(server.config_file))
        checked = self.command(
            server, "doctor", "--config", str(server.config_file), "--data-dir", str(server.data_dir)
        )
        self.assertEqual(server.terminate(), 0)
        log = server.log_file.read_text()
        self.assertGreater(len(log), 2000, "trace logs something")
        places = {"frames": frames, "pages": pages, "log": log, "config show": shown, "doctor": checked}
        files = [file for file in server.data_dir.rglob("*") if file.is_file()]
        places |= {str(file): file.read_bytes().decode("latin-1") for file in files}
        for place, text in places.items():
            with self.subTest(place):
                self.assertNotIn(token, text)
                self.assertNotIn(key, text)

    def page(self, server, path: str, token: str) -> str:
        request = urllib.request.Request(server.http_url + path, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            return answer.read().decode()

    def command(self, server, *arguments: str) -> str:
        done = subprocess.run(
            [binary(), *arguments],
            env=server.environment(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            stdin=subprocess.DEVNULL,
        )
        return done.stdout + done.stderr

    def test_what_users_and_models_say_is_not_logged_at_info(self) -> None:
        model = StubModel(
            Reply(Text("spoken-by-model"), Call("read", {"path": "spoken-by-tool"})), Failure(400, "spoken-by-provider")
        )
        self.addCleanup(model.close)
        server = self.start_server(config=model.provider_config("openai"))
        with Gateway(server) as gateway:
            gateway.chat("spoken-by-user")
            gateway.socket.send("spoken-by-nobody")
            gateway.next_frame()
        server.terminate()
        self.assertNotIn("spoken-by", server.log_file.read_text())

    def test_the_data_directory_is_the_owner_s_alone(self) -> None:
        server = self.start_server()
        with Gateway(server) as gateway:
            gateway.chat("hi")
        self.assertEqual(server.data_dir.stat().st_mode & 0o077, 0)
        for file in server.data_dir.iterdir():
            self.assertEqual(file.stat().st_mode & 0o077, 0, file.name)


if __name__ == "__main__":
    unittest.main()
