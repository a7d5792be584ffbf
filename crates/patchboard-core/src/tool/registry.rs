//! One registry for tools of every kind. Nothing shadows: a name belongs to the first host that offered it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::{Glob, ToolSpec};
use crate::error::{BoardError, ErrorKind};
use crate::port::ToolHost;

#[derive(Debug, Default)]
pub struct ToolRegistry {
    hosts: Vec<Arc<dyn ToolHost>>,
}

/// The tools one agent may use, as they were when its run began.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    pub specs: Arc<[ToolSpec]>,
    hosts: Arc<HashMap<Arc<str>, Arc<dyn ToolHost>>>,
}

impl ToolRegistry {
    /// Hosts in order of precedence; built-ins come first and so keep their names.
    pub fn new(hosts: Vec<Arc<dyn ToolHost>>) -> Self {
        Self { hosts }
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
        let mut specs: Vec<ToolSpec> = Vec::new();
        let mut hosts: HashMap<Arc<str>, Arc<dyn ToolHost>> = HashMap::new();
        for host in &self.hosts {
            for spec in host.tools(folder).iter() {
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
        Offer { specs: specs.into(), hosts: Arc::new(hosts) }
    }
}

impl Offer {
    pub fn find(&self, name: &str) -> Option<(&ToolSpec, &Arc<dyn ToolHost>)> {
        let host = self.hosts.get(name)?;
        let spec = self.specs.iter().find(|spec| &*spec.name == name)?;
        Some((spec, host))
    }
}
