"""The messages and the service of package `snakepit.bridge`, made from the tables of its contract and nothing else.

    from bridge_wire import PingRequest, Stub
    Stub(grpc.insecure_channel(address)).Ping(PingRequest(message="hello"))

No generated code and no `.proto` of the server: what it got wrong in its own would otherwise be wrong here too.
"""

from __future__ import annotations

import re
from types import SimpleNamespace

import grpc
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

PACKAGE = "snakepit.bridge"
SERVICE = f"{PACKAGE}.BridgeService"
CORRELATION = "x-snakepit-correlation-id"

# Request, response, and which of them are streams.
METHODS = {
    "Ping": ("PingRequest", "PingResponse", "unary", "unary"),
    "InitializeSession": ("InitializeSessionRequest", "InitializeSessionResponse", "unary", "unary"),
    "CleanupSession": ("CleanupSessionRequest", "CleanupSessionResponse", "unary", "unary"),
    "GetSession": ("GetSessionRequest", "GetSessionResponse", "unary", "unary"),
    "Heartbeat": ("HeartbeatRequest", "HeartbeatResponse", "unary", "unary"),
    "ExecuteTool": ("ExecuteToolRequest", "ExecuteToolResponse", "unary", "unary"),
    "ExecuteStreamingTool": ("ExecuteToolRequest", "ToolChunk", "unary", "stream"),
    "RegisterTools": ("RegisterToolsRequest", "RegisterToolsResponse", "unary", "unary"),
    "GetExposedElixirTools": ("GetExposedElixirToolsRequest", "GetExposedElixirToolsResponse", "unary", "unary"),
    "ExecuteElixirTool": ("ExecuteElixirToolRequest", "ExecuteElixirToolResponse", "unary", "unary"),
    "StreamTelemetry": ("TelemetryControl", "TelemetryEvent", "stream", "stream"),
}

TABLE = """
PingRequest: 1 message string
PingResponse: 1 message string; 2 server_time Timestamp
InitializeSessionRequest: 1 session_id string; 2 metadata map<string,string>; 3 config SessionConfig
SessionConfig: 1 enable_caching bool; 2 cache_ttl_seconds int32; 3 enable_telemetry bool
InitializeSessionResponse: 1 success bool; 2 error_message string; 3 available_tools map<string,ToolSpec>
CleanupSessionRequest: 1 session_id string; 2 force bool
CleanupSessionResponse: 1 success bool; 2 resources_cleaned int32
ToolSpec: 1 name string; 2 description string; 3 parameters repeated ParameterSpec; 4 metadata map<string,string>; \
5 supports_streaming bool
ParameterSpec: 1 name string; 2 type string; 3 description string; 4 required bool; 5 default_value Any; \
6 validation_json string
ExecuteToolRequest: 1 session_id string; 2 tool_name string; 3 parameters map<string,Any>; \
4 metadata map<string,string>; 5 stream bool; 6 binary_parameters map<string,bytes>
ExecuteToolResponse: 1 success bool; 2 result Any; 3 error_message string; 4 metadata map<string,string>; \
5 execution_time_ms int64; 6 binary_result bytes
ToolChunk: 1 chunk_id string; 2 data bytes; 3 is_final bool; 4 metadata map<string,string>
GetSessionRequest: 1 session_id string
GetSessionResponse: 1 session_id string; 2 metadata map<string,string>; 3 created_at Timestamp; 4 tool_count int32
HeartbeatRequest: 1 session_id string; 2 client_time Timestamp
HeartbeatResponse: 1 server_time Timestamp; 2 session_valid bool
RegisterToolsRequest: 1 session_id string; 2 tools repeated ToolRegistration; 3 worker_id string
ToolRegistration: 1 name string; 2 description string; 3 parameters repeated ParameterSpec; \
4 metadata map<string,string>; 5 supports_streaming bool
RegisterToolsResponse: 1 success bool; 2 tool_ids map<string,string>; 3 error_message string
GetExposedElixirToolsRequest: 1 session_id string
GetExposedElixirToolsResponse: 1 tools repeated ToolSpec
ExecuteElixirToolRequest: 1 session_id string; 2 tool_name string; 3 parameters map<string,Any>; \
4 metadata map<string,string>
ExecuteElixirToolResponse: 1 success bool; 2 result Any; 3 error_message string; 4 metadata map<string,string>; \
5 execution_time_ms int64; 6 binary_result bytes
TelemetryEvent: 1 event_parts repeated string; 2 measurements map<string,TelemetryValue>; \
3 metadata map<string,string>; 4 timestamp_ns int64; 5 correlation_id string
TelemetryValue: oneof value: 1 int_value int64; 2 float_value double; 3 string_value string
TelemetryControl: oneof control: 1 toggle TelemetryToggle; 2 sampling TelemetrySamplingUpdate; \
3 filter TelemetryEventFilter
TelemetryToggle: 1 enabled bool
TelemetrySamplingUpdate: 1 sampling_rate double; 2 event_patterns repeated string
TelemetryEventFilter: 1 allow repeated string; 2 deny repeated string
"""

FIELD = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    "string": FIELD.TYPE_STRING,
    "bool": FIELD.TYPE_BOOL,
    "bytes": FIELD.TYPE_BYTES,
    "double": FIELD.TYPE_DOUBLE,
    "int32": FIELD.TYPE_INT32,
    "int64": FIELD.TYPE_INT64,
}
WELL_KNOWN = {"Any": ".google.protobuf.Any", "Timestamp": ".google.protobuf.Timestamp"}
MAP = re.compile(r"map<string,(\w+)>")


def describe_file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="snakepit_bridge.proto", package=PACKAGE, syntax="proto3")
    file.dependency.extend([any_pb2.DESCRIPTOR.name, timestamp_pb2.DESCRIPTOR.name])
    for line in TABLE.strip().splitlines():
        describe_message(file.message_type.add(), *line.split(": ", 1))
    service = file.service.add(name="BridgeService")
    for name, (request, response, asks, answers) in METHODS.items():
        service.method.add(
            name=name,
            input_type=f".{PACKAGE}.{request}",
            output_type=f".{PACKAGE}.{response}",
            client_streaming=asks == "stream",
            server_streaming=answers == "stream",
        )
    return file


def describe_message(message: descriptor_pb2.DescriptorProto, name: str, fields: str) -> None:
    message.name = name
    is_choice = fields.startswith("oneof ")
    if is_choice:
        choice, fields = fields.removeprefix("oneof ").split(": ", 1)
        message.oneof_decl.add(name=choice)
    for entry in fields.split("; "):
        number, field, kind = entry.split(" ", 2)
        made = message.field.add(name=field, number=int(number), label=FIELD.LABEL_OPTIONAL)
        if is_choice:
            made.oneof_index = 0
        if kind.startswith("repeated "):
            made.label, kind = FIELD.LABEL_REPEATED, kind.removeprefix("repeated ")
        if of := MAP.fullmatch(kind):
            made.label = FIELD.LABEL_REPEATED
            pair = message.nested_type.add(name="".join(part.title() for part in field.split("_")) + "Entry")
            pair.options.map_entry = True
            set_kind(pair.field.add(name="key", number=1, label=FIELD.LABEL_OPTIONAL), "string")
            set_kind(pair.field.add(name="value", number=2, label=FIELD.LABEL_OPTIONAL), of[1])
            made.type, made.type_name = FIELD.TYPE_MESSAGE, f".{PACKAGE}.{name}.{pair.name}"
        else:
            set_kind(made, kind)


def set_kind(field: descriptor_pb2.FieldDescriptorProto, kind: str) -> None:
    if kind in SCALARS:
        field.type = SCALARS[kind]
    else:
        field.type, field.type_name = FIELD.TYPE_MESSAGE, WELL_KNOWN.get(kind, f".{PACKAGE}.{kind}")


FILE = describe_file()
_file = descriptor_pool.Default().AddSerializedFile(FILE.SerializeToString())
MESSAGES = {
    name: message_factory.GetMessageClass(_file.message_types_by_name[name]) for name in _file.message_types_by_name
}
# `from bridge_wire import PingRequest`.
globals().update(MESSAGES)


class Stub(SimpleNamespace):
    """A callable for every RPC, on a channel of `grpc` or `grpc.aio`."""

    def __init__(self, channel) -> None:
        super().__init__()
        for name, (request, response, asks, answers) in METHODS.items():
            make = getattr(channel, f"{asks}_{answers}")
            call = make(
                f"/{SERVICE}/{name}",
                request_serializer=MESSAGES[request].SerializeToString,
                response_deserializer=MESSAGES[response].FromString,
            )
            setattr(self, name, call)


def handlers_of(servicer: object) -> grpc.GenericRpcHandler:
    """Every RPC the servicer has a method for; the others are UNIMPLEMENTED."""
    made = {}
    for name, (request, response, asks, answers) in METHODS.items():
        if method := getattr(servicer, name, None):
            make = getattr(grpc, f"{asks}_{answers}_rpc_method_handler")
            made[name] = make(method, MESSAGES[request].FromString, MESSAGES[response].SerializeToString)
    return grpc.method_handlers_generic_handler(SERVICE, made)
