//! A pool's tools as they were approved. What is seen for the first time is approved by being seen; a tool that reads
//! differently later, or comes to be later, is not offered before the operator has looked at it.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use patchboard_core::error::BoxError;
use patchboard_core::model::ToolCall;
use patchboard_core::port::ToolHost;
use patchboard_core::tool::{Effect, ToolOutput, ToolScope, ToolSpec, UnknownOutcome};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::mcp::{Change, Offered, PinStore, Pins};

/// A list that could not be looked at is looked at again after this time, however often it is asked for.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Pinned(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: Arc<str>,
    pool: Arc<dyn ToolHost>,
    pins: Arc<dyn PinStore>,
    judged: Mutex<Judged>,
    /// One change of pins at a time.
    pinning: tokio::sync::Mutex<()>,
    tasks: TaskTracker,
}

#[derive(Debug)]
struct Judged {
    /// The list of the pool that was looked at.
    listed: Arc<[ToolSpec]>,
    usable: Arc<[ToolSpec]>,
    waiting: Vec<Arc<str>>,
    is_being_judged: bool,
    /// After it failed.
    not_before: Option<Instant>,
}

impl Pinned {
    pub fn new(name: Arc<str>, pool: Arc<dyn ToolHost>, pins: Arc<dyn PinStore>, tasks: TaskTracker) -> Self {
        let nothing: Arc<[ToolSpec]> = Arc::from([]);
        let judged = Judged {
            listed: nothing.clone(),
            usable: nothing,
            waiting: Vec::new(),
            is_being_judged: false,
            not_before: None,
        };
        let pinning = tokio::sync::Mutex::new(());
        Self(Arc::new(Inner { name, pool, pins, judged: Mutex::new(judged), pinning, tasks }))
    }

    /// Looks at what the pool has now, so that it is offered when this returns.
    pub async fn settle(&self) {
        let judged = self.judge(When::Changed).await;
        self.judged().not_before = judged.is_err().then(|| Instant::now() + LOOK_AGAIN);
        if let Err(error) = judged {
            let pool = &*self.0.name;
            tracing::error!(pool, error, "the approved tools of a pool cannot be looked up; it is offered as it was");
        }
    }

    /// Says which tools waited and are approved by this.
    async fn judge(&self, when: When) -> Result<Vec<Arc<str>>, BoxError> {
        let inner = &*self.0;
        let _one_at_a_time = inner.pinning.lock().await;
        let listed = inner.pool.tools(None);
        if when == When::Changed && Arc::ptr_eq(&listed, &self.judged().listed) {
            return Ok(Vec::new());
        }
        if when == When::Approved && listed.is_empty() {
            return Err("no worker of it is there now, so there is nothing to look at".into());
        }
        let offered: Vec<Offered> = listed.iter().map(offered).collect();
        let mut pins = inner.pins.load(&inner.name).await?;
        // Nothing to approve yet: the first tools will be.
        let is_first = pins.is_none() && !listed.is_empty();
        let mut approved = Vec::new();
        if when == When::Approved || is_first {
            let waited = |tool: &&Offered| pins.as_ref().is_some_and(|pins| pins.change(tool).is_some());
            approved = offered.iter().filter(waited).map(|tool| tool.name.as_str().into()).collect();
            let now = Pins::of(&offered);
            inner.pins.save(&inner.name, now.clone()).await?;
            pins = Some(now);
        }
        self.settle_on(listed, &offered, &pins.unwrap_or_default());
        Ok(approved)
    }

    /// Offers those that are as they were approved.
    fn settle_on(&self, listed: Arc<[ToolSpec]>, offered: &[Offered], pins: &Pins) {
        let changes: Vec<Option<Change>> = offered.iter().map(|tool| pins.change(tool)).collect();
        let unchanged = listed.iter().zip(&changes).filter(|(_, change)| change.is_none());
        let usable: Arc<[ToolSpec]> = unchanged.map(|(tool, _)| tool.clone()).collect();
        let mut judged = self.judged();
        // The same list stays the same allocation, so that others can tell at a glance.
        if judged.usable != usable {
            judged.usable = usable;
        }
        let had_waited = std::mem::take(&mut judged.waiting);
        for (tool, change) in listed.iter().zip(changes) {
            let Some(change) = change else { continue };
            if !had_waited.contains(&tool.name) {
                let pool = &*self.0.name;
                tracing::warn!(
                    pool,
                    "the tool `{}` {change} since it was approved and is not offered; look at it and run \
                     `patchboard tools approve {pool}`, or say `pin = false` for the pool",
                    tool.name
                );
            }
            judged.waiting.push(tool.name.clone());
        }
        judged.listed = listed;
    }

    fn judged(&self) -> MutexGuard<'_, Judged> {
        self.0.judged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why tools are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Changed,
    /// The operator has seen them.
    Approved,
}

/// However the looking ends, the next list is looked at again.
struct Judging(Pinned);

impl Drop for Judging {
    fn drop(&mut self) {
        self.0.judged().is_being_judged = false;
    }
}

impl ToolHost for Pinned {
    fn kind(&self) -> &'static str {
        self.0.pool.kind()
    }

    fn tools(&self, folder: Option<&Path>) -> Arc<[ToolSpec]> {
        let listed = self.0.pool.tools(folder);
        let mut judged = self.judged();
        let is_new = !Arc::ptr_eq(&listed, &judged.listed) && !judged.is_being_judged;
        if is_new && judged.not_before.is_none_or(|not_before| Instant::now() >= not_before) {
            judged.is_being_judged = true;
            let judging = Judging(self.clone());
            self.0.tasks.spawn(async move { judging.0.settle().await });
        }
        judged.usable.clone()
    }

    fn qualifier(&self) -> Option<&str> {
        self.0.pool.qualifier()
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
            let approved = self.judge(When::Approved).await;
            Some(approved.map_err(|error| format!("the tools of the pool `{server}` are not approved: {error}")))
        })
    }
}

fn offered(tool: &ToolSpec) -> Offered {
    Offered {
        name: tool.name.to_string(),
        description: tool.description.to_string(),
        input_schema: (*tool.input_schema).clone(),
        read_only: tool.effect == Effect::ReadOnly,
        idempotent: tool.unknown_outcome == UnknownOutcome::Retry,
    }
}

#[cfg(test)]
mod tests;
