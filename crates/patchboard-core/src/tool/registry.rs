//! One registry for tools of every kind. Nothing shadows: a name belongs to the first host that offered it.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Glob, ToolSpec};
use crate::error::{BoardError, ErrorKind};
use crate::port::ToolHost;
use crate::tokens;

/// Offers remembered: as many agents and folders as are commonly at work at once.
const REMEMBERED: usize = 32;

#[derive(Debug, Default)]
pub struct ToolRegistry {
    hosts: Vec<Arc<dyn ToolHost>>,
    /// Newest first. Every run asks, and the answer is nearly always the one before.
    recent: Mutex<VecDeque<Recent>>,
}

#[derive(Debug)]
struct Recent {
    allowed: Option<Vec<Glob>>,
    /// What the hosts had when it was put together.
    lists: Vec<Arc<[ToolSpec]>>,
    offer: Offer,
}

/// The tools one agent may use, as they were when its run began.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    pub specs: Arc<[ToolSpec]>,
    /// About how many tokens it takes to describe them to a model.
    pub tokens: u64,
    hosts: Arc<HashMap<Arc<str>, Arc<dyn ToolHost>>>,
}

impl ToolRegistry {
    /// Hosts in order of precedence; built-ins come first and so keep their names.
    pub fn new(hosts: Vec<Arc<dyn ToolHost>>) -> Self {
        Self { hosts, recent: Mutex::default() }
    }

    /// Approves what the host of that name has now; see `ToolHost::approve`.
    pub async fn approve(&self, server: &str) -> Result<Vec<Arc<str>>, BoardError> {
        for host in &self.hosts {
            if let Some(answer) = host.approve(server).await {
                return answer.map_err(|problem| BoardError::new(ErrorKind::Unavailable, problem));
            }
        }
        Err(BoardError::not_found(format!("no server of tools that are approved is named `{server}`")))
    }

    /// All tools by name, sorted. A later host's tool of a name already taken is left out and named in the log.
    pub fn offer(&self, allowed: Option<&[Glob]>, folder: Option<&Path>) -> Offer {
        let lists: Vec<Arc<[ToolSpec]>> = self.hosts.iter().map(|host| host.tools(folder)).collect();
        let is_it = |recent: &Recent| {
            recent.allowed.as_deref() == allowed
                && recent.lists.iter().zip(&lists).all(|(before, now)| Arc::ptr_eq(before, now))
        };
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = recent.iter().find(|recent| is_it(recent)) {
            return known.offer.clone();
        }
        let offer = self.put_together(allowed, &lists);
        recent.truncate(REMEMBERED - 1);
        recent.push_front(Recent { allowed: allowed.map(<[Glob]>::to_vec), lists, offer: offer.clone() });
        offer
    }

    fn put_together(&self, allowed: Option<&[Glob]>, lists: &[Arc<[ToolSpec]>]) -> Offer {
        let mut specs: Vec<ToolSpec> = Vec::new();
        let mut hosts: HashMap<Arc<str>, Arc<dyn ToolHost>> = HashMap::new();
        for (host, list) in self.hosts.iter().zip(lists) {
            for spec in list.iter() {
                if allowed.is_some_and(|globs| !globs.iter().any(|glob| glob.matches(&spec.name))) {
                    continue;
                }
                if hosts.contains_key(&spec.name) {
                    tracing::debug!(tool.name = %spec.name, host = host.kind(), "tool name is taken; this one is not offered");
                    continue;
                }
                hosts.insert(spec.name.clone(), host.clone());
                specs.push(spec.clone());
            }
        }
        specs.sort_by(|left, right| left.name.cmp(&right.name));
        let tokens = specs.iter().map(tokens::estimate_tool).sum();
        Offer { specs: specs.into(), tokens, hosts: Arc::new(hosts) }
    }
}

impl Offer {
    pub fn find(&self, name: &str) -> Option<(&ToolSpec, &Arc<dyn ToolHost>)> {
        let host = self.hosts.get(name)?;
        let spec = self.specs.binary_search_by(|spec| (*spec.name).cmp(name)).ok().and_then(|at| self.specs.get(at))?;
        Some((spec, host))
    }
}
