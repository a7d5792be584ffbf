//! Calls of tool names that no worker of the pool registered: adapters made from the common templates and guides
//! register nothing. A worker's reply that it has no such tool is cached for a minute.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use patchboard_core::model::ToolCall;
use patchboard_core::port::ToolScope;
use patchboard_core::port::{ToolHost, ToolNameStatus, UnregisteredTools};
use patchboard_core::tool::{ToolEffect, ToolFault, ToolKind, ToolOutput, ToolSpec, ToolTraits, UnknownOutcomePolicy};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::pool::WorkerPool;

mod unknown_tool;

/// How long a name stays cached as unknown.
const UNKNOWN_TTL: Duration = Duration::from_secs(60);
/// Names cached per pool; past this the oldest is dropped and would be tried again.
const MAX_NAMES: usize = 1024;

/// Whether workers may be called by names they never registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnregisteredPolicy {
    Allow,
    Deny,
    /// Allowed unless the workers use our SDK, which registers every tool.
    #[default]
    ByWorker,
}

/// Names that workers reported as unknown. Pure: the caller passes the current time.
#[derive(Debug, Default)]
pub(super) struct UnknownNames(HashMap<Arc<str>, Instant>);

impl UnknownNames {
    pub(super) fn note(&mut self, name: &str, now: Instant) {
        self.0.retain(|_, until| *until > now);
        if self.0.len() >= MAX_NAMES && !self.0.contains_key(name) {
            let oldest = self.0.iter().min_by_key(|(_, until)| **until).map(|(name, _)| name.clone());
            if let Some(oldest) = oldest {
                self.0.remove(&oldest);
            }
        }
        self.0.insert(name.into(), now + UNKNOWN_TTL);
    }

    pub(super) fn has(&self, name: &str, now: Instant) -> bool {
        self.0.get(name).is_some_and(|until| *until > now)
    }

    /// Called when a worker becomes ready, because it may run new code.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// A pool as the host of tools that it did not register.
#[derive(Debug)]
pub(super) struct OpenPoolHost(pub(super) Arc<WorkerPool>);

impl OpenPoolHost {
    async fn call_by_name(
        &self,
        scope: &ToolScope,
        call: &ToolCall,
        arguments: &Value,
        stop: CancellationToken,
    ) -> ToolOutput {
        let pool = &*self.0;
        let Some(session) = scope.call_metadata.as_deref().map(|metadata| metadata.session.clone()) else {
            return ToolOutput::fault(ToolFault::Internal, "a call to a worker without its session");
        };
        let own_name = own_name(pool, &call.name);
        let not_found = || {
            let message = format!("Tool {} not found for session {session}", call.name);
            ToolOutput::fault(ToolFault::NotFound, message)
        };
        if self.name_status(own_name) != ToolNameStatus::Untried {
            return not_found();
        }
        let output = super::call::run(pool, &placeholder_spec(own_name), scope, arguments, stop).await;
        if !unknown_tool::is_unknown_tool(&output, own_name) {
            return output;
        }
        pool.note_unknown(own_name, Instant::now());
        not_found()
    }
}

impl UnregisteredTools for OpenPoolHost {
    fn name_status(&self, name: &str) -> ToolNameStatus {
        self.0.name_status(name, Instant::now())
    }
}

impl ToolHost for OpenPoolHost {
    fn kind(&self) -> ToolKind {
        ToolKind::Worker
    }

    fn tools(&self, _folder: Option<&Path>) -> Arc<[ToolSpec]> {
        Arc::new([])
    }

    fn qualifier(&self) -> Option<&str> {
        Some(self.0.name())
    }

    fn call<'a>(
        &'a self,
        scope: &'a ToolScope,
        call: &'a ToolCall,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(self.call_by_name(scope, call, arguments, stop))
    }
}

fn own_name<'a>(pool: &WorkerPool, name: &'a str) -> &'a str {
    name.strip_prefix(&**pool.name()).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name)
}

/// A spec with only the name. A streamed result is accepted if the tool gives one.
fn placeholder_spec(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: "".into(),
        input_schema: Arc::new(Value::Bool(true)),
        effect: ToolEffect::Writes,
        unknown_outcome: UnknownOutcomePolicy::Ask,
        timeout: None,
        kind: ToolKind::Worker,
        traits: Some(Arc::new(ToolTraits { streams: true, ..ToolTraits::default() })),
    }
}

#[cfg(test)]
mod tests;
