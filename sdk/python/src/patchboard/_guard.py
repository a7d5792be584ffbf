"""Calls that do not come from the server that started this worker are refused, whoever else finds its socket."""

from __future__ import annotations

import hmac
from typing import Any

import grpc

from . import _proto


class Guarded(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Passes on what comes with the secret. The rest is refused before a message is read, known method or not."""

    def __init__(self, behind: grpc.GenericRpcHandler, secret: str) -> None:
        self._behind = behind
        self._secret = secret.encode()
        # Of a kind that needs no message, whatever the caller meant to send.
        self._refusal = grpc.stream_stream_rpc_method_handler(_refuse)

    def service(self, details: Any) -> Any:
        given = [value for key, value in details.invocation_metadata or () if key == _proto.SECRET_HEADER]
        if len(given) == 1 and hmac.compare_digest(_bytes(given[0]), self._secret):
            return self._behind.service(details)
        return self._refusal


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


async def _refuse(_requests: Any, context: Any) -> None:
    await context.abort(grpc.StatusCode.UNAUTHENTICATED, "only the server that started this worker may call it")
