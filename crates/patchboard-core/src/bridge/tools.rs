//! Wraps a pool's tools for the board: gives the caller a session that the worker knows, caches results and emits
//! telemetry.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::cache::CacheKey;
use super::session_lifecycle::SessionLease;
use super::sessions::{SessionScope, SessionSerial};
use super::{Bridge, MeasuredValue, TelemetryEvent};
use crate::budget::call_chain::CallChain;
use crate::executor::{CallContext, ContextToolHost};
use crate::extensions::ToolChangeReport;
use crate::model::ToolCall;
use crate::port::ToolScope;
use crate::port::{IdGenerator, ToolHost};
use crate::tool::{CallMetadata, IDEMPOTENCY_KEY, StructuredOutput, ToolKind, ToolOutput, ToolSpec};
use crate::worker::SessionConfig;

/// For sessions that ask for caching without a TTL.
const CACHE_TTL: Duration = Duration::from_secs(60);

/// The tools of one pool.
#[derive(Debug)]
pub(crate) struct WorkerToolHost {
    pub(crate) pool: Arc<dyn ToolHost>,
    pub(crate) bridge: Bridge,
    pub(crate) ids: Arc<dyn IdGenerator>,
}

impl ToolHost for WorkerToolHost {
    fn kind(&self) -> ToolKind {
        self.pool.kind()
    }

    fn tools(&self, folder: Option<&Path>) -> Arc<[ToolSpec]> {
        self.pool.tools(folder)
    }

    fn qualifier(&self) -> Option<&str> {
        self.pool.qualifier()
    }

    fn pending_changes(&self) -> Vec<ToolChangeReport> {
        self.pool.pending_changes()
    }

    fn approve<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Option<Result<Vec<Arc<str>>, String>>> {
        self.pool.approve(server)
    }

    fn call<'a>(
        &'a self,
        scope: &'a ToolScope,
        call: &'a ToolCall,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(self.call_in_chain(None, scope, call, arguments, stop))
    }
}

impl ContextToolHost for WorkerToolHost {
    fn call_with_context<'a>(
        &'a self,
        context: &'a CallContext,
        scope: &'a ToolScope,
        call: &'a ToolCall,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(self.call_in_chain(Some(&context.call_chain), scope, call, arguments, stop))
    }
}

impl WorkerToolHost {
    async fn call_in_chain(
        &self,
        call_chain: Option<&CallChain>,
        scope: &ToolScope,
        call: &ToolCall,
        arguments: &Value,
        stop: CancellationToken,
    ) -> ToolOutput {
        if let Some(metadata) = &scope.call_metadata {
            return self.call_pool(metadata, scope, call, arguments, stop).await;
        }
        // Held until the call ends, so that the session exists for as long as the tool may call back.
        let lease = self.open_agent_session(scope, call_chain);
        let metadata = Arc::new(CallMetadata {
            session: lease.session().clone(),
            correlation: Some(call.id.0.clone()),
            metadata: BTreeMap::from([(IDEMPOTENCY_KEY.to_owned(), call.id.to_string())]),
            for_model: true,
            ..CallMetadata::default()
        });
        let scope = ToolScope { call_metadata: Some(metadata.clone()), ..scope.clone() };
        self.call_pool(&metadata, &scope, call, arguments, stop).await
    }

    /// Opens the session that represents an agent's conversation to workers. Its id reveals nothing about the
    /// conversation.
    fn open_agent_session(&self, scope: &ToolScope, call_chain: Option<&CallChain>) -> SessionLease {
        let ToolScope { session, owner, folder, folder_grant, .. } = scope.clone();
        let session_scope = SessionScope { session, owner, folder, folder_grant };
        let new_id = || format!("agent-{}", self.ids.next().simple()).into();
        let at = self.bridge.0.clock.now();
        let (id, serial) =
            self.bridge.sessions().agent_session(session_scope, call_chain.cloned(), new_id, at, Instant::now());
        SessionLease::new(&self.bridge, id, serial)
    }

    async fn call_pool(
        &self,
        metadata: &CallMetadata,
        scope: &ToolScope,
        call: &ToolCall,
        arguments: &Value,
        stop: CancellationToken,
    ) -> ToolOutput {
        let (config, serial) = self.bridge.sessions().config(&metadata.session).unzip();
        let config: SessionConfig = config.unwrap_or_default();
        let key = self.cache_key(config, metadata, call, arguments);
        if let Some(cached) = key.as_ref().and_then(|key| self.bridge.cache().get(key, Instant::now())) {
            return mark_cached(cached);
        }
        if config.telemetry {
            self.emit("tool.execution.start", metadata, call, None, None);
        }
        let started = Instant::now();
        let traced_scope = with_current_trace(metadata, scope);
        let output = self.pool.call(traced_scope.as_ref().unwrap_or(scope), call, arguments, stop).await;
        if config.telemetry {
            let name = if output.is_error { "tool.execution.exception" } else { "tool.execution.stop" };
            self.emit(name, metadata, call, Some(started.elapsed()), Some(&output));
        }
        if let (Some(key), Some(serial), false) = (key, serial, output.is_error) {
            self.cache_result(key, serial, &output, config);
        }
        output
    }

    /// Caches the result only while the id still belongs to the calling session, so that no later session gets it.
    fn cache_result(&self, key: CacheKey, serial: SessionSerial, output: &ToolOutput, config: SessionConfig) {
        let ttl = if config.cache_ttl.is_zero() { CACHE_TTL } else { config.cache_ttl };
        // The lock is held during `put`: results are removed after their session, so none can be added later.
        let sessions = self.bridge.sessions();
        if sessions.is_current(&key.session, serial) {
            self.bridge.cache().put(key, output.clone(), ttl, Instant::now());
        }
    }

    /// `None` if the result must not be cached. Binary payloads are not part of the key, so calls that carry any are
    /// not cached.
    fn cache_key(
        &self,
        config: SessionConfig,
        metadata: &CallMetadata,
        call: &ToolCall,
        arguments: &Value,
    ) -> Option<CacheKey> {
        if !config.caching || metadata.chunks.is_some() || !metadata.binary.is_empty() {
            return None;
        }
        let pool = self.pool.qualifier().unwrap_or_default();
        let own_name = call.name.strip_prefix(pool).and_then(|rest| rest.strip_prefix('.'));
        let tools = self.pool.tools(None);
        let named = |name: &str| tools.iter().find(|spec| &*spec.name == name);
        let tool = named(&call.name).or_else(|| named(own_name?))?;
        if !tool.traits.as_ref()?.cacheable {
            return None;
        }
        // Workers receive the metadata too, so it is part of the key. Two entries differ on every call and do not
        // affect the result.
        let key_metadata =
            metadata.metadata.iter().filter(|(key, _)| !matches!(key.as_str(), "correlation_id" | "timeout_ms"));
        let key_metadata: Vec<_> = key_metadata.collect();
        Some(CacheKey {
            session: metadata.session.clone(),
            pool: pool.into(),
            tool: tool.name.clone(),
            arguments: format!("{arguments} {key_metadata:?} {}", metadata.for_model).into(),
        })
    }

    fn emit(
        &self,
        name: &str,
        metadata: &CallMetadata,
        call: &ToolCall,
        duration: Option<Duration>,
        output: Option<&ToolOutput>,
    ) {
        let inner = &self.bridge.0;
        inner.telemetry.emit(|| {
            let event = TelemetryEvent::new(name, inner.clock.now())
                .with_metadata("session_id", metadata.session.clone())
                .with_metadata("tool", call.name.clone())
                .with_correlation(metadata.correlation.clone());
            let event = match duration {
                Some(duration) => {
                    let nanoseconds = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
                    event.with_measure("duration", MeasuredValue::Int(nanoseconds))
                }
                None => event,
            };
            let size = output.and_then(|output| output.data.as_ref()).map(|data| {
                data.json.as_ref().map_or(0, bytes::Bytes::len) + data.binary.as_ref().map_or(0, bytes::Bytes::len)
            });
            match size {
                Some(size) => {
                    event.with_measure("response_size", MeasuredValue::Int(i64::try_from(size).unwrap_or(i64::MAX)))
                }
                None => event,
            }
        });
    }
}

/// With tracing enabled, the worker's spans continue this call's span instead of the caller's.
fn with_current_trace(metadata: &CallMetadata, scope: &ToolScope) -> Option<ToolScope> {
    let metadata = CallMetadata { trace: Some(crate::trace::current_traceparent()?), ..metadata.clone() };
    Some(ToolScope { call_metadata: Some(Arc::new(metadata)), ..scope.clone() })
}

fn mark_cached(output: ToolOutput) -> ToolOutput {
    let mut data = output.data.as_deref().cloned().unwrap_or_else(StructuredOutput::default);
    data.metadata.insert("cached".to_owned(), "true".to_owned());
    output.with_structured(data)
}
