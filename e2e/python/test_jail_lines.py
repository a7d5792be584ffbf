"""A worker answers its server only, and its line to the server is its own: not another worker, nor an MCP server, nor a
command reaches either, by whatever port or socket.

`test_jail.AsAnotherUser` runs this once more as an ordinary user.
"""

from __future__ import annotations

import json
import os
import sys
import unittest
from pathlib import Path

import grpc
import jail_attacks
from bridge_case import Notes, Pool
from gateway_client import Gateway, eventually
from jail_case import HERE, PACKAGES, PORTS, SDK, JailTestCase, landlock, quoted

REFUSED = "EACCES"
SDK_WORKER = [sys.executable, "-m", "patchboard.worker", "jail_tools.py"]


class LinesTest(JailTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.notes = Notes()
        self.addCleanup(self.notes.close)

    def start_all(self, bash: str = "", **options) -> None:
        """A server with two pools of the SDK, one of unmodified workers, and an MCP server."""
        paths = {"PYTHONPATH": os.pathsep.join([str(SDK), *PACKAGES])}
        pools = [
            Pool(self.notes, "one", command=SDK_WORKER, env=paths),
            Pool(self.notes, "two", command=SDK_WORKER, env=paths),
            Pool(self.notes, "old", env=paths),
        ]
        command = quoted([sys.executable, str(HERE / "jail_mcp.py")])
        mcp = f'[mcp.attacker]\ncommand = {command}\nenv = {{ PYTHONPATH = "{os.pathsep.join(PACKAGES)}" }}\n'
        workers = "".join(pool.config for pool in pools)
        self.start(f"{bash}{mcp}{workers}", bridge="127.0.0.1:0", gateway="127.0.0.1:0", **options)
        for name in ("one", "two", "old"):
            eventually(lambda: self.worker(name)["state"] == "ready", f"a worker of {name}", 120)  # noqa: B023
        self.wait_for("attacker.attack")

    def worker(self, pool: str) -> dict:
        with Gateway(self.server) as gateway:
            reports = gateway.result("worker.list")["items"]
        return next(one for one in reports if one["name"] == pool)["workers"][0]

    def ports(self, pool: str) -> list[int]:
        """Which it was told: to be called on, and to call back on."""
        words = Path(f"/proc/{self.worker(pool)['pid']}/cmdline").read_text().split("\0")
        return [int(words[words.index(flag) + 1].rsplit(":", 1)[-1]) for flag in ("--port", "--elixir-address")]

    def wait_for(self, tool: str) -> None:
        def offered() -> bool:
            listed = self.runs.ask("tools_list", id="t", working_folder=str(self.work))
            return tool in json.dumps(listed)

        eventually(offered, f"the tool {tool}", 120)

    def test_nobody_but_the_server_is_answered_by_a_worker(self) -> None:
        self.start_all()
        address = self.worker("one")["address"]
        self.assertTrue(address.startswith("unix:/"), address)
        # From outside of any jail, from an MCP server and from another worker.
        answers = {
            "outside": jail_attacks.knock(address),
            "mcp": json.loads(self.call("attacker.knock", {"address": address})["result"]),
            "worker": json.loads(self.call("two.knock", {"address": address})["result"]),
        }
        for who, answer in answers.items():
            with self.subTest(who):
                self.assertEqual(set(answer.values()), {"UNAUTHENTICATED"}, answer)
        # And it still works.
        self.assertEqual(self.call("knock", {"address": "unix:/nobody"})["is_error"], False)

    def test_nor_is_anybody_taken_for_it_on_its_line(self) -> None:
        self.start_all()
        line = self.ports("one")[1]
        self.assertEqual(jail_attacks.knock(f"127.0.0.1:{line}")["Ping"], "UNAUTHENTICATED")
        # A worker of another make knows no secret, and goes on.
        line = self.ports("old")[1]
        self.assertEqual(jail_attacks.knock(f"127.0.0.1:{line}")["Ping"], "OK")
        self.assertFalse(self.call("add", {"a": 1, "b": 2})["is_error"])

    def test_the_ports_of_workers_are_closed_to_every_jail_but_their_own(self) -> None:
        if landlock() < PORTS:
            self.skipTest(f"this takes Landlock {PORTS}")
        self.start_all("connect_any = true\nlisten = true\n")
        one, two, old = (self.ports(pool) for pool in ("one", "two", "old"))
        self.assertEqual(self.worker("old")["address"], f"127.0.0.1:{old[0]}")
        every = [*one, *two, *old]
        self.assertEqual(len(set(every)), 6)
        command = f"{sys.executable} {HERE}/jail_attacks.py ports {' '.join(map(str, every))}"
        seen = {
            "bash": json.loads(self.bash(command)["result"].splitlines()[0]),
            "mcp": json.loads(self.call("attacker.reach", {"ports": every})["result"]),
            "worker": json.loads(self.call("reach", {"ports": every})["result"]),
        }
        for who, outcomes in seen.items():
            for port in every:
                with self.subTest(f"{who} {port}"):
                    found = outcomes[str(port)]
                    if who == "worker" and port in one:
                        # Its own: the line is there, and of the other it may do as it likes.
                        self.assertNotIn(REFUSED, found.values(), found)
                    else:
                        self.assertEqual(found, {"connect": REFUSED, "bind": REFUSED})
        self.assertEqual(seen["worker"][str(one[1])]["connect"], "done")
        # Other ports are as open as the key says.
        free = self.bash(f"{sys.executable} {HERE}/jail_attacks.py ports 0")["result"].splitlines()[0]
        self.assertEqual(json.loads(free)["0"]["bind"], "done")
        self.assertFalse(self.call("add", {"a": 1, "b": 2})["is_error"], "the unmodified worker works")

    def test_without_a_free_port_a_worker_is_not_started_and_its_pool_says_why(self) -> None:
        paths = {"PYTHONPATH": os.pathsep.join([str(SDK), *PACKAGES])}
        pool = Pool(self.notes, "one", command=SDK_WORKER, env=paths, count=2)
        before = "[bridge]\nprivate_ports = 2\n"
        self.start(pool.config, bridge="127.0.0.1:0", gateway="127.0.0.1:0", before=before)

        def trouble() -> str:
            with Gateway(self.server) as gateway:
                (report,) = gateway.result("worker.list")["items"]
            return report.get("trouble") or ""

        eventually(lambda: "bridge.private_ports" in trouble(), "the pool's trouble", 120)
        self.wait_for("knock")
        self.assertEqual(len(pool.pids()), 1)


class KnockTest(unittest.TestCase):
    def test_it_tells_what_it_is_answered(self) -> None:
        """A knock that cannot succeed would make the tests above pass for nothing."""
        server = grpc.server(jail_attacks.one_thread())
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(server.stop, 0)
        self.assertEqual(set(jail_attacks.knock(f"127.0.0.1:{port}").values()), {"UNIMPLEMENTED"})


if __name__ == "__main__":
    unittest.main()
