"""The bridge service of a worker. Everything here runs on the one event loop, and no call asks the server first."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc
import grpc.aio

from . import _proto, _requests, _results
from ._calls import Runner
from ._context import Context, call_metadata
from ._host import Host
from ._telemetry import Event, Hub
from ._tool import Tool
from ._version import __version__
from .errors import Cancelled, DeadlineExceeded, ToolNotFound, Unavailable

log = logging.getLogger("patchboard.worker")

# Sessions a worker remembers; the one unused for longest ends when there are more.
MAX_SESSIONS = 10_000
# Calls that may wait for a thread, beyond those that run; more are refused.
MAX_WAITING = 1_000
# What a call gets when its caller sets no deadline.
_DEFAULT_SECONDS = 298.8
_DEFAULT_STREAM_SECONDS = 900.0

_TOO_MANY = "pool_saturated: the worker has too many calls waiting"
_YES = frozenset(("1", "true", "t", "yes", "y", "on"))

Hook = Callable[[str], None | Awaitable[None]]


class Service:
    """The handlers, and the `Runtime` behind every context."""

    def __init__(
        self, tools: Mapping[str, Tool], capacity: int, host: Host | None, session_end_hooks: list[Hook]
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.hub = Hub(self.loop)
        # The session the server gave this worker for itself: the first one it hears of.
        self.own_session = ""
        self._tools = tools
        self._capacity = capacity
        self._host = host
        self._hooks = session_end_hooks
        self._runner = Runner(self.loop, capacity)
        self._sessions: OrderedDict[str, dict[str, Any] | None] = OrderedDict()
        self._active = 0
        self._ending: set[asyncio.Task[None]] = set()
        self._specs = {name: tool.spec for name, tool in tools.items()}

    def handler(self) -> grpc.GenericRpcHandler:
        handlers: dict[str, Any] = {}
        for rpc, function in {
            "Ping": self.ping,
            "InitializeSession": self.initialize_session,
            "CleanupSession": self.cleanup_session,
            "GetSession": self.get_session,
            "Heartbeat": self.heartbeat,
            "ExecuteTool": self.execute,
            "ExecuteStreamingTool": self.execute_streaming,
            "StreamTelemetry": self.stream_telemetry,
        }.items():
            request, response, client_streams, server_streams = _proto.METHODS[rpc]
            kind = f"{'stream' if client_streams else 'unary'}_{'stream' if server_streams else 'unary'}"
            serialize = Event.wire if rpc == "StreamTelemetry" else response.SerializeToString
            handlers[rpc] = getattr(grpc, f"{kind}_rpc_method_handler")(
                function, request_deserializer=request.FromString, response_serializer=serialize
            )
        return grpc.method_handlers_generic_handler(_proto.SERVICE, handlers)

    # What contexts ask for.

    def emit(self, event: Event) -> None:
        self.hub.emit(event)

    def session_data(self, session_id: str) -> dict[str, Any]:
        data = self._sessions.get(session_id)
        if data is None:
            data = self._sessions[session_id] = {}
        return data

    async def host_call(self, context: Context, tool: str, arguments: Mapping[str, Any]) -> Any:
        return await self._behind().call(context, tool, arguments)

    async def host_tools(self, context: Context) -> list[_requests.ToolInfo]:
        return await self._behind().tools(context)

    def _behind(self) -> Host:
        if self._host is None:
            raise Unavailable("this worker runs on its own: there is no server to ask")
        return self._host

    # Sessions.

    async def ping(self, request: Any, _context: Any) -> Any:
        response = _proto.PingResponse(message=f"Pong from Python: {request.message}")
        response.server_time.GetCurrentTime()
        return response

    async def initialize_session(self, request: Any, context: Any) -> Any:
        if not request.session_id:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "invalid_id: the session id is empty")
        self._touch(request.session_id)
        self.own_session = self.own_session or request.session_id
        await context.send_initial_metadata(
            ((_proto.CAPACITY_HEADER, str(self._capacity)), (_proto.SDK_HEADER, __version__))
        )
        return _proto.InitializeSessionResponse(success=True, available_tools=self._specs)

    async def cleanup_session(self, request: Any, _context: Any) -> Any:
        known = request.session_id in self._sessions
        if known:
            del self._sessions[request.session_id]
            await self._end_session(request.session_id)
        return _proto.CleanupSessionResponse(success=True, resources_cleaned=1 if known else 0)

    async def get_session(self, request: Any, context: Any) -> Any:
        if self._host is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "this worker runs on its own: there is no server to ask")
            return None
        try:
            return await self._host.get_session(request, context.time_remaining())
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details() or "")

    async def heartbeat(self, request: Any, _context: Any) -> Any:
        response = _proto.HeartbeatResponse(session_valid=request.session_id in self._sessions)
        response.server_time.GetCurrentTime()
        return response

    def _touch(self, session_id: str) -> None:
        sessions = self._sessions
        if session_id in sessions:
            sessions.move_to_end(session_id)
            return
        sessions[session_id] = None
        if len(sessions) > MAX_SESSIONS:
            oldest = next(one for one in sessions if one != self.own_session)
            del sessions[oldest]
            if self._hooks:
                task = self.loop.create_task(self._end_session(oldest))
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)

    async def _end_session(self, session_id: str) -> None:
        for hook in self._hooks:
            try:
                if asyncio.iscoroutinefunction(hook):
                    await hook(session_id)
                else:
                    await self.loop.run_in_executor(None, hook, session_id)
            except Exception:
                log.exception("a hook for the end of session %s failed", session_id)

    # Calls.

    async def execute(self, request: Any, rpc: Any) -> Any:
        began = time.perf_counter_ns()
        context = self._context(request, rpc, _DEFAULT_SECONDS)
        name = request.tool_name
        arguments: dict[str, Any] = {}
        if self._active >= self._capacity + MAX_WAITING:
            await rpc.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, _TOO_MANY)
        self._active += 1
        self._event("start", context, {"system_time": time.time_ns()})
        try:
            tool = self._tool(name)
            arguments = tool.arguments(request)
            running = self._runner.call(tool, context, arguments, alone=_alone(tool, context))
            value = await (running if tool.options.timeout is None else self._within(tool, context, running))
            spent = time.perf_counter_ns() - began
            response = _results.response(value, spent // 1_000_000)
            self._event("stop", context, {"duration": spent})
            return response
        except _TimedOut as error:
            self._exception(context, began, error)
            await rpc.abort(grpc.StatusCode.DEADLINE_EXCEEDED, str(error))
        except asyncio.CancelledError as error:
            self._exception(context, began, error)
            raise
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            # A tool that calls `sys.exit` has failed; the worker goes on.
            self._exception(context, began, error)
            if (status := _given_up(context, error)) is not None:
                await rpc.abort(status, str(error))
            message = _results.failure(error, name, context.session_id, arguments)
            return _proto.ExecuteToolResponse(success=False, error_message=message)
        finally:
            self._active -= 1

    async def execute_streaming(self, request: Any, rpc: Any) -> None:
        began = time.perf_counter_ns()
        context = self._context(request, rpc, _DEFAULT_STREAM_SECONDS)
        name = request.tool_name
        tool = self._tools.get(name)
        if tool is None:
            await rpc.abort(grpc.StatusCode.NOT_FOUND, f"Tool {name} not found for session {context.session_id}")
            return
        if self._active >= self._capacity + MAX_WAITING:
            await rpc.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, _TOO_MANY)
        self._active += 1
        self._event("start", context, {"system_time": time.time_ns()})
        arguments: dict[str, Any] = {}
        refusal = grpc.StatusCode.INVALID_ARGUMENT
        limit = _Limit(self.loop, tool.options.timeout)
        try:
            arguments = tool.arguments(request)
            refusal = grpc.StatusCode.INTERNAL
            await self._stream(tool, context, arguments, rpc.write)
            self._event("stop", context, {"duration": time.perf_counter_ns() - began})
            return
        except asyncio.CancelledError as error:
            context._cancel()
            self._exception(context, began, error)
            if not limit.reached:
                raise
            refusal, text = grpc.StatusCode.DEADLINE_EXCEEDED, _too_long(tool)
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            self._exception(context, began, error)
            refusal = _given_up(context, error) or refusal
            text = _results.short_failure(error, name, context.session_id, arguments)
        finally:
            limit.lift()
            self._active -= 1
        await rpc.abort(refusal, text)

    async def _stream(self, tool: Tool, context: Context, arguments: dict[str, Any], write: Any) -> None:
        numbers = iter(range(1, 2**63))
        items = self._runner.items(
            tool,
            context,
            arguments,
            alone=_alone(tool, context),
            convert=lambda item: _results.chunk(item, f"{tool.name}-{next(numbers)}"),
        )
        try:
            async for chunk in items:
                await write(chunk)
                if chunk.is_final:
                    return
            await write(_proto.ToolChunk(chunk_id=f"{tool.name}-{next(numbers)}", is_final=True))
        finally:
            await items.aclose()

    def _tool(self, name: str) -> Tool:
        tool = self._tools.get(name)
        if tool is None:
            raise ToolNotFound(f"there is no tool `{name}`")
        return tool

    def _context(self, request: Any, rpc: Any, default_seconds: float) -> Context:
        correlation_id = traceparent = ""
        for key, value in rpc.invocation_metadata() or ():
            if key == _proto.CORRELATION_HEADER:
                correlation_id = value
            elif key == _proto.TRACE_HEADER:
                traceparent = value
        session_id = request.session_id
        self._touch(session_id)
        remaining = rpc.time_remaining()
        return Context(
            self,
            session_id=session_id,
            tool_name=request.tool_name,
            correlation_id=correlation_id or request.metadata.get("correlation_id") or os.urandom(16).hex(),
            traceparent=traceparent,
            metadata=request.metadata,
            deadline=time.monotonic() + (default_seconds if remaining is None else remaining),
            lot=random.random(),
        )

    async def _within(self, tool: Tool, context: Context, running: Any) -> Any:
        try:
            return await asyncio.wait_for(running, tool.options.timeout)
        except asyncio.TimeoutError:
            # A tool may raise the same error itself, long before its time is over.
            if context._cancelled:
                raise _TimedOut(_too_long(tool)) from None
            raise

    def _event(self, step: str, context: Context, measurements: dict[str, Any]) -> None:
        self.hub.emit(
            Event(f"tool.execution.{step}", measurements, call_metadata(context), context.correlation_id, context._lot)
        )

    def _exception(self, context: Context, began: int, error: BaseException) -> None:
        spent = time.perf_counter_ns() - began
        fields = {**call_metadata(context), "error_type": type(error).__name__}
        self.hub.emit(
            Event("tool.execution.exception", {"duration": spent}, fields, context.correlation_id, context._lot)
        )

    # Telemetry.

    async def stream_telemetry(self, requests: Any, rpc: Any) -> None:
        # Headers at once, so that the reader knows the stream is open before the first event.
        await rpc.send_initial_metadata(())
        stream = self.hub.attach()

        async def read() -> None:
            async for message in requests:
                stream.control(message)

        reader = self.loop.create_task(read())
        reader.add_done_callback(_look_at)
        try:
            while (event := await stream.next()) is not None:
                await rpc.write(event)
        finally:
            self.hub.detach(stream)
            reader.cancel()


class _TimedOut(Exception):
    """The tool's own time limit is over."""


def _given_up(context: Context, error: BaseException) -> grpc.StatusCode | None:
    """The status of a call that the tool gave up because nobody waits for it any more."""
    if not (isinstance(error, (Cancelled, DeadlineExceeded)) and context.cancelled):
        return None
    return grpc.StatusCode.CANCELLED if context._cancelled else grpc.StatusCode.DEADLINE_EXCEEDED


def _too_long(tool: Tool) -> str:
    return f"the tool `{tool.name}` took longer than {tool.options.timeout:g} s"


class _Limit:
    """Cancels the task it was made in after a while, and remembers that it was this that cancelled it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float | None) -> None:
        self.reached = False
        self._task = asyncio.current_task()
        self._timer = None if seconds is None else loop.call_later(seconds, self._reach)

    def _reach(self) -> None:
        if self._task is not None:
            self.reached = True
            self._task.cancel()

    def lift(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _alone(tool: Tool, context: Context) -> bool:
    return tool.options.thread_sensitive or context.metadata.get("thread_sensitive", "").lower() in _YES


def _look_at(task: asyncio.Task[None]) -> None:
    """A reader that ends with its connection is no error."""
    if not task.cancelled():
        task.exception()
