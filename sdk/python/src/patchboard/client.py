"""A client that blocks, for programs outside."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import grpc

from . import _proto, _requests, connection
from ._requests import Result, ToolInfo
from ._results import Progress
from ._variables import Variables
from .connection import TLS, Connection, ProgressListener, SessionInfo, SessionSettings, TelemetryEvent
from .errors import PatchboardError


class Client:
    """One session with a server.

        with Client("127.0.0.1:50051") as client:
            print(client.call("add", a=1, b=2))

    The address is host:port or a Unix socket (`unix:path`). Without a session id the client makes one, and ends that
    session when it is closed. May be used from several threads. `timeout`, in seconds, holds for every call that does
    not say otherwise.
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
        self._channel = self._connection.open(grpc)
        self._owns_channel = True
        self._stubs: dict[str, Any] = {rpc: _proto.stub(self._channel, rpc) for rpc in _proto.METHODS}
        self._opening = threading.Lock()
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
    ) -> Client:
        """A further session over the same connection."""
        other = object.__new__(Client)
        other.__dict__.update(self.__dict__)
        other._settings = SessionSettings.of(session_id, metadata, cache_seconds, telemetry=enable_telemetry)
        other._owns_channel = False
        other._opening = threading.Lock()
        other._is_open = False
        return other

    def __enter__(self) -> Client:
        self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the session if the client made it, and the connection. What went wrong then no longer matters."""
        if self._is_open and self._settings.own:
            try:
                self.end_session()
            except PatchboardError:
                pass
        self._is_open = False
        if self._owns_channel:
            self._channel.close()

    def ping(self, message: str = "ping") -> str:
        """The server's answer, which says that it is there."""
        answer: str = self._ask("Ping", _proto.PingRequest(message=message)).message
        return answer

    def tools(self) -> list[ToolInfo]:
        """The tools of the server's workers and of this session, as they are now."""
        self._open()
        return connection.opened(self._ask("InitializeSession", self._settings.bare_request()))

    def host_tools(self) -> list[ToolInfo]:
        """The server's own tools that this session may use."""
        self._open()
        request = _proto.GetExposedElixirToolsRequest(session_id=self.session_id)
        return _requests.tools_of(self._ask("GetExposedElixirTools", request).tools)

    def call(self, tool: str, /, **arguments: Any) -> Any:
        """Runs a tool and returns its result. Bytes and arrays travel as they are, everything else as JSON."""
        return self.call_tool(tool, arguments).value

    def call_tool(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        metadata: Mapping[str, str] | None = None,
        correlation_id: str | None = None,
    ) -> Result:
        """`call` with everything that can be said beside the arguments, and everything that comes back."""
        self._open()
        request = _requests.execute_request(self.session_id, tool, arguments or {}, metadata or {})
        return _requests.result_of(self._ask("ExecuteTool", request, timeout, correlation_id))

    def stream(self, tool: str, /, **arguments: Any) -> Iterator[Any]:
        """Runs a streaming tool and gives its pieces as they come. Leaving the loop cancels the tool."""
        return self.stream_tool(tool, arguments)

    def stream_tool(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        metadata: Mapping[str, str] | None = None,
        correlation_id: str | None = None,
        on_progress: ProgressListener | None = None,
    ) -> Iterator[Any]:
        """`stream` with everything that can be said beside the arguments. `on_progress` hears what the tool says."""
        self._open()
        request = _requests.execute_request(self.session_id, tool, arguments or {}, metadata or {}, stream=True)
        pieces = self._stubs["ExecuteStreamingTool"](
            request,
            timeout=timeout if timeout is not None else self._timeout,
            metadata=self._connection.headers(correlation_id),
        )
        try:
            for piece in pieces:
                item = _requests.item_of(piece)
                if isinstance(item, Progress):
                    if on_progress is not None:
                        on_progress(item)
                elif item is not None:
                    yield item
        except grpc.RpcError as error:
            raise _requests.error_of(error) from None
        finally:
            pieces.cancel()

    def host_call(self, tool: str, /, **arguments: Any) -> Any:
        """Runs one of the server's own tools and returns its result."""
        return self._host_call(tool, arguments)

    def _host_call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        self._open()
        request = _requests.host_request(self.session_id, tool, arguments, {})
        return _requests.result_of(self._ask("ExecuteElixirTool", request)).value

    def agent(self, name: str) -> Callable[..., Any]:
        """One of the server's agents, as a function of a message."""

        def ask(message: str, thread_id: str | None = None) -> Any:
            extra = {} if thread_id is None else {"thread_id": thread_id}
            return self._host_call(f"agent.{name}", {"message": message, **extra})

        return ask

    @property
    def variables(self) -> Variables:
        """The session's variables."""
        return Variables(self._host_call)

    def info(self) -> SessionInfo:
        """What the server knows of this session."""
        self._open()
        return connection.session_info(self._ask("GetSession", _proto.GetSessionRequest(session_id=self.session_id)))

    def heartbeat(self) -> bool:
        """Keeps the session alive; whether it still is."""
        request = _proto.HeartbeatRequest(session_id=self.session_id)
        request.client_time.GetCurrentTime()
        return bool(self._ask("Heartbeat", request).session_valid)

    def end_session(self) -> None:
        """Ends the session and everything the server and its workers keep for it."""
        self._ask("CleanupSession", _proto.CleanupSessionRequest(session_id=self.session_id))
        self._is_open = False

    def telemetry(
        self,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        sampling: float | Mapping[str, float] | None = None,
    ) -> TelemetryStream:
        """Events as they happen, of the names that match: iterate over it, and close it when done."""
        controls = connection.telemetry_controls(allow, deny, sampling)
        return TelemetryStream(self._stubs["StreamTelemetry"], controls, self._connection.headers())

    def _open(self) -> None:
        if self._is_open:
            return
        with self._opening:
            if not self._is_open:
                connection.opened(self._ask("InitializeSession", self._settings.first_request()))
                self._is_open = True

    def _ask(self, rpc: str, request: Any, timeout: float | None = None, correlation_id: str | None = None) -> Any:
        try:
            return self._stubs[rpc](
                request,
                timeout=timeout if timeout is not None else self._timeout,
                metadata=self._connection.headers(correlation_id),
            )
        except grpc.RpcError as error:
            raise _requests.error_of(error) from None


class TelemetryStream:
    """An open stream of events."""

    def __init__(self, rpc: Any, controls: list[Any], headers: list[tuple[str, str]]) -> None:
        self._controls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for control in controls:
            self._controls.put(control)
        self._events = rpc(iter(self._controls.get, None), metadata=headers)

    def __iter__(self) -> Iterator[TelemetryEvent]:
        try:
            for message in self._events:
                yield connection.telemetry_event(message)
        except grpc.RpcError as error:
            if self._events.code() is not grpc.StatusCode.CANCELLED:
                raise _requests.error_of(error) from None

    def __enter__(self) -> TelemetryStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._controls.put(None)
        self._events.cancel()
