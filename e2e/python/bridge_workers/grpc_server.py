"""A worker as programs of the `snakepit.bridge` protocol have them: a stand-in for an unmodified one, made from what is
known of its command line, environment, start, calls, losses and habits, the bad ones included.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import inspect
import itertools
import json
import os
import signal
import sys
import threading
import time
import uuid

import grpc

import bridge_wire as wire
from worker_notes import note, own_number
from worker_session import Heartbeats, SessionContext
from worker_telemetry import Telemetry
from worker_values import arguments_of, chunk_data, encode, error_report

MESSAGE_LIMIT = 100 * 1024 * 1024
SIZES = [("grpc.max_send_message_length", MESSAGE_LIMIT), ("grpc.max_receive_message_length", MESSAGE_LIMIT)]
PING_ATTEMPTS = 60
TRUE = ("1", "true", "t", "yes", "y", "on")
STREAM_QUEUE = 100
HEARTBEAT = {
    "enabled": True,
    "interval_ms": 2000,
    "timeout_ms": 10000,
    "max_missed_heartbeats": 3,
    "initial_delay_ms": 0,
    "dependent": True,
}


class Worker:
    """The service. RPCs that only a parent has are not there, and so UNIMPLEMENTED."""

    def __init__(self, adapter: type, parent: str, heartbeat: dict) -> None:
        self.adapter = adapter
        # With the default limits: what is over 4 MiB cannot be read.
        self.parent = wire.Stub(grpc.insecure_channel(parent))
        self.quiet_parent = wire.Stub(grpc.aio.insecure_channel(parent))
        self.heartbeats = Heartbeats(self.quiet_parent, heartbeat)
        self.telemetry = Telemetry()
        self.registered: set[str] = set()

    async def Ping(self, request, context):
        note(f"rpcs-{own_number()}", f"Ping {request.message}")
        answer = wire.PingResponse(message=f"Pong from Python: {request.message}")
        answer.server_time.GetCurrentTime()
        return answer

    async def InitializeSession(self, request, context):
        note(f"rpcs-{own_number()}", f"InitializeSession {request.session_id} {sorted(request.metadata)}")
        answer = await self.quiet_parent.InitializeSession(request)
        self.heartbeats.start(request.session_id)
        return answer

    async def CleanupSession(self, request, context):
        note(f"rpcs-{own_number()}", f"CleanupSession {request.session_id}")
        self.heartbeats.stop(request.session_id)
        return await self.quiet_parent.CleanupSession(request)

    async def GetSession(self, request, context):
        # A missing session is an exception here, and so UNKNOWN to the caller.
        answer = await self.quiet_parent.GetSession(request)
        self.heartbeats.start(request.session_id)
        return answer

    async def Heartbeat(self, request, context):
        note(f"rpcs-{own_number()}", f"Heartbeat {request.session_id}")
        if os.environ.get("FIXTURE_HEARTBEATS") == "fail":
            await context.abort(grpc.StatusCode.INTERNAL, "no heart")
        return await self.quiet_parent.Heartbeat(request)

    async def StreamTelemetry(self, controls, context):
        note(
            f"rpcs-{own_number()}",
            f"StreamTelemetry {'no deadline' if context.time_remaining() is None else 'deadline'}",
        )
        async for event in self.telemetry.serve(controls, context):
            yield event

    async def ExecuteTool(self, request, context):
        started = time.monotonic()
        arguments: dict = {}
        adapter = None
        try:
            adapter = self._adapter_for(request, context)
            arguments = arguments_of(request)
            result = await self._run(adapter, request, arguments)
            if inspect.isgenerator(result) or inspect.isasyncgen(result):
                result = {"error": "Streaming tool called on non-streaming endpoint."}
            answer = wire.ExecuteToolResponse(success=True, result=encode(result))
            answer.execution_time_ms = int((time.monotonic() - started) * 1000)
            return answer
        except Exception as error:  # noqa: BLE001 - whatever a tool does is told
            return wire.ExecuteToolResponse(success=False, error_message=error_report(error, request, arguments))
        finally:
            if adapter is not None:
                adapter.cleanup()

    async def ExecuteStreamingTool(self, request, context):
        arguments: dict = {}
        adapter = None
        numbers = itertools.count(1)
        is_finished = False
        try:
            adapter = self._adapter_for(request, context)
            arguments = arguments_of(request)
            result = await self._run(adapter, request, arguments)
            async with contextlib.aclosing(items_of(result)) as items:
                async for data, is_final, metadata in items:
                    is_finished = is_finished or is_final
                    yield wire.ToolChunk(
                        chunk_id=f"{request.tool_name}-{next(numbers)}", data=data, is_final=is_final, metadata=metadata
                    )
            if not is_finished:
                yield wire.ToolChunk(chunk_id=f"{request.tool_name}-{next(numbers)}", is_final=True)
        except Exception as error:  # noqa: BLE001
            await context.abort(grpc.StatusCode.INTERNAL, error_report(error, request, arguments))
        finally:
            if adapter is not None:
                adapter.cleanup()

    def _adapter_for(self, request, context):
        """A new adapter. Everything before the tool itself blocks the loop: while the parent keeps a call waiting, so
        does this worker with all others."""
        correlation = dict(context.invocation_metadata()).get(wire.CORRELATION) or uuid.uuid4().hex
        headers = [(wire.CORRELATION, correlation)]
        try:
            self.parent.InitializeSession(
                wire.InitializeSessionRequest(session_id=request.session_id), metadata=headers
            )
        except grpc.RpcError as error:
            # It goes on all the same; only the test is told.
            note("trouble", f"InitializeSession: {error.code().name}: {error.details()}")
        self.heartbeats.start(request.session_id)
        adapter = self.adapter()
        adapter.telemetry = self.telemetry
        adapter.set_session_context(SessionContext(self.parent, request.session_id, correlation, request, context))
        if hasattr(adapter, "register_with_session") and request.session_id not in self.registered:
            self.registered.add(request.session_id)
            with contextlib.suppress(grpc.RpcError):
                adapter.register_with_session(request.session_id, self.parent)
        if hasattr(adapter, "initialize"):
            adapter.initialize()
        return adapter

    async def _run(self, adapter, request, arguments: dict):
        if request.metadata.get("thread_sensitive", "").lower() in TRUE:
            result = adapter.execute_tool(request.tool_name, arguments, adapter.context)
        else:
            result = await asyncio.get_running_loop().run_in_executor(
                None, adapter.execute_tool, request.tool_name, arguments, adapter.context
            )
        return await result if inspect.isawaitable(result) else result


async def items_of(result):
    """The pieces of a streaming tool's result, each as data, whether it is the final one, and metadata."""
    if inspect.isasyncgen(result):
        async with contextlib.aclosing(result):
            async for item in result:
                yield piece(item)
    elif hasattr(result, "__iter__"):
        async with contextlib.aclosing(threaded(result)) as pieces:
            async for one in pieces:
                yield one
    else:
        yield piece(result)


def piece(item) -> tuple[bytes, bool, dict]:
    if all(hasattr(item, name) for name in ("data", "is_final", "metadata")):
        return chunk_data(item.data), item.is_final, dict(item.metadata or {})
    return chunk_data(item), False, {}


async def threaded(iterable):
    """Reads an iterable on a thread of the pool, at most a hundred pieces ahead."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue = asyncio.Queue(STREAM_QUEUE)
    stopped = threading.Event()
    end = object()

    def put(what) -> None:
        placed = asyncio.run_coroutine_threadsafe(queue.put(what), loop)
        while not stopped.is_set():
            with contextlib.suppress(TimeoutError):
                placed.result(0.05)
                return
        placed.cancel()

    def read() -> None:
        iterator = iter(iterable)
        try:
            while not stopped.is_set():
                try:
                    item = next(iterator)
                except StopIteration:
                    put(end)
                    return
                except Exception as error:  # noqa: BLE001
                    put(error)
                    return
                # What cannot be encoded ends this thread, and nobody hears of it: the stream hangs.
                put(piece(item))
        finally:
            if hasattr(iterator, "close"):
                iterator.close()

    reading = loop.run_in_executor(None, read)
    reading.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        while (got := await queue.get()) is not end:
            if isinstance(got, Exception):
                raise got
            yield got
    finally:
        stopped.set()


# Starting.


def main() -> int:
    flags = parse_flags()
    if flags.health_check:
        return 0 if load(flags.adapter) else 1
    if os.environ.get("SNAKEPIT_PROCESS_GROUP", "").lower() in TRUE:
        with contextlib.suppress(OSError):
            os.setsid()
    note("starts", str(own_number()))
    if not parent_answers(flags.elixir_address):
        return 1
    adapter = load(flags.adapter)
    if adapter is None:
        return 1
    return asyncio.run(serve(adapter, flags))


def parse_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--adapter", required=True)
    address = os.environ.get("SNAKEPIT_GRPC_ADDRESS") or os.environ.get("SNAKEPIT_ELIXIR_ADDRESS")
    parser.add_argument("--elixir-address", default=address, required=address is None)
    for name in ("--snakepit-run-id", "--snakepit-instance-name", "--snakepit-instance-token"):
        parser.add_argument(name)
    parser.add_argument("--heartbeat-enabled", action="store_true", default=None)
    for name in ("interval-ms", "timeout-ms", "max-missed", "initial-delay-ms"):
        parser.add_argument(f"--heartbeat-{name}", type=int)
    parser.add_argument("--heartbeat-dependent", dest="heartbeat_dependent", action="store_true", default=None)
    parser.add_argument("--heartbeat-independent", dest="heartbeat_dependent", action="store_false")
    parser.add_argument("--health-check", action="store_true")
    return parser.parse_args()


def heartbeat_config(flags: argparse.Namespace) -> dict:
    """The environment wins over the flags."""
    told = {
        "enabled": flags.heartbeat_enabled,
        "interval_ms": flags.heartbeat_interval_ms,
        "timeout_ms": flags.heartbeat_timeout_ms,
        "max_missed_heartbeats": flags.heartbeat_max_missed,
        "initial_delay_ms": flags.heartbeat_initial_delay_ms,
        "dependent": flags.heartbeat_dependent,
    }
    told = {name: value for name, value in told.items() if value is not None}
    told.update(json.loads(os.environ.get("SNAKEPIT_HEARTBEAT_CONFIG") or "{}"))
    return {**HEARTBEAT, **told}


def parent_answers(address: str) -> bool:
    delay = 0.05
    with grpc.insecure_channel(address) as channel:
        stub = wire.Stub(channel)
        for _ in range(PING_ATTEMPTS):
            with contextlib.suppress(grpc.RpcError):
                stub.Ping(wire.PingRequest(message="connection_test"), timeout=1)
                return True
            time.sleep(delay)
            delay = min(2.0, delay * 2)
    return False


def load(path: str) -> type | None:
    module, name = path.rsplit(".", 1)
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:  # noqa: BLE001
        print(f"cannot load the adapter {path}: {error}", file=sys.stderr)
        return None


async def serve(adapter: type, flags: argparse.Namespace) -> int:
    server = grpc.aio.server(options=SIZES)
    server.add_generic_rpc_handlers((wire.handlers_of(Worker(adapter, flags.elixir_address, heartbeat_config(flags))),))
    port = server.add_insecure_port(f"[::]:{flags.port}")
    await server.start()
    announce(port)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await ended.wait()
    await server.stop(0.5)
    # Tools that still run on threads would be waited for.
    os._exit(0)


def announce(port: int) -> None:
    if path := os.environ.get("SNAKEPIT_READY_FILE"):
        with open(f"{path}.tmp", "w") as file:
            file.write(str(port))
            file.flush()
            os.fsync(file.fileno())
        os.rename(f"{path}.tmp", path)


if __name__ == "__main__":
    sys.exit(main())
