//! Tools that workers run without having registered them. Only the name is known: such a tool is found by calling it,
//! counts as writing, and is in no tool list.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::{Bridge, WorkerToolHost, clipped};
use crate::approval::policy::{ApprovalMode, ApprovalPolicy};
use crate::caller::Surface;
use crate::error::BoardError;
use crate::executor::registry::{RegisteredHost, ToolSet};
use crate::port::{IdGenerator, ToolNameStatus, UnregisteredTools};
use crate::tool::{ToolEffect, ToolKind, ToolSpec, ToolTraits, UnknownOutcomePolicy};

/// Longest name passed to a worker, in bytes.
const MAX_NAME: usize = 128;

/// What determines the target of a call with an unregistered name.
#[derive(Debug)]
pub(crate) struct NameContext<'a> {
    /// Tools that the caller may use.
    pub(crate) reachable: &'a ToolSet,
    /// All tools: their names are taken, whichever callers may use them.
    pub(crate) all: &'a ToolSet,
    pub(crate) policy: &'a ApprovalPolicy,
    pub(crate) surface: Surface,
    pub(crate) form: NameForm,
}

/// The form a name must have to reach an unregistered tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameForm {
    /// `NAME` if only one pool is possible, or `POOL.NAME`.
    Any,
    /// `POOL.NAME` only: a typing mistake must not reach a worker.
    Qualified,
}

/// A pool, and a tool's name within it.
type PoolTarget<'a> = (&'a Arc<dyn UnregisteredTools>, &'a str);

impl Bridge {
    /// Resolves a name that no offered tool has: a pool's tool qualified with the pool, or an unregistered tool. The
    /// returned spec may have another name than `name`. `None` if no worker may be asked; `Err` if several pools are
    /// possible.
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
        let host = WorkerToolHost { pool: pool.clone(), bridge: self.clone(), ids: ids.clone() };
        let tool_set = ToolSet::single(spec.clone(), RegisteredHost::Contextual(Arc::new(host)));
        Ok(Some((spec, tool_set)))
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
        // The name of a pool that does not allow unregistered tools must not fall through to another pool.
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

/// An offered tool of a pool, addressed with the pool's name as a prefix.
fn qualified_tool(name: &str, reachable: &ToolSet) -> Option<ToolSpec> {
    let (pool, own_name) = name.split_once('.')?;
    let (spec, host) = reachable.find(own_name)?;
    (host.kind() == ToolKind::Worker && host.qualifier() == Some(pool)).then(|| spec.clone())
}

/// The tool under its own or its qualified name, whichever has the stricter approval rule. `None` if that rule denies
/// it.
fn permitted(own_name: &str, qualifier: &str, requested: &str, context: &NameContext<'_>) -> Option<ToolSpec> {
    let qualified = format!("{qualifier}.{own_name}");
    // If another tool has the plain name, that tool's rules do not apply here.
    let own = context.all.find(own_name).is_none().then_some(own_name);
    let mut names: Vec<&str> = own.into_iter().chain([&*qualified]).collect();
    // On a tie the caller gets the name that it used: `max_by_key` returns the last maximum.
    names.sort_by_key(|name| *name == requested);
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
        // Whether it streams is unknown before the call.
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

/// Whether a worker could have a tool of that name.
fn is_valid_name(name: &str) -> bool {
    let is_odd = |character: char| character.is_whitespace() || character.is_control();
    // Names with a leading underscore are private in Python.
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
