"""An MCP server that tries to get out of its jail."""

from __future__ import annotations

import json

import jail_attacks
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("attacker")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def attack(server: int, port: int, path: str) -> str:
    return json.dumps(jail_attacks.outcomes(server, port, path))


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def knock(address: str) -> str:
    return json.dumps(jail_attacks.knock(address))


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def reach(ports: list[int]) -> str:
    return json.dumps(jail_attacks.reach(ports))


if __name__ == "__main__":
    server.run()
