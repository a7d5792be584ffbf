//! One registry for tools of every kind. There is no shadowing: a name belongs to the first host that offers it.

use std::collections::{HashSet, VecDeque};
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use futures_core::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::inputs::ClientTools;
use super::{CallContext, ContextToolHost};
use crate::error::{BoardError, ErrorKind};
use crate::extensions::{McpServerState, ToolChangeReport};
use crate::model::ToolCall;
use crate::port::{ToolHost, ToolScope};
use crate::run_spec::ClientToolSpec;
use crate::tokens;
use crate::tool::{Glob, ToolKind, ToolOutput, ToolSpec};

/// Cached tool sets; about as many combinations of agent and folder are commonly in use at once.
const MAX_CACHED: usize = 32;

#[derive(Debug, Default)]
pub struct ToolRegistry {
    hosts: Vec<RegisteredHost>,
    /// Newest first: consecutive runs nearly always use the same set.
    cache: Mutex<VecDeque<CachedToolSet>>,
}

#[derive(Debug)]
struct CachedToolSet {
    allowed: Option<Vec<Glob>>,
    /// Are the tools made for programs included?
    for_programs: bool,
    /// The hosts' lists it was assembled from, compared by pointer.
    host_tools: Vec<Arc<[ToolSpec]>>,
    tool_set: ToolSet,
}

/// A host as the registry holds it.
#[derive(Debug, Clone)]
pub enum RegisteredHost {
    Plain(Arc<dyn ToolHost>),
    Contextual(Arc<dyn ContextToolHost>),
}

impl Deref for RegisteredHost {
    type Target = dyn ToolHost;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Plain(host) => &**host,
            Self::Contextual(host) => &**host,
        }
    }
}

impl RegisteredHost {
    /// Whether its calls may make further calls, in their own context.
    pub(super) fn uses_context(&self) -> bool {
        matches!(self, Self::Contextual(_))
    }

    pub(super) fn call_in<'a>(
        &'a self,
        context: &'a CallContext,
        scope: &'a ToolScope,
        call: &'a ToolCall,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        match self {
            Self::Plain(host) => host.call(scope, call, arguments, stop),
            Self::Contextual(host) => host.call_with_context(context, scope, call, arguments, stop),
        }
    }
}

/// The tools one agent may use, as of the start of its run.
#[derive(Debug, Clone, Default)]
pub struct ToolSet {
    pub specs: Arc<[ToolSpec]>,
    /// Estimated tokens of the schemas in a model request.
    pub tokens: u64,
    /// The host of each tool in `specs`.
    hosts: Arc<[RegisteredHost]>,
}

/// Prefixes reserved for one kind of tool, so that a tool registered later does not find its name taken.
const RESERVED_PREFIXES: [(&str, ToolKind); 2] = [("app.", ToolKind::App), ("agent.", ToolKind::Agent)];

impl ToolRegistry {
    /// Hosts in order of precedence: built-ins come first, so no other host can take their names.
    pub fn new(hosts: Vec<RegisteredHost>) -> Self {
        Self { hosts, cache: Mutex::default() }
    }

    /// Approves the current tools of the server of that name; see `ToolHost::approve`.
    pub async fn approve(&self, server: &str) -> Result<Vec<Arc<str>>, BoardError> {
        for host in &self.hosts {
            if let Some(answer) = host.approve(server).await {
                return answer.map_err(|problem| BoardError::new(ErrorKind::Unavailable, problem));
            }
        }
        Err(BoardError::not_found(format!("no server of tools that are approved is named `{server}`")))
    }

    /// Tools of all hosts that wait for approval.
    pub fn pending_changes(&self) -> Vec<ToolChangeReport> {
        self.hosts.iter().flat_map(|host| host.pending_changes()).collect()
    }

    pub fn mcp_servers(&self) -> Vec<McpServerState> {
        self.hosts.iter().filter_map(|host| host.mcp_server()).collect()
    }

    /// All tools, sorted by name. A later host's tool whose name is taken gets a qualified name; if it cannot have one,
    /// it is skipped and logged.
    pub fn tool_set(&self, allowed: Option<&[Glob]>, folder: Option<&Path>) -> ToolSet {
        self.cached_tool_set(allowed, true, folder)
    }

    /// The tools of an agent: those it lists or, without a list, all but the tools made for programs, because every
    /// tool costs tokens in every call.
    pub fn tool_set_for_agent(&self, listed: Option<&[Glob]>, folder: Option<&Path>) -> ToolSet {
        self.cached_tool_set(listed, listed.is_some(), folder)
    }

    fn cached_tool_set(&self, allowed: Option<&[Glob]>, for_programs: bool, folder: Option<&Path>) -> ToolSet {
        let host_tools: Vec<Arc<[ToolSpec]>> = self.hosts.iter().map(|host| host.tools(folder)).collect();
        let is_current = |cached: &CachedToolSet| {
            cached.allowed.as_deref() == allowed
                && cached.for_programs == for_programs
                && cached.host_tools.iter().zip(&host_tools).all(|(before, now)| Arc::ptr_eq(before, now))
        };
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = cache.iter().find(|cached| is_current(cached)) {
            return known.tool_set.clone();
        }
        let tool_set = self.assemble(allowed, for_programs, &host_tools);
        cache.truncate(MAX_CACHED - 1);
        let allowed = allowed.map(<[Glob]>::to_vec);
        cache.push_front(CachedToolSet { allowed, for_programs, host_tools, tool_set: tool_set.clone() });
        tool_set
    }

    fn assemble(&self, allowed: Option<&[Glob]>, for_programs: bool, host_tools: &[Arc<[ToolSpec]>]) -> ToolSet {
        let mut taken_names: HashSet<Arc<str>> = HashSet::new();
        let mut tools: Vec<(ToolSpec, RegisteredHost)> = Vec::new();
        for (host, list) in self.hosts.iter().zip(host_tools) {
            for spec in list.iter() {
                let Some(spec) = with_free_name(spec, &**host, &taken_names) else {
                    tracing::debug!(tool.name = %spec.name, host = host.kind().name(), "tool name is taken; this one is not offered");
                    continue;
                };
                // Tools that are filtered out take their name too, so that a tool has the same name for every agent.
                taken_names.insert(spec.name.clone());
                let is_offered = for_programs || !host.is_for_programs();
                if is_offered && allowed.is_none_or(|globs| globs.iter().any(|glob| glob.matches(&spec.name))) {
                    tools.push((spec, host.clone()));
                }
            }
        }
        tools.sort_by(|(left, _), (right, _)| left.name.cmp(&right.name));
        ToolSet::from_tools(tools)
    }
}

/// The tool under its own or its qualified name, whichever is neither taken nor reserved.
fn with_free_name(spec: &ToolSpec, host: &dyn ToolHost, taken_names: &HashSet<Arc<str>>) -> Option<ToolSpec> {
    let is_free = |name: &str| {
        let is_reserved =
            RESERVED_PREFIXES.iter().any(|(prefix, kind)| name.starts_with(prefix) && host.kind() != *kind);
        !is_reserved && !taken_names.contains(name)
    };
    if is_free(&spec.name) {
        return Some(spec.clone());
    }
    let name: Arc<str> = format!("{}.{}", host.qualifier_for(spec)?, spec.name).into();
    is_free(&name).then(|| ToolSpec { name, ..spec.clone() })
}

impl ToolSet {
    /// `tools` must be sorted by name.
    fn from_tools(tools: Vec<(ToolSpec, RegisteredHost)>) -> Self {
        let tokens = tools.iter().map(|(spec, _)| tokens::estimate_tool(spec)).sum();
        let (specs, hosts): (Vec<ToolSpec>, Vec<RegisteredHost>) = tools.into_iter().unzip();
        Self { specs: specs.into(), tokens, hosts: hosts.into() }
    }

    /// A set of one tool that is in no registry.
    pub(crate) fn single(spec: ToolSpec, host: RegisteredHost) -> Self {
        Self::from_tools(vec![(spec, host)])
    }

    /// This set and the tools of a client. A name that is taken already, or twice, is the error.
    pub(crate) fn with_client_tools(&self, tools: &[ClientToolSpec]) -> Result<Self, Arc<str>> {
        if tools.is_empty() {
            return Ok(self.clone());
        }
        let host = RegisteredHost::Plain(Arc::new(ClientTools));
        let own = self.specs.iter().cloned().zip(self.hosts.iter().cloned());
        let of_client = tools.iter().map(|tool| (ClientTools::spec(tool), host.clone()));
        let mut all: Vec<(ToolSpec, RegisteredHost)> = own.chain(of_client).collect();
        all.sort_by(|(left, _), (right, _)| left.name.cmp(&right.name));
        let twice = all.windows(2).find_map(|pair| match pair {
            [(left, _), (right, _)] if left.name == right.name => Some(left.name.clone()),
            _ => None,
        });
        match twice {
            Some(name) => Err(name),
            None => Ok(Self::from_tools(all)),
        }
    }

    pub fn find(&self, name: &str) -> Option<(&ToolSpec, &RegisteredHost)> {
        let index = self.specs.binary_search_by(|spec| (*spec.name).cmp(name)).ok()?;
        Some((self.specs.get(index)?, self.hosts.get(index)?))
    }

    /// The tools for which `predicate` returns true.
    #[must_use]
    pub fn filter(&self, predicate: impl Fn(&ToolSpec) -> bool) -> Self {
        let all = self.specs.iter().zip(self.hosts.iter());
        Self::from_tools(
            all.filter(|(spec, _)| predicate(spec)).map(|(spec, host)| (spec.clone(), host.clone())).collect(),
        )
    }

    /// Is it a clone of the same set, not one assembled separately?
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.specs, &other.specs)
    }
}

#[cfg(test)]
mod tests;
