"""What a tool can reach during a call, and the heartbeats that a worker sends for every session it has seen."""

from __future__ import annotations

import asyncio
import json
import os
import signal

import grpc
from google.protobuf import any_pb2, struct_pb2, wrappers_pb2

import bridge_wire as wire
from worker_notes import note


class SessionContext:
    """One call's view of its session: who asks, and the parent's own tools."""

    def __init__(self, stub: wire.Stub, session_id: str, correlation: str = "", request=None, call=None) -> None:
        self.stub = stub
        self.session_id = session_id
        self.correlation = correlation
        self.request_metadata = dict(request.metadata) if request is not None else {}
        self.headers = dict(call.invocation_metadata()) if call is not None else {}
        self.time_remaining = call.time_remaining() if call is not None else None
        self._host_tools: dict | None = None

    @property
    def host_tools(self) -> dict:
        if self._host_tools is None:
            asked = wire.GetExposedElixirToolsRequest(session_id=self.session_id)
            answer = self.stub.GetExposedElixirTools(asked, metadata=self._headers())
            # Their parameters are sent and thrown away.
            self._host_tools = {spec.name: {"description": spec.description, "parameters": {}} for spec in answer.tools}
        return self._host_tools

    def call_elixir_tool(self, tool: str, **arguments):
        if tool not in self.host_tools:
            raise ValueError(f"Elixir tool '{tool}' not found")
        request = wire.ExecuteElixirToolRequest(session_id=self.session_id, tool_name=tool)
        for name, value in arguments.items():
            request.parameters[name].CopyFrom(pack_argument(value))
        answer = self.stub.ExecuteElixirTool(request, metadata=self._headers())
        if not answer.success:
            raise RuntimeError(f"Elixir tool failed: {answer.error_message}")
        return unpack_result(answer.result)

    def _headers(self) -> list[tuple[str, str]]:
        return [(wire.CORRELATION, self.correlation)] if self.correlation else []


def pack_argument(value) -> any_pb2.Any:
    if isinstance(value, (bool, int, float)):
        return any_pb2.Any(type_url="type.googleapis.com/google.protobuf.Value", value=json.dumps(value).encode())
    packed = any_pb2.Any()
    packed.Pack(wrappers_pb2.StringValue(value=value if isinstance(value, str) else str(value)))
    return packed


def unpack_result(result: any_pb2.Any):
    if result.Is(struct_pb2.Struct.DESCRIPTOR):
        packed = struct_pb2.Struct()
        result.Unpack(packed)
        return dict(packed)
    return json.loads(result.value) if result.value else None


class Heartbeats:
    """A loop per session. After three misses in a row a dependent worker ends itself; a lost session is none."""

    def __init__(self, stub: wire.Stub, config: dict) -> None:
        self.stub = stub
        self.config = config
        self.loops: dict[str, asyncio.Task] = {}

    def start(self, session_id: str) -> None:
        if self.config["enabled"] and session_id not in self.loops:
            self.loops[session_id] = asyncio.get_running_loop().create_task(self._beat(session_id))

    def stop(self, session_id: str) -> None:
        if loop := self.loops.pop(session_id, None):
            loop.cancel()

    async def _beat(self, session_id: str) -> None:
        missed = 0
        await asyncio.sleep(self.config["initial_delay_ms"] / 1000)
        while True:
            request = wire.HeartbeatRequest(session_id=session_id)
            request.client_time.GetCurrentTime()
            note("beats", session_id)
            try:
                await self.stub.Heartbeat(request, timeout=self.config["timeout_ms"] / 1000)
                missed = 0
            except grpc.RpcError:
                missed += 1
            if missed >= self.config["max_missed_heartbeats"] and self.config["dependent"]:
                os.kill(os.getpid(), signal.SIGTERM)
                return
            await asyncio.sleep(self.config["interval_ms"] / 1000)
