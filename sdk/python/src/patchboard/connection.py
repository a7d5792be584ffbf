"""What both clients share: how to reach a server, and what is said to it."""

from __future__ import annotations

import ipaddress
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc

from . import _proto, _requests
from ._results import Progress
from .errors import ProtocolError, from_message


@dataclass(frozen=True)
class TLS:
    """How a connection is secured. Each of the first three is PEM text or the path of a file that holds it.

    authority: who may vouch for the server; the system's own list by default.
    certificate, key: what this side shows of itself, where the server asks for it.
    server_name: the name to look for in the server's certificate, where it is not the address.
    """

    authority: bytes | str | None = None
    certificate: bytes | str | None = None
    key: bytes | str | None = None
    server_name: str | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(_pem(self.authority), _pem(self.key), _pem(self.certificate))


def _pem(source: bytes | str | None) -> bytes | None:
    if isinstance(source, str) and not source.startswith("-----BEGIN"):
        with open(source, "rb") as file:
            return file.read()
    return source.encode() if isinstance(source, str) else source


@dataclass(frozen=True)
class Connection:
    """Where a server is and how it is spoken to."""

    address: str
    token: str | None = field(default=None, repr=False)
    tls: TLS | None = None

    @staticmethod
    def to(address: str, token: str | None, tls: TLS | bool | None) -> Connection:
        secured = TLS() if tls is True else tls or None
        if address.startswith("/"):
            address = f"unix:{address}"
        if token is not None and secured is None and not _stays_here(address):
            raise ValueError(f"the token would go to {address} in the clear: use tls=True")
        return Connection(address, token, secured)

    def open(self, module: Any) -> Any:
        """A channel of `grpc` or of `grpc.aio`."""
        options = list(_proto.MESSAGE_SIZE_OPTIONS)
        if self.tls is None:
            return module.insecure_channel(self.address, options=options)
        if self.tls.server_name:
            named = [("grpc.ssl_target_name_override", self.tls.server_name)]
            return module.secure_channel(self.address, self.tls.credentials(), options=[*options, *named])
        return module.secure_channel(self.address, self.tls.credentials(), options=options)

    def headers(self, correlation_id: str | None = None) -> list[tuple[str, str]]:
        headers = [(_proto.MAX_REPLY_HEADER, str(_proto.MAX_MESSAGE_BYTES))]
        if self.token is not None:
            headers.append(("authorization", f"Bearer {self.token}"))
        if correlation_id:
            headers.append((_proto.CORRELATION_HEADER, correlation_id))
        return headers


def _stays_here(address: str) -> bool:
    """Whether what is sent there never leaves this machine."""
    if address.startswith(("unix:", "unix-abstract:")):
        return True
    name = address.rsplit(":", 1)[0].strip("[]")
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class SessionSettings:
    """What a session is opened with."""

    session_id: str
    # Whether this program made the id up, and so ends the session when it is done.
    own: bool
    metadata: Mapping[str, str]
    cache_seconds: int | None
    telemetry: bool

    @staticmethod
    def of(
        session_id: str | None, metadata: Mapping[str, str] | None, cache_seconds: int | None, *, telemetry: bool
    ) -> SessionSettings:
        made = session_id or f"py-{os.getpid()}-{uuid.uuid4().hex}"
        return SessionSettings(made, session_id is None, dict(metadata or {}), cache_seconds, telemetry)

    def first_request(self) -> Any:
        request = _proto.InitializeSessionRequest(session_id=self.session_id, metadata=self.metadata)
        if self.cache_seconds is not None or self.telemetry:
            request.config.enable_caching = self.cache_seconds is not None
            request.config.cache_ttl_seconds = self.cache_seconds or 0
            request.config.enable_telemetry = self.telemetry
        return request

    def bare_request(self) -> Any:
        """Keeps the session as it is, and tells which tools there are now."""
        return _proto.InitializeSessionRequest(session_id=self.session_id)


@dataclass(frozen=True)
class SessionInfo:
    """What the server knows of a session. `created_at` is in seconds since 1970."""

    session_id: str
    metadata: Mapping[str, str]
    created_at: float
    tool_count: int


def session_info(response: Any) -> SessionInfo:
    created_at = response.created_at.seconds + response.created_at.nanos / 1e9
    return SessionInfo(response.session_id, dict(response.metadata), created_at, response.tool_count)


def opened(response: Any) -> list[_requests.ToolInfo]:
    """The tools an opened session has."""
    if not response.success:
        raise from_message(response.error_message)
    return _requests.tools_of([response.available_tools[name] for name in sorted(response.available_tools)])


@dataclass(frozen=True)
class TelemetryEvent:
    """Something that happened, at the server or in one of its workers."""

    name: str
    measurements: Mapping[str, int | float | str]
    metadata: Mapping[str, str]
    timestamp_ns: int
    correlation_id: str


def telemetry_event(message: Any) -> TelemetryEvent:
    measurements = {key: _measurement(value) for key, value in message.measurements.items()}
    return TelemetryEvent(
        ".".join(message.event_parts),
        measurements,
        dict(message.metadata),
        message.timestamp_ns,
        message.correlation_id,
    )


def _measurement(value: Any) -> int | float | str:
    kind = value.WhichOneof("value")
    if kind is None:
        raise ProtocolError("an event has a measurement without a value")
    measured: int | float | str = getattr(value, kind)
    return measured


def telemetry_controls(
    allow: Sequence[str], deny: Sequence[str], sampling: float | Mapping[str, float] | None
) -> list[Any]:
    """What is sent first on a telemetry stream; the switch comes last, when everything else is in place."""
    controls = []
    if allow or deny:
        controls.append(_proto.TelemetryControl(filter={"allow": list(allow), "deny": list(deny)}))
    if isinstance(sampling, Mapping):
        for pattern, rate in sampling.items():
            controls.append(_proto.TelemetryControl(sampling={"sampling_rate": rate, "event_patterns": [pattern]}))
    elif sampling is not None:
        controls.append(_proto.TelemetryControl(sampling={"sampling_rate": sampling}))
    controls.append(_proto.TelemetryControl(toggle={"enabled": True}))
    return controls


ProgressListener = Callable[[Progress], Any]
