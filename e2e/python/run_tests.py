"""Runs one file of unittest tests and reports in JSON what passed, failed and was skipped.

    python e2e/python/run_tests.py e2e/python/test_chat.py --report FILE

The report: {"passed": N, "failed": [NAME], "skipped": [{"name": NAME, "reason": WHY}]}. A file may skip itself as a
whole by raising `unittest.SkipTest` when it is imported.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib.util
import json
import signal
import sys
import unittest
from pathlib import Path

# Before the caller loses patience: then it is known where the tests hang.
SHOW_STACKS_AFTER = 7 * 60


class Report(unittest.TextTestResult):
    def __init__(self, *arguments, **options) -> None:
        super().__init__(*arguments, **options)
        self.passed = 0
        # Keys in the order of their failing; a test with several failing subtests has failed once.
        self.failed: dict[str, None] = {}
        self.skips: list[dict[str, str]] = []

    def addSuccess(self, test) -> None:
        super().addSuccess(test)
        self.passed += 1

    def addExpectedFailure(self, test, error) -> None:
        super().addExpectedFailure(test, error)
        self.passed += 1

    def addUnexpectedSuccess(self, test) -> None:
        super().addUnexpectedSuccess(test)
        self.failed[name_of(test)] = None

    def addFailure(self, test, error) -> None:
        super().addFailure(test, error)
        self.failed[name_of(test)] = None

    def addError(self, test, error) -> None:
        super().addError(test, error)
        self.failed[name_of(test)] = None

    def addSubTest(self, test, subtest, error) -> None:
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.failed[name_of(test)] = None

    def addSkip(self, test, reason) -> None:
        super().addSkip(test, reason)
        self.skips.append({"name": name_of(test), "reason": reason})


def name_of(test) -> str:
    """`Class.test_name`, without the module, which is the file; `setUpClass (module.Class)` stays as it is."""
    identity = test.id()
    return identity if " (" in identity else identity.split(".", 1)[-1]


def run_file(path: Path, stream=sys.stderr) -> dict:
    try:
        tests = unittest.defaultTestLoader.loadTestsFromModule(load(path))
    except unittest.SkipTest as skip:
        print(f"skipped: {skip}", file=stream)
        return {"passed": 0, "failed": [], "skipped": [{"name": "whole file", "reason": str(skip)}]}
    result = unittest.TextTestRunner(stream=stream, verbosity=2, resultclass=Report).run(tests)
    return {"passed": result.passed, "failed": list(result.failed), "skipped": result.skips}


def load(path: Path):
    # The drivers import their helpers from beside them.
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def stop(number, frame) -> None:
    # The one exception that unittest does not take for a failed test.
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--report", type=Path, required=True)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    faulthandler.dump_traceback_later(SHOW_STACKS_AFTER)
    report = run_file(arguments.file)
    faulthandler.cancel_dump_traceback_later()
    arguments.report.write_text(json.dumps(report))
    return 1 if report["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
