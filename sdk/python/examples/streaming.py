"""Results piece by piece: the caller has the first ones while the tool still works on the rest."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Annotated

from patchboard import Field, Progress, serve, tool


@tool(read_only=True)
def primes(below: Annotated[int, Field("where to stop", ge=2, le=1_000_000)]) -> Iterator[int]:
    """Gives the prime numbers below a limit. When the caller leaves, the generator is closed."""
    found: list[int] = []
    for number in range(2, below):
        if all(number % prime for prime in found if prime * prime <= number):
            found.append(number)
            yield number


@tool(read_only=True)
async def countdown(seconds: int) -> AsyncIterator[str | Progress]:
    """Counts down, and says how far it is beside the numbers."""
    for left in range(seconds, 0, -1):
        yield Progress(1 - left / seconds)
        yield f"{left} ..."
        await asyncio.sleep(1)
    yield "now"


if __name__ == "__main__":
    serve()
