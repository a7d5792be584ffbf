"""The ways into a worker: `serve()` at the end of a script, and `patchboard-worker FILE_OR_MODULE`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from . import _options
from ._tool import Toolbox, default_toolbox

H = TypeVar("H", bound=Callable[..., Any])

_loading = False
_hooks: dict[str, list[Callable[..., Any]]] = {"start": [], "stop": [], "session_end": []}


def on_start(hook: H) -> H:
    """Runs once in each worker process before it serves: the place to open connections. May be a coroutine function."""
    _hooks["start"].append(hook)
    return hook


def on_stop(hook: H) -> H:
    """Runs once in each worker process after its last call. May be a coroutine function."""
    _hooks["stop"].append(hook)
    return hook


def on_session_end(hook: H) -> H:
    """Runs with a session's id when the session has ended. May be a coroutine function."""
    _hooks["session_end"].append(hook)
    return hook


def serve(*adapters: object, toolbox: Toolbox | None = None, capacity: int | None = None) -> None:
    """Serves the declared tools, and the `@tool` methods of the given objects, until the worker is told to end.

    Ends the process. In a file that `patchboard-worker` loads it only takes note of the objects.
    """
    chosen = toolbox or default_toolbox
    for adapter in adapters:
        chosen.add_methods(adapter)
    if _loading:
        _told.update(toolbox=chosen, capacity=capacity)
        return
    options = _options.read(sys.argv[1:], os.environ, with_target=False)
    sys.exit(_start(chosen, options, capacity))


# What `serve()` was called with in a file that is being loaded.
_told: dict[str, Any] = {}


def main(arguments: Sequence[str] | None = None) -> int:
    """The console script."""
    options = _options.read(sys.argv[1:] if arguments is None else arguments, os.environ, with_target=True)
    try:
        _load(options.target or "")
    except Exception:
        traceback.print_exc()
        return 1
    return _start(_told.get("toolbox", default_toolbox), options, _told.get("capacity"))


def _load(target: str) -> None:
    """Imports the tools once; a script's own folder is on the path, as if it had been started itself."""
    global _loading
    _loading = True
    try:
        if target.endswith(".py") or os.sep in target:
            path = os.path.abspath(target)
            sys.path.insert(0, os.path.dirname(path))
            name = _module_name(path)
            spec = importlib.util.spec_from_file_location(name, path)
            if spec is None or spec.loader is None:
                raise ImportError(f"{target} cannot be loaded")
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
        else:
            sys.path.insert(0, os.getcwd())
            importlib.import_module(target)
    finally:
        _loading = False


def _module_name(path: str) -> str:
    """The file's name; with something in front where it would take the place of another module."""
    name = os.path.splitext(os.path.basename(path))[0]
    found = importlib.util.find_spec(name) if name.isidentifier() and name not in sys.modules else None
    is_itself = (
        found is not None and found.origin is not None and os.path.realpath(found.origin) == os.path.realpath(path)
    )
    return name if is_itself else f"_patchboard_{name}"


def _start(toolbox: Toolbox, options: _options.Options, capacity: int | None) -> int:
    if not toolbox.tools:
        print("patchboard: there are no tools: mark functions with @tool", file=sys.stderr)
        return 1
    if options.health_check:
        return 0
    if options.warm:
        from . import _warm

        return _warm.run(lambda child: _become_worker(toolbox, child, capacity), options)
    return _become_worker(toolbox, options, capacity)


def _become_worker(toolbox: Toolbox, options: _options.Options, capacity: int | None) -> int:
    from dataclasses import replace

    from . import _worker

    hooks = _worker.Hooks()
    hooks.start, hooks.stop, hooks.session_end = _hooks["start"], _hooks["stop"], _hooks["session_end"]
    return _worker.run(toolbox, hooks, replace(options, capacity=options.capacity or capacity))
