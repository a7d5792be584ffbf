//! The built-in tools: their table, and what they share.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use patchboard_core::model::ToolCall;
use patchboard_core::port::ToolHost;
use patchboard_core::port::ToolScope;
use patchboard_core::tool::{ToolEffect, ToolKind, ToolOutput, ToolSpec};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

mod apply_patch;
#[cfg(target_os = "linux")]
mod bash;
mod create_dir;
mod delete_file;
mod edit;
mod file_runtime;
mod file_scan;
mod file_tool;
mod glob;
mod grep;
mod ignore_rules;
mod ls;
mod matching;
mod move_file;
mod multiedit;
mod pattern;
mod read;
mod search;
mod skill;
mod web_fetcher;
mod write_file;

use crate::guard::{FileSealing, WriteGuard, WriteReach};
use crate::workspaces::Workspaces;
use file_runtime::FileToolRuntime;
use file_tool::HostedFileTool;

#[cfg(target_os = "linux")]
pub use bash::{BashOptions, bash};
pub use search::{SearchEndpoint, SearchKind, SearchOptions, codesearch, websearch};
pub use web_fetcher::web_fetcher;

pub(crate) const TOOL_KIND: ToolKind = ToolKind::BuiltIn;

/// The built-in tools, as one host of the tool registry.
#[derive(Debug)]
pub struct BuiltinTools {
    tools: Vec<Box<dyn BuiltinTool>>,
    specs: Arc<[ToolSpec]>,
    folder_specs: Mutex<VecDeque<FolderSpecs>>,
    guard: Option<ToolGuard>,
}

/// Calls the write guard before tools that write.
#[derive(Debug, Clone)]
struct ToolGuard {
    guard: Arc<dyn WriteGuard>,
    workspaces: Workspaces,
}

/// Specs of a folder, as of the time `at`.
#[derive(Debug)]
struct FolderSpecs {
    folder: Option<PathBuf>,
    at: Instant,
    specs: Arc<[ToolSpec]>,
}

impl FolderSpecs {
    fn is_of(&self, folder: Option<&Path>) -> bool {
        self.folder.as_deref() == folder
    }
}

/// A folder's specs are cached this long: every turn asks for them, and what a folder adds is only a hint for the
/// model.
const SPEC_CACHE_TTL: Duration = Duration::from_secs(1);
const MAX_CACHED_FOLDERS: usize = 64;

#[derive(Debug, Clone)]
pub struct BuiltinOptions {
    pub workspaces: Workspaces,
    /// Blocking work is spawned here, so that a shutdown can wait for it.
    pub tasks: TaskTracker,
}

/// A built-in tool that not every server has, made by its own constructor and added with `BuiltinTools::with`.
#[derive(Debug)]
pub struct BoxedBuiltin(Box<dyn BuiltinTool>);

/// One tool. A new tool is a file of its own and a line in `BuiltinTools::new`, or a constructor that returns a
/// `BoxedBuiltin`.
pub(crate) trait BuiltinTool: Send + Sync + fmt::Debug {
    fn spec(&self) -> ToolSpec;

    /// The spec with this folder's additions; `None` if there are none. Must be cheap: called for every run.
    fn spec_in(&self, _folder: Option<&Path>) -> Option<ToolSpec> {
        None
    }

    /// `arguments` passed the schema of `spec`. Returns promptly when `stop` is cancelled.
    fn run<'a>(
        &'a self,
        scope: &'a ToolScope,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput>;
}

impl BoxedBuiltin {
    pub(crate) fn new(tool: impl BuiltinTool + 'static) -> Self {
        Self(Box::new(tool))
    }
}

impl BuiltinTools {
    /// The file tools.
    pub fn new(options: BuiltinOptions) -> Self {
        let runtime = Arc::new(FileToolRuntime::new(options.workspaces, options.tasks));
        let hosted = |tool| -> Box<dyn BuiltinTool> { Box::new(HostedFileTool::new(tool, runtime.clone())) };
        Self::of(vec![
            hosted(apply_patch::tool()),
            hosted(create_dir::tool()),
            hosted(delete_file::tool()),
            hosted(edit::tool()),
            hosted(glob::tool()),
            hosted(grep::tool()),
            hosted(ls::tool()),
            hosted(move_file::tool()),
            hosted(multiedit::tool()),
            hosted(read::tool()),
            Box::new(skill::SkillTool::new(runtime.clone())),
            hosted(write_file::tool()),
        ])
    }

    /// Adds a tool.
    pub fn with(mut self, tool: BoxedBuiltin) -> Self {
        self.tools.push(tool.0);
        Self { guard: self.guard, ..Self::of(self.tools) }
    }

    /// Sets the guard that is called before every call of a tool that writes files.
    #[must_use]
    pub fn guarded_by(self, guard: Arc<dyn WriteGuard>, workspaces: Workspaces) -> Self {
        Self { guard: Some(ToolGuard { guard, workspaces }), ..self }
    }

    fn folder_specs(&self) -> MutexGuard<'_, VecDeque<FolderSpecs>> {
        self.folder_specs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tools_in(&self, folder: Option<&Path>) -> Arc<[ToolSpec]> {
        let special: Vec<_> = self.tools.iter().map(|tool| tool.spec_in(folder)).collect();
        if special.iter().all(Option::is_none) {
            return self.specs.clone();
        }
        let usual = self.specs.iter().cloned();
        special.into_iter().zip(usual).map(|(special, usual)| special.unwrap_or(usual)).collect()
    }

    fn of(tools: Vec<Box<dyn BuiltinTool>>) -> Self {
        let specs = tools.iter().map(|tool| tool.spec()).collect();
        Self { tools, specs, folder_specs: Mutex::default(), guard: None }
    }
}

impl ToolHost for BuiltinTools {
    fn kind(&self) -> ToolKind {
        TOOL_KIND
    }

    fn tools(&self, folder: Option<&Path>) -> Arc<[ToolSpec]> {
        let now = Instant::now();
        if let Some(fresh) =
            self.folder_specs().iter().find(|seen| seen.is_of(folder) && now.duration_since(seen.at) < SPEC_CACHE_TTL)
        {
            return fresh.specs.clone();
        }
        // Computed without the lock, so that a hanging file system blocks only calls in that folder.
        let specs = self.tools_in(folder);
        let mut seen = self.folder_specs();
        if let Some(known) = seen.iter_mut().find(|seen| seen.is_of(folder)) {
            known.at = now;
            // An equal list keeps its allocation, so that callers can compare by pointer.
            if known.specs != specs {
                known.specs = specs;
            }
            return known.specs.clone();
        }
        seen.truncate(MAX_CACHED_FOLDERS - 1);
        seen.push_front(FolderSpecs { folder: folder.map(Path::to_owned), at: now, specs: specs.clone() });
        specs
    }

    fn call<'a>(
        &'a self,
        scope: &'a ToolScope,
        call: &'a ToolCall,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        let named = self.specs.iter().zip(&self.tools).find(|(spec, _)| spec.name == call.name);
        match named {
            Some((spec, tool)) => {
                let guard = self.guard.as_ref().filter(|_| spec.effect == ToolEffect::Writes);
                Box::pin(async move {
                    if let Some(guard) = guard
                        && let Err(reason) = guard.before_write(scope).await
                    {
                        return ToolOutput::error(reason);
                    }
                    tool.run(scope, arguments, stop).await
                })
            }
            None => Box::pin(std::future::ready(ToolOutput::error(format!("unknown tool: {}", call.name)))),
        }
    }
}

impl ToolGuard {
    /// File tools refuse configuration files by name, but not workers' scripts and the files beside them; the guard
    /// covers those.
    async fn before_write(&self, scope: &ToolScope) -> Result<(), String> {
        let folder = scope.folder.as_deref().unwrap_or(self.workspaces.working_folder()).to_owned();
        let guard = self.guard.clone();
        let reach = WriteReach { roots: vec![folder], sealed_by: FileSealing::Sealed };
        let asked = tokio::task::spawn_blocking(move || guard.before_write(&reach));
        asked.await.unwrap_or_else(|error| Err(error.to_string())).map(drop)
    }
}

#[cfg(test)]
mod tests;
