//! A pool's tools, pinned to their approved definitions. The first list seen is approved automatically; a tool that
//! changes or appears later is not offered until the operator approves it.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use patchboard_core::error::BoxError;
use patchboard_core::extensions::ToolChangeReport;
use patchboard_core::model::ToolCall;
use patchboard_core::port::ToolHost;
use patchboard_core::port::ToolScope;
use patchboard_core::tool::ToolKind;
use patchboard_core::tool::{ToolEffect, ToolOutput, ToolSpec, UnknownOutcomePolicy};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::mcp::{ListedTool, PinStore, ToolChange, ToolPins, tool_changes};

/// After a failed review the list is reviewed again only after this time, however often it is requested.
const REVIEW_RETRY: Duration = Duration::from_secs(2);

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct ApprovedPool(Arc<PinnedPoolState>);

#[derive(Debug)]
struct PinnedPoolState {
    name: Arc<str>,
    pool: Arc<dyn ToolHost>,
    pins: Arc<dyn PinStore>,
    review: Mutex<ToolReview>,
    /// Serialises changes of the pins.
    pin_lock: tokio::sync::Mutex<()>,
    tasks: TaskTracker,
}

#[derive(Debug)]
struct ToolReview {
    /// The last list of the pool that was reviewed.
    reviewed: Arc<[ToolSpec]>,
    usable: Arc<[ToolSpec]>,
    pending: Vec<Arc<str>>,
    changes: Vec<ToolChangeReport>,
    is_running: bool,
    /// Set after a failed review.
    retry_at: Option<Instant>,
}

impl ApprovedPool {
    pub fn new(name: Arc<str>, pool: Arc<dyn ToolHost>, pins: Arc<dyn PinStore>, tasks: TaskTracker) -> Self {
        let empty: Arc<[ToolSpec]> = Arc::from([]);
        let review = ToolReview {
            reviewed: empty.clone(),
            usable: empty,
            pending: Vec::new(),
            changes: Vec::new(),
            is_running: false,
            retry_at: None,
        };
        let pin_lock = tokio::sync::Mutex::new(());
        Self(Arc::new(PinnedPoolState { name, pool, pins, review: Mutex::new(review), pin_lock, tasks }))
    }

    /// Reviews the pool's current tools, so that they are offered when this returns.
    pub async fn review_tools(&self) {
        let result = self.review_for(ReviewCause::Changed).await;
        self.review().retry_at = result.is_err().then(|| Instant::now() + REVIEW_RETRY);
        if let Err(error) = result {
            let pool = &*self.0.name;
            tracing::error!(pool, error, "cannot load the approved tools of a pool; its offered tools stay unchanged");
        }
    }

    /// Returns the names of the pending tools that this review approved.
    async fn review_for(&self, cause: ReviewCause) -> Result<Vec<Arc<str>>, BoxError> {
        let inner = &*self.0;
        let _guard = inner.pin_lock.lock().await;
        let listed = inner.pool.tools(None);
        if cause == ReviewCause::Changed && Arc::ptr_eq(&listed, &self.review().reviewed) {
            return Ok(Vec::new());
        }
        if cause == ReviewCause::Approved && listed.is_empty() {
            return Err("the pool has no worker now, so there are no tools to approve".into());
        }
        let offered: Vec<ListedTool> = listed.iter().map(listed_tool).collect();
        let mut pins = inner.pins.load(&inner.name).await?;
        // No pins are stored yet: the first non-empty list is approved.
        let is_first = pins.is_none() && !listed.is_empty();
        let mut approved = Vec::new();
        if cause == ReviewCause::Approved || is_first {
            let is_pending = |tool: &&ListedTool| pins.as_ref().is_some_and(|pins| pins.change(tool).is_some());
            approved = offered.iter().filter(is_pending).map(|tool| tool.name.as_str().into()).collect();
            let current = ToolPins::from_tools(&offered);
            inner.pins.save(&inner.name, current.clone()).await?;
            pins = Some(current);
        }
        self.apply_pins(listed, &offered, &pins.unwrap_or_default());
        Ok(approved)
    }

    /// Offers the tools whose definitions match their pins.
    fn apply_pins(&self, listed: Arc<[ToolSpec]>, offered: &[ListedTool], pins: &ToolPins) {
        let changes: Vec<Option<ToolChange>> = offered.iter().map(|tool| pins.change(tool)).collect();
        let unchanged = listed.iter().zip(&changes).filter(|(_, change)| change.is_none());
        let usable: Arc<[ToolSpec]> = unchanged.map(|(tool, _)| tool.clone()).collect();
        let texts = tool_changes(&self.0.name, offered, pins, |tool| tool.into());
        let mut review = self.review();
        review.changes = texts;
        // An equal list keeps its allocation, so that callers can compare by pointer.
        if review.usable != usable {
            review.usable = usable;
        }
        let previously_pending = std::mem::take(&mut review.pending);
        for (tool, change) in listed.iter().zip(changes) {
            let Some(change) = change else { continue };
            if !previously_pending.contains(&tool.name) {
                let pool = &*self.0.name;
                tracing::warn!(
                    pool,
                    "the tool `{}` {change} since it was approved and is not offered; look at it and run \
                     `patchboard tools approve {pool}`, or say `pin = false` for the pool",
                    tool.name
                );
            }
            review.pending.push(tool.name.clone());
        }
        review.reviewed = listed;
    }

    fn review(&self) -> MutexGuard<'_, ToolReview> {
        self.0.review.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why the tools are reviewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReviewCause {
    Changed,
    /// The operator approved the current definitions.
    Approved,
}

/// Clears `is_running` however the review ends, so that the next list is reviewed.
struct ReviewGuard(ApprovedPool);

impl Drop for ReviewGuard {
    fn drop(&mut self) {
        self.0.review().is_running = false;
    }
}

impl ToolHost for ApprovedPool {
    fn kind(&self) -> ToolKind {
        self.0.pool.kind()
    }

    fn tools(&self, folder: Option<&Path>) -> Arc<[ToolSpec]> {
        let listed = self.0.pool.tools(folder);
        let mut review = self.review();
        let is_new = !Arc::ptr_eq(&listed, &review.reviewed) && !review.is_running;
        if is_new && review.retry_at.is_none_or(|not_before| Instant::now() >= not_before) {
            review.is_running = true;
            let guard = ReviewGuard(self.clone());
            self.0.tasks.spawn(async move { guard.0.review_tools().await });
        }
        review.usable.clone()
    }

    fn qualifier(&self) -> Option<&str> {
        self.0.pool.qualifier()
    }

    fn pending_changes(&self) -> Vec<ToolChangeReport> {
        self.review().changes.clone()
    }

    fn call<'a>(
        &'a self,
        scope: &'a ToolScope,
        call: &'a ToolCall,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        self.0.pool.call(scope, call, arguments, stop)
    }

    fn approve<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Option<Result<Vec<Arc<str>>, String>>> {
        Box::pin(async move {
            if server != &*self.0.name {
                return None;
            }
            let approved = self.review_for(ReviewCause::Approved).await;
            Some(approved.map_err(|error| format!("the tools of the pool `{server}` are not approved: {error}")))
        })
    }
}

fn listed_tool(tool: &ToolSpec) -> ListedTool {
    ListedTool {
        name: tool.name.to_string(),
        description: tool.description.to_string(),
        input_schema: (*tool.input_schema).clone(),
        read_only: tool.effect == ToolEffect::ReadOnly,
        idempotent: tool.unknown_outcome == UnknownOutcomePolicy::Retry,
    }
}

#[cfg(test)]
mod tests;
