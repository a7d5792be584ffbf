"""The runner itself: what it reports is what the whole run counts."""

from __future__ import annotations

import io
import tempfile
import unittest
from pathlib import Path

from run_tests import run_file

MIXED = '''
import unittest

class Mixed(unittest.TestCase):
    def test_good(self):
        pass

    def test_bad(self):
        self.fail("on purpose")

    def test_error(self):
        raise RuntimeError("on purpose")

    def test_skipped(self):
        self.skipTest("no model here")

    def test_parts(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertEqual(number, 0)

class Broken(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise RuntimeError("on purpose")

    def test_never_reached(self):
        pass
'''


class RunnerTest(unittest.TestCase):
    def report(self, text: str) -> dict:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "test_sample_for_runner.py"
            path.write_text(text)
            return run_file(path, io.StringIO())

    def test_everything_is_counted_once(self) -> None:
        report = self.report(MIXED)
        self.assertEqual(report["passed"], 1)
        self.assertEqual(report["skipped"], [{"name": "Mixed.test_skipped", "reason": "no model here"}])
        self.assertEqual(len(report["failed"]), 4)
        self.assertEqual(report["failed"][1:], ["Mixed.test_bad", "Mixed.test_error", "Mixed.test_parts"])
        self.assertIn("setUpClass", report["failed"][0])

    def test_a_file_can_skip_itself(self) -> None:
        report = self.report("import unittest\nraise unittest.SkipTest('no package')\n")
        skipped = [{"name": "whole file", "reason": "no package"}]
        self.assertEqual(report, {"passed": 0, "failed": [], "skipped": skipped})

    def test_a_file_that_cannot_be_imported_is_no_silent_success(self) -> None:
        with self.assertRaises(ZeroDivisionError):
            self.report("1 / 0\n")


if __name__ == "__main__":
    unittest.main()
