"""What a worker is told by its command line and environment."""

from __future__ import annotations

import argparse
import json
import logging
import os
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ._host import HeartbeatSettings

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "none": logging.CRITICAL + 1,
}


SECRET_VARIABLE = "PATCHBOARD_WORKER_SECRET"
# Taken when the package is imported, before the tools' own code runs: what that starts does not inherit it.
_inherited_secret = os.environ.pop(SECRET_VARIABLE, None)


@dataclass(frozen=True)
class Options:
    target: str | None
    port: int
    socket: str | None
    host_address: str | None
    ready_file: str | None
    own_group: bool
    warm: bool
    health_check: bool
    capacity: int | None
    log_level: int
    heartbeat: HeartbeatSettings
    # What every call must come with; None in a worker that no server started.
    secret: str | None = field(default=None, repr=False)


def read(arguments: Sequence[str], environment: MutableMapping[str, str], *, with_target: bool) -> Options:
    """Flags nobody here knows are left alone: the server may have new ones, and a script its own.

    The secret is taken out of `environment`, so that what the tools start does not have it.
    """
    parser = argparse.ArgumentParser(
        prog="patchboard-worker",
        description="Serves the tools of a Python file or module to a Patchboard server.",
        allow_abbrev=False,
    )
    if with_target:
        parser.add_argument("target", help="a file such as tools.py, or a module such as package.tools")
    parser.add_argument("--port", type=int, default=0, help="the TCP port on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--socket", help="a Unix socket to listen on instead of a port")
    parser.add_argument("--capacity", type=int, help="how many calls run at once")
    parser.add_argument("--elixir-address", help="host:port of the server")
    parser.add_argument("--health-check", action="store_true", help="load the tools, then end: 0 if all is well")
    for flag in ("--snakepit-run-id", "--snakepit-instance-name", "--snakepit-instance-token", "--adapter"):
        parser.add_argument(flag, help=argparse.SUPPRESS)
    parser.add_argument("--heartbeat-enabled", action="store_true", default=None, help=argparse.SUPPRESS)
    for flag in ("interval-ms", "timeout-ms", "max-missed", "initial-delay-ms"):
        parser.add_argument(f"--heartbeat-{flag}", type=int, help=argparse.SUPPRESS)
    dependence = parser.add_mutually_exclusive_group()
    dependence.add_argument(
        "--heartbeat-dependent", dest="dependent", action="store_true", default=None, help=argparse.SUPPRESS
    )
    dependence.add_argument("--heartbeat-independent", dest="dependent", action="store_false", help=argparse.SUPPRESS)
    given, _ = parser.parse_known_args(arguments)
    return Options(
        target=given.target if with_target else None,
        port=given.port,
        socket=given.socket or environment.get("PATCHBOARD_WORKER_SOCKET") or None,
        host_address=(
            given.elixir_address
            or environment.get("SNAKEPIT_GRPC_ADDRESS")
            or environment.get("SNAKEPIT_ELIXIR_ADDRESS")
            or None
        ),
        ready_file=environment.get("SNAKEPIT_READY_FILE") or None,
        own_group=environment.get("SNAKEPIT_PROCESS_GROUP") == "1",
        warm=environment.get("PATCHBOARD_WARM") == "1",
        health_check=given.health_check,
        capacity=given.capacity,
        log_level=_LEVELS.get(environment.get("SNAKEPIT_LOG_LEVEL", "").lower(), logging.WARNING),
        heartbeat=_heartbeat(given, environment.get("SNAKEPIT_HEARTBEAT_CONFIG")),
        secret=environment.pop(SECRET_VARIABLE, None) or _inherited_secret or None,
    )


def _heartbeat(given: argparse.Namespace, configured: str | None) -> HeartbeatSettings:
    told: dict[str, Any] = {
        "enabled": given.heartbeat_enabled,
        "interval_ms": given.heartbeat_interval_ms,
        "timeout_ms": given.heartbeat_timeout_ms,
        "max_missed_heartbeats": given.heartbeat_max_missed,
        "initial_delay_ms": given.heartbeat_initial_delay_ms,
        "dependent": given.dependent,
    }
    try:
        entries = json.loads(configured or "{}")
    except ValueError:
        entries = {}
    if isinstance(entries, dict):
        told.update({_snake(str(key)): value for key, value in entries.items()})
    settings = HeartbeatSettings()
    for name, key in (("enabled", "enabled"), ("dependent", "dependent")):
        if isinstance(told.get(key), bool):
            settings = replace(settings, **{name: told[key]})
    for name, key in (("interval", "interval_ms"), ("timeout", "timeout_ms"), ("initial_delay", "initial_delay_ms")):
        if _is_number(told.get(key)) and told[key] >= 0:
            settings = replace(settings, **{name: max(told[key] / 1000, 0.0 if name == "initial_delay" else 0.01)})
    if _is_number(told.get("max_missed_heartbeats")) and told["max_missed_heartbeats"] >= 1:
        settings = replace(settings, max_missed=int(told["max_missed_heartbeats"]))
    return settings


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _snake(key: str) -> str:
    """`intervalMs` is `interval_ms`."""
    return "".join(f"_{one.lower()}" if one.isupper() else one for one in key)


def default_capacity(*, has_blocking_tools: bool) -> int:
    """Threads are few; coroutines are cheap."""
    return min(32, (os.cpu_count() or 1) + 4) if has_blocking_tools else 64
