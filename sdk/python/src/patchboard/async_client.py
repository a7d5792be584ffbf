"""A client for asyncio, for programs outside. It says the same as `Client`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any

import grpc
import grpc.aio

from . import _proto, _requests, connection
from ._requests import Result, ToolInfo
from ._results import Progress
from ._variables import AsyncVariables
from .connection import TLS, Connection, ProgressListener, SessionInfo, SessionSettings, TelemetryEvent
from .errors import PatchboardError


class AsyncClient:
    """One session with a server.

        async with AsyncClient("127.0.0.1:50051") as client:
            print(await client.call("add", a=1, b=2))

    To be made inside the event loop it is used on. Cancelling the task that waits for a call cancels the call.
    """

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        tls: TLS | bool | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, str] | None = None,
        cache_seconds: int | None = None,
        enable_telemetry: bool = False,
        timeout: float | None = None,
    ) -> None:
        self._connection = Connection.to(address, token, tls)
        self._settings = SessionSettings.of(session_id, metadata, cache_seconds, telemetry=enable_telemetry)
        self._timeout = timeout
        self._channel = self._connection.open(grpc.aio)
        self._owns_channel = True
        self._stubs: dict[str, Any] = {rpc: _proto.stub(self._channel, rpc) for rpc in _proto.METHODS}
        self._opening = asyncio.Lock()
        self._is_open = False

    @property
    def session_id(self) -> str:
        return self._settings.session_id

    def session(
        self,
        session_id: str | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        cache_seconds: int | None = None,
        enable_telemetry: bool = False,
    ) -> AsyncClient:
        """A further session over the same connection."""
        other = object.__new__(AsyncClient)
        other.__dict__.update(self.__dict__)
        other._settings = SessionSettings.of(session_id, metadata, cache_seconds, telemetry=enable_telemetry)
        other._owns_channel = False
        other._opening = asyncio.Lock()
        other._is_open = False
        return other

    async def __aenter__(self) -> AsyncClient:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the session if the client made it, and the connection. What went wrong then no longer matters."""
        if self._is_open and self._settings.own:
            try:
                await self.end_session()
            except PatchboardError:
                pass
        self._is_open = False
        if self._owns_channel:
            await self._channel.close()

    async def ping(self, message: str = "ping") -> str:
        """The server's answer, which says that it is there."""
        answer: str = (await self._ask("Ping", _proto.PingRequest(message=message))).message
        return answer

    async def tools(self) -> list[ToolInfo]:
        """The tools of the server's workers and of this session, as they are now."""
        await self._open()
        return connection.opened(await self._ask("InitializeSession", self._settings.bare_request()))

    async def host_tools(self) -> list[ToolInfo]:
        """The server's own tools that this session may use."""
        await self._open()
        request = _proto.GetExposedElixirToolsRequest(session_id=self.session_id)
        return _requests.tools_of((await self._ask("GetExposedElixirTools", request)).tools)

    async def call(self, tool: str, /, **arguments: Any) -> Any:
        """Runs a tool and returns its result. Bytes and arrays travel as they are, everything else as JSON."""
        return (await self.call_tool(tool, arguments)).value

    async def call_tool(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        metadata: Mapping[str, str] | None = None,
        correlation_id: str | None = None,
    ) -> Result:
        """`call` with everything that can be said beside the arguments, and everything that comes back."""
        await self._open()
        request = _requests.execute_request(self.session_id, tool, arguments or {}, metadata or {})
        return _requests.result_of(await self._ask("ExecuteTool", request, timeout, correlation_id))

    def stream(self, tool: str, /, **arguments: Any) -> AsyncIterator[Any]:
        """Runs a streaming tool and gives its pieces as they come. Closing the iterator cancels the tool."""
        return self.stream_tool(tool, arguments)

    async def stream_tool(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        metadata: Mapping[str, str] | None = None,
        correlation_id: str | None = None,
        on_progress: ProgressListener | None = None,
    ) -> AsyncIterator[Any]:
        """`stream` with everything that can be said beside the arguments. `on_progress` hears what the tool says."""
        await self._open()
        request = _requests.execute_request(self.session_id, tool, arguments or {}, metadata or {}, stream=True)
        pieces = self._stubs["ExecuteStreamingTool"](
            request,
            timeout=timeout if timeout is not None else self._timeout,
            metadata=self._connection.headers(correlation_id),
        )
        try:
            async for piece in pieces:
                item = _requests.item_of(piece)
                if isinstance(item, Progress):
                    if on_progress is not None:
                        on_progress(item)
                elif item is not None:
                    yield item
        except grpc.aio.AioRpcError as error:
            raise _requests.error_of(error) from None
        finally:
            pieces.cancel()

    async def host_call(self, tool: str, /, **arguments: Any) -> Any:
        """Runs one of the server's own tools and returns its result."""
        return await self._host_call(tool, arguments)

    async def _host_call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        await self._open()
        request = _requests.host_request(self.session_id, tool, arguments, {})
        return _requests.result_of(await self._ask("ExecuteElixirTool", request)).value

    def agent(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        """One of the server's agents, as a coroutine function of a message."""

        async def ask(message: str, thread_id: str | None = None) -> Any:
            extra = {} if thread_id is None else {"thread_id": thread_id}
            return await self._host_call(f"agent.{name}", {"message": message, **extra})

        return ask

    @property
    def variables(self) -> AsyncVariables:
        """The session's variables."""
        return AsyncVariables(self._host_call)

    async def info(self) -> SessionInfo:
        """What the server knows of this session."""
        await self._open()
        request = _proto.GetSessionRequest(session_id=self.session_id)
        return connection.session_info(await self._ask("GetSession", request))

    async def heartbeat(self) -> bool:
        """Keeps the session alive; whether it still is."""
        request = _proto.HeartbeatRequest(session_id=self.session_id)
        request.client_time.GetCurrentTime()
        return bool((await self._ask("Heartbeat", request)).session_valid)

    async def end_session(self) -> None:
        """Ends the session and everything the server and its workers keep for it."""
        await self._ask("CleanupSession", _proto.CleanupSessionRequest(session_id=self.session_id))
        self._is_open = False

    async def telemetry(
        self,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        sampling: float | Mapping[str, float] | None = None,
    ) -> AsyncIterator[TelemetryEvent]:
        """Events as they happen, of the names that match. Closing the iterator ends the stream."""
        call = self._stubs["StreamTelemetry"](metadata=self._connection.headers())
        try:
            for control in connection.telemetry_controls(allow, deny, sampling):
                await call.write(control)
            async for message in call:
                yield connection.telemetry_event(message)
        except grpc.aio.AioRpcError as error:
            raise _requests.error_of(error) from None
        finally:
            call.cancel()

    async def _open(self) -> None:
        if self._is_open:
            return
        async with self._opening:
            if not self._is_open:
                connection.opened(await self._ask("InitializeSession", self._settings.first_request()))
                self._is_open = True

    async def _ask(
        self, rpc: str, request: Any, timeout: float | None = None, correlation_id: str | None = None
    ) -> Any:
        try:
            return await self._stubs[rpc](
                request,
                timeout=timeout if timeout is not None else self._timeout,
                metadata=self._connection.headers(correlation_id),
            )
        except grpc.aio.AioRpcError as error:
            raise _requests.error_of(error) from None
