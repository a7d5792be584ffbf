"""The worker's way to the server that started it: calls for its tools, and a heartbeat to see that it is there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from . import _proto, _requests
from ._context import Context
from .errors import Cancelled, DeadlineExceeded

# A call back to the server ends after this even if its own caller waits for ever.
_CALL_SECONDS = 298.8

# Answers that come from the network and not from a server.
_NOBODY_THERE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)


@dataclass(frozen=True)
class HeartbeatSettings:
    enabled: bool = True
    interval: float = 2.0
    timeout: float = 10.0
    max_missed: int = 3
    initial_delay: float = 0.0
    # Whether the worker ends when the server is gone.
    dependent: bool = True


class Host:
    """One channel to the server, on the worker's loop."""

    def __init__(self, address: str, secret: str | None = None) -> None:
        self.address = address
        self._proof = () if secret is None else ((_proto.SECRET_HEADER, secret),)
        # A worker that was started by a server that is gone for ever ends; it need not wait long for a new try.
        self._channel = grpc.aio.insecure_channel(
            address,
            options=[
                *_proto.MESSAGE_SIZE_OPTIONS,
                ("grpc.max_reconnect_backoff_ms", 1000),
                ("grpc.initial_reconnect_backoff_ms", 100),
                ("grpc.enable_http_proxy", 0),
            ],
        )
        self._execute = _proto.stub(self._channel, "ExecuteElixirTool")
        self._tools = _proto.stub(self._channel, "GetExposedElixirTools")
        self._ping = _proto.stub(self._channel, "Ping")
        self._heartbeat = _proto.stub(self._channel, "Heartbeat")
        self._session = _proto.stub(self._channel, "GetSession")

    async def call(self, context: Context, tool: str, arguments: Mapping[str, Any]) -> Any:
        metadata = {"correlation_id": context.correlation_id} if context.correlation_id else {}
        request = _requests.host_request(context.session_id, tool, arguments, metadata)
        response = await self._ask(self._execute, request, context)
        return _requests.result_of(response).value

    async def tools(self, context: Context) -> list[_requests.ToolInfo]:
        request = _proto.GetExposedElixirToolsRequest(session_id=context.session_id)
        return _requests.tools_of((await self._ask(self._tools, request, context)).tools)

    async def get_session(self, request: Any, timeout: float | None) -> Any:
        """The server's own answer; its status passes through as an AioRpcError."""
        return await self._session(
            request, metadata=self._proof, timeout=min(timeout or _CALL_SECONDS, _CALL_SECONDS)
        )

    async def _ask(self, rpc: Any, request: Any, context: Context) -> Any:
        remaining = context.time_remaining()
        if remaining is not None and remaining <= 0:
            raise DeadlineExceeded(f"the time for the call of `{context.tool_name}` is over")
        headers = [*self._proof, (_proto.MAX_REPLY_HEADER, str(_proto.MAX_MESSAGE_BYTES))]
        if context.correlation_id:
            headers.append((_proto.CORRELATION_HEADER, context.correlation_id))
        if context.traceparent:
            headers.append((_proto.TRACE_HEADER, context.traceparent))
        timeout = _CALL_SECONDS if remaining is None else min(remaining, _CALL_SECONDS)
        try:
            return await rpc(request, metadata=headers, timeout=timeout)
        except grpc.aio.AioRpcError as error:
            raised = _requests.error_of(error)
            if isinstance(raised, Cancelled) and not context.cancelled:
                raised = Cancelled("the server cancelled the call")
            raise raised from None

    async def beat(self, session_id: str, timeout: float) -> bool:
        """Whether the server answers. Any answer counts: a server that says no is there."""
        try:
            if session_id:
                request = _proto.HeartbeatRequest(session_id=session_id)
                request.client_time.GetCurrentTime()
                await self._heartbeat(request, metadata=self._proof, timeout=timeout)
            else:
                ping = _proto.PingRequest(message=f"worker_{os.getpid()}")
                await self._ping(ping, metadata=self._proof, timeout=timeout)
        except grpc.aio.AioRpcError as error:
            return error.code() not in _NOBODY_THERE
        return True

    async def close(self) -> None:
        await self._channel.close()


async def watch(host: Host, session: Any, settings: HeartbeatSettings) -> None:
    """Returns when the server has been gone for `max_missed` beats in a row; `session` gives the id to beat with."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(settings.initial_delay)
    missed = 0
    while True:
        began = loop.time()
        missed = 0 if await host.beat(session(), settings.timeout) else missed + 1
        if missed >= settings.max_missed:
            return
        await asyncio.sleep(max(0.0, began + settings.interval - loop.time()))
