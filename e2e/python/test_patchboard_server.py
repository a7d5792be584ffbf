"""The server helper itself, with a stand-in for the binary."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path
from unittest import mock

from patchboard_server import NotReady, Server, ServerTestCase

# Obeys the command line that the helper promises to use.
STAND_IN = """\
#!{python}
import argparse, json, os, pathlib, signal, sys, threading
parser = argparse.ArgumentParser()
parser.add_argument("verb", choices=["serve"])
for name in ["data-dir", "ready-file", "gateway", "runs", "hub", "bridge"]:
    parser.add_argument("--" + name, required=True)
parser.add_argument("--config")
parser.add_argument("--mode", default="good")
arguments = parser.parse_args()
data = pathlib.Path(arguments.data_dir)
data.mkdir(exist_ok=True)
starts = int((data / "starts").read_text()) + 1 if (data / "starts").exists() else 1
(data / "starts").write_text(str(starts))
print("start", starts, file=sys.stderr, flush=True)
if arguments.config:
    print("config:", pathlib.Path(arguments.config).read_text(), file=sys.stderr, flush=True)
print("key:", os.environ.get("OPENAI_API_KEY"), "extra:", os.environ.get("EXTRA"), file=sys.stderr, flush=True)
stop = threading.Event()
signal.signal(signal.SIGINT, lambda *_: stop.set())
signal.signal(signal.SIGTERM, lambda *_: None if arguments.mode == "deaf" else stop.set())
if arguments.mode == "dies":
    sys.exit(2)
if arguments.mode != "mute":
    ready = pathlib.Path(arguments.ready_file)
    listen = lambda address: None if address == "off" else "127.0.0.1:4711"
    report = dict(pid=os.getpid(), version="0", **{{name: listen(getattr(arguments, name)) for name in ["gateway", "runs", "hub", "bridge"]}})
    ready.with_suffix(".tmp").write_text(json.dumps(report))
    os.replace(ready.with_suffix(".tmp"), ready)
stop.wait()
print("bye", file=sys.stderr, flush=True)
"""


class ServerHelperTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        program = Path(folder.name) / "patchboard"
        program.write_text(STAND_IN.format(python=sys.executable))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        environment = {"PATCHBOARD_BIN": str(program), "OPENAI_API_KEY": "secret", "PATCHBOARD__X": "1"}
        patched = mock.patch.dict(os.environ, environment)
        patched.start()
        self.addCleanup(patched.stop)

    def server(self, **options) -> Server:
        server = Server(**options)
        self.addCleanup(server.close)
        return server

    def test_it_starts_with_addresses_config_and_a_clean_environment(self) -> None:
        server = self.server(config="[budgets]", env={"EXTRA": "yes"}).start()
        self.assertEqual((server.ws_url, server.http_url), ("ws://127.0.0.1:4711/ws", "http://127.0.0.1:4711"))
        self.assertEqual(server.ready["pid"], server.pid)
        self.assertIn("config: [budgets]", server.log())
        self.assertIn("key: None extra: yes", server.log())
        self.assertNotIn("PATCHBOARD__X", server.environment())
        with self.assertRaisesRegex(AssertionError, "does not listen on runs"):
            server.address("runs")

    def test_terminate_and_interrupt_give_the_exit_code(self) -> None:
        self.assertEqual(self.server().start().terminate(), 0)
        self.assertEqual(self.server().start().interrupt(), 0)

    def test_the_data_outlives_a_kill_and_a_restart(self) -> None:
        server = self.server().start()
        first = server.pid
        server.kill()
        self.assertFalse(server.is_running)
        server.restart()
        self.assertNotEqual(server.pid, first)
        server.restart()
        self.assertEqual((server.data_dir / "starts").read_text(), "3")
        self.assertEqual(server.log().count("bye"), 1)

    def test_a_server_that_dies_is_reported_with_its_log(self) -> None:
        with self.assertRaisesRegex(NotReady, "(?s)ended with 2 before it was ready.*start 1"):
            self.server(arguments=("--mode", "dies")).start()

    def test_a_server_that_is_never_ready_is_killed_and_reported(self) -> None:
        server = self.server(arguments=("--mode", "mute"))
        with self.assertRaisesRegex(NotReady, "not ready after 1.0 s"):
            server.start(timeout=1.0)
        self.assertFalse(server.is_running)

    def test_a_server_that_does_not_stop_is_killed_and_reported(self) -> None:
        server = self.server(arguments=("--mode", "deaf")).start()
        with self.assertRaisesRegex(AssertionError, "did not end within 0.2 s"):
            server.terminate(timeout=0.2)
        self.assertFalse(server.is_running)

    def test_closing_removes_the_folder_and_keeps_the_log(self) -> None:
        with self.server() as server:
            folder = server.folder
        self.assertFalse(folder.exists() or server.is_running)
        self.assertIn("start 1", server.log())

    def test_a_failing_test_shows_the_log(self) -> None:
        class Failing(ServerTestCase):
            def runTest(self) -> None:
                self.start_server()
                self.fail("on purpose")

        class Passing(ServerTestCase):
            def runTest(self) -> None:
                self.start_server()

        for case, shown in [(Failing, True), (Passing, False)]:
            with mock.patch("sys.stderr") as stderr:
                case().run(unittest.TestResult())
            written = "".join(call.args[0] for call in stderr.write.call_args_list)
            self.assertEqual("start 1" in written, shown, textwrap.shorten(written, 200))


if __name__ == "__main__":
    unittest.main()
