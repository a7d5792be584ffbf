"""Warm start: one process that has imported everything and forks a worker whenever the server asks for one.

gRPC is loaded here but never used, since its threads do not survive a fork. There are no threads and no event loop
either: one `select` waits for the server's lines and for ended children.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

from . import _options
from ._worker import lead_group, write_whole

# Children that do not end within this after SIGTERM are killed.
_GRACE_SECONDS = 3.0
# A longer line cannot be an order.
_MAX_LINE = 1024 * 1024
_PR_SET_PDEATHSIG = 1

Work = Callable[[_options.Options], int]


def run(work: Work, options: _options.Options) -> int:
    """Obeys the orders on standard input until it ends. In a forked child it does not return."""
    if options.own_group:
        lead_group()
    others = threading.active_count() - 1
    if others:
        _say(f"{others} threads were started while the tools were loaded; the workers do not have them")
    # What is there now stays shared with the children as long as nobody writes to it.
    gc.collect()
    gc.freeze()
    parent = _Parent(work)
    if options.ready_file:
        write_whole(options.ready_file, f"warm\npid={os.getpid()}\n")
    return parent.obey()


class _Parent:
    def __init__(self, work: Work) -> None:
        self._work = work
        self._children: set[int] = set()
        self._pid = os.getpid()
        self._wake_read, self._wake_write = os.pipe()
        for end in (self._wake_read, self._wake_write):
            os.set_blocking(end, False)
        self._ending = False
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for one in (signal.SIGTERM, signal.SIGINT):
            signal.signal(one, self._end)

    def _end(self, *_: Any) -> None:
        self._ending = True

    def obey(self) -> int:
        pending = b""
        while not self._ending:
            readable, _, _ = select.select([0, self._wake_read], [], [])
            if self._wake_read in readable:
                self._drain_and_reap()
            if 0 in readable:
                data = os.read(0, 65536)
                if not data:
                    break
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    if line.strip():
                        self._order(line)
                if len(pending) > _MAX_LINE:
                    _say("an order is longer than 1 MiB")
                    break
        self._stop_children()
        return 0

    def _drain_and_reap(self) -> None:
        try:
            os.read(self._wake_read, 4096)
        except BlockingIOError:
            pass
        for pid in list(self._children):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                self._children.discard(pid)
                code = os.waitstatus_to_exitcode(status)
                # As a shell says it: 128 and the signal.
                _say(f"worker {pid} exited with {code if code >= 0 else 128 - code}")

    def _order(self, line: bytes) -> None:
        try:
            order = json.loads(line)
            if "spawn" in order:
                spawn = order["spawn"]
                arguments = [str(one) for one in spawn.get("args", [])]
                environment = {str(key): str(value) for key, value in spawn.get("env", {}).items()}
                self._spawn(arguments, environment)
            elif "signal" in order:
                self._signal(int(order["signal"]["pid"]), int(order["signal"]["signal"]))
            else:
                _say("an order is neither spawn nor signal")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            _say(f"an order cannot be read: {error}")
        except OSError as error:
            _say(f"an order failed: {error}")

    def _spawn(self, arguments: list[str], environment: dict[str, str]) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            self._become(arguments, environment)
        self._children.add(pid)

    def _become(self, arguments: list[str], environment: dict[str, str]) -> NoReturn:
        """The child: a worker like any other from here on."""
        code = 1
        try:
            _die_with_parent(self._pid)
            signal.set_wakeup_fd(-1)
            for one in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
                signal.signal(one, signal.SIG_DFL)
            os.close(self._wake_read)
            os.close(self._wake_write)
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            os.close(nothing)
            os.environ.update(environment)
            os.environ.pop("PATCHBOARD_WARM", None)
            _reseed()
            code = self._work(_options.read(arguments, os.environ, with_target=False))
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 1
        except BaseException:  # noqa: BLE001 - nothing may get past the fork.
            import traceback

            traceback.print_exc()
        finally:
            _leave(code)

    def _signal(self, pid: int, number: int) -> None:
        if pid not in self._children:
            _say(f"{pid} is not a worker of this process")
            return
        if number == signal.SIGKILL:
            _kill_group(pid)
        else:
            os.kill(pid, number)

    def _stop_children(self) -> None:
        for pid in self._children:
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + _GRACE_SECONDS
        while self._children and (left := deadline - time.monotonic()) > 0:
            select.select([self._wake_read], [], [], left)
            self._drain_and_reap()
        for pid in list(self._children):
            _kill_group(pid)
            os.waitpid(pid, 0)
            _say(f"worker {pid} exited with {128 + signal.SIGKILL}")


def _kill_group(pid: int) -> None:
    """What a worker started goes with it, if it leads a group of its own."""
    if os.getpgid(pid) == pid:
        os.killpg(pid, signal.SIGKILL)
    else:
        os.kill(pid, signal.SIGKILL)


def _die_with_parent(parent: int) -> None:
    """Lets the kernel end this worker when the process that would reap it is gone. Only Linux can."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:
            raise SystemExit(1)


def _reseed() -> None:
    """Forked processes must not draw the same numbers; Python's own generator sees to itself."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


def _leave(code: int) -> NoReturn:
    """Ends a child after what was registered to run at its end, without returning into the parent's code."""
    import atexit

    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _say(text: str) -> None:
    print(f"patchboard: {text}", file=sys.stderr, flush=True)
