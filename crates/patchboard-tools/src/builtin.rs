//! The built-in tools: a table of them, and what they share.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchboard_core::id::SessionKey;
use patchboard_core::model::ToolCall;
use patchboard_core::port::ToolHost;
use patchboard_core::tool::{ToolOutput, ToolSpec};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

mod bench;
mod ls;
mod read;

use crate::folder::WorkFolder;
use bench::Workbench;

pub(crate) const KIND: &str = "builtin";

/// The built-in tools of one working folder, as one host of the registry.
#[derive(Debug)]
pub struct Builtins {
    tools: Vec<Box<dyn BuiltinTool>>,
    specs: Arc<[ToolSpec]>,
}

/// One tool. A new one is a file of its own and a line in `Builtins::new`.
pub(crate) trait BuiltinTool: Send + Sync + fmt::Debug {
    fn spec(&self) -> ToolSpec;

    /// `arguments` passed the schema of `spec`. Returns promptly when `stop` is cancelled.
    fn run<'a>(&'a self, arguments: &'a Value, stop: CancellationToken) -> BoxFuture<'a, ToolOutput>;
}

impl Builtins {
    /// Blocking work is spawned on `tasks`, so that a shutdown can wait for it.
    pub fn new(folder: WorkFolder, tasks: TaskTracker) -> Arc<Self> {
        let bench = Arc::new(Workbench::new(folder, tasks));
        Arc::new(Self::of(vec![Box::new(ls::Ls::new(bench.clone())), Box::new(read::Read::new(bench))]))
    }

    fn of(tools: Vec<Box<dyn BuiltinTool>>) -> Self {
        let specs = tools.iter().map(|tool| tool.spec()).collect();
        Self { tools, specs }
    }
}

impl ToolHost for Builtins {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn tools(&self) -> Arc<[ToolSpec]> {
        self.specs.clone()
    }

    fn call<'a>(
        &'a self,
        _session: &'a SessionKey,
        call: &'a ToolCall,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        let named = self.specs.iter().zip(&self.tools).find(|(spec, _)| spec.name == call.name);
        match named {
            Some((_, tool)) => tool.run(arguments, stop),
            None => Box::pin(std::future::ready(ToolOutput::error(format!("unknown tool: {}", call.name)))),
        }
    }
}

#[cfg(test)]
mod tests;
