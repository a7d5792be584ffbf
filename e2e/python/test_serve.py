"""`patchboard serve` as a program: ready file, signals, one server for one data directory."""

from __future__ import annotations

import os
import signal
import subprocess
import unittest
import urllib.request

from patchboard_server import ServerTestCase, binary

TIMEOUT = 60


def health(server) -> str:
    with urllib.request.urlopen(f"{server.http_url}/health", timeout=TIMEOUT) as response:
        return response.read().decode()


class ServeTest(ServerTestCase):
    def test_the_ready_file_tells_the_truth(self) -> None:
        server = self.start_server()
        self.assertEqual(server.ready["pid"], server.pid)
        self.assertRegex(server.ready["version"], r"^\d+\.\d+\.\d+")
        self.assertEqual({name: server.ready[name] for name in ("runs", "hub", "bridge")}, dict(runs=None, hub=None, bridge=None))
        self.assertEqual(health(server), "ok")

    def test_sigterm_and_ctrl_c_end_it_well(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number):
                server = self.start_server()
                code = server.terminate() if number == signal.SIGTERM else server.interrupt()
                self.assertEqual(code, 0)

    def test_it_comes_back_after_a_kill(self) -> None:
        server = self.start_server()
        server.kill()
        server.restart()
        self.assertEqual(health(server), "ok")

    def test_a_second_server_on_the_same_data_is_refused_with_the_first_one_s_pid(self) -> None:
        server = self.start_server()
        second = self.serve("--data-dir", str(server.data_dir), "--gateway", "127.0.0.1:0", *OTHERS_OFF)
        self.assertEqual(second.returncode, 2, second.stderr)
        self.assertIn(str(server.pid), second.stderr)
        self.assertEqual(health(server), "ok")

    def test_a_taken_port_and_a_bad_config_are_told_in_words(self) -> None:
        server = self.start_server()
        fresh = ("--data-dir", str(server.folder / "other"))
        taken = self.serve(*fresh, "--gateway", server.gateway, *OTHERS_OFF)
        self.assertEqual(taken.returncode, 2, taken.stderr)
        self.assertIn(server.gateway, taken.stderr)
        config = server.folder / "bad.toml"
        config.write_text('[gateway]\nlissten = "127.0.0.1:0"\n')
        bad = self.serve(*fresh, "--config", str(config))
        self.assertEqual(bad.returncode, 2, bad.stderr)
        self.assertIn("lissten", bad.stderr)
        self.assertIn("listen", bad.stderr.replace("lissten", ""))

    def serve(self, *arguments: str) -> subprocess.CompletedProcess:
        """Runs a server that is expected to give up at once."""
        command = [binary(), "serve", *arguments]
        environment = {**os.environ, "NO_COLOR": "1"}
        return subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT
        )


OTHERS_OFF = ("--runs", "off", "--hub", "off", "--bridge", "off")


if __name__ == "__main__":
    unittest.main()
