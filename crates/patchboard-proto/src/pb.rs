//! Generated from `proto/bridge.proto` by `cargo xtask codegen`; not edited by hand.

#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PingRequest {
    #[prost(string, tag = "1")]
    pub message: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PingResponse {
    #[prost(string, tag = "1")]
    pub message: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "2")]
    pub server_time: ::core::option::Option<::prost_types::Timestamp>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct InitializeSessionRequest {
    #[prost(string, tag = "1")]
    pub session_id: ::prost::alloc::string::String,
    #[prost(btree_map = "string, string", tag = "2")]
    pub metadata: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        ::prost::alloc::string::String,
    >,
    #[prost(message, optional, tag = "3")]
    pub config: ::core::option::Option<SessionConfig>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SessionConfig {
    #[prost(bool, tag = "1")]
    pub enable_caching: bool,
    /// How long a cached result may be used; not how long the session lives.
    #[prost(int32, tag = "2")]
    pub cache_ttl_seconds: i32,
    #[prost(bool, tag = "3")]
    pub enable_telemetry: bool,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct InitializeSessionResponse {
    #[prost(bool, tag = "1")]
    pub success: bool,
    #[prost(string, tag = "2")]
    pub error_message: ::prost::alloc::string::String,
    /// By tool name.
    #[prost(btree_map = "string, message", tag = "3")]
    pub available_tools: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        ToolSpec,
    >,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CleanupSessionRequest {
    #[prost(string, tag = "1")]
    pub session_id: ::prost::alloc::string::String,
    #[prost(bool, tag = "2")]
    pub force: bool,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CleanupSessionResponse {
    #[prost(bool, tag = "1")]
    pub success: bool,
    #[prost(int32, tag = "2")]
    pub resources_cleaned: i32,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ToolSpec {
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub description: ::prost::alloc::string::String,
    #[prost(message, repeated, tag = "3")]
    pub parameters: ::prost::alloc::vec::Vec<ParameterSpec>,
    #[prost(btree_map = "string, string", tag = "4")]
    pub metadata: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        ::prost::alloc::string::String,
    >,
    #[prost(bool, tag = "5")]
    pub supports_streaming: bool,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ParameterSpec {
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    /// `string`, `integer`, `float`, `boolean`, `list`, `map`, `any` and their synonyms; free text.
    #[prost(string, tag = "2")]
    pub r#type: ::prost::alloc::string::String,
    #[prost(string, tag = "3")]
    pub description: ::prost::alloc::string::String,
    #[prost(bool, tag = "4")]
    pub required: bool,
    #[prost(message, optional, tag = "5")]
    pub default_value: ::core::option::Option<::prost_types::Any>,
    /// Further rules as a JSON object, in the words of JSON Schema.
    #[prost(string, tag = "6")]
    pub validation_json: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ExecuteToolRequest {
    #[prost(string, tag = "1")]
    pub session_id: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub tool_name: ::prost::alloc::string::String,
    #[prost(btree_map = "string, message", tag = "3")]
    pub parameters: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        ::prost_types::Any,
    >,
    #[prost(btree_map = "string, string", tag = "4")]
    pub metadata: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        ::prost::alloc::string::String,
    >,
    #[prost(bool, tag = "5")]
    pub stream: bool,
    /// Stands before a parameter of the same name in `parameters`.
    #[prost(btree_map = "string, bytes", tag = "6")]
    pub binary_parameters: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        ::prost::bytes::Bytes,
    >,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ExecuteToolResponse {
    #[prost(bool, tag = "1")]
    pub success: bool,
    #[prost(message, optional, tag = "2")]
    pub result: ::core::option::Option<::prost_types::Any>,
    #[prost(string, tag = "3")]
    pub error_message: ::prost::alloc::string::String,
    #[prost(btree_map = "string, string", tag = "4")]
    pub metadata: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        ::prost::alloc::string::String,
    >,
    #[prost(int64, tag = "5")]
    pub execution_time_ms: i64,
    #[prost(bytes = "bytes", tag = "6")]
    pub binary_result: ::prost::bytes::Bytes,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ToolChunk {
    #[prost(string, tag = "1")]
    pub chunk_id: ::prost::alloc::string::String,
    #[prost(bytes = "bytes", tag = "2")]
    pub data: ::prost::bytes::Bytes,
    #[prost(bool, tag = "3")]
    pub is_final: bool,
    #[prost(btree_map = "string, string", tag = "4")]
    pub metadata: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        ::prost::alloc::string::String,
    >,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GetSessionRequest {
    #[prost(string, tag = "1")]
    pub session_id: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GetSessionResponse {
    #[prost(string, tag = "1")]
    pub session_id: ::prost::alloc::string::String,
    #[prost(btree_map = "string, string", tag = "2")]
    pub metadata: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        ::prost::alloc::string::String,
    >,
    #[prost(message, optional, tag = "3")]
    pub created_at: ::core::option::Option<::prost_types::Timestamp>,
    #[prost(int32, tag = "4")]
    pub tool_count: i32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct HeartbeatRequest {
    #[prost(string, tag = "1")]
    pub session_id: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "2")]
    pub client_time: ::core::option::Option<::prost_types::Timestamp>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct HeartbeatResponse {
    #[prost(message, optional, tag = "1")]
    pub server_time: ::core::option::Option<::prost_types::Timestamp>,
    #[prost(bool, tag = "2")]
    pub session_valid: bool,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RegisterToolsRequest {
    #[prost(string, tag = "1")]
    pub session_id: ::prost::alloc::string::String,
    #[prost(message, repeated, tag = "2")]
    pub tools: ::prost::alloc::vec::Vec<ToolRegistration>,
    #[prost(string, tag = "3")]
    pub worker_id: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ToolRegistration {
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub description: ::prost::alloc::string::String,
    #[prost(message, repeated, tag = "3")]
    pub parameters: ::prost::alloc::vec::Vec<ParameterSpec>,
    #[prost(btree_map = "string, string", tag = "4")]
    pub metadata: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        ::prost::alloc::string::String,
    >,
    #[prost(bool, tag = "5")]
    pub supports_streaming: bool,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RegisterToolsResponse {
    #[prost(bool, tag = "1")]
    pub success: bool,
    /// Tool name to the id it got.
    #[prost(btree_map = "string, string", tag = "2")]
    pub tool_ids: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        ::prost::alloc::string::String,
    >,
    #[prost(string, tag = "3")]
    pub error_message: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GetExposedElixirToolsRequest {
    #[prost(string, tag = "1")]
    pub session_id: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GetExposedElixirToolsResponse {
    #[prost(message, repeated, tag = "1")]
    pub tools: ::prost::alloc::vec::Vec<ToolSpec>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ExecuteElixirToolRequest {
    #[prost(string, tag = "1")]
    pub session_id: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub tool_name: ::prost::alloc::string::String,
    #[prost(btree_map = "string, message", tag = "3")]
    pub parameters: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        ::prost_types::Any,
    >,
    #[prost(btree_map = "string, string", tag = "4")]
    pub metadata: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        ::prost::alloc::string::String,
    >,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ExecuteElixirToolResponse {
    #[prost(bool, tag = "1")]
    pub success: bool,
    #[prost(message, optional, tag = "2")]
    pub result: ::core::option::Option<::prost_types::Any>,
    #[prost(string, tag = "3")]
    pub error_message: ::prost::alloc::string::String,
    #[prost(btree_map = "string, string", tag = "4")]
    pub metadata: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        ::prost::alloc::string::String,
    >,
    #[prost(int64, tag = "5")]
    pub execution_time_ms: i64,
    #[prost(bytes = "bytes", tag = "6")]
    pub binary_result: ::prost::bytes::Bytes,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TelemetryEvent {
    /// The event's name in pieces, such as `tool`, `execution`, `stop`.
    #[prost(string, repeated, tag = "1")]
    pub event_parts: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(btree_map = "string, message", tag = "2")]
    pub measurements: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        TelemetryValue,
    >,
    #[prost(btree_map = "string, string", tag = "3")]
    pub metadata: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        ::prost::alloc::string::String,
    >,
    /// Nanoseconds since 1970.
    #[prost(int64, tag = "4")]
    pub timestamp_ns: i64,
    #[prost(string, tag = "5")]
    pub correlation_id: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TelemetryValue {
    #[prost(oneof = "telemetry_value::Value", tags = "1, 2, 3")]
    pub value: ::core::option::Option<telemetry_value::Value>,
}
/// Nested message and enum types in `TelemetryValue`.
pub mod telemetry_value {
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Value {
        #[prost(int64, tag = "1")]
        IntValue(i64),
        #[prost(double, tag = "2")]
        FloatValue(f64),
        #[prost(string, tag = "3")]
        StringValue(::prost::alloc::string::String),
    }
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TelemetryControl {
    #[prost(oneof = "telemetry_control::Control", tags = "1, 2, 3")]
    pub control: ::core::option::Option<telemetry_control::Control>,
}
/// Nested message and enum types in `TelemetryControl`.
pub mod telemetry_control {
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Control {
        #[prost(message, tag = "1")]
        Toggle(super::TelemetryToggle),
        #[prost(message, tag = "2")]
        Sampling(super::TelemetrySamplingUpdate),
        #[prost(message, tag = "3")]
        Filter(super::TelemetryEventFilter),
    }
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TelemetryToggle {
    #[prost(bool, tag = "1")]
    pub enabled: bool,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TelemetrySamplingUpdate {
    /// From 0 (nothing) to 1 (everything).
    #[prost(double, tag = "1")]
    pub sampling_rate: f64,
    /// Globs over the event's dotted name; empty means every event.
    #[prost(string, repeated, tag = "2")]
    pub event_patterns: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TelemetryEventFilter {
    /// Globs; empty means every event.
    #[prost(string, repeated, tag = "1")]
    pub allow: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// Globs; these go even when allowed.
    #[prost(string, repeated, tag = "2")]
    pub deny: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
/// Generated client implementations.
pub mod bridge_service_client {
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    #[derive(Debug, Clone)]
    pub struct BridgeServiceClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl BridgeServiceClient<tonic::transport::Channel> {
        /// Attempt to create a new client by connecting to a given endpoint.
        pub async fn connect<D>(dst: D) -> Result<Self, tonic::transport::Error>
        where
            D: TryInto<tonic::transport::Endpoint>,
            D::Error: Into<StdError>,
        {
            let conn = tonic::transport::Endpoint::new(dst)?.connect().await?;
            Ok(Self::new(conn))
        }
    }
    impl<T> BridgeServiceClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> BridgeServiceClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<
                    <T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody,
                >,
            >,
            <T as tonic::codegen::Service<
                http::Request<tonic::body::Body>,
            >>::Error: Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            BridgeServiceClient::new(InterceptedService::new(inner, interceptor))
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        /// Answers whether the other side is there.
        pub async fn ping(
            &mut self,
            request: impl tonic::IntoRequest<super::PingRequest>,
        ) -> std::result::Result<tonic::Response<super::PingResponse>, tonic::Status> {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/snakepit.bridge.BridgeService/Ping",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("snakepit.bridge.BridgeService", "Ping"));
            self.inner.unary(req, path, codec).await
        }
        /// Makes a session, or touches a live one.
        pub async fn initialize_session(
            &mut self,
            request: impl tonic::IntoRequest<super::InitializeSessionRequest>,
        ) -> std::result::Result<
            tonic::Response<super::InitializeSessionResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/snakepit.bridge.BridgeService/InitializeSession",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("snakepit.bridge.BridgeService", "InitializeSession"),
                );
            self.inner.unary(req, path, codec).await
        }
        /// Ends a session and forgets its tools.
        pub async fn cleanup_session(
            &mut self,
            request: impl tonic::IntoRequest<super::CleanupSessionRequest>,
        ) -> std::result::Result<
            tonic::Response<super::CleanupSessionResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/snakepit.bridge.BridgeService/CleanupSession",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("snakepit.bridge.BridgeService", "CleanupSession"),
                );
            self.inner.unary(req, path, codec).await
        }
        /// What is known of a session.
        pub async fn get_session(
            &mut self,
            request: impl tonic::IntoRequest<super::GetSessionRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetSessionResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/snakepit.bridge.BridgeService/GetSession",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("snakepit.bridge.BridgeService", "GetSession"));
            self.inner.unary(req, path, codec).await
        }
        /// Keeps a session alive and tells whether it still is.
        pub async fn heartbeat(
            &mut self,
            request: impl tonic::IntoRequest<super::HeartbeatRequest>,
        ) -> std::result::Result<
            tonic::Response<super::HeartbeatResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/snakepit.bridge.BridgeService/Heartbeat",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("snakepit.bridge.BridgeService", "Heartbeat"));
            self.inner.unary(req, path, codec).await
        }
        /// Runs a tool and waits for its result.
        pub async fn execute_tool(
            &mut self,
            request: impl tonic::IntoRequest<super::ExecuteToolRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ExecuteToolResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/snakepit.bridge.BridgeService/ExecuteTool",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("snakepit.bridge.BridgeService", "ExecuteTool"));
            self.inner.unary(req, path, codec).await
        }
        /// Runs a tool that gives its result piece by piece.
        pub async fn execute_streaming_tool(
            &mut self,
            request: impl tonic::IntoRequest<super::ExecuteToolRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::ToolChunk>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/snakepit.bridge.BridgeService/ExecuteStreamingTool",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new(
                        "snakepit.bridge.BridgeService",
                        "ExecuteStreamingTool",
                    ),
                );
            self.inner.server_streaming(req, path, codec).await
        }
        /// Tells the server which tools a worker has.
        pub async fn register_tools(
            &mut self,
            request: impl tonic::IntoRequest<super::RegisterToolsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RegisterToolsResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/snakepit.bridge.BridgeService/RegisterTools",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("snakepit.bridge.BridgeService", "RegisterTools"),
                );
            self.inner.unary(req, path, codec).await
        }
        /// The tools the server itself offers to a session.
        pub async fn get_exposed_elixir_tools(
            &mut self,
            request: impl tonic::IntoRequest<super::GetExposedElixirToolsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetExposedElixirToolsResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/snakepit.bridge.BridgeService/GetExposedElixirTools",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new(
                        "snakepit.bridge.BridgeService",
                        "GetExposedElixirTools",
                    ),
                );
            self.inner.unary(req, path, codec).await
        }
        /// Runs one of the server's own tools.
        pub async fn execute_elixir_tool(
            &mut self,
            request: impl tonic::IntoRequest<super::ExecuteElixirToolRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ExecuteElixirToolResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/snakepit.bridge.BridgeService/ExecuteElixirTool",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("snakepit.bridge.BridgeService", "ExecuteElixirTool"),
                );
            self.inner.unary(req, path, codec).await
        }
        /// Telemetry events one way, what to send the other way.
        pub async fn stream_telemetry(
            &mut self,
            request: impl tonic::IntoStreamingRequest<Message = super::TelemetryControl>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::TelemetryEvent>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/snakepit.bridge.BridgeService/StreamTelemetry",
            );
            let mut req = request.into_streaming_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("snakepit.bridge.BridgeService", "StreamTelemetry"),
                );
            self.inner.streaming(req, path, codec).await
        }
    }
}
/// Generated server implementations.
pub mod bridge_service_server {
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with BridgeServiceServer.
    #[async_trait]
    pub trait BridgeService: std::marker::Send + std::marker::Sync + 'static {
        /// Answers whether the other side is there.
        async fn ping(
            &self,
            request: tonic::Request<super::PingRequest>,
        ) -> std::result::Result<tonic::Response<super::PingResponse>, tonic::Status>;
        /// Makes a session, or touches a live one.
        async fn initialize_session(
            &self,
            request: tonic::Request<super::InitializeSessionRequest>,
        ) -> std::result::Result<
            tonic::Response<super::InitializeSessionResponse>,
            tonic::Status,
        >;
        /// Ends a session and forgets its tools.
        async fn cleanup_session(
            &self,
            request: tonic::Request<super::CleanupSessionRequest>,
        ) -> std::result::Result<
            tonic::Response<super::CleanupSessionResponse>,
            tonic::Status,
        >;
        /// What is known of a session.
        async fn get_session(
            &self,
            request: tonic::Request<super::GetSessionRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetSessionResponse>,
            tonic::Status,
        >;
        /// Keeps a session alive and tells whether it still is.
        async fn heartbeat(
            &self,
            request: tonic::Request<super::HeartbeatRequest>,
        ) -> std::result::Result<
            tonic::Response<super::HeartbeatResponse>,
            tonic::Status,
        >;
        /// Runs a tool and waits for its result.
        async fn execute_tool(
            &self,
            request: tonic::Request<super::ExecuteToolRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ExecuteToolResponse>,
            tonic::Status,
        >;
        /// Server streaming response type for the ExecuteStreamingTool method.
        type ExecuteStreamingToolStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::ToolChunk, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /// Runs a tool that gives its result piece by piece.
        async fn execute_streaming_tool(
            &self,
            request: tonic::Request<super::ExecuteToolRequest>,
        ) -> std::result::Result<
            tonic::Response<Self::ExecuteStreamingToolStream>,
            tonic::Status,
        >;
        /// Tells the server which tools a worker has.
        async fn register_tools(
            &self,
            request: tonic::Request<super::RegisterToolsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RegisterToolsResponse>,
            tonic::Status,
        >;
        /// The tools the server itself offers to a session.
        async fn get_exposed_elixir_tools(
            &self,
            request: tonic::Request<super::GetExposedElixirToolsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetExposedElixirToolsResponse>,
            tonic::Status,
        >;
        /// Runs one of the server's own tools.
        async fn execute_elixir_tool(
            &self,
            request: tonic::Request<super::ExecuteElixirToolRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ExecuteElixirToolResponse>,
            tonic::Status,
        >;
        /// Server streaming response type for the StreamTelemetry method.
        type StreamTelemetryStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::TelemetryEvent, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /// Telemetry events one way, what to send the other way.
        async fn stream_telemetry(
            &self,
            request: tonic::Request<tonic::Streaming<super::TelemetryControl>>,
        ) -> std::result::Result<
            tonic::Response<Self::StreamTelemetryStream>,
            tonic::Status,
        >;
    }
    #[derive(Debug)]
    pub struct BridgeServiceServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> BridgeServiceServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>> for BridgeServiceServer<T>
    where
        T: BridgeService,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/snakepit.bridge.BridgeService/Ping" => {
                    struct PingSvc<T: BridgeService>(pub Arc<T>);
                    impl<
                        T: BridgeService,
                    > tonic::server::UnaryService<super::PingRequest> for PingSvc<T> {
                        type Response = super::PingResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::PingRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as BridgeService>::ping(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = PingSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/snakepit.bridge.BridgeService/InitializeSession" => {
                    struct InitializeSessionSvc<T: BridgeService>(pub Arc<T>);
                    impl<
                        T: BridgeService,
                    > tonic::server::UnaryService<super::InitializeSessionRequest>
                    for InitializeSessionSvc<T> {
                        type Response = super::InitializeSessionResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::InitializeSessionRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as BridgeService>::initialize_session(&inner, request)
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = InitializeSessionSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/snakepit.bridge.BridgeService/CleanupSession" => {
                    struct CleanupSessionSvc<T: BridgeService>(pub Arc<T>);
                    impl<
                        T: BridgeService,
                    > tonic::server::UnaryService<super::CleanupSessionRequest>
                    for CleanupSessionSvc<T> {
                        type Response = super::CleanupSessionResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::CleanupSessionRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as BridgeService>::cleanup_session(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = CleanupSessionSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/snakepit.bridge.BridgeService/GetSession" => {
                    struct GetSessionSvc<T: BridgeService>(pub Arc<T>);
                    impl<
                        T: BridgeService,
                    > tonic::server::UnaryService<super::GetSessionRequest>
                    for GetSessionSvc<T> {
                        type Response = super::GetSessionResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::GetSessionRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as BridgeService>::get_session(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = GetSessionSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/snakepit.bridge.BridgeService/Heartbeat" => {
                    struct HeartbeatSvc<T: BridgeService>(pub Arc<T>);
                    impl<
                        T: BridgeService,
                    > tonic::server::UnaryService<super::HeartbeatRequest>
                    for HeartbeatSvc<T> {
                        type Response = super::HeartbeatResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::HeartbeatRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as BridgeService>::heartbeat(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = HeartbeatSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/snakepit.bridge.BridgeService/ExecuteTool" => {
                    struct ExecuteToolSvc<T: BridgeService>(pub Arc<T>);
                    impl<
                        T: BridgeService,
                    > tonic::server::UnaryService<super::ExecuteToolRequest>
                    for ExecuteToolSvc<T> {
                        type Response = super::ExecuteToolResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::ExecuteToolRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as BridgeService>::execute_tool(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = ExecuteToolSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/snakepit.bridge.BridgeService/ExecuteStreamingTool" => {
                    struct ExecuteStreamingToolSvc<T: BridgeService>(pub Arc<T>);
                    impl<
                        T: BridgeService,
                    > tonic::server::ServerStreamingService<super::ExecuteToolRequest>
                    for ExecuteStreamingToolSvc<T> {
                        type Response = super::ToolChunk;
                        type ResponseStream = T::ExecuteStreamingToolStream;
                        type Future = BoxFuture<
                            tonic::Response<Self::ResponseStream>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::ExecuteToolRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as BridgeService>::execute_streaming_tool(
                                        &inner,
                                        request,
                                    )
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = ExecuteStreamingToolSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.server_streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/snakepit.bridge.BridgeService/RegisterTools" => {
                    struct RegisterToolsSvc<T: BridgeService>(pub Arc<T>);
                    impl<
                        T: BridgeService,
                    > tonic::server::UnaryService<super::RegisterToolsRequest>
                    for RegisterToolsSvc<T> {
                        type Response = super::RegisterToolsResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::RegisterToolsRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as BridgeService>::register_tools(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = RegisterToolsSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/snakepit.bridge.BridgeService/GetExposedElixirTools" => {
                    struct GetExposedElixirToolsSvc<T: BridgeService>(pub Arc<T>);
                    impl<
                        T: BridgeService,
                    > tonic::server::UnaryService<super::GetExposedElixirToolsRequest>
                    for GetExposedElixirToolsSvc<T> {
                        type Response = super::GetExposedElixirToolsResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::GetExposedElixirToolsRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as BridgeService>::get_exposed_elixir_tools(
                                        &inner,
                                        request,
                                    )
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = GetExposedElixirToolsSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/snakepit.bridge.BridgeService/ExecuteElixirTool" => {
                    struct ExecuteElixirToolSvc<T: BridgeService>(pub Arc<T>);
                    impl<
                        T: BridgeService,
                    > tonic::server::UnaryService<super::ExecuteElixirToolRequest>
                    for ExecuteElixirToolSvc<T> {
                        type Response = super::ExecuteElixirToolResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::ExecuteElixirToolRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as BridgeService>::execute_elixir_tool(&inner, request)
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = ExecuteElixirToolSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/snakepit.bridge.BridgeService/StreamTelemetry" => {
                    struct StreamTelemetrySvc<T: BridgeService>(pub Arc<T>);
                    impl<
                        T: BridgeService,
                    > tonic::server::StreamingService<super::TelemetryControl>
                    for StreamTelemetrySvc<T> {
                        type Response = super::TelemetryEvent;
                        type ResponseStream = T::StreamTelemetryStream;
                        type Future = BoxFuture<
                            tonic::Response<Self::ResponseStream>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<
                                tonic::Streaming<super::TelemetryControl>,
                            >,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as BridgeService>::stream_telemetry(&inner, request)
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = StreamTelemetrySvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                _ => {
                    Box::pin(async move {
                        let mut response = http::Response::new(
                            tonic::body::Body::default(),
                        );
                        let headers = response.headers_mut();
                        headers
                            .insert(
                                tonic::Status::GRPC_STATUS,
                                (tonic::Code::Unimplemented as i32).into(),
                            );
                        headers
                            .insert(
                                http::header::CONTENT_TYPE,
                                tonic::metadata::GRPC_CONTENT_TYPE,
                            );
                        Ok(response)
                    })
                }
            }
        }
    }
    impl<T> Clone for BridgeServiceServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "snakepit.bridge.BridgeService";
    impl<T> tonic::server::NamedService for BridgeServiceServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
