"""Workers as processes: their environment, their sandbox, their output, and that none outlives the server."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import unittest
from pathlib import Path

import outside_numbers
from bridge_case import LONG, WORKERS, BridgeTestCase, Pool, SharedBridgeCase, is_alive, peak_mebibytes
from bridge_client import TIMEOUT
from gateway_client import eventually
from runs_client import processes_with


class EndTest(BridgeTestCase):
    def start(self, before: str = "", **keys) -> None:
        self.py = self.pool(**keys)
        self.serve("", self.py, before=before)
        self.bridge.open()

    def test_none_outlives_a_killed_server(self) -> None:
        self.start(count=3)
        child = self.bridge.value("spawn")
        # A process that is just becoming another program has no command line.
        eventually(lambda: len(processes_with(child)) == 1, "its child has begun")
        pids = {*self.py.pids(), *processes_with(child)}
        self.assertEqual(len(pids), 4)
        self.server.kill()
        eventually(lambda: not any(is_alive(pid) for pid in pids), "all are gone", TIMEOUT)
        self.assertEqual(self.py.pids(), set())

    def test_nor_one_that_is_only_starting(self) -> None:
        self.py = self.pool(count=2, env={"FIXTURE_IMPORT_SECONDS": "600"})
        self.server = self.start_server(config=self.py.config, bridge="127.0.0.1:0")
        eventually(lambda: len(self.notes.lines("starts")) == 2, "they start")
        self.server.kill()
        eventually(lambda: not self.py.pids(), "all are gone", TIMEOUT)

    def test_nor_one_that_is_stopped(self) -> None:
        self.start()
        (pid,) = self.py.pids()
        os.kill(pid, signal.SIGSTOP)
        self.server.kill()
        eventually(lambda: not is_alive(pid), "it is gone", TIMEOUT)

    def test_a_server_that_is_told_to_end_ends_them_first(self) -> None:
        self.start(count=2)
        child = self.bridge.value("spawn")
        eventually(lambda: len(processes_with(child)) == 1, "its child has begun")
        pids = self.py.pids()
        self.assertEqual(self.server.terminate(2 * TIMEOUT), 0)
        self.assertEqual([pid for pid in pids if is_alive(pid)], [])
        eventually(lambda: not processes_with(child), "what they started is gone", TIMEOUT)

    def test_a_running_call_is_waited_for_when_it_is_short(self) -> None:
        self.start()
        call = self.in_background(lambda: self.bridge.outcome("nap", {"seconds": 1, "name": "short"}))
        self.notes.wait_for("nap", "short")
        self.assertEqual(self.server.terminate(), 0)
        self.assertTrue(call.result(30).success, call.result())

    def test_and_does_not_hold_up_the_end_when_it_is_long(self) -> None:
        self.start(before='drain = "1s"\n')
        self.in_background(lambda: self.bridge.outcome("nap", {"seconds": LONG, "name": "long"}, timeout=LONG))
        self.notes.wait_for("nap", "long")
        self.assertEqual(self.server.terminate(2 * TIMEOUT), 0)
        self.assertEqual(self.py.pids(), set())
        self.assertEqual(self.notes.lines("nap-done"), [])

    def test_after_a_restart_there_are_new_ones(self) -> None:
        self.start(count=2)
        before = self.py.pids()
        self.server.kill()
        self.server.start()
        eventually(lambda: len(self.py.ready_pids() - before) == 2, "new ones", TIMEOUT)
        eventually(lambda: not (self.py.pids() & before), "without the old ones", TIMEOUT)


class SurroundingsTest(BridgeTestCase):
    def about(self, *, env: dict | None = None, **keys) -> dict:
        self.py = self.pool(env=env, **keys)
        secrets = {"E2E_CANARY": "do-not-tell", "AWS_SECRET_ACCESS_KEY": "do-not-tell"}
        self.serve("", self.py, env={"PYTHONPATH": "/from/outside", **secrets})
        self.bridge.open()
        return self.bridge.value("about")

    def test_the_command_line(self) -> None:
        argv = self.about()["argv"]
        self.assertEqual(argv[:3], ["grpc_server.py", "--adapter", "adapters.Tools"])
        flags = dict(zip(argv[1::2], argv[2::2], strict=True))
        self.assertEqual(self.report()["workers"][0]["address"], f"127.0.0.1:{flags['--port']}")
        self.assertRegex(flags["--elixir-address"], r"^(127\.0\.0\.1|localhost):\d+$")
        self.assertNotEqual(
            flags["--elixir-address"].rsplit(":", 1)[1], self.server.address("bridge").rsplit(":", 1)[1]
        )
        self.assertRegex(flags["--snakepit-run-id"], r"^[0-9a-z]+$")

    def test_a_flag_that_is_there_is_not_added(self) -> None:
        command = [sys.executable, "grpc_server.py", "--adapter", "adapters.Tools", "--snakepit-run-id", "myrun"]
        self.py = self.pool(command=command)
        self.serve("", self.py)
        self.bridge.open()
        argv = self.bridge.value("about")["argv"]
        self.assertEqual(argv.count("--snakepit-run-id"), 1)
        self.assertEqual(argv[argv.index("--snakepit-run-id") + 1], "myrun")

    def test_each_has_an_address_of_its_own(self) -> None:
        self.about(count=2, capacity=1)
        addresses = set()
        for session in [self.session() for _ in range(8)]:
            argv = self.bridge.value("about", session=session)["argv"]
            addresses.add(argv[argv.index("--elixir-address") + 1])
        busy = self.hold("busy")
        argv = self.bridge.value("about", session=self.session())["argv"]
        addresses.add(argv[argv.index("--elixir-address") + 1])
        self.notes.release("busy")
        busy.result(TIMEOUT)
        self.assertEqual(len(addresses), 2, addresses)

    def test_the_environment(self) -> None:
        told = self.about(env={"MINE": "yes", "OMP_NUM_THREADS": "4"})
        env = told["environment"]
        for name, value in {
            "SNAKEPIT_PROCESS_GROUP": "1",
            "SNAKEPIT_OTEL_CONSOLE": "false",
            "OPENBLAS_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "NUMEXPR_NUM_THREADS": "1",
            "VECLIB_MAXIMUM_THREADS": "1",
            "GRPC_POLL_STRATEGY": "poll",
            "GRPC_VERBOSITY": "ERROR",
            "PYTHONUNBUFFERED": "1",
            "MINE": "yes",
            "OMP_NUM_THREADS": "4",
        }.items():
            self.assertEqual(env.get(name), value, name)
        self.assertIn(env["SNAKEPIT_LOG_LEVEL"], ("debug", "info", "warning", "error", "none"))
        self.assertTrue(os.path.isabs(env["SNAKEPIT_READY_FILE"]))
        beat = json.loads(env["SNAKEPIT_HEARTBEAT_CONFIG"])
        self.assertEqual(
            {
                name: beat[name]
                for name in ("enabled", "interval_ms", "timeout_ms", "max_missed_heartbeats", "dependent")
            },
            {"enabled": True, "interval_ms": 2000, "timeout_ms": 10000, "max_missed_heartbeats": 3, "dependent": True},
        )
        self.assertNotIn("do-not-tell", json.dumps(env), "secrets stay outside")
        self.assertIn("/from/outside", env.get("PYTHONPATH", ""))
        self.assertTrue(told["leads_its_group"], "a process group of its own")
        self.assertEqual(os.path.realpath(told["cwd"]), os.path.realpath(WORKERS))

    def test_the_ready_file_is_taken_away(self) -> None:
        ready = self.about()["environment"]["SNAKEPIT_READY_FILE"]
        eventually(lambda: not os.path.exists(ready), "it is deleted")

    def test_without_a_folder_it_runs_where_the_configuration_is(self) -> None:
        self.py = self.pool(command=[sys.executable, str(WORKERS / "grpc_server.py"), "--adapter", "adapters.Tools"])
        config = "\n".join(line for line in self.py.config.splitlines() if not line.startswith("working_folder"))
        # Agents work elsewhere: in their folder the worker would get no further than they do.
        apart = tempfile.mkdtemp(prefix="patchboard-e2e-apart-")
        self.addCleanup(shutil.rmtree, apart, True)
        config += f'\n[runs]\nworking_folder = "{apart}"\nallowed_roots = ["{apart}"]\n'
        self.server = self.start_server(config=config, bridge="127.0.0.1:0")
        self.bridge = self.client()
        eventually(lambda: "about" in self.bridge.tools(), "the tools")
        self.assertEqual(os.path.realpath(self.bridge.value("about")["cwd"]), os.path.realpath(self.server.folder))

    def test_printing_without_end_blocks_nothing(self) -> None:
        self.about()
        self.assertEqual(self.bridge.value("chatter", {"megabytes": 16}, timeout=120), 16)
        self.assertEqual(self.bridge.value("add", {"a": 1, "b": 2}), 3)
        self.assertLess(self.server.log_file.stat().st_size, 4 << 20, "and does not fill the disk")


class SandboxTest(SharedBridgeCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.py = Pool(cls.make_notes())
        cls.serve_all("", cls.py)

    def reads(self, path) -> bool:
        return self.bridge.call("peek", {"path": str(path)}).success

    def writes(self, path) -> bool:
        return self.bridge.call("scribble", {"path": str(path)}).success

    def skip_without_sandbox(self) -> None:
        if "confined by Landlock" not in self.server.log():
            self.skipTest("this kernel has no Landlock")

    def test_what_it_needs_it_can_read(self) -> None:
        for path in (WORKERS / "adapters.py", sys.executable, os.__file__):
            self.assertTrue(self.reads(path), path)

    def test_it_cannot_read_the_data_directory(self) -> None:
        self.skip_without_sandbox()
        files = [path for path in self.server.data_dir.rglob("*") if path.is_file()]
        self.assertTrue(files)
        self.assertEqual([path for path in files if self.reads(path)], [])

    def test_it_writes_only_where_it_may(self) -> None:
        self.skip_without_sandbox()
        self.assertTrue(self.writes(self.notes.folder / "allowed"))
        own = f"{self.py.mark}.tmp"
        for path in (self.server.folder / own, self.server.data_dir / own, WORKERS / own, Path("/var/tmp") / own):
            with self.subTest(str(path)):
                self.assertFalse(self.writes(path))
                self.assertFalse(os.path.exists(path))

    def test_it_has_a_private_folder(self) -> None:
        env = self.bridge.value("about")["environment"]
        folder = env.get("TMPDIR")
        self.assertTrue(folder)
        self.assertTrue(self.writes(f"{folder}/mine"))

    def test_it_cannot_call_the_public_listener_as_somebody_else(self) -> None:
        """Only what is offered to everybody: nothing that its own address does not give it."""
        own = self.bridge.value("host_tools")
        self.assertNotIn("bash", own)


class PlaceTest(BridgeTestCase):
    def test_scripts_anywhere_can_run(self) -> None:
        """The sandbox hides nothing that the command needs, wherever it lies."""
        for place in (tempfile.gettempdir(), Path.home()):
            with self.subTest(str(place)):
                outer = Path(tempfile.mkdtemp(prefix="patchboard-place-", dir=place))
                self.addCleanup(shutil.rmtree, outer, ignore_errors=True)
                folder = outer / "deep" / "inside of somewhere"
                shutil.copytree(WORKERS, folder, ignore=shutil.ignore_patterns("__pycache__"))
                shutil.copy(outside_numbers.__file__, folder)
                self.serve("", self.pool(folder=folder))
                self.bridge.open()
                self.assertEqual(self.bridge.value("add", {"a": 1, "b": 2}), 3)


class MemoryTest(BridgeTestCase):
    def test_a_limit_on_memory_is_kept(self) -> None:
        self.serve("", self.pool(memory_limit="512MiB", capacity=2))
        self.bridge.open()
        pid = self.bridge.value("hog", {"mebibytes": 10})
        self.bridge.outcome("hog", {"mebibytes": 4096})
        if is_alive(int(pid)):
            self.assertLess(peak_mebibytes(int(pid)), 1024)


if __name__ == "__main__":
    unittest.main()
