"""An MCP server for tests, made with the `mcp` package.

    mcp_fixture.py              on standard input and output
    mcp_fixture.py --port PORT  on streamable HTTP, at /mcp

FIXTURE_FOLDER names a folder: `description` there is what `add` says about itself, `pid` and `log` are written there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import outside_numbers
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations

FOLDER = Path(os.environ["FIXTURE_FOLDER"])
server = MCPServer("fixture")


def note(text: str) -> None:
    with open(FOLDER / "log", "a") as log:
        log.write(text + "\n")


@server.tool(description=(FOLDER / "description").read_text(), annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> str:
    return f"the sum is {a + b}"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def fail() -> str:
    raise ValueError("made to fail")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def environment() -> str:
    return " ".join(sorted(os.environ))


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def peek(path: str) -> str:
    return f"it says: {Path(path).read_text()}"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def wait(context: Context) -> str:
    note("waiting")
    try:
        await context.report_progress(1, 2, "half way")
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        note("cancelled")
        raise
    return "never"


if __name__ == "__main__":
    (FOLDER / "pid").write_text(str(outside_numbers.own_number(str(FOLDER))))
    if sys.argv[1:2] == ["--port"]:
        server.run(transport="streamable-http", port=int(sys.argv[2]))
    else:
        server.run()
