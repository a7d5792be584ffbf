"""What a tool knows of the call it serves, and how it reaches the server behind its worker."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from ._telemetry import Event
from ._variables import AsyncVariables, Variables
from .errors import Cancelled, Unavailable

T = TypeVar("T")

_current: contextvars.ContextVar[Context | None] = contextvars.ContextVar("patchboard_context", default=None)


def current_context() -> Context | None:
    """The context of the call this code runs in, for functions that are not given it."""
    return _current.get()


class Runtime(Protocol):
    """The worker, as far as a context needs it."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    def emit(self, event: Event) -> None: ...

    def session_data(self, session_id: str) -> dict[str, Any]: ...

    async def host_call(self, context: Context, tool: str, arguments: Mapping[str, Any]) -> Any: ...

    async def host_tools(self, context: Context) -> list[Any]: ...


class Context:
    """One call of a tool. A tool gets it by a parameter annotated `Context`, whatever its name.

    Methods that ask the server block, and have a twin for coroutines with an `a` in front. Made by hand, without
    arguments, it serves to try a tool out in a test: there is then no server to ask, and nobody reads its telemetry.
    """

    __slots__ = (
        "_cancelled", "_log", "_lot", "_runtime", "_session", "_stops", "_waiting",
        "correlation_id", "deadline", "metadata", "session_id", "tool_name", "traceparent",
    )  # fmt: skip

    def __init__(
        self,
        runtime: Runtime | None = None,
        *,
        session_id: str = "",
        tool_name: str = "",
        correlation_id: str = "",
        traceparent: str = "",
        metadata: Mapping[str, str] | None = None,
        deadline: float | None = None,
        lot: float | None = None,
    ) -> None:
        self.session_id = session_id
        self.tool_name = tool_name
        self.correlation_id = correlation_id
        self.traceparent = traceparent
        self.metadata: Mapping[str, str] = metadata if metadata is not None else {}
        # On the clock of `time.monotonic`; None: the caller waits for ever.
        self.deadline = deadline
        self._runtime = runtime
        self._cancelled = False
        self._lot = lot
        self._session: Session | None = None
        self._log: logging.LoggerAdapter[logging.Logger] | None = None
        # Made when first needed: most calls are never waited in nor cancelled.
        self._waiting: threading.Event | None = None
        self._stops: list[Callable[[], Any]] = []

    @property
    def cancelled(self) -> bool:
        """Whether the caller has gone, or its time is over. A long plain function should look now and then."""
        return self._cancelled or (self.deadline is not None and time.monotonic() >= self.deadline)

    def check_cancelled(self) -> None:
        """Raises `Cancelled` if nobody waits for this call any more."""
        if self.cancelled:
            raise Cancelled(f"the call of `{self.tool_name}` was cancelled")

    def time_remaining(self) -> float | None:
        """Seconds until the caller gives up; None if it never does."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def wait(self, seconds: float) -> None:
        """Sleeps, but raises `Cancelled` at once when the call is cancelled. For plain functions."""
        if self._waiting is None:
            self._waiting = threading.Event()
        remaining = self.time_remaining()
        if not self._cancelled:
            self._waiting.wait(seconds if remaining is None else min(seconds, remaining))
        self.check_cancelled()

    def progress(self, done: float | str | None = None, text: str | None = None) -> None:
        """Tells how far the call is: `progress(0.5)`, `progress("loading")`, `progress(0.5, "half way")`.

        It travels as the telemetry event `tool.progress`.
        """
        if isinstance(done, str):
            done, text = None, done
        metadata = {} if text is None else {"message": text}
        self.telemetry.emit("tool.progress", {} if done is None else {"fraction": float(done)}, metadata)

    @property
    def telemetry(self) -> Telemetry:
        return Telemetry(self)

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines name the tool, the session and the call."""
        if self._log is None:
            fields = {
                "tool": self.tool_name, "session_id": self.session_id, "correlation_id": self.correlation_id
            }  # fmt: skip
            self._log = _Log(logging.getLogger("patchboard.tool"), fields)
        return self._log

    @property
    def session(self) -> Session:
        if self._session is None:
            self._session = Session(self)
        return self._session

    def call(self, tool: str, /, **arguments: Any) -> Any:
        """Runs one of the server's own tools for this session and returns its result."""
        return self._blocking("acall", self.acall(tool, **arguments))

    async def acall(self, tool: str, /, **arguments: Any) -> Any:
        return await self._host(tool, arguments)

    def tools(self) -> list[Any]:
        """The server's own tools that this session may use, as `ToolInfo`."""
        return self._blocking("atools", self.atools())

    async def atools(self) -> list[Any]:
        return await self._behind().host_tools(self)

    def agent(self, name: str) -> Callable[..., Any]:
        """One of the server's agents, as a function: `context.agent("researcher")("What is new?")`."""

        def ask(message: str, thread_id: str | None = None) -> Any:
            return self.call(f"agent.{name}", **_message(message, thread_id))

        return ask

    def aagent(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def ask(message: str, thread_id: str | None = None) -> Any:
            return await self.acall(f"agent.{name}", **_message(message, thread_id))

        return ask

    def _cancel(self) -> None:
        """The caller is gone. Runs on the worker's loop."""
        self._cancelled = True
        if self._waiting is not None:
            self._waiting.set()
        for stop in list(self._stops):
            stop()

    def _behind(self) -> Runtime:
        if self._runtime is None:
            raise Unavailable("there is no server behind this context")
        return self._runtime

    async def _host(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        return await self._behind().host_call(self, tool, arguments)

    def _blocking(self, twin: str, coroutine: Coroutine[Any, Any, T]) -> T:
        """Waits for the worker's loop to do something, and stops waiting when the call is cancelled."""
        try:
            loop = self._behind().loop
            if asyncio._get_running_loop() is not None:
                raise RuntimeError(f"this blocks, and the code runs on an event loop: await `{twin}` instead")
            self.check_cancelled()
        except BaseException:
            coroutine.close()
            raise
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        self._stops.append(future.cancel)
        try:
            if self._cancelled:
                future.cancel()
            return future.result()
        except concurrent.futures.CancelledError:
            raise Cancelled(f"the call of `{self.tool_name}` was cancelled") from None
        finally:
            self._stops.remove(future.cancel)


def _message(message: str, thread_id: str | None) -> dict[str, Any]:
    return {"message": message} if thread_id is None else {"message": message, "thread_id": thread_id}


class Session:
    """The session a call belongs to."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    @property
    def id(self) -> str:
        return self._context.session_id

    @property
    def data(self) -> dict[str, Any]:
        """A dictionary for this session that this worker process alone keeps, until the session ends.

        Other workers of the pool have their own; what must be shared belongs into `variables`.
        """
        return self._context._behind().session_data(self._context.session_id)

    @property
    def variables(self) -> Variables:
        context = self._context
        return Variables(
            lambda tool, arguments: context._blocking("session.avariables", context._host(tool, arguments))
        )

    @property
    def avariables(self) -> AsyncVariables:
        return AsyncVariables(self._context._host)


class Telemetry:
    """Events of one call."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    def emit(
        self,
        name: str,
        measurements: Mapping[str, int | float | str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Sends an event, such as `emit("model.loaded", {"duration_ms": 12})`, to whoever listens."""
        context = self._context
        if context._runtime is not None:
            # What the tool says of the event is kept; what the call says of itself is added.
            fields = {**call_metadata(context), **(metadata or {})}
            context._runtime.emit(Event(name, measurements or {}, fields, context.correlation_id, context._lot))


def call_metadata(context: Context) -> dict[str, Any]:
    """What every event of a call carries."""
    fields = {"tool_name": context.tool_name, "session_id": context.session_id}
    if context.traceparent:
        fields["traceparent"] = context.traceparent
    return fields


class _Log(logging.LoggerAdapter):  # type: ignore[type-arg]  # it is generic only from Python 3.11 on.
    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        fields = " ".join(f"{key}={value}" for key, value in (self.extra or {}).items() if value)
        return f"{msg} [{fields}]", kwargs
