"""Session variables: named values a session's tools, agents and clients share, kept by the server.

`Variables` blocks, `AsyncVariables` is awaited; both say the same through the server's `variable_*` tools.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import ProtocolError, VariableNotFound

# How long one question for changes waits on the server; a watch asks again and again.
_POLL_SECONDS = 30.0

_MISSING: Any = object()


@dataclass(frozen=True)
class Variable:
    """A variable as the server has it. `value` is None in a listing, which carries no values."""

    name: str
    version: int
    value: Any = None
    updated_at: Any = None
    depends_on: tuple[str, ...] = ()
    # One of those it depends on has changed since it was set.
    stale: bool = False


@dataclass(frozen=True)
class Written:
    """What setting a variable did: its new version, and the variables that are stale because of it."""

    name: str
    version: int
    stale: tuple[str, ...] = ()


@dataclass(frozen=True)
class Change:
    """One step of a watch. `value` is None for a variable that only became stale, or whose value did not fit."""

    name: str
    version: int
    value: Any = None
    deleted: bool = False
    stale: bool = False


class Variables:
    """The variables of one session. Also reads like a dictionary: `variables["limit"] = 3`."""

    def __init__(self, call: Callable[[str, dict[str, Any]], Any]) -> None:
        self._call = call

    def get(self, name: str, default: Any = _MISSING) -> Any:
        """The value; without a default, a missing variable is a VariableNotFound."""
        try:
            return self.read(name).value
        except VariableNotFound:
            if default is _MISSING:
                raise
            return default

    def read(self, name: str) -> Variable:
        """The value with its version and what it depends on."""
        return _variable(self._call("variable_get", {"name": name}))

    def set(
        self, name: str, value: Any, *, depends_on: Sequence[str] | None = None, if_version: int | None = None
    ) -> Written:
        """Sets a value; with `if_version` only if the variable still has that version (0: if it is new)."""
        return _written(self._call("variable_set", _set_arguments(name, value, depends_on, if_version)))

    def delete(self, name: str) -> bool:
        """Whether there was such a variable."""
        return _deleted(self._call("variable_delete", {"name": name}))

    def list(self, prefix: str = "") -> list[Variable]:
        return _listing(self._call("variable_list", {"prefix": prefix} if prefix else {}))

    def watch(self, *names: str, since: int | None = None, timeout: float | None = None) -> Iterator[Change]:
        """Every change of the variables that match one of the globs (all, if none), as it happens.

        Begins with what changes after the first step, or after the cursor `since` (0: with all there is); ends after
        `timeout` seconds. A reader that is far too slow gets all there is once more.
        """
        watch = _Watch(names, since, timeout)
        while not watch.over:
            yield from watch.changes(self._call("variable_watch", watch.question()))

    def __getitem__(self, name: str) -> Any:
        return self.get(name)

    def __setitem__(self, name: str, value: Any) -> None:
        self.set(name, value)

    def __delitem__(self, name: str) -> None:
        self.delete(name)


class AsyncVariables:
    """The variables of one session, for asyncio."""

    def __init__(self, call: Callable[[str, dict[str, Any]], Awaitable[Any]]) -> None:
        self._call = call

    async def get(self, name: str, default: Any = _MISSING) -> Any:
        """The value; without a default, a missing variable is a VariableNotFound."""
        try:
            return (await self.read(name)).value
        except VariableNotFound:
            if default is _MISSING:
                raise
            return default

    async def read(self, name: str) -> Variable:
        """The value with its version and what it depends on."""
        return _variable(await self._call("variable_get", {"name": name}))

    async def set(
        self, name: str, value: Any, *, depends_on: Sequence[str] | None = None, if_version: int | None = None
    ) -> Written:
        """Sets a value; with `if_version` only if the variable still has that version (0: if it is new)."""
        return _written(await self._call("variable_set", _set_arguments(name, value, depends_on, if_version)))

    async def delete(self, name: str) -> bool:
        """Whether there was such a variable."""
        return _deleted(await self._call("variable_delete", {"name": name}))

    async def list(self, prefix: str = "") -> list[Variable]:
        return _listing(await self._call("variable_list", {"prefix": prefix} if prefix else {}))

    async def watch(self, *names: str, since: int | None = None, timeout: float | None = None) -> AsyncIterator[Change]:
        """Every change of the variables that match one of the globs (all, if none), as it happens.

        Begins with what changes after the first step, or after the cursor `since` (0: with all there is); ends after
        `timeout` seconds. A reader that is far too slow gets all there is once more.
        """
        watch = _Watch(names, since, timeout)
        while not watch.over:
            for change in watch.changes(await self._call("variable_watch", watch.question())):
                yield change


class _Watch:
    """Where a watch stands between two questions."""

    def __init__(self, names: Sequence[str], since: int | None, timeout: float | None) -> None:
        self._names = list(names)
        self._cursor = since
        self._end = None if timeout is None else time.monotonic() + timeout

    @property
    def over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end

    def question(self) -> dict[str, Any]:
        wait = _POLL_SECONDS if self._end is None else min(_POLL_SECONDS, max(0.0, self._end - time.monotonic()))
        question: dict[str, Any] = {"timeout_ms": max(1, round(wait * 1000))}
        if self._names:
            question["names"] = self._names
        if self._cursor is not None:
            question["since"] = self._cursor
        return question

    def changes(self, answer: Any) -> list[Change]:
        self._cursor = _field(answer, "cursor", int)
        return [
            Change(
                _field(one, "name", str),
                _field(one, "version", int),
                one.get("value"),
                bool(one.get("deleted")),
                bool(one.get("stale")),
            )
            for one in _field(answer, "changes", list)
        ]


def _set_arguments(name: str, value: Any, depends_on: Sequence[str] | None, if_version: int | None) -> dict[str, Any]:
    arguments: dict[str, Any] = {"name": name, "value": value}
    if depends_on is not None:
        arguments["depends_on"] = list(depends_on)
    if if_version is not None:
        arguments["if_version"] = if_version
    return arguments


def _variable(answer: Any) -> Variable:
    return Variable(
        _field(answer, "name", str),
        _field(answer, "version", int),
        answer.get("value"),
        answer.get("updated_at"),
        tuple(answer.get("depends_on") or ()),
        bool(answer.get("stale")),
    )


def _written(answer: Any) -> Written:
    return Written(_field(answer, "name", str), _field(answer, "version", int), tuple(answer.get("stale") or ()))


def _deleted(answer: Any) -> bool:
    return bool(_field(answer, "deleted", bool))


def _listing(answer: Any) -> list[Variable]:
    return [_variable(one) for one in _field(answer, "variables", list)]


def _field(answer: Any, name: str, kind: type) -> Any:
    value = answer.get(name) if isinstance(answer, Mapping) else None
    if not isinstance(value, kind):
        raise ProtocolError(f"the server's answer about a variable has no `{name}`")
    return value
