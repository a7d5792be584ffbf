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


serve()
