"""The examples work as they are."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy
import pytest
from parent import Parent
from running import worker

from patchboard import Binary, Client

EXAMPLES = Path(__file__).parent.parent / "examples"
TOOLS = {
    "ten_lines.py": ["greet"],
    "streaming.py": ["countdown", "primes"],
    "image.py": ["blur", "png"],
    "calling_back.py": ["summarise", "what_can_i_use"],
    "variables.py": ["count_up", "next_rate", "set_rate", "total"],
}


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*TOOLS, "client.py"}


@pytest.mark.parametrize("name", TOOLS)
def test_it_loads(name: str) -> None:
    # Started as a script, so that the last lines are tried too.
    with worker(command=[sys.executable, str(EXAMPLES / name)]) as started, Client(started.address) as client:
        assert [one.name for one in client.tools()] == TOOLS[name]
        if name == "ten_lines.py":
            assert client.call("greet", name="Ada", times=2) == "Hello, Ada! Hello, Ada!"
        if name == "streaming.py":
            assert list(client.stream("primes", below=20)) == [2, 3, 5, 7, 11, 13, 17, 19]
        if name == "image.py":
            image = numpy.zeros((3, 3), numpy.uint8)
            image[1, 1] = 90
            blurred = client.call("blur", image=image)
            assert blurred.tolist() == [[10] * 3] * 3
            picture = client.call("png", image=image)
            assert isinstance(picture, Binary) and bytes(picture.data).startswith(b"\x89PNG")


def test_calling_back_and_variables(parent: Parent) -> None:
    with worker(EXAMPLES / "variables.py", parent=parent.address) as started, Client(started.address) as client:
        assert client.call("total", prices=[1, 2.5]) == 3.5
        assert client.call("set_rate", rate=2) == ["total"]
        assert client.call("total", prices=[1, 2.5]) == 7.0
        assert [client.call("count_up") for _ in range(3)] == [1, 2, 3]
    with worker(EXAMPLES / "calling_back.py", parent=parent.address) as started, Client(started.address) as client:
        assert client.call("what_can_i_use") == ["double"]
