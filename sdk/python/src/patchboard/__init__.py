"""Tools in Python for a Patchboard server, and a client for programs outside.

from patchboard import serve, tool

@tool
def add(a: int, b: int) -> int:
    "Adds two numbers."
    return a + b

serve()
"""

from ._binary import Binary
from ._context import Context, Session, current_context
from ._requests import ParameterInfo, Result, ToolInfo
from ._results import Chunk, Progress
from ._schema import Field
from ._serve import on_session_end, on_start, on_stop, serve
from ._tool import Toolbox, tool
from ._variables import AsyncVariables, Change, Variable, Variables, Written
from ._version import __version__
from .async_client import AsyncClient
from .client import Client
from .connection import TLS, TelemetryEvent
from .errors import (
    Cancelled,
    DeadlineExceeded,
    InvalidArgument,
    PatchboardError,
    PermissionDenied,
    ProtocolError,
    QueueTimeout,
    Saturated,
    SchemaError,
    SerializationError,
    SessionNotFound,
    ToolError,
    ToolNotFound,
    Unavailable,
    Unsupported,
    VariableNotFound,
)

__all__ = [
    "TLS",
    "AsyncClient",
    "AsyncVariables",
    "Binary",
    "Cancelled",
    "Change",
    "Chunk",
    "Client",
    "Context",
    "DeadlineExceeded",
    "Field",
    "InvalidArgument",
    "ParameterInfo",
    "PatchboardError",
    "PermissionDenied",
    "Progress",
    "ProtocolError",
    "QueueTimeout",
    "Result",
    "Saturated",
    "SchemaError",
    "SerializationError",
    "Session",
    "SessionNotFound",
    "TelemetryEvent",
    "ToolError",
    "ToolInfo",
    "ToolNotFound",
    "Toolbox",
    "Unavailable",
    "Unsupported",
    "Variable",
    "VariableNotFound",
    "Variables",
    "Written",
    "__version__",
    "current_context",
    "on_session_end",
    "on_start",
    "on_stop",
    "serve",
    "tool",
]
