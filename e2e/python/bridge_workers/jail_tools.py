"""A worker of the SDK that tries to get out of its jail.

python -m patchboard.worker jail_tools.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from patchboard import serve, tool

sys.path.append(str(Path(__file__).resolve().parents[1]))

import jail_attacks  # noqa: E402 - it lies with the tests


@tool(read_only=True)
def attack(server: int, port: int, path: str) -> dict[str, str]:
    """Tries every way out."""
    return jail_attacks.outcomes(server, port, path)


@tool(read_only=True)
def knock(address: str) -> dict[str, str]:
    """Calls another worker."""
    return jail_attacks.knock(address)


@tool(read_only=True)
def reach(ports: list[int]) -> dict[str, dict[str, str]]:
    """Tries ports that may be others'."""
    return jail_attacks.reach(ports)


serve()
