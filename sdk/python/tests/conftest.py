from __future__ import annotations

from collections.abc import Iterator

import pytest
from parent import Parent
from running import Worker, worker


@pytest.fixture(scope="module")
def parent() -> Iterator[Parent]:
    started = Parent()
    yield started
    started.close()


@pytest.fixture(scope="module")
def tools(parent: Parent) -> Iterator[Worker]:
    """A worker with the tools of `worker_tools.py`, behind the stand-in parent."""
    with worker(parent=parent.address) as started:
        yield started
