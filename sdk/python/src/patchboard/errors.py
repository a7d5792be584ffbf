"""What can go wrong, as exceptions. Everything the package raises on purpose is a `PatchboardError`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class PatchboardError(Exception):
    """The root of all errors of this package."""


class ToolError(PatchboardError):
    """A tool failed.

    A tool raises it to fail with words of its own; a caller gets it with the type and the traceback the tool's worker
    reported. `type` is the name of the Python exception, or "" where the other side gave only text.
    """

    def __init__(
        self,
        message: str,
        *,
        type: str = "",  # noqa: A002 - the word of the wire.
        traceback: str = "",
        context: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.type = type
        self.traceback = traceback
        self.context: dict[str, Any] = dict(context or {})

    def __str__(self) -> str:
        named = self.type and self.type != type(self).__name__
        return f"{self.type}: {self.message}" if named else self.message


class InvalidArgument(ToolError):
    """An argument does not fit the tool's parameters. The tool did not run."""


class ToolNotFound(ToolError):
    """There is no such tool for this session."""


class VariableNotFound(ToolError, KeyError):
    """No session variable has that name."""

    def __str__(self) -> str:
        return self.message


class SessionNotFound(PatchboardError):
    """There is no such session, or it has expired."""


class Unavailable(PatchboardError):
    """The server or the worker is not there, or went away during the call."""


class Saturated(PatchboardError):
    """A queue or a quota is full. The call did not run."""


class DeadlineExceeded(PatchboardError):
    """The time for the call is over."""


class QueueTimeout(DeadlineExceeded):
    """The call waited too long for a free worker. It did not run."""


class Cancelled(PatchboardError):
    """The caller no longer waits for this call."""


class PermissionDenied(PatchboardError):
    """The token is missing or wrong, or the policy forbids the call."""


class Unsupported(PatchboardError):
    """The other side does not offer this, for example streaming from a tool that does not stream."""


class ProtocolError(PatchboardError):
    """The other side answered something that does not fit the protocol."""


class SerializationError(PatchboardError):
    """A value cannot travel: it has no JSON form and is not binary."""


class SchemaError(PatchboardError):
    """A function cannot become a tool as it is written."""


_BY_STATUS: dict[str, type[PatchboardError]] = {
    "UNAVAILABLE": Unavailable,
    "RESOURCE_EXHAUSTED": Saturated,
    "DEADLINE_EXCEEDED": DeadlineExceeded,
    "CANCELLED": Cancelled,
    "PERMISSION_DENIED": PermissionDenied,
    "UNAUTHENTICATED": PermissionDenied,
    "INVALID_ARGUMENT": InvalidArgument,
    "UNIMPLEMENTED": Unsupported,
}


def from_status(status: str, details: str) -> PatchboardError:
    """The exception for a gRPC status, by the status' name and its text."""
    if status == "NOT_FOUND":
        return SessionNotFound(details) if "ession not found" in details else ToolNotFound(details)
    if status == "DEADLINE_EXCEEDED" and "queue_timeout" in details:
        return QueueTimeout(details)
    if status == "INTERNAL" and details.startswith("{"):
        return from_message(details)
    kind = _BY_STATUS.get(status)
    return kind(details) if kind else ProtocolError(f"{status}: {details}")


def from_message(text: str) -> PatchboardError:
    """The exception for the `error_message` of a call that came back as not successful."""
    payload = _payload(text)
    if payload is not None:
        kind = _BY_TYPE.get(str(payload.get("type") or ""), ToolError)
        context = payload.get("context")
        return kind(
            str(payload.get("message") or ""),
            type=str(payload.get("type") or ""),
            traceback=str(payload.get("traceback") or ""),
            context=context if isinstance(context, dict) else None,
        )
    if text.startswith("Session not found"):
        return SessionNotFound(text)
    if text.startswith("Invalid parameter"):
        return InvalidArgument(text)
    if text.startswith("Tool ") and " not found for session " in text:
        return ToolNotFound(text)
    if "no variable is named" in text:
        return VariableNotFound(text)
    return ToolError(text)


_BY_TYPE: dict[str, type[ToolError]] = {"InvalidArgument": InvalidArgument, "ToolNotFound": ToolNotFound}


def _payload(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        payload = json.loads(text)
    except ValueError:
        return None
    return payload if isinstance(payload, dict) and "message" in payload else None
