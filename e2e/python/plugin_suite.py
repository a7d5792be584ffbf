"""Runs tests that spend their time waiting several at a time, and reports them one after the other.

    def load_tests(loader, tests, pattern):
        return several_at_once(tests)

For tests with a server each and without fixtures of their class, which are not run.
"""

from __future__ import annotations

import queue
import threading
import unittest
from collections.abc import Iterator

AT_ONCE = 6
TOLD = (
    "addSuccess",
    "addError",
    "addFailure",
    "addSkip",
    "addSubTest",
    "addExpectedFailure",
    "addUnexpectedSuccess",
)


class Recorder(unittest.TestResult):
    """What one test told, for the result that everybody sees: that one is not made for several threads."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, tuple]] = []

    def tell(self, test: unittest.TestCase, result: unittest.TestResult) -> None:
        result.startTest(test)
        for method, arguments in self.told:
            getattr(result, method)(*arguments)
        result.stopTest(test)


def recording(method: str):
    def record(self: Recorder, *arguments) -> None:
        self.told.append((method, arguments))
        getattr(super(Recorder, self), method)(*arguments)

    return record


for _method in TOLD:
    setattr(Recorder, _method, recording(_method))


class SeveralAtOnce(unittest.TestSuite):
    def run(self, result: unittest.TestResult, debug: bool = False) -> unittest.TestResult:
        waiting: queue.SimpleQueue[unittest.TestCase] = queue.SimpleQueue()
        done: queue.SimpleQueue[tuple[unittest.TestCase, Recorder]] = queue.SimpleQueue()
        for test in self:
            waiting.put(test)

        def work() -> None:
            while True:
                try:
                    test = waiting.get_nowait()
                except queue.Empty:
                    return
                recorder = Recorder()
                test.run(recorder)
                done.put((test, recorder))

        for _ in range(AT_ONCE):
            # When the tests are interrupted, nobody waits for these.
            threading.Thread(target=work, daemon=True).start()
        for _ in range(self.countTestCases()):
            test, recorder = done.get()
            recorder.tell(test, result)
        return result


def several_at_once(tests: unittest.TestSuite) -> unittest.TestSuite:
    return SeveralAtOnce(each(tests))


def each(tests: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for test in tests:
        if isinstance(test, unittest.TestSuite):
            yield from each(test)
        else:
            yield test
