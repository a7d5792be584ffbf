"""The tools of the workers in tests: most do one simple thing, some do what a worker should not."""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import math
import os
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

from worker_adapter import Adapter, tool
from worker_notes import note, own_number, wait_for_release

# A worker that takes its time to start: so many seconds, or until the test lets it go on.
time.sleep(float(os.environ.get("FIXTURE_IMPORT_SECONDS", "0")))
if _release := os.environ.get("FIXTURE_IMPORT_RELEASE"):
    wait_for_release(_release)
_kept: list[bytes] = []


class Tools(Adapter):
    # Values.

    @tool("Gives back what it got")
    def echo(self, value=None):
        note("echo", repr(value)[:200])
        return value

    @tool("Tells what its arguments are")
    def describe(self, **kwargs):
        note("describe", " ".join(sorted(kwargs)))
        return {name: seen(value) for name, value in kwargs.items()}

    @tool("Tells what its text is")
    def text(self, text: str):
        return {"text": seen(text)}

    @tool("Adds two numbers")
    def add(self, a: float, b: float):
        note("add", f"{a} {b}")
        return a + b

    @tool("Measures bytes")
    def measure(self, data: bytes):
        note("measure", str(len(data)))
        return {"type": type(data).__name__, "length": len(data), "sha256": hashlib.sha256(data).hexdigest()}

    @tool("Makes a result of a kind")
    def make(self, kind: str, size: int = 0):
        kinds = {
            "none": lambda: None,
            "int": lambda: 5,
            "big": lambda: 2**53 + 1,
            "nan": lambda: math.nan,
            "bytes": lambda: b"raw",
            "tuple": lambda: (1, 2),
            "true": lambda: True,
            "map": lambda: {"int": 5, "big": 2**53 + 1, "null": None, "nan": math.nan, "object": object},
            "list": lambda: [1, "two", None],
            "string": lambda: "x" * size,
            "nested": lambda: nested(size),
        }
        return kinds[kind]()

    # Time.

    @tool("Sleeps on a thread")
    def nap(self, seconds: float, name: str = ""):
        note("nap", name)
        time.sleep(seconds)
        note("nap-done", name)
        return name

    @tool("Runs on a thread until the test lets it end")
    def hold(self, name: str):
        note("hold", name)
        wait_for_release(name)
        note("hold-done", name)
        return {"pid": own_number(), "session": self.context.session_id, "name": name}

    @tool("Sleeps on the loop, and can be woken")
    async def doze(self, seconds: float, name: str = ""):
        note("doze", name)
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            note("doze-cancelled", name)
            raise
        return name

    @tool("Says which process it is, after a while")
    def where(self, seconds: float = 0.0):
        note("where", f"{own_number()} {self.context.session_id}")
        time.sleep(seconds)
        return {"pid": own_number(), "session": self.context.session_id}

    @tool("Remembered by the server when the session wants it", cacheable="true")
    def cached(self, key: str = "", fails: bool = False):
        note("cached", key)
        if fails:
            raise ValueError("not this time")
        return {"key": key, "made": uuid.uuid4().hex}

    # Trouble.

    @tool("Fails")
    def fail(self, message: str = "made to fail"):
        raise ValueError(message)

    @tool("Ends the process")
    def crash(self, code: int = 139):
        note("crash", str(own_number()))
        os._exit(code)

    @tool("Breaks the process by a bad address")
    def segfault(self):
        ctypes.string_at(0)

    @tool("Prints a lot")
    def chatter(self, megabytes: int):
        line = "all work and no play " * 50 + "\n"
        for _ in range(megabytes * 1024 * 1024 // len(line)):
            sys.stdout.write(line)
        sys.stdout.flush()
        return megabytes

    @tool("Takes memory and keeps it")
    def hog(self, mebibytes: int):
        _kept.append(b"\1" * (mebibytes * 1024 * 1024))
        return own_number()

    @tool("Starts a process that would outlive this one")
    def spawn(self):
        # Known by its command line: its number is the worker's own.
        mark = f"1000.{own_number()}{time.time_ns()}"
        subprocess.Popen(["sleep", mark], start_new_session=True)
        return mark

    # Surroundings.

    @tool("Tells where and how it runs")
    def about(self, **kwargs):
        return {
            "pid": own_number(),
            "leads_its_group": os.getpgid(0) == os.getpid(),
            "argv": sys.argv,
            "cwd": os.getcwd(),
            "environment": dict(os.environ),
            "session": self.context.session_id,
            "metadata": self.context.request_metadata,
            "headers": {name: value for name, value in self.context.headers.items() if isinstance(value, str)},
            "time_left": self.context.time_remaining,
            "is_main_thread": threading.current_thread() is threading.main_thread(),
        }

    @tool("Reads a file")
    def peek(self, path: str):
        with open(path, "rb") as file:
            return file.read(100).decode("utf-8", "replace")

    @tool("Writes a file")
    def scribble(self, path: str):
        with open(path, "w") as file:
            file.write("it was here")
        return path

    # The other direction.

    @tool("Calls a tool of the server")
    def call_host(self, name: str, arguments: dict):
        return {"result": self.context.call_elixir_tool(name, **arguments)}

    @tool("Lists the tools of the server")
    def host_tools(self):
        return sorted(self.context.host_tools)

    @tool("Tells something to whoever listens")
    def emit(self, name: str, measurements: dict = {}, metadata: dict = {}):  # noqa: B006 - defaults are told as JSON
        self.telemetry.emit(name, measurements, metadata, self.context.correlation)
        return name

    @tool("Ends the stream of events")
    def drop_telemetry(self):
        self.telemetry.drop()
        return True

    # Streams.

    @tool("Counts", supports_streaming=True)
    def count_to(self, n: int):
        for at in range(1, n + 1):
            yield {"n": at}

    @tool("Pieces of every kind", supports_streaming=True)
    def pieces(self):
        yield None
        yield b"\x00\xff"
        yield "text"
        yield [1, None]

    @tool("Never ends", supports_streaming=True)
    def flood(self, size: int = 65536):
        sent = 0
        try:
            while True:
                yield b"x" * size
                sent += 1
                note("flood", str(sent))
        finally:
            note("flood-stopped", str(sent))

    @tool("Says one thing and waits", supports_streaming=True)
    async def wait_stream(self):
        yield "waiting"
        note("wait_stream", "waiting")
        try:
            await asyncio.sleep(3600)
        finally:
            note("wait_stream-stopped", "stopped")

    @tool("Breaks off", supports_streaming=True)
    def bad_stream(self):
        yield "one"
        yield "two"
        raise ValueError("no three")

    @tool("Hangs on what is not JSON", supports_streaming=True)
    def hanging_stream(self):
        yield "one"
        yield object()


class Clashing(Adapter):
    """Tools whose names are taken: by the server itself, and by another pool."""

    @tool("Not the server's")
    def recall(self, key: str = ""):
        return f"not recalled: {key}"

    @tool("Another echo")
    def echo(self, value=None):
        return f"another: {value}"

    @tool("Not taken")
    def unique(self):
        return "unique"


class Pinned(Adapter):
    """A tool that describes itself by a file, which somebody may change."""

    def get_tools(self) -> list:
        tools = super().get_tools()
        for one in tools:
            if one.name == "pinned":
                one.description = (Path(os.environ["FIXTURE_FOLDER"]) / "description").read_text()
        return tools

    @tool()
    def pinned(self):
        note("pinned", "called")
        return "called"


class Unregistered:
    """For workers that register nothing: not even the base of adapters has a place here."""

    def set_session_context(self, context) -> None:
        self.context = context

    def cleanup(self) -> None:
        pass

    def execute_tool(self, tool_name: str, arguments: dict, context):
        return {"called": tool_name, "with": arguments}


class Template:
    """As authors make theirs from a template: a name is looked up when it is called, and nothing is registered."""

    def set_session_context(self, context) -> None:
        self.context = context

    def cleanup(self) -> None:
        pass

    def execute_tool(self, tool_name: str, arguments: dict, context):
        note("template", tool_name)
        if tool_name == "add":
            return arguments["a"] + arguments["b"]
        if tool_name == "mirror":
            return arguments
        if tool_name == "count":
            return (number for number in range(1, arguments["n"] + 1))
        if tool_name == "fail":
            raise ValueError("no luck")
        raise NotImplementedError(f"Unknown tool: {tool_name}")


class Bare(Adapter):
    """Registers a tool and says nothing about its parameters."""

    def get_tools(self) -> list:
        tools = super().get_tools()
        for one in tools:
            del one.parameters[:]
        return tools

    @tool("Takes anything")
    def bare(self, **kwargs):
        return kwargs


def seen(value) -> dict:
    shown = {"type": type(value).__name__, "repr": repr(value)[:10_000]}
    if isinstance(value, bytes):
        shown["sha256"] = hashlib.sha256(value).hexdigest()
    return shown


def nested(depth: int):
    value: list = []
    for _ in range(depth):
        value = [value]
    return value
