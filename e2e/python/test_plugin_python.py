"""The example plugin in Python: built as its README says, loaded and called like any other."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import unittest
from pathlib import Path

from bridge_case import ALLOW, OFFLINE
from plugin_support import REPOSITORY, Plugin, PluginTestCase

PROJECT = REPOSITORY / "plugins" / "word-stats-python"
TOOLS = REPOSITORY / "target" / "e2e" / "componentize"
TIMEOUT = 300


class PythonTest(PluginTestCase):
    def test_it_is_built_loaded_and_called(self) -> None:
        built = TOOLS / "word-stats.wasm"
        build(built)
        started = time.monotonic()
        plugin = Plugin("word-stats", data=built.read_bytes())
        self.server = self.prepare(OFFLINE + plugin.config + ALLOW, plugin).start()
        gateway = self.another()
        # An interpreter is a lot to compile, on threads that give way to all others.
        found = self.settled(gateway, "word-stats", timeout=TIMEOUT)
        took = time.monotonic() - started
        self.assertEqual((found["state"], found["tools"]), ("ready", ["word_stats"]), found)
        started = time.monotonic()
        content = self.good("word_stats", gateway=gateway, text="to be or not to be")
        call = time.monotonic() - started
        self.assertEqual(json.loads(content)["words"], 6)
        self.assertEqual(self.good("word_stats", gateway=gateway, text="to be or not to be"), content)
        self.server.restart()
        started = time.monotonic()
        gateway = self.another()
        self.settled(gateway, "word-stats", "ready")
        again = time.monotonic() - started
        print(
            f"\nPython: {built.stat().st_size >> 20} MiB, loaded in {took:.1f} s and from the cache in {again:.1f} s, "
            f"called in {call * 1000:.0f} ms",
            flush=True,
        )


def build(target: Path) -> None:
    """As the README says; where the package cannot be had, the test is skipped and says so."""
    named = re.search(r"pip install (componentize-py==\S+)", (PROJECT / "README.md").read_text())
    assert named, "the README names the package and its version"
    packages = TOOLS / named[1]
    if not packages.exists():
        TOOLS.mkdir(parents=True, exist_ok=True)
        fetched = TOOLS / f"{named[1]}.new"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(fetched), named[1]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
        if done.returncode != 0:
            raise unittest.SkipTest(f"{named[1]} cannot be installed: {done.stderr.strip().splitlines()[-1:]}")
        os.replace(fetched, packages)
    command = [str(packages / "bin" / "componentize-py"), "--wit-path", "../../wit", "--world", "tool-plugin"]
    done = subprocess.run(
        [*command, "componentize", "app", "-o", str(target)],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stdout + done.stderr


if __name__ == "__main__":
    unittest.main()
