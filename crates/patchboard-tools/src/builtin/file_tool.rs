//! The definition of a file tool, and the adapter that runs its calls.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchboard_core::port::ToolScope;
use patchboard_core::tool::{ToolEffect, ToolOutput, ToolSpec, UnknownOutcomePolicy};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::file_runtime::{FileLocks, FileToolRuntime, ToolRefusal, flag_argument, integer_argument, text_argument};
use super::{BuiltinTool, TOOL_KIND};
use crate::folder::WorkFolder;

/// A tool that works in the folder of the call, on a blocking thread.
pub(super) struct FileTool {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) input_schema: Value,
    pub(super) effect: ToolEffect,
    pub(super) unknown_outcome: UnknownOutcomePolicy,
    /// Returns promptly when `stop` of the call is cancelled.
    pub(super) run: fn(&FileCall<'_>) -> Result<String, ToolRefusal>,
}

/// One call; its arguments have been checked against the schema.
pub(super) struct FileCall<'a> {
    pub(super) folder: &'a WorkFolder,
    pub(super) locks: &'a FileLocks,
    pub(super) arguments: &'a Value,
    pub(super) stop: &'a CancellationToken,
}

impl<'a> FileCall<'a> {
    /// A required argument.
    pub(super) fn text(&self, name: &str) -> &'a str {
        self.optional_text(name).unwrap_or_default()
    }

    pub(super) fn optional_text(&self, name: &str) -> Option<&'a str> {
        text_argument(self.arguments, name)
    }

    pub(super) fn integer(&self, name: &str) -> Option<u64> {
        integer_argument(self.arguments, name)
    }

    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        flag_argument(self.arguments, name)
    }

    /// Empty if left out.
    pub(super) fn list(&self, name: &str) -> &'a [Value] {
        self.arguments.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
}

/// A file tool with its runtime, as a built-in.
pub(super) struct HostedFileTool {
    tool: FileTool,
    spec: ToolSpec,
    runtime: Arc<FileToolRuntime>,
}

impl HostedFileTool {
    pub(super) fn new(tool: FileTool, runtime: Arc<FileToolRuntime>) -> Self {
        let spec = ToolSpec {
            name: tool.name.into(),
            description: tool.description.into(),
            input_schema: Arc::new(tool.input_schema.clone()),
            effect: tool.effect,
            unknown_outcome: tool.unknown_outcome,
            kind: TOOL_KIND,
            traits: None,
            timeout: None,
        };
        Self { tool, spec, runtime }
    }
}

impl BuiltinTool for HostedFileTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn run<'a>(
        &'a self,
        scope: &'a ToolScope,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        let (run, runtime, arguments) = (self.tool.run, self.runtime.clone(), arguments.clone());
        Box::pin(self.runtime.blocking(scope, stop, move |folder, stop| {
            run(&FileCall { folder, locks: runtime.locks(), arguments: &arguments, stop })
        }))
    }
}

impl fmt::Debug for HostedFileTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostedFileTool").field("name", &self.tool.name).finish_non_exhaustive()
    }
}
