"""The example plugin in Python: built as its README says, loaded and called like any other."""

# begins early: builds and compiles an interpreter
from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import unittest
from collections.abc import Iterable
from pathlib import Path

from bridge_case import ALLOW, OFFLINE
from patchboard_server import binary
from plugin_support import REPOSITORY, Plugin, PluginTestCase, use_cache

PROJECT = REPOSITORY / "plugins" / "word-stats-python"
WORLD = REPOSITORY / "wit"
TOOLS = REPOSITORY / "target" / "e2e" / "componentize"
TIMEOUT = 300


class PythonTest(PluginTestCase):
    def test_it_is_built_loaded_and_called(self) -> None:
        built = build()
        plugin = Plugin("word-stats", data=built.read_bytes())
        self.server = self.prepare(OFFLINE + plugin.config + ALLOW, plugin)
        use_cache(self.server, kept_cache())
        self.server.start()
        gateway = self.another()
        # An interpreter is a lot to compile, on threads that give way to all others.
        found = self.settled(gateway, "word-stats", timeout=TIMEOUT)
        self.assertEqual((found["state"], found["tools"]), ("ready", ["word_stats"]), found)
        content = self.good("word_stats", gateway=gateway, text="to be or not to be")
        self.assertEqual(json.loads(content)["words"], 6)
        self.assertEqual(self.good("word_stats", gateway=gateway, text="to be or not to be"), content)
        self.server.restart()
        gateway = self.another()
        self.settled(gateway, "word-stats", "ready")


# Building takes a quarter of a minute and compiling half a minute, so both are kept as long as nothing they depend on
# has changed: the sources for the one, the server for the other.


def build() -> Path:
    """Builds the component as the README says; where the package cannot be had, the test is skipped and says so."""
    named = re.search(r"pip install (componentize-py==\S+)", (PROJECT / "README.md").read_text())
    assert named, "the README names the package and its version"
    sources = [*PROJECT.glob("*.md"), *PROJECT.glob("*.py"), *WORLD.rglob("*.wit"), Path(__file__)]
    target = TOOLS / f"word-stats-{fingerprint(*sources)}.wasm"
    if not target.exists():
        TOOLS.mkdir(parents=True, exist_ok=True)
        unfinished = TOOLS / f"word-stats-{os.getpid()}.unfinished"
        componentize(install(named[1]), unfinished)
        remove_all(TOOLS.glob("word-stats*.wasm"))
        os.replace(unfinished, target)
    return target


def install(package: str) -> Path:
    """The folder with the package."""
    packages = TOOLS / package
    if not packages.exists():
        fetched = TOOLS / f"{package}-{os.getpid()}.unfinished"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(fetched), package]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
        if done.returncode != 0:
            raise unittest.SkipTest(f"{package} cannot be installed: {done.stderr.strip().splitlines()[-1:]}")
        os.replace(fetched, packages)
    return packages


def componentize(packages: Path, target: Path) -> None:
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


def kept_cache() -> Path:
    """The compiled code of this very server. Another one, whatever the difference, compiles the component again."""
    folder = TOOLS / f"compiled-{fingerprint(Path(binary()))}"
    if not folder.exists():
        remove_all(TOOLS.glob("compiled-*"))
        folder.mkdir(parents=True)
    return folder


def remove_all(older: Iterable[Path]) -> None:
    for path in older:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def fingerprint(*files: Path) -> str:
    hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(files)]
    return hashlib.sha256("".join(hashes).encode()).hexdigest()[:16]


if __name__ == "__main__":
    unittest.main()
