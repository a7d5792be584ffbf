//! The wire is a promise to programs that were written against it: every name, number and type, told once more.

use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet};

use super::*;

const METHODS: &str = "\
Ping PingRequest -> PingResponse
InitializeSession InitializeSessionRequest -> InitializeSessionResponse
CleanupSession CleanupSessionRequest -> CleanupSessionResponse
GetSession GetSessionRequest -> GetSessionResponse
Heartbeat HeartbeatRequest -> HeartbeatResponse
ExecuteTool ExecuteToolRequest -> ExecuteToolResponse
ExecuteStreamingTool ExecuteToolRequest -> stream ToolChunk
RegisterTools RegisterToolsRequest -> RegisterToolsResponse
GetExposedElixirTools GetExposedElixirToolsRequest -> GetExposedElixirToolsResponse
ExecuteElixirTool ExecuteElixirToolRequest -> ExecuteElixirToolResponse
StreamTelemetry stream TelemetryControl -> stream TelemetryEvent";

const MESSAGES: &str = "\
PingRequest: 1 message string
PingResponse: 1 message string; 2 server_time Timestamp
InitializeSessionRequest: 1 session_id string; 2 metadata map<string,string>; 3 config SessionConfig
SessionConfig: 1 enable_caching bool; 2 cache_ttl_seconds int32; 3 enable_telemetry bool
InitializeSessionResponse: 1 success bool; 2 error_message string; 3 available_tools map<string,ToolSpec>
CleanupSessionRequest: 1 session_id string; 2 force bool
CleanupSessionResponse: 1 success bool; 2 resources_cleaned int32
ToolSpec: 1 name string; 2 description string; 3 parameters repeated ParameterSpec; 4 metadata map<string,string>; 5 supports_streaming bool
ParameterSpec: 1 name string; 2 type string; 3 description string; 4 required bool; 5 default_value Any; 6 validation_json string
ExecuteToolRequest: 1 session_id string; 2 tool_name string; 3 parameters map<string,Any>; 4 metadata map<string,string>; 5 stream bool; 6 binary_parameters map<string,bytes>
ExecuteToolResponse: 1 success bool; 2 result Any; 3 error_message string; 4 metadata map<string,string>; 5 execution_time_ms int64; 6 binary_result bytes
ToolChunk: 1 chunk_id string; 2 data bytes; 3 is_final bool; 4 metadata map<string,string>
GetSessionRequest: 1 session_id string
GetSessionResponse: 1 session_id string; 2 metadata map<string,string>; 3 created_at Timestamp; 4 tool_count int32
HeartbeatRequest: 1 session_id string; 2 client_time Timestamp
HeartbeatResponse: 1 server_time Timestamp; 2 session_valid bool
RegisterToolsRequest: 1 session_id string; 2 tools repeated ToolRegistration; 3 worker_id string
ToolRegistration: 1 name string; 2 description string; 3 parameters repeated ParameterSpec; 4 metadata map<string,string>; 5 supports_streaming bool
RegisterToolsResponse: 1 success bool; 2 tool_ids map<string,string>; 3 error_message string
GetExposedElixirToolsRequest: 1 session_id string
GetExposedElixirToolsResponse: 1 tools repeated ToolSpec
ExecuteElixirToolRequest: 1 session_id string; 2 tool_name string; 3 parameters map<string,Any>; 4 metadata map<string,string>
ExecuteElixirToolResponse: 1 success bool; 2 result Any; 3 error_message string; 4 metadata map<string,string>; 5 execution_time_ms int64; 6 binary_result bytes
TelemetryEvent: 1 event_parts repeated string; 2 measurements map<string,TelemetryValue>; 3 metadata map<string,string>; 4 timestamp_ns int64; 5 correlation_id string
TelemetryValue: oneof value: 1 int_value int64; 2 float_value double; 3 string_value string
TelemetryControl: oneof control: 1 toggle TelemetryToggle; 2 sampling TelemetrySamplingUpdate; 3 filter TelemetryEventFilter
TelemetryToggle: 1 enabled bool
TelemetrySamplingUpdate: 1 sampling_rate double; 2 event_patterns repeated string
TelemetryEventFilter: 1 allow repeated string; 2 deny repeated string";

fn files() -> Vec<FileDescriptorProto> {
    FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("descriptors").file
}

fn bridge() -> FileDescriptorProto {
    files().into_iter().find(|file| file.package() == "snakepit.bridge").expect("the bridge's own file")
}

#[test]
fn the_set_is_complete_and_only_what_is_promised() {
    let names: Vec<String> = files().iter().map(|file| file.name().to_owned()).collect();
    assert_eq!(names, ["google/protobuf/any.proto", "google/protobuf/timestamp.proto", "bridge.proto"]);
    let bridge = bridge();
    assert_eq!(bridge.syntax(), "proto3");
    assert_eq!((bridge.options, bridge.enum_type.len(), bridge.message_type.len()), (None, 0, 29));
}

#[test]
fn methods_are_as_promised() {
    let bridge = bridge();
    let [service] = bridge.service.as_slice() else { panic!("one service") };
    assert_eq!(service.name(), "BridgeService");
    let stream = |is_one: bool| if is_one { "stream " } else { "" };
    let methods = service.method.iter().map(|method| {
        let (from, to) = (stream(method.client_streaming()), stream(method.server_streaming()));
        format!("{} {from}{} -> {to}{}", method.name(), short(method.input_type()), short(method.output_type()))
    });
    assert_eq!(methods.collect::<Vec<_>>().join("\n"), METHODS);
}

#[test]
fn messages_are_as_promised() {
    let messages: Vec<String> = bridge().message_type.iter().map(shown).collect();
    assert_eq!(messages.join("\n"), MESSAGES);
}

fn shown(message: &DescriptorProto) -> String {
    let oneof = message.oneof_decl.iter().map(|one| format!("oneof {}: ", one.name())).collect::<String>();
    let fields = message.field.iter().map(|field| {
        assert_eq!(field.oneof_index.is_some(), !oneof.is_empty(), "a oneof holds all fields or none");
        let repeated = if field.label() == Label::Repeated { "repeated " } else { "" };
        let entry = message.nested_type.iter().find(|nested| nested.name() == short(field.type_name()));
        match entry.map(|entry| entry.field.as_slice()) {
            Some([key, value]) => {
                format!("{} {} map<{},{}>", field.number(), field.name(), type_of(key), type_of(value))
            }
            Some(_) => panic!("a map has a key and a value"),
            None => format!("{} {} {repeated}{}", field.number(), field.name(), type_of(field)),
        }
    });
    format!("{}: {oneof}{}", message.name(), fields.collect::<Vec<_>>().join("; "))
}

fn type_of(field: &FieldDescriptorProto) -> String {
    let scalar = field.r#type().as_str_name().trim_start_matches("TYPE_").to_lowercase();
    if field.r#type() == Type::Message { short(field.type_name()).to_owned() } else { scalar }
}

fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}
