"""The messages of the bridge, made at import from the descriptors that come with the package.

They live in a descriptor pool of their own: a process may have other stubs of the same protocol loaded and neither
side notices. There is no generated code, so any protobuf runtime from 4.25 on fits.
"""

from __future__ import annotations

import importlib.resources
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "snakepit.bridge"
SERVICE = f"{PACKAGE}.BridgeService"

# What one message may weigh, both ways.
MAX_MESSAGE_BYTES = 100 * 1024 * 1024

CORRELATION_HEADER = "x-snakepit-correlation-id"
TRACE_HEADER = "traceparent"
CAPACITY_HEADER = "x-patchboard-capacity"
SDK_HEADER = "x-patchboard-sdk"
# What the server and the worker it started show each other with every call.
SECRET_HEADER = "x-patchboard-worker-secret"
# Tells the server that this side reads replies above gRPC's usual 4 MiB.
MAX_REPLY_HEADER = "x-patchboard-max-reply"

MESSAGE_SIZE_OPTIONS = [
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
]


def _load() -> descriptor_pool.DescriptorPool:
    files = descriptor_pb2.FileDescriptorSet()
    files.ParseFromString(importlib.resources.files(__package__).joinpath("_bridge.binpb").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


_POOL = _load()


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))


PingRequest = _message("PingRequest")
PingResponse = _message("PingResponse")
InitializeSessionRequest = _message("InitializeSessionRequest")
InitializeSessionResponse = _message("InitializeSessionResponse")
SessionConfig = _message("SessionConfig")
CleanupSessionRequest = _message("CleanupSessionRequest")
CleanupSessionResponse = _message("CleanupSessionResponse")
ToolSpec = _message("ToolSpec")
ParameterSpec = _message("ParameterSpec")
ExecuteToolRequest = _message("ExecuteToolRequest")
ExecuteToolResponse = _message("ExecuteToolResponse")
ToolChunk = _message("ToolChunk")
GetSessionRequest = _message("GetSessionRequest")
GetSessionResponse = _message("GetSessionResponse")
HeartbeatRequest = _message("HeartbeatRequest")
HeartbeatResponse = _message("HeartbeatResponse")
RegisterToolsRequest = _message("RegisterToolsRequest")
RegisterToolsResponse = _message("RegisterToolsResponse")
GetExposedElixirToolsRequest = _message("GetExposedElixirToolsRequest")
GetExposedElixirToolsResponse = _message("GetExposedElixirToolsResponse")
ExecuteElixirToolRequest = _message("ExecuteElixirToolRequest")
ExecuteElixirToolResponse = _message("ExecuteElixirToolResponse")
TelemetryEvent = _message("TelemetryEvent")
TelemetryControl = _message("TelemetryControl")


def _methods() -> dict[str, tuple[Any, Any, bool, bool]]:
    """Each rpc's request, response, and whether either side streams."""
    service = _POOL.FindServiceByName(SERVICE)
    # By the file's own description, which every protobuf runtime gives alike.
    described = descriptor_pb2.ServiceDescriptorProto()
    service.CopyToProto(described)
    classes = message_factory.GetMessageClass
    return {
        method.name: (
            classes(service.FindMethodByName(method.name).input_type),
            classes(service.FindMethodByName(method.name).output_type),
            method.client_streaming,
            method.server_streaming,
        )
        for method in described.method
    }


METHODS = _methods()


def stub(channel: Any, rpc: str) -> Any:
    """The callable of one rpc on a channel, blocking or asyncio alike."""
    request, response, client_streams, server_streams = METHODS[rpc]
    kind = f"{'stream' if client_streams else 'unary'}_{'stream' if server_streams else 'unary'}"
    return getattr(channel, kind)(
        f"/{SERVICE}/{rpc}", request_serializer=request.SerializeToString, response_deserializer=response.FromString
    )
