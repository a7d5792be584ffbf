"""Tests that mostly wait: those whose length is fixed in the server can run while others do.

    class SlowTest(AheadTestCase):
        @ahead
        def test_that_waits(self) -> None: ...

    def setUpModule() -> None:
        SlowTest.begin_ahead()

    load_tests = ahead_last

A test that is run alone by its name runs like any other.
"""

from __future__ import annotations

import threading
import unittest
from concurrent.futures import Future

from patchboard_server import ServerTestCase, show_log


def ahead(test):
    """Marks a test for `begin_ahead`. It has a server of its own and uses nothing that its class shares."""
    test.runs_ahead = True
    return test


def ahead_last(loader: unittest.TestLoader, tests: unittest.TestSuite, pattern: str | None) -> unittest.TestSuite:
    """The tests of a file in such an order that nobody waits for a marked one while others are left to run."""

    def flat(suite):
        return [one for part in suite for one in (flat(part) if isinstance(part, unittest.TestSuite) else [part])]

    found = flat(tests)
    for test in filter(is_ahead, found):
        type(test)._wanted = {**type(test)._wanted, test._testMethodName: None}
    return unittest.TestSuite(sorted(found, key=is_ahead))


def is_ahead(test: unittest.TestCase) -> bool:
    return hasattr(getattr(test, test._testMethodName), "runs_ahead")


class AheadTestCase(ServerTestCase):
    # Names in the order of the file's tests; only what will be run is begun.
    _wanted: dict[str, None] = {}
    _begun: dict[str, Future] = {}

    @classmethod
    def begin_ahead(cls) -> None:
        """Starts the marked tests, each in a thread. A test whose turn comes only waits for what became of it."""
        cls._begun = {name: Future() for name in cls._wanted}
        for name, outcome in cls._begun.items():
            # A thread that the process does not wait for when the tests are broken off.
            threading.Thread(target=cls(name)._run_ahead, args=(outcome,), daemon=True).start()

    def _run_ahead(self, outcome: Future) -> None:
        self._own_servers = []
        try:
            self.debug()
        except BaseException as trouble:  # noqa: BLE001 - told to the test when its turn comes
            if not isinstance(trouble, unittest.SkipTest):
                for server in self._own_servers:
                    show_log(server)
            # `debug` leaves them undone when the test fails.
            self.doCleanups()
            outcome.set_exception(trouble)
        else:
            outcome.set_result(None)

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        if begun := self._begun.get(self._testMethodName):
            # It raises what the test raised.
            setattr(self, self._testMethodName, begun.result)
            self.setUp = self.tearDown = lambda: None
        return super().run(result)
