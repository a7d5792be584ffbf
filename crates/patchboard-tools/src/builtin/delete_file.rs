//! `delete_file`: deletes a file, or with `recursive` a folder and its content.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchboard_core::port::ToolScope;
use patchboard_core::tool::{ToolEffect, ToolOutput, ToolSpec, UnknownOutcomePolicy};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::file_runtime::content::entry_target;
use super::file_runtime::{FileLocks, FileToolRuntime, ToolRefusal, flag_argument, text_argument};
use super::{BuiltinTool, TOOL_KIND};
use crate::folder::{EntryKind, WorkFolder};

#[derive(Debug)]
pub(crate) struct DeleteFileTool {
    runtime: Arc<FileToolRuntime>,
}

impl DeleteFileTool {
    pub(crate) fn new(bench: Arc<FileToolRuntime>) -> Self {
        Self { runtime: bench }
    }
}

impl BuiltinTool for DeleteFileTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "delete_file".into(),
            description: "Delete a file or an empty folder of the working folder; with `recursive` a folder and all that lies in \
                          it, up to 50000 entries. A symlink is deleted itself, not what it leads to. There is no way \
                          back."
                .into(),
            input_schema: Arc::new(json!({
                "type": "object",
                "properties": {
                    "path": {
                        "type": "string",
                        "minLength": 1,
                        "description": "What to delete, relative to the working folder."
                    },
                    "recursive": {
                        "type": "boolean",
                        "description": "Delete a folder with all that lies in it; false by default."
                    }
                },
                "required": ["path"],
                "additionalProperties": false
            })),
            effect: ToolEffect::Writes,
            // By a second attempt, the path may name something else.
            unknown_outcome: UnknownOutcomePolicy::Fail,
            kind: TOOL_KIND,
            traits: None,
            timeout: None,
        }
    }

    fn run<'a>(
        &'a self,
        scope: &'a ToolScope,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        let path = text_argument(arguments, "path").unwrap_or_default().to_owned();
        let reach = if flag_argument(arguments, "recursive") == Some(true) {
            DeleteScope::Recursive
        } else {
            DeleteScope::EntryOnly
        };
        let bench = self.runtime.clone();
        Box::pin(
            self.runtime.blocking(scope, stop, move |folder, stop| delete(bench.locks(), folder, &path, reach, stop)),
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeleteScope {
    EntryOnly,
    Recursive,
}

fn delete(
    turns: &FileLocks,
    folder: &WorkFolder,
    path: &str,
    reach: DeleteScope,
    stop: &CancellationToken,
) -> Result<String, ToolRefusal> {
    let (_turn, place) = turns.lock_targets(|| entry_target(folder, path), |place| vec![place])?;
    let holders = folder.protected_ancestors()?;
    if stop.is_cancelled() {
        return Err(ToolRefusal::cancelled());
    }
    match place.kind() {
        Some(EntryKind::Folder) if reach == DeleteScope::Recursive => place.delete_tree(&holders, stop)?,
        Some(_) => place.delete(&holders)?,
        None => return Err(ToolRefusal(format!("{} does not exist", place.display_path()))),
    }
    Ok("ok".to_owned())
}

#[cfg(test)]
mod tests;
