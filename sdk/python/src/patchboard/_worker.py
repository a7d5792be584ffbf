"""The worker process: listens, tells that it is ready, serves, and ends when told to or when its server is gone."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import signal
import socket
import stat
import sys
import threading
from collections.abc import Callable
from typing import Any

import grpc.aio

from . import _proto
from ._guard import Guarded
from ._host import Host, watch
from ._options import Options, default_capacity
from ._service import Hook, Service
from ._tool import Kind, Toolbox
from .errors import PatchboardError

log = logging.getLogger("patchboard.worker")

# Calls that still run when the worker is told to end get this long, then they are cancelled.
GRACE_SECONDS = 5.0
# What must end by itself at the very end (threads of the tools' own, for example) gets this long.
_LAST_SECONDS = 1.5
# A Unix socket's path must fit the kernel's structure, with its final zero.
_MAX_SOCKET_PATH = 107


class Hooks:
    """Functions that run at the turns of a worker's life."""

    def __init__(self) -> None:
        self.start: list[Callable[[], Any]] = []
        self.stop: list[Callable[[], Any]] = []
        self.session_end: list[Hook] = []


def run(toolbox: Toolbox, hooks: Hooks, options: Options) -> int:
    """Serves until the worker is to end; the process' exit code."""
    logging.basicConfig(
        level=options.log_level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    if options.own_group:
        lead_group()
    try:
        return asyncio.run(_serve(toolbox, hooks, options))
    except (PatchboardError, OSError) as error:
        print(f"patchboard: {error}", file=sys.stderr)
        return 1
    finally:
        # The interpreter waits for threads that are no daemons, and a tool may have left one running.
        last = threading.Timer(_LAST_SECONDS, os._exit, (1,))
        last.daemon = True
        last.start()


def lead_group() -> None:
    """A group of its own, so that what the tools start can be ended together with the worker."""
    try:
        os.setsid()
    except PermissionError:
        # It leads one already.
        pass


async def _serve(toolbox: Toolbox, hooks: Hooks, options: Options) -> int:
    loop = asyncio.get_running_loop()
    ending = asyncio.Event()
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, ending.set)
    for hook in hooks.start:
        await _run_hook(hook)
    host = Host(options.host_address, options.secret) if options.host_address else None
    blocking = any(tool.kind in (Kind.PLAIN, Kind.GENERATOR) for tool in toolbox.tools.values())
    capacity = max(1, options.capacity or default_capacity(has_blocking_tools=blocking))
    service = Service(toolbox.tools, capacity, host, hooks.session_end)
    server = grpc.aio.server(options=[*_proto.MESSAGE_SIZE_OPTIONS, ("grpc.so_reuseport", 0)])
    handler = service.handler() if options.secret is None else Guarded(service.handler(), options.secret)
    server.add_generic_rpc_handlers((handler,))
    address = await _listen(server, options)
    if options.ready_file:
        _announce(options.ready_file, address.removeprefix("127.0.0.1:"), shows_secret=options.secret is not None)
    else:
        print(f"patchboard: {len(toolbox.tools)} tools on {address}", file=sys.stderr)
    beating = None
    if host is not None and options.heartbeat.enabled:
        beating = loop.create_task(watch(host, lambda: service.own_session, options.heartbeat))
        if options.heartbeat.dependent:
            beating.add_done_callback(lambda _: ending.set())
    await ending.wait()
    if beating is not None:
        if beating.done():
            log.warning("the server at %s is gone, so this worker ends", options.host_address)
        beating.cancel()
    # They have no end of their own, so they would use up the whole grace.
    service.hub.close()
    await server.stop(GRACE_SECONDS)
    for hook in hooks.stop:
        await _run_hook(hook)
    if host is not None:
        await host.close()
    if options.socket:
        _remove_socket(options.socket)
    return 0


async def _run_hook(hook: Callable[[], Any]) -> None:
    result = hook()
    if inspect.isawaitable(result):
        await result


async def _listen(server: Any, options: Options) -> str:
    """Starts the server where nobody but this machine, and with a socket nobody but this user, reaches it."""
    if options.socket is None:
        port = server.add_insecure_port(f"127.0.0.1:{options.port}")
        await server.start()
        return f"127.0.0.1:{port}"
    path = os.path.abspath(options.socket)
    if len(os.fsencode(path)) > _MAX_SOCKET_PATH:
        raise PatchboardError(f"the socket's path has more than {_MAX_SOCKET_PATH} bytes: {path}")
    _remove_socket(path)
    mask = os.umask(0o177)
    try:
        server.add_insecure_port(f"unix:{path}")
        await server.start()
    finally:
        os.umask(mask)
    return f"unix:{path}"


def _remove_socket(path: str) -> None:
    """Removes a socket that an earlier worker left; never anything else."""
    try:
        if stat.S_ISSOCK(os.lstat(path).st_mode) and not _answers(path):
            os.unlink(path)
    except FileNotFoundError:
        pass


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
        return True


def _announce(path: str, where: str, *, shows_secret: bool) -> None:
    """Written beside and renamed, so that nobody ever reads half of it."""
    proof = "secret=shown\n" if shows_secret else ""
    write_whole(path, f"{where}\npid={os.getpid()}\n{proof}")


def write_whole(path: str, text: str) -> None:
    beside = f"{path}.tmp"
    with open(beside, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
