"""The Python package: it can be installed with pip, its own tests pass, and its types hold.

These run in an environment of their own, made once, so that the drivers' packages cannot stand in for its own.
"""

# begins early: makes an environment and checks types
from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SDK = ROOT / "sdk" / "python"
sys.path.insert(0, str(ROOT / "e2e"))

import bootstrap  # noqa: E402 - found through the line above

WANTED = [
    "grpcio==1.85.1",
    "protobuf==7.36.2",
    "numpy==2.4.6",
    "hatchling==1.33.0",
    "mypy==2.4.1",
    "orjson==3.13.0",
    "pydantic==2.14.3",
    "pytest==9.2.0",
    "trustme==1.2.1",
    "types-protobuf==7.35.1.20260906",
]


class PythonSdkTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        # Beside the drivers' own environment.
        report = bootstrap.prepare(Path(sys.prefix).parent / "sdk-venv", WANTED)
        if report["fatal"] or report["missing"]:
            raise unittest.SkipTest(f"its environment cannot be had: {report}")
        cls.python = report["python"]

    def run_python(self, *arguments: str, cwd: Path) -> str:
        done = subprocess.run(
            [self.python, *arguments], cwd=cwd, capture_output=True, text=True, timeout=600, check=False
        )
        self.assertEqual(done.returncode, 0, done.stdout[-6000:] + done.stderr[-3000:])
        return done.stdout

    def test_pip_installs_it_with_everything_it_needs(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            site = Path(folder) / "site"
            build = ["install", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(site), str(SDK)]
            self.run_python("-m", "pip", *build, cwd=Path(folder))
            script = f"import sys; sys.path.insert(0, {str(site)!r}); import patchboard; print(patchboard.__file__)"
            told = self.run_python("-I", "-c", script, cwd=Path(folder))
            self.assertTrue(told.startswith(str(site)), told)
            for file in ["patchboard/py.typed", "patchboard/_bridge.binpb", "bin/patchboard-worker"]:
                self.assertTrue((site / file).exists(), file)

    def test_its_own_tests_pass(self) -> None:
        told = self.run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=SDK)
        print(told.strip().splitlines()[-1])

    def test_its_types_hold(self) -> None:
        # What it found about packages that have not changed is used again.
        cache = Path(sys.prefix).parent / "mypy-cache"
        self.run_python("-m", "mypy", "--cache-dir", str(cache), cwd=SDK)
