//! `move_file`: moves or renames a file or folder.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchboard_core::port::ToolScope;
use patchboard_core::tool::{ToolEffect, ToolOutput, ToolSpec, UnknownOutcomePolicy};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::file_runtime::content::entry_target;
use super::file_runtime::{FileLocks, FileToolRuntime, ToolRefusal, text_argument};
use super::{BuiltinTool, TOOL_KIND};
use crate::folder::{EntryKind, WorkFolder};

#[derive(Debug)]
pub(crate) struct MoveFileTool {
    runtime: Arc<FileToolRuntime>,
}

impl MoveFileTool {
    pub(crate) fn new(bench: Arc<FileToolRuntime>) -> Self {
        Self { runtime: bench }
    }
}

impl BuiltinTool for MoveFileTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "move_file".into(),
            description:
                "Move or rename a file or folder of the working folder. `target` is the new path itself, not a folder \
                          to put it in, and nothing may be there yet; folders on the way to it are made. A symlink is \
                          moved itself, not what it leads to."
                    .into(),
            input_schema: Arc::new(json!({
                "type": "object",
                "properties": {
                    "source": {
                        "type": "string",
                        "minLength": 1,
                        "description": "What to move, relative to the working folder."
                    },
                    "target": {
                        "type": "string",
                        "minLength": 1,
                        "description": "Its new path, relative to the working folder."
                    }
                },
                "required": ["source", "target"],
                "additionalProperties": false
            })),
            effect: ToolEffect::Writes,
            // By a second attempt, the source is gone or names something else.
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
        let source = text_argument(arguments, "source").unwrap_or_default().to_owned();
        let target = text_argument(arguments, "target").unwrap_or_default().to_owned();
        let bench = self.runtime.clone();
        Box::pin(
            self.runtime
                .blocking(scope, stop, move |folder, stop| move_entry(bench.locks(), folder, &source, &target, stop)),
        )
    }
}

fn move_entry(
    turns: &FileLocks,
    folder: &WorkFolder,
    source: &str,
    target: &str,
    stop: &CancellationToken,
) -> Result<String, ToolRefusal> {
    let look = || Ok((entry_target(folder, source)?, entry_target(folder, target)?));
    let (_turn, (from, to)) = turns.lock_targets(look, |(from, to)| vec![from, to])?;
    if from.kind().is_none() {
        return Err(ToolRefusal(format!("{} does not exist", from.display_path())));
    }
    if from.lock_key() == to.lock_key() {
        return Err(ToolRefusal(format!("`source` and `target` are both {}", from.display_path())));
    }
    match to.kind() {
        Some(EntryKind::Folder) => {
            return Err(ToolRefusal(format!("{} is a folder: name the new path in it", to.display_path())));
        }
        Some(_) => return Err(ToolRefusal(format!("{} already exists", to.display_path()))),
        None => {}
    }
    if stop.is_cancelled() {
        return Err(ToolRefusal::cancelled());
    }
    from.move_to(&to, &folder.protected_ancestors()?)?;
    Ok("ok".to_owned())
}

#[cfg(test)]
mod tests;
