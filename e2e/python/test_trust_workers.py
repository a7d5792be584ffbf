"""A worker whose script lies where agents work: it has no wider rights than they, and what an agent made of its script is
not started until the operator has looked at it."""

from __future__ import annotations

import os
import sys
import unittest
from pathlib import Path

from gateway_client import eventually
from trust_case import NAMED, Owner, TrustTestCase, quoted

HERE = Path(__file__).resolve().parent
SDK = HERE.parents[1] / "sdk/python/src"
REPLACED = 60

SCRIPT = """\
import os, pathlib
from patchboard import serve, tool

{first}

@tool(read_only=True)
def whoami() -> str:
    return "{name}"

@tool
def leave(path: str) -> str:
    pathlib.Path(path).write_text("left")
    return "left"

@tool
def vanish() -> str:
    os._exit(3)

serve()
"""


class Ways:
    def setUp(self) -> None:
        super().setUp()
        self.alice = self.owner(NAMED)
        self.scripts = self.alice.work / "tools"
        self.scripts.mkdir()
        self.script = self.scripts / "tools.py"
        self.script.write_text(SCRIPT.format(first="", name="hers"))
        path = os.pathsep.join([str(SDK), *(one for one in sys.path if one.endswith("site-packages"))])
        self.alice.file.write_text(
            f'[[workers]]\nname = "py"\ncommand = {quoted([sys.executable, "tools.py"])}\n'
            f"working_folder = {quoted(str(self.scripts))}\nwritable = {quoted([str(self.alice.outside)])}\n"
            f"env = {{ PYTHONPATH = {quoted(path)} }}\n"
        )
        self.alice.server.start()
        self.wait_for_worker()

    def wait_for_worker(self) -> None:
        eventually(lambda: "whoami" in self.command("tools", "list"), "the worker's tools are there", REPLACED)

    def command(self, *arguments: str) -> str:
        return self.alice.command(*arguments)

    def leave(self, path: Path) -> bool:
        self.command("tools", "call", "--yes", "leave", f'{{"path": "{path}"}}')
        return path.exists()

    def rewrite_and_replace(self) -> None:
        """What the attack did: an unasked command rewrites the script, then the worker is made to start again."""
        evil = SCRIPT.format(first=f'open("{self.alice.work}/started", "w")', name="the agent's")
        (self.alice.work / "evil.py").write_text(evil)
        self.alice.bash(f"cp evil.py {self.script}; touch {self.scripts}/added.py; true")
        # What exists is mounted read-only where there are namespaces; then only a file beside it can be added.
        self.assertEqual(self.script.read_text() == evil, not self.namespaces)
        self.assertTrue((self.scripts / "added.py").exists())
        self.command("tools", "call", "--yes", "vanish", "{}")

    def test_it_gets_no_further_than_a_command(self) -> None:
        self.assertFalse(self.leave(self.alice.outside / "left"), "`writable` does not count for it")
        self.assertTrue(self.leave(self.alice.work / "left"))
        self.assertFalse(self.leave(self.alice.home / "left"))

    def test_the_rewritten_one_is_not_started_until_it_is_trusted(self) -> None:
        self.rewrite_and_replace()
        told = lambda: "patchboard trust" in self.command("workers")  # noqa: E731
        eventually(told, "`workers` says why there is none", REPLACED)
        said = self.command("workers")
        self.assertIn("added.py" if self.namespaces else "changed", said)
        self.assertFalse((self.alice.work / "started").exists())
        self.assertIn("patchboard trust", self.alice.server.log())
        self.assertIn("worker pool `py`", self.command("doctor"))
        self.alice.server.restart()
        eventually(told, "so it is after the next start", REPLACED)
        self.assertFalse((self.alice.work / "started").exists())
        self.alice.trust()
        self.wait_for_worker()
        name = "hers" if self.namespaces else "the agent's"
        self.assertIn(name, self.command("tools", "call", "whoami", "{}"))
        self.assertFalse(self.leave(self.alice.outside / "left"), "nor then does it get wider rights")


class WithNamespacesTest(Ways, TrustTestCase):
    namespaces = True


class WithoutNamespacesTest(Ways, TrustTestCase):
    namespaces = False


if __name__ == "__main__":
    unittest.main()
