"""`patchboard status`, `stop`, `reload` and `logs`, and SIGHUP, on real servers."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import ssl
import subprocess
import threading
import unittest
from pathlib import Path

from bridge_certificates import Authority
from gateway_client import TIMEOUT, Gateway, eventually
from patchboard_server import Server, ServerTestCase, binary
from stub_model import Call, Hold, Reply, StubModel, Text

LOG_FILES = 5


class CommandTestCase(ServerTestCase):
    def patchboard(self, server: Server, *arguments: str, config: bool = False) -> subprocess.CompletedProcess:
        command = [binary(), *arguments, "--data-dir", str(server.data_dir)]
        if config:
            command += ["--config", str(server.config_file)]
        return subprocess.run(
            command,
            env=server.environment(),
            cwd=server.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )

    def status(self, server: Server) -> dict:
        return json.loads(self.patchboard(server, "status", "--json").stdout)

    def model(self, *behaviours) -> StubModel:
        model = StubModel(*behaviours)
        self.addCleanup(model.close)
        return model


class StatusAndStopTest(CommandTestCase):
    def test_a_server_is_described_stopped_and_remembered(self) -> None:
        server = self.start_server(config=self.model().provider_config("openai") + "[budgets]\ndaily = 1000\n")
        with Gateway(server) as gateway:
            gateway.chat("hi")
        found = self.status(server)
        self.assertEqual((found["running"], found["state"], found["pid"]), (True, "ready", server.pid))
        self.assertEqual(found["addresses"], {"gateway": server.gateway, "runs": None, "hub": None, "bridge": None})
        self.assertEqual(found["agents"], [{"name": "default", "provider": "main", "model": "stub-model"}])
        self.assertEqual((found["sessions"], found["runs"], found["approvals"]), (1, 0, 0))
        self.assertEqual(found["budget"]["daily"], {"used": 12, "reserved": 0, "limit": 1000})
        self.assertGreater(found["memory_bytes"], 1024 * 1024)
        shown = self.patchboard(server, "status")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        for words in (f"pid {server.pid}", f"http://{server.gateway}", "main / stub-model", "988 of 1,000 tokens left"):
            self.assertIn(words, shown.stdout)

        stopped = self.patchboard(server, "stop")
        self.assertEqual((stopped.returncode, stopped.stdout), (0, "stopped\n"), stopped.stderr)
        self.assertEqual(server.process.wait(TIMEOUT), 0)
        gone = self.patchboard(server, "status")
        self.assertEqual(gone.returncode, 3, gone.stdout)
        self.assertIn("no server runs", gone.stdout)
        self.assertIn("the last one stopped", gone.stdout)
        self.assertIn("patchboard serve", gone.stderr)
        self.assertEqual(self.status(server)["last_stop"]["pid"], server.pid)
        again = self.patchboard(server, "stop")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("nothing to stop", again.stdout)

    def test_stop_and_status_need_no_configuration_when_the_folder_is_named(self) -> None:
        server = self.start_server()
        (server.folder / "broken.toml").write_text("[gateway\n")
        broken = ("--config", str(server.folder / "broken.toml"))
        self.assertEqual(self.patchboard(server, "status", *broken).returncode, 0)
        self.assertEqual(self.patchboard(server, "stop", *broken).returncode, 0)

    def test_stop_waits_for_work_and_says_what_is_left(self) -> None:
        release = threading.Event()
        self.addCleanup(release.set)
        model = self.model(Reply(Text("first "), Hold(release), Text("last")))
        server = self.start_server(config='drain = "10m"\n' + model.provider_config("openai"))
        with Gateway(server) as gateway:
            request = gateway.start("hi")
            gateway.until(request, "text")
            waited = self.patchboard(server, "stop", "--timeout", "300ms")
            self.assertEqual(waited.returncode, 1, waited.stdout)
            self.assertIn("waiting for 1 turn or run at work", waited.stderr)
            self.assertIn("still stopping: 1 turn or run at work", waited.stderr)
            found = self.status(server)
            self.assertEqual((found["state"], found["runs_left"]), ("stopping", 1))
            # A second one only waits as well: the drain is not cut short.
            second = self.patchboard(server, "stop", "--timeout", "300ms")
            self.assertEqual(second.returncode, 1, second.stdout)
            self.assertTrue(server.is_running)
            release.set()
            self.assertEqual(gateway.turn(request).text, "last")
        self.assertEqual(server.process.wait(TIMEOUT), 0)

    def test_stop_now_does_not_wait_and_kill_is_only_done_when_asked_for(self) -> None:
        held = threading.Event()
        self.addCleanup(held.set)
        model = self.model(*[Reply(Text("first "), Hold(held))] * 2)
        server = self.start_server(config='drain = "10m"\n' + model.provider_config("openai"))
        with Gateway(server) as gateway:
            gateway.until(gateway.start("hi"), "text")
            done = self.patchboard(server, "stop", "--now")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("stopped at once", done.stdout)
        self.assertEqual(server.process.wait(TIMEOUT), 0)
        server.start()
        # It can do nothing about what it is told.
        os.kill(server.pid, signal.SIGSTOP)
        refused = self.patchboard(server, "stop", "--timeout", "100ms")
        self.assertEqual(refused.returncode, 1, refused.stdout)
        self.assertIsNone(server.process.poll())
        killed = self.patchboard(server, "stop", "--timeout", "100ms", "--kill")
        self.assertEqual(killed.returncode, 0, killed.stderr)
        self.assertEqual(server.process.wait(TIMEOUT), -signal.SIGKILL)

    def test_a_foreign_process_on_record_is_not_signalled(self) -> None:
        server = self.start_server()
        record = server.data_dir / "process.json"
        kept = json.loads(record.read_text())
        foreign = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.addCleanup(foreign.wait)
        self.addCleanup(foreign.stdin.close)
        self.addCleanup(foreign.kill)
        ticks = int(Path(f"/proc/{foreign.pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
        # Its number alone, as after a crash; then whatever could be made up about it.
        for forged in ({"pid": foreign.pid}, {"pid": foreign.pid, "started_tick": ticks}):
            with self.subTest(forged):
                record.write_text(json.dumps({**kept, **forged}))
                done = self.patchboard(server, "stop", "--now", "--kill", "--timeout", "100ms")
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn("is not the server", done.stderr)
                self.assertIn("nothing was signalled", done.stderr)
                self.assertIsNone(foreign.poll())
                self.assertTrue(server.is_running)
        record.write_text(json.dumps(kept))
        self.assertEqual(self.patchboard(server, "stop").returncode, 0)

        # After a crash the record is there and the lock is free: nothing runs, whoever has the number now.
        record.write_text(json.dumps({**kept, "pid": foreign.pid, "started_tick": ticks}))
        done = self.patchboard(server, "stop")
        self.assertEqual((done.returncode, foreign.poll()), (0, None), done.stderr)
        self.assertIn("nothing to stop", done.stdout)
        # A lock that something else holds makes it no server either.
        with open(server.data_dir / "lock", "r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = self.patchboard(server, "stop", "--kill", "--timeout", "100ms")
            self.assertEqual((done.returncode, foreign.poll()), (1, None), done.stdout)


class ReloadTest(CommandTestCase):
    """One server and one file that changes."""

    def setUp(self) -> None:
        self.stub = self.model()
        self.key = None
        self.server = Server()
        self.addCleanup(self.server.close)
        self._own_servers.append(self.server)
        keys = self.server.data_dir / "keys"
        keys.mkdir(parents=True, mode=0o700)
        self.server.data_dir.chmod(0o700)
        self.key = keys / "main"
        self.write_key("first-key-0123456789")
        self.write("")
        self.server.start()

    def write_key(self, key: str) -> None:
        self.key.write_text(key)
        self.key.chmod(0o600)

    def write(self, more: str, model: str = "stub-model") -> None:
        provider = self.stub.provider_config("openai", model=model).replace("env:STUB_MODEL_KEY", f"file:{self.key}")
        self.server.config_file.write_text(provider + more)

    def reload(self) -> dict:
        done = self.patchboard(self.server, "reload", "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def assert_changed(self, changed: list[str], needs_restart: list[str] = []) -> None:
        report = self.reload()
        self.assertEqual((report["changed"], report["needs_restart"]), (changed, needs_restart), report)

    def test_what_changed_is_taken_over_key_by_key(self) -> None:
        with Gateway(self.server) as gateway:
            with self.subTest("nothing"):
                self.assert_changed([])
                self.assertIn("nothing has changed", self.patchboard(self.server, "reload").stdout)

            with self.subTest("a provider's key"):
                release = threading.Event()
                self.addCleanup(release.set)
                self.stub.script(Reply(Text("a"), Hold(release), Text("b")))
                running = gateway.start("hi")
                gateway.until(running, "text")
                self.write_key("second-key-0123456789")
                self.assert_changed(["providers.main.api_key"])
                release.set()
                self.assertEqual(gateway.turn(running).text, "b", "what has begun goes on")
                gateway.chat("hi")
                keys = [request.headers["authorization"] for request in self.stub.requests]
                self.assertEqual(keys, ["Bearer first-key-0123456789", "Bearer second-key-0123456789"])

            with self.subTest("a model and an approval rule"):
                self.write('[tools.approval]\n"*" = "deny"\n', model="other-model")
                self.assert_changed(["agents.default.model", 'tools.approval."*"'])
                self.stub.script(Reply(Call("glob", {"pattern": "*"})), Reply(Text("done")))
                refused = gateway.chat("list it")
                self.assertIn("not allowed here", refused.data("tool_result")[0]["content"])
                self.assertEqual(self.stub.requests[-1].body["model"], "other-model")

            with self.subTest("a limit and a budget"):
                self.write("[limits]\nsession_queue = 1\n[budgets]\ndaily = 1\n")
                changed = ["agents.default.model", "budgets.daily", 'tools.approval."*"', "limits.session_queue"]
                self.assert_changed(changed)
                self.assertIn("token budget exceeded", gateway.answer("chat.send", channel="c", account="a", content="x")["error"])
                self.write("")
                self.assert_changed(["budgets.daily", "limits.session_queue"])

            with self.subTest("an agent and a binding to it"):
                more = '[agents.second]\nprovider = "main"\nmodel = "second-model"\n[[bindings]]\nagent = "second"\naccount = "bob"\n'
                self.write(more)
                self.assert_changed(["agents.second", "bindings"])
                gateway.chat("hi", account="bob")
                self.assertEqual(self.stub.requests[-1].body["model"], "second-model")
                self.write("")
                self.assert_changed(["agents.second", "bindings"])

            with self.subTest("what needs a restart"):
                self.write('[log]\nformat = "human"\n[limits]\ntool_timeout = "9s"\nplugin_calls = 3\n')
                self.assert_changed(["limits.tool_timeout"], ["limits.plugin_calls", "log.format"])
                shown = self.patchboard(self.server, "reload").stdout
                self.assertEqual(shown, "needs a restart:\n  limits.plugin_calls\n  log.format\n")
                self.write("")
                self.assert_changed(["limits.tool_timeout"])

            with self.subTest("a broken file"):
                for broken in ("[gateway\n", '[limits]\nsession_queue = "many"\n', '[agents.x]\nprovider = "nobody"\n'):
                    self.write(broken + '[tools.approval]\n"*" = "deny"\n')
                    done = self.patchboard(self.server, "reload")
                    self.assertEqual(done.returncode, 2, done.stdout)
                    self.assertIn("nothing was taken over", done.stderr)
                    self.assertIn("patchboard.toml:", done.stderr)
                self.stub.script(Reply(Call("glob", {"pattern": "*"})), Reply(Text("done")))
                self.assertFalse(gateway.chat("list it").data("tool_result")[0]["is_error"], "the old rules count")
                self.write("")
                self.assert_changed([])

            with self.subTest("only the operator"):
                for method in ("server.reload", "server.status"):
                    self.assertIn("operate", gateway.answer(method)["error"])
        everything = self.server.log() + "".join(
            file.read_bytes().decode("latin-1") for file in self.server.data_dir.rglob("*") if file.is_file() and file != self.key
        )
        for key in ("first-key-0123456789", "second-key-0123456789"):
            self.assertNotIn(key, everything)

    def test_sighup_reloads_and_the_log_filter_changes(self) -> None:
        self.write('[log]\nfilter = "trace"\n')
        os.kill(self.server.pid, signal.SIGHUP)
        eventually(lambda: "changed: log.filter" in self.server.log(), "the reload is logged")
        with Gateway(self.server) as gateway:
            gateway.chat("hi")
        traces = lambda: self.patchboard(self.server, "logs", "--json", "-n", "100000").stdout.count('"level":"TRACE"')
        eventually(lambda: traces() > 0, "more is logged")
        self.write('[log]\nfilter = "nonsense=loud"\n')
        done = self.patchboard(self.server, "reload")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("filter", done.stderr)
        self.write('[log]\nfilter = "error"\n')
        self.assert_changed(["log.filter"])
        # What was logged just before is in the file by now: it is written before the answer to the reload.
        before = traces()
        with Gateway(self.server) as gateway:
            gateway.chat("hi")
        self.assertEqual(traces(), before)
        self.assertTrue(self.server.is_running)


class CertificatesTest(CommandTestCase):
    def write(self, name: str) -> None:
        certificate, key = self.authority.issue(name)
        (self.server.folder / "cert.pem").write_bytes(certificate)
        (self.server.folder / "key.pem").write_bytes(key)
        (self.server.folder / "key.pem").chmod(0o600)

    def served(self) -> str:
        """The common name of the certificate that the bridge shows."""
        host, port = self.server.address("bridge").rsplit(":", 1)
        context = ssl.create_default_context(cadata=self.authority.pem().decode())
        context.set_alpn_protocols(["h2"])
        with socket.create_connection((host, int(port)), TIMEOUT) as plain:
            with context.wrap_socket(plain, server_hostname=host) as secure:
                return dict(entry[0] for entry in secure.getpeercert()["subject"])["commonName"]

    def test_the_bridge_shows_its_new_certificate(self) -> None:
        self.authority = Authority()
        self.server = Server(bridge="127.0.0.1:0", config='[bridge.tls]\ncert = "cert.pem"\nkey = "key.pem"\n')
        self.addCleanup(self.server.close)
        self._own_servers.append(self.server)
        self.write("first")
        self.server.start()
        self.assertEqual(self.served(), "first")
        self.write("second")
        done = self.patchboard(self.server, "reload", "--json")
        self.assertEqual(json.loads(done.stdout)["changed"], ["bridge.tls"], done.stderr)
        self.assertEqual(self.served(), "second")
        (self.server.folder / "cert.pem").write_text("no certificate")
        done = self.patchboard(self.server, "reload")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("bridge.tls", done.stderr)
        self.assertEqual(self.served(), "second")


class LogsTest(CommandTestCase):
    def test_logs_are_shown_followed_over_rotation_and_harmless(self) -> None:
        server = self.start_server()
        logs = server.data_dir / "logs"
        newest = logs / "patchboard.log"
        self.assertEqual((logs.stat().st_mode & 0o777, newest.stat().st_mode & 0o777), (0o700, 0o600))
        shown = self.patchboard(server, "logs")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn(" INFO ready: gateway on", shown.stdout)
        lines = [json.loads(line) for line in self.patchboard(server, "logs", "--json").stdout.splitlines()]
        self.assertTrue(any(line["message"].startswith("ready: ") for line in lines), lines)
        self.assertEqual(self.patchboard(server, "logs", "--level", "error").stdout, "")
        self.assertEqual(server.terminate(), 0)

        # No server is needed from here on.
        self.assertIn("stopped", self.patchboard(server, "logs", "-n", "1").stdout)
        follower = subprocess.Popen(
            [binary(), "logs", "-f", "-n", "1", "--data-dir", str(server.data_dir)],
            env=server.environment(),
            cwd=server.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(follower.wait)
        self.addCleanup(follower.stdout.close)
        self.addCleanup(follower.kill)
        self.assertIn("stopped", follower.stdout.readline())

        def say(text: str) -> None:
            with open(newest, "a") as log:
                log.write(json.dumps({"timestamp": "2026-11-19T07:01:02Z", "level": "INFO", "message": text}) + "\n")

        say("before \x1b[2J")
        self.assertTrue(follower.stdout.readline().endswith(" INFO before \\u{1b}[2J\n"))
        with open(newest, "a") as log:
            log.write("not JSON \x1b]0;title\x07\n")
        self.assertEqual(follower.stdout.readline(), "not JSON \\u{1b}]0;title\\u{7}\n")
        # A full file: the server's own next start and line rotate it.
        with open(newest, "a") as log:
            log.write("x" * (10 * 1024 * 1024) + "\n")
        server.start()
        rest = (line for line in follower.stdout if "ready: gateway" in line)
        self.assertTrue(next(rest), "the new file is followed")
        self.assertTrue((logs / "patchboard.log.1").exists())
        self.assertLess(newest.stat().st_size, 1024 * 1024)

    def test_a_log_that_cannot_be_written_does_not_stop_the_server(self) -> None:
        server = Server()
        self.addCleanup(server.close)
        self._own_servers.append(server)
        victim = server.folder / "victim"
        victim.write_text("")
        (server.data_dir / "logs").mkdir(parents=True)
        server.data_dir.chmod(0o700)
        (server.data_dir / "logs/patchboard.log").symlink_to(victim)
        server.start()
        with Gateway(server) as gateway:
            self.assertEqual(gateway.result("ping"), "pong")
        self.assertIn("no log file is written", server.log())
        self.assertEqual(victim.read_text(), "")

    def test_without_a_log_it_says_what_to_do(self) -> None:
        server = Server()
        self.addCleanup(server.close)
        done = self.patchboard(server, "logs")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("patchboard serve", done.stderr)


if __name__ == "__main__":
    unittest.main()
