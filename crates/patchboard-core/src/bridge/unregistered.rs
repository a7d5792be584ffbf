//! Tools that workers run without ever having registered them. Nothing is known about such a tool but its name: it is
//! found by being called, counts as one that writes, and is in no list of tools.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::{Bridge, WorkerTools, clipped};
use crate::approval::policy::{ApprovalMode, ApprovalPolicy};
use crate::caller::Surface;
use crate::error::BoardError;
use crate::executor::registry::{RegisteredHost, ToolSet};
use crate::port::{IdGenerator, ToolNameStatus, UnregisteredTools};
use crate::tool::{ToolEffect, ToolKind, ToolSpec, ToolTraits, UnknownOutcomePolicy};

/// Longest name that is handed to a worker, in bytes.
const MAX_NAME: usize = 128;

/// What decides where a call of an unregistered name goes.
#[derive(Debug)]
pub(crate) struct NameContext<'a> {
    /// What the caller may reach.
    pub(crate) reachable: &'a ToolSet,
    /// All tools there are: their names are taken, whoever may call them.
    pub(crate) all: &'a ToolSet,
    pub(crate) policy: &'a ApprovalPolicy,
    pub(crate) surface: Surface,
    pub(crate) form: NameForm,
}

/// How a name has to be written to reach a tool that is not registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameForm {
    /// `NAME` where a single pool can be meant, or `POOL.NAME`.
    Any,
    /// `POOL.NAME` alone: a typing mistake must not reach a worker.
    Qualified,
}

/// A pool, and the name of a tool among its workers.
type PoolTarget<'a> = (&'a Arc<dyn UnregisteredTools>, &'a str);

impl Bridge {
    /// The tool under a name that no offered tool has, and an offer that has it: one of a pool's that is named with the
    /// pool, or one that nobody registered. It may have another name than the one that was asked for. `None` where no worker may be asked for it; `Err` says that several could be.
    pub(crate) fn unregistered(
        &self,
        name: &str,
        context: &NameContext<'_>,
        ids: &Arc<dyn IdGenerator>,
    ) -> Result<Option<(ToolSpec, ToolSet)>, BoardError> {
        if let Some(spec) = qualified_tool(name, context.reachable) {
            return Ok(Some((spec, context.reachable.clone())));
        }
        let pools = self.0.workers.as_ref().map(|workers| workers.pools_taking_unregistered()).unwrap_or_default();
        let Some((pool, own_name)) = self.find_pool(name, &pools, context)? else { return Ok(None) };
        let qualifier = pool.qualifier().unwrap_or_default();
        match pool.name_status(own_name) {
            ToolNameStatus::Untried => {}
            ToolNameStatus::Unknown | ToolNameStatus::Registered => return Ok(None),
        }
        let Some(spec) = permitted(own_name, qualifier, name, context) else { return Ok(None) };
        let host = WorkerTools { pool: pool.clone(), bridge: self.clone(), ids: ids.clone() };
        let offer = ToolSet::single(spec.clone(), RegisteredHost::Contextual(Arc::new(host)));
        Ok(Some((spec, offer)))
    }

    fn find_pool<'a>(
        &self,
        name: &'a str,
        pools: &'a [Arc<dyn UnregisteredTools>],
        context: &NameContext<'_>,
    ) -> Result<Option<PoolTarget<'a>>, BoardError> {
        let named = pools.iter().find_map(|pool| Some((pool, strip_pool_prefix(name, pool.qualifier()?)?)));
        if let Some((pool, own_name)) = named {
            return Ok(is_valid_name(own_name).then_some((pool, own_name)));
        }
        // The name of a pool that does not allow it chooses no other pool.
        let names_a_pool = || self.workers().iter().any(|pool| strip_pool_prefix(name, &pool.name).is_some());
        let is_open = context.form == NameForm::Any && is_valid_name(name) && context.all.find(name).is_none();
        if !is_open || pools.is_empty() || names_a_pool() {
            return Ok(None);
        }
        match pools {
            [] => Ok(None),
            [only] => Ok(Some((only, name))),
            several => Err(ambiguous(name, several)),
        }
    }
}

/// A tool of a pool that is offered under its own name, asked for with the pool's before it.
fn qualified_tool(name: &str, reachable: &ToolSet) -> Option<ToolSpec> {
    let (pool, own_name) = name.split_once('.')?;
    let (spec, host) = reachable.find(own_name)?;
    (host.kind() == ToolKind::Worker && host.qualifier() == Some(pool)).then(|| spec.clone())
}

/// The tool under the name whose approval rule is the stricter one: its own, or the one with the pool's before it. `None`
/// where that rule denies it.
fn permitted(own_name: &str, qualifier: &str, asked: &str, context: &NameContext<'_>) -> Option<ToolSpec> {
    let qualified = format!("{qualifier}.{own_name}");
    // A name that another tool has is that tool's, with its rules.
    let own = context.all.find(own_name).is_none().then_some(own_name);
    let mut names: Vec<&str> = own.into_iter().chain([&*qualified]).collect();
    // Without a difference the caller reads the name it used.
    names.sort_by_key(|name| *name == asked);
    let specs = names.into_iter().map(spec);
    let strictest = specs.max_by_key(|spec| context.policy.decide(spec, context.surface))?;
    (context.policy.decide(&strictest, context.surface) != ApprovalMode::Deny).then_some(strictest)
}

fn spec(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: "".into(),
        input_schema: Arc::new(json!({"type": "object"})),
        effect: ToolEffect::Writes,
        unknown_outcome: UnknownOutcomePolicy::Ask,
        timeout: None,
        kind: ToolKind::Worker,
        // Whether it streams is only known when it is called.
        traits: Some(Arc::new(ToolTraits {
            streams: true,
            parameters: Vec::new(),
            cacheable: false,
            metadata: BTreeMap::new(),
        })),
    }
}

fn strip_pool_prefix<'a>(name: &'a str, pool: &str) -> Option<&'a str> {
    name.strip_prefix(pool)?.strip_prefix('.')
}

/// Could a worker have a tool of that name?
fn is_valid_name(name: &str) -> bool {
    let is_odd = |character: char| character.is_whitespace() || character.is_control();
    // What Python keeps to itself begins with an underscore.
    name.len() <= MAX_NAME && name.starts_with(char::is_alphanumeric) && !name.contains(is_odd)
}

fn ambiguous(name: &str, pools: &[Arc<dyn UnregisteredTools>]) -> BoardError {
    let names = pools.iter().filter_map(|pool| Some(format!("`{}.{}`", pool.qualifier()?, clipped(name))));
    let names: Vec<String> = names.collect();
    BoardError::invalid(format!(
        "Tool {} is registered by no worker, and several pools run tools that are not registered: call it as {}",
        clipped(name),
        names.join(" or ")
    ))
}
